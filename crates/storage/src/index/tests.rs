//! Trees against a map, leaf observations, and threads that share a tree.

use super::key::Probe;
use super::*;
use crate::{Epochs, Memory, RecordState, Slot, Worker};
use catalog::Epoch;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of changes and of keys. Miri is about a thousand times slower.
const ROUNDS: u64 = if cfg!(miri) { 1_600 } else { 40_000 };
const RANGE: u32 = if cfg!(miri) { 400 } else { 3_000 };

fn world(workers: usize) -> (Arc<Epochs>, Vec<Worker>) {
    let epochs = Arc::new(Epochs::new(Epoch(1), workers));
    let memory = Arc::new(Memory::new(4 << 30));
    let make = |_| Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let workers = (0..workers).map(make).collect();
    (epochs, workers)
}

/// Returns an empty index without a point cache.
fn index(key_length: Option<usize>, guard: &Guard) -> Index {
    Index::of(Trees::new(key_length, guard).unwrap(), None)
}

fn scan(
    index: &Trees,
    lower: &[u8],
    upper: Option<&[u8]>,
    direction: Direction,
    guard: &Guard,
) -> (Vec<u64>, Vec<LeafObservation>) {
    let mut cursor = Cursor::default();
    cursor.open(lower, upper, direction);
    let (mut values, mut observed) = (Vec::new(), Vec::new());
    while let Some(observation) = cursor.read_leaf_of(index, guard) {
        observed.push(observation);
        values.extend(std::iter::from_fn(|| cursor.next_value()));
    }
    (values, observed)
}

#[test]
fn trees_agree_with_a_map() {
    let fixed = [4, 12, 20, 30].map(Some);
    // The keys of a group have one first word, if they are longer: leaves are narrow, wide, or one after the
    // other.
    for (length, group) in fixed.into_iter().chain([None]).flat_map(|own| [RANGE, 80, 7].map(|n| (own, n))) {
        let (_, mut workers) = world(1);
        let guard = &*workers[0].enter();
        let index = Trees::new(length, guard).unwrap();
        let mut map = BTreeMap::new();
        let mut random = SmallRng::seed_from_u64(7);
        let make = |n: u32| match length {
            Some(length) => {
                let mut key = if length > 8 { (n / group).to_be_bytes().to_vec() } else { Vec::new() };
                key.resize(length - 4, 0x55);
                key.extend_from_slice(&(if length > 8 { n % group } else { n }).to_be_bytes());
                key
            }
            None => format!("{}{n}", "x".repeat(n as usize % 13)).into_bytes(),
        };
        let (mut fingers, mut n) = (Fingers::default(), 0);
        for round in 0..ROUNDS {
            // Some keys ascend in runs, the rest are random.
            n = if random.random_bool(0.5) { (n + 1) % RANGE } else { random.random_range(0..RANGE) };
            let key = make(n);
            // Phases of growth and of shrinking, so that leaves fill, split, empty and leave the tree.
            if random.random_bool(if (round / (ROUNDS / 5)).is_multiple_of(2) { 0.8 } else { 0.1 }) {
                let expected = map.get(&key).map_or(InsertOutcome::Inserted, |v| InsertOutcome::Exists(*v));
                assert_eq!(index.insert(&key, round, guard, &mut fingers, &mut |_| {}).unwrap(), expected);
                map.entry(key).or_insert(round);
            } else {
                assert_eq!(index.remove_own(&key, None, guard, &mut |_| false), map.remove(&key));
            }
            if round % (ROUNDS / 40) == 0 {
                let (a, b) = (make(random.random_range(0..RANGE)), make(random.random_range(0..RANGE)));
                let (low, high) = if a <= b { (a, b) } else { (b, a) };
                let expected: Vec<u64> = map.range(low.clone()..high.clone()).map(|(_, v)| *v).collect();
                assert_eq!(scan(&index, &low, Some(&high), Direction::Forward, guard).0, expected);
                let mut backward = scan(&index, &low, Some(&high), Direction::Backward, guard).0;
                backward.reverse();
                assert_eq!(backward, expected);
            }
        }
        for (key, value) in &map {
            assert_eq!(index.get(&Probe::new(key), guard).0, Some(*value));
        }
        assert_eq!(
            scan(&index, &[], None, Direction::Forward, guard).0,
            map.values().copied().collect::<Vec<_>>()
        );
    }
}

