//! The tables of a random case: types and nullability of columns, and the shapes of keys.
//! Invariant: seventy rows that differ in one integer fit every table. Held by: `definitions`, which every
//! case runs.

use super::partitions::Parts;
use proptest::prelude::*;
use reprise::Value;

/// Every case has as many tables: `t0`, `t1`, … with the columns a, b, v, w.
pub const TABLES: usize = 4;
/// Rows that no step looks for: they give each index several leaves, so that replay looks rows up ahead.
const FILLERS: usize = 70;
const FIRST_FILLER: usize = 1_000;
/// 2024-01-01 in days since 2000-01-01.
const FIRST_DAY: i32 = 8_766;
const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The type of a column or parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    SmallInt,
    Int,
    BigInt,
    Whole,
    Cents,
    Number,
    /// NaN, an infinity, or a number of more than 36 digits.
    Wide,
    Text,
    Varchar,
    Char,
    Date,
    Timestamp,
    Boolean,
    Double,
    Real,
    List,
    Time,
    Interval,
}

/// What makes two types comparable without an explicit cast.
#[derive(PartialEq, Eq)]
enum Family {
    Exact,
    Text,
    Only(Ty),
}

impl PartialEq<Ty> for Family {
    fn eq(&self, other: &Ty) -> bool {
        *self == other.family()
    }
}

impl Ty {
    /// The types of keys; those that often meet in one comparison come more often.
    pub fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            2 => Just(Self::SmallInt),
            4 => Just(Self::Int),
            3 => Just(Self::BigInt),
            1 => Just(Self::Whole),
            2 => Just(Self::Cents),
            2 => Just(Self::Number),
            1 => Just(Self::Wide),
            2 => Just(Self::Text),
            1 => Just(Self::Varchar),
            1 => Just(Self::Char),
            1 => Just(Self::Date),
            1 => Just(Self::Timestamp),
            1 => Just(Self::Boolean),
            1 => Just(Self::Double),
            1 => Just(Self::Real),
            1 => Just(Self::List),
            1 => Just(Self::Time),
            1 => Just(Self::Interval),
        ]
    }

    pub fn integer() -> impl Strategy<Value = Self> {
        prop_oneof![1 => Just(Self::SmallInt), 3 => Just(Self::Int), 2 => Just(Self::BigInt)]
    }

    fn amount() -> impl Strategy<Value = Self> {
        prop_oneof![4 => Self::integer(), 1 => Just(Self::Cents)]
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::SmallInt => "SMALLINT",
            Self::Int => "INT",
            Self::BigInt => "BIGINT",
            Self::Whole => "NUMERIC(6,0)",
            Self::Cents => "NUMERIC(8,2)",
            Self::Number | Self::Wide => "NUMERIC",
            Self::Text => "TEXT",
            Self::Varchar => "VARCHAR(6)",
            Self::Char => "CHAR(4)",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Boolean => "BOOLEAN",
            Self::Double => "DOUBLE PRECISION",
            Self::Real => "REAL",
            Self::List => "INT[]",
            Self::Time => "TIME",
            Self::Interval => "INTERVAL",
        }
    }

    fn family(self) -> Family {
        match self {
            Self::SmallInt | Self::Int | Self::BigInt | Self::Whole | Self::Cents | Self::Number => {
                Family::Exact
            }
            Self::Text | Self::Varchar | Self::Char => Family::Text,
            other => Family::Only(other),
        }
    }

    /// Whether a parameter of this type is compared with a column of another one as it is.
    pub fn compares_with(self, column: Self) -> bool {
        self.family() == column
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Self::SmallInt | Self::Int | Self::BigInt)
    }

    /// The value of this type that follows from an integer expression.
    pub fn of(self, integer: &str) -> String {
        match self {
            Self::SmallInt | Self::Int | Self::BigInt | Self::Whole | Self::Cents => integer.into(),
            // Equal numbers have different scales.
            Self::Number => format!("({integer} * CASE WHEN {integer} % 3 = 0 THEN 1.0 ELSE 1.000 END)"),
            Self::Wide => format!(
                "(CASE WHEN ({integer}) = 0 THEN 'NaN'::numeric WHEN ({integer}) = 1 THEN 'Infinity'
                 WHEN ({integer}) % 3 = 0 THEN ({integer}) * 1e40
                 WHEN ({integer}) % 3 = 1 THEN ({integer}) * 1e-40 ELSE {integer} END)"
            ),
            Self::Text | Self::Varchar | Self::Char => format!("({integer})::text"),
            Self::Date => format!("(DATE '2024-01-01' + ({integer})::int)"),
            Self::Timestamp => format!("(DATE '2024-01-01' + ({integer})::int)::timestamp"),
            Self::Boolean => format!("({integer} % 2 = 1)"),
            Self::Double => format!("({integer})::double precision"),
            Self::Real => format!("({integer} / 10.0)::real"),
            Self::Time => format!("(TIME '00:00' + ({integer}) * INTERVAL '1 min')"),
            // Equal intervals have different fields.
            Self::Interval => format!(
                "(CASE WHEN {integer} % 2 = 0 THEN INTERVAL '1 day' ELSE INTERVAL '24:00' END * ({integer}))"
            ),
            Self::List => format!("ARRAY[({integer})::int, NULL, 7]"),
        }
    }

    /// An expression that becomes the value of this type only when a column of it rounds or cuts.
    pub fn near(self, integer: &str) -> String {
        match self {
            Self::Whole => format!("({integer} + 0.4)"),
            Self::Cents => format!("({integer} + 0.004)"),
            Self::Text | Self::Varchar | Self::Char => format!("(({integer})::text || '  tail')::varchar(1)"),
            other => other.of(integer),
        }
    }

    /// The argument that stands for an integer.
    pub fn value(self, integer: i32) -> Value {
        match self {
            Self::SmallInt | Self::Int | Self::BigInt | Self::Whole | Self::Cents | Self::Number => {
                Value::Int(integer.into())
            }
            Self::Wide => {
                // Different integers have different numbers, as keys need.
                let text = match (integer, integer % 3) {
                    (0, _) => "NaN".into(),
                    (1, _) => "Infinity".into(),
                    (_, 0) => format!("{integer}e40"),
                    (_, 1) => format!("{integer}e-40"),
                    _ => integer.to_string(),
                };
                Value::Numeric(text.parse().expect("a numeric"))
            }
            Self::Text | Self::Varchar | Self::Char => Value::Text(integer.to_string()),
            Self::Date => Value::Date(FIRST_DAY + integer),
            Self::Timestamp => Value::Timestamp(i64::from(FIRST_DAY + integer) * MICROSECONDS_PER_DAY),
            Self::Boolean => Value::Boolean(integer % 2 == 1),
            Self::Double => Value::Double(integer.into()),
            Self::Real => Value::Real(integer as f32 / 10.0),
            Self::Time => Value::Time(i64::from(integer).rem_euclid(1440) * 60_000_000),
            Self::Interval => Value::Interval(reprise::Interval { days: integer, ..Default::default() }),
            Self::List => Value::Array(vec![Value::Int(integer.into()), Value::Null, Value::Int(7)]),
        }
    }
}

