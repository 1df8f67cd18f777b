//! Operations: data accesses, each of one table.
//!
//! Not here: queries with plans (`query.rs`), which may access several tables.

use crate::{Expression, Reference, Register, Statistic};
use catalog::{ColumnSlot, Table};
use std::sync::Arc;

/// An operation's number inside its procedure, in program order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationId(pub u32);

/// One end of a range.
#[derive(Clone, PartialEq, Debug)]
pub struct Bound {
    /// The value, of the column's type.
    pub value: Expression,
    /// The values of the columns after it, if rows of several columns are compared: `(a, b) > (1, 2)`.
    pub further: Vec<Expression>,
    /// Whether the value itself, with the further ones, belongs to the range.
    pub inclusive: bool,
}

impl Bound {
    /// Returns its values.
    pub fn values(&self) -> impl Iterator<Item = &Expression> {
        [&self.value].into_iter().chain(&self.further)
    }

    /// Returns its values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        [&mut self.value].into_iter().chain(&mut self.further)
    }
}

/// The path to the rows of an access.
#[derive(Clone, PartialEq, Debug)]
pub enum Path {
    /// By the whole primary key.
    Point {
        /// A value for each column of the key, of its type.
        key: Vec<Expression>,
    },
    /// By a range of the keys of an index.
    Range {
        /// Position of the index in the table's definition.
        index: usize,
        /// The columns of its keys.
        key_columns: Vec<usize>,
        /// Values of its first columns.
        prefix: Vec<Expression>,
        /// The lower bound of the column after the prefix.
        lower: Option<Box<Bound>>,
        /// The upper bound of the column after the prefix.
        upper: Option<Box<Bound>>,
        /// Whether keys are visited in descending order.
        backward: bool,
    },
}

/// A column that is chosen before the row is read: a CASE whose conditions do not depend on the row and whose
/// values are columns of one type. Only the chosen column is read.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Conditions in order, each with the column that it chooses.
    pub branches: Vec<(Expression, usize)>,
    /// The column if no condition holds.
    pub otherwise: usize,
    /// The register of the column.
    pub target: Register,
}

/// The rows of a table that an operation touches, and the columns that it reads.
#[derive(Clone, Debug)]
pub struct Access {
    /// The table.
    pub table: Arc<Table>,
    /// The path to the rows.
    pub path: Path,
    /// The positions of the columns that are read.
    pub columns: Vec<usize>,
    /// The slots of these columns in a row.
    pub slots: Vec<ColumnSlot>,
    /// The first of the consecutive registers that hold the columns.
    pub registers: Register,
    /// Columns that are chosen before the row is read; of `Path::Point` only.
    pub choices: Vec<Choice>,
    /// A condition that rows must fulfil beyond the path.
    pub filter: Option<Expression>,
}

impl Access {
    /// Returns whether it finds at most one row, by its key.
    pub fn is_point(&self) -> bool {
        matches!(self.path, Path::Point { .. })
    }
}

/// The object that has a constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckOwner {
    /// The table of the row.
    Table,
    /// The domain of a column, by its full name.
    Domain(String),
    /// The domain of a column, by the column's position. The constraint is new, and the rows are old.
    DomainOf(usize),
    /// A view through which the row is written, with CHECK OPTION.
    View,
    /// A partition through which the row is written.
    Partition,
    /// A partitioned table, of which a partition must take the row, with the columns of its key.
    Divided(Vec<usize>),
}

