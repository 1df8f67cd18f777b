//! Values as bytes in log records: a compact, type-directed, self-checking encoding.
//!
//! The first varint also encodes NULL, which saves a flag byte. For integers it is the zigzag value shifted
//! left by one, 1 for NULL, or 3 before eight plain bytes. For texts and arrays it is the length plus one, or
//! 0 for NULL. The reader knows the type from the procedure, so no type is written.
//! Invariant: the reader checks a length against the remaining bytes before it allocates. Held by:
//! `damaged_bytes_are_errors`.

use crate::{Arena, Datum, Decimal, Numeric, Type};
use thiserror::Error;

/// The bytes are malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the bytes end early or hold an impossible value")]
pub struct DecodeError;

/// The head of a numeric that no decimal holds; that of a decimal is its scale plus one.
const LONG: u64 = 64;

/// Reads encoded values from bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes a number of bytes.
    ///
    /// # Errors
    /// Fewer bytes remain.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(DecodeError)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes an array of bytes.
    ///
    /// # Errors
    /// Fewer bytes remain.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError)
    }

    /// Takes a varint.
    ///
    /// # Errors
    /// The bytes end, or the number has more than 64 bits.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        // Most numbers are small.
        match self.bytes {
            [first, rest @ ..] if *first < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(*first))
            }
            [first, second, rest @ ..] if *second < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(*first & 0x7f) | u64::from(*second) << 7)
            }
            [first, second, third, rest @ ..] if *third < 0x80 => {
                self.bytes = rest;
                let low = u64::from(*first & 0x7f) | u64::from(*second & 0x7f) << 7;
                Ok(low | u64::from(*third) << 14)
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return Err(DecodeError);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError)
    }
}

