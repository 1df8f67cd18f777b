//! The decoder of values in PostgreSQL's binary forms.
//! Source: PostgreSQL 15, the receive functions of the types (`int4recv`, `numeric_recv`, `array_recv`, …).
//! The SQLSTATEs are theirs.
//! Held by: `values` in `workload`, beside PostgreSQL.

use catalog::{
    DecimalError, Interval, Numeric, checked_date, checked_time, checked_timestamp, double_of_real,
    exact_datum, rounded_timestamp, text_datum, utf8_of,
};
use num_bigint::BigInt;
use reprise::{Arena, Datum, ScalarType, SqlError, Type};
use sql::type_oids;

/// Most dimensions of an array in PostgreSQL.
const MOST_DIMENSIONS: i32 = 6;
/// The first byte of a JSONB.
pub(super) const JSONB_VERSION: u8 = 1;
/// From this OID on, each server numbers its types itself.
pub(super) const FIRST_NOT_BUILT_IN: u32 = 10_000;
/// Most elements of an array in PostgreSQL.
const MOST_ELEMENTS: i32 = 0x7fff_ffff / 8;

/// The bytes of a value that are not read yet.
struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let short = || SqlError::new("08P01", "insufficient data left in message");
        let (taken, left) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = left;
        Ok(*taken)
    }

    fn short(&mut self) -> Result<i16, SqlError> {
        self.array().map(i16::from_be_bytes)
    }

    fn int(&mut self) -> Result<i32, SqlError> {
        self.array().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, SqlError> {
        self.array().map(i64::from_be_bytes)
    }

    fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

fn malformed(message: &str) -> SqlError {
    SqlError::new("22P03", message)
}

/// Reads a value, which must use all bytes.
pub(super) fn datum_of(bytes: &[u8], ty: Type, arena: &mut Arena) -> Result<Datum, SqlError> {
    let mut message = Message(bytes);
    let value = match ty {
        Type::Scalar(scalar) => scalar_of(&mut message, scalar, arena)?,
        Type::Array(element) => array_of(&mut message, element, arena)?,
    };
    match message.0 {
        [] => Ok(value),
        _ => Err(malformed(&format!("incorrect binary data format in a value of type {ty}"))),
    }
}

fn scalar_of(message: &mut Message<'_>, ty: ScalarType, arena: &mut Arena) -> Result<Datum, SqlError> {
    Ok(match ty {
        ScalarType::SmallInt => Datum::Int(message.short()?.into()),
        ScalarType::Integer => Datum::Int(message.int()?.into()),
        ScalarType::Oid => Datum::Int((message.int()? as u32).into()),
        ScalarType::BigInt => Datum::Int(message.long()?),
        ScalarType::Real => {
            Datum::Double(double_of_real(f32::from_bits(u32::from_be_bytes(message.array()?))))
        }
        ScalarType::Double => Datum::Double(f64::from_be_bytes(message.array()?)),
        ScalarType::Boolean => Datum::boolean(message.array::<1>()? != [0]),
        ScalarType::Numeric { .. } | ScalarType::LongNumeric { .. } | ScalarType::AnyNumeric => {
            exact_datum(numeric_of(message)?, ty, arena)?
        }
        ScalarType::Char(_) | ScalarType::Varchar(_) | ScalarType::Text => {
            text_datum(utf8_of(message.remaining())?, ty, arena)?
        }
        ScalarType::Timestamp | ScalarType::Timestamptz => Datum::Int(checked_timestamp(message.long()?)?),
        ScalarType::ShortTimestamp { precision, .. } => {
            Datum::Int(rounded_timestamp(checked_timestamp(message.long()?)?, precision)?)
        }
        ScalarType::Time => Datum::Int(checked_time(message.long()?)?),
        ScalarType::Date => Datum::Int(checked_date(message.int()?.into())?.into()),
        ScalarType::Json | ScalarType::Record | ScalarType::Enum(_) => {
            text_datum(utf8_of(message.remaining())?, ty, arena)?
        }
        ScalarType::Jsonb => match message.array()? {
            [JSONB_VERSION] => text_datum(utf8_of(message.remaining())?, ty, arena)?,
            [version] => {
                let message = format!("unsupported jsonb version number {version}");
                return Err(SqlError::new("XX000", message));
            }
        },
        ScalarType::Bytea => arena.push_bytes(message.remaining()),
        ScalarType::Uuid => arena.push_bytes(&message.array::<16>()?),
        ScalarType::Interval => {
            let (us, days, months) = (message.long()?, message.int()?, message.int()?);
            arena.push_bytes(&Interval { us, days, months }.to_bytes())
        }
    })
}

/// Reads an array: number of dimensions, a flag for NULLs, the OID of the elements, length and first index,
/// and the elements with their lengths.
fn array_of(message: &mut Message<'_>, element: ScalarType, arena: &mut Arena) -> Result<Datum, SqlError> {
    let dimensions = message.int()?;
    if dimensions < 0 {
        return Err(malformed(&format!("invalid number of dimensions: {dimensions}")));
    }
    if dimensions > MOST_DIMENSIONS {
        let message = format!(
            "number of array dimensions ({dimensions}) exceeds the maximum allowed ({MOST_DIMENSIONS})"
        );
        return Err(SqlError::new("54000", message));
    }
    if !matches!(message.int()?, 0 | 1) {
        return Err(malformed("invalid array flags"));
    }
    let oid = message.int()? as u32;
    // The text types have one representation, so a client may send any of their OIDs. As in PostgreSQL, the
    // OID of a type that is not built in may come from another server.
    let is_same = oid == type_oids(element).0
        || oid >= FIRST_NOT_BUILT_IN
        || element.is_text() && matches!(oid, 19 | 25 | 1042 | 1043);
    if !is_same {
        return Err(SqlError::new(
            "42804",
            format!("binary data has array element type {oid}, not {element}"),
        ));
    }
    if dimensions == 0 {
        return Ok(arena.push_array(&[]));
    }
    let (count, first) = (message.int()?, message.int()?);
    if !(0..=MOST_ELEMENTS).contains(&count) {
        return Err(SqlError::new(
            "54000",
            format!("array size exceeds the maximum allowed ({MOST_ELEMENTS})"),
        ));
    }
    if dimensions > 1 || first != 1 {
        let message = "arrays with bounds or of several dimensions are not supported";
        return Err(SqlError::new("0A000", message));
    }
    let mut values = Vec::new();
    for _ in 0..count {
        let length = message.int()?;
        if length == -1 {
            values.push(Datum::Null);
            continue;
        }
        let split = usize::try_from(length).ok().and_then(|length| message.0.split_at_checked(length));
        let (bytes, left) = split.ok_or_else(|| malformed("insufficient data left in message"))?;
        message.0 = left;
        values.push(datum_of(bytes, element.into(), arena)?);
    }
    Ok(arena.push_array(&values))
}

/// The signs of a NUMERIC that is not positive, and of those without digits.
pub(super) const NEGATIVE: u16 = 0x4000;
pub(super) const NAN: u16 = 0xc000;
pub(super) const INFINITY: u16 = 0xd000;
pub(super) const NEGATIVE_INFINITY: u16 = 0xf000;

/// Reads a NUMERIC: digits of base 10,000, and the weight of the first. Digits beyond the scale are cut.
fn numeric_of(message: &mut Message<'_>) -> Result<Numeric, SqlError> {
    let (count, weight) = (message.short()? as u16, i32::from(message.short()?));
    let (sign, scale) = (message.short()? as u16, message.short()? as u16);
    if !matches!(sign, 0 | NEGATIVE | NAN | INFINITY | NEGATIVE_INFINITY) {
        return Err(malformed("invalid sign in external \"numeric\" value"));
    }
    if scale > 0x3fff {
        return Err(malformed("invalid scale in external \"numeric\" value"));
    }
    let mut digits = String::new();
    for _ in 0..count {
        let digit = message.short()?;
        if !(0..10_000).contains(&digit) {
            return Err(malformed("invalid digit in external \"numeric\" value"));
        }
        digits.push_str(&format!("{digit:04}"));
    }
    let value = match sign {
        NAN => Ok(Numeric::NaN),
        INFINITY => Ok(Numeric::Infinity),
        NEGATIVE_INFINITY => Ok(Numeric::NegativeInfinity),
        _ => number_of(digits, weight, scale, sign == NEGATIVE),
    };
    value.map_err(|error| SqlError::new("22003", error.to_string()))
}

/// Returns the number of some digits, of which the first four have a weight in base 10,000.
fn number_of(
    mut digits: String,
    weight: i32,
    scale: u16,
    is_negative: bool,
) -> Result<Numeric, DecimalError> {
    // The number of digits up to the last one of the scale.
    let wanted = (weight + 1) * 4 + i32::from(scale);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let missing = wanted.saturating_sub(digits.len());
    digits.truncate(wanted);
    digits.extend(std::iter::repeat_n('0', missing));
    let mantissa = BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default();
    Numeric::of_parts(if is_negative { -mantissa } else { mantissa }, scale.into())
}
