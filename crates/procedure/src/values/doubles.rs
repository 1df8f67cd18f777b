//! Arithmetic and functions of doubles.
//! Source: PostgreSQL 15, `float.h` and `float.c`, for overflow, underflow and NaN.

use crate::{ArithmeticOperator, Evaluated, Function, SqlError};
use catalog::Datum;

fn overflow() -> SqlError {
    SqlError::new("22003", "value out of range: overflow")
}

fn underflow() -> SqlError {
    SqlError::new("22003", "value out of range: underflow")
}

/// Returns a result. Fails if it is infinite without `may_be_infinite`, or zero without `may_be_zero`.
fn checked(result: f64, may_be_infinite: bool, may_be_zero: bool) -> Evaluated {
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

/// Evaluates a function of one or two doubles.
pub(crate) fn function(function: Function, a: f64, rest: &[Datum]) -> Evaluated {
    let refused = |sqlstate: &str, message: &str| Err(SqlError::new(sqlstate, message).into());
    Ok(Datum::Double(match (function, rest) {
        (Function::AbsDouble, _) => a.abs(),
        (Function::RoundDouble, _) => a.round_ties_even(),
        (Function::TruncateDouble, _) => a.trunc(),
        (Function::FloorDouble, _) => a.floor(),
        (Function::CeilDouble, _) => a.ceil(),
        (Function::SquareRoot, _) if a < 0.0 => {
            return refused("2201F", "cannot take square root of a negative number");
        }
        (Function::SquareRoot, _) => a.sqrt(),
        (Function::NaturalLogarithm | Function::Logarithm, _) if a == 0.0 => {
            return refused("2201E", "cannot take logarithm of zero");
        }
        (Function::NaturalLogarithm | Function::Logarithm, _) if a < 0.0 => {
            return refused("2201E", "cannot take logarithm of a negative number");
        }
        (Function::NaturalLogarithm, _) => a.ln(),
        (Function::Logarithm, _) => a.log10(),
        (Function::Exponential, _) => return checked(a.exp(), a.is_infinite(), a.is_infinite()),
        (Function::SignOfDouble, _) => {
            if a == 0.0 || a.is_nan() {
                a
            } else {
                a.signum()
            }
        }
        (Function::Power, [Datum::Double(b)]) => return power(a, *b),
        _ => unreachable!("{function:?} is not a function of doubles"),
    }))
}

fn power(a: f64, b: f64) -> Evaluated {
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
