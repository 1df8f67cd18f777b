//! Definitions that change in transactions of several statements: all or nothing, by every method of
//! recovery.

mod waits;

use crate::common::Durably as _;
use crate::common::{on, recovered_digest_of, recovered_digest_on, small};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Error, Nowhere, Sequencing, Session, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "/db";

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(Nowhere))?;
    completion.commit.wait()
}

fn in_transaction(session: &mut Session, statements: &[&str]) -> Result<(), Error> {
    session.begin().unwrap();
    for statement in statements {
        if let Err(error) = run(session, statement) {
            session.rollback();
            return Err(error);
        }
    }
    session.commit()?.wait()
}

const BEFORE: &str = "
CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL);
CREATE TABLE old (id INT PRIMARY KEY, what TEXT);
INSERT INTO account VALUES (1, 100), (2, 200), (3, 300);
INSERT INTO old VALUES (1, 'one'), (2, 'two');
";

const LOGS: [(Content, Sequencing); 6] = [
    (Content::Command, Sequencing::Epoch),
    (Content::Command, Sequencing::Serial),
    (Content::Command, Sequencing::Gsn),
    (Content::Logical, Sequencing::Epoch),
    (Content::Logical, Sequencing::Ssn),
    (Content::Physiological, Sequencing::Epoch),
];

