//! Long queries run on a snapshot: they see one moment, never fail, and make no other transaction fail.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest, small};
use reprise::{Arena, CommitOrder, Database, Datum, RowSink, Scheme, Session, SqlError, Value, params};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const ROWS: i64 = 6_000;

/// Rows in groups, by an index whose keys change; the sum over all rows never does.
const SCHEMA: &str = "
CREATE TABLE items (id INT PRIMARY KEY, grp INT NOT NULL, v INT NOT NULL, note TEXT);
CREATE INDEX items_grp ON items (grp);
CREATE PROCEDURE fill(p_rows INT) LANGUAGE plpgsql AS $$
BEGIN FOR i IN 1..p_rows LOOP INSERT INTO items VALUES (i, i % 100, 10, 'first'); END LOOP; END $$;
CREATE PROCEDURE move(p_from INT, p_to INT, p_grp INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE items SET v = v - 1, grp = p_grp WHERE id = p_from;
    UPDATE items SET v = v + 1, note = note || '+' WHERE id = p_to;
END $$;
CREATE PROCEDURE renew(p_id INT, p_grp INT) LANGUAGE plpgsql AS $$
DECLARE had INT;
BEGIN
    DELETE FROM items WHERE id = p_id RETURNING v INTO had;
    INSERT INTO items VALUES (p_id, p_grp, had, 'again');
END $$;";

fn filled(db: &Database) -> Session {
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    session.call_durably("fill", params![ROWS as i32]).unwrap();
    session
}

#[test]
fn long_queries_see_one_moment_and_fail_nobody() {
    long_queries_beside_writers(Scheme::Optimistic, 60);
}

#[test]
fn long_queries_see_one_moment_beside_writers_that_lock() {
    long_queries_beside_writers(Scheme::TwoPhase, 20);
}

fn long_queries_beside_writers(concurrency: Scheme, rounds: usize) {
    let folder = tempfile::tempdir().unwrap();
    let live = {
        let mut config = small();
        config.concurrency = concurrency;
        let db = Database::open(folder.path(), config).unwrap();
        drop(filled(&db));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, stop) = (&db, &stop);
            for writer in 0..2u64 {
                scope.spawn(move || {
                    let mut session = db.session().unwrap();
                    let mut random = writer + 1;
                    let mut next = |below: i64| {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        (random >> 33) as i64 % below
                    };
                    while !stop.load(Ordering::Relaxed) {
                        let (from, to, grp) =
                            (next(ROWS) as i32 + 1, next(ROWS) as i32 + 1, next(100) as i32);
                        let _ = session.call("move", params![from, to, grp]).unwrap();
                        let _ = session.call("renew", params![to, grp]).unwrap();
                    }
                });
            }
            let whole = [Value::Int(ROWS), Value::Int(10 * ROWS)];
            let mut session = db.session().unwrap();
            for round in 0..rounds {
                let query = [
                    "SELECT count(*), sum(v) FROM items",
                    "SELECT count(*), sum(v) FROM items WHERE grp >= 0",
                    "SELECT count(*), sum(v) FROM (SELECT v FROM items WHERE grp >= 0 \
                     ORDER BY grp DESC, id DESC LIMIT 6000) t",
                    "SELECT count(*), sum(b.v) FROM items a JOIN items b ON b.id = a.id",
                ][round % 4];
                let answer = session.query(query).unwrap();
                let texts: Vec<_> = answer.rows[0].iter().map(ToString::to_string).collect();
                let expected: Vec<_> = whole.iter().map(ToString::to_string).collect();
                assert_eq!(texts, expected, "{query}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        db.digest().unwrap()
    };
    assert_eq!(recovered_digest(folder.path()), live);
}

#[test]
fn a_snapshot_holds_what_was_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let (mut writer, mut reader) = (filled(&db), db.session().unwrap());
    for n in 1..200i64 {
        writer.query("UPDATE items SET v = v + 1 WHERE id = 77").unwrap();
        let answer = reader.query("SELECT sum(v) FROM items").unwrap();
        assert_eq!(answer.rows[0][0].to_string(), (10 * ROWS + n).to_string());
    }
}

/// Hands on a few rows at a time, and does something before each time.
struct Slow<F> {
    rows: Arc<Mutex<BTreeMap<i64, Vec<i64>>>>,
    kept: usize,
    meanwhile: F,
}

impl<F: FnMut() + Send> RowSink for Slow<F> {
    fn begin(&mut self) {
        self.rows.lock().unwrap().clear();
        self.kept = 0;
    }

    fn row(&mut self, values: &[Datum], _: &Arena) -> Result<(), SqlError> {
        let values: Vec<i64> = values
            .iter()
            .map(|value| match value {
                Datum::Int(value) => *value,
                other => panic!("{other:?}"),
            })
            .collect();
        self.kept += 1;
        assert!(self.rows.lock().unwrap().insert(values[0], values).is_none(), "a row came twice");
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.kept >= 37
    }

    fn relieve(&mut self, _: CommitOrder) -> Result<(), SqlError> {
        self.kept = 0;
        (self.meanwhile)();
        Ok(())
    }
}

/// A reader that stops between rows finds what it left, whatever has been changed, deleted and inserted
/// meanwhile.
#[test]
fn a_slow_reader_finds_its_place_again() {
    for query in [
        "SELECT id, grp, v FROM items",
        "SELECT id, grp, v FROM items ORDER BY id DESC",
        "SELECT id, grp, v FROM items WHERE grp >= 0 ORDER BY grp, id",
        "SELECT id, grp, v FROM items WHERE grp >= 0 ORDER BY grp DESC, id DESC",
        "SELECT a.id, b.grp, b.v FROM items a, LATERAL (SELECT grp, v FROM items i WHERE i.id = a.id) b",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path());
        let mut reader = filled(&db);
        let expected: BTreeMap<i64, Vec<i64>> = (1..=ROWS).map(|id| (id, vec![id, id % 100, 10])).collect();
        let mut writer = db.session().unwrap();
        let mut round = 0i64;
        let meanwhile = move || {
            for _ in 0..60 {
                round += 1;
                let id = round * 7919 % ROWS + 1;
                let grp = (round * 31 % 120) as i32;
                match round % 4 {
                    0 => drop(writer.call("renew", params![id as i32, grp]).unwrap()),
                    1 => drop(writer.call("move", params![id as i32, 1, grp]).unwrap()),
                    2 => drop(
                        writer
                            .query(&format!("DELETE FROM items WHERE id = {id} AND note <> 'new'"))
                            .unwrap(),
                    ),
                    _ => {
                        let fresh = ROWS + round;
                        drop(
                            writer
                                .query(&format!("INSERT INTO items VALUES ({fresh}, {grp}, 0, 'new')"))
                                .unwrap(),
                        );
                        drop(writer.query(&format!("DELETE FROM items WHERE id = {}", fresh - 40)).unwrap());
                    }
                }
            }
        };
        let rows = Arc::new(Mutex::new(BTreeMap::new()));
        let meanwhile = Arc::new(Mutex::new(meanwhile));
        let prepared = reader.prepare(query).unwrap();
        let sink = || {
            let meanwhile = Arc::clone(&meanwhile);
            let meanwhile = move || (meanwhile.lock().unwrap())();
            Box::new(Slow { rows: Arc::clone(&rows), kept: 0, meanwhile }) as Box<dyn RowSink>
        };
        // No transaction writes before the first rows are sent, so the first attempt is the last one.
        reader.execute_into(&prepared, &[], sink()).unwrap();
        assert_eq!(*rows.lock().unwrap(), expected, "{query}");
    }
}