/// Leaves of keys with one first word are filled, emptied, and met by keys with another first word.
#[test]
fn leaves_become_narrow_and_wide() {
    const ROUNDS: u32 = if cfg!(miri) { 40 } else { 3_000 };
    for length in [16, 24, 32] {
        let (_, mut workers) = world(1);
        let guard = &*workers[0].enter();
        let index = Trees::new(Some(length), guard).unwrap();
        let (mut map, mut random) = (BTreeMap::new(), SmallRng::seed_from_u64(length as u64));
        let make = |prefix: u64, rest: u64| {
            let mut key = prefix.to_be_bytes().to_vec();
            key.resize(length - 8, 0x55);
            key.extend_from_slice(&rest.to_be_bytes());
            key
        };
        let mut fingers = Fingers::default();
        for round in 0..ROUNDS {
            let (prefix, from) = (random.random_range(0..3), random.random_range(0..200));
            let (count, adds) = (random.random_range(1..120), random.random_bool(0.5));
            let rests: Vec<u64> = match random.random_range(0..8) {
                0 => (0..320).collect(),
                1..4 => (from..from + count).collect(),
                _ => (0..count).map(|_| random.random_range(0..320)).collect(),
            };
            for key in rests.into_iter().map(|rest| make(prefix, rest)) {
                let value = u64::from(round);
                if adds {
                    let added = index.insert(&key, value, guard, &mut fingers, &mut |_| {}).unwrap();
                    let known = map.get(&key).map_or(InsertOutcome::Inserted, |v| InsertOutcome::Exists(*v));
                    assert_eq!(added, known, "round {round}");
                    map.entry(key).or_insert(value);
                } else {
                    // An empty leaf may have to stay.
                    let stays = round % 2 == 0;
                    assert_eq!(index.remove_own(&key, None, guard, &mut |_| stays), map.remove(&key));
                }
            }
            let own = make(random.random_range(0..3), random.random_range(0..320));
            assert_eq!(index.get(&Probe::new(&own), guard).0, map.get(&own).copied(), "round {round}");
            let all = scan(&index, &[], None, Direction::Forward, guard).0;
            assert!(all.iter().eq(map.values()), "round {round}");
        }
    }
}

#[test]
fn a_leaf_observation_sees_inserts() {
    let (_, mut workers) = world(1);
    let guard = &*workers[0].enter();
    let index = Trees::new(Some(4), guard).unwrap();
    for n in 0..1_000u32 {
        index.insert(&(n * 10).to_be_bytes(), n.into(), guard, &mut Fingers::default(), &mut |_| {}).unwrap();
    }
    let (_, mut observed) =
        scan(&index, &100u32.to_be_bytes(), Some(&2_000u32.to_be_bytes()), Direction::Forward, guard);
    let far = 9_001u32.to_be_bytes();
    index.insert(&far, 1, guard, &mut Fingers::default(), &mut |_| {}).unwrap();
    assert!(observed.iter().all(|own| own.is_valid(guard)), "an insert elsewhere disturbs no reader");
    let (absent, leaf) = index.get(&Probe::new(&555u32.to_be_bytes()), guard);
    assert_eq!(absent, None);
    let mut changes = Vec::new();
    let mut on_change = |change| changes.push(change);
    index.insert(&555u32.to_be_bytes(), 1, guard, &mut Fingers::default(), &mut on_change).unwrap();
    assert!(!leaf.is_valid(guard), "a read of absence sees the insert");
    assert!(!observed.iter().all(|own| own.is_valid(guard)), "a scan sees the insert");
    for change in &changes {
        let followed: Vec<_> = observed
            .iter_mut()
            .filter_map(|o| o.follow(change, false, guard).then(|| change.sibling()).flatten())
            .collect();
        observed.extend(followed);
    }
    assert!(observed.iter().all(|own| own.is_valid(guard)), "an own insert is followed");
    index.remove_own(&555u32.to_be_bytes(), None, guard, &mut |_| false);
    assert!(observed.iter().all(|own| own.is_valid(guard)), "a removal disturbs no reader");
    index.insert(&555u32.to_be_bytes(), 1, guard, &mut Fingers::default(), &mut |_| {}).unwrap();
    assert!(!observed.iter().all(|own| own.is_valid(guard)), "a scan sees that the key is there again");
}

