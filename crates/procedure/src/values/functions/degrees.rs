//! Trigonometric functions in degrees. Results that have an exact value are exact: `sind(30)` is 0.5.
//! Source: PostgreSQL 15, `float.c`: each function is scaled by its value at an angle whose result is known.

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::Datum;

const FLOAT8: Kind = Kind::FLOAT8;

const fn of_one(name: &'static str, evaluate: fn(Call<'_>) -> Evaluated) -> BuiltIn {
    BuiltIn::of(name, &[FLOAT8], FLOAT8, evaluate)
}

pub(super) static DEGREES: &[BuiltIn] = &[
    of_one("acosd", |call| {
        of_ratio(&call, |value| if value < 0.0 { 90.0 + asin(-value) } else { acos(value) })
    }),
    of_one("asind", |call| of_ratio(&call, |value| asin(value.abs()).copysign(value))),
    of_one("atand", |call| Ok(Datum::Double(call.double(0).atan() / 1f64.atan() * 45.0))),
    BuiltIn::of("atan2d", &[FLOAT8, FLOAT8], FLOAT8, |call| {
        Ok(Datum::Double(call.double(0).atan2(call.double(1)) / 1f64.atan() * 45.0))
    }),
    of_one("cosd", |call| {
        of_angle(&call, |angle| {
            let (angle, is_beyond) = half(angle.abs());
            if is_beyond { -cos(angle) } else { cos(angle) }
        })
    }),
    of_one("cotd", |call| of_angle(&call, |angle| tangent(angle, |angle| cos(angle) / sin(angle)))),
    of_one("sind", |call| {
        of_angle(&call, |angle| {
            let folded = if angle.abs() > 180.0 { 360.0 - angle.abs() } else { angle.abs() };
            let is_negative = (angle < 0.0) != (angle.abs() > 180.0);
            let value = sin(if folded > 90.0 { 180.0 - folded } else { folded });
            if is_negative { -value } else { value }
        })
    }),
    of_one("tand", |call| of_angle(&call, |angle| tangent(angle, |angle| sin(angle) / cos(angle)))),
];

/// Evaluates a function of an angle, which is within a turn.
fn of_angle(call: &Call, function: fn(f64) -> f64) -> Evaluated {
    let angle = call.double(0);
    if angle.is_nan() {
        return Ok(Datum::Double(angle));
    }
    if angle.is_infinite() {
        return Err(out_of_range());
    }
    Ok(Datum::Double(function(angle % 360.0)))
}

/// Evaluates a function of a ratio between -1 and 1.
fn of_ratio(call: &Call, function: fn(f64) -> f64) -> Evaluated {
    match call.double(0) {
        value if value.is_nan() => Ok(Datum::Double(value)),
        value if value.abs() > 1.0 => Err(out_of_range()),
        value => Ok(Datum::Double(function(value))),
    }
}

fn out_of_range() -> Box<SqlError> {
    SqlError::new("22003", "input is out of range").into()
}

/// Folds an angle below a turn into the first quadrant. Returns whether the cosine has the other sign.
fn half(angle: f64) -> (f64, bool) {
    let angle = if angle > 180.0 { 360.0 - angle } else { angle };
    if angle > 90.0 { (180.0 - angle, true) } else { (angle, false) }
}

/// The tangent or the cotangent, which are 1 at 45 degrees.
fn tangent(angle: f64, ratio: fn(f64) -> f64) -> f64 {
    let (folded, is_beyond) = half(angle.abs());
    let is_negative = (angle < 0.0) != ((angle.abs() > 180.0) != is_beyond);
    let value = ratio(folded) / ratio(45.0);
    // A zero has no sign.
    (if is_negative { -value } else { value }) + 0.0
}

/// The sine in the first quadrant.
fn sin(angle: f64) -> f64 {
    if angle <= 30.0 { sin_to_30(angle) } else { cos_to_60(90.0 - angle) }
}

/// The cosine in the first quadrant.
fn cos(angle: f64) -> f64 {
    if angle <= 60.0 { cos_to_60(angle) } else { sin_to_30(90.0 - angle) }
}

fn sin_to_30(angle: f64) -> f64 {
    angle.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}

fn cos_to_60(angle: f64) -> f64 {
    1.0 - (1.0 - angle.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}

/// The inverse sine of a value from 0 to 1.
fn asin(value: f64) -> f64 {
    if value <= 0.5 {
        value.asin() / 0.5f64.asin() * 30.0
    } else {
        90.0 - value.acos() / 0.5f64.acos() * 60.0
    }
}

/// The inverse cosine of a value from 0 to 1.
fn acos(value: f64) -> f64 {
    if value <= 0.5 {
        90.0 - value.asin() / 0.5f64.asin() * 30.0
    } else {
        value.acos() / 0.5f64.acos() * 60.0
    }
}
