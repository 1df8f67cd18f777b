//! Pure expressions over registers, typed when they are bound.
//!
//! The static type decides how a number is represented (`catalog::Datum`). A class carries the facts that the
//! evaluation needs, so it never looks at a type. NULL operands give NULL, except in AND, OR, IS NULL, CASE
//! and similar expressions.

use super::compare::{CompareClass, CompareOperator, are_distinct, compare};
use super::domain_value::DomainValue;
use crate::{Cast, Function, Machine, Quantifier, SqlError, Watched};
use catalog::{Arena, Datum, Numeric, date_plus, is_finite_date};
use std::sync::Arc;

/// A register of a procedure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register(pub u32);

/// `+ - * / %`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArithmeticOperator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

impl ArithmeticOperator {
    /// Returns how the operator is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

/// How operands of arithmetic are represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberClass {
    /// Integers; the result must lie between the bounds.
    Int {
        /// Least value of the result's type.
        least: i64,
        /// Greatest value of the result's type.
        most: i64,
    },
    /// Scaled integers whose result is known to fit a scaled integer, so that no check is needed.
    Machine {
        /// Factor by which the left operand is multiplied first.
        left_factor: i64,
        /// Factor by which the right operand is multiplied first.
        right_factor: i64,
    },
    /// Decimals of any size.
    Decimal {
        /// Digits after the point of the left operand, if it is a scaled integer.
        left_scale: u8,
        /// Digits after the point of the right operand, if it is a scaled integer.
        right_scale: u8,
    },
    /// Doubles.
    Double,
    /// Doubles that are values of REAL, as is the result.
    Real,
    /// A date and a number of days: `date + days`, `date - days`.
    Date,
    /// Two dates: `date - date`.
    Days,
}

/// The result of an expression. An expression reads no table, so it meets no conflict.
pub type Evaluated = Result<Datum, Box<SqlError>>;

/// An expression.
// With this representation the kind is a separate byte, so reading it is one load.
#[repr(u8)]
#[derive(Clone, PartialEq, Debug)]
pub enum Expression {
    /// NULL, an integer or a double.
    Constant(Datum),
    /// Text or other bytes.
    Bytes(Arc<[u8]>),
    /// A decimal.
    Numeric(Numeric),
    /// A register's value.
    Register(Register),
    /// Arithmetic.
    Arithmetic {
        /// The operator.
        operator: ArithmeticOperator,
        /// How operands are represented.
        class: NumberClass,
        /// Operands.
        operands: Box<[Expression; 2]>,
    },
    /// A comparison.
    Compare {
        /// The operator.
        operator: CompareOperator,
        /// How operands are represented.
        class: CompareClass,
        /// Operands.
        operands: Box<[Expression; 2]>,
    },
    /// `IS [NOT] DISTINCT FROM`: equality in which NULL equals NULL.
    Distinct {
        /// How operands are represented.
        class: CompareClass,
        /// Operands.
        operands: Box<[Expression; 2]>,
    },
    /// AND.
    And(Box<[Expression; 2]>),
    /// OR.
    Or(Box<[Expression; 2]>),
    /// NOT.
    Not(Box<Expression>),
    /// IS NULL.
    IsNull(Box<Expression>),
    /// A conversion.
    Cast {
        /// The conversion.
        cast: Cast,
        /// The value that is converted.
        operand: Box<Expression>,
    },
    /// CASE with conditions.
    Case {
        /// Condition and value.
        branches: Vec<(Expression, Expression)>,
        /// ELSE.
        otherwise: Box<Expression>,
    },
    /// COALESCE.
    Coalesce(Vec<Expression>),
    /// `array[index]`.
    Element(Box<[Expression; 2]>),
    /// ARRAY[…].
    Array(Vec<Expression>),
    /// `value operator ANY (array)`, or ALL.
    Quantified {
        /// The comparison of the value with each element.
        quantifier: Quantifier,
        /// Value and array.
        operands: Box<[Expression; 2]>,
    },
    /// A built-in function.
    Function {
        /// The function.
        function: Function,
        /// Its arguments.
        arguments: Vec<Expression>,
    },
    /// A value that must meet the constraints of a domain.
    Domain(Box<DomainValue>),
    /// The value that a constraint of a domain is about.
    Value,
    /// An expression that is compiled once it is hot.
    Watched(Arc<Watched>),
}