/// Which columns lead to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Key {
    Primary(&'static [&'static str]),
    Unique(&'static [&'static str]),
    /// The same, for a constraint that is checked at the end of each statement.
    Deferrable(&'static [&'static str]),
    Index(&'static [&'static str]),
    None,
}

/// The type of w.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Note {
    Text,
    Document,
    List,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Shape {
    pub a: Ty,
    pub b: Ty,
    v: Ty,
    w: Note,
    /// Whether there is a generated column, an index of it, and a unique index of some rows.
    derives: [bool; 3],
    /// Whether a, b and v may be NULL, where the key admits it.
    nullable: [bool; 3],
    keys: [Key; 2],
    pub parts: Option<Parts>,
}

impl Shape {
    pub fn any() -> impl Strategy<Value = Self> {
        let first = prop_oneof![
            5 => Just(Key::Primary(&["a"])),
            3 => Just(Key::Primary(&["a", "b"])),
            2 => Just(Key::Primary(&["b", "a"])),
            1 => Just(Key::Unique(&["a"])),
            1 => Just(Key::Unique(&["a", "b"])),
            1 => Just(Key::Deferrable(&["a", "b"])),
            1 => Just(Key::Index(&["a", "b"])),
            1 => Just(Key::None),
        ];
        let second = prop_oneof![
            6 => Just(Key::None),
            1 => Just(Key::Index(&["v", "a"])),
            1 => Just(Key::Unique(&["a", "v"])),
            1 => Just(Key::Unique(&["b"])),
            1 => Just(Key::Deferrable(&["b"])),
            2 => Just(Key::Index(&["b"])),
        ];
        let notes = prop_oneof![2 => Just(Note::Text), 1 => Just(Note::Document), 1 => Just(Note::List)];
        let (derived, partial) = (proptest::bool::weighted(0.3), proptest::bool::weighted(0.2));
        let parts = proptest::option::weighted(0.4, Parts::any());
        let options = (notes, (derived, any::<bool>(), partial), any::<[bool; 3]>(), parts);
        let shape = (Ty::any(), Ty::any(), Ty::amount(), options, first, second);
        shape.prop_map(|(a, b, v, (w, (derived, indexed, partial), nullable, parts), first, second)| {
            let derives = [derived, derived && indexed, partial && a != Ty::Boolean];
            let mut shape = Self { a, b, v, w, derives, nullable, keys: [first, second], parts }.with_room();
            shape.parts = shape.parts.and_then(|parts| parts.fit(&shape));
            shape
        })
    }

    /// Whether each unique key has a column, so that the table can be partitioned by it.
    pub fn is_in_each_key(&self, column: &str) -> bool {
        self.keys.iter().all(|key| match key {
            Key::Primary(columns) | Key::Unique(columns) | Key::Deferrable(columns) => {
                columns.contains(&column)
            }
            Key::Index(_) | Key::None => true,
        })
    }