/// An observed leaf is emptied and leaves the tree: what is added in its range is seen, wherever it goes.
/// What the observer itself adds is no conflict.
#[test]
fn an_observation_outlives_its_leaf() {
    const KEYS: u32 = 300;
    let key = |n: u32| (n * 10).to_be_bytes();
    for length in [Some(4), None] {
        for (from, until) in [(0, KEYS), (0, 120), (100, 200), (180, KEYS)] {
            for added in (0..=KEYS * 10).step_by(7).filter(|n| n % 10 != 0) {
                let (_, mut workers) = world(1);
                let guard = &*workers[0].enter();
                let index = Trees::new(length, guard).unwrap();
                let insert = |key: &[u8]| index.insert(key, 1, guard, &mut Fingers::default(), &mut |_| {});
                (0..KEYS).for_each(|n| assert!(insert(&key(n)).is_ok()));
                let (lower, upper) = (key(from), key(until));
                let (_, mut observed) = scan(&index, &lower, Some(&upper), Direction::Forward, guard);
                for n in from..until {
                    assert!(index.remove_own(&key(n), None, guard, &mut |_| false).is_some());
                }
                let is_kept = from > 0 || until < KEYS;
                let holds = |observed: &[LeafObservation]| observed.iter().all(|own| own.is_valid(guard));
                assert!(!is_kept || holds(&observed), "removals disturb no reader");
                let mut changes = Vec::new();
                let (key, fingers) = (&added.to_be_bytes(), &mut Fingers::default());
                index.insert(key, 1, guard, fingers, &mut |change| changes.push(change)).unwrap();
                let is_inside = (from * 10..until * 10).contains(&added);
                assert!(!is_inside || !holds(&observed), "{added} was added to {from}..{until} unseen");
                for change in &changes {
                    observed.iter_mut().for_each(|own| _ = own.follow(change, true, guard));
                }
                assert!(!is_kept || holds(&observed), "{added} was added to {from}..{until} by the observer");
            }
        }
    }
}

#[test]
fn threads_share_a_tree() {
    const KEYS: u32 = if cfg!(miri) { 300 } else { 20_000 };
    let (epochs, workers) = world(5);
    let mut workers = workers.into_iter();
    let mut first = workers.next().unwrap();
    let new = |length| Trees::new(length, &first.enter()).unwrap();
    let indexes: Vec<_> = [Some(8), None].into_iter().map(new).collect();
    for index in &indexes {
        std::thread::scope(|scope| {
            for (thread, worker) in workers.by_ref().take(2).enumerate() {
                let epochs = &epochs;
                scope.spawn(move || {
                    let mut worker = worker;
                    // Each thread owns every second key: adds all, removes every fourth, adds some again.
                    let own = || (0..KEYS).filter(move |n| *n as usize % 2 == thread);
                    let key = |n: u32| u64::from(n.wrapping_mul(2_654_435_761)).to_be_bytes();
                    for n in own() {
                        let guard = worker.enter();
                        let mut fingers = Fingers::default();
                        let outcome =
                            index.insert(&key(n), n.into(), &guard, &mut fingers, &mut |_| {}).unwrap();
                        assert_eq!(outcome, InsertOutcome::Inserted);
                        assert_eq!(index.get(&Probe::new(&key(n)), &guard).0, Some(n.into()));
                        drop(guard);
                        if n % 64 == 0 {
                            epochs.advance_from(epochs.current());
                            worker.reclaim();
                        }
                    }
                    for n in own().filter(|n| n / 2 % 4 != 0) {
                        let removed = index.remove_own(&key(n), None, &worker.enter(), &mut |_| false);
                        assert_eq!(removed, Some(n.into()));
                        epochs.advance_from(epochs.current());
                        worker.reclaim();
                    }
                });
            }
        });
        let (mut values, _) = scan(index, &[], None, Direction::Forward, &first.enter());
        values.sort_unstable();
        assert_eq!(values, (0..u64::from(KEYS)).filter(|n| n / 2 % 4 == 0).collect::<Vec<_>>());
    }
}

