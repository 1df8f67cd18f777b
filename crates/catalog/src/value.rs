//! Owned values: a procedure's arguments and results.

use crate::input::{
    NoInteger, array_elements, boolean_of, bytea_of, double_of, integer_of, is_space, real_of, uuid_of,
};
use crate::{
    Arena, Datum, Decimal, DecimalError, Interval, Json, Numeric, ScalarType, TemporalError, Type,
    check_json, checked_date, checked_timestamp, rounded_timestamp,
};
use crate::{
    checked_time, format_date, format_time, format_timestamp, parse_date, parse_time, parse_timestamp,
    parse_timestamptz,
};
use std::fmt;
use thiserror::Error;

/// One owned SQL value.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// SQL NULL.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// SMALLINT, INTEGER, BIGINT.
    Int(i64),
    /// NUMERIC.
    Numeric(Numeric),
    /// DOUBLE PRECISION.
    Double(f64),
    /// REAL.
    Real(f32),
    /// CHAR, VARCHAR, TEXT, JSON, JSONB, enumerations. Every other type accepts a text too and reads it as
    /// PostgreSQL does.
    Text(String),
    /// BYTEA.
    Bytes(Vec<u8>),
    /// TIMESTAMP and TIMESTAMPTZ: microseconds since 2000-01-01.
    Timestamp(i64),
    /// DATE: days since 2000-01-01.
    Date(i32),
    /// UUID.
    Uuid([u8; 16]),
    /// A one-dimensional array.
    Array(Vec<Value>),
    /// INTERVAL.
    Interval(Interval),
    /// TIME: microseconds since midnight.
    Time(i64),
}

/// A value does not fit its target type. Carries PostgreSQL's SQLSTATE.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ValueError {
    /// PostgreSQL's five-character code.
    pub sqlstate: &'static str,
    /// What is wrong.
    pub message: String,
    /// More about it; empty if there is nothing to add.
    pub detail: String,
}

impl ValueError {
    /// Makes one.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { sqlstate, message: message.into(), detail: String::new() }
    }

    /// Adds more about what is wrong.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Returns `22003`: a number has too many digits before its point.
    pub fn field_overflow(precision: i64, scale: i64) -> Self {
        let field = format!("A field with precision {precision}, scale {scale}");
        let detail = match precision - scale {
            0 => format!("{field} must round to an absolute value less than 1."),
            most => format!("{field} must round to an absolute value less than 10^{most}."),
        };
        Self::from(crate::DecimalError::Overflow).with_detail(detail)
    }

    /// Returns `22003`: the number is outside the type's range.
    pub fn out_of_range(ty: impl fmt::Display) -> Self {
        // PostgreSQL writes the type `oid` so.
        let ty = ty.to_string().replace("oid", "OID");
        Self::new("22003", format!("{ty} out of range"))
    }

    /// Returns `22001`: the text exceeds the type's length.
    pub fn too_long(ty: impl fmt::Display) -> Self {
        Self::new("22001", format!("value too long for type {ty}"))
    }
}

impl From<crate::DecimalError> for ValueError {
    fn from(error: crate::DecimalError) -> Self {
        let sqlstate = match error {
            crate::DecimalError::Overflow | crate::DecimalError::Format => "22003",
            crate::DecimalError::DivisionByZero => "22012",
            crate::DecimalError::Syntax => "22P02",
        };
        Self::new(sqlstate, error.to_string())
    }
}

impl From<TemporalError> for ValueError {
    fn from(error: TemporalError) -> Self {
        Self::new(error.sqlstate(), error.to_string())
    }
}

