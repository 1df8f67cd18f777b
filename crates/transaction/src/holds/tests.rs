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

fn holds_of(workers: usize) -> Holds {
    Holds::new(workers, &deadlocks::Detect)
}

/// Addresses of rows.
const ROWS: [u64; 3] = [64, 128, 192];

fn exclusive(name: u64) -> Blocker {
    Blocker::Lock { name, mode: Mode::EXCLUSIVE }
}

const A: Slot = Slot(0);
const B: Slot = Slot(1);
const C: Slot = Slot(2);

#[test]
fn a_row_goes_to_the_transaction_that_has_waited_longest() {
    let (holds, [row, other, _]) = (holds_of(3), ROWS);
    assert_eq!(holds.hold(row, Mode::EXCLUSIVE, A), Holder::Newly);
    assert_eq!(holds.hold(row, Mode::EXCLUSIVE, A), Holder::Already);
    assert_eq!(holds.hold(row, Mode::EXCLUSIVE, B), Holder::Foreign);
    assert!(holds.is_foreign(row, B) && !holds.is_foreign(row, A) && !holds.is_foreign(other, B));
    let ((b, waker_b), (c, waker_c)) = (waker(), waker());
    let blocker = exclusive(row);
    assert_eq!(holds.wait(blocker, B, true, &waker_b), Ok(true));
    assert_eq!(holds.wait(blocker, C, true, &waker_c), Ok(true));
    holds.release(row, A);
    assert_eq!((b.count(), c.count()), (1, 0));
    assert_eq!(holds.wait(blocker, B, true, &waker_b), Ok(false), "it is its own");
    assert_eq!(holds.hold(row, Mode::EXCLUSIVE, B), Holder::Already);
    holds.release(row, B);
    assert_eq!((b.count(), c.count()), (1, 1));
    holds.release(row, C);
    assert_eq!(holds.hold(row, Mode::EXCLUSIVE, A), Holder::Newly, "it is free");
}

#[test]
fn a_transaction_that_stops_waiting_is_passed_over() {
    let (holds, [row, ..]) = (holds_of(3), ROWS);
    holds.hold(row, Mode::EXCLUSIVE, A);
    let blocker = exclusive(row);
    let ((b, waker_b), (c, waker_c)) = (waker(), waker());
    holds.wait(blocker, B, true, &waker_b).unwrap();
    holds.wait(blocker, C, true, &waker_c).unwrap();
    holds.stop_waiting(B);
    holds.release(row, A);
    assert_eq!((b.count(), c.count()), (0, 1));
    // One that was given the row before it stops lets it go by `release`.
    holds.hold(row, Mode::EXCLUSIVE, C);
    holds.stop_waiting(C);
    holds.release(row, C);
    assert!(!holds.is_foreign(row, A));
}

#[test]
fn the_wait_that_closes_a_cycle_is_refused() {
    let (holds, [first, second, third]) = (holds_of(3), ROWS);
    for (row, worker) in [(first, A), (second, B), (third, C)] {
        holds.hold(row, Mode::EXCLUSIVE, worker);
    }
    let (_, waker) = waker();
    let row = exclusive;
    assert_eq!(holds.wait(row(second), A, true, &waker), Ok(true));
    assert_eq!(holds.wait(row(third), B, true, &waker), Ok(true));
    assert_eq!(holds.wait(row(first), C, true, &waker), Err(Refusal::Deadlock));
    let insert = Blocker::Transaction { worker: A, number: holds.number(A) };
    assert_eq!(holds.wait(insert, C, true, &waker), Err(Refusal::Deadlock), "by a key");
    holds.stop_waiting(A);
    assert_eq!(holds.wait(row(first), C, true, &waker), Ok(true), "no cycle any more");
    assert_eq!(holds.wait(row(second), A, true, &waker), Err(Refusal::Deadlock));
}