/// What a snapshot has kept goes with it.
#[test]
fn memory_comes_back_after_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let (mut reader, mut writer) = (filled(&db), db.session().unwrap());
    let mut after_some = 0;
    for round in 0..25 {
        let mut changed = false;
        let rows = Arc::new(Mutex::new(BTreeMap::new()));
        let writer = &Mutex::new(&mut writer);
        std::thread::scope(|scope| {
            let (ask, asked) = std::sync::mpsc::channel::<()>();
            let (tell, told) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let mut writer = writer.lock().unwrap();
                while asked.recv().is_ok() {
                    writer.query(&format!("UPDATE items SET grp = (grp + 1) % 100, v = {round}")).unwrap();
                    tell.send(()).unwrap();
                }
            });
            let told = Mutex::new(told);
            let meanwhile = Arc::new(Mutex::new(move || {
                if !std::mem::replace(&mut changed, true) {
                    ask.send(()).unwrap();
                    told.lock().unwrap().recv().unwrap();
                }
            }));
            let prepared = reader.prepare("SELECT id, grp, v FROM items").unwrap();
            let sink = || {
                let meanwhile = Arc::clone(&meanwhile);
                let meanwhile = move || (meanwhile.lock().unwrap())();
                Box::new(Slow { rows: Arc::clone(&rows), kept: 0, meanwhile }) as Box<dyn RowSink>
            };
            reader.execute_into(&prepared, &[], sink()).unwrap();
        });
        assert_eq!(rows.lock().unwrap().len(), ROWS as usize);
        // Cleaning up goes along with transactions.
        let mut writer = writer.lock().unwrap();
        for _ in 0..400 {
            writer.query("SELECT 1").unwrap();
        }
        writer.query("UPDATE items SET note = 'x' WHERE id = 1").unwrap();
        if round == 10 {
            after_some = db.statistics().memory_bytes;
        }
    }
    let at_last = db.statistics().memory_bytes;
    assert!(at_last < after_some + (4 << 20), "{after_some} bytes after some rounds, {at_last} at last");
}

#[test]
fn definitions_wait_for_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut reader = filled(&db);
    let rows = Arc::new(Mutex::new(BTreeMap::new()));
    let prepared = reader.prepare("SELECT id, grp, v FROM items").unwrap();
    let emptied = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let (db, emptied) = (&db, &emptied);
        scope.spawn(move || {
            begun.recv().unwrap();
            db.session().unwrap().execute_script("TRUNCATE items").unwrap();
            emptied.store(true, Ordering::SeqCst);
        });
        let mut times = 0;
        let seen = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&seen);
        let meanwhile = Arc::new(Mutex::new(move || {
            times += 1;
            if times == 1 {
                begin.send(()).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            flag.store(true, Ordering::SeqCst);
        }));
        let sink = || {
            let meanwhile = Arc::clone(&meanwhile);
            let meanwhile = move || (meanwhile.lock().unwrap())();
            Box::new(Slow { rows: Arc::clone(&rows), kept: 0, meanwhile }) as Box<dyn RowSink>
        };
        reader.execute_into(&prepared, &[], sink()).unwrap();
        assert!(seen.load(Ordering::SeqCst));
    });
    assert_eq!(rows.lock().unwrap().len(), ROWS as usize);
    assert!(emptied.load(Ordering::SeqCst));
}
