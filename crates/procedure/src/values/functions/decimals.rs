//! Functions of decimals.
//! Source: PostgreSQL 15's documentation, "Mathematical Functions and Operators".

use super::{BuiltIn, Call, Kind};
use crate::values::shown_number::{DOUBLE_DIGITS, REAL_DIGITS};
use crate::values::{decimals, numbers, shown_number};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Numeric};
use std::cmp::Ordering;

const NUMERIC: Kind = Kind::NUMERIC;
const INT4: Kind = Kind::INT4;
const TEXT: Kind = Kind::TEXT;

pub(super) static DECIMALS: &[BuiltIn] = &[
    BuiltIn::of("abs", &[NUMERIC], NUMERIC, |call| {
        let magnitude = call.numeric(0).magnitude();
        call.made_numeric(magnitude)
    }),
    BuiltIn::of("ceil", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Less)),
    BuiltIn::of("ceiling", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Less)),
    BuiltIn::of("div", &[NUMERIC, NUMERIC], NUMERIC, quotient),
    BuiltIn::of("exp", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::exponential)),
    BuiltIn::of("floor", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Greater)),
    BuiltIn::of("gcd", &[NUMERIC, NUMERIC], NUMERIC, |call| {
        let divisor = divisor(&call.numeric(0), &call.numeric(1))?;
        call.made_numeric(divisor)
    }),
    BuiltIn::of("lcm", &[NUMERIC, NUMERIC], NUMERIC, multiple),
    BuiltIn::of("ln", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::natural_logarithm)),
    BuiltIn::of("log", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::decimal_logarithm)),
    BuiltIn::of("log", &[NUMERIC, NUMERIC], NUMERIC, |call| {
        let logarithm = decimals::logarithm(&call.numeric(0), &call.numeric(1))?;
        call.made_numeric(logarithm)
    }),
    BuiltIn::of("log10", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::decimal_logarithm)),
    BuiltIn::of("min_scale", &[NUMERIC], INT4, |call| Ok(scale_of(&call.numeric(0).trimmed()))),
    BuiltIn::of("pow", &[NUMERIC, NUMERIC], NUMERIC, power),
    BuiltIn::of("power", &[NUMERIC, NUMERIC], NUMERIC, power),
    BuiltIn::of("round", &[NUMERIC], NUMERIC, |call| rounded(call, false)),
    BuiltIn::of("round", &[NUMERIC, INT4], NUMERIC, |call| rounded(call, false)),
    BuiltIn::of("scale", &[NUMERIC], INT4, |call| Ok(scale_of(&call.numeric(0)))),
    BuiltIn::of("sign", &[NUMERIC], NUMERIC, |call| {
        let value = call.numeric(0);
        let sign = if value.is_nan() { value } else { Numeric::from(value.sign() as i64) };
        call.made_numeric(sign)
    }),
    BuiltIn::of("sqrt", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::square_root)),
    BuiltIn::of("to_char", &[Kind::INT4, TEXT], TEXT, |call| {
        let value = Numeric::from(call.int(0));
        to_text(call, &value)
    }),
    BuiltIn::of("to_char", &[Kind::INT8, TEXT], TEXT, |call| {
        let value = Numeric::from(call.int(0));
        to_text(call, &value)
    }),
    BuiltIn::of("to_char", &[NUMERIC, TEXT], TEXT, |call| {
        let value = call.numeric(0);
        to_text(call, &value)
    }),
    BuiltIn::of("to_char", &[Kind::FLOAT8, TEXT], TEXT, |call| float_to_text(call, DOUBLE_DIGITS)),
    BuiltIn::of("to_char", &[Kind::FLOAT4, TEXT], TEXT, |call| float_to_text(call, REAL_DIGITS)),
    BuiltIn::of("to_number", &[TEXT, TEXT], NUMERIC, |call| {
        match numbers::from_text(call.text(0), call.text(1))? {
            Some(value) => call.made_numeric(value),
            None => Ok(Datum::Null),
        }
    })
    .stable(),
    BuiltIn::of("trim_scale", &[NUMERIC], NUMERIC, |call| {
        let trimmed = call.numeric(0).trimmed();
        call.made_numeric(trimmed)
    }),
    BuiltIn::of("trunc", &[NUMERIC], NUMERIC, |call| rounded(call, true)),
    BuiltIn::of("trunc", &[NUMERIC, INT4], NUMERIC, |call| rounded(call, true)),
    BuiltIn::of("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, INT4], INT4, bucket),
];

type Result<T> = std::result::Result<T, Box<SqlError>>;

fn of_one(call: Call, function: fn(&Numeric) -> Result<Numeric>) -> Evaluated {
    let result = function(&call.numeric(0))?;
    call.made_numeric(result)
}

fn power(call: Call) -> Evaluated {
    let power = decimals::power(&call.numeric(0), &call.numeric(1))?;
    call.made_numeric(power)
}

