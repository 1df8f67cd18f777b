//! Snapshots where numbers come from the logs: each test holds a transaction up between its validation and
//! its number, lets another one overwrite what it has read, and has a snapshot opened at that moment.

use crate::{Applying, CommitPipeline, Committed, LoggedBy, Tables, Workspace, testing};
use catalog::{Arena, CommitOrder, Datum, Epoch, Table};
use logging::content::Stamp;
use logging::{Drawn, Footprint, LogError, LogSet, Numbered, Numbering, Room, Sequencing};
use procedure::DataAccess;
use sql::Schema;
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use storage::{Epochs, Handle, Memory, Worker};

/// Numbers after validation, as `ssn` does, all from one log whose epochs do not end by themselves.
#[derive(Default)]
struct HeldUp {
    last: Mutex<CommitOrder>,
    /// Runs once, before the next transaction of a worker is numbered: after it was validated.
    before_number: Mutex<HashMap<usize, Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for HeldUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldUp").finish_non_exhaustive()
    }
}

impl Numbering for HeldUp {
    fn is_serial(&self) -> bool {
        false
    }

    fn before_validation(&self, _by: Numbered<'_>, footprint: &dyn Footprint) -> Drawn {
        Drawn::Above(footprint.settled_floor())
    }

    fn after_validation(
        &self,
        by: Numbered<'_>,
        footprint: &dyn Footprint,
        floor: CommitOrder,
        _bytes: &dyn Fn(usize) -> usize,
        _rooms: &mut Vec<Room>,
    ) -> (Stamp, Result<(), LogError>) {
        let run = self.before_number.lock().unwrap().remove(&by.worker.0);
        run.into_iter().for_each(|run| run());
        let mut last = self.last.lock().unwrap();
        *last = last.max(floor);
        footprint.for_each_version(&mut |number| *last = last.max(number));
        last.0 += 1;
        ((*last).into(), Ok(()))
    }

    fn of_definition(&self, by: Numbered<'_>) -> CommitOrder {
        by.epochs.draw()
    }

    fn newest(&self, _logs: &LogSet, _clock: CommitOrder) -> CommitOrder {
        *self.last.lock().unwrap()
    }
}

struct Client {
    workspace: Workspace,
    numbering: &'static HeldUp,
    pipeline: CommitPipeline,
    table: Arc<Table>,
}

impl Client {
    fn row(&mut self, id: i64) -> Handle {
        let mut key = Vec::new();
        self.table.encode_key_column(0, Datum::Int(id), &Arena::default(), &mut key);
        let row = self.workspace.find(&self.table, &key).unwrap().unwrap();
        let column = &self.table.layout.slots()[1..];
        assert!(self.workspace.read(row, column, &mut Arena::default(), &mut [Datum::Null]).unwrap());
        row
    }

    /// Reads rows, sets one of them to 1 and commits; `before_number` runs in the middle of that.
    fn change(&mut self, reads: &[i64], writes: i64, before_number: Option<Box<dyn FnOnce() + Send>>) {
        self.workspace.begin();
        for id in reads {
            self.row(*id);
        }
        let (row, table) = (self.row(writes), Arc::clone(&self.table));
        self.workspace.update(&table, row, &[(1, Datum::Int(1))], &Arena::default()).unwrap();
        let slot = self.workspace.slot();
        before_number.map(|run| self.numbering.before_number.lock().unwrap().insert(slot.0, run));
        let outcome = self.pipeline.commit(&mut self.workspace, LoggedBy::Value).unwrap();
        assert!(matches!(outcome.committed, Committed::Wrote(_)));
    }
}

/// A table of rows 1 to 4, all 0, and clients.
fn clients<const N: usize>() -> (Tables, [Client; N]) {
    let epochs = Arc::new(Epochs::new(Epoch(1), N + 1));
    let memory = Arc::new(Memory::new(1 << 30));
    let worker = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let numbering: &'static HeldUp = Box::leak(Box::default());
    let logs = testing::logs(Sequencing::default(), None, &epochs);
    let mut tables = Tables::new(Arc::clone(&epochs), Arc::clone(&memory)).numbered_by(numbering);
    let (_, effect) = Schema::default().apply("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)").unwrap();
    let how = Applying { timestamp_us: 0, seed: 0, is_new: true };
    tables.apply(&effect, how, &worker().enter()).unwrap();
    let table = Arc::clone(tables.iter().next().unwrap().definition());
    *numbering.last.lock().unwrap() = epochs.next_order();
    let mut clients = [(); N].map(|()| {
        let workspace = Workspace::new(tables.clone(), worker());
        let pipeline = CommitPipeline::numbered_by(numbering, Arc::clone(&logs), &tables, workspace.slot());
        Client { workspace, numbering, pipeline, table: Arc::clone(&table) }
    });
    let Client { workspace, pipeline, .. } = &mut clients[0];
    workspace.begin();
    for id in 1..=4 {
        workspace.insert(&table, &[Datum::Int(id), Datum::Int(0)], &Arena::default()).unwrap();
    }
    pipeline.commit(workspace, LoggedBy::Value).unwrap();
    (tables, clients)
}