/// Everything that may stand beside each other in one transaction.
const MIGRATION: [&str; 15] = [
    "CREATE TABLE note (id SERIAL PRIMARY KEY, account INT REFERENCES account, body TEXT)",
    "CREATE INDEX note_account ON note (account)",
    "INSERT INTO note (account, body) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "CREATE FUNCTION twice(n INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN n * 2; END $$",
    "INSERT INTO note (account, body) SELECT id, 'twice ' || twice(balance) FROM account",
    "TRUNCATE old",
    "INSERT INTO old VALUES (7, 'again')",
    "DELETE FROM account WHERE id = 4",
    "CREATE VIEW rich AS SELECT * FROM account WHERE balance > 150",
    "ALTER TABLE account ADD COLUMN name TEXT",
    "UPDATE account SET name = 'unnamed' WHERE name IS NULL",
    "ALTER TABLE account ALTER COLUMN name SET NOT NULL",
    "ALTER TABLE account ALTER COLUMN name SET DEFAULT 'none'",
    "CREATE TABLE gone (id INT)",
    "DROP TABLE gone",
];

fn numbers(session: &mut Session, query: &str) -> Vec<i64> {
    let answer = session.query(query).unwrap();
    answer.rows.iter().map(|row| if let Value::Int(n) = row[0] { n } else { -1 }).collect()
}

fn check_after(session: &mut Session) {
    assert_eq!(numbers(session, "SELECT id FROM note ORDER BY id"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(numbers(session, "SELECT id FROM note WHERE account = 2 ORDER BY id"), [2, 5]);
    assert_eq!(numbers(session, "SELECT id FROM old"), [7]);
    assert_eq!(numbers(session, "SELECT count(*) FROM rich"), [2]);
    assert_eq!(numbers(session, "SELECT count(*) FROM account WHERE name = 'unnamed'"), [3]);
    assert!(session.query("SELECT * FROM gone").is_err());
}

fn open_with(change: impl FnOnce(&mut Config)) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    change(&mut config);
    let database = Database::open(folder.path(), config).unwrap();
    (folder, database)
}

#[test]
fn a_migration_happens_by_every_method() {
    for (content, sequencing) in LOGS {
        let (folder, database) =
            open_with(|config| (config.content, config.sequencing) = (content, sequencing));
        let mut session = database.session().unwrap();
        session.execute_script(BEFORE).unwrap();
        in_transaction(&mut session, &MIGRATION).unwrap();
        check_after(&mut session);
        run(&mut session, "INSERT INTO note (account, body) VALUES (1, 'later')").unwrap();
        run(&mut session, "UPDATE account SET name = 'x' WHERE id = 1").unwrap();
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "{content}, {sequencing}");
        let database = Database::open(folder.path(), small()).unwrap();
        let mut session = database.session().unwrap();
        assert_eq!(numbers(&mut session, "SELECT count(*) FROM note"), [7]);
        assert!(numbers(&mut session, "SELECT nextval('note_id_seq')")[0] > 7);
    }
}

#[test]
fn what_is_rolled_back_was_never_there() {
    let (_folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session.execute_script(BEFORE).unwrap();
    let before = database.digest().unwrap();
    session.begin().unwrap();
    MIGRATION.iter().for_each(|statement| run(&mut session, statement).unwrap());
    // No other session sees the changes. Those of tables that it knows it waits for.
    let mut other = database.session().unwrap();
    other.set_lock_timeout(Some(Duration::from_millis(20)));
    assert_eq!(run(&mut other, "SELECT * FROM note").unwrap_err().sqlstate(), "42P01");
    assert_eq!(run(&mut other, "SELECT * FROM old").unwrap_err().sqlstate(), "55P03");
    session.rollback();
    assert!(session.query("SELECT * FROM note").is_err());
    assert!(session.call_durably("twice", &[Value::Int(1)]).is_err());
    assert_eq!(database.digest().unwrap(), before);
    in_transaction(&mut session, &MIGRATION).unwrap();
    check_after(&mut session);
}

/// A transaction with definitions waits for all that are open when it commits. One that waits for a row of it
/// has lost.
#[test]
fn an_open_transaction_that_waits_for_definitions_ends() {
    let (_folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session.execute_script(BEFORE).unwrap();
    let mut other = database.session().unwrap();
    for (place, waits_first) in [true, false].into_iter().enumerate() {
        session.begin().unwrap();
        run(&mut session, "UPDATE account SET balance = balance + 1 WHERE id = 1").unwrap();
        run(&mut session, &format!("CREATE TABLE own{place} (id INT PRIMARY KEY)")).unwrap();
        other.begin().unwrap();
        run(&mut other, "UPDATE account SET balance = balance + 1 WHERE id = 2").unwrap();
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            let pause = Duration::from_millis(200);
            let other = &mut other;
            let waiting = scope.spawn(move || {
                std::thread::sleep(if waits_first { Duration::ZERO } else { pause });
                let waited = run(other, "UPDATE account SET balance = balance + 1 WHERE id = 1");
                other.rollback();
                waited
            });
            std::thread::sleep(if waits_first { pause } else { Duration::ZERO });
            drop(session.commit().unwrap());
            assert_eq!(waiting.join().unwrap().unwrap_err().sqlstate(), "40P01");
        });
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    assert!(run(&mut session, "SELECT * FROM own1").is_ok());
}

/// The tables of a definition and of statements before and after it are the same.
#[test]
fn definitions_and_statements_take_turns() {
    for (content, sequencing) in LOGS {
        for statements in [
            &["INSERT INTO old VALUES (5, 'five')", "ALTER TABLE old ADD COLUMN more INT"][..],
            &["INSERT INTO old VALUES (5, 'five')", "CREATE INDEX ON old (what)"],
            &["INSERT INTO old VALUES (5, 'five')", "TRUNCATE old"],
            &["ALTER TABLE old ADD COLUMN more INT", "INSERT INTO old VALUES (5, 'five', 5)"],
            &["CREATE INDEX old_what ON old (what)", "SELECT * FROM old WHERE what = 'two'"],
            &["CREATE UNIQUE INDEX ON account (id)", "INSERT INTO account VALUES (9, 9)"],
            &[
                "DELETE FROM account WHERE id = 2",
                "ALTER TABLE old ADD COLUMN a INT DEFAULT 1 REFERENCES account",
                "UPDATE old SET a = 3 WHERE id = 1",
            ],
            &["DELETE FROM account WHERE id = 3", "ALTER TABLE old ADD FOREIGN KEY (id) REFERENCES account"],
            &["ALTER TABLE old ADD FOREIGN KEY (id) REFERENCES account", "DELETE FROM account WHERE id = 3"],
            &["ALTER TABLE old ADD COLUMN n SERIAL", "SELECT nextval('old_n_seq')"],
            &["ALTER TABLE old ADD COLUMN n SERIAL", "SELECT last_value FROM old_n_seq"],
            &[
                "CREATE SEQUENCE own",
                "SELECT nextval('own')",
                "ALTER TABLE old ADD COLUMN n INT DEFAULT nextval('own')",
                "INSERT INTO old (id) VALUES (6)",
            ],
            &[
                "UPDATE old SET what = upper(what)",
                "ALTER TABLE old ALTER COLUMN what SET NOT NULL",
                "UPDATE old SET what = lower(what) WHERE id = 1",
                "ALTER TABLE old ADD UNIQUE (what)",
                "UPDATE old SET what = 'three' WHERE id = 2",
                "ALTER TABLE old RENAME TO older",
                "INSERT INTO older VALUES (5, 'five')",
                "ALTER TABLE older RENAME TO old",
            ],
        ] {
            let (folder, database) =
                open_with(|config| (config.content, config.sequencing) = (content, sequencing));
            let mut session = database.session().unwrap();
            session.execute_script(BEFORE).unwrap();
            in_transaction(&mut session, statements)
                .unwrap_or_else(|error| panic!("{content}, {statements:?}: {error}"));
            run(&mut session, "UPDATE old SET what = what || 'x'").unwrap();
            let digest = database.digest().unwrap();
            let (_plain, plain) = open_with(|_| {});
            let mut one_by_one = plain.session().unwrap();
            one_by_one.execute_script(BEFORE).unwrap();
            for statement in statements.iter().chain(&["UPDATE old SET what = what || 'x'"]) {
                run(&mut one_by_one, statement).unwrap();
            }
            for table in ["old", "account"] {
                let all = format!("SELECT * FROM {table} ORDER BY id");
                let rows = |session: &mut Session| session.query(&all).unwrap().rows;
                assert_eq!(rows(&mut session), rows(&mut one_by_one), "{content}, {statements:?}");
            }
            drop((session, database));
            assert_eq!(recovered_digest_of(content, folder.path()), digest, "{content}, {statements:?}");
        }
    }
}

/// A row that does not fit is seen by the statement that it does not fit, and a savepoint before that stays.
#[test]
fn a_definition_that_fails_is_taken_back() {
    let (_folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session.execute_script(BEFORE).unwrap();
    run(&mut session, "INSERT INTO old VALUES (5, 'two'), (6, NULL)").unwrap();
    let error = in_transaction(&mut session, &["CREATE UNIQUE INDEX ON old (what)"]).unwrap_err();
    assert_eq!(error.sqlstate(), "23505");
    assert_eq!(numbers(&mut session, "SELECT count(*) FROM old"), [4]);
    session.begin().unwrap();
    run(&mut session, "UPDATE old SET id = id + 10").unwrap();
    for (statement, state) in [
        ("ALTER TABLE old ALTER COLUMN what SET NOT NULL", "23502"),
        ("ALTER TABLE old ADD UNIQUE (what)", "23505"),
        ("ALTER TABLE old ADD CHECK (id > 11)", "23514"),
        ("ALTER TABLE old ADD FOREIGN KEY (id) REFERENCES account", "23503"),
        ("ALTER TABLE old ALTER COLUMN what TYPE INT USING what::int", "22P02"),
    ] {
        session.set_savepoint("before").unwrap();
        assert_eq!(run(&mut session, statement).unwrap_err().sqlstate(), state, "{statement}");
        session.fail_transaction();
        session.roll_back_to_savepoint("before").unwrap();
        run(&mut session, "UPDATE old SET what = what || 'x' WHERE id = 11").unwrap();
        assert_eq!(numbers(&mut session, "SELECT id FROM old ORDER BY id"), [11, 12, 15, 16]);
    }
    session.commit().unwrap().wait().unwrap();
    assert_eq!(numbers(&mut session, "SELECT length(what) FROM old WHERE id = 11"), [8]);
}

/// While a transaction has a table changed and uses it, other transactions wait, and then see all or nothing.
#[test]
fn other_transactions_wait_for_a_changed_table() {
    let (_folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session.execute_script(BEFORE).unwrap();
    for (ends_well, expected) in [(false, [1, 2].as_slice()), (true, &[12])] {
        session.begin().unwrap();
        run(&mut session, "UPDATE old SET id = id + 10 WHERE id = 2").unwrap();
        run(&mut session, "ALTER TABLE old ADD CHECK (id > 0)").unwrap();
        run(&mut session, "DELETE FROM old WHERE id = 1").unwrap();
        let mut other = database.session().unwrap();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || numbers(&mut other, "SELECT id FROM old ORDER BY id"));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!reading.is_finished());
            // A checkpoint does not wait for the open transaction, and the transaction not for it.
            database.checkpoint().unwrap();
            match ends_well {
                true => drop(session.commit().unwrap()),
                false => session.rollback(),
            }
            assert_eq!(reading.join().unwrap(), expected);
        });
    }
    // One that waits for an end that does not come gives up.
    session.begin().unwrap();
    run(&mut session, "ALTER TABLE old ADD CHECK (id > 1)").unwrap();
    let mut other = database.session().unwrap();
    other.set_lock_timeout(Some(Duration::from_millis(50)));
    assert_eq!(run(&mut other, "SELECT * FROM old").unwrap_err().sqlstate(), "55P03");
    // The session ends, and with it its transaction.
    drop(session);
    assert_eq!(numbers(&mut other, "SELECT id FROM old"), [12]);
}

