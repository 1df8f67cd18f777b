//! Trees against a map, leaf observations, and threads that share a tree.

use super::*;
use crate::{Epochs, Memory};
use catalog::Epoch;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::collections::BTreeMap;
use std::sync::Arc;

fn world(workers: usize) -> (Arc<Epochs>, Vec<Worker>) {
    let epochs = Arc::new(Epochs::new(Epoch(1), workers));
    let memory = Arc::new(Memory::new(4 << 30));
    let make = |_| Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let workers = (0..workers).map(make).collect();
    (epochs, workers)
}

fn scan(
    index: &Index,
    lower: &[u8],
    upper: Option<&[u8]>,
    direction: Direction,
) -> (Vec<u64>, Vec<LeafObservation>) {
    let mut cursor = Cursor::default();
    cursor.open(lower, upper, direction);
    let (mut values, mut observed) = (Vec::new(), Vec::new());
    while let Some(observation) = cursor.read_leaf(index) {
        observed.push(observation);
        values.extend(std::iter::from_fn(|| cursor.next_buffered()));
    }
    (values, observed)
}

#[test]
fn trees_agree_with_a_map() {
    for length in [Some(4), Some(12), Some(20), Some(30), None] {
        let (_, mut workers) = world(1);
        let worker = &mut workers[0];
        worker.enter();
        let index = Index::new(length, worker).unwrap();
        let mut map = BTreeMap::new();
        let mut random = SmallRng::seed_from_u64(7);
        let make = |n: u32| match length {
            Some(length) => {
                let mut key = vec![0x55; length - 4];
                key.extend_from_slice(&n.to_be_bytes());
                key
            }
            None => format!("{}{n}", "x".repeat(n as usize % 13)).into_bytes(),
        };
        let (mut finger, mut n) = (Finger::default(), 0);
        for round in 0..40_000u64 {
            // Runs of ascending keys among the others.
            n = if random.random_bool(0.5) { (n + 1) % 3_000 } else { random.random_range(0..3_000) };
            let key = make(n);
            // Phases of growth and of shrinking, so that leaves fill, split, empty and leave the tree.
            if random.random_bool(if round / 8_000 % 2 == 0 { 0.8 } else { 0.1 }) {
                let expected = map.get(&key).map_or(InsertOutcome::Inserted, |v| InsertOutcome::Exists(*v));
                assert_eq!(index.insert(&key, round, worker, &mut finger, &mut |_| {}).unwrap(), expected);
                map.entry(key).or_insert(round);
            } else {
                assert_eq!(index.remove(&key, worker), map.remove(&key));
            }
            if round % 1_000 == 0 {
                let (a, b) = (make(random.random_range(0..3_000)), make(random.random_range(0..3_000)));
                let (low, high) = if a <= b { (a, b) } else { (b, a) };
                let expected: Vec<u64> = map.range(low.clone()..high.clone()).map(|(_, v)| *v).collect();
                assert_eq!(scan(&index, &low, Some(&high), Direction::Forward).0, expected);
                let mut backward = scan(&index, &low, Some(&high), Direction::Backward).0;
                backward.reverse();
                assert_eq!(backward, expected);
            }
        }
        for (key, value) in &map {
            assert_eq!(index.get(key, worker).0, Some(*value));
        }
        assert_eq!(scan(&index, &[], None, Direction::Forward).0, map.values().copied().collect::<Vec<_>>());
        worker.exit();
    }
}