/// A constraint to check before a row is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The name of the constraint, or of the view, partition or partitioned table; empty for NOT NULL of a
    /// domain.
    pub name: String,
    /// The object that has it.
    pub owner: CheckOwner,
    /// Violated when false; NULL passes.
    pub condition: Expression,
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateFunction {
    /// Number of rows, or of values that are not NULL.
    Count,
    /// Sum of integers up to four bytes: a bigint.
    SumInt,
    /// Sum of exact numbers: a numeric.
    SumDecimal,
    /// Sum of doubles.
    SumDouble,
    /// Sum of values of REAL: a REAL.
    SumReal,
    /// Mean of exact numbers: a numeric.
    AverageDecimal,
    /// Mean of doubles.
    AverageDouble,
    /// Sum of intervals.
    SumInterval,
    /// Mean of intervals.
    AverageInterval,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Whether all are true.
    BoolAnd,
    /// Whether at least one is true.
    BoolOr,
    /// Concatenated texts.
    StringAgg,
    /// An array of all values.
    ArrayAgg,
    /// All bits that are set in each integer.
    BitAnd,
    /// All bits that are set in an integer.
    BitOr,
    /// The bits that are set in an odd number of integers.
    BitXor,
    /// A statistic of exact numbers: a numeric.
    StatisticDecimal(Statistic),
    /// A statistic of doubles.
    StatisticDouble(Statistic),
    /// The value at a fraction of the rows, between the values of two rows.
    PercentileCont,
    /// The first value at or after a fraction of the rows.
    PercentileDisc,
    /// The most frequent value.
    Mode,
    /// A JSON array of values that are JSON.
    JsonArray {
        /// Whether each value after the first begins a line.
        in_lines: bool,
    },
    /// The same in the normal form.
    JsonbArray,
    /// A JSON object of keys and values that are JSON.
    JsonObject,
    /// The same in the normal form.
    JsonbObject,
}

/// One aggregate of a SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The argument; `None` for `count(*)`.
    pub argument: Option<Expression>,
    /// The digits after the point of the argument, if it is a scaled integer.
    pub scale: u8,
    /// How values compare.
    pub class: crate::CompareClass,
    /// Whether equal values count once.
    pub distinct: bool,
    /// FILTER: which rows count.
    pub filter: Option<Expression>,
    /// The second argument: the separator of a list, the fraction of a percentile, X of a regression.
    pub second: Option<Expression>,
    /// ORDER BY of the values, if the result depends on it.
    pub order: Vec<SortKey>,
    /// Whether the rows come in an order in which the first value is the result: of `min` and `max`.
    pub is_first: bool,
    /// The register of the result.
    pub target: Register,
}

impl AggregateFunction {
    /// Returns the function for values that are arrays or rows, or for scalars.
    #[must_use]
    pub fn over(self, are_structured: bool) -> Self {
        match self {
            Self::JsonArray { .. } => Self::JsonArray { in_lines: are_structured },
            other => other,
        }
    }

    /// Returns whether the result is JSON.
    pub fn makes_json(self) -> bool {
        matches!(self, Self::JsonArray { .. } | Self::JsonbArray | Self::JsonObject | Self::JsonbObject)
    }

    /// Returns whether its values are those of WITHIN GROUP (ORDER BY …).
    pub fn is_ordered_set(self) -> bool {
        matches!(self, Self::PercentileCont | Self::PercentileDisc | Self::Mode)
    }

    /// Returns whether its rows are kept and sorted.
    pub fn is_list(self) -> bool {
        self.is_ordered_set() || self.makes_json() || matches!(self, Self::StringAgg | Self::ArrayAgg)
    }
}

impl Aggregate {
    /// Returns its expressions.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let Self { argument, filter, second, order, .. } = self;
        argument.iter().chain(filter).chain(second).chain(order.iter().map(|key| &key.value))
    }

    /// Returns its expressions, to be changed.
    pub fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        let Self { argument, filter, second, order, .. } = self;
        let order = order.iter_mut().map(|key| &mut key.value);
        argument.iter_mut().chain(filter).chain(second).chain(order).collect()
    }

    /// Returns whether a row that was added can be removed again, so that the result is the one without it,
    /// to the last digit: counts, and sums of numbers of one scale.
    pub(crate) fn is_invertible(&self) -> bool {
        use AggregateFunction as F;
        let is_exact = self.class == crate::CompareClass::Int;
        match self.function {
            F::Count => !self.distinct,
            F::SumInt | F::SumDecimal | F::AverageDecimal => is_exact && !self.distinct,
            _ => false,
        }
    }
}

