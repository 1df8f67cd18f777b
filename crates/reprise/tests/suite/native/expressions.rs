//! Random expressions of every type, as text.

use rand::Rng;
use rand::rngs::SmallRng;

/// The types of variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    SmallInt,
    Int,
    BigInt,
    Cents,
    Rate,
    Wide,
    Double,
    Real,
    Text,
    Char,
    Date,
    Timestamp,
    Jsonb,
    Boolean,
    Ints,
    Texts,
    Interval,
}

pub const TYPES: [Ty; 17] = [
    Ty::SmallInt,
    Ty::Int,
    Ty::BigInt,
    Ty::Cents,
    Ty::Rate,
    Ty::Wide,
    Ty::Double,
    Ty::Text,
    Ty::Char,
    Ty::Date,
    Ty::Timestamp,
    Ty::Jsonb,
    Ty::Boolean,
    Ty::Ints,
    Ty::Texts,
    Ty::Interval,
    Ty::Real,
];

impl Ty {
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "smallint",
            Self::Int => "integer",
            Self::BigInt => "bigint",
            Self::Cents => "numeric(8,2)",
            Self::Rate => "numeric(4,4)",
            Self::Wide => "numeric",
            Self::Double => "double precision",
            Self::Real => "real",
            Self::Text => "text",
            Self::Char => "char(4)",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Jsonb => "jsonb",
            Self::Boolean => "boolean",
            Self::Ints => "integer[]",
            Self::Texts => "text[]",
            Self::Interval => "interval",
        }
    }

    /// Literals, among them those at the limits of the type.
    fn literals(self) -> &'static [&'static str] {
        match self {
            Self::SmallInt => &["0::smallint", "(-32768)::smallint", "32767::smallint", "3::smallint"],
            Self::Int => &["0", "1", "2", "-1", "7", "2147483647", "(-2147483648)"],
            Self::BigInt => &["0::bigint", "5000000000", "9223372036854775807", "(-9223372036854775807)"],
            Self::Cents => &["0.00::numeric(8,2)", "1.25::numeric(8,2)", "999999.99::numeric(8,2)"],
            Self::Rate => &["0.1250::numeric(4,4)", "0.9999::numeric(4,4)", "(-0.0001)::numeric(4,4)"],
            Self::Wide => &["0::numeric", "1.5", "123456789012345678901234.5", "(-0.000001)"],
            Self::Double => &["0.5::float8", "0::float8", "1e300::float8", "'NaN'::float8", "(-2)::float8"],
            Self::Real => &["0.1::real", "0::real", "1e38::real", "'NaN'::real", "(-2.5)::real"],
            Self::Text => &["''", "'a'", "'abc'", "'Ärger'", "'12'", "'x y '"],
            Self::Char => &["'ab'::char(4)", "''::char(4)", "'abcd'::char(4)"],
            Self::Date => &["DATE '2024-02-29'", "DATE '1999-12-31'", "DATE 'infinity'"],
            Self::Timestamp => &["TIMESTAMP '2024-02-29 12:30:00'", "TIMESTAMP '1970-01-01 00:00:00'"],
            Self::Jsonb => {
                &["'{\"a\": [1, 2.50]}'::jsonb", "'[1, {\"a\": 2.5}]'::jsonb", "'null'::jsonb", "'7'::jsonb"]
            }
            Self::Boolean => &["true", "false"],
            Self::Ints => &["ARRAY[1, 2, 3]", "ARRAY[NULL, 5]::integer[]", "'{}'::integer[]"],
            Self::Interval => {
                &["INTERVAL '1 mon -2 days 03:04:05'", "INTERVAL '30 days'", "'1 mon'::interval"]
            }
            Self::Texts => &["ARRAY['a', 'b']", "ARRAY['x', NULL]::text[]"],
        }
    }

    fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Self::Cents | Self::Rate | Self::Wide | Self::Real | Self::Double)
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Self::SmallInt | Self::Int | Self::BigInt)
    }

    fn is_array(self) -> bool {
        matches!(self, Self::Ints | Self::Texts)
    }
}

/// The names that an expression may use, by type.
pub type Names = Vec<(String, Ty)>;

/// Draws one of several things.
pub fn one_of<'o, T: ?Sized>(random: &mut SmallRng, options: &[&'o T]) -> &'o T {
    options[random.random_range(0..options.len())]
}

