//! Index entries of transactions that give up one after the other.

use crate::{Applying, Tables, Workspace};
use catalog::{Arena, CommitOrder, Datum, Epoch, Table};
use procedure::{DataAccess, ScanRange};
use sql::Schema;
use std::sync::Arc;
use storage::{Epochs, Handle, Memory, Worker};

/// A table of two columns, the second of which has an index, and clients.
fn clients<const N: usize>() -> (Arc<Table>, [Workspace; N]) {
    let epochs = Arc::new(Epochs::new(Epoch(1), N + 1));
    let memory = Arc::new(Memory::new(1 << 30));
    let worker = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let mut tables = Tables::new(Arc::clone(&epochs), Arc::clone(&memory));
    let mut schema = Schema::default();
    for statement in ["CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL)", "CREATE INDEX t_v ON t (v)"] {
        let (changed, effect) = schema.apply(statement).unwrap();
        let how = Applying { timestamp_us: 0, seed: 0, is_new: true };
        tables.apply(&effect, how, &worker().enter()).unwrap();
        schema = changed;
    }
    let table = Arc::clone(tables.iter().next().unwrap().definition());
    (table, [(); N].map(|()| Workspace::new(tables.clone(), worker())))
}

/// Finds row 1 and reads it.
fn row(workspace: &mut Workspace, table: &Table) -> Handle {
    let mut key = Vec::new();
    table.encode_key_column(0, Datum::Int(1), &Arena::default(), &mut key);
    let row = workspace.find(table, &key).unwrap().unwrap();
    let column = &table.layout.slots()[1..];
    assert!(workspace.read(row, column, &mut Arena::default(), &mut [Datum::Null]).unwrap());
    row
}

/// How many rows the index has under 5.
fn count(workspace: &mut Workspace, table: &Table) -> usize {
    let mut lower = Vec::new();
    table.encode_key_column(1, Datum::Int(5), &Arena::default(), &mut lower);
    let mut upper = lower.clone();
    catalog::successor(&mut upper);
    workspace.begin();
    workspace
        .open_scan(table, ScanRange { index: 1, lower: &lower, upper: Some(&upper), backward: false })
        .unwrap();
    let found = std::iter::from_fn(|| workspace.next_row().unwrap()).count();
    workspace.rollback();
    found
}

#[test]
fn the_entry_of_a_newer_row_is_not_taken_back() {
    let (table, [mut first, mut second, mut third]) = clients::<3>();
    let insert = |workspace: &mut Workspace, v, order| {
        workspace.begin();
        workspace.insert(&table, &[Datum::Int(1), Datum::Int(v)], &Arena::default()).unwrap();
        workspace.commit_at(CommitOrder(order)).unwrap();
    };
    let begin_update = |workspace: &mut Workspace| {
        workspace.begin();
        let row = row(workspace, &table);
        workspace.update(&table, row, &[(1, Datum::Int(5))], &Arena::default()).unwrap();
    };
    insert(&mut third, 0, 1);
    begin_update(&mut first);
    begin_update(&mut second);
    third.begin();
    let deleted = row(&mut third, &table);
    third.delete(&table, deleted).unwrap();
    third.commit_at(CommitOrder(2)).unwrap();
    third.collect_garbage_now(CommitOrder(2), || true);
    first.rollback();
    insert(&mut third, 5, 3);
    assert_eq!(count(&mut third, &table), 1);
    second.rollback();
    assert_eq!(count(&mut third, &table), 1);
}
