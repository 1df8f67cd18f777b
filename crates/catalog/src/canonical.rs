//! Canonical forms of values: equal values of two columns have one form, whatever the columns' types.
//!
//! The analysis of procedures uses them to tell whether operations on different columns may meet in one key.
//! A key is encoded by its column's width, scale and nullability, so two columns encode one value in two
//! ways. If encoded keys told pieces of work apart, pieces that touch the same key would run in parallel. The
//! canonical form depends on the value alone. An integer, a `NUMERIC(6,0)` and a `NUMERIC(8,2)` that compare
//! as equal have the same form; NULL has one form.
//!
//! Invariant: values of one family have the same form exactly when they are equal; no form is a prefix of
//! another.
//! Held by: `equal_values_have_one_form`.

use crate::{Arena, Datum, ScalarType, Type};

/// Types whose values have canonical forms that can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Integers, and decimals that fit a machine integer.
    Exact,
    /// Texts, compared byte by byte.
    Text,
    /// Truth values.
    Boolean,
    /// Days.
    Date,
    /// Moments.
    Timestamp,
    /// Bytes.
    Bytea,
    /// UUIDs.
    Uuid,
    /// Times of day.
    Time,
}

const NULL: u8 = 0;
/// The tag of an integer; a decimal's tag is this plus its digits after the point.
const INTEGER: u8 = 1;
const BYTES: u8 = u8::MAX;

impl ScalarType {
    /// Returns the type's family; `None` for doubles, JSON, intervals, and decimals of more than 18 digits or
    /// without a scale, whose equal values have several representations, or do not fit a machine word; and
    /// for enumerations, which are no one type.
    pub fn family(self) -> Option<Family> {
        Some(match self {
            Self::SmallInt | Self::Integer | Self::BigInt | Self::Oid => Family::Exact,
            Self::Numeric { .. } if self.is_machine_numeric() => Family::Exact,
            Self::Numeric { .. } | Self::LongNumeric { .. } | Self::AnyNumeric => return None,
            Self::Real | Self::Double => return None,
            Self::Json | Self::Jsonb | Self::Record | Self::Enum(_) | Self::Interval => return None,
            Self::Boolean => Family::Boolean,
            Self::Char(_) | Self::Varchar(_) | Self::Text => Family::Text,
            Self::Timestamp | Self::Timestamptz | Self::ShortTimestamp { .. } => Family::Timestamp,
            Self::Date => Family::Date,
            Self::Time => Family::Time,
            Self::Bytea => Family::Bytea,
            Self::Uuid => Family::Uuid,
        })
    }
}

impl Type {
    /// Returns the family of a type of one value; `None` for arrays.
    pub fn family(self) -> Option<Family> {
        self.scalar().and_then(ScalarType::family)
    }
}

/// Returns a scaled integer without trailing zeros after the point.
pub fn normalized(mut mantissa: i64, mut scale: u8) -> (i64, u8) {
    while scale > 0 && mantissa % 10 == 0 {
        (mantissa, scale) = (mantissa / 10, scale - 1);
    }
    (mantissa, scale)
}

/// Appends the canonical form of a value whose type has a family. `scale` is the scale of its type, or 0 when
/// the type has none.
///
/// # Panics
/// On values of types without a family.
#[inline]
pub fn write_canonical(datum: Datum, scale: u8, arena: &Arena, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => out.push(NULL),
        Datum::Int(value) => {
            let (mantissa, scale) = normalized(value, scale);
            out.push(INTEGER + scale);
            out.extend_from_slice(&mantissa.to_le_bytes());
        }
        Datum::Bytes(span) => {
            out.push(BYTES);
            out.extend_from_slice(&span.length.to_le_bytes());
            out.extend_from_slice(arena.bytes(span));
        }
        Datum::Double(_) | Datum::Wide(_) | Datum::Array(_) => {
            unreachable!("the value's type has no family")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(datum: Datum, ty: ScalarType, arena: &Arena) -> Vec<u8> {
        let mut out = Vec::new();
        write_canonical(datum, ty.fixed_scale().unwrap_or(0), arena, &mut out);
        out
    }

    #[test]
    fn equal_values_have_one_form() {
        let mut arena = Arena::default();
        let cents = ScalarType::Numeric { precision: 8, scale: 2 };
        let whole = ScalarType::Numeric { precision: 6, scale: 0 };
        let (short, long) = (arena.push_bytes(b"ab"), arena.push_bytes(b"ab\0"));
        let (again, empty) = (arena.push_bytes(b"ab"), arena.push_bytes(b""));
        // Values on one line are equal; values on different lines are not.
        let exact: [&[(Datum, ScalarType)]; 5] = [
            &[
                (Datum::Int(1), ScalarType::SmallInt),
                (Datum::Int(1), ScalarType::BigInt),
                (Datum::Int(1), whole),
                (Datum::Int(100), cents),
            ],
            &[(Datum::Int(0), ScalarType::Integer), (Datum::Int(0), cents)],
            &[(Datum::Int(100), ScalarType::Integer), (Datum::Int(10_000), cents)],
            &[(Datum::Int(-150), cents)],
            &[(Datum::Null, ScalarType::Integer), (Datum::Null, cents)],
        ];
        let texts: [&[(Datum, ScalarType)]; 4] = [
            &[(short, ScalarType::Text), (again, ScalarType::Varchar(9)), (again, ScalarType::Char(4))],
            &[(long, ScalarType::Text)],
            &[(empty, ScalarType::Text)],
            &[(Datum::Null, ScalarType::Text), (Datum::Null, ScalarType::Char(4))],
        ];
        for lines in [&exact[..], &texts[..]] {
            let forms = |line: &[(Datum, ScalarType)]| -> Vec<Vec<u8>> {
                line.iter().map(|(datum, ty)| form(*datum, *ty, &arena)).collect()
            };
            for (index, line) in lines.iter().enumerate() {
                let equal = forms(line);
                assert!(equal.iter().all(|form| *form == equal[0]), "{line:?}");
                let unequal = lines[..index].iter().flat_map(|line| forms(line));
                assert!(unequal.into_iter().all(|form| !form.starts_with(&equal[0])), "{line:?}");
            }
        }
    }
}
