//! Values of NUMERIC: NaN, the infinities, and numbers of up to 131,072 digits before and 16,383 digits
//! behind the point.
//!
//! A number of at most 36 digits is held inline and computed by `Decimal`; one of more digits lies behind a
//! shared pointer. Rounding is half away from zero, and the scale of a quotient follows PostgreSQL's rule.
//! Source: PostgreSQL 15, `numeric.c`.
//! Invariants: 1. A number is long only if `Decimal` cannot hold its digits with its scale, so equal values
//! of one scale have one representation. Held by: `of_parts`, which alone makes long numbers. 2. A value is
//! not larger than a `Decimal`. Held by: `a_value_is_as_small_as_a_decimal`.

mod arithmetic;
mod bytes;
mod long;
mod text;

pub use long::{divide_rounded, ten_to};

use crate::{Decimal, DecimalError};
use long::{count_digits, is_negative, is_zero};
use num_bigint::BigInt;
use std::{cmp::Ordering, sync::Arc};

/// Maximum number of digits before the point.
const MOST_BEFORE_POINT: i64 = 131_072;
/// Maximum number of digits behind the point.
const MOST_SCALE: u32 = 16_383;
/// Maximum number of digits behind the point of a quotient, and of a result of a function.
pub const MOST_DISPLAY_SCALE: i32 = 1000;

/// The digits of a number that `Decimal` cannot hold.
#[derive(PartialEq, Eq, Debug)]
pub struct Long {
    mantissa: BigInt,
    scale: u16,
}

/// A value of NUMERIC.
#[derive(Clone, Debug)]
pub enum Numeric {
    /// `mantissa` / 10^`scale`: the fields of a `Decimal`.
    Short {
        /// The digits as one integer.
        mantissa: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// A number of more digits.
    Long(Arc<Long>),
    /// Not a number.
    NaN,
    /// Above all numbers.
    Infinity,
    /// Below all numbers.
    NegativeInfinity,
}

/// The digits of a number, as an integer and the number of digits after the point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts {
    /// The digits as one integer.
    pub mantissa: BigInt,
    /// Digits after the point.
    pub scale: u32,
}

impl Parts {
    /// Returns the mantissa with another scale, rounded half away from zero. A negative scale rounds before
    /// the point.
    pub fn mantissa_at(&self, scale: i32) -> BigInt {
        let more = i64::from(scale) - i64::from(self.scale);
        let power = ten_to(u32::try_from(more.unsigned_abs()).unwrap_or(u32::MAX));
        if more >= 0 { &self.mantissa * power } else { divide_rounded(&self.mantissa, &power) }
    }

    /// Returns the number of digits before the point; not positive when zeros follow the point.
    pub fn digits_before_point(&self) -> i64 {
        i64::from(count_digits(self.mantissa.magnitude())) - i64::from(self.scale)
    }
}

impl From<Decimal> for Numeric {
    #[inline]
    fn from(Decimal { mantissa, scale }: Decimal) -> Self {
        Self::Short { mantissa, scale }
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Self {
        Self::Short { mantissa: value.into(), scale: 0 }
    }
}

impl Numeric {
    /// Returns the value as a decimal; `None` if it has more digits, or none.
    #[inline]
    pub fn short(&self) -> Option<Decimal> {
        match self {
            Self::Short { mantissa, scale } => Some(Decimal { mantissa: *mantissa, scale: *scale }),
            _ => None,
        }
    }

