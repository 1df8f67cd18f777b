//! Sums that go back into their columns: an update that only adds to a column does not mind that another
//! transaction has added to it, too. Its commit adds to the value that it then finds.
//!
//! A record of the call is made before rows are locked, and its checksum covers the sums, so a commit that
//! moves sums corrects the checksum. Records of rows that are made so early can't be corrected: then a moved
//! sum is a conflict (`commit`).
//! Invariant: nothing that the transaction has done follows from a sum that moves. A read of the row before
//! the update has its values for itself; a read after it keeps the sums as they are. Held by:
//! `sums_are_those_of_a_serial_run`.
//! Source: escrow transactional method (O'Neil, TODS 1986).

use super::Workspace;
use super::write_set::Action;
use catalog::{Arena, Datum, RowHash, Table, Written, exact_bounds};
use procedure::Conflict;
use storage::Handle;

/// What a commit has moved: the rows as the execution has counted them, and as they are written.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MovedSums {
    pub(crate) executed: Written,
    pub(crate) written: Written,
}

impl Workspace {
    /// Notes that the update that follows adds to columns of a row that was read just before.
    pub(crate) fn note_added(&mut self, table: &Table, row: Handle, columns: &[usize]) {
        self.added.clear();
        if self.writes.find(row).is_some() {
            return;
        }
        for column in columns {
            let value = self.reads.add_to(row, table.layout.slots()[*column]);
            self.added.extend(value.map(|value| (*column, value)));
        }
    }

    /// Adds what the transaction has added to the values that rows have now. The rows are locked, and all
    /// reads hold but for values that were only added to.
    ///
    /// # Errors
    /// `Conflict::Write`: a column can't hold the sum.
    pub(crate) fn move_sums(&mut self) -> Result<(), Conflict> {
        for place in 0..self.writes.entries.len() {
            let entry = self.writes.entries[place];
            if entry.action != Action::Update || !entry.has_changes() {
                continue;
            }
            let table = self.tables.store(entry.table).definition();
            let (guard, mut arena) = (self.worker.guard(), Arena::default());
            let row = guard.record(entry.record).row();
            let before: Vec<_> = self.writes.changes(place).collect();
            let has_moved = self.writes.move_sums(place, |slot, added_to, sum| {
                let Datum::Int(now) = row.column(slot, &mut arena) else { return None };
                let sum = now.checked_add(sum.checked_sub(added_to)?)?;
                let column = table.layout.slots().iter().position(|own| *own == slot)?;
                let (least, most) = exact_bounds(table.columns[column].ty)?;
                (least..=most).contains(&sum).then_some(sum)
            });
            if !has_moved.ok_or(Conflict::Write)? {
                continue;
            }
            let mut key = Vec::new();
            self.tables.store(entry.table).key_of_row(0, row, &mut Arena::default(), &mut key);
            let hash = |changes: &mut dyn Iterator<Item = storage::Change>| {
                let mut hash = RowHash::of(table.id);
                hash.add_bytes(&key);
                for change in changes {
                    let column = table.layout.slots().iter().position(|own| *own == change.slot);
                    hash.add(column.unwrap_or_default() as u64);
                    hash.add_datum(change.datum, &self.writes.arena);
                }
                hash.written()
            };
            self.moved_sums.executed += hash(&mut before.into_iter());
            self.moved_sums.written += hash(&mut self.writes.changes(place));
        }
        Ok(())
    }
}
