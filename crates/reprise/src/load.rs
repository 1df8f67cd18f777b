//! Bulk loading: loaded rows are not logged, so they are durable only with the next checkpoint.
//!
//! Invariant: no transaction runs between the first loaded row and a checkpoint that holds all of them. A
//! transaction that read such rows would be acknowledged, but replayed on empty tables after a crash. Held
//! by: `transactions_wait_for_loaded_rows_to_be_saved`.

use crate::Error;
use crate::definitions::{Patience, Version, hold};
use crate::inner::Inner;
use catalog::{Arena, CommitOrder, Datum, Value, datum_from_value, now_us};
use procedure::{Interrupts, SqlError, Violated};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{Linker, Worker};

/// Loads rows. Several loaders may work at once, each in its thread. From the first loader until a checkpoint
/// holds all loaded rows, transactions are refused (SQLSTATE 55000).
pub struct Loader {
    inner: Arc<Inner>,
    version: Arc<Version>,
    worker: Worker,
    order: CommitOrder,
    arena: Arena,
    row: Vec<Datum>,
    image: Vec<u64>,
    linker: Linker,
    loaded: u32,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `Inner::checkpoint`, so that a checkpoint that counts
        // this loader as ended sees its rows.
        self.inner.loaders.fetch_sub(1, Ordering::Release);
    }
}

impl Loader {
    pub(crate) fn new(inner: Arc<Inner>) -> Result<Self, Error> {
        // A checkpoint in progress could miss rows that are loaded from now on, so this waits for it.
        let mut alone = hold(&inner.maintenance);
        let current = inner.definitions.current();
        current.tables.recover_all()?;
        let (epochs, memory) = (current.tables.epochs.clone(), current.tables.memory.clone());
        let order = CommitOrder::first_of(epochs.current());
        let worker = Worker::new(epochs, memory).ok_or(Error::TooManySessions(inner.config.workers))?;
        let patience = Patience::new(Interrupts::default(), None);
        while !inner.definitions.begin_load(worker.slot(), &current.tables.epochs)? {
            // An open transaction may need maintenance for its commit.
            drop(alone);
            patience.pause()?;
            alone = hold(&inner.maintenance);
        }
        let version = inner.definitions.current();
        inner.loaders.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            inner: Arc::clone(&inner),
            version,
            worker,
            order,
            arena: Arena::default(),
            row: Vec::new(),
            image: Vec::new(),
            linker: Linker::default(),
            loaded: 0,
        })
    }

    /// Adds a row, with one value per column. Checks no constraints except NOT NULL and the primary key.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// let mut loader = db.loader()?;
    /// loader.insert("t", params![1])?;
    /// let error = loader.insert("t", params![1]).unwrap_err();
    /// assert_eq!(error.sqlstate(), "23505");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// 42P01: there is no such table. 42601: the number of values is wrong.
    /// 0A000: a column is generated, or has a domain. The table is partitioned.
    /// 23502: NULL in a NOT NULL column.
    /// 23505: the primary key exists. 53200: out of memory. A value of another type has the error of the
    /// type.
    pub fn insert(&mut self, table: &str, values: &[Value]) -> Result<(), Error> {
        let missing = |error: catalog::CatalogError| SqlError::new("42P01", error.to_string());
        let table = self.version.schema.catalog().table(table).map_err(missing)?;
        let columns = table.visible();
        if values.len() != columns.len() {
            let message = format!("\"{}\" has {} columns, not {}", table.name, columns.len(), values.len());
            return Err(SqlError::new("42601", message).into());
        }
        self.arena.clear();
        self.row.clear();
        for (column, value) in columns.iter().zip(values) {
            let datum = datum_from_value(value, column.ty, &mut self.arena).map_err(SqlError::from)?;
            self.row.push(datum);
        }
        let is_violated = |column: &usize| self.row[*column].is_null() && !columns[*column].nullable;
        if let Some(column) = (0..columns.len()).find(is_violated) {
            return Err(Violated::NotNull(column).error(table, &self.row, &self.arena).into());
        }
        if let Some(column) = columns.iter().find(|column| column.generated) {
            let message = format!("a loader cannot compute the generated column \"{}\"", column.name);
            return Err(SqlError::new("0A000", message).with_hint("Use INSERT or COPY.").into());
        }
        if let Some(column) = columns.iter().find(|column| column.domain.is_some()) {
            let message = format!("a loader cannot check the domain of the column \"{}\"", column.name);
            return Err(SqlError::new("0A000", message).with_hint("Use INSERT or COPY.").into());
        }
        if self.version.schema.is_partitioned(&table.name) {
            let message = format!("a loader cannot find the partitions of \"{}\"", table.name);
            return Err(SqlError::new("0A000", message).with_hint("Use INSERT or COPY.").into());
        }
        if table.hidden_key {
            // The form of a statement's hidden keys: the time, then a number that is unique at that time.
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&now_us().to_be_bytes());
            identity[8] = self.worker.slot().0 as u8;
            self.loaded += 1;
            identity[12..].copy_from_slice(&self.loaded.to_be_bytes());
            self.row.push(self.arena.push_bytes(&identity));
        }
        table.layout.encode(&self.row, &self.arena, &mut self.image);
        let store = self.version.tables.store(table.id);
        let indexes = table.indexes.len();
        let guard = self.worker.enter();
        let loaded = store.load(&self.image, self.order, indexes, &mut self.linker, &guard);
        drop(guard);
        match loaded {
            Ok(true) => Ok(()),
            Ok(false) => Err(Violated::Unique(0).error(table, &self.row, &self.arena).into()),
            Err(error) => Err(SqlError::new("53200", error.to_string()).into()),
        }
    }
}
