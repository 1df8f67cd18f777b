//! Arithmetic of numerics. Two numbers whose result has at most 36 digits are computed as decimals.

use super::{MOST_DISPLAY_SCALE, MOST_SCALE, Numeric, Parts, divide_rounded, ten_to};
use crate::DecimalError;
use num_bigint::BigInt;
use std::cmp::Ordering;

/// Minimum number of significant digits of a quotient.
const SIGNIFICANT: i32 = 16;

type Result = std::result::Result<Numeric, DecimalError>;

/// Returns the digits of two numbers with the larger one of their scales.
fn aligned(a: &Parts, b: &Parts) -> (BigInt, BigInt, u32) {
    let scale = a.scale.max(b.scale);
    (a.mantissa_at(scale as i32), b.mantissa_at(scale as i32), scale)
}

/// Returns the infinity with a sign; NaN for no sign.
fn infinity(sign: Ordering) -> Numeric {
    match sign {
        Ordering::Greater => Numeric::Infinity,
        Ordering::Less => Numeric::NegativeInfinity,
        Ordering::Equal => Numeric::NaN,
    }
}

/// Returns the sign of a product.
fn product_of_signs(a: &Numeric, b: &Numeric) -> Ordering {
    match (a.sign(), b.sign()) {
        (Ordering::Equal, _) | (_, Ordering::Equal) => Ordering::Equal,
        (a, b) if a == b => Ordering::Greater,
        _ => Ordering::Less,
    }
}

impl Parts {
    /// Returns the weight of the first digit in base 10000, and at most `count` digits from it on, without
    /// zeros at their end.
    pub fn leading_of_base_10000(&self, count: u32) -> (i32, Vec<i32>) {
        if self.mantissa == BigInt::from(0) {
            return (0, Vec::new());
        }
        let weight = (self.digits_before_point() - 1).div_euclid(4);
        let exponent = (weight + 1 - i64::from(count)) * 4 + i64::from(self.scale);
        let power = ten_to(exponent.unsigned_abs() as u32);
        let magnitude = BigInt::from(self.mantissa.magnitude().clone());
        let mut leading = if exponent >= 0 { magnitude / power } else { magnitude * power };
        let mut digits = Vec::new();
        for _ in 0..count {
            digits.insert(0, i32::try_from(&leading % 10_000).unwrap_or(0));
            leading /= 10_000;
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        (weight as i32, digits)
    }

    /// Returns the weight and the value of the first digit in base 10000, the unit of PostgreSQL's scale
    /// rules.
    pub fn first_of_base_10000(&self) -> (i32, i32) {
        let (weight, digits) = self.leading_of_base_10000(1);
        (weight, digits.first().copied().unwrap_or(0))
    }

    /// Returns the scale of a quotient: at least 16 significant digits, and no less than either operand's
    /// scale.
    pub fn scale_of_quotient(&self, divisor: &Self) -> i32 {
        let (weight, first) = self.first_of_base_10000();
        let (weight_of_divisor, first_of_divisor) = divisor.first_of_base_10000();
        let weight = weight - weight_of_divisor - i32::from(first <= first_of_divisor);
        let least = self.scale.max(divisor.scale) as i32;
        (SIGNIFICANT - weight * 4).max(least).clamp(0, MOST_DISPLAY_SCALE)
    }

    /// Returns the quotient, rounded half away from zero. The divisor is not zero.
    ///
    /// # Errors
    /// `Format`: the quotient has too many digits.
    pub fn divided(&self, divisor: &Self, scale: i32) -> Result {
        let shift = i64::from(scale) + i64::from(divisor.scale) - i64::from(self.scale);
        let power = ten_to(shift.unsigned_abs() as u32);
        let quotient = match shift >= 0 {
            true => divide_rounded(&(&self.mantissa * power), &divisor.mantissa),
            false => divide_rounded(&self.mantissa, &(&divisor.mantissa * power)),
        };
        Numeric::of_parts(quotient, scale.unsigned_abs())
    }
}

impl Numeric {
    /// Returns the sum, with the larger scale.
    ///
    /// # Errors
    /// `Format`: the sum has too many digits.
    pub fn plus(&self, other: &Self) -> Result {
        if let (Some(a), Some(b)) = (self.short(), other.short())
            && let Ok(sum) = a.plus(b)
        {
            return Ok(sum.into());
        }
        match (self, other) {
            (Self::NaN, _) | (_, Self::NaN) => Ok(Self::NaN),
            (Self::Infinity, Self::NegativeInfinity) | (Self::NegativeInfinity, Self::Infinity) => {
                Ok(Self::NaN)
            }
            _ => match (self.parts(), other.parts()) {
                (Some(a), Some(b)) => {
                    let (a, b, scale) = aligned(&a, &b);
                    Self::of_parts(a + b, scale)
                }
                (None, _) => Ok(self.clone()),
                (_, None) => Ok(other.clone()),
            },
        }
    }

