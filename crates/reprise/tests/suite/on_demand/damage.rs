//! Damaged blocks and short memory while rows are brought back.

use super::{COMMANDS, Setup, answer, copy_of, setups};
use crate::common::{digest_by, small};
use recovery::{RecoveryConfig, recover};
use reprise::{Database, Method, Progress, ReplayMode, Value, params};
use std::path::{Path, PathBuf};

/// Returns the largest part of the checkpoint.
fn largest_part(folder: &Path) -> PathBuf {
    let checkpoint = std::fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders =
        checkpoint.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("checkpoint"));
    let parts = std::fs::read_dir(folders.next().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    parts.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

/// A damaged block fails what looks for its rows, with an error that names the file, and nothing else. Once
/// it is repaired, the rows are there.
#[test]
fn a_damaged_block_fails_its_own_rows() {
    let folder = COMMANDS.folder(0);
    let part = largest_part(folder.path());
    let bytes = std::fs::read(&part).unwrap();
    let mut damaged = bytes.clone();
    damaged[200] ^= 1;
    std::fs::write(&part, &damaged).unwrap();
    let db = COMMANDS.open(folder.path(), 0);
    let mut session = db.session().unwrap();
    let of_items = (1..=3000).map(|n| format!("SELECT price FROM items WHERE id = {}", 2 * n));
    let of_sales = (1..=6000).map(|n| {
        let (shop, day) = (n % 5, n % 30 + 1);
        format!(
            "SELECT item FROM sales WHERE shop = {shop} AND day = DATE '2026-01-{day:02}' AND number = {n}"
        )
    });
    let found: Vec<_> = of_items.chain(of_sales).map(|text| answer(&mut session, &text)).collect();
    let failed: Vec<_> = found.iter().filter_map(|found| found.as_ref().err()).collect();
    assert!(!failed.is_empty() && failed.len() < 1500, "{} rows cannot be read", failed.len());
    let name = part.file_name().unwrap().to_string_lossy();
    assert!(failed.iter().all(|error| error.starts_with("XX001") && error.contains(&*name)), "{}", failed[0]);
    assert!(found.iter().flatten().all(|(rows, _)| rows.len() == 1), "the other rows are there");
    let error = db.checkpoint().unwrap_err();
    assert_eq!(error.sqlstate(), "XX001", "{error}");
    std::fs::write(&part, &bytes).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(answer(&mut session, "SELECT count(*) FROM sales").unwrap().0[0][0], Value::Int(6000));
}

/// A damaged block fails what needs its rows, or the calls of the log that need them, and nothing else; the
/// rest is as a closed recovery leaves it. Opened again with the repaired block, all is there.
#[test]
fn a_damaged_block_fails_what_the_log_has_for_it() {
    for setup in setups().filter(|own| own.has_checkpoint) {
        reads_beside_a_damaged_block(setup);
    }
}

fn reads_beside_a_damaged_block(setup: Setup) {
    let folder = setup.folder(250);
    let part = largest_part(folder.path());
    let reference = Database::open(copy_of(folder.path()).path(), setup.config()).unwrap();
    let live = reference.digest().unwrap();
    let bytes = std::fs::read(&part).unwrap();
    let mut damaged = bytes.clone();
    damaged[200] ^= 1;
    std::fs::write(&part, &damaged).unwrap();
    let db = setup.open(folder.path(), 0);
    let (mut session, mut other) = (db.session().unwrap(), reference.session().unwrap());
    let of_items = (1..=3000).map(|n| format!("SELECT * FROM items WHERE id = {}", 2 * n));
    let of_shops = (0..5).map(|shop| format!("SELECT * FROM shops WHERE shop = {shop}"));
    let (mut failed, mut found) = (0, 0);
    for text in of_shops.chain(of_items) {
        match answer(&mut session, &text) {
            Ok(rows) => {
                assert_eq!(rows, answer(&mut other, &text).unwrap(), "{setup:?}: {text}");
                found += 1;
            }
            Err(error) => {
                let name = part.file_name().unwrap().to_string_lossy();
                assert!(error.starts_with("XX001") && error.contains(&*name), "{setup:?}: {text}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 10 && found > 1000, "{setup:?}: {failed} rows cannot be read, {found} can");
    assert_eq!(db.checkpoint().unwrap_err().sqlstate(), "XX001");
    drop((session, db));
    std::fs::write(&part, &bytes).unwrap();
    assert_eq!(setup.open(folder.path(), 1).digest().unwrap(), live, "{setup:?}");
}

/// Rows that do not fit the memory fail what looks for them. Once there is room, the rest of a granule
/// follows behind the rows that are there.
#[test]
fn a_shortage_of_memory_leaves_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut roomy = small();
    roomy.memory_bytes = 1 << 30;
    let db = Database::open(folder.path(), roomy).unwrap();
    let mut session = db.session().unwrap();
    let fill = "CREATE TABLE wide (id INT PRIMARY KEY, about TEXT);
        INSERT INTO wide SELECT n, repeat('x', 4000) FROM generate_series(1, 30000) AS n";
    session.execute_script(fill).unwrap();
    db.checkpoint().unwrap();
    let live = db.digest().unwrap();
    drop((session, db));
    let memory_bytes = 64 << 20;
    let settings =
        RecoveryConfig { on_demand: true, memory_bytes, memory_ahead_bytes: 0, ..RecoveryConfig::default() };
    let tables = recover(&small().disk, folder.path(), &settings, &Progress::default()).unwrap().tables;
    tables.memory.allow_beyond_limit(0);
    let error = tables.recover_all().unwrap_err();
    assert_eq!(error.sqlstate, "53200", "{error}");
    tables.memory.allow_beyond_limit(100);
    tables.recover_all().unwrap();
    assert_eq!(tables.digest().unwrap(), live);
}

/// A procedure that handles a row's damage is logged by value, as all that handle errors: its replay meets no
/// damage.
#[test]
fn handled_damage_is_no_part_of_a_replay() {
    let folder = COMMANDS.folder(0);
    let part = largest_part(folder.path());
    let bytes = std::fs::read(&part).unwrap();
    let db = COMMANDS.open(folder.path(), 0);
    let mut session = db.session().unwrap();
    let define = "CREATE PROCEDURE look(at INT) LANGUAGE plpgsql AS $$ DECLARE n BIGINT; BEGIN
            FOR i IN 1..6000 LOOP SELECT id INTO n FROM items WHERE id = i; END LOOP;
            INSERT INTO empty VALUES (at);
        EXCEPTION WHEN OTHERS THEN INSERT INTO empty VALUES (at + 1); END $$;";
    session.execute_script(define).unwrap();
    let mut damaged = bytes.clone();
    damaged[200] ^= 1;
    std::fs::write(&part, &damaged).unwrap();
    session.call("look", params![10]).unwrap().commit.wait().unwrap();
    std::fs::write(&part, &bytes).unwrap();
    session.call("look", params![20]).unwrap().commit.wait().unwrap();
    let found = answer(&mut session, "SELECT id FROM empty ORDER BY id").unwrap().0;
    assert_eq!(found, [[Value::Int(11)], [Value::Int(20)]]);
    let live = db.digest().unwrap();
    drop((session, db));
    for method in [Method::Clr, Method::ClrP] {
        let digest = digest_by(&small().disk, folder.path(), method, ReplayMode::default(), 2);
        assert_eq!(digest, live, "{method}");
    }
}
