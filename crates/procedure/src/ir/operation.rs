//! Data accesses: the only statements that touch tables.

use crate::query::Query;
use crate::{Expression, Reference, Register};
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
    /// Whether the value itself belongs to the range.
    pub inclusive: bool,
}

/// How rows are reached.
#[derive(Clone, PartialEq, Debug)]
pub enum Path {
    /// By the whole primary key, one expression a key column.
    Point {
        /// Values of the key's columns, of their types.
        key: Vec<Expression>,
    },
    /// By part of an index.
    Range {
        /// The index's place in the table's definition.
        index: usize,
        /// The columns of its keys.
        key_columns: Vec<usize>,
        /// Values of its first columns.
        prefix: Vec<Expression>,
        /// Where the next column begins.
        lower: Option<Bound>,
        /// Where the next column ends.
        upper: Option<Bound>,
        /// Whether keys descend.
        backward: bool,
    },
}

/// A column that is chosen before the row is read: a CASE whose conditions do not depend on the row and whose
/// values are columns of one type. Only the chosen column is read.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Conditions in order, each with the column that it chooses.
    pub branches: Vec<(Expression, usize)>,
    /// The column when none holds.
    pub otherwise: usize,
    /// The register of the column.
    pub target: Register,
}

/// Which rows of a table an operation touches, and which of their columns it uses.
#[derive(Clone, Debug)]
pub struct Access {
    /// The table.
    pub table: Arc<Table>,
    /// How rows are reached.
    pub path: Path,
    /// The positions of the columns that are read.
    pub columns: Vec<usize>,
    /// The slots of these columns in a row.
    pub slots: Vec<ColumnSlot>,
    /// The first of the consecutive registers that hold the columns.
    pub registers: Register,
    /// Columns that are chosen when the row is reached; of `Path::Point` only.
    pub choices: Vec<Choice>,
    /// A condition on rows beyond the path.
    pub filter: Option<Expression>,
}

/// A constraint to check before a row is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The constraint's name.
    pub name: String,
    /// Violated when false; NULL passes.
    pub condition: Expression,
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateFunction {
    /// Rows, or non-NULL values.
    Count,
    /// Sum of integers up to four bytes: a bigint.
    SumInt,
    /// Sum of anything exact: a numeric.
    SumDecimal,
    /// Sum of doubles.
    SumDouble,
    /// Mean of anything exact: a numeric.
    AverageDecimal,
    /// Mean of doubles.
    AverageDouble,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Whether all are true.
    BoolAnd,
    /// Whether one is true.
    BoolOr,
    /// Texts one after the other.
    StringAgg,
    /// All values.
    ArrayAgg,
}

/// One aggregate of a SELECT.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    /// The function.
    pub function: AggregateFunction,
    /// The argument; `None` for `count(*)`.
    pub argument: Option<Expression>,
    /// The digits after the point of the argument's integers, when it is a decimal.
    pub scale: u8,
    /// How values compare.
    pub class: crate::CompareClass,
    /// Whether equal values count once.
    pub distinct: bool,
    /// FILTER: which rows count.
    pub filter: Option<Expression>,
    /// What stands before each text but the first.
    pub separator: Option<Expression>,
    /// ORDER BY of the values, where it matters.
    pub order: Vec<SortKey>,
    /// The register of the result.
    pub target: Register,
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
    /// Computed over all rows; with any, there is one row of outputs.
    pub aggregates: Vec<Aggregate>,
    /// The columns of the result: target register and value.
    pub outputs: Vec<(Register, Expression)>,
    /// Whether equal rows count once.
    pub distinct: bool,
    /// ORDER BY, where the path does not give it.
    pub order: Vec<SortKey>,
    /// Rows to leave out.
    pub offset: Option<Expression>,
    /// Rows to take.
    pub limit: Option<Expression>,
    /// INTO STRICT: exactly one row.
    pub strict: bool,
}

/// The kinds of operations.
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
        /// Constraints over those registers.
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
        /// Column, register of its new value, the value.
        assignments: Vec<(usize, Register, Expression)>,
        /// Constraints over old and new registers.
        checks: Vec<Check>,
        /// RETURNING … INTO.
        returning: Vec<(Register, Expression)>,
    },
    /// Removes rows.
    Delete {
        /// The rows.
        access: Access,
        /// RETURNING … INTO.
        returning: Vec<(Register, Expression)>,
    },
    /// A query that is not one operation on one table.
    Query(Box<QueryOperation>),
}

/// A query of a procedure, and the destination of its rows.
#[derive(Clone, Debug)]
pub struct QueryOperation {
    /// The query.
    pub query: Query,
    /// The outputs of each row: target register and value.
    pub outputs: Vec<(Register, Expression)>,
    /// INTO STRICT: exactly one row.
    pub strict: bool,
    /// Whether the rows go to the client.
    pub to_client: bool,
}

/// One data access of a procedure.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// The register of FOUND.
    pub found: Register,
    /// Line and column in the source, for messages.
    pub position: (u32, u32),
}

impl Operation {
    /// Returns the table that it accesses.
    ///
    /// # Panics
    /// Panics on a query: a procedure with queries is not analysed.
    pub fn table(&self) -> &Arc<Table> {
        match &self.kind {
            OperationKind::Select(select) => &select.access.table,
            OperationKind::Insert { table, .. } => table,
            OperationKind::Update { access, .. } | OperationKind::Delete { access, .. } => &access.table,
            OperationKind::Query(_) => unreachable!("a procedure with queries is not analysed"),
        }
    }

    /// Returns the tables that it accesses.
    pub fn tables(&self) -> Vec<&Arc<Table>> {
        let OperationKind::Query(own) = &self.kind else { return vec![self.table()] };
        let mut tables = Vec::new();
        own.query.plan.walk(&mut |node| tables.extend(node.own_table().map(|(table, _)| table)));
        tables
    }

    /// Returns whether the order of two operations matters: both access one table, and one of them writes it
    /// (PACMAN §4.1.1, data dependency).
    pub fn is_data_dependent(&self, other: &Self) -> bool {
        self.table().id == other.table().id && (self.writes() || other.writes())
    }

    /// Returns whether it writes a table.
    #[inline]
    pub fn writes(&self) -> bool {
        match &self.kind {
            OperationKind::Select(_) => false,
            OperationKind::Query(own) => own.query.plan.writes(),
            _ => true,
        }
    }
}