/// What was written is taken back by the indexes that it was written under.
#[test]
fn the_indexes_of_a_written_table_stay() {
    let (folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (id INT PRIMARY KEY, k INT, n INT UNIQUE);
             CREATE INDEX t_k ON t (k);
             INSERT INTO t VALUES (1, 10, 1), (2, 20, 2);",
        )
        .unwrap();
    for write in [
        "INSERT INTO t VALUES (3, 30, 3)",
        "UPDATE t SET k = 40, n = 9 WHERE id = 1",
        "DELETE FROM t WHERE k = 20",
    ] {
        for drop in ["DROP INDEX t_k", "ALTER TABLE t DROP CONSTRAINT t_n_key"] {
            session.begin().unwrap();
            run(&mut session, write).unwrap();
            let seen = numbers(&mut session, "SELECT id FROM t WHERE k > 0 ORDER BY k");
            run(&mut session, drop).unwrap();
            assert_eq!(numbers(&mut session, "SELECT id FROM t WHERE k > 0 ORDER BY k"), seen);
            session.rollback();
            assert_eq!(numbers(&mut session, "SELECT id FROM t WHERE k IN (10, 20, 30) ORDER BY k"), [1, 2]);
        }
    }
    // The other way round, and taken back.
    for ends_well in [false, true] {
        session.begin().unwrap();
        for statement in [
            "DROP INDEX t_k",
            "INSERT INTO t VALUES (3, 30, 3)",
            "UPDATE t SET k = 40, n = 9 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        ] {
            run(&mut session, statement).unwrap();
        }
        match ends_well {
            false => session.rollback(),
            true => {
                session.commit().unwrap().wait().unwrap();
            }
        }
        let expected: &[i64] = if ends_well { &[3, 1] } else { &[1, 2] };
        assert_eq!(numbers(&mut session, "SELECT id FROM t WHERE k > 0 ORDER BY k"), expected);
    }
    let digest = database.digest().unwrap();
    drop((session, database));
    assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
}