/// Joins operands to a balanced tree: each node joins the first half of its operands with the second half.
fn balanced(
    mut operands: Vec<Expression>,
    join: &impl Fn(Box<[Expression; 2]>) -> Expression,
) -> Option<Expression> {
    if operands.len() < 2 {
        return operands.pop();
    }
    let second = operands.split_off(operands.len() / 2);
    Some(join(Box::new([balanced(operands, join)?, balanced(second, join)?])))
}

impl Expression {
    /// NULL.
    pub const NULL: Self = Self::Constant(Datum::Null);

    /// Returns TRUE or FALSE.
    pub fn boolean(value: bool) -> Self {
        Self::Constant(Datum::boolean(value))
    }

    /// Returns the conjunction of conditions; TRUE when there are none. They are evaluated in order until one
    /// does not hold. The depth of the expression is logarithmic.
    pub fn all(conditions: Vec<Self>) -> Self {
        balanced(conditions, &Self::And).unwrap_or(Self::boolean(true))
    }

    /// Returns the disjunction of conditions; FALSE when there are none. They are evaluated in order until
    /// one holds. The depth of the expression is logarithmic.
    pub fn any(conditions: Vec<Self>) -> Self {
        balanced(conditions, &Self::Or).unwrap_or(Self::boolean(false))
    }

