//! Powers, roots, logarithms and rounding of decimals.
//! Source: PostgreSQL 15, `numeric.c`: how many digits a result has (`power_var`, `sqrt_var`, `exp_var`,
//! `ln_var`, `log_var`).
//! Differs: the digits come from fixed-point series with at least 24 more places than the result shows, not
//! from PostgreSQL's series.

use crate::SqlError;
use catalog::{Decimal, DecimalError};
use num_bigint::BigInt;

/// Minimum number of significant digits that a result shows.
const SIGNIFICANT: i32 = 16;
/// Maximum number of digits after the point that PostgreSQL shows.
const MOST_SCALE: i32 = 1000;
/// Number of places that are computed beyond those that are shown.
const GUARD: i32 = 24;

type Result<T> = std::result::Result<T, Box<SqlError>>;

fn overflow() -> Box<SqlError> {
    DecimalError::Overflow.into()
}

fn ten_to(places: i32) -> BigInt {
    BigInt::from(10).pow(places.max(0).unsigned_abs())
}

fn is_negative(value: &BigInt) -> bool {
    *value < BigInt::from(0)
}

fn is_zero(value: &BigInt) -> bool {
    *value == BigInt::from(0)
}

/// Returns `value / divisor`, rounded half away from zero.
fn divided(value: &BigInt, divisor: &BigInt) -> BigInt {
    let double: BigInt = value * 2;
    let half = if is_negative(value) == is_negative(divisor) { divisor.clone() } else { -divisor };
    (double + half) / (divisor * 2)
}

/// A fixed-point number: `value / 10^places`.
struct Fixed {
    value: BigInt,
    places: i32,
}

impl Fixed {
    fn of(decimal: Decimal, places: i32) -> Self {
        let value = BigInt::from(decimal.mantissa) * ten_to(places - i32::from(decimal.scale));
        Self { value, places }
    }

    /// Returns the decimal with `scale` digits after the point, rounded half away from zero.
    fn shown(&self, scale: i32) -> Result<Decimal> {
        let scale = scale.clamp(0, MOST_SCALE);
        let value = match self.places - scale {
            fewer @ 0.. => divided(&self.value, &ten_to(fewer)),
            more => &self.value * ten_to(-more),
        };
        let mantissa = i128::try_from(value).map_err(|_| overflow())?;
        let scale = u8::try_from(scale).map_err(|_| overflow())?;
        Decimal::new(mantissa, scale).map_err(|_| overflow())
    }
}

/// Returns the power of ten of the first digit of a number other than zero.
fn magnitude(decimal: Decimal) -> i32 {
    let digits = decimal.mantissa.unsigned_abs().checked_ilog10().unwrap_or(0);
    i32::try_from(digits).unwrap_or(0) - i32::from(decimal.scale)
}

/// Returns the number of digits after the point of a result of about `10^power`: enough for the significant
/// digits, and not fewer than an operand has.
fn scale_for(power: i32, operands: &[Decimal]) -> i32 {
    let least = operands.iter().map(|operand| i32::from(operand.scale)).max().unwrap_or(0);
    (SIGNIFICANT - power).max(least).clamp(0, MOST_SCALE)
}

/// Rounds or truncates a decimal to a multiple of `10^digits`: `round` and `trunc` to the left of the point.
pub(crate) fn left_of_point(decimal: Decimal, digits: u32, truncates: bool) -> Result<Decimal> {
    let places = digits + u32::from(decimal.scale);
    let Some(divisor) = 10i128.checked_pow(places) else { return Ok(Decimal::from_int(0)) };
    let (quotient, remainder) = (decimal.mantissa / divisor, decimal.mantissa % divisor);
    let is_up = !truncates && remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs();
    let quotient = quotient + if is_up { decimal.mantissa.signum() } else { 0 };
    let power = 10i128.checked_pow(digits).ok_or_else(overflow)?;
    Ok(Decimal::new(quotient.checked_mul(power).ok_or_else(overflow)?, 0)?)
}

/// Evaluates `sqrt(decimal)`.
pub(crate) fn square_root(decimal: Decimal) -> Result<Decimal> {
    if decimal.mantissa < 0 {
        return Err(SqlError::new("2201F", "cannot take square root of a negative number").into());
    }
    // PostgreSQL counts digits in groups of four.
    let weight = if decimal.mantissa == 0 { 0 } else { magnitude(decimal).div_euclid(4) };
    let power = if weight >= 0 { weight * 2 + 1 } else { 1 - (1 - weight * 4).div_euclid(2) };
    square_root_to(decimal, (SIGNIFICANT - power).max(i32::from(decimal.scale)).clamp(0, MOST_SCALE))
}

