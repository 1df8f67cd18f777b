//! The write set of the running transaction as values, for logs by value.

use super::Workspace;
use super::write_set::Action;
use crate::Tables;
use catalog::{Arena, Datum, RowChange, Table, TableId};
use storage::{Record, RecordState};

/// A row that is about to be written.
#[derive(Debug)]
pub struct Described<'a> {
    /// What happens to it.
    pub change: RowChange,
    /// Its table.
    pub table: &'a Table,
    /// A datum for every column as it was; of what is inserted, and where images before were not asked for,
    /// nothing.
    pub before: &'a [Datum],
    /// A datum for every column as it will be, NULL where it is not known; of what is deleted the key.
    pub after: &'a [Datum],
    /// The places of the columns that change.
    pub changed: &'a [usize],
    /// Where the values of both are.
    pub arena: &'a Arena,
}

/// Buffers of a description, kept from one to the next.
#[derive(Default, Debug)]
pub struct Description {
    before: Vec<Datum>,
    after: Vec<Datum>,
    changed: Vec<usize>,
    arena: Arena,
}

impl Workspace {
    /// Whether the running transaction is about to write anything.
    #[inline]
    pub fn writes_anything(&self) -> bool {
        !self.writes.entries.is_empty()
    }

    /// Tells what the running transaction is about to write, in the order in which it first touched each row:
    /// of an insert all columns, of an update the key and the changed columns, of a delete the key.
    pub fn describe_writes(&self, description: &mut Description, visit: impl FnMut(Described<'_>)) {
        self.describe(description, false, visit);
    }

    /// As `describe_writes`, with whole rows and what they were before. All rows are locked by this
    /// transaction.
    pub(crate) fn describe_locked(&self, description: &mut Description, visit: impl FnMut(Described<'_>)) {
        self.describe(description, true, visit);
    }

    fn describe(&self, description: &mut Description, locked: bool, mut visit: impl FnMut(Described<'_>)) {
        for (place, entry) in self.writes.entries.iter().enumerate() {
            let table = &**self.tables.store(entry.table).definition();
            let Some(change) = entry.action.row_change() else { continue };
            let record = self.record(entry.record);
            let own = &mut *description;
            own.clear(table);
            match entry.action {
                // No other transaction writes the record, so its row does not change.
                Action::Insert => {
                    own.read_columns(record, table, 0..table.columns.len());
                    own.collect_changes(self, place, table);
                }
                Action::Revive => own.collect_changes(self, place, table),
                _ if locked => {
                    own.read_columns(record, table, 0..table.columns.len());
                    own.before.extend_from_slice(&own.after);
                    own.collect_changes(self, place, table);
                }
                Action::Update => {
                    own.read_key(record, table);
                    own.collect_changes(self, place, table);
                }
                _ => own.read_key(record, table),
            }
            let Description { before, after, changed, arena } = own;
            visit(Described { change, table, before, after, changed, arena });
        }
    }

    /// Tells what the running transaction is about to write, as `describe_writes`, with all columns of rows
    /// that are not deleted. What is told of a record holds as long as the record has the state that is told
    /// beside it.
    pub fn describe_rows(
        &self,
        description: &mut Description,
        visit: impl FnMut(Described<'_>, Record<'_>, RecordState),
    ) {
        self.describe_rows_of(None, description, visit);
    }

    /// As `describe_rows`, of one table alone, or of all. Writes to tables that are set aside are left out:
    /// they were told before (`set_apart`).
    pub fn describe_rows_of(
        &self,
        table: Option<TableId>,
        description: &mut Description,
        mut visit: impl FnMut(Described<'_>, Record<'_>, RecordState),
    ) {
        let is_meant = |own: TableId| table.map_or(!Tables::is_set_aside(own), |table| table == own);
        let entries = self.writes.entries.iter().enumerate();
        for (place, entry) in entries.filter(|(_, entry)| is_meant(entry.table)) {
            let table = &**self.tables.store(entry.table).definition();
            let Some(change) = entry.action.row_change() else { continue };
            let record = self.record(entry.record);
            let state = loop {
                let state = record.stable_state();
                description.clear(table);
                match change {
                    RowChange::Delete => {
                        description.read_columns(record, table, table.primary().columns.iter().copied())
                    }
                    _ if entry.action == Action::Revive => {}
                    _ => description.read_columns(record, table, 0..table.columns.len()),
                }
                if record.is_state(state) {
                    break state;
                }
            };
            if change != RowChange::Delete {
                description.collect_changes(self, place, table);
            }
            let Description { before, after, changed, arena } = &*description;
            visit(Described { change, table, before, after, changed, arena }, record, state);
        }
    }

    /// Returns the size of the rows that the transaction is about to write, unless
    /// they grow before it locks them.
    pub fn row_words(&self) -> RowWordCount {
        let words = |place: usize| {
            let entry = &self.writes.entries[place];
            let layout = &self.tables.store(entry.table).definition().layout;
            let changed = self.writes.changes(place).map(|change| self.writes.arena.words_of(change.datum));
            self.record(entry.record).row().capacity().max(layout.fixed_words()) + changed.sum::<usize>()
        };
        let count = self.writes.entries.len();
        RowWordCount { rows: count, words: (0..count).map(words).sum() }
    }
}

/// The size of the rows that a transaction writes.
#[derive(Clone, Copy, Debug)]
pub struct RowWordCount {
    /// Number of rows.
    pub rows: usize,
    /// The most words that they take together.
    pub words: usize,
}

impl Description {
    /// Begins the description of a row: no column of it is known.
    fn clear(&mut self, table: &Table) {
        self.arena.clear();
        self.changed.clear();
        self.before.clear();
        self.after.clear();
        self.after.resize(table.columns.len(), Datum::Null);
    }

    fn read_columns(&mut self, record: Record<'_>, table: &Table, columns: impl Iterator<Item = usize>) {
        let (row, slots) = (record.row(), table.layout.slots());
        columns.for_each(|column| self.after[column] = row.column(slots[column], &mut self.arena));
    }

    /// The primary key, which never changes; but text lies where other columns' growth may move it, so what
    /// is read while another transaction writes is read again.
    fn read_key(&mut self, record: Record<'_>, table: &Table) {
        loop {
            let state = record.stable_state();
            self.read_columns(record, table, table.primary().columns.iter().copied());
            if record.is_state(state) {
                return;
            }
        }
    }

    /// The last value of every column that the entry changes.
    fn collect_changes(&mut self, workspace: &Workspace, entry: usize, table: &Table) {
        for change in workspace.writes.changes(entry) {
            let slots = table.layout.slots();
            let column = slots.iter().position(|slot| *slot == change.slot).expect("a change is of a column");
            if !self.changed.contains(&column) {
                self.changed.push(column);
            }
        }
        for column in &self.changed {
            let latest = workspace.writes.latest(entry, table.layout.slots()[*column], &mut self.arena);
            self.after[*column] = latest.expect("the column changes");
        }
    }
}
