//! SQL types, as PostgreSQL names and bounds them.

use crate::{EnumType, Enumeration};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ScalarType {
    /// Two-byte integer.
    SmallInt,
    /// Four-byte integer.
    Integer,
    /// Eight-byte integer.
    BigInt,
    /// Exact decimal with a fixed number of digits; `precision` ≤ 36, `scale` ≤ `precision`.
    Numeric {
        /// Total number of digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// Exact decimal of any number of digits, NaN and the infinities; each value carries its scale.
    AnyNumeric,
    /// IEEE 754 double.
    Double,
    /// True or false.
    Boolean,
    /// Text of exactly this many characters, padded with blanks; unlimited and not padded at `u32::MAX`.
    Char(u32),
    /// Text of at most this many characters.
    Varchar(u32),
    /// Text.
    Text,
    /// Microseconds since 2000-01-01, no zone.
    Timestamp,
    /// Microseconds since 2000-01-01 UTC.
    Timestamptz,
    /// Days since 2000-01-01.
    Date,
    /// Bytes.
    Bytea,
    /// 16 bytes.
    Uuid,
    /// A timestamp rounded to `precision` digits after the second, 0 to 6.
    ShortTimestamp {
        /// Digits after the second.
        precision: u8,
        /// Whether the type is TIMESTAMPTZ.
        zoned: bool,
    },
    /// JSON, as its text was given.
    Json,
    /// JSON in its normal form.
    Jsonb,
    /// An enumeration.
    Enum(EnumType),
    /// Months, days and microseconds.
    Interval,
    /// Microseconds since midnight, no zone.
    Time,
    /// A row of any columns, as the text that PostgreSQL shows. No column of a table has this type.
    Record,
    /// The number of an object of the system catalogs, 0 to 2^32 - 1.
    Oid,
    /// IEEE 754 single, held as the double of the same value.
    Real,
    /// Exact decimal of a declared number of digits that `Numeric` has no place for: `precision` above 36, or
    /// a scale below 0 or above `precision`.
    LongNumeric {
        /// Total number of digits, 1 to 1000.
        precision: u16,
        /// Digits after the point, -1000 to 1000. A negative scale rounds before the point.
        scale: i16,
    },
}

/// The type of a variable, parameter or column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "TypeImage", into = "TypeImage")]
pub enum Type {
    /// One value.
    Scalar(ScalarType),
    /// One-dimensional array.
    Array(ScalarType),
}

/// A type as checkpoints store it: one value as its type, as before there were columns of arrays.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TypeImage {
    Scalar(ScalarType),
    Array { elements: ScalarType },
}

impl From<TypeImage> for Type {
    fn from(image: TypeImage) -> Self {
        match image {
            TypeImage::Scalar(scalar) => Self::Scalar(scalar),
            TypeImage::Array { elements } => Self::Array(elements),
        }
    }
}

impl From<Type> for TypeImage {
    fn from(ty: Type) -> Self {
        match ty {
            Type::Scalar(scalar) => Self::Scalar(scalar),
            Type::Array(elements) => Self::Array { elements },
        }
    }
}

impl ScalarType {
    /// Number of digits that fit a machine integer, whatever their values.
    pub const MACHINE_DIGITS: u8 = 18;

