//! The types of arguments and results of built-in functions.

use catalog::{ScalarType, Type};
use std::fmt;

/// The type of an argument or a result. The polymorphic ones are PostgreSQL's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// This type.
    Of(Type),
    /// Any type: the same for all `anyelement`, and the element of `anyarray`.
    AnyElement,
    /// An array of it.
    AnyArray,
    /// An enumeration: the same for all `anyenum`.
    AnyEnum,
    /// Any type to which all arguments of this kind can be converted.
    AnyCompatible,
    /// An array of it.
    AnyCompatibleArray,
    /// A value of any type. The function takes the text that the output of its type shows.
    Any,
    /// A value of any type. The function takes it as JSON.
    AnyAsJson,
    /// A value of any type that is no array. The function takes it cast to TEXT.
    AnyNonArray,
    /// The number of an object of the catalog.
    Oid,
    /// The name or number of a relation.
    Relation,
    /// A row, whose columns the statement defines.
    Record,
    /// No value.
    Void,
}

impl Kind {
    pub(crate) const BOOL: Self = Self::scalar(ScalarType::Boolean);
    pub(crate) const INT2: Self = Self::scalar(ScalarType::SmallInt);
    pub(crate) const INT4: Self = Self::scalar(ScalarType::Integer);
    pub(crate) const INT8: Self = Self::scalar(ScalarType::BigInt);
    pub(crate) const NUMERIC: Self = Self::scalar(ScalarType::AnyNumeric);
    pub(crate) const FLOAT4: Self = Self::scalar(ScalarType::Real);
    pub(crate) const FLOAT8: Self = Self::scalar(ScalarType::Double);
    pub(crate) const TEXT: Self = Self::scalar(ScalarType::Text);
    /// CHAR: a function takes it with the blanks at its end, which a stored value does not have.
    pub const BPCHAR: Self = Self::scalar(ScalarType::Char(u32::MAX));
    pub(crate) const BYTEA: Self = Self::scalar(ScalarType::Bytea);
    pub(crate) const UUID: Self = Self::scalar(ScalarType::Uuid);
    pub(crate) const DATE: Self = Self::scalar(ScalarType::Date);
    pub(crate) const TIMESTAMP: Self = Self::scalar(ScalarType::Timestamp);
    pub(crate) const TIMESTAMPTZ: Self = Self::scalar(ScalarType::Timestamptz);
    pub(crate) const INTERVAL: Self = Self::scalar(ScalarType::Interval);
    pub(crate) const TIME: Self = Self::scalar(ScalarType::Time);
    pub(crate) const OID: Self = Self::scalar(ScalarType::Oid);
    pub(crate) const JSON: Self = Self::scalar(ScalarType::Json);
    pub(crate) const JSONB: Self = Self::scalar(ScalarType::Jsonb);
    pub(crate) const TEXTS: Self = Self::Of(Type::Array(ScalarType::Text));
    pub(crate) const FLOAT8S: Self = Self::Of(Type::Array(ScalarType::Double));
    pub(crate) const INT4S: Self = Self::Of(Type::Array(ScalarType::Integer));

    const fn scalar(ty: ScalarType) -> Self {
        Self::Of(Type::Scalar(ty))
    }

    /// Returns whether the kind stands for a type that all polymorphic arguments share.
    pub fn is_polymorphic(self) -> bool {
        matches!(
            self,
            Self::AnyElement
                | Self::AnyArray
                | Self::AnyEnum
                | Self::AnyCompatible
                | Self::AnyCompatibleArray
        )
    }

    /// Returns the OID of the type in `pg_type`, for kinds that are no type of values.
    pub fn pseudo_oid(self) -> Option<u32> {
        Some(match self {
            Self::Of(_) => return None,
            Self::AnyElement => 2283,
            Self::AnyArray => 2277,
            Self::AnyEnum => 3500,
            Self::AnyCompatible => 5077,
            Self::AnyCompatibleArray => 5078,
            Self::Any | Self::AnyAsJson => 2276,
            Self::AnyNonArray => 2776,
            Self::Oid => 26,
            Self::Relation => 2205,
            Self::Record => 2249,
            Self::Void => 2278,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(ty) => ty.fmt(f),
            Self::AnyElement => f.write_str("anyelement"),
            Self::AnyArray => f.write_str("anyarray"),
            Self::AnyEnum => f.write_str("anyenum"),
            Self::AnyCompatible => f.write_str("anycompatible"),
            Self::AnyCompatibleArray => f.write_str("anycompatiblearray"),
            Self::Any | Self::AnyAsJson => f.write_str("\"any\""),
            Self::AnyNonArray => f.write_str("anynonarray"),
            Self::Oid => f.write_str("oid"),
            Self::Relation => f.write_str("regclass"),
            Self::Record => f.write_str("record"),
            Self::Void => f.write_str("void"),
        }
    }
}
