//! Powers, roots, logarithms and rounding of numerics.
//! Source: PostgreSQL 15, `numeric.c`: how many digits a result has, and with how many digits the logarithms
//! of a power or of a quotient of logarithms are rounded (`power_var`, `power_var_int`, `sqrt_var`,
//! `exp_var`, `ln_var`, `log_var`).
//! Differs: the digits come from fixed-point series with at least 24 more places than the result shows, not
//! from PostgreSQL's series.

use crate::SqlError;
use catalog::{DecimalError, MOST_DISPLAY_SCALE, Numeric, Parts, divide_rounded, ten_to};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// Minimum number of significant digits that a result shows.
const SIGNIFICANT: i32 = 16;
/// Greatest power of ten of an estimated result of `exp`; three times as much is the greatest exponent.
const MOST_RESULT_SCALE: i32 = 2000;
/// Number of places that are computed beyond those that are shown.
const GUARD: u32 = 24;
/// The logarithm of e to base 10, with the digits that PostgreSQL has of it.
#[expect(clippy::approx_constant, reason = "the scales of results follow from PostgreSQL's digits")]
const LOG10_E: f64 = 0.434294481903252;

type Result<T> = std::result::Result<T, Box<SqlError>>;

fn overflow() -> Box<SqlError> {
    DecimalError::Format.into()
}

fn refused<T>(message: &str) -> Result<T> {
    Err(SqlError::new("2201F", message).into())
}

fn is_zero(value: &BigInt) -> bool {
    *value == BigInt::from(0)
}

/// Returns zero with a scale.
fn zero_of(scale: i32) -> Result<Numeric> {
    Ok(Numeric::of_parts(BigInt::from(0), scale.unsigned_abs())?)
}

/// Returns the nearest double; an infinite one beyond the greatest.
fn double_of(parts: &Parts) -> f64 {
    Numeric::of_parts(parts.mantissa.clone(), parts.scale).map_or(f64::INFINITY, |value| value.to_double())
}

/// Returns the number of digits after the point of a result of about `10^power`: enough for the significant
/// digits, and not fewer than an operand has.
fn scale_for(power: i32, operands: &[&Parts]) -> i32 {
    let least = operands.iter().map(|operand| operand.scale as i32).max().unwrap_or(0);
    (SIGNIFICANT - power).max(least).clamp(0, MOST_DISPLAY_SCALE)
}

/// Evaluates `sqrt(value)`.
pub(crate) fn square_root(value: &Numeric) -> Result<Numeric> {
    if value.sign().is_lt() {
        return refused("cannot take square root of a negative number");
    }
    let Some(parts) = value.parts() else { return Ok(value.clone()) };
    // PostgreSQL counts digits in groups of four.
    let (weight, _) = parts.first_of_base_10000();
    let power = if weight >= 0 { weight * 2 + 1 } else { 1 - (1 - weight * 4).div_euclid(2) };
    square_root_to(value, scale_for(power, &[&parts]))
}

/// Returns the square root of a number that is not negative, with this scale.
pub(crate) fn square_root_to(value: &Numeric, scale: i32) -> Result<Numeric> {
    let Some(parts) = value.parts() else { return Ok(value.clone()) };
    let places = scale.unsigned_abs() + 2;
    // Digits that are cut do not change the whole part of the root.
    let square = match (places * 2).checked_sub(parts.scale) {
        Some(more) => parts.mantissa * ten_to(more),
        None => parts.mantissa / ten_to(parts.scale - places * 2),
    };
    Ok(Numeric::of_rounded(&Parts { mantissa: square.sqrt(), scale: places }, scale)?)
}

/// Returns `ln` of a positive number, rounded to some places.
fn logarithm_to(value: &Parts, places: i32) -> Parts {
    let places = places.max(0).unsigned_abs();
    let work = places + GUARD;
    let one = ten_to(work);
    // x = m * 2^k with m near 1; ln m = 2 artanh((m - 1) / (m + 1)).
    let (numerator, denominator) = (&value.mantissa * &one, ten_to(value.scale));
    let mut halvings = value.mantissa.bits() as i64 - denominator.bits() as i64;
    let shift = halvings.unsigned_abs();
    let mut near = match halvings >= 0 {
        true => numerator / (denominator << shift),
        false => (numerator << shift) / denominator,
    };
    while near > &one * 3 / 2 {
        near /= 2;
        halvings += 1;
    }
    while near < &one * 3 / 4 {
        near *= 2;
        halvings -= 1;
    }
    let area = |value: &BigInt| {
        let ratio = (value - &one) * &one / (value + &one);
        let square = &ratio * &ratio / &one;
        let (mut term, mut sum, mut odd) = (ratio, BigInt::from(0), 1);
        while !is_zero(&term) {
            sum += &term / odd;
            term = term * &square / &one;
            odd += 2;
        }
        sum * 2
    };
    let of_powers = if halvings == 0 { BigInt::from(0) } else { area(&(&one * 2)) * halvings };
    let mantissa = divide_rounded(&(area(&near) + of_powers), &ten_to(GUARD));
    Parts { mantissa, scale: places }
}

