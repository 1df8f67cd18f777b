//! Exact decimals of up to 36 digits: a 128-bit integer and the number of digits after the point. `Numeric`
//! holds all values of the type, and computes by these.
//!
//! Rounding is half away from zero, and the scale of a quotient follows PostgreSQL's rule, so that one
//! expression gives the same digits in both systems.
//! Invariant: |mantissa| < 10^36, scale ≤ 36. Held by: `checked`, through which every result passes.

use crate::input::is_space;
use std::{cmp::Ordering, fmt, str::FromStr};
use thiserror::Error;

/// Maximum number of digits of a decimal.
const MAX_DIGITS: u32 = 36;
const LIMIT: i128 = 10i128.pow(MAX_DIGITS);

/// Why a number is not a decimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum DecimalError {
    /// More than 36 digits, or more than the target type has.
    #[error("numeric field overflow")]
    Overflow,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Text that is not a number.
    #[error("invalid input syntax for type numeric")]
    Syntax,
    /// More than 131,072 digits before, or 16,383 digits behind the point.
    #[error("value overflows numeric format")]
    Format,
}

/// An exact decimal number: `mantissa` / 10^`scale`.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// The digits as one integer.
    pub mantissa: i128,
    /// Digits after the point.
    pub scale: u8,
}

fn power(exponent: u32) -> Result<i128, DecimalError> {
    if exponent > MAX_DIGITS {
        return Err(DecimalError::Overflow);
    }
    Ok(10i128.pow(exponent))
}

fn divide_rounding(numerator: i128, divisor: i128) -> i128 {
    let quotient = numerator / divisor;
    let remainder = numerator % divisor;
    if remainder.unsigned_abs() * 2 >= divisor.unsigned_abs() {
        quotient + if (numerator < 0) == (divisor < 0) { 1 } else { -1 }
    } else {
        quotient
    }
}

impl Decimal {
    /// Makes a decimal from its digits.
    ///
    /// # Errors
    /// `Overflow` above 36 digits.
    pub fn new(mantissa: i128, scale: u8) -> Result<Self, DecimalError> {
        Self { mantissa, scale }.checked()
    }

    /// Returns an integer as a decimal.
    pub fn from_int(value: i64) -> Self {
        Self { mantissa: value.into(), scale: 0 }
    }

    fn checked(self) -> Result<Self, DecimalError> {
        if self.mantissa.abs() < LIMIT && u32::from(self.scale) <= MAX_DIGITS {
            Ok(self)
        } else {
            Err(DecimalError::Overflow)
        }
    }

    /// Returns the number with another scale, rounded half away from zero.
    ///
    /// # Errors
    /// `Overflow` when the digits do not fit.
    pub fn rescale(self, scale: u8) -> Result<Self, DecimalError> {
        let mantissa = match scale.cmp(&self.scale) {
            Ordering::Equal => self.mantissa,
            Ordering::Greater => self
                .mantissa
                .checked_mul(power(u32::from(scale - self.scale))?)
                .ok_or(DecimalError::Overflow)?,
            Ordering::Less => match power(u32::from(self.scale - scale)) {
                Ok(divisor) => divide_rounding(self.mantissa, divisor),
                Err(_) => 0,
            },
        };
        Self { mantissa, scale }.checked()
    }

    /// Returns the number rounded and checked for `NUMERIC(precision, scale)`.
    ///
    /// # Errors
    /// `Overflow` when it has too many digits before the point.
    pub fn fit(self, precision: u8, scale: u8) -> Result<Self, DecimalError> {
        let rounded = self.rescale(scale)?;
        if rounded.mantissa.abs() < power(precision.into())? {
            Ok(rounded)
        } else {
            Err(DecimalError::Overflow)
        }
    }

    fn aligned(self, other: Self) -> Result<(i128, i128, u8), DecimalError> {
        let scale = self.scale.max(other.scale);
        Ok((self.rescale(scale)?.mantissa, other.rescale(scale)?.mantissa, scale))
    }

