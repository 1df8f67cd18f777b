//! The errors without parameters that compiled code raises.

use super::operations::not_one_row;
use crate::ir::expression::{division_by_zero, out_of_range};
use crate::{Failure, SqlError};
use catalog::{DecimalError, ValueError};

/// Errors whose texts code does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Refusal {
    /// A smallint is out of range.
    SmallInt,
    /// An integer is out of range.
    Integer,
    /// A bigint is out of range.
    BigInt,
    /// A decimal has too many digits.
    Decimal,
    /// A division by zero.
    DivisionByZero,
    /// A bound of a loop is NULL.
    NullBound,
    /// The step of a loop is not positive.
    Step,
    /// The array of a FOREACH is NULL.
    NullArray,
    /// INTO STRICT found no row.
    NoRow,
}

impl Refusal {
    /// All of them, by number.
    pub const ALL: [Self; 9] = [
        Self::SmallInt,
        Self::Integer,
        Self::BigInt,
        Self::Decimal,
        Self::DivisionByZero,
        Self::NullBound,
        Self::Step,
        Self::NullArray,
        Self::NoRow,
    ];

    /// Returns the failure.
    pub fn failure(self) -> Failure {
        match self {
            Self::SmallInt => out_of_range("smallint").into(),
            Self::Integer => out_of_range("integer").into(),
            Self::BigInt => out_of_range("bigint").into(),
            Self::Decimal => SqlError::from(ValueError::from(DecimalError::Overflow)).into(),
            Self::DivisionByZero => division_by_zero().into(),
            Self::NullBound => SqlError::new("22004", "a bound of a FOR loop cannot be null").into(),
            Self::Step => SqlError::new("22023", "BY value of FOR loop must be greater than zero").into(),
            Self::NullArray => SqlError::new("22004", "FOREACH expression must not be null").into(),
            Self::NoRow => not_one_row(0).into(),
        }
    }
}
