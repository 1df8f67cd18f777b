//! Columns to which an UPDATE adds, while nothing else follows from their values. Such updates commute: a
//! transaction whose row has moved on adds to the value that it finds when it commits.
//! Source: escrow transactional method (O'Neil, TODS 1986). Differs: no bound is tested ahead; a sum that its
//! column can't hold is a lost race, and the next attempt fails with the error.

use crate::{Access, ArithmeticOperator, Cast, Check, Expression, NumberClass, Register};
use catalog::exact_bounds;
use std::ops::RangeInclusive;

/// Returns the columns to which an UPDATE adds: their new values are sums of the old ones and of values that
/// do not depend on them, and no index, check, condition or result uses either.
pub fn added_columns(
    access: &Access,
    assignments: &[(usize, Register, Expression)],
    checks: &[Check],
    returning: &[(Register, Expression)],
) -> Vec<usize> {
    if !access.is_point() || !access.choices.is_empty() {
        return Vec::new();
    }
    let is_added = |(column, new, value): &&(usize, Register, Expression)| {
        let table = &access.table;
        let is_key = table.indexes.iter().any(|index| index.columns.contains(column));
        let Some(place) = access.columns.iter().position(|own| own == column) else { return false };
        let bounds = table.columns[*column].ty.scalar().and_then(exact_bounds).filter(|_| !is_key);
        let Some((least, most)) = bounds else { return false };
        let old = Register(access.registers.0 + place as u32);
        let Some(addend) = addend(value, old, least..=most) else { return false };
        let further = assignments.iter().filter(|(own, ..)| own != column).map(|(.., value)| value);
        let checks = checks.iter().map(|check| &check.condition);
        let results = returning.iter().map(|(_, value)| value);
        let mut all = further.chain(checks).chain(results).chain(&access.filter).chain([addend]);
        !all.any(|expression| uses(expression, old) || uses(expression, *new))
    };
    assignments.iter().filter(is_added).map(|(column, ..)| *column).collect()
}

fn uses(expression: &Expression, register: Register) -> bool {
    let mut found = false;
    expression.walk(&mut |part| found |= *part == Expression::Register(register));
    found
}

/// Returns what an expression adds to a register, or subtracts from it: without rounding, and with the bounds
/// of the column, which the commit checks again.
fn addend(value: &Expression, register: Register, bounds: RangeInclusive<i64>) -> Option<&Expression> {
    let value = match value {
        Expression::Cast { cast, operand } => {
            let own = match *cast {
                Cast::Range { least, most, .. } => least..=most,
                Cast::Rescale { multiply: 1, divide: 1, limit } => 1 - limit..=limit - 1,
                _ => return None,
            };
            Some(&**operand).filter(|_| own == bounds)?
        }
        value => value,
    };
    let Expression::Arithmetic { operator, class, operands } = value else { return None };
    let (left_factor, right_factor) = match class {
        NumberClass::Int { .. } => (1, 1),
        NumberClass::Machine { left_factor, right_factor } => (*left_factor, *right_factor),
        _ => return None,
    };
    let [left, right] = &**operands;
    let own = Expression::Register(register);
    match operator {
        ArithmeticOperator::Add if *left == own && left_factor == 1 => Some(right),
        ArithmeticOperator::Add if *right == own && right_factor == 1 => Some(left),
        ArithmeticOperator::Subtract if *left == own && left_factor == 1 => Some(right),
        _ => None,
    }
}
