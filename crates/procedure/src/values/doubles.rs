//! Arithmetic of doubles.
//! Source: PostgreSQL 15, `float.h` and `float.c`, for overflow, underflow and NaN.

use crate::{ArithmeticOperator, Evaluated, SqlError};
use catalog::Datum;

fn overflow() -> SqlError {
    SqlError::new("22003", "value out of range: overflow")
}

fn underflow() -> SqlError {
    SqlError::new("22003", "value out of range: underflow")
}

/// Returns a result. Fails if it is infinite without `may_be_infinite`, or zero without `may_be_zero`.
pub(crate) fn checked(result: f64, may_be_infinite: bool, may_be_zero: bool) -> Evaluated {
    if result.is_infinite() && !may_be_infinite {
        return Err(overflow().into());
    }
    if result == 0.0 && !may_be_zero {
        return Err(underflow().into());
    }
    Ok(Datum::Double(result))
}

/// Evaluates `a operator b`.
#[inline]
pub(crate) fn arithmetic(operator: ArithmeticOperator, a: f64, b: f64) -> Evaluated {
    let is_infinite = a.is_infinite() || b.is_infinite();
    match operator {
        ArithmeticOperator::Add => checked(a + b, is_infinite, true),
        ArithmeticOperator::Subtract => checked(a - b, is_infinite, true),
        ArithmeticOperator::Multiply => checked(a * b, is_infinite, a == 0.0 || b == 0.0),
        ArithmeticOperator::Divide if b == 0.0 && !a.is_nan() => {
            Err(SqlError::new("22012", "division by zero").into())
        }
        ArithmeticOperator::Divide => checked(a / b, a.is_infinite(), a == 0.0 || b.is_infinite()),
        ArithmeticOperator::Remainder => Ok(Datum::Double(a % b)),
    }
}

/// Evaluates `a operator b` of two values of REAL. Rounding the double equals rounding the exact result,
/// because a double has more than twice the digits.
pub(crate) fn real_arithmetic(operator: ArithmeticOperator, a: f64, b: f64) -> Evaluated {
    match arithmetic(operator, a, b)? {
        Datum::Double(result) => Ok(catalog::real_datum(result).map_err(SqlError::from)?),
        other => Ok(other),
    }
}

/// Evaluates `power(a, b)`.
pub(crate) fn power(a: f64, b: f64) -> Evaluated {
    if a == 0.0 && b < 0.0 {
        return Err(SqlError::new("2201F", "zero raised to a negative power is undefined").into());
    }
    if a < 0.0 && a.is_finite() && b.is_finite() && b.floor() != b {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new("2201F", message).into());
    }
    let is_infinite = a.is_infinite() || b.is_infinite();
    checked(a.powf(b), is_infinite, is_infinite || a == 0.0)
}
