//! The write set of the running transaction as values, for logs by value.

use super::Occ;
use crate::changes::{Action, Entry};
use catalog::{Arena, Datum, RowChange, Table};

/// Buffers of a description, kept from one to the next.
#[derive(Default, Debug)]
pub struct Description {
    row: Vec<Datum>,
    changed: Vec<usize>,
    arena: Arena,
}

impl Occ {
    /// Tells what the running transaction is about to write, in the order in which it first touched each row: of an insert
    /// all columns, of an update the key and the changed columns, of a delete the key. `visit` gets the row with a datum for
    /// every column, and the places of the changed ones.
    pub fn describe_writes(
        &self,
        description: &mut Description,
        mut visit: impl FnMut(RowChange, &Table, (&[Datum], &Arena), &[usize]),
    ) {
        for (place, entry) in self.writes.entries.iter().enumerate() {
            let table = &**self.tables.store(entry.table).definition();
            let change = match entry.action {
                Action::Cancel | Action::Unrevive => continue,
                Action::Insert | Action::Revive => RowChange::Insert,
                Action::Update => RowChange::Update,
                Action::Delete => RowChange::Delete,
            };
            description.arena.clear();
            description.row.clear();
            description.row.resize(table.columns.len(), Datum::Null);
            description.changed.clear();
            match entry.action {
                // Nobody else sees the record, so its row stands still.
                Action::Insert => description.read_columns(entry, table, 0..table.columns.len()),
                Action::Revive => description.collect_changes(self, place, table),
                Action::Update => {
                    description.read_key(entry, table);
                    description.collect_changes(self, place, table);
                }
                _ => description.read_key(entry, table),
            }
            visit(change, table, (&description.row, &description.arena), &description.changed);
        }
    }
}

impl Description {
    fn read_columns(&mut self, entry: &Entry, table: &Table, columns: impl Iterator<Item = usize>) {
        let (row, slots) = (entry.record.row(), table.layout.slots());
        columns.for_each(|column| self.row[column] = row.column(slots[column], &mut self.arena));
    }

    /// The primary key, which never changes; but text lies where other columns' growth may move it, so what is read while
    /// somebody writes is read again.
    fn read_key(&mut self, entry: &Entry, table: &Table) {
        loop {
            let state = entry.record.stable_state();
            self.read_columns(entry, table, table.primary().columns.iter().copied());
            if entry.record.is_state(state) {
                return;
            }
        }
    }

    /// The last value of every column that the entry changes.
    fn collect_changes(&mut self, occ: &Occ, entry: usize, table: &Table) {
        for change in occ.writes.changes(entry) {
            let slots = table.layout.slots();
            let column = slots.iter().position(|slot| *slot == change.slot).expect("a change is of a column");
            if !self.changed.contains(&column) {
                self.changed.push(column);
            }
        }
        for column in &self.changed {
            let latest = occ.writes.latest(entry, table.layout.slots()[*column], &mut self.arena);
            self.row[*column] = latest.expect("the column changes");
        }
    }
}
