//! Operators on the bits of integers.

/// An operator on the bits of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BitOperator {
    And,
    Or,
    ExclusiveOr,
    ShiftLeft(ShiftWidth),
    ShiftRight(ShiftWidth),
}

/// The type of a shifted integer. As in PostgreSQL, the shift count is taken modulo 64 for BIGINT, and modulo
/// 32 for the narrower types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ShiftWidth {
    SmallInt,
    Integer,
    BigInt,
}

impl ShiftWidth {
    fn count(self, places: i64) -> u32 {
        let bits = if self == Self::BigInt { 64 } else { 32 };
        (places & (bits - 1)) as u32
    }

    fn cut(self, value: i64) -> i64 {
        match self {
            Self::SmallInt => (value as i16).into(),
            Self::Integer => (value as i32).into(),
            Self::BigInt => value,
        }
    }
}

impl BitOperator {
    /// Evaluates `a operator b`.
    pub(crate) fn apply(self, a: i64, b: i64) -> i64 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::ExclusiveOr => a ^ b,
            Self::ShiftLeft(width) => width.cut(a.wrapping_shl(width.count(b))),
            Self::ShiftRight(width) => width.cut(a.wrapping_shr(width.count(b))),
        }
    }
}
