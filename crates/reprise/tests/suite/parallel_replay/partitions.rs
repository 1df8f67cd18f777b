//! The partitions of a random table, and how they change between calls.
//! Invariant: a partition takes each row of `definitions`.

use super::tables::{Shape, Ty};
use proptest::prelude::*;

/// How a table is partitioned.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    column: &'static str,
    by: By,
    last: Last,
    /// Whether the second partition is partitioned by the other column, if keys admit it.
    is_divided: bool,
}

/// What decides about the partition of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Range,
    List,
    Hash,
}

/// Which rows the last partition takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    Default,
    /// Those above the other ones.
    Above,
    /// Those from a value on that leaves a gap.
    Behind,
}

/// A change of partitions.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Detaches the first partition, and attaches it again.
    Attach,
    /// Detaches the first partition, and creates another one.
    Replace,
    Drop,
    Empty,
    /// Drops the partition that is partitioned.
    DropDivided,
    /// Creates a partition beside the last one.
    Add,
}

impl Change {
    pub fn any() -> impl Strategy<Value = Self> {
        use Change::{Add, Attach, Drop, DropDivided, Empty, Replace};
        proptest::sample::select(&[Attach, Replace, Drop, Empty, DropDivided, Add][..])
    }
}

/// Whether values of a type have the order of the integers from which they follow.
fn is_ordered(ty: Ty) -> bool {
    use Ty::{BigInt, Cents, Date, Double, Int, Number, Real, SmallInt, Time, Timestamp, Whole};
    matches!(ty, SmallInt | Int | BigInt | Whole | Cents | Number | Date | Timestamp | Double | Real | Time)
}

impl Parts {
    pub fn any() -> impl Strategy<Value = Self> {
        let last = proptest::sample::select(&[Last::Default, Last::Above, Last::Behind][..]);
        let column = proptest::sample::select(&["a", "b"][..]);
        let by = proptest::sample::select(&[By::Range, By::List, By::Hash][..]);
        let parts = (column, by, last, any::<bool>());
        parts.prop_map(|(column, by, last, is_divided)| Self { column, by, last, is_divided })
    }