/// Records have slots only where a log needs them.
#[test]
fn tables_change_after_a_physical_log() {
    let folder = tempfile::tempdir().unwrap();
    for (content, statement, state) in [
        (Content::Physical, "CREATE TABLE t (id INT PRIMARY KEY)", None),
        (Content::Physical, "ALTER TABLE t ADD COLUMN z INT DEFAULT 1", None),
        (Content::Physical, "ALTER TABLE t DROP COLUMN z", None),
        (Content::Physical, "INSERT INTO t VALUES (1)", None),
        (Content::Physical, "ALTER TABLE t ADD COLUMN a INT DEFAULT 1", Some("0A000")),
        (Content::Command, "ALTER TABLE t ADD COLUMN a INT DEFAULT 4", None),
        (Content::Physical, "INSERT INTO t VALUES (2, 5)", None),
        (Content::Physical, "CREATE TABLE u (id INT PRIMARY KEY)", None),
        (Content::Logical, "ALTER TABLE t ADD COLUMN b INT DEFAULT 6", None),
    ] {
        let mut config = small();
        config.content = content;
        let database = Database::open(folder.path(), config).unwrap();
        let mut session = database.session().unwrap();
        let ran = run(&mut session, statement);
        assert_eq!(ran.as_ref().err().map(Error::sqlstate), state, "{statement}");
    }
    let database = Database::open(folder.path(), small()).unwrap();
    let mut session = database.session().unwrap();
    assert_eq!(numbers(&mut session, "SELECT a FROM t WHERE b = 6 ORDER BY id"), [4, 5]);
}

