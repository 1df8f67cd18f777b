//! Texts of numerics.

use super::{MOST_BEFORE_POINT, MOST_SCALE, Numeric, is_negative, ten_to};
use crate::decimal::{Written, without_blanks};
use crate::{Decimal, DecimalError};
use num_bigint::BigInt;
use std::{fmt, str::FromStr};

/// Returns the value without digits that a text names.
fn named(text: &str) -> Option<Numeric> {
    let text = without_blanks(text);
    if text.eq_ignore_ascii_case("nan") {
        return Some(Numeric::NaN);
    }
    let (value, name) = match text.strip_prefix('-') {
        Some(name) => (Numeric::NegativeInfinity, name),
        None => (Numeric::Infinity, text.strip_prefix('+').unwrap_or(text)),
    };
    ["inf", "infinity"].iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(value)
}

impl Written<'_> {
    fn long(&self) -> Result<Numeric, DecimalError> {
        let scale = self.fraction.len() as i64 - i64::from(self.exponent);
        let all = [self.whole, self.fraction].concat();
        let digits = all.trim_start_matches('0');
        let is_long = !digits.is_empty() && digits.len() as i64 - scale > MOST_BEFORE_POINT;
        if self.is_past_exponents() || scale > MOST_SCALE.into() || is_long {
            return Err(DecimalError::Format);
        }
        let mut mantissa = match digits {
            "" => BigInt::from(0),
            digits => BigInt::parse_bytes(digits.as_bytes(), 10).ok_or(DecimalError::Syntax)?,
        };
        if self.is_negative {
            mantissa = -mantissa;
        }
        match u32::try_from(scale) {
            Ok(scale) => Numeric::of_parts(mantissa, scale),
            Err(_) if digits.is_empty() => Ok(Numeric::from(0)),
            Err(_) => Numeric::of_parts(mantissa * ten_to(scale.unsigned_abs() as u32), 0),
        }
    }
}

impl FromStr for Numeric {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        match text.parse::<Decimal>() {
            Ok(decimal) => Ok(decimal.into()),
            Err(DecimalError::Syntax) => named(text).ok_or(DecimalError::Syntax),
            Err(_) => Written::of(text)?.long(),
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { mantissa, scale } => Decimal { mantissa: *mantissa, scale: *scale }.fmt(f),
            Self::NaN => f.write_str("NaN"),
            Self::Infinity => f.write_str("Infinity"),
            Self::NegativeInfinity => f.write_str("-Infinity"),
            Self::Long(long) => {
                let (digits, scale) = (long.mantissa.magnitude().to_string(), usize::from(long.scale));
                let digits = format!("{digits:0>width$}", width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                f.write_str(if is_negative(&long.mantissa) { "-" } else { "" })?;
                f.write_str(whole)?;
                f.write_str(if scale > 0 { "." } else { "" })?;
                f.write_str(fraction)
            }
        }
    }
}