    /// Returns a text constant.
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }

    /// Visits this expression and all below it.
    pub fn walk(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        self.operands().into_iter().for_each(|operand| operand.walk(visit));
    }

    /// Returns its direct operands, in the order in which they are evaluated.
    pub fn operands(&self) -> Vec<&Self> {
        match self {
            Self::Register(_) | Self::Constant(_) | Self::Bytes(_) | Self::Numeric(_) | Self::Value => {
                Vec::new()
            }
            Self::Domain(own) => {
                let conditions = own.constraints.iter().map(|constraint| &constraint.condition);
                std::iter::once(&own.operand).chain(conditions).collect()
            }
            Self::Arithmetic { operands, .. }
            | Self::Compare { operands, .. }
            | Self::Distinct { operands, .. }
            | Self::And(operands)
            | Self::Or(operands)
            | Self::Element(operands)
            | Self::Quantified { operands, .. } => operands.iter().collect(),
            Self::Not(operand) | Self::IsNull(operand) | Self::Cast { operand, .. } => vec![operand],
            Self::Watched(watched) => vec![&watched.expression],
            Self::Case { branches, otherwise } => {
                let branches = branches.iter().flat_map(|(condition, value)| [condition, value]);
                branches.chain([&**otherwise]).collect()
            }
            Self::Coalesce(items) | Self::Array(items) | Self::Function { arguments: items, .. } => {
                items.iter().collect()
            }
        }
    }

    /// Returns the register and the number of `register = number`.
    #[inline]
    pub(crate) fn compared_to_constant(&self) -> Option<(Register, i64)> {
        let Self::Compare { operator: CompareOperator::Equal, class: CompareClass::Int, operands } = self
        else {
            return None;
        };
        match &**operands {
            [Self::Register(register), Self::Constant(Datum::Int(constant))] => Some((*register, *constant)),
            _ => None,
        }
    }

    /// Returns whether its value is always the same: it reads no register, no time, no random number and no
    /// time zone.
    pub fn is_constant(&self) -> bool {
        let mut constant = !self.depends_on_zone();
        self.walk(&mut |part| {
            constant &= match part {
                // As in PostgreSQL, a value is converted to a domain when a statement runs.
                Self::Register(_) | Self::Value | Self::Domain(_) => false,
                Self::Function { function, .. } => !function.depends_on_call(),
                _ => true,
            };
        });
        constant
    }

    /// Returns whether its value depends on the zone of the session.
    pub fn depends_on_zone(&self) -> bool {
        let mut depends = false;
        self.walk(&mut |part| {
            depends |= match part {
                Self::Cast { cast, .. } => cast.depends_on_zone(),
                Self::Function { function, .. } => function.depends_on_zone(),
                _ => false,
            };
        });
        depends
    }

    /// Returns the value of the expression.
    ///
    /// # Errors
    /// Overflow, division by zero, values that do not fit a type.
    #[inline(always)]
    pub fn evaluate(&self, machine: &mut Machine) -> Evaluated {
        // Half of all expressions are of these two kinds, so they are evaluated inline, without a call.
        match self {
            Self::Register(register) => Ok(machine.get(*register)),
            Self::Constant(datum) => Ok(*datum),
            _ => self.evaluate_inner(machine),
        }
    }

    fn evaluate_inner(&self, machine: &mut Machine) -> Evaluated {
        match self {
            Self::Element(operands) => {
                let array = operands[0].evaluate(machine)?;
                let index = operands[1].evaluate(machine)?;
                Ok(element(array, index, &machine.frame.arena))
            }
            Self::Cast { cast, operand } => {
                let value = operand.evaluate(machine)?;
                Ok(cast.apply(value, &mut machine.frame.arena)?)
            }
            Self::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    if condition.evaluate(machine)?.is_true() {
                        return value.evaluate(machine);
                    }
                }
                otherwise.evaluate(machine)
            }
            Self::Arithmetic { operator, class, operands } => {
                let left = operands[0].evaluate(machine)?;
                let right = operands[1].evaluate(machine)?;
                arithmetic(*operator, *class, left, right, machine)
            }
            Self::Compare { operator, class, operands } => {
                let left = operands[0].evaluate(machine)?;
                let right = operands[1].evaluate(machine)?;
                if left.is_null() || right.is_null() {
                    return Ok(Datum::Null);
                }
                Ok(Datum::boolean(operator.holds(compare(*class, left, right, &machine.frame.arena))))
            }
            _ => self.evaluate_uncommon(machine),
        }
    }

    fn evaluate_uncommon(&self, machine: &mut Machine) -> Evaluated {
        match self {
            Self::Constant(_)
            | Self::Register(_)
            | Self::Element(_)
            | Self::Cast { .. }
            | Self::Case { .. }
            | Self::Arithmetic { .. }
            | Self::Compare { .. } => self.evaluate(machine),
            Self::Bytes(bytes) => Ok(machine.frame.arena.push_bytes(bytes)),
            Self::Numeric(value) => Ok(machine.frame.arena.push_numeric(value.clone())),
            Self::Distinct { class, operands } => {
                let left = operands[0].evaluate(machine)?;
                let right = operands[1].evaluate(machine)?;
                Ok(Datum::boolean(are_distinct(*class, left, right, &machine.frame.arena)))
            }
            Self::And(operands) => {
                let left = operands[0].evaluate(machine)?;
                if left == Datum::Int(0) {
                    return Ok(left);
                }
                let right = operands[1].evaluate(machine)?;
                Ok(if right == Datum::Int(0) || !left.is_null() { right } else { Datum::Null })
            }
            Self::Or(operands) => {
                let left = operands[0].evaluate(machine)?;
                if left.is_true() {
                    return Ok(left);
                }
                let right = operands[1].evaluate(machine)?;
                Ok(if right.is_true() || !left.is_null() { right } else { Datum::Null })
            }
            Self::Not(operand) => Ok(match operand.evaluate(machine)? {
                Datum::Null => Datum::Null,
                value => Datum::boolean(!value.is_true()),
            }),
            Self::IsNull(operand) => Ok(Datum::boolean(operand.evaluate(machine)?.is_null())),
            Self::Coalesce(items) => {
                for item in items {
                    let value = item.evaluate(machine)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Datum::Null)
            }
            Self::Array(items) => {
                let elements =
                    items.iter().map(|item| item.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
                Ok(machine.frame.arena.push_array(&elements))
            }
            Self::Quantified { quantifier, operands } => {
                let value = operands[0].evaluate(machine)?;
                let array = operands[1].evaluate(machine)?;
                quantifier.evaluate(value, array, machine)
            }
            Self::Function { function, arguments } => function.evaluate(arguments, machine),
            Self::Domain(own) => {
                let value = own.operand.evaluate(machine)?;
                own.check(value, machine)
            }
            Self::Value => Ok(machine.frame.domain_value),
            Self::Watched(watched) => watched.evaluate(machine),
        }
    }
}

/// Returns an element of an array; NULL where there is none.
#[inline]
fn element(array: Datum, index: Datum, arena: &Arena) -> Datum {
    match (array, index) {
        (Datum::Array(span), Datum::Int(index)) => usize::try_from(index - 1)
            .ok()
            .and_then(|index| arena.elements(span).get(index).copied())
            .unwrap_or(Datum::Null),
        _ => Datum::Null,
    }
}