#[test]
fn the_end_of_a_transaction_wakes_those_that_wait_for_its_inserts() {
    let holds = holds_of(3);
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
    let holds = holds_of(2);
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

/// The compatibility matrix of Gray et al., and SIX as S together with IX.
#[test]
fn modes_conflict_as_published() {
    let (is, ix, s, x) = (Mode::INTENT_SHARED, Mode::INTENT_EXCLUSIVE, Mode::SHARED, Mode::EXCLUSIVE);
    let six = s.and(ix);
    let compatible = [(is, is), (is, ix), (is, s), (is, six), (ix, ix), (s, s)];
    let all = [is, ix, s, six, x];
    for one in all {
        for other in all {
            let expected = compatible.contains(&(one, other)) || compatible.contains(&(other, one));
            assert_eq!(one.conflicts(other), !expected, "{one:?} {other:?}");
        }
    }
    assert!(x.covers(s) && x.covers(ix) && six.covers(is) && s.covers(is) && ix.covers(is));
    assert!(!s.covers(ix) && !ix.covers(s) && !six.covers(x) && !is.covers(s));
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let (holds, [lock, ..]) = (holds_of(3), ROWS);
    assert_eq!(holds.hold(lock, Mode::SHARED, A), Holder::Newly);
    assert_eq!(holds.hold(lock, Mode::SHARED, B), Holder::Newly);
    let (c, waker_c) = waker();
    assert_eq!(holds.hold(lock, Mode::EXCLUSIVE, C), Holder::Foreign);
    assert_eq!(holds.wait(exclusive(lock), C, true, &waker_c), Ok(true));
    // A reader that comes later does not overtake the writer.
    let late = Slot(3);
    assert_eq!(holds.hold(lock, Mode::SHARED, late), Holder::Foreign);
    holds.release(lock, A);
    assert_eq!(c.count(), 0);
    holds.release(lock, B);
    assert_eq!(c.count(), 1);
    assert_eq!(holds.hold(lock, Mode::EXCLUSIVE, C), Holder::Already);
}

#[test]
fn an_upgrade_waits_for_the_other_readers_and_two_upgrades_are_a_deadlock() {
    let (holds, [lock, ..]) = (holds_of(3), ROWS);
    holds.hold(lock, Mode::SHARED, A);
    holds.hold(lock, Mode::SHARED, B);
    let ((a, waker_a), (_, waker_b)) = (waker(), waker());
    assert_eq!(holds.wait(exclusive(lock), A, true, &waker_a), Ok(true));
    assert_eq!(holds.wait(exclusive(lock), B, true, &waker_b), Err(Refusal::Deadlock));
    holds.release(lock, B);
    assert_eq!(a.count(), 1);
    assert_eq!(holds.hold(lock, Mode::EXCLUSIVE, A), Holder::Already);
}

/// B waits behind C in the queue, and C for A: what A waits for must not be B's.
#[test]
fn a_cycle_through_a_queue_is_found() {
    let (holds, [lock, other, _]) = (holds_of(3), ROWS);
    holds.hold(lock, Mode::SHARED, A);
    holds.hold(other, Mode::EXCLUSIVE, B);
    let (_, waker) = waker();
    assert_eq!(holds.wait(exclusive(lock), C, true, &waker), Ok(true));
    let shared = Blocker::Lock { name: lock, mode: Mode::SHARED };
    assert_eq!(holds.wait(shared, B, true, &waker), Ok(true));
    assert_eq!(holds.wait(exclusive(other), A, true, &waker), Err(Refusal::Deadlock));
}

/// Under `no-wait` a transaction waits only while it holds no lock.
#[test]
fn a_transaction_that_holds_a_lock_is_refused_without_waiting() {
    let (holds, [first, second, _]) = (Holds::new(3, &deadlocks::NoWait), ROWS);
    let (_, waker) = waker();
    holds.enter(A, 0);
    holds.hold(first, Mode::EXCLUSIVE, A);
    holds.enter(B, 0);
    holds.hold(second, Mode::EXCLUSIVE, B);
    assert_eq!(holds.wait(exclusive(first), B, true, &waker), Err(Refusal::NoWait));
    holds.release(second, B);
    holds.leave(B);
    assert_eq!(holds.wait(exclusive(first), B, true, &waker), Ok(true));
}

/// Under `wait-die` the older of two transactions waits and the younger one does not, and a transaction keeps
/// its age when it runs again.
#[test]
fn a_transaction_waits_for_younger_ones_only() {
    let (holds, [first, second, third]) = (Holds::new(3, &deadlocks::WaitDie), ROWS);
    let ages = [A, B, C].map(|worker| holds.enter(worker, 0));
    for (row, worker) in [(first, A), (second, B), (third, C)] {
        holds.hold(row, Mode::EXCLUSIVE, worker);
    }
    let (_, waker) = waker();
    assert_eq!(holds.wait(exclusive(first), B, true, &waker), Err(Refusal::WaitDie));
    assert_eq!(holds.wait(exclusive(third), B, true, &waker), Ok(true));
    // B lets its lock go and runs again, behind a transaction that has begun since.
    holds.stop_waiting(B);
    holds.release(second, B);
    holds.leave(B);
    holds.release(third, C);
    holds.leave(C);
    assert!(holds.enter(C, 0) > ages[1]);
    holds.hold(third, Mode::EXCLUSIVE, C);
    assert_eq!(holds.enter(B, ages[1]), ages[1]);
    holds.hold(second, Mode::EXCLUSIVE, B);
    assert_eq!(holds.wait(exclusive(third), B, true, &waker), Ok(true));
}

/// Of two upgrades under a policy that forbids one of the waits, the policy refuses that one, although it
/// would also be a deadlock.
#[test]
fn a_policy_refuses_before_a_cycle_is_looked_for() {
    let policies: [(&'static dyn DeadlockPolicy, Refusal); 3] = [
        (&deadlocks::Detect, Refusal::Deadlock),
        (&deadlocks::WaitDie, Refusal::WaitDie),
        (&deadlocks::NoWait, Refusal::NoWait),
    ];
    for (policy, refusal) in policies {
        let (holds, [lock, ..]) = (Holds::new(2, policy), ROWS);
        for worker in [A, B] {
            holds.enter(worker, 0);
            holds.hold(lock, Mode::SHARED, worker);
        }
        let (_, waker) = waker();
        let first = holds.wait(exclusive(lock), A, true, &waker);
        assert_eq!(first, if refusal == Refusal::NoWait { Err(refusal) } else { Ok(true) });
        assert_eq!(holds.wait(exclusive(lock), B, true, &waker), Err(refusal));
    }
}

/// Readers share a lock under `wait-die`, too: a writer is refused when one of them is older.
#[test]
fn the_oldest_holder_decides() {
    let (holds, [lock, other, _]) = (Holds::new(3, &deadlocks::WaitDie), ROWS);
    for worker in [A, B, C] {
        holds.enter(worker, 0);
    }
    holds.hold(lock, Mode::SHARED, A);
    holds.hold(lock, Mode::SHARED, C);
    holds.hold(other, Mode::EXCLUSIVE, B);
    let (_, waker) = waker();
    assert_eq!(holds.wait(exclusive(lock), B, true, &waker), Err(Refusal::WaitDie));
    holds.release(lock, A);
    assert_eq!(holds.wait(exclusive(lock), B, true, &waker), Ok(true));
}
