//! Transactions that use different columns of the same rows: they are no conflict, and what they make of the
//! rows is what they make one after the other.

use crate::common::{Durably as _, compiled_on, recovered_digest_on, schemes_of, with};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Error, Sequencing, Session, Value};
use std::path::Path;
use std::sync::Arc;

/// Rows of `pairs` and of `entries`, which has indexes.
const ROWS: i64 = 3;
const CALLS: usize = 1_500;

const SCRIPT: &str = "
    CREATE TABLE pairs (id INT PRIMARY KEY, a BIGINT, b BIGINT NOT NULL, c BIGINT NOT NULL, name TEXT,
        d DOUBLE PRECISION DEFAULT 0);
    CREATE TABLE entries (id INT PRIMARY KEY, a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL);
    CREATE INDEX entries_ab ON entries (a, b);
    INSERT INTO pairs SELECT n, 1, n, 0, 'n' FROM generate_series(1, 3) AS n;
    INSERT INTO entries SELECT n, n, n, 0 FROM generate_series(1, 3) AS n;

    -- Writes what it reads in one column into another column, of another row or of the same one.
    CREATE PROCEDURE carries(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT;
    BEGIN
        SELECT a INTO v FROM pairs WHERE id = x;
        UPDATE pairs SET b = (b * 3 + coalesce(v, 7)) % 1009 WHERE id = y;
    END $$;
    CREATE PROCEDURE carries_on(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT;
    BEGIN
        SELECT b INTO v FROM pairs WHERE id = x;
        UPDATE pairs SET c = (c * 5 + v) % 1009 WHERE id = y;
    END $$;
    -- Comes back to earlier values.
    CREATE PROCEDURE toggles(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE pairs SET a = 1 - a WHERE id = x;
        UPDATE pairs SET a = CASE WHEN a IS NULL THEN 0 ELSE NULL END WHERE id = y AND y > x;
    END $$;
    -- Reads one column of several rows, and a further column of a row that it has written.
    CREATE PROCEDURE compares(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT; w BIGINT; u BIGINT;
    BEGIN
        SELECT a INTO v FROM pairs WHERE id = x;
        SELECT a INTO w FROM pairs WHERE id = y;
        IF v IS NOT DISTINCT FROM w THEN
            UPDATE pairs SET a = coalesce(v, 1) % 2 WHERE id = y;
            SELECT c INTO u FROM pairs WHERE id = y;
            UPDATE pairs SET name = 'n' || (u % 10) WHERE id = x;
        END IF;
    END $$;
    -- Zeros compare as equal, and are not the same.
    CREATE PROCEDURE negates(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v DOUBLE PRECISION; u BIGINT := 0;
    BEGIN
        SELECT d INTO v FROM pairs WHERE id = x;
        FOR n IN 1..1000 LOOP u := u + n; END LOOP;
        UPDATE pairs SET name = v::text WHERE id = y;
        UPDATE pairs SET d = d * -1 WHERE id = 1;
    END $$;
    -- An index has a column that they do not read. They take some time.
    CREATE PROCEDURE enters(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT := 0;
    BEGIN
        UPDATE entries SET b = (b * 3 + 1) % 11 WHERE id = x;
        FOR n IN 1..3000 LOOP v := v + n; END LOOP;
        UPDATE entries SET c = c + 1 WHERE id = y;
    END $$;
    CREATE PROCEDURE moves(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT;
    BEGIN
        SELECT c INTO v FROM entries WHERE id = y;
        UPDATE entries SET a = (a + v) % 7 WHERE id = x;
        FOR n IN 1..3000 LOOP v := v + n; END LOOP;
    END $$;
    CREATE PROCEDURE leaves(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT;
    BEGIN
        SELECT b INTO v FROM pairs WHERE id = x;
        DELETE FROM entries WHERE id = y AND c % 5 = 0;
        INSERT INTO entries VALUES (y, v % 7, 0, v) ON CONFLICT (id) DO NOTHING;
    END $$;";

const PROCEDURES: [&str; 8] =
    ["carries", "carries_on", "toggles", "compares", "negates", "enters", "moves", "leaves"];

fn calls(session: &mut Session, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..CALLS {
        let procedure = PROCEDURES[random.random_range(0..PROCEDURES.len())];
        let mut row = || Value::Int(random.random_range(1..=ROWS));
        let arguments = [row(), row()];
        let called = session.call(procedure, &arguments);
        // Another session may leave a row out.
        assert!(called.is_ok(), "{procedure}: {called:?}");
    }
}

/// Runs calls of several threads. A serial run of them in the order of their numbers makes the same rows.
fn check(script: &str, config: Config, calls: impl Fn(&mut Session, u64) + Sync) {
    let (disk, folder) = (Arc::clone(&config.disk), Path::new("/data"));
    let context = format!("{} {}", config.concurrency, config.sequencing);
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(script).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (mut session, calls) = (db.session().unwrap(), &calls);
            scope.spawn(move || calls(&mut session, seed));
        }
    });
    for table in ["pairs", "entries"] {
        let rows = session.query(&format!("SELECT id, a, b FROM {table} WHERE a IS NOT NULL")).unwrap().rows;
        for row in rows {
            let by_index = format!("SELECT id FROM {table} WHERE a = {} AND b = {}", row[1], row[2]);
            let found = session.query(&by_index).unwrap().rows;
            assert!(found.iter().any(|found| found[0] == row[0]), "{context}: {by_index}");
        }
    }
    let live = db.digest().unwrap();
    drop((session, db));
    if context.ends_with("ssn") {
        // Its log holds values.
        return;
    }
    assert_eq!(recovered_digest_on(&disk, folder), live, "{context}");
}

fn configs() -> impl Iterator<Item = Config> {
    let sequencings = Sequencing::NAMES.iter().map(|(_, sequencing)| *sequencing);
    let sequencings = sequencings.filter(|sequencing| *sequencing != Sequencing::Ssn);
    sequencings.flat_map(|sequencing| {
        schemes_of(1).filter(move |scheme| sequencing == Sequencing::Epoch || !scheme.runs_batches()).map(
            move |scheme| {
                let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
                let mut config = compiled_on(disk);
                (config.concurrency, config.sequencing) = (scheme, sequencing);
                config
            },
        )
    })
}

#[test]
fn what_threads_make_of_columns_is_what_a_serial_run_makes() {
    configs().for_each(|config| check(SCRIPT, config, calls));
}

const COUNTERS: &str = "
    CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL, m NUMERIC(8,2), s SMALLINT NOT NULL,
        r NUMERIC(4,1) NOT NULL, k BIGINT CHECK (k > -1000000), f DOUBLE PRECISION);
    INSERT INTO counters SELECT g, g, 0, 32000, 0, 0, 0.1 FROM generate_series(1, 3) AS g;
    CREATE PROCEDURE waits() LANGUAGE plpgsql AS $$
    DECLARE v BIGINT := 0;
    BEGIN FOR i IN 1..1500 LOOP v := v + i; END LOOP; END $$;
    CREATE PROCEDURE adds(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE counters SET n = n + x, m = m - 1.25 * x, r = r + 0.1, k = k + 1, f = f + 0.1 WHERE id = y;
        CALL waits();
        UPDATE pairs SET b = (b * 3 + x) % 1009 WHERE id = x;
    END $$;
    CREATE PROCEDURE adds_twice(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE counters SET n = n + x WHERE id = y;
        UPDATE counters SET n = 2 + n, m = m + 3 WHERE id = x;
        CALL waits();
    END $$;
    CREATE PROCEDURE reads(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v BIGINT; w BIGINT;
    BEGIN
        UPDATE counters SET n = n - x, m = m + x WHERE id = y RETURNING s INTO v;
        CALL waits();
        SELECT n INTO w FROM counters WHERE id = x;
        UPDATE pairs SET c = (c * 5 + v + w) % 1009 WHERE id = y;
    END $$;
    CREATE PROCEDURE sets(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE counters SET n = x, m = CASE WHEN m IS NULL THEN 0 END WHERE id = y;
        CALL waits();
    END $$;
    CREATE PROCEDURE limits(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE counters SET s = s + 300 * x, r = r - 99 WHERE id = y;
        CALL waits();
        UPDATE counters SET s = s - 200 WHERE id = x;
    END $$;
    CREATE PROCEDURE narrows(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE counters SET n = (n + 9000 * x)::SMALLINT WHERE id = y;
        CALL waits();
        UPDATE counters SET m = (m + 20 * x)::NUMERIC(4,2) WHERE id = x AND s > 0;
        CALL waits();
    END $$;
    CREATE PROCEDURE undoes(x INT, y INT) LANGUAGE plpgsql AS $$
    BEGIN
        BEGIN
            UPDATE counters SET n = n + 100, s = s - 1 WHERE id = y;
            CALL waits();
            IF x > 1 THEN RAISE EXCEPTION 'undone'; END IF;
        EXCEPTION WHEN raise_exception THEN
            UPDATE counters SET n = n + 1 WHERE id = y;
        END;
    END $$;
    CREATE PROCEDURE replaces(x INT, y INT) LANGUAGE plpgsql AS $$
    DECLARE v INT;
    BEGIN
        SELECT n INTO v FROM counters WHERE id = y;
        UPDATE counters SET n = n + v WHERE id = y AND n < 100000;
        CALL waits();
        DELETE FROM counters WHERE id = x AND n % 7 = 0;
        INSERT INTO counters VALUES (x, v % 100, 1, 32000, 1, 1, 1) ON CONFLICT (id) DO NOTHING;
    END $$;";

const SUMS: [&str; 8] = ["adds", "adds_twice", "reads", "sets", "limits", "narrows", "undoes", "replaces"];

/// Transactions add to the same columns at the same time. What each adds counts once, whether another one
/// reads the sum, adds to it twice, undoes a part, or brings it to its limit.
#[test]
fn sums_are_those_of_a_serial_run() {
    let script = format!("{SCRIPT}{COUNTERS}");
    let calls = |session: &mut Session, seed: u64| {
        let mut random = SmallRng::seed_from_u64(seed);
        for _ in 0..CALLS {
            let place = if random.random() { 0 } else { random.random_range(0..SUMS.len()) };
            let procedure = SUMS[place];
            let mut row = || Value::Int(random.random_range(1..=ROWS));
            let arguments = [row(), row()];
            match session.call(procedure, &arguments) {
                Ok(_) => {}
                // A column can't hold the sum.
                Err(Error::Sql(error)) if error.sqlstate == "22003" => {}
                Err(error) => panic!("{procedure}: {error}"),
            }
        }
    };
    configs().for_each(|config| check(&script, config, calls));
}

/// A value moves between the first and the last of many rows. No transaction sees it twice or not at all,
/// although both rows have the values that it has read again when it commits.
#[test]
fn values_that_come_back_are_those_of_one_moment() {
    let script = format!(
        "{SCRIPT}
        CREATE TABLE wide (id INT PRIMARY KEY, a BIGINT NOT NULL);
        INSERT INTO wide SELECT n, n / 400 FROM generate_series(1, 400) AS n;
        CREATE PROCEDURE shows(y INT, OUT v BIGINT) LANGUAGE plpgsql AS $$
        BEGIN SELECT sum(a) INTO v FROM wide; END $$;
        CREATE PROCEDURE sums(y INT, OUT v BIGINT) LANGUAGE plpgsql AS $$
        BEGIN
            SELECT sum(a) INTO v FROM wide;
            UPDATE pairs SET b = (b * 3 + v) % 1009 WHERE id = y;
        END $$;
        CREATE PROCEDURE flips() LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE wide SET a = 1 - a WHERE id = 1;
            UPDATE wide SET a = 1 - a WHERE id = 400;
        END $$;"
    );
    let calls = |session: &mut Session, seed: u64| {
        for _ in 0..CALLS {
            let procedure = match seed {
                0 => "shows",
                1 => "sums",
                _ => {
                    let _ = session.call("flips", &[]).unwrap();
                    continue;
                }
            };
            let shown = session.call(procedure, &[Value::Int(1)]).unwrap();
            assert_eq!(shown.rows[0][0].to_string(), "1", "{procedure}");
        }
    };
    configs().for_each(|config| check(&script, config, calls));
    let mut config = compiled_on(Arc::new(CrashingDisk::default()));
    (config.sequencing, config.content) = (Sequencing::Ssn, Content::Logical);
    check(&script, config, calls);
}

const PLAIN: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, name TEXT, d FLOAT8 DEFAULT 0);
    CREATE TABLE log (id INT PRIMARY KEY, v INT);
    INSERT INTO t VALUES (1, 5, 2, 'x'), (2, 1, 2, 'y');";

/// Commits a transaction that reads while another one writes; returns whether it has lost.
fn loses(read: &str, writes: &[&str], own: &str) -> bool {
    let (_folder, db, mut first) = with(PLAIN);
    let mut second = db.session().unwrap();
    first.begin().unwrap();
    first.query(read).unwrap();
    writes.iter().for_each(|write| drop(second.query(write).unwrap()));
    let committed = first.query(own).and_then(|_| first.commit());
    committed.inspect_err(|error| assert_eq!(error.sqlstate(), "40001", "{error}")).is_err()
}

#[test]
fn only_what_was_read_can_be_lost() {
    let log = "INSERT INTO log VALUES (1, 1)";
    let read = "SELECT a FROM t WHERE id = 1";
    assert!(!loses(read, &["UPDATE t SET b = 7 WHERE id = 1"], log));
    assert!(!loses(read, &["UPDATE t SET b = 7, name = 'long enough to move the row' WHERE id = 1"], log));
    assert!(!loses(read, &["UPDATE t SET b = 7 WHERE id = 1"], "UPDATE t SET a = 9 WHERE id = 1"));
    assert!(loses(read, &["UPDATE t SET a = 7 WHERE id = 1"], log));
    assert!(loses(read, &["DELETE FROM t WHERE id = 1"], log));
    assert!(loses("SELECT d FROM t WHERE id = 1", &["UPDATE t SET d = '-0' WHERE id = 1"], log));
    let nan = ["UPDATE t SET d = 'NaN' WHERE id = 1"; 2];
    assert!(loses("SELECT d FROM t WHERE id = 1", &nan, log));
    assert!(!loses("SELECT d FROM t WHERE id = 1", &["UPDATE t SET d = 0 WHERE id = 1"], log));
    assert!(loses("SELECT a, name FROM t WHERE id = 1", &["UPDATE t SET name = 'z' WHERE id = 1"], log));
    assert!(loses("SELECT a FROM t", &["INSERT INTO t VALUES (3, 1, 1, NULL)"], log));
}