fn work(disk: &Arc<dyn Disk>) -> Result<(), Error> {
    let database = Database::open(FOLDER, on(Arc::clone(disk)))?;
    let mut session = database.session()?;
    session.execute_script(BEFORE)?;
    in_transaction(&mut session, &MIGRATION)?;
    run(&mut session, "INSERT INTO note (account, body) VALUES (1, 'later')")
}

#[test]
fn a_crash_at_every_call_leaves_all_or_nothing() {
    let whole = CrashingDisk::default();
    work(&(Arc::new(whole.clone()) as Arc<dyn Disk>)).unwrap();
    let mut seen = [0; 2];
    for crash in 0..whole.calls() + 2 {
        let disk = CrashingDisk::default();
        disk.crash_after(crash);
        let finished = work(&(Arc::new(disk.clone()) as Arc<dyn Disk>)).is_ok();
        let after: Arc<dyn Disk> = Arc::new(disk.after_crash(crash));
        recovered_digest_on(&after, Path::new(FOLDER));
        let database = Database::open(FOLDER, on(after)).unwrap();
        let mut session = database.session().unwrap();
        match session.query("SELECT count(*) FROM note") {
            Ok(_) => {
                let own = numbers(&mut session, "SELECT count(*) FROM note WHERE body <> 'later'");
                assert_eq!(own, [6], "crash {crash}");
                assert_eq!(numbers(&mut session, "SELECT id FROM old"), [7]);
                seen[1] += 1;
            }
            Err(_) => {
                assert!(!finished);
                seen[0] += 1;
            }
        }
    }
    assert!(seen[0] > 5 && seen[1] > 2, "{seen:?}");
}

/// Migration tools make tables, and then alter them one step at a time, in the same transaction.
#[test]
fn tables_are_made_and_altered_step_by_step() {
    let migrations: [&[&str]; 3] = [
        &[
            "CREATE TABLE p1 (id INT PRIMARY KEY)",
            "CREATE TABLE p2 (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT)",
            "ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p1",
            "ALTER TABLE c ADD FOREIGN KEY (b) REFERENCES p2",
            "INSERT INTO p1 VALUES (1)",
            "INSERT INTO c VALUES (1, 1, NULL)",
        ],
        &[
            "CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT)",
            "CREATE INDEX c_a ON c (a)",
            "ALTER TABLE c ADD UNIQUE (b)",
            "INSERT INTO c VALUES (1, 1, 1)",
        ],
        &[
            "CREATE TABLE c (id INT PRIMARY KEY, a INT)",
            "ALTER TABLE c ADD COLUMN b INT DEFAULT 5",
            "CREATE INDEX c_b ON c (b)",
            "ALTER TABLE c ADD CONSTRAINT positive CHECK (b > 0)",
            "INSERT INTO c (id, a) VALUES (1, 1)",
            "ALTER TABLE old ADD COLUMN more INT",
        ],
    ];
    for statements in migrations {
        let (folder, db) = open_with(|_| {});
        let mut session = db.session().unwrap();
        session.execute_script(BEFORE).unwrap();
        in_transaction(&mut session, statements).unwrap_or_else(|error| panic!("{statements:?}: {error}"));
        assert_eq!(numbers(&mut session, "SELECT a FROM c"), [1], "{statements:?}");
        session.query("INSERT INTO c (id, a) VALUES (2, 1)").unwrap();
        let digest = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest, "{statements:?}");
    }
}

