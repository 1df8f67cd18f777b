//! Functions of decimals.
//! Source: PostgreSQL 15's documentation, "Mathematical Functions and Operators".

use super::{BuiltIn, Call, Kind};
use crate::values::{decimals, numbers};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Decimal, DecimalError};
use std::cmp::Ordering;

const NUMERIC: Kind = Kind::NUMERIC;
const INT4: Kind = Kind::INT4;
const TEXT: Kind = Kind::TEXT;

pub(super) static DECIMALS: &[BuiltIn] = &[
    BuiltIn::of("abs", &[NUMERIC], NUMERIC, |call| {
        let value = call.decimal(0);
        call.made_decimal(Decimal { mantissa: value.mantissa.abs(), ..value })
    }),
    BuiltIn::of("ceil", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Less)),
    BuiltIn::of("ceiling", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Less)),
    BuiltIn::of("div", &[NUMERIC, NUMERIC], NUMERIC, quotient),
    BuiltIn::of("exp", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::exponential)),
    BuiltIn::of("floor", &[NUMERIC], NUMERIC, |call| whole(call, Ordering::Greater)),
    BuiltIn::of("gcd", &[NUMERIC, NUMERIC], NUMERIC, |call| {
        let divisor = divisor(call.decimal(0), call.decimal(1))?;
        call.made_decimal(divisor)
    }),
    BuiltIn::of("lcm", &[NUMERIC, NUMERIC], NUMERIC, multiple),
    BuiltIn::of("ln", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::natural_logarithm)),
    BuiltIn::of("log", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::decimal_logarithm)),
    BuiltIn::of("log", &[NUMERIC, NUMERIC], NUMERIC, |call| {
        let logarithm = decimals::logarithm(call.decimal(0), call.decimal(1))?;
        call.made_decimal(logarithm)
    }),
    BuiltIn::of("log10", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::decimal_logarithm)),
    BuiltIn::of("min_scale", &[NUMERIC], INT4, |call| Ok(Datum::Int(trimmed(call.decimal(0)).scale.into()))),
    BuiltIn::of("pow", &[NUMERIC, NUMERIC], NUMERIC, power),
    BuiltIn::of("power", &[NUMERIC, NUMERIC], NUMERIC, power),
    BuiltIn::of("round", &[NUMERIC], NUMERIC, |call| rounded(call, false)),
    BuiltIn::of("round", &[NUMERIC, INT4], NUMERIC, |call| rounded(call, false)),
    BuiltIn::of("scale", &[NUMERIC], INT4, |call| Ok(Datum::Int(call.decimal(0).scale.into()))),
    BuiltIn::of("sign", &[NUMERIC], NUMERIC, |call| {
        let sign = call.decimal(0).mantissa.signum() as i64;
        call.made_decimal(Decimal::from_int(sign))
    }),
    BuiltIn::of("sqrt", &[NUMERIC], NUMERIC, |call| of_one(call, decimals::square_root)),
    BuiltIn::of("to_char", &[Kind::INT4, TEXT], TEXT, |call| {
        let value = Decimal::from_int(call.int(0));
        to_text(call, value)
    }),
    BuiltIn::of("to_char", &[Kind::INT8, TEXT], TEXT, |call| {
        let value = Decimal::from_int(call.int(0));
        to_text(call, value)
    }),
    BuiltIn::of("to_char", &[NUMERIC, TEXT], TEXT, |call| {
        let value = call.decimal(0);
        to_text(call, value)
    }),
    BuiltIn::of("to_char", &[Kind::FLOAT8, TEXT], TEXT, |call| {
        let value = call.double(0);
        if !value.is_finite() {
            return Err(
                SqlError::new("0A000", "to_char of an infinite number or NaN is not supported").into()
            );
        }
        let out_of_range =
            |_| SqlError::new("22003", format!("double \"{value}\" is out of range for to_char"));
        let decimal = format!("{value:.15}").parse().map_err(out_of_range)?;
        to_text(call, decimal)
    }),
    BuiltIn::of("trim_scale", &[NUMERIC], NUMERIC, |call| {
        let trimmed = trimmed(call.decimal(0));
        call.made_decimal(trimmed)
    }),
    BuiltIn::of("trunc", &[NUMERIC], NUMERIC, |call| rounded(call, true)),
    BuiltIn::of("trunc", &[NUMERIC, INT4], NUMERIC, |call| rounded(call, true)),
    BuiltIn::of("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, INT4], INT4, bucket),
];

type Result<T> = std::result::Result<T, Box<SqlError>>;

fn overflow() -> Box<SqlError> {
    DecimalError::Overflow.into()
}

