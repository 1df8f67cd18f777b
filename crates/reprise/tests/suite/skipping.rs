//! SELECT … FOR UPDATE SKIP LOCKED: a queue whose workers take jobs side by side.

use crate::common::Durably as _;
use crate::common::{WAITING, under};
use crate::waiting::{FOREVER, attempt, rows};
use reprise::{Attempt, Scheme};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const QUEUE: &str =
    "CREATE TABLE job (id INT PRIMARY KEY, state TEXT NOT NULL DEFAULT 'new', rank INT NOT NULL,
        note TEXT);
    CREATE INDEX job_state ON job (state, rank);
    CREATE TABLE taken (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job INT NOT NULL,
        worker INT NOT NULL);
    CREATE FUNCTION take(worker INT) RETURNS INT LANGUAGE plpgsql AS $$ DECLARE own INT; BEGIN
        SELECT id INTO own FROM job WHERE state = 'new' ORDER BY rank, id LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF own IS NOT NULL THEN
            UPDATE job SET state = 'done' WHERE id = own;
            INSERT INTO taken (job, worker) VALUES (own, worker);
        END IF;
        RETURN own;
    END $$;";

const JOBS: i64 = 120;

/// Takes a job in one statement. Returns whether there was one.
fn takes_at_once(session: &mut reprise::Session, worker: usize, way: usize) -> bool {
    let text = match way % 2 {
        0 => format!("SELECT take({worker})"),
        _ => format!(
            "WITH own AS (UPDATE job SET state = 'done' WHERE id = (SELECT id FROM job WHERE state = 'new' \
             ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id) \
             INSERT INTO taken (job, worker) SELECT id, {worker} FROM own RETURNING job"
        ),
    };
    let answer = session.query(&text).unwrap();
    answer.rows.first().is_some_and(|row| row[0] != reprise::Value::Null)
}

/// Takes a job in a transaction of several statements. Returns whether there was one, or the transaction has
/// lost a race.
fn takes_in_a_block(session: &mut reprise::Session, worker: usize) -> bool {
    session.begin().unwrap();
    let work = |session: &mut reprise::Session| -> Result<bool, reprise::Error> {
        let order = if worker.is_multiple_of(2) { "rank DESC" } else { "id" };
        let text =
            format!("SELECT id FROM job WHERE state = 'new' ORDER BY {order} LIMIT 2 FOR UPDATE SKIP LOCKED");
        let found = session.query(&text)?.rows;
        for row in &found {
            session.query(&format!("UPDATE job SET state = 'running', note = 'x' WHERE id = {}", row[0]))?;
            session.query(&format!("INSERT INTO taken (job, worker) VALUES ({}, {worker})", row[0]))?;
        }
        drop(session.commit()?);
        Ok(!found.is_empty())
    };
    match work(session) {
        Ok(has_found) => has_found,
        Err(error) => {
            assert!(["40001", "40P01"].contains(&error.sqlstate()), "{error}");
            session.rollback();
            true
        }
    }
}

/// Four workers take jobs in every way, while jobs are added and notes of jobs are written.
#[test]
fn a_job_is_given_to_one_worker() {
    for scheme in Scheme::all() {
        let (_folder, db, mut session) = under(scheme, QUEUE);
        let add = |from: i64, to: i64| {
            format!("INSERT INTO job (id, rank) SELECT n, n % 7 FROM generate_series({from}, {to}) AS n")
        };
        session.query(&add(1, JOBS / 2)).unwrap();
        let is_full = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (mut session, is_full) = (db.session().unwrap(), &is_full);
                scope.spawn(move || {
                    session.ends_at(Some(Instant::now() + FOREVER));
                    loop {
                        let was_full = is_full.load(Ordering::SeqCst);
                        let has_found = match worker {
                            0 | 1 => takes_at_once(&mut session, worker, worker),
                            _ => takes_in_a_block(&mut session, worker),
                        };
                        if was_full && !has_found {
                            break;
                        }
                    }
                });
            }
            for id in JOBS / 2 + 1..=JOBS {
                session.query(&add(id, id)).unwrap();
                session.query(&format!("UPDATE job SET note = 'y' WHERE id = {}", id / 2)).unwrap();
            }
            is_full.store(true, Ordering::SeqCst);
        });
        let twice = "SELECT job, array_agg(worker ORDER BY id) FROM taken GROUP BY job \
                     HAVING count(*) > 1 ORDER BY job";
        assert_eq!(rows(&mut session, twice), "", "{scheme}");
        let counts = "SELECT count(*), count(DISTINCT job), min(job), max(job) FROM taken";
        assert_eq!(rows(&mut session, counts), format!("{JOBS} {JOBS} 1 {JOBS}"), "{scheme}");
        assert_eq!(rows(&mut session, "SELECT count(*) FROM job WHERE state = 'new'"), "0", "{scheme}");
    }
}

