//! Comparisons of values: operators, the classes under which values are compared, and the order itself.

use catalog::{Arena, Datum, Interval, ScalarType, Type, compare_jsonb};
use std::cmp::Ordering;

/// `= <> < <= > >=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareOperator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOperator {
    /// Returns how the operator is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    pub(crate) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// How operands of a comparison are represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompareClass {
    /// Integers of one scale.
    Int,
    /// Doubles.
    Double,
    /// Bytes, compared as unsigned bytes (the "C" collation).
    Bytes,
    /// JSON in its normal form.
    Json,
    /// Intervals.
    Interval,
    /// Decimals, with the scales of operands that are scaled integers.
    Decimal {
        /// Of the left operand.
        left_scale: u8,
        /// Of the right operand.
        right_scale: u8,
    },
    /// Arrays of elements of a class. NULL is the greatest element.
    Array(ElementClass),
}

/// How the elements of arrays that are compared are represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementClass {
    /// `CompareClass::Int`.
    Int,
    /// `CompareClass::Double`.
    Double,
    /// `CompareClass::Bytes`.
    Bytes,
    /// `CompareClass::Json`.
    Json,
    /// `CompareClass::Interval`.
    Interval,
    /// `CompareClass::Decimal`, with one scale.
    Decimal(u8),
}

impl From<ElementClass> for CompareClass {
    fn from(class: ElementClass) -> Self {
        match class {
            ElementClass::Int => Self::Int,
            ElementClass::Double => Self::Double,
            ElementClass::Bytes => Self::Bytes,
            ElementClass::Json => Self::Json,
            ElementClass::Interval => Self::Interval,
            ElementClass::Decimal(scale) => Self::Decimal { left_scale: scale, right_scale: scale },
        }
    }
}

impl CompareClass {
    /// Returns the class under which values or arrays of a type are compared.
    pub fn of_type(ty: Type) -> Self {
        match ty {
            Type::Scalar(ty) => Self::of(ty),
            Type::Array(element) => Self::of_arrays(element),
        }
    }

    /// Returns the class of arrays whose elements are of a type.
    pub fn of_arrays(element: ScalarType) -> Self {
        Self::Array(match Self::of(element) {
            Self::Int | Self::Array(_) => ElementClass::Int,
            Self::Double => ElementClass::Double,
            Self::Bytes => ElementClass::Bytes,
            Self::Json => ElementClass::Json,
            Self::Interval => ElementClass::Interval,
            Self::Decimal { left_scale, .. } => ElementClass::Decimal(left_scale),
        })
    }

    /// Returns the class of elements, if it is one of arrays; else the class itself.
    fn of_elements(self) -> Self {
        match self {
            Self::Array(element) => element.into(),
            class => class,
        }
    }

    /// Returns the class under which values of a type are compared.
    pub fn of(ty: ScalarType) -> Self {
        match ty {
            ScalarType::Real | ScalarType::Double => Self::Double,
            ScalarType::Jsonb => Self::Json,
            ScalarType::Interval => Self::Interval,
            _ if ty.is_bytes() => Self::Bytes,
            ScalarType::AnyNumeric | ScalarType::LongNumeric { .. } => {
                Self::Decimal { left_scale: 0, right_scale: 0 }
            }
            ScalarType::Numeric { scale, .. } if !ty.is_machine_numeric() => {
                Self::Decimal { left_scale: scale, right_scale: scale }
            }
            _ => Self::Int,
        }
    }
}

/// Evaluates `left IS DISTINCT FROM right`.
pub(super) fn are_distinct(class: CompareClass, left: Datum, right: Datum, arena: &Arena) -> bool {
    match (left.is_null(), right.is_null()) {
        (true, true) => false,
        (false, false) => compare(class, left, right, arena).is_ne(),
        _ => true,
    }
}

/// Compares two values that are not NULL and lie in one arena.
#[inline]
pub(crate) fn compare(class: CompareClass, left: Datum, right: Datum, arena: &Arena) -> Ordering {
    compare_across(class, (left, arena), (right, arena))
}

/// Compares two values that are not NULL, each with its arena.
#[inline]
pub(crate) fn compare_across(
    class: CompareClass,
    (left, left_arena): (Datum, &Arena),
    (right, right_arena): (Datum, &Arena),
) -> Ordering {
    match (class, left, right) {
        (CompareClass::Int, Datum::Int(a), Datum::Int(b)) => a.cmp(&b),
        (CompareClass::Bytes, Datum::Bytes(a), Datum::Bytes(b)) => {
            left_arena.bytes(a).cmp(right_arena.bytes(b))
        }
        (CompareClass::Json, Datum::Bytes(a), Datum::Bytes(b)) => {
            compare_jsonb(left_arena.bytes(a), right_arena.bytes(b))
        }
        (CompareClass::Interval, Datum::Bytes(a), Datum::Bytes(b)) => {
            let total = |bytes| Interval::from_bytes(bytes).total();
            total(left_arena.bytes(a)).cmp(&total(right_arena.bytes(b)))
        }
        (CompareClass::Double, Datum::Double(a), Datum::Double(b)) => {
            // NaN equals itself and is above all other values, as in PostgreSQL.
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        // Of elements, NULL is the greatest.
        (_, Datum::Array(a), Datum::Array(b)) => {
            let (a, b) = (left_arena.elements(a), right_arena.elements(b));
            let class = class.of_elements();
            let mut orders = a.iter().zip(b).map(|(a, b)| match (a.is_null(), b.is_null()) {
                (false, false) => compare_across(class, (*a, left_arena), (*b, right_arena)),
                (a, b) => a.cmp(&b),
            });
            orders.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (CompareClass::Decimal { left_scale, right_scale }, a, b) => {
            match (left_arena.numeric(a, left_scale), right_arena.numeric(b, right_scale)) {
                (Some(a), Some(b)) => a.compare(&b),
                _ => unreachable!("decimals are compared with decimals"),
            }
        }
        _ => unreachable!("{left:?} and {right:?} are not of class {class:?}"),
    }
}
