//! Functions of integers.
//! Source: PostgreSQL 15's documentation, "Mathematical Functions and Operators".

use super::{BuiltIn, Call, Form, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, DecimalError, Numeric, ScalarType};
use num_bigint::BigInt;

const INT2: Kind = Kind::INT2;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;

pub(super) static INTEGERS: &[BuiltIn] = &[
    BuiltIn::of("abs", &[INT2], INT2, |call| absolute(&call, ScalarType::SmallInt)),
    BuiltIn::of("abs", &[INT4], INT4, |call| absolute(&call, ScalarType::Integer)),
    BuiltIn::of("abs", &[INT8], INT8, |call| absolute(&call, ScalarType::BigInt)),
    BuiltIn::of("factorial", &[INT8], Kind::NUMERIC, factorial),
    BuiltIn::of("gcd", &[INT4, INT4], INT4, |call| divisor(&call, ScalarType::Integer)),
    BuiltIn::of("gcd", &[INT8, INT8], INT8, |call| divisor(&call, ScalarType::BigInt)),
    BuiltIn::of("lcm", &[INT4, INT4], INT4, |call| multiple(&call, ScalarType::Integer)),
    BuiltIn::of("lcm", &[INT8, INT8], INT8, |call| multiple(&call, ScalarType::BigInt)),
    BuiltIn::of("int2and", &[INT2, INT2], INT2, |call| Ok(Datum::Int(call.int(0) & call.int(1)))),
    BuiltIn::of("int2not", &[INT2], INT2, |call| Ok(Datum::Int(!call.int(0)))),
    BuiltIn::of("int2or", &[INT2, INT2], INT2, |call| Ok(Datum::Int(call.int(0) | call.int(1)))),
    BuiltIn::of("int2shl", &[INT2, INT4], INT2, |call| {
        Ok(Datum::Int(((call.int(0) as i32).wrapping_shl(call.int(1) as u32) as i16).into()))
    }),
    BuiltIn::of("int2shr", &[INT2, INT4], INT2, |call| {
        Ok(Datum::Int((call.int(0) as i32).wrapping_shr(call.int(1) as u32).into()))
    }),
    BuiltIn::of("int2xor", &[INT2, INT2], INT2, |call| Ok(Datum::Int(call.int(0) ^ call.int(1)))),
    BuiltIn::of("int4and", &[INT4, INT4], INT4, |call| Ok(Datum::Int(call.int(0) & call.int(1)))),
    BuiltIn::of("int4not", &[INT4], INT4, |call| Ok(Datum::Int(!call.int(0)))),
    BuiltIn::of("int4or", &[INT4, INT4], INT4, |call| Ok(Datum::Int(call.int(0) | call.int(1)))),
    BuiltIn::of("int4shl", &[INT4, INT4], INT4, |call| {
        Ok(Datum::Int((call.int(0) as i32).wrapping_shl(call.int(1) as u32).into()))
    }),
    BuiltIn::of("int4shr", &[INT4, INT4], INT4, |call| {
        Ok(Datum::Int((call.int(0) as i32).wrapping_shr(call.int(1) as u32).into()))
    }),
    BuiltIn::of("int4xor", &[INT4, INT4], INT4, |call| Ok(Datum::Int(call.int(0) ^ call.int(1)))),
    BuiltIn::of("int8and", &[INT8, INT8], INT8, |call| Ok(Datum::Int(call.int(0) & call.int(1)))),
    BuiltIn::of("int8not", &[INT8], INT8, |call| Ok(Datum::Int(!call.int(0)))),
    BuiltIn::of("int8or", &[INT8, INT8], INT8, |call| Ok(Datum::Int(call.int(0) | call.int(1)))),
    BuiltIn::of("int8shl", &[INT8, INT4], INT8, |call| {
        Ok(Datum::Int(call.int(0).wrapping_shl(call.int(1) as u32)))
    }),
    BuiltIn::of("int8shr", &[INT8, INT4], INT8, |call| {
        Ok(Datum::Int(call.int(0).wrapping_shr(call.int(1) as u32)))
    }),
    BuiltIn::of("int8xor", &[INT8, INT8], INT8, |call| Ok(Datum::Int(call.int(0) ^ call.int(1)))),
    BuiltIn::new("mod", &[INT2, INT2], INT2, Form::Operator("%")),
    BuiltIn::new("mod", &[INT4, INT4], INT4, Form::Operator("%")),
    BuiltIn::new("mod", &[INT8, INT8], INT8, Form::Operator("%")),
    BuiltIn::new("mod", &[Kind::NUMERIC, Kind::NUMERIC], Kind::NUMERIC, Form::Operator("%")),
];

/// Returns an integer that fits its type.
fn checked(value: Option<u64>, ty: ScalarType) -> Evaluated {
    let most: i64 = crate::values::cast::bounds(ty).1;
    let value = value.and_then(|value| i64::try_from(value).ok()).filter(|value| *value <= most);
    value.map(Datum::Int).ok_or_else(|| SqlError::new("22003", format!("{ty} out of range")).into())
}

fn absolute(call: &Call, ty: ScalarType) -> Evaluated {
    checked(Some(call.int(0).unsigned_abs()), ty)
}

/// Returns the greatest common divisor, by Euclid's algorithm.
fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn divisor(call: &Call, ty: ScalarType) -> Evaluated {
    checked(Some(greatest_divisor(call.int(0).unsigned_abs(), call.int(1).unsigned_abs())), ty)
}

fn multiple(call: &Call, ty: ScalarType) -> Evaluated {
    let (a, b) = (call.int(0).unsigned_abs(), call.int(1).unsigned_abs());
    match greatest_divisor(a, b) {
        0 => Ok(Datum::Int(0)),
        divisor => checked((a / divisor).checked_mul(b), ty),
    }
}

/// Greatest number whose factorial is a numeric.
const MOST_FACTORIAL: i64 = 32_177;

fn factorial(call: Call) -> Evaluated {
    let n = call.int(0);
    if n < 0 {
        return Err(SqlError::new("22003", "factorial of a negative number is undefined").into());
    }
    if n > MOST_FACTORIAL {
        return Err(DecimalError::Format.into());
    }
    let product = (2..=n).fold(BigInt::from(1), |product, factor| product * factor);
    call.made_numeric(Numeric::of_parts(product, 0)?)
}
