//! Values that are converted to a domain, whose constraints they must meet.
//! Source: PostgreSQL 15, `ExecEvalConstraintNotNull` and `ExecEvalConstraintCheck`.

use crate::{Check, Evaluated, Expression, Machine};
use catalog::Datum;

/// A value that is converted to a domain.
#[derive(Clone, PartialEq, Debug)]
pub struct DomainValue {
    /// The full name of the domain.
    pub domain: String,
    /// The value, of the type under the domain.
    pub operand: Expression,
    /// The constraints, in the order in which they are checked. Their conditions are about
    /// `Expression::Value`, and read no register.
    pub constraints: Vec<Check>,
}

impl DomainValue {
    /// Returns it with NULL as its operand.
    pub(super) fn without_operand(&self) -> Self {
        Self { domain: self.domain.clone(), operand: Expression::NULL, constraints: self.constraints.clone() }
    }

    /// Checks a value, and returns it.
    pub(super) fn check(&self, value: Datum, machine: &mut Machine) -> Evaluated {
        // The condition of another domain may convert its value to this domain.
        let outer = std::mem::replace(&mut machine.frame.domain_value, value);
        let checked = self.constraints.iter().try_for_each(|constraint| {
            match constraint.condition.evaluate(machine)? == Datum::Int(0) {
                true => constraint.domain_error().map_or(Ok(()), |error| Err(error.into())),
                false => Ok(()),
            }
        });
        machine.frame.domain_value = outer;
        checked.map(|()| value)
    }
}
