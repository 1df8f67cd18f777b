//! The encoding of values for clients: PostgreSQL's types by their OIDs, and the text and binary form of
//! values.
//! Source: PostgreSQL's protocol documentation, and the send and receive functions that it describes.

mod binary;

use bytes::{BufMut, BytesMut};
use catalog::{
    Interval, array_datum, format_date, format_double, format_real, format_time, format_timestamp,
    format_timestamptz, real_of_double, text_datum, utf8_of,
};
use reprise::{Arena, Datum, Decimal, Numeric, ScalarType, SqlError, Type};
use sql::{SCALARS, type_length, type_modifier, type_oids};
use std::fmt::Write as _;

/// The form of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Text,
    Binary,
}

impl Format {
    /// # Errors
    /// `22023`: no format has this code.
    pub(crate) fn of(code: i16) -> Result<Self, SqlError> {
        match code {
            0 => Ok(Self::Text),
            1 => Ok(Self::Binary),
            _ => Err(SqlError::new("22023", format!("unsupported format code: {code}"))),
        }
    }

    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Returns the description of a column's type: OID, bytes of a value (negative: variable), modifier (-1:
/// none).
pub(crate) fn described(ty: Type) -> (u32, i16, i32) {
    let scalar = ty.element();
    let (oid, array) = type_oids(scalar);
    let modifier = type_modifier(scalar);
    match ty {
        Type::Scalar(_) => (oid, type_length(scalar), modifier),
        Type::Array(_) => (array, -1, modifier),
    }
}

/// OIDs that no column has although clients send them, and the OIDs by which they are read: NAME as TEXT, and
/// their arrays.
const STAND_INS: [(u32, u32); 2] = [(19, 25), (1003, 1009)];

/// Returns whether the statement decides the type of a parameter with this OID: 0, `unknown`, or `void`,
/// which the JDBC driver sends for OUT parameters.
fn is_undecided(oid: u32) -> bool {
    matches!(oid, 0 | 705 | 2278)
}

/// Returns the type of an OID; `None` if the statement decides the type.
///
/// # Errors
/// `0A000`: the type is not supported.
pub(crate) fn type_of(oid: u32) -> Result<Option<Type>, SqlError> {
    if is_undecided(oid) {
        return Ok(None);
    }
    let known = STAND_INS.iter().find(|(named, _)| *named == oid).map_or(oid, |(_, known)| *known);
    for scalar in SCALARS {
        let (scalar_oid, array) = type_oids(scalar);
        // Blanks at the end of a CHAR are not significant, so it does not become TEXT as VARCHAR does.
        let scalar = if matches!(scalar, ScalarType::Char(_)) { scalar } else { scalar.unlimited() };
        if known == scalar_oid {
            return Ok(Some(scalar.into()));
        }
        if known == array {
            return Ok(Some(Type::Array(scalar)));
        }
    }
    // The type of a parameter that is no built-in one follows from the statement.
    if oid >= binary::FIRST_NOT_BUILT_IN {
        return Ok(None);
    }
    Err(SqlError::new("0A000", format!("parameters of the type with OID {oid} are not supported")))
}

/// Returns the OID by which a parameter is described to a client: the one that the client has given, if it
/// decides the type. The JDBC driver refuses any other OID.
pub(crate) fn parameter_oid(given: Option<u32>, ty: Type) -> u32 {
    given.filter(|oid| !is_undecided(*oid)).unwrap_or_else(|| described(ty).0)
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

/// Writes an array of integers as `int2vector` and `oidvector` are shown: with blanks between them.
pub(crate) fn put_vector(value: Datum, arena: &Arena, out: &mut BytesMut) {
    let Datum::Array(span) = value else { return out.put_i32(-1) };
    let numbers = arena.elements(span).iter().map(|element| match element {
        Datum::Int(number) => number.to_string(),
        _ => String::new(),
    });
    let text = numbers.collect::<Vec<_>>().join(" ");
    out.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
    out.put_slice(text.as_bytes());
}

/// Returns the most bytes of a value, in any format.
pub(crate) fn most_bytes(value: Datum, ty: Type, arena: &Arena) -> usize {
    /// Bytes of the longest number, date or time.
    const SCALAR: usize = 64;
    match value {
        Datum::Bytes(span) => {
            let blanks = match ty.element() {
                ScalarType::Char(limit) if limit != u32::MAX => limit as usize,
                _ => 0,
            };
            let bytes = span.length as usize;
            let digits = if ty.element() == ScalarType::Bytea { bytes } else { 0 };
            bytes + digits + blanks + SCALAR
        }
        Datum::Array(span) => {
            let elements = arena.elements(span).iter();
            // Each character may be escaped.
            2 * elements.map(|element| most_bytes(*element, ty.element().into(), arena)).sum::<usize>()
                + SCALAR
        }
        // A byte has less than three digits; zeros may stand before the first one.
        Datum::Wide(_) => {
            let zeros = arena.numeric(value, 0).map_or(0, |value| value.scale() as usize);
            3 * 8 * arena.words_of(value) + zeros + SCALAR
        }
        Datum::Null | Datum::Int(_) | Datum::Double(_) => SCALAR,
    }
}

/// Appends a value that is not NULL as text.
pub(crate) fn put_text(value: Datum, ty: Type, arena: &Arena, out: &mut BytesMut) {
    let scalar = ty.element();
    match value {
        Datum::Null => {}
        Datum::Array(span) => {
            out.put_u8(b'{');
            for (index, element) in arena.elements(span).iter().enumerate() {
                if index > 0 {
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
            ScalarType::Enum(enumeration) => out.put_slice(enumeration.definition().label(value).as_bytes()),
            ScalarType::Date => {
                out.put_slice(format_date(i32::try_from(value).unwrap_or(i32::MAX)).as_bytes());
            }
            ScalarType::Timestamp | ScalarType::ShortTimestamp { zoned: false, .. } => {
                out.put_slice(format_timestamp(value).as_bytes());
            }
            ScalarType::Time => out.put_slice(format_time(value).as_bytes()),
            _ if scalar.is_zoned() => out.put_slice(format_timestamptz(value, arena.zone()).as_bytes()),
            ScalarType::Numeric { scale, .. } if scale > 0 => {
                let _ = write!(out, "{}", Decimal { mantissa: value.into(), scale });
            }
            _ => out.put_slice(itoa::Buffer::new().format(value).as_bytes()),
        },
        Datum::Double(value) if scalar == ScalarType::Real => {
            out.put_slice(format_real(value as f32).as_bytes());
        }
        Datum::Double(value) => out.put_slice(format_double(value).as_bytes()),
        Datum::Wide(_) => {
            if let Some(value) = arena.numeric(value, 0) {
                let _ = write!(out, "{value}");
            }
        }
        Datum::Bytes(span) => {
            let bytes = arena.bytes(span);
            match scalar {
                ScalarType::Bytea => {
                    out.put_slice(b"\\x");
                    put_hex(bytes, out);
                }
                ScalarType::Interval => {
                    let _ = write!(out, "{}", Interval::from_bytes(bytes));
                }
                ScalarType::Uuid => {
                    for (index, group) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                        if index > 0 {
                            out.put_u8(b'-');
                        }
                        put_hex(bytes.get(group).unwrap_or_default(), out);
                    }
                }
                _ => put_characters(bytes, scalar, out),
            }
        }
    }
}

/// Appends a text; CHAR(n) is padded with blanks.
fn put_characters(bytes: &[u8], scalar: ScalarType, out: &mut BytesMut) {
    out.put_slice(bytes);
    if let ScalarType::Char(limit) = scalar {
        let length = std::str::from_utf8(bytes).map_or(bytes.len(), |text| text.chars().count());
        let blanks = (limit as usize).saturating_sub(length);
        if limit != u32::MAX {
            out.put_bytes(b' ', blanks);
        }
    }
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    out.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
}

/// Appends an element of an array, in quotes if it needs them.
fn put_element(text: &[u8], out: &mut BytesMut) {
    let special = |byte: &u8| b"{}\",\\ \t\n\r\x0b\x0c".contains(byte);
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
            ScalarType::Oid => out.put_u32(value as u32),
            ScalarType::Boolean => out.put_u8(u8::from(value != 0)),
            ScalarType::Enum(enumeration) => out.put_slice(enumeration.definition().label(value).as_bytes()),
            ScalarType::Numeric { scale, .. } => {
                put_numeric(&Decimal { mantissa: value.into(), scale }.into(), out)
            }
            _ => out.put_i64(value),
        },
        Datum::Double(value) if scalar == ScalarType::Real => out.put_u32(real_of_double(value).to_bits()),
        Datum::Double(value) => out.put_f64(value),
        Datum::Wide(_) => {
            if let Some(value) = arena.numeric(value, 0) {
                put_numeric(&value, out);
            }
        }
        Datum::Bytes(span) => {
            if scalar == ScalarType::Jsonb {
                out.put_u8(binary::JSONB_VERSION);
            }
            if scalar == ScalarType::Interval {
                let Interval { us, days, months } = Interval::from_bytes(arena.bytes(span));
                out.put_i64(us);
                out.put_i32(days);
                out.put_i32(months);
                return;
            }
            put_characters(arena.bytes(span), scalar, out);
        }
    }
}

/// Appends a NUMERIC: digits of base 10,000, and the weight of the first.
fn put_numeric(value: &Numeric, out: &mut BytesMut) {
    let text = match value {
        Numeric::Short { mantissa, .. } => mantissa.unsigned_abs().to_string(),
        _ => match value.parts() {
            Some(parts) => parts.mantissa.magnitude().to_string(),
            None => return put_special(value, out),
        },
    };
    let (negative, scale) = (value.sign().is_lt(), value.scale() as usize);
    let text = format!("{text:0>width$}", width = scale + 1);
    let (whole, fraction) = text.split_at(text.len() - scale);
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let group = |group: &[u8]| group.iter().fold(0i16, |sum, digit| sum * 10 + i16::from(digit - b'0'));
    let mut digits: Vec<i16> =
        whole.as_bytes().chunks(4).chain(fraction.as_bytes().chunks(4)).map(group).collect();
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let weight = (whole.len() / 4) as i32 - 1 - zeros as i32;
    digits.drain(..zeros);
    while digits.last() == Some(&0) {
        digits.pop();
    }
    out.put_u16(digits.len() as u16);
    out.put_i16(if digits.is_empty() { 0 } else { weight as i16 });
    out.put_u16(if negative { binary::NEGATIVE } else { 0 });
    out.put_u16(scale as u16);
    digits.into_iter().for_each(|digit| out.put_i16(digit));
}

/// Appends NaN or an infinity as a NUMERIC without digits.
fn put_special(value: &Numeric, out: &mut BytesMut) {
    // As in PostgreSQL, which takes bits of an infinity for a scale.
    let (sign, scale) = match value {
        Numeric::Infinity => (binary::INFINITY, 32),
        Numeric::NegativeInfinity => (binary::NEGATIVE_INFINITY, 32),
        _ => (binary::NAN, 0),
    };
    [0, 0, sign, scale].into_iter().for_each(|field| out.put_u16(field));
}

/// Reads the value of a parameter, or of a field of COPY.
///
/// # Errors
/// `22021`, `22P02`, `22P03`, `08P01` and the errors of the type: the bytes are no value of the type.
pub(crate) fn datum_of(bytes: &[u8], ty: Type, format: Format, arena: &mut Arena) -> Result<Datum, SqlError> {
    if format == Format::Binary {
        return binary::datum_of(bytes, ty, arena);
    }
    let text = utf8_of(bytes)?;
    match ty {
        Type::Scalar(scalar) => Ok(text_datum(text, scalar, arena)?),
        Type::Array(scalar) => Ok(array_datum(text, scalar, arena)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeric_comes_back_from_its_binary_form() {
        for text in [
            "0",
            "1",
            "-1",
            "0.5",
            "10000",
            "12345.6789",
            "-0.00012",
            "99999999.99",
            "1e131071",
            "-1e-16383",
            "NaN",
            "Infinity",
            "-Infinity",
            "123456789012345678901234567890123456789012345.6789",
        ] {
            let value: Numeric = text.parse().unwrap();
            let mut out = BytesMut::new();
            put_numeric(&value, &mut out);
            let mut arena = Arena::default();
            let read = datum_of(&out, ScalarType::AnyNumeric.into(), Format::Binary, &mut arena);
            assert_eq!(arena.numeric(read.unwrap(), 0), Some(value), "{text}");
        }
    }

    #[test]
    fn an_array_comes_back_from_both_forms() {
        for (element, text) in [
            (ScalarType::SmallInt, "{}"),
            (ScalarType::Integer, "{1,NULL,-3}"),
            (ScalarType::AnyNumeric, "{1.50,-0.001,NaN,-Infinity,1000000000000000000000000000000000000.5}"),
            (ScalarType::Double, "{0.5,Infinity,NULL}"),
            (ScalarType::Boolean, "{t,f,NULL}"),
            (ScalarType::Text, r#"{plain,"a \"b\", {c}","","NULL",NULL,"\\"}"#),
            (ScalarType::Date, "{2024-02-29}"),
            (ScalarType::Timestamptz, r#"{"2024-02-29 12:00:00+00",NULL}"#),
            (ScalarType::Bytea, r#"{"\\x00ff"}"#),
            (ScalarType::Uuid, "{00112233-4455-6677-8899-aabbccddeeff}"),
        ] {
            let (ty, mut arena) = (Type::Array(element), Arena::default());
            let value = datum_of(text.as_bytes(), ty, Format::Text, &mut arena).unwrap();
            let [mut binary, mut shown] = [BytesMut::new(), BytesMut::new()];
            put_value(value, ty, &arena, Format::Binary, &mut binary);
            let value = datum_of(&binary[4..], ty, Format::Binary, &mut arena).unwrap();
            put_value(value, ty, &arena, Format::Text, &mut shown);
            assert_eq!(std::str::from_utf8(&shown[4..]), Ok(text));
        }
    }

    #[test]
    fn a_parameter_that_is_cut_short_is_refused() {
        for ty in [ScalarType::Integer, ScalarType::Double, ScalarType::Uuid, ScalarType::AnyNumeric] {
            assert!(datum_of(&[1], ty.into(), Format::Binary, &mut Arena::default()).is_err());
        }
        let array = Type::Array(ScalarType::Integer);
        assert!(datum_of(&[0, 0, 0, 1], array, Format::Binary, &mut Arena::default()).is_err());
    }
}