    /// Returns the number with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        match self {
            Self::Short { mantissa, scale } => Self::Short { mantissa: -mantissa, scale: *scale },
            Self::Long(long) => {
                Self::of_parts(-&long.mantissa, long.scale.into()).unwrap_or_else(|_| self.clone())
            }
            Self::NaN => Self::NaN,
            Self::Infinity => Self::NegativeInfinity,
            Self::NegativeInfinity => Self::Infinity,
        }
    }

    /// Returns the absolute value.
    #[must_use]
    pub fn magnitude(&self) -> Self {
        if self.sign().is_lt() { self.negated() } else { self.clone() }
    }

    /// Returns the difference, with the larger scale.
    ///
    /// # Errors
    /// `Format`: the difference has too many digits.
    pub fn minus(&self, other: &Self) -> Result {
        self.plus(&other.negated())
    }

    /// Returns the product, with the sum of the scales.
    ///
    /// # Errors
    /// `Format`: the product has too many digits.
    pub fn times(&self, other: &Self) -> Result {
        if let (Some(a), Some(b)) = (self.short(), other.short())
            && let Ok(product) = a.times(b)
        {
            return Ok(product.into());
        }
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NaN);
        }
        match (self.parts(), other.parts()) {
            (Some(a), Some(b)) => {
                let parts = Parts { mantissa: a.mantissa * b.mantissa, scale: a.scale + b.scale };
                match parts.scale > MOST_SCALE {
                    true => Self::of_rounded(&parts, MOST_SCALE as i32),
                    false => Self::of_parts(parts.mantissa, parts.scale),
                }
            }
            _ => Ok(infinity(product_of_signs(self, other))),
        }
    }

    /// Returns the quotient, with the scale that PostgreSQL selects: at least 16 significant digits, and no
    /// less than either operand's scale.
    ///
    /// # Errors
    /// `DivisionByZero`; `Format`: the quotient has too many digits.
    pub fn over(&self, other: &Self) -> Result {
        if let (Some(a), Some(b)) = (self.short(), other.short()) {
            match a.over(b) {
                Ok(quotient) => return Ok(quotient.into()),
                Err(DecimalError::DivisionByZero) => return Err(DecimalError::DivisionByZero),
                Err(_) => {}
            }
        }
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NaN);
        }
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        match (self.parts(), other.parts()) {
            (Some(a), Some(b)) => a.divided(&b, a.scale_of_quotient(&b)),
            (None, None) => Ok(Self::NaN),
            (None, Some(_)) => Ok(infinity(product_of_signs(self, other))),
            (Some(_), None) => Ok(Self::from(0)),
        }
    }

    /// Returns the quotient without its fraction.
    ///
    /// # Errors
    /// `DivisionByZero`.
    pub fn truncated_quotient(&self, other: &Self) -> Result {
        match (self.parts(), other.parts()) {
            (Some(_), Some(_)) if other.is_zero() => Err(DecimalError::DivisionByZero),
            (Some(a), Some(b)) => {
                let (a, b, _) = aligned(&a, &b);
                Self::of_parts(a / b, 0)
            }
            _ => self.over(other),
        }
    }

    /// Returns the remainder of truncating division, with the sign of the dividend.
    ///
    /// # Errors
    /// `DivisionByZero`.
    pub fn remainder(&self, other: &Self) -> Result {
        if let (Some(a), Some(b)) = (self.short(), other.short())
            && let result @ (Ok(_) | Err(DecimalError::DivisionByZero)) = a.remainder(b)
        {
            return result.map(Self::from);
        }
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NaN);
        }
        if other.is_zero() {
            return Err(DecimalError::DivisionByZero);
        }
        match (self.parts(), other.parts()) {
            (Some(a), Some(b)) => {
                let (a, b, scale) = aligned(&a, &b);
                Self::of_parts(a % b, scale)
            }
            (None, _) => Ok(Self::NaN),
            (Some(_), None) => Ok(self.clone()),
        }
    }
}