fn of_one(call: Call, function: fn(Decimal) -> Result<Decimal>) -> Evaluated {
    let result = function(call.decimal(0))?;
    call.made_decimal(result)
}

fn power(call: Call) -> Evaluated {
    let power = decimals::power(call.decimal(0), call.decimal(1))?;
    call.made_decimal(power)
}

/// Returns a decimal, truncated to a number of digits after the point.
fn truncated(value: Decimal, digits: u8) -> Result<Decimal> {
    if digits >= value.scale {
        return Ok(value.rescale(digits)?);
    }
    let divisor = 10i128.pow(u32::from(value.scale - digits));
    Ok(Decimal::new(value.mantissa / divisor, digits)?)
}

/// `floor` and `ceil`: the truncated number, or one step further if the truncated number compares as `beyond`
/// with the number.
fn whole(call: Call, beyond: Ordering) -> Evaluated {
    let value = call.decimal(0);
    let whole = truncated(value, 0)?;
    let step = if whole.compare(value) != beyond {
        0
    } else if beyond == Ordering::Less {
        1
    } else {
        -1
    };
    call.made_decimal(Decimal::new(whole.mantissa + step, 0)?)
}

/// `round` and `trunc`, to a number of digits that may be negative.
fn rounded(call: Call, truncates: bool) -> Evaluated {
    let value = call.decimal(0);
    let digits = if call.count() > 1 { call.int(1) } else { 0 };
    let result = if digits < 0 {
        let places = u32::try_from(digits.unsigned_abs()).unwrap_or(u32::MAX).min(100);
        decimals::left_of_point(value, places, truncates)?
    } else {
        let digits = digits.min(36) as u8;
        if truncates { truncated(value, digits)? } else { value.rescale(digits)? }
    };
    call.made_decimal(result)
}

/// Returns a decimal without zeros at the end of its fraction.
fn trimmed(mut value: Decimal) -> Decimal {
    while value.scale > 0 && value.mantissa % 10 == 0 {
        value = Decimal { mantissa: value.mantissa / 10, scale: value.scale - 1 };
    }
    value
}

/// `div`: the truncated quotient.
fn quotient(call: Call) -> Evaluated {
    let (a, b) = (call.decimal(0), call.decimal(1));
    let whole = a.minus(a.remainder(b)?)?;
    let scale = whole.scale.max(b.scale);
    let quotient = whole.rescale(scale)?.mantissa / b.rescale(scale)?.mantissa;
    call.made_decimal(Decimal::new(quotient, 0)?)
}

fn divisor(a: Decimal, b: Decimal) -> Result<Decimal> {
    let scale = a.scale.max(b.scale);
    let (mut a, mut b) = (a.rescale(scale)?.mantissa.abs(), b.rescale(scale)?.mantissa.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Ok(Decimal::new(a, scale)?)
}

fn multiple(call: Call) -> Evaluated {
    let (a, b) = (call.decimal(0), call.decimal(1));
    let divisor = divisor(a, b)?;
    if divisor.mantissa == 0 {
        return call.made_decimal(divisor);
    }
    let factor = a.rescale(divisor.scale)?.mantissa.abs() / divisor.mantissa;
    let other = b.rescale(divisor.scale)?.mantissa.abs();
    let product = factor.checked_mul(other).ok_or_else(overflow)?;
    call.made_decimal(Decimal::new(product, divisor.scale)?)
}

fn to_text(call: Call, value: Decimal) -> Evaluated {
    let text = numbers::to_text(value, call.text(1))?;
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
    let (value, low, high, count) = (call.decimal(0), call.decimal(1), call.decimal(2), call.int(3));
    check_buckets(count)?;
    let is_before = |a: Decimal, b: Decimal| match low.compare(high) {
        Ordering::Less => a.compare(b).is_lt(),
        _ => a.compare(b).is_gt(),
    };
    if low == high {
        return Err(equal_bounds());
    }
    if is_before(value, low) {
        return Ok(Datum::Int(0));
    }
    if !is_before(value, high) {
        return crate::Cast::Range { to: catalog::ScalarType::Integer, least: 0, most: i32::MAX.into() }
            .apply(Datum::Int(count + 1), &mut call.machine.frame.arena)
            .map_err(Into::into);
    }
    let (distance, width) = (value.minus(low)?, high.minus(low)?);
    let scale = distance.scale.max(width.scale);
    let (distance, width) = (distance.rescale(scale)?.mantissa, width.rescale(scale)?.mantissa);
    let product = distance.checked_mul(count.into()).ok_or_else(overflow)?;
    Ok(Datum::Int((product / width) as i64 + 1))
}
