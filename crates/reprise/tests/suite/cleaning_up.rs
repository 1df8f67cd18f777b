//! Deleted records and older versions are cleaned up beside open transactions that write the same rows: what
//! such a transaction commits is there, under each of its keys.

use crate::common::Durably as _;
use crate::common::under;
use reprise::{Access, Scheme};

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, grp INT NOT NULL, code INT UNIQUE);
    CREATE INDEX t_grp ON t (grp);
    CREATE TABLE ballast (id INT PRIMARY KEY);
    INSERT INTO t VALUES (1, 1, 1), (2, 2, 2);";

/// Statements of the session that cleans up, the statement of the open transaction, and queries that then
/// find one row each.
struct Case {
    before: &'static [&'static str],
    writes: &'static str,
    finds: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case {
        before: &["INSERT INTO t VALUES (9, 9, 9)", "DELETE FROM t WHERE id = 9"],
        writes: "INSERT INTO t VALUES (9, 9, 9)",
        finds: &["id = 9", "grp = 9", "code = 9"],
    },
    Case {
        before: &["DELETE FROM t WHERE id = 1"],
        writes: "INSERT INTO t VALUES (1, 7, NULL)",
        finds: &["id = 1", "grp = 7"],
    },
    Case {
        before: &["INSERT INTO t VALUES (9, 9, 9)", "DELETE FROM t WHERE id = 9"],
        writes: "INSERT INTO t VALUES (9, 8, 7) ON CONFLICT (id) DO UPDATE SET grp = 0",
        finds: &["id = 9", "grp = 8", "code = 7"],
    },
    // The row gets a key of an older version, whose index entry is there until the version is cleaned up.
    Case {
        before: &["UPDATE t SET grp = 5 WHERE id = 1"],
        writes: "UPDATE t SET grp = 1 WHERE id = 1",
        finds: &["id = 1", "grp = 1", "code = 1"],
    },
    Case {
        before: &["UPDATE t SET code = 5 WHERE id = 1"],
        writes: "UPDATE t SET code = 1 WHERE id = 1",
        finds: &["id = 1", "grp = 1", "code = 1"],
    },
    Case {
        before: &["DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 3, 3)"],
        writes: "UPDATE t SET grp = 2, code = 2 WHERE id = 2",
        finds: &["id = 2", "grp = 2", "code = 2"],
    },
];

/// Runs a case. A snapshot may keep the older versions until the transaction is open.
fn run(case: &Case, scheme: Scheme, has_snapshot: bool) {
    let context = format!("{scheme}, {}, snapshot: {has_snapshot}", case.writes);
    let (_folder, db, mut writer) = under(scheme, TABLES);
    let (mut cleaner, mut reader) = (db.session().unwrap(), db.session().unwrap());
    if has_snapshot {
        reader.set_access(Access::ReadOnly);
        reader.begin().unwrap();
        reader.query("SELECT count(*) FROM t").unwrap();
    }
    case.before.iter().for_each(|text| cleaner.execute_script(text).unwrap());
    reader.rollback();
    writer.begin().unwrap();
    writer.query("INSERT INTO ballast VALUES (1)").unwrap();
    writer.query(case.writes).unwrap();
    // Two epochs end, so that the deletes are old enough.
    for id in 2..4 {
        cleaner.execute_script(&format!("INSERT INTO ballast VALUES ({id})")).unwrap();
        cleaner.collect_garbage();
    }
    match writer.commit() {
        Ok(commit) => commit.wait().unwrap(),
        // Validation has noticed that the record is gone. Locks keep it.
        Err(error) => {
            assert_eq!(error.sqlstate(), "40001", "{context}: {error}");
            assert!(!scheme.locks(), "{context}: {error}");
            return;
        }
    }
    for condition in case.finds {
        let text = format!("SELECT id FROM t WHERE {condition}");
        assert_eq!(cleaner.query(&text).unwrap().rows.len(), 1, "{context}: {text}");
    }
    let rows = cleaner.query("SELECT id FROM t").unwrap().rows.len();
    let counted = cleaner.query("SELECT id FROM t WHERE grp >= 0").unwrap().rows.len();
    assert_eq!(rows, counted, "{context}");
}

#[test]
fn what_an_open_transaction_writes_is_kept() {
    for scheme in Scheme::all() {
        for case in &CASES {
            run(case, scheme, false);
            run(case, scheme, true);
        }
    }
}

/// Queries that read deleted rows, or where they were.
const READS: [&str; 6] = [
    "SELECT * FROM t",
    "SELECT id FROM t WHERE id = 9",
    "SELECT id FROM t WHERE id BETWEEN 5 AND 12",
    "SELECT id FROM t WHERE grp = 9",
    "SELECT id FROM t WHERE code >= 3 ORDER BY code LIMIT 1",
    "SELECT max(id) FROM t",
];

/// What the transaction itself writes in the end: elsewhere, and where the deleted rows were.
const WRITES: [&str; 3] = [
    "INSERT INTO ballast VALUES (1)",
    "INSERT INTO t VALUES (7, 7, 7)",
    "INSERT INTO t SELECT n, n, n FROM generate_series(5, 60) AS n",
];

/// Opens a transaction that reads while deleted rows, `rows` of them, are cleaned up, and then writes;
/// meanwhile another session may add a row. Returns the SQLSTATE of its commit.
fn read_beside_cleaning(
    scheme: Scheme,
    [read, write]: [&str; 2],
    rows: i32,
    added: Option<i32>,
) -> Option<String> {
    let (_folder, db, mut reader) = under(scheme, TABLES);
    let mut cleaner = db.session().unwrap();
    cleaner.execute_script("CREATE TABLE more (id INT PRIMARY KEY)").unwrap();
    for id in 5..5 + rows {
        cleaner.execute_script(&format!("INSERT INTO t VALUES ({id}, {id}, {id})")).unwrap();
    }
    cleaner.execute_script("DELETE FROM t WHERE id >= 5").unwrap();
    reader.begin().unwrap();
    reader.query(read).unwrap();
    for id in 2..4 {
        cleaner.execute_script(&format!("INSERT INTO ballast VALUES ({id})")).unwrap();
        cleaner.collect_garbage();
    }
    if let Some(id) = added {
        cleaner.execute_script(&format!("INSERT INTO t VALUES ({id}, {id}, {id})")).unwrap();
        cleaner.execute_script("INSERT INTO more VALUES (1)").unwrap();
    }
    // Where a row was added, the transaction is in a circle: it comes before the insert that it has not seen,
    // and after the one that it sees.
    let after = reader.query("SELECT count(*) FROM more").and_then(|_| reader.query(write));
    let committed = after.and_then(|_| reader.commit()).and_then(|commit| commit.wait());
    committed.err().map(|error| error.sqlstate().to_owned())
}

#[test]
fn what_an_open_transaction_has_read_as_deleted_is_no_conflict() {
    for scheme in Scheme::all() {
        for read in READS {
            for (write, rows) in WRITES.iter().flat_map(|write| [(write, 5), (write, 60), (write, 200)]) {
                let state = read_beside_cleaning(scheme, [read, write], rows, None);
                assert_eq!(state, None, "{scheme}, {read}, {rows} rows, {write}");
            }
        }
    }
}

#[test]
fn a_row_that_comes_back_after_it_was_cleaned_up_is_a_conflict() {
    for read in READS {
        for rows in [5, 200] {
            let state = read_beside_cleaning(Scheme::Optimistic, [read, WRITES[0]], rows, Some(9));
            assert_eq!(state.as_deref(), Some("40001"), "{read}, {rows} rows");
        }
    }
}