/// One key of an ORDER BY that no index provides.
#[derive(Clone, PartialEq, Debug)]
pub struct SortKey {
    /// The value to sort by.
    pub value: Expression,
    /// How values compare.
    pub class: crate::CompareClass,
    /// DESC.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// SELECT from one table.
#[derive(Clone, Debug)]
pub struct Select {
    /// The rows.
    pub access: Access,
    /// Aggregates over all rows; if there are any, the result is one row.
    pub aggregates: Vec<Aggregate>,
    /// The columns of the result: target register and value.
    pub outputs: Vec<(Register, Expression)>,
    /// Whether equal rows count once.
    pub distinct: bool,
    /// ORDER BY, unless the path provides the order.
    pub order: Vec<SortKey>,
    /// Number of rows that are skipped.
    pub offset: Option<Expression>,
    /// Maximum number of rows after them.
    pub limit: Option<Expression>,
    /// INTO STRICT: exactly one row.
    pub strict: bool,
}

/// The kinds of operations.
// The kind is a separate byte, as for `Expression`.
#[repr(u8)]
#[derive(Clone, Debug)]
pub enum OperationKind {
    /// Reads.
    Select(Select),
    /// Adds one row.
    Insert {
        /// The table.
        table: Arc<Table>,
        /// A value for each column, of its type.
        values: Vec<Expression>,
        /// The first of the consecutive registers that hold the columns.
        registers: Register,
        /// CHECK constraints over those registers.
        checks: Vec<Check>,
        /// The foreign keys of the row.
        references: Vec<Reference>,
        /// RETURNING … INTO.
        returning: Vec<(Register, Expression)>,
    },
    /// Changes rows.
    Update {
        /// The rows.
        access: Access,
        /// Column, register of its new value, and the value.
        assignments: Vec<(usize, Register, Expression)>,
        /// CHECK constraints over old and new registers.
        checks: Vec<Check>,
        /// RETURNING … INTO.
        returning: Vec<(Register, Expression)>,
        /// The columns to which it adds, and on whose values nothing else depends (`added_columns`).
        added: Vec<usize>,
    },
    /// Removes rows.
    Delete {
        /// The rows.
        access: Access,
        /// RETURNING … INTO.
        returning: Vec<(Register, Expression)>,
    },
}

/// One data access of a procedure.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The kind of access, with its table and values.
    pub kind: OperationKind,
    /// The register of FOUND.
    pub found: Register,
    /// Line and column in the source, for messages.
    pub position: (u32, u32),
}

impl Operation {
    /// Returns whether it finds all rows by their keys.
    pub(crate) fn looks_short(&self) -> bool {
        match &self.kind {
            OperationKind::Select(select) => select.access.is_point(),
            OperationKind::Insert { .. } => true,
            OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => access.is_point(),
        }
    }

    /// Returns the table that it accesses.
    pub fn table(&self) -> &Arc<Table> {
        match &self.kind {
            OperationKind::Select(select) => &select.access.table,
            OperationKind::Insert { table, .. } => table,
            OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => &access.table,
        }
    }

    /// Returns the key of a point access; `None` for any other operation.
    pub fn point_key(&self) -> Option<&[Expression]> {
        let access = match &self.kind {
            OperationKind::Select(select) => &select.access,
            OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => access,
            OperationKind::Insert { .. } => return None,
        };
        match &access.path {
            Path::Point { key } => Some(key),
            Path::Range { .. } => None,
        }
    }

    /// Returns whether the order of two operations matters: both access one table, and one of them writes it
    /// (PACMAN §4.1.1, data dependency).
    pub fn is_data_dependent(&self, other: &Self) -> bool {
        self.table().id == other.table().id && (self.writes() || other.writes())
    }

    /// Returns whether it writes a table.
    #[inline]
    pub fn writes(&self) -> bool {
        !matches!(self.kind, OperationKind::Select(_))
    }
}