macro_rules! from_integer {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Self::Int(value.into())
            }
        }
    )*};
}
from_integer!(i16, i32, i64);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}
impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}
impl From<f32> for Value {
    fn from(value: f32) -> Self {
        Self::Real(value)
    }
}
impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Numeric(value.into())
    }
}
impl From<Numeric> for Value {
    fn from(value: Numeric) -> Self {
        Self::Numeric(value)
    }
}
impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}
impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::Array(values.into_iter().map(Into::into).collect())
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Returns an array of texts, `None` for NULL, with the quotes that PostgreSQL would write.
pub(crate) fn array_text(elements: impl Iterator<Item = Option<String>>) -> String {
    let is_special = |c: char| matches!(c, '{' | '}' | '"' | '\\' | ',') || is_space(c);
    let mut out = String::from("{");
    for (place, text) in elements.enumerate() {
        out.push_str(if place > 0 { "," } else { "" });
        let Some(text) = text else {
            out.push_str("NULL");
            continue;
        };
        let is_quoted = text.is_empty() || text.contains(is_special) || text.eq_ignore_ascii_case("null");
        if !is_quoted {
            out.push_str(&text);
            continue;
        }
        out.push('"');
        out.push_str(&text.replace('\\', "\\\\").replace('"', "\\\""));
        out.push('"');
    }
    out.push('}');
    out
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => f.write_str(if *value { "t" } else { "f" }),
            Self::Int(value) => value.fmt(f),
            Self::Numeric(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&format_double(*value)),
            Self::Real(value) => f.write_str(&format_real(*value)),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                f.write_str("\\x")?;
                write_hex(f, bytes)
            }
            Self::Timestamp(us) => f.write_str(&format_timestamp(*us)),
            Self::Date(days) => f.write_str(&format_date(*days)),
            Self::Uuid(bytes) => {
                for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                    if index > 0 {
                        f.write_str("-")?;
                    }
                    write_hex(f, &bytes[part])?;
                }
                Ok(())
            }
            Self::Interval(value) => value.fmt(f),
            Self::Time(us) => f.write_str(&format_time(*us)),
            Self::Array(values) => {
                let texts = values.iter().map(|own| (*own != Self::Null).then(|| own.to_string()));
                f.write_str(&array_text(texts))
            }
        }
    }
}

/// Formats a double as PostgreSQL does: the shortest digits that identify it.
pub fn format_double(value: f64) -> String {
    match special_number(value) {
        Some(name) => name.into(),
        None => shortest(&format!("{value:e}"), 15).unwrap_or_else(|| value.to_string()),
    }
}

/// Formats a REAL as PostgreSQL does: the shortest digits that identify it.
pub fn format_real(value: f32) -> String {
    match special_number(value.into()) {
        Some(name) => name.into(),
        None => shortest(&format!("{value:e}"), 6).unwrap_or_else(|| value.to_string()),
    }
}