/// Held rows are left out, also by a secondary index and beside another table; rows that are held FOR
/// SHARE are left out by FOR UPDATE alone.
#[test]
fn held_rows_are_left_out() {
    for scheme in WAITING {
        let (_folder, db, mut first) = under(scheme, QUEUE);
        first.query("INSERT INTO job (id, rank) VALUES (1, 1), (2, 2), (3, 3)").unwrap();
        let (mut second, mut third) = (db.session().unwrap(), db.session().unwrap());
        first.begin().unwrap();
        let free = "FROM job WHERE state = 'new' ORDER BY rank LIMIT 1 FOR UPDATE SKIP LOCKED";
        assert_eq!(rows(&mut first, &format!("SELECT id {free}")), "1", "{scheme}");
        second.begin().unwrap();
        assert_eq!(rows(&mut second, &format!("SELECT id {free}")), "2", "{scheme}");
        third.begin().unwrap();
        let all = "SELECT id FROM job ORDER BY id FOR UPDATE SKIP LOCKED";
        assert_eq!(rows(&mut third, all), "3", "{scheme}");
        // What it holds itself is not left out.
        assert_eq!(rows(&mut third, all), "3", "{scheme}");
        first.query("UPDATE job SET state = 'done' WHERE id = 1").unwrap();
        drop(first.commit().unwrap());
        third.query("UPDATE job SET state = 'done' WHERE id = 3").unwrap();
        drop(third.commit().unwrap());
        second.query("UPDATE job SET state = 'done' WHERE id = 2").unwrap();
        drop(second.commit().unwrap());

        first.begin().unwrap();
        let share = "SELECT id FROM job WHERE id < 3 ORDER BY id FOR SHARE SKIP LOCKED";
        assert_eq!(rows(&mut first, share), "1, 2", "{scheme}");
        second.begin().unwrap();
        assert_eq!(rows(&mut second, share), "1, 2", "{scheme}");
        third.begin().unwrap();
        assert_eq!(rows(&mut third, all), "3", "{scheme}");
        let attempted = attempt(&mut third, "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT");
        assert_eq!(attempted.map(|_| ()).unwrap_err().sqlstate(), "55P03", "{scheme}");
        third.rollback();
        third.begin().unwrap();
        assert!(matches!(attempt(&mut third, "UPDATE job SET rank = 9 WHERE id = 1"), Ok(Attempt::Busy(_))));
        third.rollback();
        first.rollback();
        second.rollback();
        assert_eq!(rows(&mut third, all), "1, 2, 3", "{scheme}");
    }
}

/// A worker that has left rows out commits, whatever becomes of those rows meanwhile, and of new ones.
#[test]
fn rows_that_are_left_out_may_change() {
    for scheme in WAITING {
        let (_folder, db, mut first) = under(scheme, QUEUE);
        first.query("INSERT INTO job (id, rank) VALUES (1, 1), (2, 2), (3, 3)").unwrap();
        first.query("UPDATE job SET state = 'running' WHERE id = 1").unwrap();
        let (mut second, mut third) = (db.session().unwrap(), db.session().unwrap());
        first.begin().unwrap();
        first.query("SELECT id FROM job WHERE id = 2 FOR UPDATE").unwrap();
        second.begin().unwrap();
        let free = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
        assert_eq!(rows(&mut second, free), "3", "{scheme}");
        third.query("UPDATE job SET state = 'done' WHERE id = 1").unwrap();
        third.query("INSERT INTO job (id, rank) VALUES (0, 0), (4, 0)").unwrap();
        first.query("DELETE FROM job WHERE id = 2").unwrap();
        drop(first.commit().unwrap());
        second.query("UPDATE job SET state = 'done' WHERE id = 3").unwrap();
        drop(second.commit().unwrap());
        assert_eq!(rows(&mut third, "SELECT id, state FROM job ORDER BY id"), "0 new, 1 done, 3 done, 4 new");
    }
}
