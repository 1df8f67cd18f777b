//! Clients that contend for the same rows: they get on, and lose seldom.

use crate::common::Durably as _;
use crate::common::{WAITING, under, with};
use crate::waiting::{FOREVER, TABLES, attempt, rows};
use reprise::{Attempt, Scheme};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an earlier statement of the transaction has read, and another one has changed meanwhile, is no wait:
/// it is lost. Under 2PL the other one waits, and nothing is lost.
#[test]
fn a_row_that_has_changed_since_it_was_read_is_no_wait() {
    let reads = ["SELECT v FROM t WHERE id = 1", "SELECT count(v) FROM t", "SELECT v FROM t WHERE u = 1"];
    let writes = [
        "UPDATE t SET v = v + 1 WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET v = v + 1",
    ];
    for read in reads {
        for write in writes {
            for locks in [false, true] {
                let (_folder, db, mut first) = with(TABLES);
                let mut second = db.session().unwrap();
                first.begin().unwrap();
                first.query(read).unwrap();
                second.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
                first.ends_at(Some(Instant::now() + FOREVER));
                let text = if locks { "SELECT v FROM t WHERE id = 1 FOR UPDATE" } else { write };
                let error = first.query(text).and_then(|_| first.query(write)).unwrap_err();
                assert_eq!(error.sqlstate(), "40001", "{read} | {write}: {error}");
                first.rollback();
                first.query(write).unwrap();
            }
            let (_folder, db, mut first) = under(Scheme::TwoPhase, TABLES);
            let mut second = db.session().unwrap();
            first.begin().unwrap();
            first.query(read).unwrap();
            let attempted = attempt(&mut second, "UPDATE t SET v = v + 1 WHERE id = 1");
            assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{read} | {write}: {attempted:?}");
            second.stop_waiting();
            first.query(write).unwrap();
            drop(first.commit().unwrap());
        }
    }
}

#[test]
fn procedures_that_commit_and_lose_races_come_to_an_end() {
    for scheme in Scheme::all() {
        let (_folder, db, mut session) = under(scheme, TABLES);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut session = db.session().unwrap();
                session.ends_at(Some(Instant::now() + FOREVER));
                scope.spawn(move || {
                    (0..200).for_each(|_| drop(session.query("CALL counts_in_steps()").unwrap()))
                });
            }
        });
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE id = 1"), "800", "{scheme}");
    }
}