    /// Returns the sum, with the larger scale.
    ///
    /// # Errors
    /// `Overflow` above 36 digits.
    pub fn plus(self, other: Self) -> Result<Self, DecimalError> {
        let (a, b, scale) = self.aligned(other)?;
        Self { mantissa: a + b, scale }.checked()
    }

    /// Returns the difference, with the larger scale.
    ///
    /// # Errors
    /// `Overflow` above 36 digits.
    pub fn minus(self, other: Self) -> Result<Self, DecimalError> {
        self.plus(Self { mantissa: -other.mantissa, scale: other.scale })
    }

    /// Returns the product, with the sum of the scales.
    ///
    /// # Errors
    /// `Overflow` above 36 digits.
    pub fn times(self, other: Self) -> Result<Self, DecimalError> {
        let mantissa = self.mantissa.checked_mul(other.mantissa).ok_or(DecimalError::Overflow)?;
        Self { mantissa, scale: self.scale + other.scale }.checked()
    }

    /// Returns the quotient, with the scale that PostgreSQL selects: at least 16 significant digits, and no
    /// less than either operand's scale.
    ///
    /// # Errors
    /// `DivisionByZero`; `Overflow` above 36 digits.
    pub fn over(self, other: Self) -> Result<Self, DecimalError> {
        if other.mantissa == 0 {
            return Err(DecimalError::DivisionByZero);
        }
        let (weight_a, first_a) = self.base_10000();
        let (weight_b, first_b) = other.base_10000();
        let mut weight = weight_a - weight_b;
        if first_a <= first_b {
            weight -= 1;
        }
        let scale = (16 - weight * 4).max(self.scale.into()).max(other.scale.into()).clamp(0, 1000);
        let scale = u8::try_from(scale).map_err(|_| DecimalError::Overflow)?;
        let shift = i32::from(scale) + i32::from(other.scale) - i32::from(self.scale);
        let (mut numerator, mut divisor) = (self.mantissa, other.mantissa);
        if shift >= 0 {
            match numerator.checked_mul(power(shift.unsigned_abs())?) {
                Some(shifted) => numerator = shifted,
                None => return Self::long_division(numerator, divisor, shift.unsigned_abs(), scale),
            }
        } else {
            divisor = divisor.checked_mul(power(shift.unsigned_abs())?).ok_or(DecimalError::Overflow)?;
        }
        Self { mantissa: divide_rounding(numerator, divisor), scale }.checked()
    }

    /// Divides digit by digit, for numerators that do not fit 128 bits after the shift.
    fn long_division(numerator: i128, divisor: i128, digits: u32, scale: u8) -> Result<Self, DecimalError> {
        let negative = (numerator < 0) != (divisor < 0);
        let (numerator, divisor) = (numerator.unsigned_abs(), divisor.unsigned_abs());
        let mut quotient = numerator / divisor;
        let mut remainder = numerator % divisor;
        for _ in 0..digits {
            remainder *= 10;
            quotient = quotient.checked_mul(10).ok_or(DecimalError::Overflow)? + remainder / divisor;
            remainder %= divisor;
        }
        if remainder * 2 >= divisor {
            quotient += 1;
        }
        let quotient = i128::try_from(quotient).map_err(|_| DecimalError::Overflow)?;
        Self { mantissa: if negative { -quotient } else { quotient }, scale }.checked()
    }

    /// Returns the weight and the value of the first digit in base 10000, the unit of PostgreSQL's scale
    /// rule.
    fn base_10000(self) -> (i32, i128) {
        if self.mantissa == 0 {
            return (0, 0);
        }
        let digits = i32::try_from(self.mantissa.unsigned_abs().ilog10()).unwrap_or(0);
        let weight = (digits - i32::from(self.scale)).div_euclid(4);
        let exponent = weight * 4 + i32::from(self.scale);
        let magnitude = self.mantissa.abs();
        let first = if exponent >= 0 {
            magnitude / 10i128.pow(exponent.unsigned_abs())
        } else {
            magnitude * 10i128.pow(exponent.unsigned_abs())
        };
        (weight, first)
    }