/// Returns `e^value` with this scale.
fn exponential_to(value: &Parts, scale: i32) -> Result<Numeric> {
    let estimate = double_of(value);
    if estimate.abs() >= f64::from(MOST_RESULT_SCALE * 3) {
        return if estimate > 0.0 { Err(overflow()) } else { zero_of(scale) };
    }
    let digits_before_point = ((estimate * LOG10_E).max(0.0) as u32) + 1;
    let places = scale.unsigned_abs() + digits_before_point + 2 * GUARD;
    let one = ten_to(places);
    // The exponent is halved until it is at most 1/16, and the result is squared as many times.
    let mut small = value.mantissa_at(places as i32);
    let mut halvings = 0;
    let limit: BigInt = &one / 16;
    while small.magnitude() > limit.magnitude() {
        small /= 2;
        halvings += 1;
    }
    let (mut term, mut sum, mut count) = (one.clone(), one.clone(), 1);
    while !is_zero(&term) {
        term = term * &small / &one / count;
        sum += &term;
        count += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    Ok(Numeric::of_rounded(&Parts { mantissa: sum, scale: places }, scale)?)
}

/// Evaluates `exp(value)`.
pub(crate) fn exponential(value: &Numeric) -> Result<Numeric> {
    let Some(parts) = value.parts() else {
        return Ok(if value.sign().is_lt() { Numeric::from(0) } else { value.clone() });
    };
    let most = f64::from(MOST_RESULT_SCALE);
    let power = (value.to_double() * LOG10_E).clamp(-most, most) as i32;
    exponential_to(&parts, scale_for(power, &[&parts]))
}

fn check_logarithm(value: &Numeric) -> Result<()> {
    match value.sign() {
        Ordering::Greater => Ok(()),
        Ordering::Equal => Err(SqlError::new("2201E", "cannot take logarithm of zero").into()),
        Ordering::Less => Err(SqlError::new("2201E", "cannot take logarithm of a negative number").into()),
    }
}

/// Returns the power of ten of the first digit of `ln` of a positive number, as PostgreSQL's
/// `estimate_ln_dweight` does.
fn magnitude_of_logarithm(value: &Parts) -> i32 {
    let one = ten_to(value.scale);
    let tenths = &value.mantissa * 10;
    if tenths >= &one * 9 && tenths <= &one * 11 {
        // PostgreSQL takes the first digit of the distance from 1.
        let distance = Parts { mantissa: &value.mantissa - &one, scale: value.scale };
        return if is_zero(&distance.mantissa) { 0 } else { distance.digits_before_point() as i32 - 1 };
    }
    let (weight, digits) = value.leading_of_base_10000(2);
    let number = digits.iter().fold(0.0, |number, digit| number * 10_000.0 + f64::from(*digit));
    let power = (weight - digits.len() as i32 + 1) * 4;
    (number.ln() + f64::from(power) * std::f64::consts::LN_10).abs().log10() as i32
}

/// Evaluates `ln(value)`.
pub(crate) fn natural_logarithm(value: &Numeric) -> Result<Numeric> {
    if value.is_nan() {
        return Ok(Numeric::NaN);
    }
    check_logarithm(value)?;
    let Some(parts) = value.parts() else { return Ok(Numeric::Infinity) };
    let scale = scale_for(magnitude_of_logarithm(&parts), &[&parts]);
    let Parts { mantissa, scale } = logarithm_to(&parts, scale);
    Ok(Numeric::of_parts(mantissa, scale)?)
}

/// Evaluates `log(value)`.
pub(crate) fn decimal_logarithm(value: &Numeric) -> Result<Numeric> {
    logarithm(&Numeric::from(10), value)
}

/// Evaluates `log(base, value)`.
pub(crate) fn logarithm(base: &Numeric, value: &Numeric) -> Result<Numeric> {
    if base.is_nan() || value.is_nan() {
        return Ok(Numeric::NaN);
    }
    if base.sign().is_lt() || value.sign().is_lt() {
        check_logarithm(&Numeric::from(-1))?;
    }
    check_logarithm(base)?;
    check_logarithm(value)?;
    let (base, value) = match (base.parts(), value.parts()) {
        (Some(base), Some(value)) => (base, value),
        (None, None) => return Ok(Numeric::NaN),
        (None, Some(_)) => return Ok(Numeric::from(0)),
        (Some(_), None) => return Ok(Numeric::Infinity),
    };
    let (power_of_base, power_of_value) = (magnitude_of_logarithm(&base), magnitude_of_logarithm(&value));
    let power = power_of_value - power_of_base;
    let scale = scale_for(power, &[&base, &value]);
    let of_base = logarithm_to(&base, scale + power - power_of_base + 8);
    let of_value = logarithm_to(&value, scale + power - power_of_value + 8);
    if is_zero(&of_base.mantissa) {
        return Err(DecimalError::DivisionByZero.into());
    }
    Ok(of_value.divided(&of_base, scale)?)
}

fn is_whole(value: &Numeric) -> bool {
    value.truncate(0).is_ok_and(|whole| whole == *value)
}

fn is_odd(value: &Numeric) -> bool {
    is_whole(value) && value.remainder(&Numeric::from(2)).is_ok_and(|rest| !rest.is_zero())
}

/// Evaluates a power of which an operand is NaN or infinite.
fn special_power(base: &Numeric, exponent: &Numeric) -> Numeric {
    let one = Numeric::from(1);
    if exponent.is_zero() || *base == one {
        return one;
    }
    if base.is_nan() || exponent.is_nan() {
        return Numeric::NaN;
    }
    let is_growing = exponent.sign().is_gt();
    if !exponent.is_finite() {
        return match base.magnitude().compare(&one) {
            Ordering::Equal => one,
            order if order.is_gt() == is_growing => Numeric::Infinity,
            _ => Numeric::from(0),
        };
    }
    match is_growing {
        false => Numeric::from(0),
        true if base.sign().is_lt() && is_odd(exponent) => Numeric::NegativeInfinity,
        true => Numeric::Infinity,
    }
}

/// Evaluates `power(base, exponent)`.
pub(crate) fn power(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    let has_nan = base.is_nan() || exponent.is_nan();
    if !has_nan && base.is_zero() && exponent.sign().is_lt() {
        return refused("zero raised to a negative power is undefined");
    }
    if !has_nan && base.sign().is_lt() && !is_whole(exponent) {
        return refused("a negative number raised to a non-integer power yields a complex result");
    }
    let (Some(of_base), Some(of_exponent)) = (base.parts(), exponent.parts()) else {
        return Ok(special_power(base, exponent));
    };
    let whole = exponent.to_int().ok().and_then(|whole| i32::try_from(whole).ok());
    if let Some(whole) = whole.filter(|whole| Numeric::from(i64::from(*whole)) == *exponent) {
        return whole_power(&of_base, whole);
    }
    if base.is_zero() {
        return zero_of(SIGNIFICANT);
    }
    let is_negative = base.sign().is_lt() && is_odd(exponent);
    let positive = Parts { mantissa: BigInt::from(of_base.mantissa.magnitude().clone()), ..of_base };
    let power_of_logarithm = magnitude_of_logarithm(&positive);
    let exponent_at = |places: i32| {
        let places = places.max(0);
        let logarithm = logarithm_to(&positive, places);
        let product = Parts {
            mantissa: logarithm.mantissa * &of_exponent.mantissa,
            scale: logarithm.scale + of_exponent.scale,
        };
        Parts { mantissa: product.mantissa_at(places), scale: places.unsigned_abs() }
    };
    let estimate = double_of(&exponent_at(8 - power_of_logarithm));
    if estimate.abs() > f64::from(MOST_RESULT_SCALE) * 3.01 {
        return if estimate > 0.0 { Err(overflow()) } else { zero_of(MOST_DISPLAY_SCALE) };
    }
    let power = (estimate * LOG10_E) as i32;
    let scale = scale_for(power, &[&positive, &of_exponent]);
    let result = exponential_to(&exponent_at((scale + power).max(0) - power_of_logarithm + 8), scale)?;
    Ok(if is_negative { result.negated() } else { result })
}

/// Returns a product, rounded to a scale.
fn product(a: &Parts, b: &Parts, scale: i32) -> Parts {
    let exact = Parts { mantissa: &a.mantissa * &b.mantissa, scale: a.scale + b.scale };
    Parts { mantissa: exact.mantissa_at(scale), scale: scale.unsigned_abs() }
}

/// Returns an integer power, by repeated squaring.
fn whole_power(base: &Parts, exponent: i32) -> Result<Numeric> {
    let scale = SIGNIFICANT.max(base.scale as i32).min(MOST_DISPLAY_SCALE);
    let one = Parts { mantissa: BigInt::from(1), scale: 0 };
    match exponent {
        0 => return Ok(Numeric::of_rounded(&one, scale)?),
        1 => return Ok(Numeric::of_rounded(base, scale)?),
        -1 => return Ok(one.divided(base, scale)?),
        2 => return Ok(Numeric::of_parts(product(base, base, scale).mantissa, scale.unsigned_abs())?),
        _ if is_zero(&base.mantissa) => return zero_of(scale),
        _ => {}
    }
    let (weight, digits) = base.leading_of_base_10000(4);
    let number = digits.iter().fold(0.0, |number, digit| number * 10_000.0 + f64::from(*digit));
    let power = f64::from((weight - digits.len() as i32 + 1) * 4);
    let estimate = f64::from(exponent) * (number.log10() + power);
    if estimate > 3.0 * f64::from(MOST_WEIGHT) * 4.0 {
        return Err(overflow());
    }
    if estimate + 1.0 < f64::from(-scale) {
        return zero_of(scale);
    }
    let significant = 1 + scale + estimate as i32 + f64::from(exponent).abs().ln() as i32 + 8;
    let mut left = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = if left & 1 == 1 { base.clone() } else { one.clone() };
    let weight_of = |parts: &Parts| parts.first_of_base_10000().0;
    while left > 1 {
        left >>= 1;
        let places = significant - 2 * weight_of(&square) * 4;
        square = product(&square, &square, places.min(2 * square.scale as i32).max(0));
        if left & 1 == 1 {
            let places = significant - (weight_of(&square) + weight_of(&result)) * 4;
            result = product(&square, &result, places.min((square.scale + result.scale) as i32).max(0));
        }
        if weight_of(&square) > MOST_WEIGHT || weight_of(&result) > MOST_WEIGHT {
            return if exponent > 0 { Err(overflow()) } else { zero_of(scale) };
        }
    }
    match exponent < 0 {
        true if is_zero(&result.mantissa) => Err(DecimalError::DivisionByZero.into()),
        true => Ok(one.divided(&result, scale)?),
        false => Ok(Numeric::of_rounded(&result, scale)?),
    }
}

/// Greatest weight of a numeric's first digit in base 10000.
const MOST_WEIGHT: i32 = i16::MAX as i32;

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Numeric {
        text.parse().unwrap()
    }

    #[test]
    fn results_have_postgresqls_digits() {
        let powers = [
            ("2.0", "3", "8.0000000000000000"),
            ("1.05", "30", "4.3219423751506620"),
            ("10.0", "-3", "0.0010000000000000"),
            ("0.0", "5", "0.0000000000000000"),
            ("-1.5", "3", "-3.3750000000000000"),
            ("2.0", "0.5", "1.4142135623730950"),
            ("10.0", "2.5", "316.22776601683793"),
            ("0.5", "1.5", "0.3535533905932738"),
            ("100.0", "-0.5", "0.10000000000000000"),
            ("1.000001", "1000", "1.0010004996662084"),
        ];
        for (base, exponent, expected) in powers {
            let result = power(&numeric(base), &numeric(exponent)).unwrap();
            assert_eq!(result.to_string(), expected, "power({base}, {exponent})");
        }
        type Case = (fn(&Numeric) -> Result<Numeric>, &'static str, &'static str);
        let functions: [Case; 16] = [
            (square_root, "2.0", "1.414213562373095"),
            (square_root, "0.0", "0.000000000000000"),
            (square_root, "144.00", "12.000000000000000"),
            (square_root, "0.0001", "0.01000000000000000"),
            (square_root, "123456789.123", "11111.11106609056"),
            (square_root, "1000000000000.0", "1000000.000000000"),
            (exponential, "1.0", "2.7182818284590452"),
            (exponential, "-1.5", "0.2231301601484298"),
            (exponential, "10.25", "28282.541920334979"),
            (exponential, "0.000001", "1.0000010000005000"),
            (natural_logarithm, "2.0", "0.6931471805599453"),
            (natural_logarithm, "1.0", "0.0000000000000000"),
            (natural_logarithm, "123456.789", "11.723646487185881"),
            (natural_logarithm, "0.000001", "-13.815510557964274"),
            (|value| logarithm(&numeric("10"), value), "0.001", "-3.0000000000000000"),
            (|value| logarithm(&numeric("10"), value), "123.456", "2.0915122016277717"),
        ];
        for (function, value, expected) in functions {
            assert_eq!(function(&numeric(value)).unwrap().to_string(), expected, "{value}");
        }
    }

    #[test]
    fn what_has_too_many_digits_is_an_overflow() {
        for (base, exponent) in
            [("10", "131072"), ("10", "4000.5"), ("0.1", "-2147483648"), ("1.5", "2147483647")]
        {
            let error = power(&numeric(base), &numeric(exponent)).unwrap_err();
            assert_eq!(error.sqlstate, "22003", "power({base}, {exponent})");
        }
        assert_eq!(exponential(&numeric("1e9")).unwrap_err().sqlstate, "22003");
        assert_eq!(power(&numeric("0.1"), &numeric("2147483647")).unwrap().to_string(), "0.0000000000000000");
    }
}