    /// Makes a number of its digits.
    ///
    /// # Errors
    /// `Format`: more than 131,072 digits before, or 16,383 digits behind the point.
    pub fn of_parts(mantissa: BigInt, scale: u32) -> Result<Self, DecimalError> {
        if let (Ok(short), Ok(digits)) = (i128::try_from(&mantissa), u8::try_from(scale))
            && let Ok(decimal) = Decimal::new(short, digits)
        {
            return Ok(decimal.into());
        }
        let parts = Parts { mantissa, scale };
        // Counting takes time, and few numbers are near the limit.
        let most_digits = (parts.mantissa.bits() as f64 * std::f64::consts::LOG10_2) as i64 + 1;
        let may_exceed = most_digits - i64::from(scale) > MOST_BEFORE_POINT;
        if scale > MOST_SCALE || may_exceed && parts.digits_before_point() > MOST_BEFORE_POINT {
            return Err(DecimalError::Format);
        }
        let scale = u16::try_from(scale).map_err(|_| DecimalError::Format)?;
        Ok(Self::Long(Arc::new(Long { mantissa: parts.mantissa, scale })))
    }

    /// Makes a number of digits of which those behind `scale` are rounded; a negative scale rounds before the
    /// point.
    ///
    /// # Errors
    /// `Format`: more than 131,072 digits before, or 16,383 digits behind the point.
    pub fn of_rounded(parts: &Parts, scale: i32) -> Result<Self, DecimalError> {
        let mantissa = parts.mantissa_at(scale);
        match u32::try_from(scale) {
            Ok(scale) => Self::of_parts(mantissa, scale),
            Err(_) if is_zero(&mantissa) => Ok(Self::from(0)),
            Err(_) => Self::of_parts(mantissa * ten_to(scale.unsigned_abs()), 0),
        }
    }

    /// Returns the digits; `None` of NaN and the infinities.
    pub fn parts(&self) -> Option<Parts> {
        match self {
            Self::Short { mantissa, scale } => {
                Some(Parts { mantissa: BigInt::from(*mantissa), scale: u32::from(*scale) })
            }
            Self::Long(long) => Some(Parts { mantissa: long.mantissa.clone(), scale: long.scale.into() }),
            Self::NaN | Self::Infinity | Self::NegativeInfinity => None,
        }
    }

    /// Returns whether the value is neither NaN nor infinite.
    pub fn is_finite(&self) -> bool {
        matches!(self, Self::Short { .. } | Self::Long(_))
    }

    /// Returns whether the value is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Self::NaN)
    }

    /// Returns how the value compares with zero. NaN is above it.
    pub fn sign(&self) -> Ordering {
        match self {
            Self::Short { mantissa, .. } => mantissa.cmp(&0),
            Self::Long(long) if is_zero(&long.mantissa) => Ordering::Equal,
            Self::Long(long) if is_negative(&long.mantissa) => Ordering::Less,
            Self::NegativeInfinity => Ordering::Less,
            Self::Long(_) | Self::NaN | Self::Infinity => Ordering::Greater,
        }
    }

