//! Point caches against a map, and workers that share one.

use super::*;
use crate::{Added, Epochs, Fingers, Memory, NewState, RecordState, ShortKey, TableStore, Worker};
use catalog::{
    Arena, Catalog, Column, CommitOrder, Datum, Epoch, NewIndex, NewTable, RowLayout, ScalarType, Table,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows and operations. Miri is about a thousand times slower.
const ROWS: i64 = if cfg!(miri) { 40 } else { 3_000 };
const ROUNDS: usize = if cfg!(miri) { 3_000 } else { 60_000 };

fn workers(count: usize) -> Vec<Worker> {
    let (epochs, memory) = (Arc::new(Epochs::new(Epoch(1), count)), Arc::new(Memory::new(4 << 30)));
    let make = |_| Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    (0..count).map(make).collect()
}

/// Returns a table with a primary key of these types, between other columns.
fn table(key: &[ScalarType]) -> Arc<Table> {
    let column = |ty: &ScalarType, name: String| Column { name, ty: (*ty).into(), ..Column::default() };
    let mut columns = vec![column(&ScalarType::SmallInt, "first".into())];
    columns.extend(key.iter().enumerate().map(|(at, ty)| column(ty, format!("key{at}"))));
    columns.push(column(&ScalarType::Text, "last".into()));
    let primary = NewIndex {
        name: "t_pkey".into(),
        columns: (1..=key.len()).rev().collect(),
        unique: true,
        is_constraint: true,
        ..NewIndex::default()
    };
    let new = NewTable { name: "t".into(), columns, indexes: vec![primary], ..NewTable::default() };
    Catalog::default().create_table(new).unwrap()
}

/// Returns the row of a number, whose key columns differ in their high and low bits and in their sign.
fn row(table: &Table, n: i64, arena: &mut Arena) -> Vec<Datum> {
    let last = table.columns.len() - 1;
    let value = |at: usize| match table.columns[at].ty.element() {
        _ if at == 0 => Datum::Int(n % 7),
        // The last column of the key, which comes first, tells rows apart.
        ScalarType::SmallInt => Datum::Int(if at + 1 == last { n - ROWS / 2 } else { n % 3 - 1 }),
        ScalarType::Boolean => Datum::Int(n & 1),
        ScalarType::Integer => Datum::Int(if n % 2 == 0 { i64::from(i32::MIN) + n } else { n * 700_000 }),
        _ => Datum::Int(if n % 2 == 0 { i64::MIN + n } else { (n << 40) - n }),
    };
    let mut row: Vec<Datum> = (0..last).map(value).collect();
    row.push(arena.push_bytes(&vec![b'x'; n as usize % 30]));
    row
}

struct World {
    store: TableStore,
    table: Arc<Table>,
}

impl World {
    fn new(key: &[ScalarType], worker: &mut Worker) -> Self {
        let table = table(key);
        let memory = Arc::clone(worker.enter().memory());
        let store = TableStore::new(Arc::clone(&table), None, memory, &worker.enter()).unwrap();
        Self { store, table }
    }

    fn points(&self) -> &Points {
        self.store.index_at(0).points.as_ref().unwrap()
    }

    fn key(&self, n: i64) -> Vec<u8> {
        let (mut arena, mut key) = (Arena::default(), Vec::new());
        let row = row(&self.table, n, &mut arena);
        self.store.key_of(0, &row, &arena, &mut key);
        key
    }

    fn add<'g>(&self, n: i64, guard: &'g Guard) -> Option<Record<'g>> {
        let (mut arena, mut image) = (Arena::default(), Vec::new());
        self.table.layout.encode(&row(&self.table, n, &mut arena), &arena, &mut image);
        let new = (&image[..], NewState::committed(RecordState::present(CommitOrder(1 << 40))));
        match self.store.add(&self.key(n), new, guard, &mut Fingers::default(), &mut |_| {}).unwrap() {
            Added::New(record) => Some(record),
            Added::Exists(_) => None,
        }
    }

    fn remove(&self, record: Record<'_>) {
        record.try_lock().unwrap();
        record.unlock_dead();
        self.store.unlink(record, &mut Arena::default(), &mut |_| false);
    }

    /// Looks a row up by a search in stages, or at once.
    fn find<'g>(&self, n: i64, in_stages: bool, guard: &'g Guard) -> Option<Record<'g>> {
        let (key, index) = (self.key(n), self.store.index_at(0));
        if in_stages {
            let short = ShortKey::new(&key).unwrap();
            let mut search = index.begin(&short, guard);
            while index.go_on(&mut search, &short, guard) {}
            if let Some(record) = index.end(&search, &short, guard) {
                return Some(record);
            }
        }
        self.store.find(&key, guard).ok()
    }
}

