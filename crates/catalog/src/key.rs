//! Order-preserving keys: the bytes of a composite key compare as its columns do.
//!
//! Integers are big-endian with the sign bit flipped. Text ends with a zero byte, which PostgreSQL's text
//! never contains; bytea escapes its zero bytes. A nullable column begins with a byte that sorts NULL last.
//! Before each element of an array, which is as that of a nullable column, stands a byte above the one that
//! ends the array. Decimals without a machine integer: `key/decimals.rs`.
//! Invariant: encodings are prefix-free column by column, so a prefix of columns is a prefix of bytes.
//! Held by: `bytes_compare_as_columns_do`.

mod decimals;

use crate::{Arena, Datum, Interval, ScalarType, Type};

/// Ends an array.
const END: u8 = 0;
/// Begins an element of an array.
const ELEMENT: u8 = 1;

/// Appends one column of a key.
#[inline]
pub fn encode_datum(datum: Datum, ty: Type, nullable: bool, arena: &Arena, key: &mut Vec<u8>) {
    if nullable {
        key.push(u8::from(datum.is_null()));
    }
    match (datum, ty) {
        (Datum::Array(span), _) => {
            for element in arena.elements(span) {
                key.push(ELEMENT);
                encode_datum(*element, ty.element().into(), true, arena, key);
            }
            key.push(END);
        }
        _ => encode_scalar(datum, ty.element(), arena, key),
    }
}

#[inline]
fn encode_scalar(datum: Datum, ty: ScalarType, arena: &Arena, key: &mut Vec<u8>) {
    match datum {
        Datum::Null => {}
        Datum::Int(_) if ty.is_wide_numeric() => encode_decimal(datum, ty, arena, key),
        Datum::Int(value) => match ty {
            ScalarType::Boolean => key.push(value as u8),
            ScalarType::SmallInt => key.extend_from_slice(&(value as u16 ^ 1 << 15).to_be_bytes()),
            ScalarType::Integer | ScalarType::Date => {
                key.extend_from_slice(&(value as u32 ^ 1 << 31).to_be_bytes());
            }
            _ => key.extend_from_slice(&(value as u64 ^ 1 << 63).to_be_bytes()),
        },
        Datum::Double(value) => {
            let bits = if value == 0.0 { 0 } else { value.to_bits() };
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            key.extend_from_slice(&ordered.to_be_bytes());
        }
        Datum::Bytes(span) => {
            let bytes = arena.bytes(span);
            match ty {
                ScalarType::Uuid => key.extend_from_slice(bytes),
                // Equal intervals have one key, whatever their fields.
                ScalarType::Interval => {
                    let total = Interval::from_bytes(bytes).total();
                    key.extend_from_slice(&(total as u128 ^ 1 << 127).to_be_bytes());
                }
                ScalarType::Bytea => {
                    for byte in bytes {
                        key.push(*byte);
                        if *byte == 0 {
                            key.push(0xff);
                        }
                    }
                    key.extend_from_slice(&[0, 0]);
                }
                _ => {
                    key.extend_from_slice(bytes);
                    key.push(0);
                }
            }
        }
        Datum::Wide(_) => encode_decimal(datum, ty, arena, key),
        Datum::Array(_) => unreachable!("an array has one dimension"),
    }
}

fn encode_decimal(datum: Datum, ty: ScalarType, arena: &Arena, key: &mut Vec<u8>) {
    let value = arena.numeric(datum, ty.fixed_scale().unwrap_or(0));
    decimals::encode(&value.expect("it is a number"), key);
}

/// Returns whether the first column of a key is NULL.
pub fn is_null(nullable: bool, key: &[u8]) -> bool {
    nullable && key.first() == Some(&1)
}

