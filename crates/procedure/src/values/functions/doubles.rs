//! Functions of doubles.
//! Source: PostgreSQL 15's documentation, "Mathematical Functions and Operators"; `float.c` for the errors.

use super::decimals::{check_buckets, equal_bounds};
use super::{BuiltIn, Call, Form, Kind};
use crate::values::doubles::{checked, power};
use crate::{Draw, Evaluated, SqlError};
use catalog::Datum;

const FLOAT8: Kind = Kind::FLOAT8;

const fn of_one(name: &'static str, evaluate: fn(Call<'_>) -> Evaluated) -> BuiltIn {
    BuiltIn::of(name, &[FLOAT8], FLOAT8, evaluate)
}

pub(super) static DOUBLES: &[BuiltIn] = &[
    BuiltIn::of("abs", &[Kind::FLOAT4], Kind::FLOAT4, |call| plain(call, f64::abs)),
    of_one("abs", |call| plain(call, f64::abs)),
    of_one("acos", |call| within_one(call, f64::acos)),
    of_one("acosh", |call| match call.double(0) {
        ..1.0 => Err(out_of_range()),
        value => Ok(Datum::Double(value.acosh())),
    }),
    of_one("asin", |call| within_one(call, f64::asin)),
    of_one("asinh", |call| plain(call, f64::asinh)),
    of_one("atan", |call| plain(call, f64::atan)),
    BuiltIn::of("atan2", &[FLOAT8, FLOAT8], FLOAT8, |call| {
        Ok(Datum::Double(call.double(0).atan2(call.double(1))))
    }),
    of_one("atanh", |call| match call.double(0) {
        value if value.abs() > 1.0 => Err(out_of_range()),
        value => Ok(Datum::Double(value.atanh())),
    }),
    of_one("cbrt", |call| plain(call, f64::cbrt)),
    of_one("ceil", |call| plain(call, f64::ceil)),
    of_one("ceiling", |call| plain(call, f64::ceil)),
    of_one("cos", |call| finite(call, f64::cos)),
    of_one("cosh", |call| plain(call, f64::cosh)),
    of_one("cot", |call| finite(call, |value| 1.0 / value.tan())),
    of_one("degrees", |call| limited(call, f64::to_degrees)),
    of_one("exp", |call| {
        let value = call.double(0);
        checked(value.exp(), value.is_infinite(), value.is_infinite())
    }),
    of_one("floor", |call| plain(call, f64::floor)),
    of_one("ln", |call| logarithm(&call, f64::ln)),
    of_one("log", |call| logarithm(&call, f64::log10)),
    of_one("log10", |call| logarithm(&call, f64::log10)),
    BuiltIn::of("pi", &[], FLOAT8, |_| Ok(Datum::Double(std::f64::consts::PI))),
    BuiltIn::of("pow", &[FLOAT8, FLOAT8], FLOAT8, |call| power(call.double(0), call.double(1))),
    BuiltIn::of("power", &[FLOAT8, FLOAT8], FLOAT8, |call| power(call.double(0), call.double(1))),
    of_one("radians", |call| plain(call, f64::to_radians)),
    BuiltIn::new("random", &[], FLOAT8, Form::Draw(Draw::Random)),
    of_one("round", |call| plain(call, f64::round_ties_even)),
    of_one("sign", |call| match call.double(0) {
        ..0.0 => Ok(Datum::Double(-1.0)),
        value => Ok(Datum::Double(f64::from(u8::from(value > 0.0)))),
    }),
    of_one("sin", |call| finite(call, f64::sin)),
    of_one("sinh", |call| plain(call, f64::sinh)),
    of_one("sqrt", |call| match call.double(0) {
        ..0.0 => Err(SqlError::new("2201F", "cannot take square root of a negative number").into()),
        value => Ok(Datum::Double(value.sqrt())),
    }),
    of_one("tan", |call| finite(call, f64::tan)),
    of_one("tanh", |call| plain(call, f64::tanh)),
    of_one("trunc", |call| plain(call, f64::trunc)),
    BuiltIn::of("width_bucket", &[FLOAT8, FLOAT8, FLOAT8, Kind::INT4], Kind::INT4, bucket),
];

fn out_of_range() -> Box<SqlError> {
    SqlError::new("22003", "input is out of range").into()
}

fn plain(call: Call, function: fn(f64) -> f64) -> Evaluated {
    Ok(Datum::Double(function(call.double(0))))
}

/// Returns a result that may be infinite only for an infinite argument.
fn limited(call: Call, function: fn(f64) -> f64) -> Evaluated {
    let value = call.double(0);
    checked(function(value), value.is_infinite(), true)
}

/// Refuses an infinite argument.
fn finite(call: Call, function: fn(f64) -> f64) -> Evaluated {
    if call.double(0).is_infinite() { Err(out_of_range()) } else { plain(call, function) }
}

/// Refuses an argument whose magnitude is above 1.
fn within_one(call: Call, function: fn(f64) -> f64) -> Evaluated {
    if call.double(0).abs() > 1.0 { Err(out_of_range()) } else { plain(call, function) }
}

fn logarithm(call: &Call, function: fn(f64) -> f64) -> Evaluated {
    match call.double(0) {
        0.0 => Err(SqlError::new("2201E", "cannot take logarithm of zero").into()),
        ..0.0 => Err(SqlError::new("2201E", "cannot take logarithm of a negative number").into()),
        value => Ok(Datum::Double(function(value))),
    }
}

fn bucket(call: Call) -> Evaluated {
    let (value, low, high, count) = (call.double(0), call.double(1), call.double(2), call.int(3));
    check_buckets(count)?;
    if value.is_nan() || low.is_nan() || high.is_nan() {
        let message = "operand, lower bound, and upper bound cannot be NaN";
        return Err(SqlError::new("2201G", message).into());
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(SqlError::new("2201G", "lower and upper bounds must be finite").into());
    }
    if low == high {
        return Err(equal_bounds());
    }
    let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
    Ok(Datum::Int(if value < low {
        0
    } else if value >= high {
        count + 1
    } else {
        let bucket = (count as f64 * ((value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0))) as i64;
        bucket.min(count - 1) + 1
    }))
}