    /// Whether its rows are at most as many as its keys have values.
    pub fn has_primary_key(&self) -> bool {
        matches!(self.keys[0], Key::Primary(_))
    }

    /// Two values are too few for a unique key of their own.
    fn with_room(mut self) -> Self {
        for key in self.keys {
            let (Key::Primary(columns) | Key::Unique(columns) | Key::Deferrable(columns)) = key else {
                continue;
            };
            match columns {
                ["b"] if self.b == Ty::Boolean => self.b = Ty::Int,
                ["a"] | ["a", "v"] if self.a == Ty::Boolean => self.a = Ty::Int,
                [_, _] if self.a == Ty::Boolean && self.b == Ty::Boolean => self.b = Ty::Int,
                _ => {}
            }
        }
        self
    }

    /// The value of w that is a text.
    pub fn note(&self, text: &str) -> String {
        match self.w {
            Note::Text => text.into(),
            Note::Document => format!("to_jsonb({text})"),
            Note::List => format!("ARRAY[{text}, NULL]"),
        }
    }

    /// The value of w after it takes note of an expression.
    pub fn noted(&self, expression: &str) -> String {
        match self.w {
            Note::Text => format!("left(coalesce(w, '') || {expression}, 12)"),
            Note::Document => self.note(&format!("left(coalesce(w #>> '{{}}', '') || {expression}, 12)")),
            Note::List => format!("(({expression})::text || w)[:4]"),
        }
    }

    /// Whether statements may change b.
    pub fn can_move(&self) -> bool {
        !matches!(self.keys[0], Key::Primary(columns) if columns.contains(&"b"))
    }

    /// The statements that make table `number`.
    pub fn definition(&self, number: usize) -> String {
        let not_null = |place: usize| if self.nullable[place] { "" } else { " NOT NULL" };
        let mut columns = format!(
            "a {}{}, b {}{}, v {}{}, w {}",
            self.a.name(),
            not_null(0),
            self.b.name(),
            not_null(1),
            self.v.name(),
            not_null(2),
            match self.w {
                Note::Text => "TEXT",
                Note::Document => "JSONB",
                Note::List => "TEXT[]",
            }
        );
        let mut indexes = String::new();
        if self.derives[0] {
            columns += ", g TEXT GENERATED ALWAYS AS (b::text || '/' || coalesce(v::text, '-')) STORED";
        }
        if self.derives[1] {
            indexes += &format!("\nCREATE INDEX t{number}_g ON t{number} (g, a);");
        }
        if self.derives[2] {
            indexes += &format!("\nCREATE UNIQUE INDEX t{number}_some ON t{number} (a, b) WHERE v > 1;");
            indexes += &format!("\nCREATE INDEX t{number}_more ON t{number} ((v + 1), lower(w::text));");
        }
        for (place, key) in self.keys.iter().enumerate() {
            let (kind, on) = match key {
                Key::Primary(on) => {
                    columns += &format!(", PRIMARY KEY ({})", on.join(", "));
                    continue;
                }
                Key::Deferrable(on) => {
                    columns += &format!(", UNIQUE ({}) DEFERRABLE", on.join(", "));
                    continue;
                }
                Key::Unique(on) => ("UNIQUE INDEX", on),
                Key::Index(on) => ("INDEX", on),
                Key::None => continue,
            };
            let nulls = match key {
                Key::Unique(_) if self.nullable[place] => " NULLS NOT DISTINCT",
                _ => "",
            };
            let on = on.join(", ");
            indexes += &format!("\nCREATE {kind} t{number}_{place} ON t{number} ({on}){nulls};");
        }
        let (by, parts) = match self.parts {
            Some(parts) => (parts.by(), parts.definitions(number, self)),
            None => (String::new(), String::new()),
        };
        format!("CREATE TABLE t{number} ({columns}){by};{indexes}{parts}")
    }
}

/// The statements that make tables, and fill them with the rows of the first keys and with fillers. What
/// follows is of another segment of the log, as definitions follow.
pub fn definitions(tables: &[Shape], keys: i32) -> String {
    let tables: Vec<_> = tables.iter().enumerate().collect();
    let made: Vec<String> = tables.iter().map(|(number, own)| own.definition(*number)).collect();
    let insert = |(number, own): &(usize, &Shape)| {
        format!("        INSERT INTO t{number} VALUES ({}, {}, v, NULL);\n", own.a.of("i"), own.b.of("i"))
    };
    let inserts: String = tables.iter().map(insert).collect();
    format!(
        "{}
CREATE PROCEDURE fill(first INT, last INT, v INT) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first..last LOOP
{inserts}    END LOOP;
END $$;
CALL fill(0, {keys} - 1, 1);
CALL fill({FIRST_FILLER}, {FIRST_FILLER} + {FILLERS}, 99);",
        made.join("\n")
    )
}
