//! Expressions over values of their operands that compiled code has computed.

use super::compare::{are_distinct, compare};
use super::expression::arithmetic;
use crate::{Evaluated, Expression, Machine};
use catalog::Datum;

impl Expression {
    /// Returns the expression with NULLs as operands: the part that `apply` needs.
    pub fn without_operands(&self) -> Self {
        let pair = || Box::new([Self::NULL, Self::NULL]);
        let list = |operands: &Vec<Self>| vec![Self::NULL; operands.len()];
        match self {
            Self::Arithmetic { operator, class, .. } => {
                Self::Arithmetic { operator: *operator, class: *class, operands: pair() }
            }
            Self::Compare { operator, class, .. } => {
                Self::Compare { operator: *operator, class: *class, operands: pair() }
            }
            Self::Distinct { class, .. } => Self::Distinct { class: *class, operands: pair() },
            Self::Quantified { quantifier, .. } => {
                Self::Quantified { quantifier: *quantifier, operands: pair() }
            }
            Self::Cast { cast, .. } => Self::Cast { cast: *cast, operand: Box::new(Self::NULL) },
            Self::Function { function, arguments } => {
                Self::Function { function: *function, arguments: list(arguments) }
            }
            Self::Array(items) => Self::Array(list(items)),
            Self::Domain(own) => Self::Domain(Box::new(own.without_operand())),
            other => other.clone(),
        }
    }

    /// Returns the value of the expression, from the values of its operands. Compiled code evaluates the
    /// operands itself. No operand is NULL where NULL alone decides the value: of arithmetic, comparisons,
    /// and functions for which `Function::is_applied_to_null` is false.
    ///
    /// # Errors
    /// As `evaluate`.
    ///
    /// # Panics
    /// The expression evaluates its operands one by one, as CASE does, or has no operands like these.
    pub fn apply(&self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        match (self, values) {
            (Self::Bytes(bytes), _) => Ok(machine.frame.arena.push_bytes(bytes)),
            (Self::Numeric(value), _) => Ok(machine.frame.arena.push_numeric(value.clone())),
            (Self::Value, _) => Ok(machine.frame.domain_value),
            (Self::Domain(own), [value]) => own.check(*value, machine),
            (Self::Array(_), _) => Ok(machine.frame.arena.push_array(values)),
            (Self::Function { function, .. }, _) => function.apply(values, machine),
            (Self::Cast { cast, .. }, [value]) => Ok(cast.apply(*value, &mut machine.frame.arena)?),
            (Self::Arithmetic { operator, class, .. }, [left, right]) => {
                arithmetic(*operator, *class, *left, *right, machine)
            }
            (Self::Compare { operator, class, .. }, [left, right]) => {
                let order = compare(*class, *left, *right, &machine.frame.arena);
                Ok(Datum::boolean(operator.holds(order)))
            }
            (Self::Distinct { class, .. }, [left, right]) => {
                Ok(Datum::boolean(are_distinct(*class, *left, *right, &machine.frame.arena)))
            }
            (Self::Quantified { quantifier, .. }, [value, array]) => {
                quantifier.evaluate(*value, *array, machine)
            }
            _ => unreachable!("{self:?} is not applied to {values:?}"),
        }
    }
}
