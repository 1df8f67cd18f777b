//! The types with their OIDs and properties in PostgreSQL's catalogs.

use catalog::{ScalarType, Type};

/// Returns a type's OID, and the OID of its array type.
pub fn type_oids(scalar: ScalarType) -> (u32, u32) {
    match scalar {
        ScalarType::SmallInt => (21, 1005),
        ScalarType::Integer => (23, 1007),
        ScalarType::BigInt => (20, 1016),
        ScalarType::Numeric { .. } | ScalarType::LongNumeric { .. } | ScalarType::AnyNumeric => (1700, 1231),
        ScalarType::Real => (700, 1021),
        ScalarType::Double => (701, 1022),
        ScalarType::Boolean => (16, 1000),
        ScalarType::Char(_) => (1042, 1014),
        ScalarType::Varchar(_) => (1043, 1015),
        ScalarType::Text => (25, 1009),
        ScalarType::Timestamp | ScalarType::ShortTimestamp { zoned: false, .. } => (1114, 1115),
        ScalarType::Timestamptz | ScalarType::ShortTimestamp { zoned: true, .. } => (1184, 1185),
        ScalarType::Date => (1082, 1182),
        ScalarType::Bytea => (17, 1001),
        ScalarType::Uuid => (2950, 2951),
        ScalarType::Json => (114, 199),
        ScalarType::Jsonb => (3802, 3807),
        ScalarType::Record => (2249, 2287),
        ScalarType::Interval => (1186, 1187),
        ScalarType::Time => (1083, 1183),
        ScalarType::Oid => (26, 1028),
        ScalarType::Enum(enumeration) => (enumeration.definition().oid, enumeration.definition().oid + 1),
    }
}

/// Returns a type's modifier; -1 if it has none.
pub fn type_modifier(scalar: ScalarType) -> i32 {
    match scalar {
        ScalarType::Numeric { precision, scale } => (i32::from(precision) << 16 | i32::from(scale)) + 4,
        ScalarType::LongNumeric { precision, scale } => {
            (i32::from(precision) << 16 | i32::from(scale & 0x7ff)) + 4
        }
        ScalarType::Char(limit) | ScalarType::Varchar(limit) => i32::try_from(limit).unwrap_or(-5) + 4,
        ScalarType::ShortTimestamp { precision, .. } => precision.into(),
        _ => -1,
    }
}

/// Returns the size of a type's values in bytes; -1 if it varies.
pub fn type_length(scalar: ScalarType) -> i16 {
    if scalar.enumeration().is_some() {
        return 4;
    }
    let oid = i64::from(type_oids(scalar).0);
    TYPES.iter().find(|known| known.0 == oid).map_or(-1, |known| known.3)
}

/// Returns a type's name in the system catalogs.
pub(crate) fn type_name(scalar: ScalarType) -> &'static str {
    if let Some(enumeration) = scalar.enumeration() {
        return enumeration.short_name();
    }
    let oid = i64::from(type_oids(scalar).0);
    TYPES.iter().find(|known| known.0 == oid).map_or("", |known| known.1)
}

/// Returns the type with a name in the system catalogs.
pub(crate) fn type_named(name: &str) -> Option<ScalarType> {
    let (oid, ..) = TYPES.iter().find(|known| known.1 == name)?;
    let is_it = |ty: &ScalarType| i64::from(type_oids(*ty).0) == *oid;
    SCALARS.into_iter().find(is_it)
}

/// All types without a modifier.
pub const SCALARS: [ScalarType; 20] = [
    ScalarType::SmallInt,
    ScalarType::Integer,
    ScalarType::BigInt,
    ScalarType::AnyNumeric,
    ScalarType::Real,
    ScalarType::Double,
    ScalarType::Boolean,
    ScalarType::Char(u32::MAX),
    ScalarType::Varchar(u32::MAX),
    ScalarType::Text,
    ScalarType::Timestamp,
    ScalarType::Timestamptz,
    ScalarType::Date,
    ScalarType::Bytea,
    ScalarType::Uuid,
    ScalarType::Json,
    ScalarType::Jsonb,
    ScalarType::Interval,
    ScalarType::Time,
    ScalarType::Oid,
];

/// All types: OID, name in the system catalogs, name in SQL, size of a value in bytes, category.
pub(crate) const TYPES: [(i64, &str, &str, i16, &str); 20] = [
    (16, "bool", "boolean", 1, "B"),
    (17, "bytea", "bytea", -1, "U"),
    (20, "int8", "bigint", 8, "N"),
    (21, "int2", "smallint", 2, "N"),
    (23, "int4", "integer", 4, "N"),
    (25, "text", "text", -1, "S"),
    (26, "oid", "oid", 4, "N"),
    (114, "json", "json", -1, "U"),
    (700, "float4", "real", 4, "N"),
    (701, "float8", "double precision", 8, "N"),
    (1042, "bpchar", "character", -1, "S"),
    (1043, "varchar", "character varying", -1, "S"),
    (1082, "date", "date", 4, "D"),
    (1083, "time", "time without time zone", 8, "D"),
    (1114, "timestamp", "timestamp without time zone", 8, "D"),
    (1184, "timestamptz", "timestamp with time zone", 8, "D"),
    (1186, "interval", "interval", 16, "T"),
    (1700, "numeric", "numeric", -1, "N"),
    (2950, "uuid", "uuid", 16, "U"),
    (3802, "jsonb", "jsonb", -1, "U"),
];

/// Returns the letters of PostgreSQL's default storage and alignment for a type. They have no effect, because
/// Reprise keeps all values in memory.
pub(super) fn storage_of(oid: i64) -> (&'static str, &'static str) {
    match oid {
        16 | 2950 => ("p", "c"),
        21 => ("p", "s"),
        20 | 701 | 1114 | 1184 => ("p", "d"),
        23 | 26 | 1082 => ("p", "i"),
        1700 => ("m", "i"),
        _ => ("x", "i"),
    }
}

/// Returns the name of the input or output function of a type; `direction` is `in` or `out`.
pub(super) fn text_function(name: &str, kind: &str, direction: &str) -> String {
    match (kind, name) {
        ("e", _) => format!("enum_{direction}"),
        (_, array) if array.starts_with('_') => format!("array_{direction}"),
        (
            _,
            "bool" | "bytea" | "oid" | "int2" | "int4" | "int8" | "text" | "float8" | "bpchar" | "varchar",
        ) => {
            format!("{name}{direction}")
        }
        _ => format!("{name}_{direction}"),
    }
}

pub(super) fn type_oid(ty: Type) -> i64 {
    let (scalar, array) = type_oids(ty.element());
    i64::from(if matches!(ty, Type::Array(_)) { array } else { scalar })
}