/// Clients that add to a hot row in transactions, with time between the statements, beside those that do it
/// at once: none of them loses.
#[test]
fn transactions_that_begin_with_their_write_do_not_fail() {
    for scheme in WAITING {
        let (_folder, db, mut session) = under(scheme, TABLES);
        std::thread::scope(|scope| {
            for in_block in [true, true, false, false] {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    for _ in 0..100 {
                        match in_block {
                            true => {
                                session.begin().unwrap();
                                session.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
                                std::thread::sleep(Duration::from_micros(200));
                                session.query("UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
                                drop(session.commit().unwrap());
                            }
                            false => {
                                session.query("CALL raise_by(1, 1)").unwrap();
                                session.query("UPDATE t SET v = v + 1 WHERE id = 2").unwrap();
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE id < 3 ORDER BY id"), "400, 400");
    }
}

/// Transactions that read a hot row and then write it: once one has lost, the next ones hold the row as they
/// read it.
#[test]
fn what_is_read_and_then_written_seldom_fails() {
    let (_folder, db, mut session) = with(TABLES);
    let (rounds, failed) = (100, AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = db.session().unwrap();
            let failed = &failed;
            scope.spawn(move || {
                for round in 0..rounds {
                    let id = 1 + round % 2;
                    session.begin().unwrap();
                    session.query(&format!("SELECT v FROM t WHERE id = {id}")).unwrap();
                    std::thread::sleep(Duration::from_micros(200));
                    let written = session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {id}"));
                    if written.and_then(|_| session.commit()).is_err() {
                        session.rollback();
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let failed = failed.load(Ordering::SeqCst);
    println!("{failed} of {} have failed", 4 * rounds);
    assert!(failed * 10 < 4 * rounds, "{failed} of {} have failed", 4 * rounds);
    assert_eq!(rows(&mut session, "SELECT sum(v) FROM t"), (4 * rounds - failed).to_string());
}

/// A transaction that is left open holds no reader up for long, however hot its row is.
#[test]
fn readers_of_a_hot_row_go_on() {
    let (_folder, db, mut holder) = with(TABLES);
    let mut reader = db.session().unwrap();
    holder.begin().unwrap();
    holder.query("UPDATE t SET v = 7 WHERE id = 1").unwrap();
    let read = "SELECT v FROM t WHERE id = 1";
    for round in 0..3 {
        reader.begin().unwrap();
        let begun = Instant::now();
        assert_eq!(rows(&mut reader, read), "0");
        assert_eq!(rows(&mut reader, read), "0");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        if round < 2 {
            let attempted = attempt(&mut reader, "UPDATE t SET v = v + 1 WHERE id = 1");
            assert!(matches!(attempted, Ok(Attempt::Busy(_))), "{attempted:?}");
            reader.stop_waiting();
            reader.rollback();
        }
    }
    drop(reader.commit().unwrap());
    drop(holder.commit().unwrap());
    reader.query("UPDATE t SET v = v + 1 WHERE id = 1").unwrap();
    assert_eq!(rows(&mut reader, read), "8");
}

/// Each reads what the other one writes. Both fail seldom, and one of both always gets on. Under 2PL they
/// wait for each other, and one fails, unless no transaction waits.
#[test]
fn of_two_transactions_that_conflict_one_commits() {
    for scheme in Scheme::all() {
        let (_folder, db, _session) = under(scheme, TABLES);
        let rounds = 300;
        let barrier = Barrier::new(2);
        let client = |own: usize| {
            let mut session = db.session().unwrap();
            session.ends_at(Some(Instant::now() + FOREVER));
            let fails = (0..rounds).map(|_| {
                session.begin().unwrap();
                let read = session.query(&format!("SELECT v FROM t WHERE id = {}", 3 - own));
                barrier.wait();
                let written =
                    read.and_then(|_| session.query(&format!("UPDATE t SET v = v + 1 WHERE id = {own}")));
                if !scheme.locks() {
                    barrier.wait();
                }
                let fails = written.and_then(|_| session.commit()).is_err();
                session.rollback();
                barrier.wait();
                fails
            });
            fails.collect::<Vec<bool>>()
        };
        let both = std::thread::scope(|scope| {
            let [one, other] = [1, 2].map(|own| {
                let client = &client;
                scope.spawn(move || client(own))
            });
            one.join().unwrap().into_iter().zip(other.join().unwrap()).filter(|fail| fail.0 && fail.1).count()
        });
        match scheme {
            scheme if !scheme.locks() => {
                assert!(both * 20 < rounds, "both failed in {both} of {rounds} rounds")
            }
            Scheme::TwoPhaseNoWait => {}
            _ => assert_eq!(both, 0, "{scheme}"),
        }
    }
}

/// A long transaction beside short ones that change what it reads and writes comes to an end.
#[test]
fn a_long_transaction_is_not_starved() {
    for scheme in Scheme::all() {
        let (_folder, db, mut session) = under(scheme, TABLES);
        session.query("INSERT INTO t SELECT g, 0, NULL FROM generate_series(100, 400) AS g").unwrap();
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let mut session = db.session().unwrap();
                let ends = &ends;
                scope.spawn(move || {
                    let mut n = seed;
                    while !ends.load(Ordering::Relaxed) {
                        n += 1;
                        session
                            .query(&format!("UPDATE t SET v = v + 1 WHERE id = {}", 100 + n % 300))
                            .unwrap();
                    }
                });
            }
            session.ends_at(Some(Instant::now() + FOREVER));
            for _ in 0..5 {
                session.query("UPDATE t SET v = v + 1 WHERE id >= 100").unwrap();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
