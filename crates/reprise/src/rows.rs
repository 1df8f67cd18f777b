//! Rows of an answer, with their columns.

use catalog::{Arena, Datum, Type, Value, value_from_datum};
use procedure::{RowSink, SqlError};
use sql::ColumnOrigin;
use std::ops::Index;
use std::sync::{Arc, Mutex, PoisonError};

/// A column of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The name in the answer: an alias, or the name of a table's column.
    pub name: String,
    /// The type of its values.
    pub ty: Type,
    /// The type that clients receive: that of a computed value has no limit of length or precision.
    pub declared: Type,
    /// The column of a table or view that it is; `None` for any other value.
    pub origin: Option<ColumnOrigin>,
}

/// A row of an answer.
///
/// ```
/// # fn main() -> Result<(), reprise::Error> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let db = reprise::Database::open(folder.path(), reprise::Config::default())?;
/// # let mut session = db.session()?;
/// let done = session.execute("SELECT 1 AS one, 'x' AS letter", reprise::params![])?;
/// let row = &done.rows[0];
/// assert_eq!(row[0], reprise::Value::Int(1));
/// assert_eq!(row.get("letter").map(ToString::to_string).as_deref(), Some("x"));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    columns: Arc<[Column]>,
    values: Vec<Value>,
}

impl Row {
    /// Returns a row with a value for each column.
    pub(crate) fn new(columns: Arc<[Column]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the values, one per column.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Returns the value of the first column with a name; `None` if there is no such column.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let index = self.columns.iter().position(|column| column.name == name);
        index.and_then(|index| self.values.get(index))
    }

    /// Returns the values, without the columns.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }
}

impl Index<usize> for Row {
    type Output = Value;

    fn index(&self, column: usize) -> &Value {
        &self.values[column]
    }
}

/// Collects the rows of a statement.
pub(crate) struct Collector {
    columns: Arc<[Column]>,
    rows: Arc<Mutex<Vec<Row>>>,
}

impl Collector {
    /// Returns a sink, and the list to which it adds rows.
    pub(crate) fn collect(columns: &Arc<[Column]>) -> (Box<dyn RowSink>, Arc<Mutex<Vec<Row>>>) {
        let rows = Arc::new(Mutex::new(Vec::new()));
        (Box::new(Self { columns: Arc::clone(columns), rows: Arc::clone(&rows) }), rows)
    }
}

impl RowSink for Collector {
    fn begin(&mut self) {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let typed = values.iter().zip(&*self.columns);
        let values = typed.map(|(value, column)| value_from_datum(*value, column.ty, arena)).collect();
        let row = Row::new(Arc::clone(&self.columns), values);
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok(())
    }
}