#[test]
fn threads_add_runs_between_each_other() {
    const RUNS: u64 = if cfg!(miri) { 40 } else { 4_000 };
    const LENGTH: u64 = 12;
    let (_, mut workers) = world(4);
    let (mut first, mut reader) = (workers.remove(0), workers.remove(0));
    let guard = &*first.enter();
    let index = Trees::new(Some(16), guard).unwrap();
    // Two runs have one first word.
    let key = |run: u64, n: u64| (u128::from(run / 2) << 64 | u128::from(run % 2 * LENGTH + n)).to_be_bytes();
    let writers = AtomicUsize::new(workers.len());
    std::thread::scope(|scope| {
        for (thread, mut worker) in workers.into_iter().enumerate() {
            let (index, writers) = (&index, &writers);
            scope.spawn(move || {
                // Every thread adds its runs in a scattered order, so that leaves split in and beside runs of
                // the other.
                for step in (0..RUNS).filter(|step| *step as usize % 2 == thread) {
                    let run = step * 1_237 % RUNS;
                    let guard = worker.enter();
                    let mut fingers = Fingers::default();
                    for n in 0..LENGTH {
                        let value = run * LENGTH + n;
                        let outcome = index.insert(&key(run, n), value, &guard, &mut fingers, &mut |_| {});
                        assert_eq!(outcome.unwrap(), InsertOutcome::Inserted);
                        assert_eq!(index.get(&Probe::new(&key(run, 0)), &guard).0, Some(run * LENGTH));
                    }
                }
                writers.fetch_sub(1, Ordering::Release);
            });
        }
        let (index, writers) = (&index, &writers);
        scope.spawn(move || {
            let mut random = SmallRng::seed_from_u64(5);
            while writers.load(Ordering::Acquire) > 0 {
                let (run, n) = (random.random_range(0..RUNS), random.random_range(0..LENGTH));
                let found = index.get(&Probe::new(&key(run, n)), &reader.enter()).0;
                assert!(found.is_none_or(|value| value == run * LENGTH + n), "run {run}, {n}: {found:?}");
            }
        });
    });
    let (values, _) = scan(&index, &[], None, Direction::Forward, guard);
    assert_eq!(values, (0..RUNS * LENGTH).collect::<Vec<_>>());
    for run in 0..RUNS {
        assert_eq!(index.get(&Probe::new(&key(run, 3)), guard).0, Some(run * LENGTH + 3));
    }
}

/// Approaches, fingers and observations are void in another stay and in another tree.
#[test]
fn what_is_remembered_is_of_one_stay_and_one_tree() {
    let (_, mut workers) = world(1);
    let worker = &mut workers[0];
    worker.stay();
    let trees = [4, 40].map(|length| Trees::new(Some(length), worker.guard()).unwrap());
    let key = |n: u32| n.to_be_bytes();
    let mut fingers = Fingers::default();
    for n in 0..1_000 {
        trees[0].insert(&key(n), n.into(), worker.guard(), &mut fingers, &mut |_| {}).unwrap();
    }
    let approach = trees[0].approach(&Probe::new(&key(7)), worker.guard()).unwrap();
    let (_, leaf) = trees[0].get(&Probe::new(&key(7)), worker.guard());
    assert_eq!(trees[0].arrive(&approach, &Probe::new(&key(7)), worker.guard()), Some(Some(7)));
    assert_eq!(trees[1].arrive(&approach, &Probe::new(&key(7)), worker.guard()), None, "another tree");
    assert!(leaf.is_valid(worker.guard()));
    trees[1].insert(&key(2_000), 1, worker.guard(), &mut fingers, &mut |_| {}).unwrap();
    assert_eq!(trees[0].get(&Probe::new(&key(2_000)), worker.guard()).0, None, "a finger stays in its tree");
    worker.leave();
    worker.stay();
    assert_eq!(trees[0].arrive(&approach, &Probe::new(&key(7)), worker.guard()), None, "another stay");
    assert!(!leaf.is_valid(worker.guard()));
}

#[test]
#[should_panic(expected = "the stay in which it did")]
fn what_a_cursor_has_read_ahead_is_of_one_stay() {
    let (_, mut workers) = world(1);
    let worker = &mut workers[0];
    worker.stay();
    let index = self::index(Some(4), worker.guard());
    let row = (&[7][..], None, NewState::uncommitted(Slot(0)));
    index.insert_new(&[0; 4], row, worker.guard(), &mut Fingers::default(), &mut |_| {}).unwrap();
    let mut cursor = Cursor::default();
    cursor.open(&[], None, Direction::Forward);
    cursor.read_leaf(&index, worker.guard());
    worker.leave();
    worker.stay();
    cursor.next_buffered(worker.guard());
}

#[test]
#[should_panic(expected = "of its own database")]
fn an_index_is_of_its_own_database() {
    let (mut here, mut elsewhere) = (world(1).1, world(1).1);
    let index = self::index(Some(4), &here[0].enter());
    let _ = index.look_up(&[0; 4], &elsewhere[0].enter());
}

