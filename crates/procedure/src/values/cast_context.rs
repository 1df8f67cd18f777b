//! The contexts in which a value of one type is converted to another.
//! Source: PostgreSQL 15, `pg_cast`, and "CREATE CAST" for the casts by input and output functions.

use crate::Cast;
use catalog::ScalarType::{self, *};
use catalog::Type;

/// The context of a conversion. Each context allows the conversions of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    /// In any expression.
    Implicit,
    /// Where a value is assigned to a column.
    Assignment,
    /// Where a cast is written.
    Explicit,
    /// Where a value is assigned to a variable of PL/pgSQL: any conversion, by input and output functions if
    /// there is no other way that an assignment allows.
    Variable,
}

const VARCHAR: ScalarType = Varchar(u32::MAX);
const BPCHAR: ScalarType = Char(u32::MAX);

/// The conversions: from a type, to a type, the narrowest context.
pub static CASTS: &[(ScalarType, ScalarType, CastContext)] = &[
    (BigInt, SmallInt, CastContext::Assignment),
    (BigInt, Integer, CastContext::Assignment),
    (BigInt, Double, CastContext::Implicit),
    (BigInt, Real, CastContext::Implicit),
    (BigInt, AnyNumeric, CastContext::Implicit),
    (SmallInt, BigInt, CastContext::Implicit),
    (SmallInt, Integer, CastContext::Implicit),
    (SmallInt, Double, CastContext::Implicit),
    (SmallInt, Real, CastContext::Implicit),
    (SmallInt, AnyNumeric, CastContext::Implicit),
    (Integer, BigInt, CastContext::Implicit),
    (Integer, SmallInt, CastContext::Assignment),
    (Integer, Double, CastContext::Implicit),
    (Integer, Real, CastContext::Implicit),
    (Integer, AnyNumeric, CastContext::Implicit),
    (SmallInt, Oid, CastContext::Implicit),
    (Integer, Oid, CastContext::Implicit),
    (BigInt, Oid, CastContext::Implicit),
    (Oid, Integer, CastContext::Assignment),
    (Oid, BigInt, CastContext::Assignment),
    (Integer, Boolean, CastContext::Explicit),
    (Boolean, Integer, CastContext::Explicit),
    (Real, BigInt, CastContext::Assignment),
    (Real, SmallInt, CastContext::Assignment),
    (Real, Integer, CastContext::Assignment),
    (Real, Double, CastContext::Implicit),
    (Real, AnyNumeric, CastContext::Assignment),
    (Double, Real, CastContext::Assignment),
    (Double, BigInt, CastContext::Assignment),
    (Double, SmallInt, CastContext::Assignment),
    (Double, Integer, CastContext::Assignment),
    (Double, AnyNumeric, CastContext::Assignment),
    (AnyNumeric, BigInt, CastContext::Assignment),
    (AnyNumeric, SmallInt, CastContext::Assignment),
    (AnyNumeric, Integer, CastContext::Assignment),
    (AnyNumeric, Real, CastContext::Implicit),
    (AnyNumeric, Double, CastContext::Implicit),
    (Text, BPCHAR, CastContext::Implicit),
    (Text, VARCHAR, CastContext::Implicit),
    (BPCHAR, Text, CastContext::Implicit),
    (BPCHAR, VARCHAR, CastContext::Implicit),
    (VARCHAR, Text, CastContext::Implicit),
    (VARCHAR, BPCHAR, CastContext::Implicit),
    (Date, Timestamp, CastContext::Implicit),
    (Date, Timestamptz, CastContext::Implicit),
    (Interval, Time, CastContext::Assignment),
    (Time, Interval, CastContext::Implicit),
    (Timestamp, Time, CastContext::Assignment),
    (Timestamptz, Time, CastContext::Assignment),
    (Timestamp, Date, CastContext::Assignment),
    (Timestamp, Timestamptz, CastContext::Implicit),
    (Timestamptz, Date, CastContext::Assignment),
    (Timestamptz, Timestamp, CastContext::Assignment),
    (Boolean, Text, CastContext::Assignment),
    (Boolean, BPCHAR, CastContext::Assignment),
    (Boolean, VARCHAR, CastContext::Assignment),
    (Json, Jsonb, CastContext::Assignment),
    (Jsonb, Json, CastContext::Assignment),
    (Jsonb, BigInt, CastContext::Explicit),
    (Jsonb, SmallInt, CastContext::Explicit),
    (Jsonb, Integer, CastContext::Explicit),
    (Jsonb, Real, CastContext::Explicit),
    (Jsonb, Double, CastContext::Explicit),
    (Jsonb, AnyNumeric, CastContext::Explicit),
    (Jsonb, Boolean, CastContext::Explicit),
];

impl CastContext {
    /// Returns the first context in which a value of one type is converted to another.
    pub fn of(from: ScalarType, to: ScalarType) -> Self {
        let (from, to) = (from.base(), to.base());
        if from == to {
            return Self::Implicit;
        }
        if let Some((.., context)) = CASTS.iter().find(|cast| (cast.0, cast.1) == (from, to)) {
            return *context;
        }
        // By the output function of one type and the input function of the other.
        match (from.is_text(), to.is_text()) {
            (_, true) => Self::Assignment,
            (true, _) => Self::Explicit,
            _ => Self::Variable,
        }
    }

    /// Returns whether a value of one type is converted to another here.
    pub fn allows(self, from: ScalarType, to: ScalarType) -> bool {
        Self::of(from, to) <= self
    }

    /// Returns the casts from one type to another, one after the other; `None` if the context does not allow
    /// the conversion.
    pub fn casts(self, from: ScalarType, to: ScalarType) -> Option<[Option<Cast>; 2]> {
        let is_explicit = self == Self::Explicit;
        if !self.allows(from, to) {
            return None;
        }
        if let Some(cast) = Cast::between(from, to, is_explicit) {
            return Some([Some(cast), None]);
        }
        // By the output function of one type, and the input function of the other.
        let printed = if from.is_text() { Some(Cast::Same) } else { Cast::between(from, Text, true) };
        let read =
            if to.is_text() { Cast::between(Text, to, is_explicit) } else { Cast::between(Text, to, true) };
        Some([Some(printed?), Some(read?)])
    }

    /// Returns whether a value or an array of one type is converted to another here. An array becomes no
    /// scalar, and no scalar becomes an array.
    pub fn allows_type(self, from: Type, to: Type) -> bool {
        match (from, to) {
            (Type::Scalar(from), Type::Scalar(to)) | (Type::Array(from), Type::Array(to)) => {
                self.allows(from, to)
            }
            _ => false,
        }
    }
}