/// A random expression of a type.
pub fn expression(random: &mut SmallRng, names: &Names, ty: Ty, depth: u32) -> String {
    if depth == 0 || random.random_ratio(1, 6) {
        return leaf(random, names, ty);
    }
    let own = |random: &mut SmallRng, ty: Ty| expression(random, names, ty, depth - 1);
    match random.random_range(0..8) {
        0 => {
            let condition = own(random, Ty::Boolean);
            let (then, otherwise) = (own(random, ty), own(random, ty));
            format!("CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
        }
        1 => format!("coalesce({}, {})", own(random, ty), own(random, ty)),
        2 if !ty.is_array() && ty != Ty::Boolean => {
            let function = one_of(random, &["greatest", "least"]);
            format!("{function}({}, {})", own(random, ty), own(random, ty))
        }
        3 if ty.is_number() => {
            let from = [Ty::Int, Ty::BigInt, Ty::Cents, Ty::Wide, Ty::SmallInt, Ty::Real, Ty::Double];
            let from = from[random.random_range(0..from.len())];
            format!("({})::{}", own(random, from), ty.name())
        }
        _ => of_type(random, names, ty, depth - 1),
    }
}

fn leaf(random: &mut SmallRng, names: &Names, ty: Ty) -> String {
    let known: Vec<&str> =
        names.iter().filter(|(_, own)| *own == ty).map(|(name, _)| name.as_str()).collect();
    match random.random_range(0..10) {
        0 => format!("NULL::{}", ty.name()),
        1..7 if !known.is_empty() => one_of(random, &known).into(),
        _ => one_of(random, ty.literals()).into(),
    }
}

/// An expression that only this type has.
fn of_type(random: &mut SmallRng, names: &Names, ty: Ty, depth: u32) -> String {
    let own = |random: &mut SmallRng, ty: Ty| expression(random, names, ty, depth);
    match ty {
        Ty::SmallInt | Ty::Int | Ty::BigInt => match random.random_range(0..9) {
            0 if ty == Ty::Int => format!("length({})", own(random, Ty::Text)),
            1 if ty == Ty::Int => format!("array_length({}, 1)", own(random, Ty::Ints)),
            2 if ty == Ty::Int => format!("cardinality({})", own(random, Ty::Texts)),
            3 if ty == Ty::Int => format!("({})[{}]", own(random, Ty::Ints), own(random, Ty::Int)),
            4 if ty == Ty::Int => format!("({} - {})", own(random, Ty::Date), own(random, Ty::Date)),
            5 => format!("abs({})", own(random, ty)),
            6 => format!("({})::{}", own(random, Ty::Double), ty.name()),
            _ => {
                let operator = one_of(random, &["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", own(random, ty), own(random, ty))
            }
        },
        Ty::Cents | Ty::Rate | Ty::Wide => match random.random_range(0..5) {
            0 => format!("round({}, 1)::{}", own(random, ty), ty.name()),
            1 => format!("abs({})::{}", own(random, ty), ty.name()),
            _ => {
                let other = [Ty::Int, Ty::Cents, Ty::Rate, Ty::Wide][random.random_range(0..4)];
                let operator = one_of(random, &["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})::{}", own(random, ty), own(random, other), ty.name())
            }
        },
        Ty::Real => {
            let operator = one_of(random, &["+", "-", "*", "/"]);
            let other = [Ty::Real, Ty::Real, Ty::Int, Ty::Double][random.random_range(0..4)];
            format!("({} {operator} {})::real", own(random, ty), own(random, other))
        }
        Ty::Double => {
            let operator = one_of(random, &["+", "-", "*", "/"]);
            format!("({} {operator} {})", own(random, ty), own(random, ty))
        }
        Ty::Text => match random.random_range(0..7) {
            4 => format!("({} ->> 'a')", own(random, Ty::Jsonb)),
            0 => format!("left({}, {})", own(random, ty), own(random, Ty::Int)),
            1 => format!("upper({})", own(random, ty)),
            2 => format!("({})[{}]", own(random, Ty::Texts), own(random, Ty::Int)),
            3 => {
                let of = TYPES[random.random_range(0..TYPES.len())];
                format!("({})::text", own(random, of))
            }
            _ => format!("({} || {})", own(random, ty), own(random, ty)),
        },
        Ty::Char => format!("({})::char(4)", own(random, Ty::Text)),
        Ty::Date => match random.random_range(0..3) {
            0 => format!("({})::date", own(random, Ty::Timestamp)),
            _ => format!("({} + {} % 1000)", own(random, ty), own(random, Ty::Int)),
        },
        Ty::Timestamp => match random.random_range(0..3) {
            0 => format!("({} + {})", own(random, ty), own(random, Ty::Interval)),
            1 => format!("({} - {})", own(random, Ty::Date), own(random, Ty::Interval)),
            _ => format!("({})::timestamp", own(random, Ty::Date)),
        },
        Ty::Jsonb => match random.random_range(0..5) {
            0 => format!("({} -> 'a')", own(random, ty)),
            1 => format!("({} || {})", own(random, ty), own(random, ty)),
            2 => format!("jsonb_build_object('b', {}, 'a', {})", own(random, Ty::Wide), own(random, ty)),
            3 => format!("({} -> {})", own(random, ty), own(random, Ty::Int)),
            _ => format!("to_jsonb({})", own(random, Ty::Text)),
        },
        Ty::Boolean => condition(random, names, depth),
        Ty::Ints | Ty::Texts | Ty::Interval => of_structured_type(random, names, ty, depth),
    }
}

/// The same of an array or an interval.
fn of_structured_type(random: &mut SmallRng, names: &Names, ty: Ty, depth: u32) -> String {
    let own = |random: &mut SmallRng, ty: Ty| expression(random, names, ty, depth);
    match ty {
        Ty::Interval => match random.random_range(0..5) {
            0 => format!("({} - {})", own(random, Ty::Timestamp), own(random, Ty::Timestamp)),
            1 => format!("({} + {})", own(random, ty), own(random, ty)),
            2 => format!("({} * {})", own(random, ty), own(random, Ty::Double)),
            3 => format!("justify_days(-{})", own(random, ty)),
            _ => format!("({} / {})", own(random, ty), own(random, Ty::Int)),
        },
        Ty::Ints => match random.random_range(0..5) {
            1 => format!("({} || {})", own(random, ty), own(random, ty)),
            2 => format!("({})[{}:{}]", own(random, ty), own(random, Ty::Int), own(random, Ty::Int)),
            3 => format!("array_remove({}, {})", own(random, ty), own(random, Ty::Int)),
            0 => format!("array_append({}, {})", own(random, ty), own(random, Ty::Int)),
            _ => format!("ARRAY[{}, {}]", own(random, Ty::Int), own(random, Ty::Int)),
        },
        _ => match random.random_range(0..3) {
            0 => format!("({} || {})", own(random, ty), own(random, ty)),
            1 => format!("({})::text[]", own(random, Ty::Ints)),
            _ => format!("ARRAY[{}, {}]", own(random, Ty::Text), own(random, Ty::Text)),
        },
    }
}

/// A random condition.
fn condition(random: &mut SmallRng, names: &Names, depth: u32) -> String {
    let own = |random: &mut SmallRng, ty: Ty| expression(random, names, ty, depth);
    let ty = TYPES[random.random_range(0..TYPES.len())];
    match random.random_range(0..12) {
        8 => format!("({} && {})", own(random, Ty::Ints), own(random, Ty::Ints)),
        9 => format!("({} @> {})", own(random, Ty::Texts), own(random, Ty::Texts)),
        7 => format!("({} @> {})", own(random, Ty::Jsonb), own(random, Ty::Jsonb)),
        0 => format!("({} AND {})", own(random, Ty::Boolean), own(random, Ty::Boolean)),
        1 => format!("({} OR {})", own(random, Ty::Boolean), own(random, Ty::Boolean)),
        2 => format!("(NOT {})", own(random, Ty::Boolean)),
        3 => format!("({} IS NULL)", own(random, ty)),
        4 => format!("({} IS DISTINCT FROM {})", own(random, ty), own(random, ty)),
        5 => format!("({} = ANY({}))", own(random, Ty::Int), own(random, Ty::Ints)),
        6 => format!("({} LIKE 'a%')", own(random, Ty::Text)),
        _ => {
            let operator = one_of(random, &["=", "<>", "<", "<=", ">", ">="]);
            format!("({} {operator} {})", own(random, ty), own(random, ty))
        }
    }
}