    /// Returns whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.sign().is_eq()
    }

    /// Returns the number of digits after the point; 0 of NaN and the infinities.
    pub fn scale(&self) -> u32 {
        match self {
            Self::Short { scale, .. } => u32::from(*scale),
            Self::Long(long) => long.scale.into(),
            Self::NaN | Self::Infinity | Self::NegativeInfinity => 0,
        }
    }

    /// Returns the number with another scale, rounded half away from zero. A negative scale rounds before the
    /// point. NaN and the infinities stay.
    ///
    /// # Errors
    /// `Format`: the result has too many digits.
    pub fn rescale(&self, scale: i32) -> Result<Self, DecimalError> {
        if let (Some(short), Ok(digits)) = (self.short(), u8::try_from(scale))
            && let Ok(rounded) = short.rescale(digits)
        {
            return Ok(rounded.into());
        }
        match self.parts() {
            Some(parts) => Self::of_rounded(&parts, scale),
            None => Ok(self.clone()),
        }
    }

    /// Returns the number without the digits behind a scale; a negative scale cuts before the point. NaN and
    /// the infinities stay.
    ///
    /// # Errors
    /// `Format`: the result has too many digits.
    pub fn truncate(&self, scale: i32) -> Result<Self, DecimalError> {
        let Some(parts) = self.parts() else { return Ok(self.clone()) };
        let fewer = i64::from(parts.scale) - i64::from(scale);
        if fewer <= 0 {
            return self.rescale(scale);
        }
        let mantissa = parts.mantissa / ten_to(u32::try_from(fewer).unwrap_or(u32::MAX));
        match u32::try_from(scale) {
            Ok(scale) => Self::of_parts(mantissa, scale),
            Err(_) => Self::of_parts(mantissa * ten_to(scale.unsigned_abs()), 0),
        }
    }

    /// Returns the value rounded and checked for `NUMERIC(precision, scale)`.
    ///
    /// # Errors
    /// `Overflow`: it is infinite, or has too many digits before the point.
    pub fn fit(&self, precision: u16, scale: i16) -> Result<Self, DecimalError> {
        if self.is_nan() {
            return Ok(Self::NaN);
        }
        let parts = self.parts().ok_or(DecimalError::Overflow)?;
        // Rounding makes no number shorter, and would take time.
        if parts.digits_before_point() > i64::from(precision) - i64::from(scale) && !is_zero(&parts.mantissa)
        {
            return Err(DecimalError::Overflow);
        }
        let mantissa = parts.mantissa_at(scale.into());
        if count_digits(mantissa.magnitude()) > precision.into() {
            return Err(DecimalError::Overflow);
        }
        match u32::try_from(scale) {
            Ok(scale) => Self::of_parts(mantissa, scale),
            Err(_) => Self::of_parts(mantissa * ten_to(scale.unsigned_abs().into()), 0),
        }
    }

    /// Returns the value without zeros at the end of its fraction.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        match self {
            Self::Short { mantissa, scale } => {
                let (mut mantissa, mut scale) = (*mantissa, *scale);
                while scale > 0 && mantissa % 10 == 0 {
                    (mantissa, scale) = (mantissa / 10, scale - 1);
                }
                Self::Short { mantissa, scale }
            }
            Self::Long(long) => {
                let digits = long.mantissa.magnitude().to_string();
                let zeros = match is_zero(&long.mantissa) {
                    true => usize::from(long.scale),
                    false => digits.bytes().rev().take_while(|digit| *digit == b'0').count(),
                };
                let cut = zeros.min(long.scale.into()) as u32;
                let trimmed = Self::of_parts(&long.mantissa / ten_to(cut), u32::from(long.scale) - cut);
                trimmed.unwrap_or_else(|_| self.clone())
            }
            special => special.clone(),
        }
    }

    /// Returns the nearest integer, half away from zero.
    ///
    /// # Errors
    /// `Overflow` beyond 64 bits, and of NaN and the infinities.
    pub fn to_int(&self) -> Result<i64, DecimalError> {
        match self.short() {
            Some(short) => short.to_int(),
            None => {
                let parts = self.parts().ok_or(DecimalError::Overflow)?;
                i64::try_from(parts.mantissa_at(0)).map_err(|_| DecimalError::Overflow)
            }
        }
    }

    /// Returns the nearest double; an infinite one beyond the greatest.
    pub fn to_double(&self) -> f64 {
        match self {
            Self::NaN => f64::NAN,
            Self::Infinity => f64::INFINITY,
            Self::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// Compares by value, whatever the scales. NaN equals itself and is above all other values.
    pub fn compare(&self, other: &Self) -> Ordering {
        if let (Some(own), Some(other)) = (self.short(), other.short()) {
            return own.compare(other);
        }
        let rank = |value: &Self| match value {
            Self::NegativeInfinity => 0,
            Self::Short { .. } | Self::Long(_) => 1,
            Self::Infinity => 2,
            Self::NaN => 3,
        };
        let (Some(own), Some(further)) = (self.parts(), other.parts()) else {
            return rank(self).cmp(&rank(other));
        };
        self.sign().cmp(&other.sign()).then_with(|| {
            let scale = own.scale.max(further.scale) as i32;
            own.mantissa_at(scale).cmp(&further.mantissa_at(scale))
        })
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

#[cfg(test)]
mod tests;
