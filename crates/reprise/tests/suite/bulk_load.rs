//! Loaded rows are not logged: no transaction runs upon them before a checkpoint holds them.

use crate::common::Durably as _;
use crate::common::{on, recovered_digest_on};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Error, Value};
use std::path::Path;
use std::sync::Arc;

const SCRIPT: &str = "
    CREATE TABLE item (id INT PRIMARY KEY, v INT NOT NULL);
    CREATE PROCEDURE raise_item(k INT, OUT after INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE item SET v = v + 1 WHERE id = k RETURNING v INTO after;
    END $$;
    CREATE PROCEDURE read_item(k INT, OUT now_is INT) LANGUAGE plpgsql AS $$
    BEGIN
        SELECT v INTO now_is FROM item WHERE id = k;
    END $$;";

fn load(db: &Database, ids: std::ops::Range<i64>) {
    let mut loader = db.loader().unwrap();
    for id in ids {
        loader.insert("item", &[Value::Int(id), Value::Int(0)]).unwrap();
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    match result {
        Err(Error::Sql(error)) => assert_eq!(error.sqlstate, "55000"),
        other => panic!("a transaction upon rows that are not saved: {other:?}"),
    }
}

#[test]
fn transactions_wait_for_loaded_rows_to_be_saved() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, on(Arc::clone(&disk))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCRIPT).unwrap();
    session.call_durably("raise_item", &[Value::Int(1)]).unwrap();
    load(&db, 0..10);
    for _ in 0..2 {
        refused(session.call_durably("raise_item", &[Value::Int(1)]));
        refused(session.call_durably("read_item", &[Value::Int(1)]));
        refused(session.query("UPDATE item SET v = 7"));
        refused(session.execute_script("CREATE INDEX item_v ON item (v)"));
        refused(db.backup("/backup"));
    }
    // A checkpoint beside a loader may hold a part of what that loads.
    let loader = db.loader().unwrap();
    db.checkpoint().unwrap();
    refused(session.call_durably("raise_item", &[Value::Int(1)]));
    drop(loader);
    refused(session.call_durably("raise_item", &[Value::Int(1)]));
    db.checkpoint().unwrap();
    let row = session.call_durably("raise_item", &[Value::Int(1)]).unwrap();
    assert_eq!(row.values(), [Value::Int(1)]);
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live);
}

/// Rows that no checkpoint holds are gone after a crash, and nothing that was acknowledged depends on them.
#[test]
fn rows_that_were_not_saved_are_gone_altogether() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, on(Arc::clone(&disk))).unwrap();
    db.session().unwrap().execute_script(SCRIPT).unwrap();
    let before = db.digest().unwrap();
    load(&db, 0..10);
    drop(db);
    assert_eq!(recovered_digest_on(&disk, folder), before);
    let db = Database::open(folder, on(disk)).unwrap();
    let mut session = db.session().unwrap();
    assert_eq!(session.call_durably("read_item", &[Value::Int(1)]).unwrap().values(), [Value::Null]);
}

/// Memory ends in the middle of a row: the row is in no index afterwards.
#[test]
fn a_row_that_does_not_fit_is_not_loaded() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let mut config = on(Arc::clone(&disk));
    config.memory_bytes = 32 << 20;
    let db = Database::open("/data", config).unwrap();
    db.session()
        .unwrap()
        .execute_script(
            "CREATE TABLE item (id INT PRIMARY KEY, name TEXT); CREATE INDEX item_name ON item (name)",
        )
        .unwrap();
    let mut loader = db.loader().unwrap();
    let (mut loaded, mut refused) = (0, 0);
    for id in 0.. {
        // Blocks of one size are left when there are none of another.
        let name = format!("{id:0length$}", length = (id * 37 % 1_500) as usize);
        match loader.insert("item", &[Value::Int(id), Value::Text(name)]) {
            Ok(()) => loaded += 1,
            Err(Error::Sql(error)) if error.sqlstate == "53200" => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if refused == 500 {
            break;
        }
    }
    drop(loader);
    db.checkpoint().unwrap();
    drop(db);
    let db = Database::open("/data", on(disk)).unwrap();
    let mut session = db.session().unwrap();
    for query in ["SELECT count(*) FROM item", "SELECT count(*) FROM item WHERE name >= ''"] {
        let found = session.query(query).unwrap().rows[0][0].clone();
        assert_eq!(found, Value::Int(loaded), "{query}, {refused} did not fit");
    }
}
