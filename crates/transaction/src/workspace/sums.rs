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
                let column = table.layout.column_at(slot)?;
                let (least, most) = table.columns[column].ty.scalar().and_then(exact_bounds)?;
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
                    hash.add(table.layout.column_at(change.slot).unwrap_or_default() as u64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Adaptive, Applying, CommitError, CommitPipeline, LoggedBy, Recovered, RecoveryTargets, Tables,
        testing,
    };
    use catalog::Epoch;
    use logging::Sequencing;
    use procedure::DataAccess;
    use sql::Schema;
    use std::sync::Arc;
    use std::time::Duration;
    use storage::{Epochs, Memory, Worker};

    struct Client {
        workspace: Workspace,
        pipeline: CommitPipeline,
        table: Arc<Table>,
    }

    impl Client {
        fn find(&mut self) -> Handle {
            let mut key = Vec::new();
            self.table.encode_key_column(0, Datum::Int(1), &Arena::default(), &mut key);
            self.workspace.find(&self.table, &key).unwrap().unwrap()
        }

        /// Reads both columns of the row.
        fn read(&mut self) -> (Handle, [Datum; 2]) {
            let (row, mut values) = (self.find(), [Datum::Null; 2]);
            let slots = self.table.layout.slots()[1..].to_vec();
            assert!(self.workspace.read(row, &slots, &mut Arena::default(), &mut values).unwrap());
            (row, values)
        }

        /// Adds 1 to a column.
        fn add(&mut self, column: usize, says_so: bool) {
            let (row, values) = self.read();
            let Datum::Int(value) = values[column - 1] else { panic!("{values:?}") };
            if says_so {
                self.workspace.adds_to(&self.table, row, &[column]);
            }
            let changes = [(column, Datum::Int(value + 1))];
            self.workspace.update(&self.table, row, &changes, &Arena::default()).unwrap();
        }

        fn commit(&mut self) -> Result<(), Conflict> {
            match self.pipeline.commit(&mut self.workspace, LoggedBy::Value) {
                Ok(_) => Ok(()),
                Err(CommitError::Conflict(conflict)) => Err(conflict),
                Err(error) => panic!("{error:?}"),
            }
        }

        /// Sets both columns, in a transaction of its own.
        fn set(&mut self, values: [Datum; 2]) {
            self.workspace.begin();
            let row = self.find();
            let changes = [(1, values[0]), (2, values[1])];
            self.workspace.update(&self.table, row, &changes, &Arena::default()).unwrap();
            self.commit().unwrap();
        }

        fn values(&mut self) -> [Datum; 2] {
            self.workspace.begin();
            let (_, values) = self.read();
            self.commit().unwrap();
            values
        }
    }

    /// Two clients of a table with one row, without a log.
    fn clients() -> [Client; 2] {
        let epochs = Arc::new(Epochs::new(Epoch(1), 4));
        let memory = Arc::new(Memory::new(1 << 30));
        let worker = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
        let logs = testing::logs(Sequencing::Epoch, None, &epochs);
        let mut tables = Tables::new(Arc::clone(&epochs), Arc::clone(&memory)).numbered_by(logs.numbering());
        let text = "CREATE TABLE t (id INT PRIMARY KEY, n SMALLINT, m NUMERIC(4,1))";
        let (_, effect) = Schema::default().apply(text).unwrap();
        tables
            .apply(&effect, Applying { timestamp_us: 0, seed: 0, is_new: true }, &worker().enter())
            .unwrap();
        let table = Arc::clone(tables.iter().next().unwrap().definition());
        let targets = RecoveryTargets { recovered: Duration::from_secs(1), first_commit: None };
        let adaptive = Arc::new(Adaptive::new(targets, Recovered::default()));
        let client = |_| {
            let worker = worker();
            logs.add_worker(worker.slot()).unwrap();
            let pipeline = CommitPipeline::new(Arc::clone(&logs), &adaptive, &tables, worker.slot());
            Client { workspace: Workspace::new(tables.clone(), worker), pipeline, table: Arc::clone(&table) }
        };
        let mut clients = [0, 1].map(client);
        let own = &mut clients[0];
        own.workspace.begin();
        own.workspace
            .insert(&table, &[Datum::Int(1), Datum::Int(5), Datum::Int(7)], &Arena::default())
            .unwrap();
        own.commit().unwrap();
        clients
    }

    /// One client adds to a column while the other one sets both.
    fn added(column: usize, says_so: bool, set: [Datum; 2]) -> (Result<(), Conflict>, [Datum; 2]) {
        let [mut first, mut second] = clients();
        first.workspace.begin();
        first.add(column, says_so);
        second.set(set);
        let committed = first.commit();
        (committed, first.values())
    }

    #[test]
    fn a_sum_moves_with_its_column() {
        let [large, small] = [Datum::Int(1000), Datum::Int(7)];
        assert_eq!(added(1, true, [large, small]), (Ok(()), [Datum::Int(1001), small]));
        assert_eq!(added(1, false, [large, small]), (Err(Conflict::Read), [large, small]));
        // The other column was read, and nothing says that it is only added to.
        assert_eq!(added(1, true, [large, large]), (Err(Conflict::Read), [large, large]));
    }

    #[test]
    fn a_column_holds_what_its_type_holds() {
        let [five, seven] = [Datum::Int(5), Datum::Int(7)];
        for (column, most) in [(1, 32_767), (2, 9_999)] {
            let set = |value| if column == 1 { [value, seven] } else { [five, value] };
            let below = added(column, true, set(Datum::Int(most - 1)));
            assert_eq!(below, (Ok(()), set(Datum::Int(most))));
            let at = set(Datum::Int(most));
            assert_eq!(added(column, true, at), (Err(Conflict::Write), at));
            let null = set(Datum::Null);
            assert_eq!(added(column, true, null), (Err(Conflict::Write), null));
        }
    }

    #[test]
    fn a_sum_that_was_read_stays() {
        let set = [Datum::Int(1000), Datum::Int(7)];
        let [mut first, mut second] = clients();
        first.workspace.begin();
        first.add(1, true);
        assert_eq!(first.read().1[0], Datum::Int(6));
        second.set(set);
        assert_eq!(first.commit(), Err(Conflict::Read));
        // Adding to it again reads it.
        first.workspace.begin();
        first.add(1, true);
        first.add(1, true);
        second.set([Datum::Int(2000), Datum::Int(7)]);
        assert_eq!(first.commit(), Err(Conflict::Read));
        assert_eq!(first.values()[0], Datum::Int(2000));
    }
}