    /// Returns the remainder of truncating division, with the sign of the dividend.
    ///
    /// # Errors
    /// `DivisionByZero`; `Overflow` above 36 digits.
    pub fn remainder(self, other: Self) -> Result<Self, DecimalError> {
        if other.mantissa == 0 {
            return Err(DecimalError::DivisionByZero);
        }
        let (a, b, scale) = self.aligned(other)?;
        Self { mantissa: a % b, scale }.checked()
    }

    /// Returns the nearest integer, half away from zero.
    ///
    /// # Errors
    /// `Overflow` beyond 64 bits.
    pub fn to_int(self) -> Result<i64, DecimalError> {
        i64::try_from(self.rescale(0)?.mantissa).map_err(|_| DecimalError::Overflow)
    }

    /// Returns the nearest double.
    pub fn to_double(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// Compares by value, whatever the scales.
    pub fn compare(self, other: Self) -> Ordering {
        match self.aligned(other) {
            Ok((a, b, _)) => a.cmp(&b),
            // With the scale of the other one, the number with the lower scale has more than 36 digits: it is
            // the greater one, or the less one if it is negative.
            Err(_) if self.scale < other.scale => self.mantissa.cmp(&0),
            Err(_) => 0.cmp(&other.mantissa),
        }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.compare(*other) == Ordering::Equal
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = itoa::Buffer::new();
        // A number of 64 bits is written faster.
        let magnitude = self.mantissa.unsigned_abs();
        let digits = match u64::try_from(magnitude) {
            Ok(short) => buffer.format(short),
            Err(_) => buffer.format(magnitude),
        };
        if self.mantissa < 0 {
            f.write_str("-")?;
        }
        let scale = usize::from(self.scale);
        let Some(whole) = digits.len().checked_sub(scale).filter(|whole| *whole > 0) else {
            return write!(f, "0.{digits:0>scale$}");
        };
        f.write_str(&digits[..whole])?;
        if scale > 0 {
            f.write_str(".")?;
            f.write_str(&digits[whole..])?;
        }
        Ok(())
    }
}

/// Returns a text without the blanks around it that PostgreSQL ignores.
pub(crate) fn without_blanks(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The parts of the text of a number.
pub(crate) struct Written<'a> {
    pub(crate) is_negative: bool,
    /// The digits before the point.
    pub(crate) whole: &'a str,
    /// The digits behind the point.
    pub(crate) fraction: &'a str,
    pub(crate) exponent: i32,
}

impl<'a> Written<'a> {
    pub(crate) fn of(text: &'a str) -> Result<Self, DecimalError> {
        let text = without_blanks(text);
        let (body, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], exponent_of(&text[at + 1..])?),
            None => (text, 0),
        };
        let (is_negative, body) = match body.as_bytes().first() {
            Some(b'-') => (true, &body[1..]),
            Some(b'+') => (false, &body[1..]),
            _ => (false, body),
        };
        let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
        let written = Self { is_negative, whole, fraction, exponent };
        let has_digits = written.digits().next().is_some();
        if !has_digits || !written.digits().all(|digit| digit.is_ascii_digit()) {
            return Err(DecimalError::Syntax);
        }
        Ok(written)
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// Returns whether PostgreSQL refuses the exponent, also of zero.
    pub(crate) fn is_past_exponents(&self) -> bool {
        self.exponent.unsigned_abs() >= PAST_EXPONENTS
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let written = Written::of(text)?;
        if written.is_past_exponents() {
            return Err(DecimalError::Overflow);
        }
        let mut mantissa = 0i128;
        for digit in written.digits() {
            mantissa = mantissa * 10 + i128::from(digit - b'0');
            if mantissa >= LIMIT {
                return Err(DecimalError::Overflow);
            }
        }
        let mantissa = if written.is_negative { -mantissa } else { mantissa };
        let fraction = i32::try_from(written.fraction.len()).map_err(|_| DecimalError::Overflow)?;
        let scale = fraction - written.exponent;
        if scale < 0 {
            if mantissa == 0 {
                return Self::new(0, 0);
            }
            let factor = power(scale.unsigned_abs())?;
            let mantissa = mantissa.checked_mul(factor).ok_or(DecimalError::Overflow)?;
            return Self::new(mantissa, 0);
        }
        Self::new(mantissa, u8::try_from(scale).map_err(|_| DecimalError::Overflow)?)
    }
}

