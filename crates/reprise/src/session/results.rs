//! What calls and statements come to.

use crate::Error;
use crate::database::Inner;
use catalog::{Arena, Datum, Type, Value, value_from_datum};
use logging::Commit;
use procedure::{RowSink, SqlError};
use std::ops::Index;
use std::sync::{Arc, Mutex, PoisonError};

/// What a call returned: one value an output.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    pub(super) names: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Row {
    /// The names of its columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its values.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// A value by name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.names.iter().position(|own| own == name).map(|place| &self.values[place])
    }
}

impl Index<usize> for Row {
    type Output = Value;

    fn index(&self, place: usize) -> &Value {
        &self.values[place]
    }
}

/// A transaction that is executed and whose durability is still to come.
#[must_use = "a commit counts only once it is durable: wait for it, or keep the ticket until you look"]
#[derive(Clone)]
pub struct Ticket {
    pub(super) inner: Arc<Inner>,
    pub(super) commit: Commit,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("commit", &self.commit).finish_non_exhaustive()
    }
}

impl Ticket {
    /// What must be durable.
    pub fn commit(&self) -> Commit {
        self.commit
    }

    /// Whether it is.
    pub fn is_durable(&self) -> bool {
        self.inner.logs.is_durable(self.commit)
    }

    /// Returns once it is.
    ///
    /// # Errors
    /// The log has failed before that.
    pub fn wait(&self) -> Result<(), Error> {
        Ok(self.inner.logs.wait(self.commit)?)
    }
}

/// What a statement came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Answer {
    /// The columns of its rows: name and type; none of a statement that returns no rows.
    pub columns: Vec<(String, Type)>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
    /// How many rows it returned or wrote.
    pub affected: u64,
}

/// Keeps the rows of a statement.
#[derive(Clone)]
pub(super) struct Collector {
    pub(super) types: Vec<Type>,
    pub(super) rows: Arc<Mutex<Vec<Vec<Value>>>>,
}

impl RowSink for Collector {
    fn begin(&mut self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let row = values.iter().zip(&self.types).map(|(value, ty)| value_from_datum(*value, *ty, arena));
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row.collect());
        Ok(())
    }
}