/// Returns the number of digits after the point; NULL of NaN and the infinities.
fn scale_of(value: &Numeric) -> Datum {
    if value.is_finite() { Datum::Int(value.scale().into()) } else { Datum::Null }
}

/// `floor` and `ceil`: the truncated number, or one step further if the truncated number compares as `beyond`
/// with the number.
fn whole(call: Call, beyond: Ordering) -> Evaluated {
    let value = call.numeric(0);
    let whole = value.truncate(0)?;
    let step = if whole.compare(&value) != beyond {
        0
    } else if beyond == Ordering::Less {
        1
    } else {
        -1
    };
    let whole = whole.plus(&Numeric::from(step))?;
    call.made_numeric(whole)
}

/// The digits after the point to which numbers are rounded at most; those before it are less than zero.
const MOST_ROUNDED: i64 = 16_383;
const LEAST_ROUNDED: i64 = -131_073;

/// `round` and `trunc`, to a number of digits that may be negative.
fn rounded(call: Call, truncates: bool) -> Evaluated {
    let value = call.numeric(0);
    let digits = if call.count() > 1 { call.int(1) } else { 0 };
    let digits = digits.clamp(LEAST_ROUNDED, MOST_ROUNDED) as i32;
    let result = if truncates { value.truncate(digits)? } else { value.rescale(digits)? };
    call.made_numeric(result)
}

/// `div`: the truncated quotient.
fn quotient(call: Call) -> Evaluated {
    let quotient = call.numeric(0).truncated_quotient(&call.numeric(1))?;
    call.made_numeric(quotient)
}

fn divisor(a: &Numeric, b: &Numeric) -> Result<Numeric> {
    if !a.is_finite() || !b.is_finite() {
        return Ok(Numeric::NaN);
    }
    let scale = a.scale().max(b.scale()) as i32;
    let (mut a, mut b) = (a.magnitude(), b.magnitude());
    while !b.is_zero() {
        let remainder = a.remainder(&b)?;
        (a, b) = (b, remainder);
    }
    Ok(a.rescale(scale)?)
}

fn multiple(call: Call) -> Evaluated {
    let (a, b) = (call.numeric(0), call.numeric(1));
    let divisor = divisor(&a, &b)?;
    if !divisor.is_finite() || divisor.is_zero() {
        return call.made_numeric(divisor);
    }
    let factor = a.truncated_quotient(&divisor)?;
    let multiple = factor.times(&b)?.magnitude().rescale(divisor.scale() as i32)?;
    call.made_numeric(multiple)
}

fn to_text(call: Call, value: &Numeric) -> Evaluated {
    let text = shown_number::exact_to_text(value, call.text(1))?;
    call.made(text)
}

fn float_to_text(call: Call, most: usize) -> Evaluated {
    let text = shown_number::float_to_text(call.double(0), most, call.text(1))?;
    call.made(text)
}

/// Refuses a number of buckets that is not positive.
pub(super) fn check_buckets(count: i64) -> Result<()> {
    let is_valid = count > 0;
    is_valid.then_some(()).ok_or_else(|| SqlError::new("2201G", "count must be greater than zero").into())
}

pub(super) fn equal_bounds() -> Box<SqlError> {
    SqlError::new("2201G", "lower bound cannot equal upper bound").into()
}

/// `width_bucket(value, low, high, count)`. With `low` above `high`, the buckets descend.
fn bucket(call: Call) -> Evaluated {
    let (value, low, high, count) = (call.numeric(0), call.numeric(1), call.numeric(2), call.int(3));
    check_buckets(count)?;
    if value.is_nan() || low.is_nan() || high.is_nan() {
        let message = "operand, lower bound, and upper bound cannot be NaN";
        return Err(SqlError::new("2201G", message).into());
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(SqlError::new("2201G", "lower and upper bounds must be finite").into());
    }
    let is_before = |a: &Numeric, b: &Numeric| match low.compare(&high) {
        Ordering::Less => a.compare(b).is_lt(),
        _ => a.compare(b).is_gt(),
    };
    if low == high {
        return Err(equal_bounds());
    }
    if is_before(&value, &low) {
        return Ok(Datum::Int(0));
    }
    if !is_before(&value, &high) {
        return crate::Cast::Range { to: catalog::ScalarType::Integer, least: 0, most: i32::MAX.into() }
            .apply(Datum::Int(count + 1), &mut call.machine.frame.arena)
            .map_err(Into::into);
    }
    let (distance, width) = (value.minus(&low)?, high.minus(&low)?);
    // As in PostgreSQL, a quotient that is rounded up to the count is behind the last bucket.
    let bucket = distance.times(&Numeric::from(count))?.over(&width)?.truncate(0)?.to_int()?;
    Ok(Datum::Int(bucket + 1))
}
