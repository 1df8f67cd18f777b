//! Transactions whose records no log buffer holds.

use crate::common::{open, recovered_digest_of, small};
use reprise::{Content, Database, Value, params};
use std::path::{Path, PathBuf};

const ROWS: i64 = 60_000;

fn large_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if name.starts_with("large-") => found.push(path),
                false => {}
            }
        }
    }
    found
}

fn fill(database: &Database) {
    let mut session = database.session().unwrap();
    session.execute_script("CREATE TABLE t (id BIGINT PRIMARY KEY, body TEXT)").unwrap();
    let insert = format!("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, {ROWS}) AS n");
    assert_eq!(session.query(&insert).unwrap().affected, ROWS as u64);
    session.query("UPDATE t SET body = 'changed' WHERE id % 2 = 0").unwrap();
    session.query("DELETE FROM t WHERE id % 3 = 0").unwrap();
}

#[test]
fn they_are_recovered_by_every_method() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    fill(&database);
    assert!(!large_files(folder.path()).is_empty());
    let digest = database.digest().unwrap();
    drop(database);
    assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
    // And again, from an incarnation that did not write them; then a checkpoint holds what they say.
    let database = open(folder.path());
    assert_eq!(database.digest().unwrap(), digest);
    assert!(!large_files(folder.path()).is_empty());
    database.checkpoint().unwrap();
    assert!(large_files(folder.path()).is_empty());
    drop(database);
    assert_eq!(open(folder.path()).digest().unwrap(), digest);
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path()));
    let file = large_files(folder.path()).pop().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    for damage in 0..3 {
        let mut damaged = bytes.clone();
        match damage {
            0 => damaged[bytes.len() / 2] ^= 1,
            1 => damaged.truncate(bytes.len() - 1),
            _ => damaged[3] ^= 1,
        }
        std::fs::write(&file, damaged).unwrap();
        let error = Database::open(folder.path(), small()).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    let error = Database::open(folder.path(), small()).unwrap_err().to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
    std::fs::write(&file, bytes).unwrap();
    open(folder.path());
}

#[test]
fn large_arguments_are_logged_as_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE blob (id INT PRIMARY KEY, body TEXT);
             CREATE PROCEDURE keep(p_id INT, p_body TEXT) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO blob VALUES (p_id, p_body); END $$;",
        )
        .unwrap();
    session.call("keep", &[Value::Int(1), Value::Text("y".repeat(6 << 20))]).unwrap();
    // What fails leaves nothing behind.
    assert!(session.call("keep", &[Value::Int(1), Value::Text("z".repeat(6 << 20))]).is_err());
    session.call("keep", params![2, "small"]).unwrap();
    let digest = database.digest().unwrap();
    drop((session, database));
    assert_eq!(large_files(folder.path()).len(), 1);
    assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
}
