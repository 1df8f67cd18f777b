//! Columns to which an UPDATE adds, while nothing else depends on their values. Such updates commute: if
//! another transaction has changed the row, this one adds to the value that it finds when it commits.
//! Source: escrow transactional method (O'Neil, TODS 1986). Differs: no bound is tested ahead. If
//! the column can't hold the sum at the commit, the attempt is retried, and the next one fails with the
//! error.

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
        let Some(index) = access.columns.iter().position(|known| known == column) else { return false };
        let bounds = table.columns[*column].ty.scalar().and_then(exact_bounds).filter(|_| !is_key);
        let Some((least, most)) = bounds else { return false };
        let old = Register(access.registers.0 + index as u32);
        let Some(addend) = addend(value, old, least..=most) else { return false };
        let further = assignments.iter().filter(|(other, ..)| other != column).map(|(.., value)| value);
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

/// Returns the value that an expression adds to a register, or subtracts from it. The sum is not rounded, and
/// has the bounds of the column, which the commit checks again.
fn addend(value: &Expression, register: Register, bounds: RangeInclusive<i64>) -> Option<&Expression> {
    let value = match value {
        Expression::Cast { cast, operand } => {
            let limits = match *cast {
                Cast::Range { least, most, .. } => least..=most,
                Cast::Rescale { multiply: 1, divide: 1, limit, .. } => 1 - limit..=limit - 1,
                _ => return None,
            };
            Some(&**operand).filter(|_| limits == bounds)?
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
    let operand = Expression::Register(register);
    match operator {
        ArithmeticOperator::Add if *left == operand && left_factor == 1 => Some(right),
        ArithmeticOperator::Add if *right == operand && right_factor == 1 => Some(left),
        ArithmeticOperator::Subtract if *left == operand && left_factor == 1 => Some(right),
        _ => None,
    }
}