/// The least absolute value of an exponent that PostgreSQL refuses, whatever the digits are.
const PAST_EXPONENTS: u32 = i32::MAX as u32 / 2;

/// Reads the exponent behind the `e` of a number. `PAST_EXPONENTS` stands for all that are at least as large.
/// As in PostgreSQL, which reads it by `strtol`, blanks may stand before it.
fn exponent_of(text: &str) -> Result<i32, DecimalError> {
    let text = text.trim_start_matches(is_space);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DecimalError::Syntax);
    }
    let exponent =
        digits.parse::<u32>().map_or(PAST_EXPONENTS, |exponent| exponent.min(PAST_EXPONENTS)) as i32;
    Ok(if text.starts_with('-') { -exponent } else { exponent })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL refuses exponents from 2^30 - 1 on, also of zero, but not before the syntax.
    #[test]
    fn large_exponents_are_refused() {
        let parse = |text: &str| text.parse::<Decimal>();
        assert_eq!(parse("0e1073741822"), Ok(decimal("0")));
        for text in ["0e1073741823", "0.E30000000000000004", "0e-1073741823", "1e99999999999999999999"] {
            assert_eq!(parse(text), Err(DecimalError::Overflow), "{text}");
        }
        assert_eq!(parse(".e30000000000000004"), Err(DecimalError::Syntax));
    }

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn arithmetic_prints_as_postgresql_does() {
        // Right-hand sides are what PostgreSQL 15 prints.
        let cases = [
            (decimal("1.10").plus(decimal("2.205")), "3.305"),
            (decimal("1.10").times(decimal("-2.05")), "-2.2550"),
            (decimal("1").over(decimal("3")), "0.33333333333333333333"),
            (decimal("10").over(decimal("4")), "2.5000000000000000"),
            (decimal("100.00").over(decimal("7")), "14.2857142857142857"),
            (decimal("0.01").over(decimal("1234567")), "0.0000000081000059130043164932"),
            (decimal("-7.5").remainder(decimal("2")), "-1.5"),
            (decimal("2.345").rescale(2), "2.35"),
            (decimal("-2.345").rescale(2), "-2.35"),
            (decimal("1.5e3").rescale(0), "1500"),
        ];
        for (result, expected) in cases {
            assert_eq!(result.unwrap().to_string(), expected);
        }
    }

    #[test]
    fn overflow_and_syntax_are_errors() {
        assert_eq!(decimal("100").fit(4, 2).unwrap_err(), DecimalError::Overflow);
        assert_eq!(decimal("99.994").fit(4, 2).unwrap().to_string(), "99.99");
        assert_eq!(decimal("1").over(decimal("0.0")).unwrap_err(), DecimalError::DivisionByZero);
        for text in ["", "abc", "1.2.3", "--1", "1e", "."] {
            assert_eq!(text.parse::<Decimal>().unwrap_err(), DecimalError::Syntax, "{text:?}");
        }
        assert_eq!("1".repeat(37).parse::<Decimal>().unwrap_err(), DecimalError::Overflow);
    }
}