    /// Returns whether the type is an integer of any width.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::SmallInt | Self::Integer | Self::BigInt)
    }

    /// Returns whether the type is exact: an integer or a decimal.
    pub fn is_exact(self) -> bool {
        self.is_integer() || self.is_numeric()
    }

    /// Returns whether the type is NUMERIC, of any precision.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Numeric { .. } | Self::LongNumeric { .. } | Self::AnyNumeric)
    }

    /// Returns NUMERIC of a precision, 1 to 1000, and a scale, -1000 to 1000.
    pub fn numeric(precision: u16, scale: i16) -> Self {
        match (u8::try_from(precision), u8::try_from(scale)) {
            (Ok(precision @ ..=36), Ok(scale)) if scale <= precision => Self::Numeric { precision, scale },
            _ => Self::LongNumeric { precision, scale },
        }
    }

    /// Returns whether arithmetic takes the type.
    pub fn is_number(self) -> bool {
        self.is_exact() || self.is_float()
    }

    /// Returns whether values are held as doubles.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Real | Self::Double)
    }

    /// Returns whether the type is a character type.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Char(_) | Self::Varchar(_) | Self::Text)
    }

    /// Returns whether the type is a timestamp, with or without a zone.
    pub fn is_timestamp(self) -> bool {
        matches!(self, Self::Timestamp | Self::Timestamptz | Self::ShortTimestamp { .. })
    }

    /// Returns whether the type is a timestamp with a zone.
    pub fn is_zoned(self) -> bool {
        matches!(self, Self::Timestamptz | Self::ShortTimestamp { zoned: true, .. })
    }

    /// Returns the digits after the second to which a timestamp is rounded; `None` for other types.
    pub fn timestamp_precision(self) -> Option<u8> {
        match self {
            Self::ShortTimestamp { precision, .. } => Some(precision),
            Self::Timestamp | Self::Timestamptz => Some(6),
            _ => None,
        }
    }

    /// Returns the definition of an enumeration; `None` for any other type.
    pub fn enumeration(self) -> Option<&'static Enumeration> {
        match self {
            Self::Enum(own) => Some(own.definition()),
            _ => None,
        }
    }

    /// Returns whether the type is JSON, in either form.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonb)
    }

    /// Returns whether values are held as UTF-8.
    pub fn is_utf8(self) -> bool {
        self.is_text() || self.is_json() || self == Self::Record
    }

    /// Returns whether values are held as bytes (text, JSON, bytea, uuid, interval).
    pub fn is_bytes(self) -> bool {
        self.is_utf8() || matches!(self, Self::Bytea | Self::Uuid | Self::Interval)
    }

    /// Returns whether an index can hold the type: its values have an order that bytes of keys have, too.
    pub fn is_key(self) -> bool {
        !self.is_json()
    }

    /// Returns whether values are decimals that may not fit a machine integer.
    pub fn is_wide_numeric(self) -> bool {
        self.is_numeric() && !self.is_machine_numeric()
    }

    /// Returns the scale that all values of the type share; `None` when they have none in common.
    pub fn fixed_scale(self) -> Option<u8> {
        match self {
            Self::SmallInt | Self::Integer | Self::BigInt => Some(0),
            Self::Numeric { scale, .. } => Some(scale),
            _ => None,
        }
    }

    /// Returns the type without its limit of length or precision.
    #[must_use]
    pub fn unlimited(self) -> Self {
        match self {
            Self::Varchar(_) | Self::Char(_) => Self::Text,
            Self::Numeric { .. } | Self::LongNumeric { .. } => Self::AnyNumeric,
            Self::ShortTimestamp { zoned: false, .. } => Self::Timestamp,
            Self::ShortTimestamp { zoned: true, .. } => Self::Timestamptz,
            other => other,
        }
    }

    /// Returns the type without its modifier: what PostgreSQL's `pg_type` distinguishes.
    #[must_use]
    pub fn base(self) -> Self {
        match self {
            Self::Varchar(_) => Self::Varchar(u32::MAX),
            Self::Char(_) => Self::Char(u32::MAX),
            other => other.unlimited(),
        }
    }

    /// Returns whether every scaled decimal of this type fits a machine integer.
    pub fn is_machine_numeric(self) -> bool {
        matches!(self, Self::Numeric { precision, .. } if precision <= Self::MACHINE_DIGITS)
    }

    /// Returns whether both types are of one family, so that assignment only adjusts length or scale.
    pub fn same_family(self, other: Self) -> bool {
        self == other
            || self.is_integer() && other.is_integer()
            || self.is_text() && other.is_text()
            || (self.is_exact() && !self.is_integer() && other.is_exact() && !other.is_integer())
            || self.is_timestamp() && other.is_timestamp()
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SmallInt => f.write_str("smallint"),
            Self::Integer => f.write_str("integer"),
            Self::BigInt => f.write_str("bigint"),
            Self::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::LongNumeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::AnyNumeric => f.write_str("numeric"),
            Self::Real => f.write_str("real"),
            Self::Double => f.write_str("double precision"),
            Self::Boolean => f.write_str("boolean"),
            Self::Char(u32::MAX) => f.write_str("bpchar"),
            Self::Char(n) => write!(f, "character({n})"),
            Self::Varchar(u32::MAX) => f.write_str("character varying"),
            Self::Varchar(n) => write!(f, "character varying({n})"),
            Self::Text => f.write_str("text"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::Timestamptz => f.write_str("timestamp with time zone"),
            Self::ShortTimestamp { precision, zoned } => {
                write!(f, "timestamp({precision}) {} time zone", if *zoned { "with" } else { "without" })
            }
            Self::Date => f.write_str("date"),
            Self::Bytea => f.write_str("bytea"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::Record => f.write_str("record"),
            Self::Enum(own) => f.write_str(own.definition().short_name()),
            Self::Interval => f.write_str("interval"),
            Self::Time => f.write_str("time without time zone"),
            Self::Oid => f.write_str("oid"),
        }
    }
}

impl Type {
    /// Returns the type of the value, or of one element.
    pub fn element(self) -> ScalarType {
        match self {
            Self::Scalar(scalar) | Self::Array(scalar) => scalar,
        }
    }

    /// Returns the scalar type; `None` for an array.
    pub fn scalar(self) -> Option<ScalarType> {
        match self {
            Self::Scalar(scalar) => Some(scalar),
            Self::Array(_) => None,
        }
    }

    /// Returns whether the type is an array.
    pub fn is_array(self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Returns the type with another type of value or elements.
    #[must_use]
    pub fn with_element(self, element: ScalarType) -> Self {
        match self {
            Self::Scalar(_) => Self::Scalar(element),
            Self::Array(_) => Self::Array(element),
        }
    }

    /// Returns the type without its modifier: what PostgreSQL's `pg_type` distinguishes.
    #[must_use]
    pub fn base(self) -> Self {
        self.with_element(self.element().base())
    }

    /// Returns the scale that all values of the type share; `None` for arrays, and when they have none in
    /// common.
    pub fn fixed_scale(self) -> Option<u8> {
        self.scalar().and_then(ScalarType::fixed_scale)
    }
}

impl From<ScalarType> for Type {
    fn from(scalar: ScalarType) -> Self {
        Self::Scalar(scalar)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::Array(scalar) => write!(f, "{scalar}[]"),
        }
    }
}