/// Returns the name of a number that has no digits.
fn special_number(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Returns a number with its exponent as PostgreSQL writes it; `None` if it writes the number without one.
fn shortest(written: &str, digits_before_point: i32) -> Option<String> {
    let (digits, exponent) = written.split_once('e').unwrap_or((written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let is_zero = matches!(digits, "0" | "-0");
    if is_zero || (-4..digits_before_point).contains(&exponent) {
        return None;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{digits}e{sign}{:02}", exponent.abs()))
}

/// The bits of a double behind those of a REAL.
const REAL_SHIFT: u32 = f64::MANTISSA_DIGITS - f32::MANTISSA_DIGITS;

/// Returns a REAL as the double that stands for it. A NaN keeps its bits, which processors change.
pub fn double_of_real(value: f32) -> f64 {
    if !value.is_nan() {
        return value.into();
    }
    let (bits, payload) = (u64::from(value.to_bits()), value.to_bits() & 0x7f_ffff);
    f64::from_bits((bits >> 31) << 63 | 0x7ff << 52 | u64::from(payload) << REAL_SHIFT)
}

/// Returns the REAL for which a double stands.
pub fn real_of_double(value: f64) -> f32 {
    if !value.is_nan() {
        return value as f32;
    }
    let bits = value.to_bits();
    let payload = (bits >> REAL_SHIFT) as u32 & 0x7f_ffff;
    // Without a payload it would be infinite.
    let payload = if payload == 0 { 1 << 22 } else { payload };
    f32::from_bits(((bits >> 63) as u32) << 31 | 0xff << 23 | payload)
}

/// Returns a double as the nearest REAL.
///
/// # Errors
/// 22003: it is beyond the greatest, or below the least one.
pub fn real_datum(value: f64) -> Result<Datum, ValueError> {
    let nearest = value as f32;
    match (nearest.is_infinite() && !value.is_infinite(), nearest == 0.0 && value != 0.0) {
        (true, _) => Err(ValueError::new("22003", "value out of range: overflow")),
        (_, true) => Err(ValueError::new("22003", "value out of range: underflow")),
        _ => Ok(Datum::Double(nearest.into())),
    }
}

/// Returns the least and the greatest value of an integer type.
fn integer_bounds(ty: ScalarType) -> (i64, i64) {
    match ty {
        ScalarType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
        ScalarType::Integer => (i32::MIN.into(), i32::MAX.into()),
        ScalarType::Oid => (0, u32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns the least and the greatest integer that represents a value of an exact type; `None` of types whose
/// values may not be integers.
pub fn exact_bounds(ty: ScalarType) -> Option<(i64, i64)> {
    match ty {
        ScalarType::Numeric { precision, .. } => {
            let limit = 10i64.checked_pow(precision.into())?;
            Some((1 - limit, limit - 1))
        }
        ty if ty.is_integer() => Some(integer_bounds(ty)),
        _ => None,
    }
}

/// Rounds a number to a scale.
///
/// # Errors
/// `22003`: it has too many digits for the precision.
pub fn fitted(value: &Numeric, precision: u16, scale: i16) -> Result<Numeric, ValueError> {
    value.fit(precision, scale).map_err(|error| match value.is_finite() {
        true => ValueError::field_overflow(precision.into(), scale.into()),
        false => ValueError::from(error).with_detail(format!(
            "A field with precision {precision}, scale {scale} cannot hold an infinite value."
        )),
    })
}

/// Checks and rounds a numeric into the datum of an exact type.
///
/// # Errors
/// `22003`: the type has no such value. `0A000`: NaN as a number of at most 18 digits, and NaN and the
/// infinities as integers.
pub fn exact_datum(value: Numeric, ty: ScalarType, arena: &mut Arena) -> Result<Datum, ValueError> {
    if ty.is_integer() {
        if !value.is_finite() {
            let name = if value.is_nan() { "NaN" } else { "infinity" };
            return Err(ValueError::new("0A000", format!("cannot convert {name} to {ty}")));
        }
        return integer_datum(value.to_int().map_err(|_| ValueError::out_of_range(ty))?, ty);
    }
    match (ty, value.short()) {
        (ScalarType::Numeric { precision, scale }, Some(decimal)) => {
            let fitted = decimal
                .fit(precision, scale)
                .map_err(|_| ValueError::field_overflow(precision.into(), scale.into()))?;
            Ok(match i64::try_from(fitted.mantissa) {
                Ok(mantissa) if ty.is_machine_numeric() => Datum::Int(mantissa),
                _ => arena.push_numeric(fitted),
            })
        }
        (ScalarType::Numeric { precision, scale }, None) => {
            let fitted = fitted(&value, precision.into(), scale.into())?;
            match fitted.short().and_then(|short| i64::try_from(short.mantissa).ok()) {
                _ if !ty.is_machine_numeric() => Ok(arena.push_numeric(fitted)),
                Some(mantissa) => Ok(Datum::Int(mantissa)),
                None => Err(ValueError::new("0A000", format!("NaN is not supported in type {ty}"))),
            }
        }
        (ScalarType::LongNumeric { precision, scale }, _) => {
            Ok(arena.push_numeric(fitted(&value, precision, scale)?))
        }
        _ => Ok(arena.push_numeric(value)),
    }
}

/// Returns a numeric as the nearest double.
///
/// # Errors
/// `22003`: it is a number beyond the greatest double, or too near to zero.
pub fn double_datum(value: &Numeric) -> Result<Datum, ValueError> {
    let double = value.to_double();
    let overflows = double.is_infinite() && value.is_finite();
    if overflows || double == 0.0 && !value.is_zero() {
        let message = format!("\"{value}\" is out of range for type double precision");
        return Err(ValueError::new("22003", message));
    }
    Ok(Datum::Double(double))
}

/// Returns an integer as a datum of an integer type.
fn integer_datum(value: i64, ty: ScalarType) -> Result<Datum, ValueError> {
    let (least, most) = integer_bounds(ty);
    match (least..=most).contains(&value) {
        true => Ok(Datum::Int(value)),
        false => Err(ValueError::out_of_range(ty)),
    }
}

/// Returns a text of at most `limit` characters; cuts surplus blanks.
fn limited(text: &str, limit: u32, ty: ScalarType) -> Result<&str, ValueError> {
    if text.len() <= limit as usize {
        return Ok(text);
    }
    match text.char_indices().nth(limit as usize) {
        None => Ok(text),
        Some((end, _)) if text.as_bytes()[end..].iter().all(|byte| *byte == b' ') => Ok(&text[..end]),
        Some(_) => Err(ValueError::too_long(ty)),
    }
}

/// Reads a text as a datum of a type.
///
/// # Errors
/// `22P02`, `22001`, `22003`, `22007`, `22008`: the text is no value of the type.
pub fn text_datum(text: &str, ty: ScalarType, arena: &mut Arena) -> Result<Datum, ValueError> {
    let syntax = || ValueError::new("22P02", format!("invalid input syntax for type {ty}: \"{text}\""));
    match ty {
        ScalarType::Text => Ok(arena.push_bytes(text.as_bytes())),
        ScalarType::Varchar(limit) => Ok(arena.push_bytes(limited(text, limit, ty)?.as_bytes())),
        ScalarType::Char(limit) => {
            let kept = text.trim_end_matches(' ');
            Ok(arena.push_bytes(limited(kept, limit, ty)?.as_bytes()))
        }
        ScalarType::Boolean => boolean_of(text).map(Datum::boolean).ok_or_else(syntax),
        ScalarType::Double => double_of(text)?.map(Datum::Double).ok_or_else(syntax),
        ScalarType::Real => real_of(text)?.map(|own| Datum::Double(own.into())).ok_or_else(syntax),
        ScalarType::Date => Ok(Datum::Int(parse_date(text)?.into())),
        ScalarType::Timestamp => Ok(Datum::Int(parse_timestamp(text)?)),
        ScalarType::Timestamptz => Ok(Datum::Int(parse_timestamptz(text, arena.zone())?)),
        ScalarType::ShortTimestamp { precision, zoned } => {
            let us = match zoned {
                true => parse_timestamptz(text, arena.zone())?,
                false => parse_timestamp(text)?,
            };
            Ok(Datum::Int(rounded_timestamp(us, precision)?))
        }
        ScalarType::Bytea => Ok(arena.push_bytes(&bytea_of(text)?)),
        ScalarType::Interval => Ok(arena.push_bytes(&Interval::parse(text)?.to_bytes())),
        ScalarType::Time => Ok(Datum::Int(parse_time(text)?)),
        ScalarType::Enum(own) => Ok(Datum::Int(own.definition().position(text)?)),
        ScalarType::Json => {
            check_json(text)?;
            Ok(arena.push_bytes(text.as_bytes()))
        }
        ScalarType::Jsonb => Ok(arena.push_bytes(Json::read(text)?.text().as_bytes())),
        ScalarType::Record => Ok(arena.push_bytes(text.as_bytes())),
        ScalarType::Uuid => uuid_of(text).map(|uuid| arena.push_bytes(&uuid)).ok_or_else(syntax),
        ScalarType::SmallInt | ScalarType::Integer | ScalarType::BigInt | ScalarType::Oid => {
            let (least, most) = integer_bounds(ty);
            integer_of(text, least, most).map(Datum::Int).map_err(|refusal| match refusal {
                NoInteger::Syntax => syntax(),
                NoInteger::Range => {
                    ValueError::new("22003", format!("value \"{text}\" is out of range for type {ty}"))
                }
            })
        }
        ScalarType::Numeric { .. } | ScalarType::LongNumeric { .. } | ScalarType::AnyNumeric => {
            let value = text.parse().map_err(|error| match error {
                DecimalError::Syntax => {
                    ValueError::new("22P02", format!("invalid input syntax for type numeric: \"{text}\""))
                }
                error => ValueError::from(error),
            })?;
            exact_datum(value, ty, arena)
        }
    }
}

/// Reads a text as an array of elements of a type.
///
/// # Errors
/// `22P02`: the text is no array. `0A000`: it has several dimensions. The errors of `text_datum`.
pub fn array_datum(text: &str, element: ScalarType, arena: &mut Arena) -> Result<Datum, ValueError> {
    // Elements are scalars, so making one adds no other element to the arena.
    let start = arena.begin_array();
    for own in array_elements(text)? {
        let datum = own.map_or(Ok(Datum::Null), |text| text_datum(&text, element, arena))?;
        arena.push_element(datum);
    }
    Ok(arena.end_array(start))
}

/// Copies a value into an arena as a datum of a type, checked and rounded as an assignment.
///
/// # Errors
/// The value is of another kind, or does not fit the type.
pub fn datum_from_value(value: &Value, ty: Type, arena: &mut Arena) -> Result<Datum, ValueError> {
    let scalar = ty.element();
    let mismatch = || ValueError::new("42804", format!("{value:?} is not a value of type {ty}"));
    if let (Value::Array(values), Type::Array(_)) = (value, ty) {
        // Elements are scalars, so making one adds no other element to the arena.
        let start = arena.begin_array();
        for element in values {
            let datum = match (element, scalar) {
                (Value::Int(int), _) if scalar.is_integer() || scalar == ScalarType::Oid => {
                    integer_datum(*int, scalar)
                }
                _ => datum_from_value(element, scalar.into(), arena),
            };
            arena.push_element(datum?);
        }
        return Ok(arena.end_array(start));
    }
    if matches!(ty, Type::Array(_)) && *value != Value::Null {
        return Err(mismatch());
    }
    match (value, scalar) {
        (Value::Null, _) => Ok(Datum::Null),
        (Value::Text(text), _) => text_datum(text, scalar, arena),
        (Value::Int(int), ScalarType::Double) => Ok(Datum::Double(*int as f64)),
        (Value::Numeric(value), ScalarType::Double) => double_datum(value),
        (Value::Double(double), ScalarType::Double) => Ok(Datum::Double(*double)),
        (Value::Real(real), _) if scalar.is_float() => Ok(Datum::Double(double_of_real(*real))),
        (Value::Double(double), ScalarType::Real) => real_datum(*double),
        (Value::Int(int), ScalarType::Real) => Ok(Datum::Double((*int as f32).into())),
        (Value::Numeric(value), ScalarType::Real) => text_datum(&value.to_string(), scalar, arena),
        (Value::Int(int), _) if scalar.is_integer() || scalar == ScalarType::Oid => {
            integer_datum(*int, scalar)
        }
        (Value::Int(int), _) if scalar.is_exact() => exact_datum(Numeric::from(*int), scalar, arena),
        (Value::Numeric(value), _) if scalar.is_exact() => exact_datum(value.clone(), scalar, arena),
        (Value::Boolean(value), ScalarType::Boolean) => Ok(Datum::boolean(*value)),
        (Value::Timestamp(us), ScalarType::Timestamp | ScalarType::Timestamptz) => {
            Ok(Datum::Int(checked_timestamp(*us)?))
        }
        (Value::Timestamp(us), ScalarType::ShortTimestamp { precision, .. }) => {
            Ok(Datum::Int(rounded_timestamp(*us, precision)?))
        }
        (Value::Date(days), ScalarType::Date) => Ok(Datum::Int(checked_date((*days).into())?.into())),
        (Value::Time(us), ScalarType::Time) => Ok(Datum::Int(checked_time(*us)?)),
        (Value::Interval(value), ScalarType::Interval) => Ok(arena.push_bytes(&value.to_bytes())),
        (Value::Bytes(bytes), ScalarType::Bytea) => Ok(arena.push_bytes(bytes)),
        (Value::Uuid(bytes), ScalarType::Uuid) => Ok(arena.push_bytes(bytes)),
        _ => Err(mismatch()),
    }
}

/// Returns a datum of a type as an owned value; pads CHAR(n) with blanks.
pub fn value_from_datum(datum: Datum, ty: Type, arena: &Arena) -> Value {
    let scalar = ty.element();
    match datum {
        Datum::Null => Value::Null,
        Datum::Array(span) => Value::Array(
            arena
                .elements(span)
                .iter()
                .map(|element| value_from_datum(*element, scalar.into(), arena))
                .collect(),
        ),
        Datum::Double(value) if scalar == ScalarType::Real => Value::Real(real_of_double(value)),
        Datum::Double(value) => Value::Double(value),
        Datum::Wide(_) => arena.numeric(datum, 0).map_or(Value::Null, Value::Numeric),
        Datum::Int(int) => match scalar {
            ScalarType::Boolean => Value::Boolean(int != 0),
            ScalarType::Enum(own) => Value::Text(own.definition().label(int).into()),
            ScalarType::Date => Value::Date(i32::try_from(int).unwrap_or(i32::MAX)),
            _ if scalar.is_timestamp() => Value::Timestamp(int),
            ScalarType::Time => Value::Time(int),
            ScalarType::Numeric { scale, .. } => Value::from(Decimal { mantissa: int.into(), scale }),
            _ => Value::Int(int),
        },
        Datum::Bytes(span) => {
            let bytes = arena.bytes(span);
            let text = || String::from_utf8_lossy(bytes).into_owned();
            match scalar {
                ScalarType::Bytea => Value::Bytes(bytes.to_vec()),
                ScalarType::Interval => Value::Interval(Interval::from_bytes(bytes)),
                ScalarType::Uuid => bytes.try_into().map_or(Value::Null, Value::Uuid),
                ScalarType::Char(n) if n < u32::MAX => {
                    let mut text = text();
                    let blanks = (n as usize).saturating_sub(text.chars().count());
                    text.extend(std::iter::repeat_n(' ', blanks));
                    Value::Text(text)
                }
                _ => Value::Text(text()),
            }
        }
    }
}
