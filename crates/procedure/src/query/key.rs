//! Encodes values as bytes that are equal if and only if the values are. Users: groups, DISTINCT, hash joins
//! and IN.

use crate::CompareClass;
use catalog::{Arena, Datum, Interval, Numeric, canonical_jsonb};
use std::collections::HashSet;

/// The encoded values of a row; `None` for NULL.
pub(crate) type EncodedRow = Vec<Option<Vec<u8>>>;

/// The rows of a subquery that IN compares.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    /// The keys of the rows without NULLs.
    pub(crate) keys: HashSet<Vec<u8>>,
    /// The rows without NULLs, each once; of rows of one value, only the first.
    pub(crate) rows: Vec<EncodedRow>,
    /// The rows with NULLs; of rows of one value, only the first.
    pub(crate) partial: Vec<EncodedRow>,
}

fn write_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let value = value.trimmed();
    match value.short() {
        Some(decimal) => {
            out.push(3);
            out.push(decimal.scale);
            out.extend_from_slice(&decimal.mantissa.to_le_bytes());
        }
        None => {
            let bytes = value.stored();
            out.push(6);
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }
}

fn write_double(value: f64, out: &mut Vec<u8>) {
    // Both zeros are equal, and so are all NaNs.
    let value = if value == 0.0 { 0.0 } else { value };
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    out.push(2);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a value that is compared with values of the same type. NULL is equal to NULL.
pub(crate) fn write_distinct(datum: Datum, arena: &Arena, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => out.push(0),
        Datum::Int(value) => {
            out.push(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Double(value) => write_double(value, out),
        Datum::Wide(_) => {
            if let Some(value) = arena.numeric(datum, 0) {
                write_numeric(&value, out);
            }
        }
        Datum::Bytes(span) => {
            out.push(4);
            out.extend_from_slice(&span.length.to_le_bytes());
            out.extend_from_slice(arena.bytes(span));
        }
        Datum::Array(span) => {
            out.push(5);
            out.extend_from_slice(&span.length.to_le_bytes());
            arena.elements(span).iter().for_each(|element| write_distinct(*element, arena, out));
        }
    }
}

/// Appends the left or right operand of a comparison under a class. Returns false if it is NULL, which is
/// equal to no value.
pub(crate) fn write_equal(
    datum: Datum,
    class: CompareClass,
    is_left: bool,
    arena: &Arena,
    out: &mut Vec<u8>,
) -> bool {
    match (class, datum) {
        (_, Datum::Null) => return false,
        (CompareClass::Decimal { left_scale, right_scale }, _) => {
            let scale = if is_left { left_scale } else { right_scale };
            if let Some(value) = arena.numeric(datum, scale) {
                write_numeric(&value, out);
            }
        }
        (CompareClass::Json, Datum::Bytes(span)) => {
            let text = canonical_jsonb(&String::from_utf8_lossy(arena.bytes(span)));
            out.extend_from_slice(&text.len().to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        (CompareClass::Interval, Datum::Bytes(span)) => {
            let total = Interval::from_bytes(arena.bytes(span)).total();
            out.extend_from_slice(&total.to_le_bytes());
        }
        (CompareClass::Array(element), Datum::Array(span)) => {
            out.extend_from_slice(&span.length.to_le_bytes());
            for element_of in arena.elements(span) {
                // NULL is equal to NULL.
                out.push(u8::from(element_of.is_null()));
                write_equal(*element_of, element.into(), is_left, arena, out);
            }
        }
        _ => write_distinct(datum, arena, out),
    }
    true
}
