//! The errors that compiled code raises by a number.

use super::operations::not_one_row;
use crate::ir::expression::{division_by_zero, out_of_range};
use crate::{Failure, SqlError};
use catalog::ValueError;

/// Errors whose texts code does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A smallint is out of range.
    SmallInt,
    /// An integer is out of range.
    Integer,
    /// A bigint is out of range.
    BigInt,
    /// A decimal has too many digits for its type.
    Decimal {
        /// Digits of the type.
        precision: u8,
        /// Those after the point.
        scale: u8,
    },
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
    /// Those without parameters, by number.
    const PLAIN: [Self; 8] = [
        Self::SmallInt,
        Self::Integer,
        Self::BigInt,
        Self::DivisionByZero,
        Self::NullBound,
        Self::Step,
        Self::NullArray,
        Self::NoRow,
    ];

    /// Returns the number.
    pub fn number(self) -> u64 {
        match self {
            Self::Decimal { precision, scale } => 1 << 16 | u64::from(precision) << 8 | u64::from(scale),
            plain => Self::PLAIN.iter().position(|own| *own == plain).unwrap_or_default() as u64,
        }
    }

    /// Returns the one with a number that `number` has returned.
    pub fn of_number(number: u64) -> Self {
        match Self::PLAIN.get(number as usize) {
            Some(plain) => *plain,
            None => Self::Decimal { precision: (number >> 8) as u8, scale: number as u8 },
        }
    }

    /// Returns the failure.
    pub fn failure(self) -> Failure {
        match self {
            Self::SmallInt => out_of_range("smallint").into(),
            Self::Integer => out_of_range("integer").into(),
            Self::BigInt => out_of_range("bigint").into(),
            Self::Decimal { precision, scale } => {
                SqlError::from(ValueError::field_overflow(precision.into(), scale.into())).into()
            }
            Self::DivisionByZero => division_by_zero().into(),
            Self::NullBound => SqlError::new("22004", "a bound of a FOR loop cannot be null").into(),
            Self::Step => SqlError::new("22023", "BY value of FOR loop must be greater than zero").into(),
            Self::NullArray => SqlError::new("22004", "FOREACH expression must not be null").into(),
            Self::NoRow => not_one_row(0).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn numbers_come_back() {
        let decimals = [(1, 0), (18, 18), (6, 2)];
        let decimals = decimals.map(|(precision, scale)| Refusal::Decimal { precision, scale });
        for refusal in Refusal::PLAIN.into_iter().chain(decimals) {
            assert_eq!(Refusal::of_number(refusal.number()), refusal);
        }
    }
}