#[test]
fn a_point_cache_agrees_with_its_index() {
    use ScalarType::{BigInt, Boolean, Integer, SmallInt};
    let keys: [&[ScalarType]; 6] = [
        &[SmallInt],
        &[Integer, Integer, SmallInt],
        &[BigInt, Boolean, SmallInt],
        &[Boolean, BigInt, Integer, SmallInt],
        &[BigInt, BigInt, BigInt, SmallInt, SmallInt],
        &[Integer, SmallInt],
    ];
    for key in keys {
        let mut workers = workers(1);
        let world = World::new(key, &mut workers[0]);
        let (mut random, mut map) = (SmallRng::seed_from_u64(7), BTreeMap::new());
        for round in 0..ROUNDS {
            let guard = &*workers[0].enter();
            let n = random.random_range(0..ROWS);
            let found = world.find(n, round % 3 == 0, guard);
            assert_eq!(found.map(Record::address), map.get(&n).copied(), "{key:?}");
            if let Some(record) = found {
                let (row, slot) = (record.row(), world.table.layout.slots()[0]);
                let read =
                    RowLayout::decode(slot, row.capacity(), |word| row.load(word), &mut Arena::default());
                assert_eq!(read, Datum::Int(n % 7));
            }
            match found {
                Some(record) if random.random_ratio(1, 10) => {
                    world.remove(record);
                    map.remove(&n);
                }
                None if random.random_ratio(1, 2) => {
                    map.insert(n, world.add(n, guard).unwrap().address());
                }
                _ => {}
            }
        }
        let guard = &*workers[0].enter();
        let cells = world.points().cells(guard);
        let used = cells.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count();
        assert!(used > map.len() / 4 && used <= map.len(), "{used} of {} rows are cached", map.len());
    }
}

#[test]
fn only_integers_are_cached() {
    let text = [ScalarType::Text, ScalarType::SmallInt];
    assert!(Points::of(&table(&text)).is_none());
    assert!(Points::of(&table(&[ScalarType::BigInt; 5])).is_none(), "five words");
    assert!(Points::of(&table(&[ScalarType::BigInt; 4])).is_some());
}

/// Workers add, find and remove rows while the cache grows. When all rows are gone, so are the cells' holds.
#[test]
fn workers_share_a_point_cache() {
    const WORKERS: usize = 3;
    let mut workers = workers(WORKERS);
    let world = World::new(&[ScalarType::SmallInt], &mut workers[0]);
    std::thread::scope(|scope| {
        for (own, worker) in workers.iter_mut().enumerate() {
            let world = &world;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(own as u64);
                let is_own = |n: i64| n as usize % WORKERS == own;
                for round in 0..ROUNDS {
                    let guard = &*worker.enter();
                    // The range widens, so that the cache is replaced.
                    let n = random.random_range(0..1 + ROWS * round as i64 / ROUNDS as i64);
                    let found = world.find(n, round % 2 == 0, guard);
                    if let Some(record) = found {
                        let key = world.key(n);
                        assert!(world.points().key.is_key_of(&Probe::new(&key), record.row()));
                    }
                    match found {
                        Some(record) if is_own(n) && random.random_ratio(1, 4) => world.remove(record),
                        None if is_own(n) => drop(world.add(n, guard)),
                        _ => {}
                    }
                }
            });
        }
    });
    let guard = &*workers[0].enter();
    let cells = world.points().cells(guard);
    assert!(!cells.is_empty());
    for n in 0..ROWS {
        if let Some(record) = world.find(n, false, guard) {
            world.remove(record);
            assert!(record.held().is_none(), "nothing holds it");
        }
    }
    assert!(cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
}

/// A cache leaves with its table, and so do the rows that it holds: their memory is used again.
#[test]
fn a_dropped_table_leaves_no_cache() {
    let rounds = if cfg!(miri) { 2 } else { 160 };
    let mut workers = workers(1);
    let memory = Arc::clone(workers[0].enter().memory());
    let mut used = Vec::new();
    for _ in 0..rounds {
        let world = World::new(&[ScalarType::SmallInt], &mut workers[0]);
        let guard = workers[0].enter();
        assert!((0..ROWS).all(|n| world.add(n, &guard).is_some()));
        for lookup in 0..6_000 {
            assert!(world.find(lookup % ROWS, lookup % 2 == 0, &guard).is_some());
        }
        assert!(!world.points().cells(&guard).is_empty());
        world.store.abandon();
        drop((guard, world));
        workers[0].reclaim_all();
        used.push(memory.used_bytes());
    }
    assert!(used.iter().all(|bytes| *bytes == used[0]), "{used:?}");
}
