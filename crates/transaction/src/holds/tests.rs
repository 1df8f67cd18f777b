//! Rows go from transaction to transaction, ends are told, and waits form no cycle.

use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn waker() -> (Arc<Woken>, Waker) {
    let woken = Arc::<Woken>::default();
    (Arc::clone(&woken), Waker::from(woken))
}

/// Addresses of rows.
const ROWS: [u64; 3] = [64, 128, 192];

const A: Slot = Slot(0);
const B: Slot = Slot(1);
const C: Slot = Slot(2);

#[test]
fn a_row_goes_to_the_transaction_that_has_waited_longest() {
    let (holds, [row, other, _]) = (Holds::new(3), ROWS);
    assert_eq!(holds.hold(row, A), Holder::Newly);
    assert_eq!(holds.hold(row, A), Holder::Already);
    assert_eq!(holds.hold(row, B), Holder::Foreign);
    assert!(holds.is_foreign(row, B) && !holds.is_foreign(row, A) && !holds.is_foreign(other, B));
    let ((b, waker_b), (c, waker_c)) = (waker(), waker());
    let blocker = Blocker::Row(row);
    assert_eq!(holds.wait(blocker, B, true, &waker_b), Ok(true));
    assert_eq!(holds.wait(blocker, C, true, &waker_c), Ok(true));
    holds.release(row, A);
    assert_eq!((b.count(), c.count()), (1, 0));
    assert_eq!(holds.wait(blocker, B, true, &waker_b), Ok(false), "it is its own");
    assert_eq!(holds.hold(row, B), Holder::Already);
    holds.release(row, B);
    assert_eq!((b.count(), c.count()), (1, 1));
    holds.release(row, C);
    assert_eq!(holds.hold(row, A), Holder::Newly, "it is free");
}

#[test]
fn a_transaction_that_stops_waiting_is_passed_over() {
    let (holds, [row, ..]) = (Holds::new(3), ROWS);
    holds.hold(row, A);
    let blocker = Blocker::Row(row);
    let ((b, waker_b), (c, waker_c)) = (waker(), waker());
    holds.wait(blocker, B, true, &waker_b).unwrap();
    holds.wait(blocker, C, true, &waker_c).unwrap();
    holds.stop_waiting(B);
    holds.release(row, A);
    assert_eq!((b.count(), c.count()), (0, 1));
    // One that was given the row before it stops lets it go by `release`.
    holds.hold(row, C);
    holds.stop_waiting(C);
    holds.release(row, C);
    assert!(!holds.is_foreign(row, A));
}

#[test]
fn the_wait_that_closes_a_cycle_is_refused() {
    let (holds, [first, second, third]) = (Holds::new(3), ROWS);
    for (row, worker) in [(first, A), (second, B), (third, C)] {
        holds.hold(row, worker);
    }
    let (_, waker) = waker();
    let row = Blocker::Row;
    assert_eq!(holds.wait(row(second), A, true, &waker), Ok(true));
    assert_eq!(holds.wait(row(third), B, true, &waker), Ok(true));
    assert_eq!(holds.wait(row(first), C, true, &waker), Err(Deadlock));
    let insert = Blocker::Transaction { worker: A, number: holds.number(A) };
    assert_eq!(holds.wait(insert, C, true, &waker), Err(Deadlock), "by a key");
    holds.stop_waiting(A);
    assert_eq!(holds.wait(row(first), C, true, &waker), Ok(true), "no cycle any more");
    assert_eq!(holds.wait(row(second), A, true, &waker), Err(Deadlock));
}

#[test]
fn the_end_of_a_transaction_wakes_those_that_wait_for_its_inserts() {
    let holds = Holds::new(3);
    let before = Blocker::Transaction { worker: A, number: holds.number(A) };
    let ((b, waker_b), (c, waker_c)) = (waker(), waker());
    assert_eq!(holds.wait(before, B, true, &waker_b), Ok(true));
    holds.ended(A);
    assert_eq!(b.count(), 1);
    assert_eq!(holds.wait(before, B, true, &waker_b), Ok(false));
    // That one has ended; the next one has not.
    let next = Blocker::Transaction { worker: A, number: holds.number(A) };
    assert_eq!(holds.wait(next, C, true, &waker_c), Ok(true));
    holds.stop_waiting(C);
    holds.ended(A);
    assert_eq!((b.count(), c.count()), (1, 0));
}

/// A transaction ends just when another one begins to wait for it: it either sees the end, or is woken.
#[test]
fn no_end_is_missed() {
    let holds = Holds::new(2);
    let (rounds, barrier) = (20_000, std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                barrier.wait();
                holds.ended(A);
                barrier.wait();
            }
        });
        for _ in 0..rounds {
            let blocker = Blocker::Transaction { worker: A, number: holds.number(A) };
            let (woken, waker) = waker();
            barrier.wait();
            let waits = holds.wait(blocker, B, true, &waker).unwrap();
            barrier.wait();
            assert!(!waits || woken.count() == 1);
        }
    });
}