/// Returns the error of a division by zero.
pub(crate) fn division_by_zero() -> Box<SqlError> {
    SqlError::new("22012", "division by zero").into()
}

/// Returns the error of a number that its type can't hold.
pub(crate) fn out_of_range(ty: &str) -> Box<SqlError> {
    SqlError::new("22003", format!("{ty} out of range")).into()
}

#[inline]
pub(super) fn arithmetic(
    operator: ArithmeticOperator,
    class: NumberClass,
    left: Datum,
    right: Datum,
    machine: &mut Machine,
) -> Evaluated {
    match (class, left, right) {
        (_, Datum::Null, _) | (_, _, Datum::Null) => Ok(Datum::Null),
        (NumberClass::Int { least, most }, Datum::Int(a), Datum::Int(b)) => {
            let result = match operator {
                ArithmeticOperator::Add => a.checked_add(b),
                ArithmeticOperator::Subtract => a.checked_sub(b),
                ArithmeticOperator::Multiply => a.checked_mul(b),
                ArithmeticOperator::Divide | ArithmeticOperator::Remainder if b == 0 => {
                    return Err(division_by_zero());
                }
                ArithmeticOperator::Divide => a.checked_div(b),
                ArithmeticOperator::Remainder => Some(a.wrapping_rem(b)),
            };
            match result {
                Some(value) if (least..=most).contains(&value) => Ok(Datum::Int(value)),
                _ => {
                    let ty = match most {
                        0x7fff => "smallint",
                        0x7fff_ffff => "integer",
                        _ => "bigint",
                    };
                    Err(out_of_range(ty))
                }
            }
        }
        (NumberClass::Machine { left_factor, right_factor }, Datum::Int(a), Datum::Int(b)) => {
            let (a, b) = (a * left_factor, b * right_factor);
            Ok(Datum::Int(match operator {
                ArithmeticOperator::Add => a + b,
                ArithmeticOperator::Subtract => a - b,
                _ => a * b,
            }))
        }
        (NumberClass::Double, Datum::Double(a), Datum::Double(b)) => {
            crate::values::doubles::arithmetic(operator, a, b)
        }
        (NumberClass::Real, Datum::Double(a), Datum::Double(b)) => {
            crate::values::doubles::real_arithmetic(operator, a, b)
        }
        (NumberClass::Decimal { left_scale, right_scale }, a, b) => {
            let arena = &mut machine.frame.arena;
            let (Some(a), Some(b)) = (arena.numeric(a, left_scale), arena.numeric(b, right_scale)) else {
                unreachable!("decimal arithmetic has decimal operands");
            };
            let result = match operator {
                ArithmeticOperator::Add => a.plus(&b),
                ArithmeticOperator::Subtract => a.minus(&b),
                ArithmeticOperator::Multiply => a.times(&b),
                ArithmeticOperator::Divide => a.over(&b),
                ArithmeticOperator::Remainder => a.remainder(&b),
            }?;
            Ok(arena.push_numeric(result))
        }
        (NumberClass::Date | NumberClass::Days, Datum::Int(a), Datum::Int(b)) => {
            date_arithmetic(operator, class, a, b)
        }
        _ => unreachable!("{left:?} and {right:?} are not of class {class:?}"),
    }
}

/// Computes `date + days`, `date - days` or `date - date`. An infinite date stays infinite; its distance to a
/// date is an error.
fn date_arithmetic(operator: ArithmeticOperator, class: NumberClass, a: i64, b: i64) -> Evaluated {
    let is_finite = |days: i64| i32::try_from(days).is_ok_and(is_finite_date);
    Ok(Datum::Int(match (class, operator) {
        (NumberClass::Days, _) if is_finite(a) && is_finite(b) => a - b,
        (NumberClass::Days, _) => {
            return Err(SqlError::new("22008", "cannot subtract infinite dates").into());
        }
        (_, ArithmeticOperator::Subtract) if is_finite(a) => date_plus(a, b.saturating_neg())?.into(),
        (_, ArithmeticOperator::Add) if is_finite(a) => date_plus(a, b)?.into(),
        _ => a,
    }))
}
