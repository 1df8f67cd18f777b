//! Values as they travel: PostgreSQL's types by their OIDs, and each value's text and binary form.
//! Source: PostgreSQL's protocol documentation, and the send and receive functions that it describes.

use bytes::{BufMut, BytesMut};
use reprise::Value;
use reprise::rooms::catalog::{Arena, Datum, Decimal, ScalarType, Type, format_date, format_timestamp};
use reprise::rooms::procedure::SqlError;
use reprise::rooms::sql::{type_length, type_modifier, type_oids};
use std::fmt::Write as _;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Binary,
}

impl Format {
    pub(crate) fn of(code: i16) -> Self {
        if code == 1 { Self::Binary } else { Self::Text }
    }

    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// What a column says of its type: OID, bytes of a value (negative when they vary), modifier (-1: none).
pub(crate) fn described(ty: Type) -> (u32, i16, i32) {
    let scalar = ty.element();
    let (own, array) = type_oids(scalar);
    let modifier = type_modifier(scalar);
    match ty {
        Type::Scalar(_) => (own, type_length(scalar), modifier),
        Type::Array(_) => (array, -1, modifier),
    }
}

/// The type of an OID that a client names; `None` when the statement is to tell.
///
/// # Errors
/// There is no such type here.
pub(crate) fn type_of(oid: u32) -> Result<Option<Type>, SqlError> {
    const ALL: [ScalarType; 13] = [
        ScalarType::SmallInt,
        ScalarType::Integer,
        ScalarType::BigInt,
        ScalarType::AnyNumeric,
        ScalarType::Double,
        ScalarType::Boolean,
        ScalarType::Varchar(u32::MAX),
        ScalarType::Text,
        ScalarType::Timestamp,
        ScalarType::Timestamptz,
        ScalarType::Date,
        ScalarType::Bytea,
        ScalarType::Uuid,
    ];
    // Of no type, or of a kind of text that says nothing of the value.
    if matches!(oid, 0 | 705 | 1042 | 19 | 2278) {
        return Ok(None);
    }
    if matches!(oid, 700) {
        return Ok(Some(ScalarType::Double.into()));
    }
    for scalar in ALL {
        let (own, array) = type_oids(scalar);
        let scalar = scalar.unlimited();
        if oid == own {
            return Ok(Some(scalar.into()));
        }
        if oid == array {
            return Ok(Some(Type::Array(scalar)));
        }
    }
    Err(SqlError::new("0A000", format!("parameters of the type with OID {oid} are not supported")))
}

/// Appends a value with its length.
pub(crate) fn put_value(value: Datum, ty: Type, arena: &Arena, format: Format, out: &mut BytesMut) {
    if value.is_null() {
        out.put_i32(-1);
        return;
    }
    let start = out.len();
    out.put_i32(0);
    match format {
        Format::Text => put_text(value, ty, arena, out),
        Format::Binary => put_binary(value, ty, arena, out),
    }
    let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// A double as PostgreSQL writes it.
fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..15).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

fn put_text(value: Datum, ty: Type, arena: &Arena, out: &mut BytesMut) {
    let scalar = ty.element();
    match value {
        Datum::Null => {}
        Datum::Array(span) => {
            out.put_u8(b'{');
            for (place, element) in arena.elements(span).iter().enumerate() {
                if place > 0 {
                    out.put_u8(b',');
                }
                if element.is_null() {
                    out.put_slice(b"NULL");
                    continue;
                }
                let mut text = BytesMut::new();
                put_text(*element, scalar.into(), arena, &mut text);
                put_element(&text, out);
            }
            out.put_u8(b'}');
        }
        Datum::Int(value) => match scalar {
            ScalarType::Boolean => out.put_u8(if value == 0 { b'f' } else { b't' }),
            ScalarType::Date => {
                out.put_slice(format_date(i32::try_from(value).unwrap_or(i32::MAX)).as_bytes());
            }
            ScalarType::Timestamp => out.put_slice(format_timestamp(value).as_bytes()),
            ScalarType::Timestamptz => {
                out.put_slice(format_timestamp(value).as_bytes());
                out.put_slice(b"+00");
            }
            ScalarType::Numeric { scale, .. } if scale > 0 => {
                let _ = write!(out, "{}", Decimal { mantissa: value.into(), scale });
            }
            _ => {
                let _ = write!(out, "{value}");
            }
        },
        Datum::Double(value) => out.put_slice(double_text(value).as_bytes()),
        Datum::Wide(_) => {
            if let Some(decimal) = arena.decimal(value, 0) {
                let _ = write!(out, "{decimal}");
            }
        }
        Datum::Bytes(span) => {
            let bytes = arena.bytes(span);
            match scalar {
                ScalarType::Bytea => {
                    out.put_slice(b"\\x");
                    put_hex(bytes, out);
                }
                ScalarType::Uuid => {
                    for (place, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                        if place > 0 {
                            out.put_u8(b'-');
                        }
                        put_hex(bytes.get(part).unwrap_or_default(), out);
                    }
                }
                _ => put_characters(bytes, scalar, out),
            }
        }
    }
}

/// Text, blank-padded where its type is.
fn put_characters(bytes: &[u8], scalar: ScalarType, out: &mut BytesMut) {
    out.put_slice(bytes);
    if let ScalarType::Char(limit) = scalar {
        let own = std::str::from_utf8(bytes).map_or(bytes.len(), |text| text.chars().count());
        let blanks = (limit as usize).saturating_sub(own);
        if limit != u32::MAX {
            out.put_bytes(b' ', blanks);
        }
    }
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    bytes.iter().for_each(|byte| {
        let _ = write!(out, "{byte:02x}");
    });
}

/// An element of an array, in quotes where it needs some.
fn put_element(text: &[u8], out: &mut BytesMut) {
    let special = |byte: &u8| b"{}\",\\ \t\n\r".contains(byte);
    let quoted = text.is_empty() || text.iter().any(special) || text.eq_ignore_ascii_case(b"null");
    if !quoted {
        out.put_slice(text);
        return;
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

fn put_binary(value: Datum, ty: Type, arena: &Arena, out: &mut BytesMut) {
    let scalar = ty.element();
    match value {
        Datum::Null => {}
        Datum::Array(span) => {
            let elements = arena.elements(span);
            out.put_i32(i32::from(!elements.is_empty()));
            out.put_i32(i32::from(elements.iter().any(|element| element.is_null())));
            out.put_u32(type_oids(scalar).0);
            if !elements.is_empty() {
                out.put_i32(i32::try_from(elements.len()).unwrap_or(i32::MAX));
                out.put_i32(1);
            }
            for element in elements {
                put_value(*element, scalar.into(), arena, Format::Binary, out);
            }
        }
        Datum::Int(value) => match scalar {
            ScalarType::SmallInt => out.put_i16(value as i16),
            ScalarType::Integer | ScalarType::Date => out.put_i32(value as i32),
            ScalarType::Boolean => out.put_u8(u8::from(value != 0)),
            ScalarType::Numeric { scale, .. } => put_numeric(Decimal { mantissa: value.into(), scale }, out),
            _ => out.put_i64(value),
        },
        Datum::Double(value) => out.put_f64(value),
        Datum::Wide(_) => {
            if let Some(decimal) = arena.decimal(value, 0) {
                put_numeric(decimal, out);
            }
        }
        Datum::Bytes(span) => put_characters(arena.bytes(span), scalar, out),
    }
}

/// NUMERIC: digits of base 10,000, of which the first has a weight.
fn put_numeric(decimal: Decimal, out: &mut BytesMut) {
    let negative = decimal.mantissa < 0;
    let scale = usize::from(decimal.scale);
    let text = decimal.mantissa.unsigned_abs().to_string();
    let text = format!("{text:0>width$}", width = scale + 1);
    let (whole, fraction) = text.split_at(text.len() - scale);
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let group = |group: &[u8]| group.iter().fold(0i16, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let mut digits: Vec<i16> =
        whole.as_bytes().chunks(4).chain(fraction.as_bytes().chunks(4)).map(group).collect();
    let mut weight = whole.len() as i16 / 4 - 1;
    while digits.first() == Some(&0) {
        digits.remove(0);
        weight -= 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    out.put_i16(digits.len() as i16);
    out.put_i16(if digits.is_empty() { 0 } else { weight });
    out.put_u16(if negative { 0x4000 } else { 0 });
    out.put_i16(i16::from(decimal.scale));
    digits.into_iter().for_each(|digit| out.put_i16(digit));
}

fn malformed(ty: Type) -> SqlError {
    SqlError::new("22P03", format!("incorrect binary data format for a parameter of type {ty}"))
}

/// A parameter's value.
///
/// # Errors
/// It is no value of the type.
pub(crate) fn value_of(bytes: &[u8], ty: Type, format: Format) -> Result<Value, SqlError> {
    if format == Format::Text {
        let text = std::str::from_utf8(bytes).map_err(|_| {
            SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\" in a parameter")
        })?;
        return match ty {
            Type::Scalar(_) => Ok(Value::Text(text.into())),
            Type::Array(_) => array_of_text(text)
                .ok_or_else(|| SqlError::new("22P02", format!("malformed array literal: \"{text}\""))),
        };
    }
    binary_value(bytes, ty).ok_or_else(|| malformed(ty))
}

/// `{…}` as an array of texts.
fn array_of_text(text: &str) -> Option<Value> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut values = Vec::new();
    let mut rest = inner.chars().peekable();
    while rest.peek().is_some() {
        let mut element = String::new();
        let mut quoted = false;
        if rest.peek() == Some(&'"') {
            quoted = true;
            rest.next();
            loop {
                match rest.next()? {
                    '\\' => element.push(rest.next()?),
                    '"' => break,
                    character => element.push(character),
                }
            }
        } else {
            while rest.peek().is_some_and(|next| *next != ',') {
                element.push(rest.next()?);
            }
        }
        let is_null = !quoted && element.trim().eq_ignore_ascii_case("null");
        values.push(match (is_null, quoted) {
            (true, _) => Value::Null,
            (false, true) => Value::Text(element),
            (false, false) => Value::Text(element.trim().into()),
        });
        match rest.next() {
            None => break,
            Some(',') => {}
            Some(_) => return None,
        }
    }
    Some(Value::Array(values))
}

fn binary_value(bytes: &[u8], ty: Type) -> Option<Value> {
    if let Type::Array(element) = ty {
        return binary_array(bytes, element);
    }
    Some(match ty.element() {
        ScalarType::SmallInt | ScalarType::Integer | ScalarType::BigInt => Value::Int(match bytes.len() {
            2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
            4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
            _ => i64::from_be_bytes(bytes.try_into().ok()?),
        }),
        ScalarType::Double => Value::Double(match bytes.len() {
            4 => f32::from_be_bytes(bytes.try_into().ok()?).into(),
            _ => f64::from_be_bytes(bytes.try_into().ok()?),
        }),
        ScalarType::Boolean => Value::Boolean(*bytes.first()? != 0),
        ScalarType::Numeric { .. } | ScalarType::AnyNumeric => Value::Numeric(numeric_of(bytes)?),
        ScalarType::Char(_) | ScalarType::Varchar(_) | ScalarType::Text => {
            Value::Text(String::from_utf8(bytes.to_vec()).ok()?)
        }
        ScalarType::Timestamp | ScalarType::Timestamptz => {
            Value::Timestamp(i64::from_be_bytes(bytes.try_into().ok()?))
        }
        ScalarType::Date => Value::Date(i32::from_be_bytes(bytes.try_into().ok()?)),
        ScalarType::Bytea => Value::Bytes(bytes.to_vec()),
        ScalarType::Uuid => Value::Uuid(bytes.try_into().ok()?),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn binary_array(bytes: &[u8], element: ScalarType) -> Option<Value> {
    match word(bytes, 0)? {
        0 => return Some(Value::Array(Vec::new())),
        1 => {}
        _ => return None,
    }
    let count = usize::try_from(word(bytes, 12)?).ok()?;
    let mut at = 20;
    let mut values = Vec::new();
    for _ in 0..count {
        let length = word(bytes, at)?;
        at += 4;
        values.push(match usize::try_from(length) {
            Err(_) => Value::Null,
            Ok(length) => {
                let value = binary_value(bytes.get(at..at.checked_add(length)?)?, element.into())?;
                at += length;
                value
            }
        });
    }
    Some(Value::Array(values))
}

fn numeric_of(bytes: &[u8]) -> Option<Decimal> {
    let short = |at: usize| Some(i16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (short(0)?, short(2)?, short(4)?, short(6)?);
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 36)?;
    let mut mantissa: i128 = 0;
    // Digits after the point that the groups hold.
    let held = (i32::from(count) - 1 - i32::from(weight)) * 4;
    for place in 0..usize::try_from(count).ok()? {
        mantissa = mantissa.checked_mul(10_000)?.checked_add(short(8 + 2 * place)?.into())?;
    }
    let missing = i32::from(scale) - held;
    let factor = 10i128.checked_pow(missing.unsigned_abs())?;
    mantissa = if missing >= 0 { mantissa.checked_mul(factor)? } else { mantissa / factor };
    if sign as u16 == 0x4000 {
        mantissa = -mantissa;
    }
    Some(Decimal { mantissa, scale }).filter(|_| matches!(sign as u16, 0 | 0x4000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_comes_back_from_its_binary_form() {
        for text in ["0", "1", "-1", "0.5", "10000", "12345.6789", "-0.00012", "99999999.99", "1000000"] {
            let decimal: Decimal = text.parse().unwrap();
            let mut out = BytesMut::new();
            put_numeric(decimal, &mut out);
            assert_eq!(numeric_of(&out), Some(decimal), "{text}");
        }
        assert_eq!(numeric_of(&[0, 1]), None);
    }

    #[test]
    fn doubles_are_written_as_postgresql_writes_them() {
        let written = [
            (0.0, "0"),
            (1.5, "1.5"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        written.into_iter().for_each(|(value, text)| assert_eq!(double_text(value), text));
    }

    #[test]
    fn arrays_are_read_with_their_quotes() {
        let text = |text: &str| Value::Text(text.into());
        let array = array_of_text(r#"{a,"b c",NULL,"null","q\"x"}"#).unwrap();
        let expected = vec![text("a"), text("b c"), Value::Null, text("null"), text("q\"x")];
        assert_eq!(array, Value::Array(expected));
        assert_eq!(array_of_text("{}"), Some(Value::Array(Vec::new())));
        assert_eq!(array_of_text("a"), None);
    }

    #[test]
    fn a_parameter_that_is_cut_short_is_refused() {
        for ty in [ScalarType::Integer, ScalarType::Double, ScalarType::Uuid, ScalarType::AnyNumeric] {
            assert!(value_of(&[1], ty.into(), Format::Binary).is_err());
        }
        assert!(value_of(&[0, 0, 0, 1], Type::Array(ScalarType::Integer), Format::Binary).is_err());
    }
}