/// A table of a query is there with all its rows or not at all, in a transaction, in a script and after a
/// recovery.
#[test]
fn a_table_of_a_query_comes_back() {
    let (folder, database) = open_with(|_| {});
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (id INT PRIMARY KEY, w TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c');
             CREATE TABLE first AS SELECT id, w FROM t WHERE id < 3;
             SELECT id * 10 AS id INTO second FROM t;",
        )
        .unwrap();
    session.begin().unwrap();
    run(&mut session, "INSERT INTO t VALUES (4, 'd')").unwrap();
    run(&mut session, "CREATE TABLE third AS SELECT * FROM t").unwrap();
    run(&mut session, "INSERT INTO third VALUES (5, 'e')").unwrap();
    session.commit().unwrap().wait().unwrap();
    session.begin().unwrap();
    run(&mut session, "CREATE TABLE gone AS SELECT * FROM third").unwrap();
    session.rollback();
    let failed = run(&mut session, "CREATE TABLE failed AS SELECT 6 / (id - 3) AS id FROM t");
    assert_eq!(failed.unwrap_err().sqlstate(), "22012");
    let digest = database.digest().unwrap();
    drop((session, database));
    let database = Database::open(folder.path(), small()).unwrap();
    assert_eq!(database.digest().unwrap(), digest);
    let mut session = database.session().unwrap();
    assert_eq!(numbers(&mut session, "SELECT id FROM first ORDER BY id"), [1, 2]);
    assert_eq!(numbers(&mut session, "SELECT id FROM second ORDER BY id"), [10, 20, 30]);
    assert_eq!(numbers(&mut session, "SELECT id FROM third ORDER BY id"), [1, 2, 3, 4, 5]);
    for table in ["gone", "failed"] {
        let missing = run(&mut session, &format!("SELECT * FROM {table}"));
        assert_eq!(missing.unwrap_err().sqlstate(), "42P01");
    }
}

/// ALTER SEQUENCE changes the numbers of its own transaction at once, and is taken back with it.
#[test]
fn a_sequence_is_altered_with_its_transaction() {
    for (content, sequencing) in LOGS {
        let (folder, database) =
            open_with(|config| (config.content, config.sequencing) = (content, sequencing));
        let mut session = database.session().unwrap();
        session.execute_script("CREATE SEQUENCE s").unwrap();
        let next = |session: &mut Session| numbers(session, "SELECT nextval('s')")[0];
        assert_eq!(next(&mut session), 1);
        session.begin().unwrap();
        run(&mut session, "ALTER SEQUENCE s RESTART WITH 50").unwrap();
        assert_eq!(next(&mut session), 50);
        session.rollback();
        assert_eq!(next(&mut session), 2);
        session.begin().unwrap();
        session.set_savepoint("a").unwrap();
        run(&mut session, "ALTER SEQUENCE s RESTART WITH 70").unwrap();
        session.roll_back_to_savepoint("a").unwrap();
        assert_eq!(next(&mut session), 3);
        run(&mut session, "ALTER SEQUENCE s INCREMENT BY 10").unwrap();
        assert_eq!(next(&mut session), 13);
        session.commit().unwrap().wait().unwrap();
        assert_eq!(next(&mut session), 23);
        in_transaction(&mut session, &["ALTER SEQUENCE s INCREMENT BY 5 RESTART WITH 100"]).unwrap();
        assert_eq!(next(&mut session), 100);
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "{content}, {sequencing}");
        let database = Database::open(folder.path(), small()).unwrap();
        let mut session = database.session().unwrap();
        let after = next(&mut session);
        assert!(after >= 105 && after % 5 == 0, "{after}");
    }
}