/// What a snapshot that is opened meanwhile holds of the rows. The first client reads row 1 and writes row 2;
/// between its validation and its number the second one overwrites row 1, the snapshot's bound is passed, and
/// `then` runs.
fn rows_of_a_snapshot(then: impl FnOnce(Client) + Send + 'static) -> [Datum; 4] {
    let (tables, [mut first, mut second, mut held, fourth]) = clients::<4>();
    let mut reader = Workspace::new(
        tables.clone(),
        Worker::new(Arc::clone(&tables.epochs), Arc::clone(&tables.memory)).unwrap(),
    );
    std::thread::scope(|scope| {
        let ((holds, is_held), (release, released)) = (channel(), channel::<()>());
        scope.spawn(move || {
            let wait = move || {
                holds.send(()).unwrap();
                released.recv().unwrap();
            };
            held.change(&[], 3, Some(Box::new(wait)));
        });
        is_held.recv().unwrap();
        // The thread that opens a snapshot announces its bound, and waits for the transaction that is held
        // up.
        let epoch = tables.epochs.current();
        let opener = {
            let tables = &tables;
            scope.spawn(move || tables.snapshots.open(&tables.epochs))
        };
        while tables.snapshots.newest().is_none() || tables.epochs.current() == epoch {
            std::hint::spin_loop();
        }
        let bound = tables.snapshots.newest().unwrap();
        let epochs = Arc::clone(&tables.epochs);
        let meanwhile = move || {
            second.change(&[], 1, None);
            assert!(epochs.next_order() < bound, "the bound is passed only now");
            release.send(()).unwrap();
            while epochs.next_order() < bound {
                std::hint::spin_loop();
            }
            then(fourth);
        };
        first.change(&[1], 2, Some(Box::new(meanwhile)));
        let snapshot = opener.join().unwrap();
        let slots = first.table.layout.slots();
        let mut found = [Datum::Null; 4];
        reader.begin();
        for (id, value) in (1..=4).zip(&mut found) {
            let mut key = Vec::new();
            first.table.encode_key_column(0, Datum::Int(id), &Arena::default(), &mut key);
            let mut rows = reader.reader(&snapshot);
            let row = rows.find(&first.table, &key).unwrap().unwrap();
            let value = std::slice::from_mut(value);
            assert!(rows.read(row, &slots[1..], &mut Arena::default(), value).unwrap());
        }
        reader.rollback();
        found
    })
}

fn holds_a_serial_state([overwritten, written, ..]: [Datum; 4]) {
    // The first client read row 1 as it was before the second one wrote it, so it comes first.
    let is_serial = overwritten != Datum::Int(1) || written == Datum::Int(1);
    assert!(is_serial, "the snapshot has the second transaction and not the first, which comes before it");
}

/// The number follows the moment of validation, not that of numbering.
#[test]
fn a_snapshot_has_all_that_was_validated_before_its_bound() {
    holds_a_serial_state(rows_of_a_snapshot(|_| {}));
}

/// A transaction above the bound does not take the numbers of one log past it while other logs are
/// still to be numbered below.
#[test]
fn numbers_stay_below_a_bound_until_all_are_numbered_that_the_snapshot_holds() {
    let rows = rows_of_a_snapshot(|mut fourth| {
        let (done, is_done) = channel();
        std::thread::spawn(move || {
            fourth.change(&[], 4, None);
            let _ = done.send(());
        });
        // It waits for the first one, which waits here: so this is all that can be waited for.
        let _ = is_done.recv_timeout(Duration::from_millis(100));
    });
    holds_a_serial_state(rows);
    assert_eq!(rows[3], Datum::Int(0), "the fourth began after the bound");
}