/// Returns how many bytes the first column of a key takes; `None` when the key ends within it.
pub fn datum_length(ty: Type, nullable: bool, key: &[u8]) -> Option<usize> {
    let flag = usize::from(nullable);
    if is_null(nullable, key) {
        return Some(flag);
    }
    let bytes = key.get(flag..)?;
    let length = match ty {
        Type::Scalar(ty) => scalar_length(ty, bytes)?,
        Type::Array(element) => {
            let mut at = 0;
            while *bytes.get(at)? == ELEMENT {
                at += 1 + datum_length(element.into(), true, bytes.get(at + 1..)?)?;
            }
            at + 1
        }
    };
    (bytes.len() >= length).then_some(flag + length)
}

/// Returns how many bytes a value takes, at least.
fn scalar_length(ty: ScalarType, bytes: &[u8]) -> Option<usize> {
    Some(match ty {
        ScalarType::Boolean => 1,
        ScalarType::SmallInt => 2,
        ScalarType::Integer | ScalarType::Date => 4,
        ScalarType::Uuid | ScalarType::Interval => 16,
        ScalarType::Bytea => {
            let mut at = 0;
            loop {
                at += bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
                if *bytes.get(at + 1)? == 0 {
                    break at + 2;
                }
                at += 2;
            }
        }
        ty if ty.is_wide_numeric() => decimals::length(bytes)?,
        ty if ty.is_bytes() => bytes.iter().position(|byte| *byte == 0)? + 1,
        _ => 8,
    })
}

/// Reads the first column of a key whose bytes are complete, as `datum_length` tells. A decimal without a
/// fixed scale gets the least scale that holds it, and an interval as many months as it has: its row alone
/// has the scale or the fields that it was given.
pub fn decode_datum(ty: Type, nullable: bool, key: &[u8], arena: &mut Arena) -> Datum {
    if is_null(nullable, key) {
        return Datum::Null;
    }
    let bytes = &key[usize::from(nullable)..];
    let element = match ty {
        Type::Scalar(ty) => return decode_scalar(ty, bytes, arena),
        Type::Array(element) => Type::from(element),
    };
    let (start, mut at) = (arena.begin_array(), 0);
    while bytes[at] == ELEMENT {
        let own = decode_datum(element, true, &bytes[at + 1..], arena);
        arena.push_element(own);
        at += 1 + datum_length(element, true, &bytes[at + 1..]).expect("the bytes are complete");
    }
    arena.end_array(start)
}

fn decode_scalar(ty: ScalarType, bytes: &[u8], arena: &mut Arena) -> Datum {
    let word = |length: usize| bytes[..length].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    match ty {
        ScalarType::Boolean => Datum::Int(i64::from(bytes[0])),
        ScalarType::SmallInt => Datum::Int(i64::from((word(2) as u16 ^ 1 << 15) as i16)),
        ScalarType::Integer | ScalarType::Date => Datum::Int(i64::from((word(4) as u32 ^ 1 << 31) as i32)),
        ScalarType::Real | ScalarType::Double => {
            let ordered = word(8);
            Datum::Double(f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered }))
        }
        ScalarType::Uuid => arena.push_bytes(&bytes[..16]),
        ScalarType::Interval => {
            let total = bytes[..16].iter().fold(0, |total, byte| total << 8 | u128::from(*byte));
            arena.push_bytes(&Interval::of_total((total ^ 1 << 127) as i128).to_bytes())
        }
        ScalarType::Bytea => {
            // Behind each zero byte that is not the end stands another byte.
            let (mut value, mut at) = (Vec::new(), 0);
            while bytes[at] != 0 || bytes[at + 1] != 0 {
                value.push(bytes[at]);
                at += if bytes[at] == 0 { 2 } else { 1 };
            }
            arena.push_bytes(&value)
        }
        ty if ty.is_wide_numeric() => arena.push_numeric(decimals::decode(bytes, ty.fixed_scale())),
        ty if ty.is_bytes() => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            arena.push_bytes(&bytes[..end])
        }
        _ => Datum::Int((word(8) ^ 1 << 63) as i64),
    }
}

