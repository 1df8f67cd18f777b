//! Readers, writers and holders of one record.

use super::*;
use crate::{Epochs, Memory, Slot, Worker};
use catalog::{CommitOrder, Epoch, ScalarType};
use std::sync::Arc;

/// Number of repetitions. Miri is about a thousand times slower.
const ROUNDS: u64 = if cfg!(miri) { 120 } else { 20_000 };

#[test]
fn readers_see_whole_versions() {
    let epochs = Arc::new(Epochs::new(Epoch(1), 3));
    let memory = Arc::new(Memory::new(1 << 30));
    let make = || Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let layout = RowLayout::new(&[
        (ScalarType::BigInt.into(), false),
        (ScalarType::Text.into(), true),
        (ScalarType::Integer.into(), true),
    ]);
    let (mut writer, mut reader) = (make(), make());
    let guard = writer.enter();
    let mut arena = Arena::default();
    let text = arena.push_bytes(b"0");
    let mut image = Vec::new();
    layout.encode(&[Datum::Int(0), text, Datum::Int(0)], &arena, &mut image);
    let record = Record::create(&image, NewState::uncommitted(Slot(0)), &guard).unwrap();
    assert!(record.stable_state().is_absent());
    record.try_lock().unwrap();
    record.unlock(RecordState::present(CommitOrder(0)));
    let held = record.held().unwrap();
    drop(guard);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..ROUNDS {
                let guard = writer.enter();
                let record = held.record(&guard);
                while record.try_lock().is_none() {}
                let mut arena = Arena::default();
                // Lengths rise and fall, so rows are written in place, rebuilt, and moved.
                let digits = n.to_string().repeat(1 + n as usize % 40);
                let text = if n % 7 == 0 { Datum::Null } else { arena.push_bytes(digits.as_bytes()) };
                let slots = layout.slots();
                let changes = [
                    Change { slot: slots[0], datum: Datum::Int(n as i64) },
                    Change { slot: slots[1], datum: text },
                    Change { slot: slots[2], datum: Datum::Int(-(n as i64)) },
                ];
                record.apply(&layout, changes.into_iter(), &arena);
                record.unlock(RecordState::present(CommitOrder(n)));
                drop(guard);
                if n % 16 == 0 {
                    epochs.advance_from(epochs.current());
                    writer.reclaim();
                }
            }
        });
        scope.spawn(|| {
            let mut last = 0;
            while last < ROUNDS - 1 {
                let guard = reader.enter();
                let record = held.record(&guard);
                let mut arena = Arena::default();
                let state = record.stable_state();
                let row = record.row();
                let read: Vec<_> = layout.slots().iter().map(|slot| row.column(*slot, &mut arena)).collect();
                if record.is_state(state) {
                    last = state.order().0;
                    assert_eq!(read[0], Datum::Int(last as i64));
                    assert_eq!(read[2], Datum::Int(-(last as i64)));
                    let expected = last.to_string().repeat(1 + last as usize % 40);
                    if last == 0 || last % 7 != 0 {
                        assert_eq!(arena.datum_bytes(read[1]), expected.as_bytes());
                    } else {
                        assert_eq!(read[1], Datum::Null);
                    }
                }
            }
        });
    });
}
fn workers() -> (Arc<Epochs>, [Worker; 2]) {
    let (epochs, memory) = (Arc::new(Epochs::new(Epoch(1), 2)), Arc::new(Memory::new(1 << 30)));
    let worker = |_| Worker::new(Arc::clone(&epochs), Arc::clone(&memory)).unwrap();
    let workers = std::array::from_fn(worker);
    (epochs, workers)
}

#[test]
fn a_record_is_freed_with_its_last_holder() {
    let (_, [mut worker, _]) = workers();
    let guard = worker.enter();
    let record = Record::create(&[1], NewState::uncommitted(Slot(0)), &guard).unwrap();
    let held = record.held().unwrap();
    // SAFETY: its creator holds it.
    unsafe { record.release() };
    drop(guard);
    assert_eq!(worker.retired(), 0, "it is held");
    let guard = worker.enter();
    let record = held.record(&guard);
    record.write_image(&[1, 2, 3]);
    record.unlock(RecordState::present(CommitOrder(1)));
    record.keep_older(CommitOrder(2));
    held.release(&guard);
    assert!(record.held().is_none(), "what is about to be freed is held no more");
    assert_eq!(record.row().load(0), 1, "and may still be looked at");
    drop(guard);
    assert_eq!(worker.retired(), 3, "the record, its row and its older version");
}

#[test]
fn so_many_holders_that_they_are_not_counted() {
    let (_, [mut worker, _]) = workers();
    let guard = worker.enter();
    let record = Record::create(&[1], NewState::uncommitted(Slot(0)), &guard).unwrap();
    let held: Vec<_> = (0..COUNTLESS + 10).map(|_| record.held().unwrap()).collect();
    held.into_iter().for_each(|held| held.release(&guard));
    assert_eq!(record.held().unwrap().record(&guard).row().load(0), 1);
    drop(guard);
    assert_eq!(worker.retired(), 0);
}

/// Two workers write one record at the same time without its lock. At worst the row mixes both.
#[test]
fn writers_without_the_lock_free_nothing_twice() {
    let (epochs, mut workers) = workers();
    let held = {
        let guard = workers[0].enter();
        Record::create(&[0], NewState::uncommitted(Slot(0)), &guard).unwrap().held().unwrap()
    };
    std::thread::scope(|scope| {
        for worker in &mut workers {
            let (held, epochs) = (&held, &epochs);
            scope.spawn(move || {
                for n in 1..if cfg!(miri) { 40 } else { 600 } {
                    let guard = worker.enter();
                    let record = held.record(&guard);
                    record.write_image(&vec![n; n as usize]);
                    record.unlock(RecordState::present(CommitOrder(n)));
                    record.keep_older(CommitOrder(n + 1));
                    record.drop_older(|order, _| order.0 % 5 == 0, |_| {});
                    assert!(record.older().count() <= 2 * 600);
                    drop(guard);
                    epochs.advance_from(epochs.current());
                    worker.reclaim();
                }
            });
        }
    });
}