/// Returns the square root of a decimal that is not negative, with this scale.
pub(crate) fn square_root_to(decimal: Decimal, scale: i32) -> Result<Decimal> {
    let places = scale + 2;
    let value = Fixed::of(decimal, places * 2).value.sqrt();
    Fixed { value, places }.shown(scale)
}

/// Returns `ln` of a positive number, as a fixed-point number of `places` places.
fn logarithm_to(decimal: Decimal, places: i32) -> BigInt {
    let work = places + GUARD;
    let one = ten_to(work);
    // x = m · 2^k with m near 1; ln m = 2 artanh((m - 1) / (m + 1)).
    let mut value = Fixed::of(decimal, work.max(i32::from(decimal.scale))).value;
    let mut halvings = 0i64;
    while value > &one * 3 / 2 {
        value /= 2;
        halvings += 1;
    }
    while value < &one * 3 / 4 {
        value *= 2;
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
    let two = area(&(&one * 2));
    (area(&value) + two * halvings) / ten_to(GUARD)
}

/// Returns `e^value`; argument and result are fixed-point numbers of `places` places.
fn exponential_to(value: &BigInt, places: i32) -> Result<BigInt> {
    let one = ten_to(places + GUARD);
    // The exponent is halved until it is at most 1/16, and the result is squared as many times.
    let mut small = value * ten_to(GUARD);
    let mut halvings = 0;
    let limit: BigInt = &one / 16;
    while small.magnitude() > limit.magnitude() {
        small /= 2;
        halvings += 1;
        if halvings > 64 {
            return Err(overflow());
        }
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
    Ok(sum / ten_to(GUARD))
}

/// Returns whether `e^exponent` certainly overflows a decimal, or rounds to zero.
fn exceeds(exponent: f64) -> bool {
    exponent.abs() > 250.0
}

/// Evaluates `exp(decimal)`.
pub(crate) fn exponential(decimal: Decimal) -> Result<Decimal> {
    let estimate = decimal.to_double();
    if exceeds(estimate) {
        return if estimate > 0.0 {
            Err(overflow())
        } else {
            Fixed { value: BigInt::from(0), places: 0 }.shown(36)
        };
    }
    let scale = scale_for((estimate * std::f64::consts::LOG10_E) as i32, &[decimal]);
    let places = scale + GUARD + (estimate.abs() / 2.0) as i32;
    let value = exponential_to(
        &Fixed::of(decimal, places.max(i32::from(decimal.scale))).value,
        places.max(i32::from(decimal.scale)),
    )?;
    Fixed { value, places: places.max(i32::from(decimal.scale)) }.shown(scale)
}

fn check_logarithm(decimal: Decimal) -> Result<()> {
    match decimal.mantissa.signum() {
        1 => Ok(()),
        0 => Err(SqlError::new("2201E", "cannot take logarithm of zero").into()),
        _ => Err(SqlError::new("2201E", "cannot take logarithm of a negative number").into()),
    }
}

/// Returns the power of ten of the first digit of `ln(decimal)`, as PostgreSQL's `estimate_ln_dweight` does.
fn magnitude_of_logarithm(decimal: Decimal) -> i32 {
    let value = decimal.to_double();
    if (0.9..=1.1).contains(&value) {
        let distance = decimal.minus(Decimal::from_int(1)).unwrap_or(decimal);
        // PostgreSQL takes the first digit of the distance from 1.
        return if distance.mantissa == 0 { 0 } else { magnitude(distance) };
    }
    value.ln().abs().log10() as i32
}

/// Evaluates `ln(decimal)`.
pub(crate) fn natural_logarithm(decimal: Decimal) -> Result<Decimal> {
    check_logarithm(decimal)?;
    let scale = scale_for(magnitude_of_logarithm(decimal), &[decimal]);
    let places = scale + GUARD;
    Fixed { value: logarithm_to(decimal, places), places }.shown(scale)
}

/// Evaluates `log(decimal)`.
pub(crate) fn decimal_logarithm(decimal: Decimal) -> Result<Decimal> {
    logarithm(Decimal::from_int(10), decimal)
}

/// Evaluates `log(base, decimal)`.
pub(crate) fn logarithm(base: Decimal, decimal: Decimal) -> Result<Decimal> {
    check_logarithm(base)?;
    check_logarithm(decimal)?;
    let places = 2 * SIGNIFICANT + 2 * GUARD;
    let (of_base, of_value) = (logarithm_to(base, places), logarithm_to(decimal, places));
    if is_zero(&of_base) {
        return Err(DecimalError::DivisionByZero.into());
    }
    let power = magnitude_of_logarithm(decimal) - magnitude_of_logarithm(base);
    let scale = scale_for(power, &[base, decimal]);
    let value = of_value * ten_to(places) / of_base;
    Fixed { value, places }.shown(scale)
}

/// Evaluates `power(decimal, decimal)`.
pub(crate) fn power(base: Decimal, exponent: Decimal) -> Result<Decimal> {
    let whole = exponent.to_int().ok().filter(|whole| Decimal::from_int(*whole) == exponent);
    if base.mantissa == 0 && exponent.mantissa < 0 {
        return Err(SqlError::new("2201F", "zero raised to a negative power is undefined").into());
    }
    if base.mantissa < 0 && whole.is_none() {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new("2201F", message).into());
    }
    if let Some(whole) = whole.and_then(|whole| i32::try_from(whole).ok()) {
        return whole_power(base, whole);
    }
    if base.mantissa == 0 {
        return Fixed { value: BigInt::from(0), places: 0 }.shown(SIGNIFICANT);
    }
    let estimate = base.to_double().abs().ln() * exponent.to_double();
    if exceeds(estimate) {
        return Err(overflow());
    }
    let scale = scale_for((estimate * std::f64::consts::LOG10_E) as i32, &[base, exponent]);
    let places = scale + 2 * GUARD + (estimate.abs() / 2.0) as i32;
    let logarithm = logarithm_to(base, places);
    let product = logarithm * BigInt::from(exponent.mantissa) / ten_to(exponent.scale.into());
    Fixed { value: exponential_to(&product, places)?, places }.shown(scale)
}

/// Returns an integer power, by repeated squaring.
fn whole_power(base: Decimal, exponent: i32) -> Result<Decimal> {
    let scale = SIGNIFICANT.max(base.scale.into());
    if base.mantissa == 0 {
        return Fixed { value: BigInt::from(i32::from(exponent == 0)), places: 0 }.shown(scale);
    }
    let digits = (base.to_double().abs().log10() * f64::from(exponent)).abs();
    if digits > 1_000.0 {
        return if (base.to_double().abs() > 1.0) == (exponent > 0) {
            Err(overflow())
        } else {
            Fixed { value: BigInt::from(0), places: 0 }.shown(scale)
        };
    }
    // The exact power has too many places: each product is rounded to the places that matter to the result.
    let places = scale + GUARD + digits as i32;
    let one = ten_to(places);
    let mut square = Fixed::of(base, places.max(i32::from(base.scale))).value;
    let (mut left, mut result) = (exponent.unsigned_abs(), one.clone());
    while left > 0 {
        if left & 1 == 1 {
            result = divided(&(&result * &square), &one);
        }
        left >>= 1;
        if left > 0 {
            square = divided(&(&square * &square), &one);
        }
    }
    if exponent < 0 {
        if is_zero(&result) {
            return Err(overflow());
        }
        result = divided(&(&one * &one), &result);
    }
    Fixed { value: result, places }.shown(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
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
            let result = power(decimal(base), decimal(exponent)).unwrap();
            assert_eq!(result.to_string(), expected, "power({base}, {exponent})");
        }
        type Case = (fn(Decimal) -> Result<Decimal>, &'static str, &'static str);
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
            (|value| logarithm(decimal("10"), value), "0.001", "-3.0000000000000000"),
            (|value| logarithm(decimal("10"), value), "123.456", "2.0915122016277717"),
        ];
        for (function, value, expected) in functions {
            assert_eq!(function(decimal(value)).unwrap().to_string(), expected, "{value}");
        }
    }

    #[test]
    fn what_has_too_many_digits_is_an_overflow() {
        for (base, exponent) in [("10", "400"), ("10", "40.5"), ("0.1", "-2147483648"), ("1.5", "2147483647")]
        {
            let error = power(decimal(base), decimal(exponent)).unwrap_err();
            assert_eq!(error.sqlstate, "22003", "power({base}, {exponent})");
        }
        assert_eq!(exponential(decimal("1e9")).unwrap_err().sqlstate, "22003");
        assert_eq!(power(decimal("0.1"), decimal("2147483647")).unwrap().to_string(), "0.0000000000000000");
        assert_eq!(left_of_point(decimal("99.9"), 2, false).unwrap().to_string(), "100");
        assert_eq!(left_of_point(decimal("99.9"), 100, false).unwrap().to_string(), "0");
    }
}
