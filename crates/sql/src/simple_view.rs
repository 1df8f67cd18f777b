//! A view whose rows are rows of one relation, and the statements that write through it.
//!
//! Not here: which views these are (`updatable`), and how a statement is bound (`plan/target.rs`).

use crate::source::Source;
use catalog::Type;
use procedure::SqlError;
use serde::{Deserialize, Serialize};
use squawk_syntax::ast;
use std::fmt;

/// The events of writes, as `pg_relation_is_updatable` counts them.
pub(crate) const UPDATED: i64 = 1 << 2;
pub(crate) const INSERTED: i64 = 1 << 3;
pub(crate) const DELETED: i64 = 1 << 4;

const NO_COLUMNS: &str = "Views that have no updatable columns are not automatically updatable.";

/// CHECK OPTION of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CheckOption {
    /// A written row must fulfil the condition of the view.
    Local,
    /// A written row must also fulfil the conditions of the views below it.
    Cascaded,
}

impl CheckOption {
    /// Returns its name in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cascaded => "cascaded",
        }
    }
}

/// A statement that writes through a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WriteKind {
    Insert,
    Update,
    Delete,
}

impl WriteKind {
    /// Returns the error of a view that the statement cannot write.
    pub(crate) fn refusal(self, view: &str, reason: &str) -> SqlError {
        let (verb, gerund, event) = match self {
            Self::Insert => ("insert into", "inserting into", "INSERT"),
            Self::Update => ("update", "updating", "UPDATE"),
            Self::Delete => ("delete from", "deleting from", "DELETE"),
        };
        let hint = format!(
            "To enable {gerund} the view, provide an INSTEAD OF {event} trigger or an unconditional \
             ON {event} DO INSTEAD rule."
        );
        let error = SqlError::new("55000", format!("cannot {verb} view \"{view}\""));
        error.with_detail(reason.to_owned()).with_hint(hint)
    }

    /// Returns the error of a column of a view that the statement cannot write.
    pub(crate) fn column_refusal(self, column: &str, view: &str) -> SqlError {
        let verb = if self == Self::Insert { "insert into" } else { "update" };
        let message = format!("cannot {verb} column \"{column}\" of view \"{view}\"");
        let detail = "View columns that are not columns of their base relation are not updatable.";
        SqlError::new("0A000", message).with_detail(detail.to_owned())
    }
}

/// A column of a view.
#[derive(Debug)]
pub(crate) enum ShownValue {
    /// The column at a position of the relation below.
    Column(usize),
    /// An expression over the relation below.
    Computed(ast::Expr),
}

/// A column of a view, with its name and type.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) value: ShownValue,
}

/// A view whose rows are rows of one relation.
pub(crate) struct SimpleView {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// The full name of the relation that it reads.
    pub(crate) base: String,
    /// The name of the relation in the view.
    pub(crate) alias: String,
    /// The names of the relation's first columns in the view.
    pub(crate) names: Vec<String>,
    pub(crate) columns: Vec<Shown>,
    pub(crate) condition: Option<ast::Expr>,
    pub(crate) check: Option<CheckOption>,
    /// Whether it reads and writes with the rights of the role that names it, not with those of its owner.
    pub(crate) reads_as_invoker: bool,
}

impl fmt::Debug for SimpleView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleView").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SimpleView {
    /// Returns the reason why the view cannot be written; `None` if some of its columns can.
    pub(crate) fn refusal(&self, kind: WriteKind) -> Option<&'static str> {
        let is_column = |shown: &Shown| matches!(shown.value, ShownValue::Column(_));
        (kind != WriteKind::Delete && !self.columns.iter().any(is_column)).then_some(NO_COLUMNS)
    }

    /// Returns the column of the relation below that a column is.
    pub(crate) fn below(&self, column: usize) -> Option<usize> {
        match self.columns[column].value {
            ShownValue::Column(index) => Some(index),
            ShownValue::Computed(_) => None,
        }
    }

    /// Returns the first column that is a column of the relation below.
    pub(crate) fn above(&self, column: usize) -> Option<usize> {
        (0..self.columns.len()).find(|index| self.below(*index) == Some(column))
    }
}