/// Replaces a key by the least key above all keys that begin with it; by the empty key when there is none.
pub fn successor(key: &mut Vec<u8>) {
    while let Some(last) = key.last_mut() {
        if *last < 0xff {
            *last += 1;
            return;
        }
        key.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(datum: Datum, ty: Type, arena: &Arena) -> Vec<u8> {
        let mut key = Vec::new();
        encode_datum(datum, ty, true, arena, &mut key);
        key
    }

    /// Decimals in their order.
    const DECIMALS: [&str; 27] = [
        "-Infinity",
        "-1e131071",
        "-1.5e38",
        "-1e36",
        "-999999999999999999999999999999999999",
        "-100000000000000000000000000000000000",
        "-99999999999999999999999999999999999.9",
        "-100.5",
        "-100",
        "-99",
        "-1.01",
        "-0.000000000000000000000000000000000001",
        "0.00",
        "1e-16383",
        "0.000000000000000000000000000000000001",
        "0.1",
        "1.00",
        "1.01",
        "10",
        "123456789012345678901234.5678",
        "99999999999999999999999999999999999.9",
        "100000000000000000000000000000000000",
        "1e36",
        "123456789012345678901234567890123456789.00000000000000000001",
        "1e131071",
        "Infinity",
        "NaN",
    ];

    /// Equal decimals have one key, whatever their scales; what compares them says the same of each pair.
    #[test]
    fn keys_of_decimals_compare_as_they_do() {
        let mut arena = Arena::default();
        let values: [crate::Numeric; 27] = DECIMALS.map(|text| text.parse().unwrap());
        for (place, left) in values.iter().enumerate() {
            for (next, right) in values.iter().enumerate() {
                assert_eq!(left.compare(right), place.cmp(&next), "{place} {next}");
            }
        }
        for texts in [
            ["1", "1.00"],
            ["-2.50", "-2.5"],
            ["0", "0e-50"],
            ["1000", "1000.0"],
            ["1e40", "1.00e40"],
            ["1", "1e0"],
        ] {
            let [left, right] = texts.map(|text| arena.push_numeric(text.parse::<crate::Numeric>().unwrap()));
            let of = |datum| key(datum, ScalarType::AnyNumeric.into(), &arena);
            assert_eq!(of(left), of(right));
        }
    }

    #[test]
    fn bytes_compare_as_columns_do() {
        let mut arena = Arena::default();
        let ints = [i64::MIN, -70_000, -1, 0, 1, 70_000, i64::MAX].map(Datum::Int);
        let doubles = [f64::NEG_INFINITY, -1.5, -0.0, 1e-9, 2.0].map(Datum::Double);
        let texts = ["", "a", "a b", "aa", "b"].map(|text| arena.push_bytes(text.as_bytes()));
        let bytes: [&[u8]; 5] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01"];
        let bytes = bytes.map(|value| arena.push_bytes(value));
        let lists: [&[Datum]; 7] = [
            &[],
            &texts[..1],
            &[texts[0], texts[1]],
            &texts[1..2],
            &[texts[1], Datum::Null],
            &texts[2..3],
            &[Datum::Null],
        ];
        let lists = lists.map(|elements| arena.push_array(elements));
        let decimals = DECIMALS.map(|text| arena.push_numeric(text.parse::<crate::Numeric>().unwrap()));
        let spans = [i64::MIN, -1, 0, 86_400_000_000, i64::MAX];
        let spans = spans.map(|us| arena.push_bytes(&Interval { us, ..Interval::default() }.to_bytes()));
        let columns: [(&[Datum], Type); 7] = [
            (&spans, ScalarType::Interval.into()),
            (&decimals, ScalarType::AnyNumeric.into()),
            (&ints, ScalarType::BigInt.into()),
            (&doubles, ScalarType::Double.into()),
            (&texts, ScalarType::Text.into()),
            (&bytes, ScalarType::Bytea.into()),
            (&lists, Type::Array(ScalarType::Text)),
        ];
        for (column, ty) in columns {
            for pair in column.windows(2) {
                assert!(key(pair[0], ty, &arena) < key(pair[1], ty, &arena), "{pair:?}");
            }
            assert!(key(*column.last().unwrap(), ty, &arena) < key(Datum::Null, ty, &arena));
        }
    }

    #[test]
    fn a_column_ends_where_its_encoding_does() {
        let mut arena = Arena::default();
        let texts = ["", "a", "ab"].map(|text| arena.push_bytes(text.as_bytes()));
        let bytes: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a\0b", b"\0\xff", b"\xff\0"];
        let bytes = bytes.map(|value| arena.push_bytes(value));
        let uuid = [arena.push_bytes(&[7; 16])];
        let lists = [&[][..], &[Datum::Null], &texts, &[texts[0], Datum::Null, texts[2]]];
        let lists = lists.map(|elements| arena.push_array(elements));
        let strings = [&[][..], &bytes].map(|elements| arena.push_array(elements));
        let numbers = [arena.push_array(&[Datum::Int(-1), Datum::Null, Datum::Int(0)])];
        let decimals = DECIMALS.map(|text| arena.push_numeric(text.parse::<crate::Numeric>().unwrap()));
        let wide = ScalarType::Numeric { precision: 30, scale: 4 };
        let far = |months, days, us| Interval { months, days, us };
        let spans = [far(i32::MIN, i32::MIN, i64::MIN), far(i32::MAX, i32::MAX, i64::MAX), far(0, -31, 1)];
        let spans = spans.map(|own| arena.push_bytes(&own.to_bytes()));
        let columns: [(&[Datum], Type); 14] = [
            (&spans, ScalarType::Interval.into()),
            (&decimals, ScalarType::AnyNumeric.into()),
            (&decimals[7..11], wide.into()),
            (&[Datum::Int(1), Datum::Int(0)], ScalarType::Boolean.into()),
            (&[Datum::Int(-3), Datum::Int(3)], ScalarType::SmallInt.into()),
            (&[Datum::Int(256), Datum::Int(-1)], ScalarType::Integer.into()),
            (&[Datum::Int(1 << 40), Datum::Int(i64::MIN)], ScalarType::BigInt.into()),
            (&[Datum::Double(0.5), Datum::Double(-1e9)], ScalarType::Double.into()),
            (&texts, ScalarType::Text.into()),
            (&bytes, ScalarType::Bytea.into()),
            (&uuid, ScalarType::Uuid.into()),
            (&lists, Type::Array(ScalarType::Text)),
            (&strings, Type::Array(ScalarType::Bytea)),
            (&numbers, Type::Array(ScalarType::SmallInt)),
        ];
        for (values, ty) in columns {
            for value in values.iter().copied().chain([Datum::Null]) {
                for nullable in [true, false] {
                    if value.is_null() && !nullable {
                        continue;
                    }
                    let mut key = Vec::new();
                    encode_datum(value, ty, nullable, &arena, &mut key);
                    let length = key.len();
                    assert_eq!(datum_length(ty, nullable, &key[..length - 1]), None, "{ty:?} {value:?}");
                    for next in [Datum::Int(0), Datum::Int(-1)] {
                        key.truncate(length);
                        encode_datum(next, ScalarType::BigInt.into(), false, &arena, &mut key);
                        assert_eq!(datum_length(ty, nullable, &key), Some(length), "{ty:?} {value:?}");
                        let decoded = decode_datum(ty, nullable, &key, &mut arena);
                        let mut again = Vec::new();
                        encode_datum(decoded, ty, nullable, &arena, &mut again);
                        assert_eq!(again, key[..length], "{ty:?} {value:?}: {decoded:?}");
                        assert_eq!(decoded.is_null(), value.is_null());
                    }
                }
            }
        }
    }

    #[test]
    fn successor_is_above_all_that_begin_so() {
        for (from, to) in [(vec![1, 2], vec![1, 3]), (vec![1, 255], vec![2]), (vec![255], vec![])] {
            let mut key = from;
            successor(&mut key);
            assert_eq!(key, to);
        }
    }
}
