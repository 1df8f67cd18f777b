//! Arrays as bytes of a row. Each element begins with a tag, so a row is read without its types.
//!
//! Tags: NULL, an integer (a zigzag varint), a double (8 bytes), bytes (their number as a varint, and they),
//! a decimal (its scale, and 16 bytes), a longer numeric (its number of bytes as a varint, and they). All
//! numbers are little-endian.
//!
//! Invariants: 1. An array has one representation, so equal bytes are equal arrays. 2. A reader that races
//! with a writer may see torn bytes; reading ends where they make no element, and the reader validates
//! afterwards. Held by: `elements_come_back`, `torn_bytes_are_read_without_a_panic`.

use crate::encoding::{unzigzag, zigzag};
use crate::{Arena, Datum, Decimal, DecodeError, Numeric, Reader, Span, put_varint};

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const DOUBLE: u8 = 2;
const BYTES: u8 = 3;
const DECIMAL: u8 = 4;
const NUMERIC: u8 = 5;

/// Appends the elements of an array.
pub fn write_elements(array: Span, arena: &Arena, out: &mut Vec<u8>) {
    for element in arena.elements(array) {
        match *element {
            Datum::Null => out.push(NULL),
            Datum::Int(value) => {
                out.push(INTEGER);
                put_varint(zigzag(value), out);
            }
            Datum::Double(value) => {
                out.push(DOUBLE);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Datum::Bytes(span) => {
                out.push(BYTES);
                put_varint(u64::from(span.length), out);
                out.extend_from_slice(arena.bytes(span));
            }
            Datum::Wide(_) => {
                let value = arena.numeric(*element, 0).expect("only numerics are wide");
                let Some(decimal) = value.short() else {
                    let bytes = value.stored();
                    out.push(NUMERIC);
                    put_varint(bytes.len() as u64, out);
                    out.extend_from_slice(&bytes);
                    continue;
                };
                out.extend_from_slice(&[DECIMAL, decimal.scale]);
                out.extend_from_slice(&decimal.mantissa.to_le_bytes());
            }
            Datum::Array(_) => unreachable!("an array has one dimension"),
        }
    }
}

/// Returns the number of bytes that `write_elements` appends.
pub(crate) fn elements_length(array: Span, arena: &Arena) -> usize {
    let varint = |value: u64| (64 - value.max(1).leading_zeros() as usize).div_ceil(7);
    let length = |element: &Datum| match *element {
        Datum::Null => 1,
        Datum::Int(value) => 1 + varint(zigzag(value)),
        Datum::Double(_) => 9,
        Datum::Bytes(span) => 1 + varint(span.length.into()) + span.length as usize,
        Datum::Wide(_) => match arena.numeric(*element, 0).map_or(0, |value| value.stored_length()) {
            0 => 18,
            length => 1 + varint(length as u64) + length,
        },
        Datum::Array(_) => unreachable!("an array has one dimension"),
    };
    arena.elements(array).iter().map(length).sum()
}

/// Returns the array of some bytes, which end an arena. The bytes of elements stay where they are.
pub(crate) fn read_elements(bytes: Datum, arena: &mut Arena) -> Datum {
    let Datum::Bytes(span) = bytes else { return bytes };
    let start = arena.begin_array();
    let (mut at, mut has_bytes) = (0, false);
    while at < span.length as usize {
        let mut reader = Reader::new(&arena.bytes(span)[at..]);
        let Ok(element) = read_element(&mut reader) else { break };
        at = span.length as usize - reader.remaining();
        let element = match element {
            Element::Plain(datum) => datum,
            Element::Numeric(value) => arena.push_numeric(value),
            Element::Bytes(length) => {
                has_bytes = true;
                at += length;
                arena.subspan(span, at - length, length)
            }
        };
        arena.push_element(element);
    }
    if !has_bytes {
        arena.drop_last_bytes(span);
    }
    arena.end_array(start)
}

enum Element {
    Plain(Datum),
    Numeric(Numeric),
    /// As many bytes follow.
    Bytes(usize),
}

fn read_element(reader: &mut Reader<'_>) -> Result<Element, DecodeError> {
    let [tag] = reader.array()?;
    Ok(match tag {
        NULL => Element::Plain(Datum::Null),
        INTEGER => Element::Plain(Datum::Int(unzigzag(reader.varint()?))),
        DOUBLE => Element::Plain(Datum::Double(f64::from_le_bytes(reader.array()?))),
        BYTES => {
            let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
            if length > reader.remaining() {
                return Err(DecodeError);
            }
            Element::Bytes(length)
        }
        DECIMAL => {
            let [scale] = reader.array()?;
            let mantissa = i128::from_le_bytes(reader.array()?);
            Element::Numeric(Decimal::new(mantissa, scale).map_err(|_| DecodeError)?.into())
        }
        NUMERIC => {
            let length = usize::try_from(reader.varint()?).map_err(|_| DecodeError)?;
            Element::Numeric(Numeric::of_stored(reader.take(length)?).ok_or(DecodeError)?)
        }
        _ => return Err(DecodeError),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ScalarType, Type, value_from_datum};

    fn sample(arena: &mut Arena) -> Datum {
        let texts = ["", "naïve", "x"].map(|text| arena.push_bytes(text.as_bytes()));
        let wide = arena.push_numeric(Decimal::new(-(10i128.pow(30)), 7).unwrap());
        let numerics = ["NaN", "-Infinity", "-1.5e300"];
        let numerics = numerics.map(|text| arena.push_numeric(text.parse::<Numeric>().unwrap()));
        let mut elements = vec![Datum::Null, wide, Datum::Double(f64::NEG_INFINITY)];
        elements.extend(numerics);
        elements.extend(texts);
        elements.extend([0, -1, 63, 64, 8191, 8192, i64::MIN, i64::MAX].map(Datum::Int));
        arena.push_array(&elements)
    }

    #[test]
    fn elements_come_back() {
        let mut arena = Arena::default();
        let whole = sample(&mut arena);
        let numbers = arena.push_array(&[Datum::Int(5), Datum::Null]);
        for array in [whole, numbers, arena.push_array(&[])] {
            let Datum::Array(span) = array else { unreachable!() };
            let mut bytes = Vec::new();
            write_elements(span, &arena, &mut bytes);
            assert_eq!(bytes.len(), elements_length(span, &arena));
            let mut back = Arena::default();
            back.push_bytes(b"before");
            let read = back.push_bytes(&bytes);
            let read = read_elements(read, &mut back);
            // The type of the elements shapes no value here but those of scaled integers.
            let ty = Type::Array(ScalarType::Text);
            assert_eq!(value_from_datum(read, ty, &back), value_from_datum(array, ty, &arena));
        }
    }

    #[test]
    fn torn_bytes_are_read_without_a_panic() {
        let mut arena = Arena::default();
        let Datum::Array(span) = sample(&mut arena) else { unreachable!() };
        let mut bytes = Vec::new();
        write_elements(span, &arena, &mut bytes);
        for at in 0..bytes.len() {
            for value in [0, 1, 3, 4, 0x7f, 0xff] {
                let mut torn = bytes.clone();
                torn[at] = value;
                let mut back = Arena::default();
                let read = back.push_bytes(&torn);
                assert!(matches!(read_elements(read, &mut back), Datum::Array(_)));
                let read = back.push_bytes(&torn[..at]);
                assert!(matches!(read_elements(read, &mut back), Datum::Array(_)));
            }
        }
    }
}
