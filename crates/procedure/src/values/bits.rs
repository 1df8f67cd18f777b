//! Operators on the bits of integers.

/// An operator on the bits of integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what they are called")]
pub enum BitOperator {
    And,
    Or,
    ExclusiveOr,
    ShiftLeft(ShiftWidth),
    ShiftRight(ShiftWidth),
}

/// The type of what is shifted. As in PostgreSQL, the count of places is taken modulo the bits of the type,
/// 32 at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are what they are called")]
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
    /// `a operator b`.
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