/// Records are removed from both indexes in any order, twice, or by the wrong key. Each is freed with its
/// last entry.
#[test]
fn a_record_outlives_all_but_its_last_entry() {
    let (epochs, mut workers) = world(1);
    let worker = &mut workers[0];
    let (first, second) = {
        let guard = &*worker.enter();
        let new = |_| self::index(Some(4), guard);
        let [first, second] = [0, 1].map(new);
        let row = (&[7][..], None, NewState::uncommitted(Slot(0)));
        let mut fingers = Fingers::default();
        let Added::New(record) = first.insert_new(&[0; 4], row, guard, &mut fingers, &mut |_| {}).unwrap()
        else {
            panic!("the index is empty");
        };
        let link =
            |index: &Index, key| index.insert(key, record, &mut Fingers::default(), &mut |_| {}).unwrap();
        assert_eq!(link(&second, &[1; 4]), Linked::Added);
        assert_eq!(link(&second, &[2; 4]), Linked::Added);
        assert_eq!(link(&second, &[2; 4]), Linked::Exists(record));
        let remove = || first.remove_entry(&[0; 4], record, &mut |_| false);
        assert!(remove() && !remove());
        let remove = || second.remove(&[1; 4], guard);
        assert!(remove() && !remove());
        (first, second)
    };
    epochs.advance_from(epochs.current());
    worker.reclaim();
    let before = worker.retired();
    let guard = worker.enter();
    let record = second.look_up(&[2; 4], &guard).unwrap();
    assert_eq!(record.row().load(0), 7);
    assert!(second.remove(&[2; 4], &guard));
    let again = first.insert(&[0; 4], record, &mut Fingers::default(), &mut |_| {}).unwrap();
    assert_eq!(again, Linked::Gone);
    drop(guard);
    assert_eq!(worker.retired(), before + 1);
}

/// A table gives up an index; its records are freed as if the index had never been there.
#[test]
fn an_abandoned_index_lets_its_records_go() {
    const RECORDS: u64 = if cfg!(miri) { 300 } else { 5_000 };
    for length in [Some(8), None] {
        let (_, mut workers) = world(1);
        let worker = &mut workers[0];
        let guard = worker.enter();
        let [first, second] = [0, 1].map(|_| self::index(length, &guard));
        let key = |n: u64| n.to_be_bytes();
        for n in 0..RECORDS {
            let row = (&[n][..], None, NewState::uncommitted(Slot(0)));
            let added = first.insert_new(&key(n), row, &guard, &mut Fingers::default(), &mut |_| {}).unwrap();
            let Added::New(record) = added else { panic!("the key is new") };
            second.insert(&key(n), record, &mut Fingers::default(), &mut |_| {}).unwrap();
        }
        let records: Vec<_> = (0..RECORDS).map(|n| first.look_up(&key(n), &guard).unwrap()).collect();
        second.abandon();
        drop(second);
        assert!(records.iter().all(|record| record.held().is_some_and(|held| {
            held.release(&guard);
            true
        })));
        assert!((0..RECORDS).all(|n| first.remove(&key(n), &guard)));
        assert!(records.iter().all(|record| record.held().is_none()), "all are about to be freed");
    }
}

/// A dropped table leaves keys of every shape, rows that outgrew their memory, older versions and blocks of
/// several sizes. All of it is used again.
#[test]
fn what_a_gone_table_had_is_used_again() {
    let (rounds, rows) = if cfg!(miri) { (2, 60) } else { (40, 4_000u64) };
    let epochs = Arc::new(Epochs::new(Epoch(1), 2));
    let memory = Arc::new(Memory::new(64 << 20));
    let mut worker = Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let mut used = Vec::new();
    for round in 0..rounds {
        for length in [Some(8), Some(12), Some(20), Some(30), None] {
            let guard = worker.enter();
            let (primary, secondary) = (self::index(length, &guard), self::index(None, &guard));
            let (mut fingers, mut other) = (Fingers::default(), Fingers::default());
            for n in 0..rows {
                let mut key = vec![0x55; length.map_or(n as usize % 40, |length| length - 8)];
                key.extend_from_slice(&n.to_be_bytes());
                let (image, state) = (vec![n; 1 + n as usize % 30], NewState::uncommitted(Slot(0)));
                let added =
                    primary.insert_new(&key, (&image, None, state), &guard, &mut fingers, &mut |_| {});
                let Ok(Added::New(record)) = added else { panic!("round {round}: {added:?}") };
                secondary.insert(&key, record, &mut other, &mut |_| {}).unwrap();
                record.try_lock().unwrap();
                if n % 5 == 0 {
                    record.keep_older(epochs.next_order());
                }
                if n % 3 == 0 {
                    let long = if n % 500 == 0 { 20_000 } else { 40 };
                    record.write_image(&vec![n; long]);
                }
                record.unlock(RecordState::present(epochs.draw()));
            }
            drop(guard);
            primary.go_with_table();
            secondary.go_with_table();
            drop((primary, secondary));
        }
        used.push(memory.used_bytes());
        epochs.advance_from(epochs.current());
        worker.reclaim();
    }
    assert_eq!(used.last(), used.get(1), "{used:?}");
}
