//! Values that no decimal holds, as bytes of rows, arrays and log records: a byte for the kind, and of a
//! number the scale (two bytes) and the magnitude. All integers are little-endian.
//!
//! Invariant: a value has one form, so equal bytes are equal values of one scale. Held by:
//! `stored_values_come_back`.

use super::Numeric;
use num_bigint::{BigInt, Sign};

const POSITIVE: u8 = 0;
const NEGATIVE: u8 = 1;
const NAN: u8 = 2;
const INFINITY: u8 = 3;
const NEGATIVE_INFINITY: u8 = 4;

impl Numeric {
    /// Returns the bytes of a value that no decimal holds; empty for a short one.
    pub fn stored(&self) -> Vec<u8> {
        match self {
            Self::Short { .. } => Vec::new(),
            Self::NaN => vec![NAN],
            Self::Infinity => vec![INFINITY],
            Self::NegativeInfinity => vec![NEGATIVE_INFINITY],
            Self::Long(long) => {
                let (sign, magnitude) = long.mantissa.to_bytes_le();
                let mut bytes = vec![if sign == Sign::Minus { NEGATIVE } else { POSITIVE }];
                bytes.extend_from_slice(&long.scale.to_le_bytes());
                bytes.extend_from_slice(&magnitude);
                bytes
            }
        }
    }

    /// Returns the length of `stored`.
    pub fn stored_length(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::NaN | Self::Infinity | Self::NegativeInfinity => 1,
            Self::Long(long) => 3 + (long.mantissa.bits().div_ceil(8) as usize).max(1),
        }
    }

    /// Reads the bytes of `stored`; `None` if they are not those of a value that no decimal holds.
    pub fn of_stored(bytes: &[u8]) -> Option<Self> {
        let sign = match *bytes {
            [NAN] => return Some(Self::NaN),
            [INFINITY] => return Some(Self::Infinity),
            [NEGATIVE_INFINITY] => return Some(Self::NegativeInfinity),
            [POSITIVE, ..] => Sign::Plus,
            [NEGATIVE, ..] => Sign::Minus,
            _ => return None,
        };
        let (scale, magnitude) = bytes.get(1..)?.split_first_chunk()?;
        let mantissa = BigInt::from_bytes_le(sign, magnitude);
        let value = Self::of_parts(mantissa, u16::from_le_bytes(*scale).into()).ok()?;
        matches!(value, Self::Long(_)).then_some(value)
    }
}