    fn other_column(self) -> &'static str {
        if self.column == "a" { "b" } else { "a" }
    }

    /// Returns what a table admits of the partitions.
    pub fn fit(mut self, shape: &Shape) -> Option<Self> {
        let ty = |column: &str| if column == "a" { shape.a } else { shape.b };
        let can_divide =
            |column: &str| shape.is_in_each_key(column) && !matches!(ty(column), Ty::List | Ty::Interval);
        if !can_divide(self.column) {
            return None;
        }
        let own = ty(self.column);
        self.by = match self.by {
            By::Range if !is_ordered(own) => By::List,
            By::Hash if matches!(own, Ty::Double | Ty::Real) => By::Range,
            by => by,
        };
        self.is_divided &= can_divide(self.other_column());
        Some(self)
    }

    /// PARTITION BY of the table.
    pub fn by(self) -> String {
        let by = match self.by {
            By::Range => "RANGE",
            By::List => "LIST",
            By::Hash => "HASH",
        };
        format!(" PARTITION BY {by} ({})", self.column)
    }

    /// FOR VALUES of a partition.
    fn bound(self, shape: &Shape, number: usize) -> String {
        let ty = if self.column == "a" { shape.a } else { shape.b };
        let value = |integer: i32| ty.of(&integer.to_string());
        match (self.by, number, self.last) {
            (By::Hash, ..) => format!("FOR VALUES WITH (MODULUS 3, REMAINDER {number})"),
            (By::Range, 0, _) => format!("FOR VALUES FROM (MINVALUE) TO ({})", value(2)),
            (By::Range, 1, _) => format!("FOR VALUES FROM ({}) TO ({})", value(2), value(4)),
            (By::Range, 2, Last::Above) => format!("FOR VALUES FROM ({}) TO (MAXVALUE)", value(4)),
            (By::Range, 2, Last::Behind) => format!("FOR VALUES FROM ({}) TO ({})", value(4), value(5)),
            (By::Range, 3, Last::Behind) => format!("FOR VALUES FROM ({}) TO (MAXVALUE)", value(1_000)),
            (By::List, 0, _) => format!("FOR VALUES IN ({}, {})", value(0), value(2)),
            (By::List, 1, Last::Above) => format!("FOR VALUES IN ({}, NULL)", value(1)),
            (By::List, 1, _) => format!("FOR VALUES IN ({})", value(1)),
            _ => "DEFAULT".into(),
        }
    }

    /// The statements that make the partitions of table `number`.
    pub fn definitions(self, number: usize, shape: &Shape) -> String {
        let last = if self.by == By::Range && self.last == Last::Behind { 3 } else { 2 };
        let made = (0..=last).map(|part| {
            let bound = self.bound(shape, part);
            let (own, inner) = match self.is_divided && part == 1 {
                true => self.divided(number, shape),
                false => Default::default(),
            };
            format!("\nCREATE TABLE t{number}_p{part} PARTITION OF t{number} {bound}{own};{inner}")
        });
        made.collect()
    }

    /// PARTITION BY of the second partition, and the statements that make its partitions.
    fn divided(self, number: usize, shape: &Shape) -> (String, String) {
        let other = self.other_column();
        let ty = if other == "a" { shape.a } else { shape.b };
        let (first, table) = (ty.of("1"), format!("t{number}_p1"));
        let inner = format!(
            "\nCREATE TABLE {table}a PARTITION OF {table} FOR VALUES IN ({first});
CREATE TABLE {table}b PARTITION OF {table} DEFAULT;"
        );
        (format!(" PARTITION BY LIST ({other})"), inner)
    }

    /// The relation of a statement: the table more often than a partition.
    pub fn relation(self, number: usize, statement: usize) -> String {
        match statement % 7 {
            1 => format!("t{number}_p0"),
            3 => format!("t{number}_p1"),
            4 if self.is_divided => format!("t{number}_p1b"),
            5 => format!("t{number}_p2"),
            _ => format!("t{number}"),
        }
    }

    /// The statements of a change.
    pub fn change(self, number: usize, shape: &Shape, change: Change) -> Vec<String> {
        let (table, first) = (format!("t{number}"), self.bound(shape, 0));
        let ty = if self.column == "a" { shape.a } else { shape.b };
        // Fewer rows fit than before.
        let fewer = match self.by {
            By::Range => format!("FOR VALUES FROM ({}) TO ({})", ty.of("0"), ty.of("1")),
            By::List => format!("FOR VALUES IN ({})", ty.of("0")),
            By::Hash => "FOR VALUES WITH (MODULUS 6, REMAINDER 0)".into(),
        };
        let detach = format!("ALTER TABLE {table} DETACH PARTITION {table}_p0");
        match change {
            Change::Attach => {
                vec![detach, format!("ALTER TABLE {table} ATTACH PARTITION {table}_p0 {first}")]
            }
            Change::Replace => vec![
                detach,
                format!("DROP TABLE {table}_p0"),
                format!("CREATE TABLE {table}_p0 PARTITION OF {table} {fewer}"),
            ],
            Change::Drop => vec![
                format!("DROP TABLE {table}_p2"),
                format!("CREATE TABLE {table}_p2 PARTITION OF {table} {}", self.bound(shape, 2)),
            ],
            Change::Empty => vec![format!("TRUNCATE {table}_p0"), format!("DELETE FROM {table}_p1")],
            Change::DropDivided => vec![format!("DROP TABLE {table}_p1")],
            Change::Add => {
                let bound = match self.by {
                    By::Range => format!("FOR VALUES FROM ({}) TO ({})", ty.of("5"), ty.of("7")),
                    By::List => format!("FOR VALUES IN ({})", ty.of("6")),
                    By::Hash => "FOR VALUES WITH (MODULUS 6, REMAINDER 3)".into(),
                };
                vec![format!("CREATE TABLE {table}_p5 PARTITION OF {table} {bound}")]
            }
        }
    }
}
