//! A transaction that observes another one, or overwrites what it observed, gets the greater number (`gsn`).

use crate::{
    Adaptive, CommitPipeline, Committed, LoggedBy, Recovered, RecoveryTargets, Tables, Workspace, testing,
};
use catalog::{Arena, CommitOrder, Datum, Epoch, Table};
use logging::{Content, RecordFormat, Sequencing};
use procedure::{DataAccess, ScanRange};
use sql::Schema;
use std::sync::Arc;
use std::time::Duration;
use storage::{Epochs, Handle, Memory, Worker};

struct Client {
    workspace: Workspace,
    pipeline: CommitPipeline,
}

impl Client {
    fn run(&mut self, transaction: impl FnOnce(&mut Workspace)) -> CommitOrder {
        self.workspace.begin();
        transaction(&mut self.workspace);
        match self.pipeline.commit(&mut self.workspace, LoggedBy::Value).unwrap().committed {
            Committed::Wrote(order) => order,
            Committed::Read(_) => panic!("it writes"),
        }
    }
}

/// A table of two columns, and two clients; the log of the first is far ahead.
fn two_clients() -> (Arc<Table>, [Client; 2]) {
    let epochs = Arc::new(Epochs::new(Epoch(1), 4));
    let memory = Arc::new(Memory::new(1 << 30));
    let worker = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let logs = testing::logs(Sequencing::Gsn, Some(RecordFormat::of(Content::Logical)), &epochs);
    let tables = Tables::new(Arc::clone(&epochs), Arc::clone(&memory));
    let mut tables = tables.numbered_by(logs.numbering());
    let mut schema = Schema::default();
    for statement in ["CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)", "CREATE INDEX t_v ON t (v)"] {
        let (changed, effect) = schema.apply(statement).unwrap();
        let how = crate::Applying { timestamp_us: 0, seed: 0, is_new: true };
        tables.apply(&effect, how, &worker().enter()).unwrap();
        schema = changed;
    }
    let table = tables.iter().next().unwrap().definition();
    let first = epochs.next_order();
    let targets = RecoveryTargets { recovered: Duration::from_secs(1), first_commit: None };
    let adaptive = Arc::new(Adaptive::new(targets, Recovered::default()));
    let client = |ahead| {
        let worker = worker();
        let slot = worker.slot();
        logs.add_worker(slot).unwrap();
        logs.at(0).buffer(slot).latch().raise(CommitOrder(first.0 + ahead));
        let pipeline = CommitPipeline::new(Arc::clone(&logs), &adaptive, &tables, slot);
        Client { workspace: Workspace::new(tables.clone(), worker), pipeline }
    };
    (Arc::clone(table), [client(1_000), client(0)])
}

fn key(table: &Table, id: i64) -> Vec<u8> {
    let mut key = Vec::new();
    table.encode_key_column(0, Datum::Int(id), &Arena::default(), &mut key);
    key
}

/// Finds and reads a row.
fn read(workspace: &mut Workspace, table: &Table, id: i64) -> Handle {
    let row = workspace.find(table, &key(table, id)).unwrap().unwrap();
    let column = &table.layout.slots()[1..];
    assert!(workspace.read(row, column, &mut Arena::default(), &mut [Datum::Null]).unwrap());
    row
}

fn update(table: &Table, id: i64) -> impl FnOnce(&mut Workspace) {
    move |workspace| {
        let row = read(workspace, table, id);
        workspace.update(table, row, &[(1, Datum::Int(1))], &Arena::default()).unwrap();
    }
}

fn insert(table: &Table, id: i64) -> impl FnOnce(&mut Workspace) {
    move |workspace| workspace.insert(table, &[Datum::Int(id), Datum::Int(0)], &Arena::default()).unwrap()
}

#[test]
fn who_inserts_a_row_comes_after_who_found_none() {
    let (table, [mut ahead, mut behind]) = two_clients();
    let looked = ahead.run(|workspace| {
        assert!(workspace.find(&table, &key(&table, 1)).unwrap().is_none());
        insert(&table, 2)(workspace);
    });
    assert!(behind.run(insert(&table, 1)) > looked);
}

#[test]
fn who_overwrites_a_row_comes_after_who_read_it() {
    let (table, [mut ahead, mut behind]) = two_clients();
    behind.run(insert(&table, 1));
    let looked = ahead.run(|workspace| {
        read(workspace, &table, 1);
        insert(&table, 2)(workspace);
    });
    assert!(behind.run(update(&table, 1)) > looked);
}

#[test]
fn who_finds_none_comes_after_who_moved_the_row_away() {
    let (table, [mut ahead, mut behind]) = two_clients();
    for id in [1, 2] {
        behind.run(insert(&table, id));
    }
    let moved = ahead.run(update(&table, 1));
    let looked = behind.run(|workspace| {
        let mut lower = Vec::new();
        table.encode_key_column(1, Datum::Int(0), &Arena::default(), &mut lower);
        let mut upper = lower.clone();
        catalog::successor(&mut upper);
        let range = ScanRange { index: 1, lower: &lower, upper: Some(&upper), backward: false };
        workspace.open_scan(&table, range).unwrap();
        let found = std::iter::from_fn(|| workspace.next_row().unwrap()).count();
        assert_eq!(found, 1, "row 2 is still there, the entry of row 1 is gone");
        update(&table, 2)(workspace);
    });
    assert!(looked > moved);
}