#[test]
fn a_leaf_observation_sees_inserts() {
    let (_, mut workers) = world(1);
    let worker = &mut workers[0];
    worker.enter();
    let index = Index::new(Some(4), worker).unwrap();
    for n in 0..1_000u32 {
        index.insert(&(n * 10).to_be_bytes(), n.into(), worker, &mut Finger::default(), &mut |_| {}).unwrap();
    }
    let (_, mut observed) =
        scan(&index, &100u32.to_be_bytes(), Some(&2_000u32.to_be_bytes()), Direction::Forward);
    let far = 9_001u32.to_be_bytes();
    index.insert(&far, 1, worker, &mut Finger::default(), &mut |_| {}).unwrap();
    assert!(observed.iter().all(LeafObservation::is_valid), "an insert elsewhere disturbs nobody");
    let (absent, leaf) = index.get(&555u32.to_be_bytes(), worker);
    assert_eq!(absent, None);
    let mut changes = Vec::new();
    let mut on_change = |change| changes.push(change);
    index.insert(&555u32.to_be_bytes(), 1, worker, &mut Finger::default(), &mut on_change).unwrap();
    assert!(!leaf.is_valid(), "a read of absence sees the insert");
    assert!(!observed.iter().all(LeafObservation::is_valid), "a scan sees the insert");
    for change in &changes {
        let followed: Vec<_> = observed
            .iter_mut()
            .filter_map(|o| o.follow(change).then(|| change.sibling()).flatten())
            .collect();
        observed.extend(followed);
    }
    assert!(observed.iter().all(LeafObservation::is_valid), "an own insert is followed");
    index.remove(&555u32.to_be_bytes(), worker);
    assert!(!observed.iter().all(LeafObservation::is_valid), "a scan sees the removal");
    worker.exit();
}

#[test]
fn threads_share_a_tree() {
    const KEYS: u32 = 20_000;
    let (epochs, workers) = world(5);
    let mut workers = workers.into_iter();
    let mut first = workers.next().unwrap();
    first.enter();
    let indexes: Vec<_> =
        [Some(8), None].into_iter().map(|length| Index::new(length, &mut first).unwrap()).collect();
    first.exit();
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
                        worker.enter();
                        let mut finger = Finger::default();
                        let outcome =
                            index.insert(&key(n), n.into(), &mut worker, &mut finger, &mut |_| {}).unwrap();
                        assert_eq!(outcome, InsertOutcome::Inserted);
                        assert_eq!(index.get(&key(n), &worker).0, Some(n.into()));
                        worker.exit();
                        if n % 64 == 0 {
                            epochs.advance_from(epochs.current());
                            worker.reclaim();
                        }
                    }
                    for n in own().filter(|n| n / 2 % 4 != 0) {
                        worker.enter();
                        assert_eq!(index.remove(&key(n), &mut worker), Some(n.into()));
                        worker.exit();
                        epochs.advance_from(epochs.current());
                        worker.reclaim();
                    }
                });
            }
        });
        first.enter();
        let (mut values, _) = scan(index, &[], None, Direction::Forward);
        values.sort_unstable();
        assert_eq!(values, (0..u64::from(KEYS)).filter(|n| n / 2 % 4 == 0).collect::<Vec<_>>());
        first.exit();
    }
}

#[test]
fn threads_add_runs_between_each_other() {
    const RUNS: u64 = 4_000;
    const LENGTH: u64 = 12;
    let (_, workers) = world(3);
    let mut workers = workers.into_iter();
    let mut first = workers.next().unwrap();
    first.enter();
    let index = Index::new(Some(16), &mut first).unwrap();
    let key = |run: u64, n: u64| (u128::from(run) << 64 | u128::from(n)).to_be_bytes();
    std::thread::scope(|scope| {
        for (thread, mut worker) in workers.enumerate() {
            let index = &index;
            scope.spawn(move || {
                // Every thread adds its runs in a scattered order, so that leaves split in and beside runs of the other.
                for step in (0..RUNS).filter(|step| *step as usize % 2 == thread) {
                    let run = step * 1_237 % RUNS;
                    worker.enter();
                    let mut finger = Finger::default();
                    for n in 0..LENGTH {
                        let value = run * LENGTH + n;
                        let outcome =
                            index.insert(&key(run, n), value, &mut worker, &mut finger, &mut |_| {});
                        assert_eq!(outcome.unwrap(), InsertOutcome::Inserted);
                    }
                    worker.exit();
                }
            });
        }
    });
    let (values, _) = scan(&index, &[], None, Direction::Forward);
    assert_eq!(values, (0..RUNS * LENGTH).collect::<Vec<_>>());
    for run in 0..RUNS {
        assert_eq!(index.get(&key(run, 3), &first).0, Some(run * LENGTH + 3));
    }
    first.exit();
}