/// Appends a varint: seven bits per byte, least significant first.
#[inline]
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[inline]
fn encode_integer(value: i64, out: &mut Vec<u8>) {
    let encoded = zigzag(value);
    // An odd head is no value: 1 is NULL, and 3 announces eight plain bytes, for values that use the top bit.
    if encoded >> 63 == 0 {
        put_varint(encoded << 1, out);
    } else {
        put_varint(3, out);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends a datum of a type.
pub fn encode_value(datum: Datum, ty: Type, arena: &Arena, out: &mut Vec<u8>) {
    match datum {
        Datum::Null if is_integral(ty) => put_varint(1, out),
        Datum::Null => put_varint(0, out),
        Datum::Int(value) => encode_integer(value, out),
        Datum::Double(value) => {
            out.push(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Bytes(span) => {
            put_varint(u64::from(span.length) + 1, out);
            out.extend_from_slice(arena.bytes(span));
        }
        Datum::Wide(_) => {
            let value = arena.numeric(datum, 0).expect("only numerics are wide");
            let Some(decimal) = value.short() else {
                let bytes = value.stored();
                put_varint(LONG, out);
                put_varint(bytes.len() as u64, out);
                out.extend_from_slice(&bytes);
                return;
            };
            put_varint(u64::from(decimal.scale) + 1, out);
            out.extend_from_slice(&decimal.mantissa.to_le_bytes());
        }
        Datum::Array(span) => {
            put_varint(u64::from(span.length) + 1, out);
            for element in arena.elements(span) {
                match element {
                    Datum::Int(value) => encode_integer(*value, out),
                    _ => encode_value(*element, ty.element().into(), arena, out),
                }
            }
        }
    }
}

fn is_integral(ty: Type) -> bool {
    matches!(ty, Type::Scalar(scalar) if !scalar.is_bytes()
        && !scalar.is_float()
        && !scalar.is_wide_numeric())
}

/// Reads the value behind the head of an integer, or of a type that is stored as one.
#[inline]
fn decode_integral(head: u64, reader: &mut Reader<'_>) -> Result<Datum, DecodeError> {
    match head {
        1 => Ok(Datum::Null),
        3 => Ok(Datum::Int(i64::from_le_bytes(reader.array()?))),
        odd if odd & 1 == 1 => Err(DecodeError),
        even => Ok(Datum::Int(unzigzag(even >> 1))),
    }
}

/// Reads a datum of a type.
///
/// # Errors
/// `DecodeError` when no value of the type has such an encoding.
pub fn decode_value(ty: Type, reader: &mut Reader<'_>, arena: &mut Arena) -> Result<Datum, DecodeError> {
    let head = reader.varint()?;
    if is_integral(ty) {
        return decode_integral(head, reader);
    }
    let Some(length) = head.checked_sub(1) else { return Ok(Datum::Null) };
    let Type::Scalar(scalar) = ty else {
        // An element takes at least one byte, so a length above the remaining bytes is malformed.
        if length > reader.remaining() as u64 {
            return Err(DecodeError);
        }
        // Elements are scalars, so decoding one adds no other element to the arena.
        let start = arena.begin_array();
        if is_integral(ty.element().into()) {
            for _ in 0..length {
                let head = reader.varint()?;
                arena.push_element(decode_integral(head, reader)?);
            }
            return Ok(arena.end_array(start));
        }
        for _ in 0..length {
            let element = decode_value(ty.element().into(), reader, arena)?;
            arena.push_element(element);
        }
        return Ok(arena.end_array(start));
    };
    if scalar.is_bytes() {
        let bytes = reader.take(usize::try_from(length).map_err(|_| DecodeError)?)?;
        if scalar.is_utf8() && std::str::from_utf8(bytes).is_err() {
            return Err(DecodeError);
        }
        return Ok(arena.push_bytes(bytes));
    }
    if scalar.is_float() {
        return Ok(Datum::Double(f64::from_le_bytes(reader.array()?)));
    }
    if head == LONG {
        let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
        return Ok(arena.push_numeric(Numeric::of_stored(reader.take(length)?).ok_or(DecodeError)?));
    }
    let mantissa = i128::from_le_bytes(reader.array()?);
    let scale = u8::try_from(length).map_err(|_| DecodeError)?;
    Ok(arena.push_numeric(Decimal::new(mantissa, scale).map_err(|_| DecodeError)?))
}

/// Skips a datum of a type.
///
/// # Errors
/// `DecodeError` when the bytes end early. Contents are not checked.
pub fn skip_value(ty: Type, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let head = reader.varint()?;
    if is_integral(ty) {
        return if head == 3 { reader.take(8).map(|_| ()) } else { Ok(()) };
    }
    let Some(length) = head.checked_sub(1) else { return Ok(()) };
    let bytes = match ty {
        Type::Scalar(scalar) if scalar.is_bytes() => usize::try_from(length).map_err(|_| DecodeError)?,
        Type::Scalar(scalar) if scalar.is_float() => 8,
        Type::Scalar(_) if head == LONG => usize::try_from(reader.varint()?).map_err(|_| DecodeError)?,
        Type::Scalar(_) => 16,
        Type::Array(_) => {
            return (0..length).try_for_each(|_| skip_value(ty.element().into(), reader));
        }
    };
    reader.take(bytes).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interval, ScalarType, Value, datum_from_value, value_from_datum};

    fn samples() -> Vec<(Value, Type)> {
        let wide = ScalarType::Numeric { precision: 30, scale: 4 };
        vec![
            (Value::Int(0), ScalarType::Integer.into()),
            (Value::Int(-1), ScalarType::SmallInt.into()),
            (Value::Int(i64::MIN), ScalarType::BigInt.into()),
            (Value::Int(i64::MAX), ScalarType::BigInt.into()),
            (Value::Null, ScalarType::BigInt.into()),
            (Value::Null, ScalarType::Text.into()),
            (Value::from(""), ScalarType::Text.into()),
            (Value::from("naïve"), ScalarType::Varchar(9).into()),
            (Value::Boolean(true), ScalarType::Boolean.into()),
            (Value::Double(-1.25), ScalarType::Double.into()),
            (Value::Real(0.1), ScalarType::Real.into()),
            (Value::Numeric("123456789012345678901234.5678".parse().unwrap()), wide.into()),
            (Value::Numeric("-1.5e300".parse().unwrap()), ScalarType::AnyNumeric.into()),
            (Value::Numeric("1e-300".parse().unwrap()), ScalarType::AnyNumeric.into()),
            (Value::Numeric("NaN".parse().unwrap()), wide.into()),
            (
                Value::Array(vec![
                    Value::Numeric("Infinity".parse().unwrap()),
                    Value::Null,
                    Value::Numeric("1e36".parse().unwrap()),
                ]),
                Type::Array(ScalarType::AnyNumeric),
            ),
            (
                Value::Array(vec![Value::Int(1), Value::Null, Value::Int(-300)]),
                Type::Array(ScalarType::Integer),
            ),
            (Value::Uuid([7; 16]), ScalarType::Uuid.into()),
            (Value::Interval(Interval { months: -1, days: 2, us: i64::MIN }), ScalarType::Interval.into()),
            (Value::from("{\"a\": [1, null]}"), ScalarType::Jsonb.into()),
        ]
    }

    #[test]
    fn values_come_back() {
        for (value, ty) in samples() {
            let mut arena = Arena::default();
            let datum = datum_from_value(&value, ty, &mut arena).unwrap();
            let mut bytes = Vec::new();
            encode_value(datum, ty, &arena, &mut bytes);
            let mut back = Arena::default();
            let mut reader = Reader::new(&bytes);
            let decoded = decode_value(ty, &mut reader, &mut back).unwrap();
            assert_eq!(value_from_datum(decoded, ty, &back), value);
            assert_eq!(reader.remaining(), 0);
            let mut reader = Reader::new(&bytes);
            skip_value(ty, &mut reader).unwrap();
            assert_eq!(reader.remaining(), 0, "{value:?} is passed over whole");
        }
    }

    #[test]
    fn damaged_bytes_are_errors() {
        for (value, ty) in samples() {
            let mut arena = Arena::default();
            let datum = datum_from_value(&value, ty, &mut arena).unwrap();
            let mut bytes = Vec::new();
            encode_value(datum, ty, &arena, &mut bytes);
            for cut in 0..bytes.len() {
                let mut reader = Reader::new(&bytes[..cut]);
                assert_eq!(decode_value(ty, &mut reader, &mut arena), Err(DecodeError));
            }
        }
        let huge = [0xff, 0xff, 0xff, 0xff, 0x7f];
        for ty in [Type::Array(ScalarType::Integer), ScalarType::Text.into()] {
            let mut reader = Reader::new(&huge);
            assert_eq!(decode_value(ty, &mut reader, &mut Arena::default()), Err(DecodeError));
        }
    }
}
