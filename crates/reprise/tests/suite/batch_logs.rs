//! Logs of batches: what their records hold, and that every method recovers the state from them.

use crate::common::{digest_by, small};
use reprise::{Config, Content, Database, Method, ReplayMode, Scheme, Sequencing, Session, Value, params};
use std::time::Duration;

const CHAIN: &str = "
    CREATE TABLE counters (id INT PRIMARY KEY, n INT NOT NULL CHECK (n < 1000000000));
    INSERT INTO counters SELECT n, 1 FROM generate_series(1, 4) AS n;
    CREATE PROCEDURE change(counter INT, factor INT, plus INT) LANGUAGE plpgsql AS $$
    DECLARE k INT;
    BEGIN
        SELECT n INTO k FROM counters WHERE id = counter;
        -- Long enough for a call that another thread replays too early to read the row, too.
        FOR i IN 1..200 * factor LOOP k := (k * factor + i) % 9973; END LOOP;
        UPDATE counters SET n = k + plus WHERE id = counter;
        IF plus = 13 THEN RAISE EXCEPTION 'thirteen'; END IF;
    END $$;";

/// Runs calls in batches under a log, and returns the bytes of its records, once all methods have recovered
/// the state.
fn bytes_of(content: Content, script: &str, run: impl Fn(&mut Session)) -> u64 {
    bytes_under(small(), content, script, run)
}

/// As `bytes_of`. A batch begins once it has `size` calls.
fn bytes_of_batches(size: usize, content: Content, script: &str, run: impl Fn(&mut Session)) -> u64 {
    let mut config = small();
    (config.batch_size, config.batch_wait) = (size, Duration::from_secs(60));
    bytes_under(config, content, script, run)
}

fn bytes_under(mut config: Config, content: Content, script: &str, run: impl Fn(&mut Session)) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    (config.concurrency, config.content) = (Scheme::DependencyGraph, content);
    config.log_devices = Some(vec!["log0".into(), "log1".into()]);
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(script).unwrap();
    run(&mut session);
    // Once this is durable, all calls before it are, and the log has counted their records.
    session.execute_script("CREATE TABLE last (id INT PRIMARY KEY)").unwrap();
    let live = db.digest().unwrap();
    drop(session);
    let bytes = db.log_statistics()[0].1.record_bytes;
    drop(db);
    for (method, threads) in Method::of(content).iter().flat_map(|own| [1, 4].map(|n| (*own, n))) {
        let digest = digest_by(&small().disk, folder.path(), method, ReplayMode::default(), threads);
        assert_eq!(digest, live, "{method} of the {content} log, {threads} threads");
    }
    bytes
}

/// Changes counters in batches under a log, where the order of two changes matters and each seventh call
/// fails. Returns the bytes of the log's records.
fn changed_counters(content: Content) -> u64 {
    bytes_of(content, CHAIN, |session| {
        for round in 0..10_i64 {
            let started: Vec<_> = (0..200_i64)
                .map(|n| {
                    let plus = if n % 7 == 3 { 13 } else { n % 5 };
                    session.begin_call("change", params![n * n % 4 + 1, 2 + (n + round) % 3, plus]).unwrap()
                })
                .collect();
            started.into_iter().for_each(|started| drop(session.end_call(started)));
        }
    })
}

const REPLACED: &str = "
    CREATE TABLE notes (id INT PRIMARY KEY, kind INT NOT NULL, text TEXT, seen INT NOT NULL DEFAULT 0);
    CREATE INDEX ON notes (kind);
    INSERT INTO notes SELECT n, n % 3, 'old' FROM generate_series(1, 20) AS n;
    CREATE PROCEDURE replace(note INT, new_kind INT, new_text TEXT) LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM notes WHERE id = note;
        INSERT INTO notes VALUES (note, new_kind, new_text);
    END $$;
    CREATE PROCEDURE see(note INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE notes SET seen = seen + 1 WHERE id = note;
    END $$;";

/// A call that deletes a row and inserts another one with its key changes all columns, not only those that
/// some UPDATE names.
#[test]
fn a_row_that_a_call_replaces_is_logged_whole() {
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        bytes_of(content, REPLACED, |session| {
            for round in 0..10_i64 {
                let started: Vec<_> = (1..=40_i64)
                    .map(|n| match n % 3 {
                        0 => session.begin_call("see", params![n % 20 + 1]).unwrap(),
                        _ => session
                            .begin_call("replace", params![n % 20 + 1, n % 4, format!("{round}")])
                            .unwrap(),
                    })
                    .collect();
                started.into_iter().for_each(|started| drop(session.end_call(started).unwrap()));
            }
        });
    }
}

const GROWING: &str = "
    CREATE TABLE notes (id INT PRIMARY KEY, text TEXT NOT NULL);
    CREATE PROCEDURE add(lowest INT, highest INT) LANGUAGE plpgsql AS $$ BEGIN
        FOR i IN lowest..highest LOOP INSERT INTO notes VALUES (i, ''); END LOOP;
    END $$;
    CREATE PROCEDURE grow(note INT, characters INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE notes SET text = text || repeat('x', characters) WHERE id = note;
    END $$;";

/// A call inserts rows, which further calls of its batch make larger than a log's buffer (1 MiB here) is. The
/// rows come back from several records.
#[test]
fn rows_that_grow_in_a_batch_fit_the_log() {
    const ROWS: i64 = 40;
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        bytes_of_batches(1 + 2 * ROWS as usize, content, GROWING, |session| {
            let mut started = vec![session.begin_call("add", params![1, ROWS]).unwrap()];
            for (note, characters) in (1..=ROWS).flat_map(|note| [(note, 30_000), (note, 40_000)]) {
                started.push(session.begin_call("grow", params![note, characters]).unwrap());
            }
            started.into_iter().for_each(|started| drop(session.end_call(started).unwrap()));
            let long = session.execute("SELECT count(*) FROM notes WHERE length(text) = 70000", params![]);
            assert_eq!(long.unwrap().rows[0][0], Value::Int(ROWS));
        });
    }
}

const WIDE: &str = "
    CREATE TABLE notes (id INT PRIMARY KEY, a TEXT NOT NULL, b TEXT NOT NULL, c TEXT NOT NULL);
    INSERT INTO notes SELECT n, '', repeat('b', 2000), repeat('c', 2000) FROM generate_series(1, 20) AS n;
    CREATE PROCEDURE write_one(note INT, text TEXT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE notes SET a = text WHERE id = note;
    END $$;
    CREATE PROCEDURE write_all(note INT, text TEXT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE notes SET a = text, b = b, c = c WHERE id = note;
    END $$;";

/// An image has the columns that the calls of its batch may change, not those that other procedures may.
#[test]
fn images_have_the_columns_that_the_batch_changes() {
    let bytes = |write: &dyn Fn(i64) -> &'static str| {
        bytes_of_batches(100, Content::DependencyFine, WIDE, |session| {
            for round in 0..5_i64 {
                let call = |n: i64| session.begin_call(write(n), params![n % 20 + 1, format!("{round}.{n}")]);
                let started: Vec<_> = (0..100_i64).map(call).collect();
                started.into_iter().for_each(|started| drop(session.end_call(started.unwrap()).unwrap()));
            }
        })
    };
    let (one, all) =
        (bytes(&|_| "write_one"), bytes(&|n| if n % 7 == 3 { "write_all" } else { "write_one" }));
    assert!(one < 300_000, "the images of one column take {one} bytes");
    assert!(all > 2 * one, "images of all columns take {all} bytes, of one column {one}");
}

/// Calls wait in their batch while their log makes its next files: none leaves it, so none conflicts.
#[test]
fn calls_stay_in_their_batch_while_the_log_grows() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    (config.concurrency, config.content) = (Scheme::DependencyGraph, Content::DependencyFine);
    config.log_file_bytes = 256 << 10;
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(WIDE).unwrap();
    for round in 0..10_i64 {
        let text = round.to_string().repeat(1_000);
        let call = |n: i64| session.begin_call("write_all", params![n % 20 + 1, text.clone()]).unwrap();
        let started: Vec<_> = (0..600).map(call).collect();
        started.into_iter().for_each(|started| drop(session.end_call(started).unwrap()));
    }
    assert_eq!(db.statistics().conflicts, 0);
}

const COLUMNS: &str = "
    CREATE TABLE stores (id INT PRIMARY KEY, name TEXT NOT NULL, tax INT NOT NULL, total BIGINT NOT NULL);
    CREATE INDEX ON stores (name);
    CREATE TABLE sales (id INT PRIMARY KEY, store INT NOT NULL, paid BIGINT NOT NULL);
    INSERT INTO stores SELECT n, 'store ' || n % 2, n, 0 FROM generate_series(1, 4) AS n;
    CREATE PROCEDURE sell(sale INT, at INT, price BIGINT) LANGUAGE plpgsql AS $$ DECLARE t INT; BEGIN
        SELECT tax INTO t FROM stores WHERE id = at;
        INSERT INTO sales VALUES (sale, at, price + price * t / 100);
    END $$;
    CREATE PROCEDURE pay(at INT, amount BIGINT) LANGUAGE plpgsql AS $$ DECLARE k BIGINT := 0; BEGIN
        FOR i IN 1..20000 LOOP k := (k + i) % 9973; END LOOP;
        UPDATE stores SET total = total + amount + k - k WHERE id = at;
    END $$;
    CREATE PROCEDURE name_of(at INT, OUT result TEXT, OUT named BIGINT) LANGUAGE plpgsql AS $$ BEGIN
        SELECT name INTO result FROM stores WHERE id = at;
        SELECT count(*) INTO named FROM stores WHERE name = result;
    END $$;";

/// Calls that read columns which no call updates run beside calls that update the row, and see it.
#[test]
fn columns_that_no_call_updates_are_read_beside_updates() {
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        bytes_of(content, COLUMNS, |session| {
            let calls = (0..600_i64).map(|n| match n % 3 {
                0 => session.begin_call("sell", params![n, n % 4 + 1, 100]).unwrap(),
                1 => session.begin_call("pay", params![n % 4 + 1, n]).unwrap(),
                _ => session.begin_call("name_of", params![n % 4 + 1]).unwrap(),
            });
            let started: Vec<_> = calls.collect();
            for (n, started) in (0..600_i64).zip(started) {
                let done = session.end_call(started).unwrap();
                if n % 3 == 2 {
                    let name = Value::Text(format!("store {}", (n % 4 + 1) % 2));
                    assert_eq!((&done.rows[0][0], &done.rows[0][1]), (&name, &Value::Int(2)));
                }
            }
            let paid = session.execute("SELECT sum(paid) FROM sales", &[]).unwrap();
            assert_eq!(paid.rows[0][0].to_string(), (200 * 100 + 50 * (1 + 2 + 3 + 4)).to_string());
        });
    }
}

/// The calls behind one that failed wait for those before it, although it has no record.
#[test]
fn a_call_without_record_keeps_the_order_around_it() {
    changed_counters(Content::DependencyCoarse);
}

/// Of the updates of a row in a batch, a fine log has the last one.
#[test]
fn superseded_images_are_dropped() {
    let (fine, logical) = (changed_counters(Content::DependencyFine), changed_counters(Content::Logical));
    assert!(fine * 3 < logical, "{fine} bytes where each image has {logical}");
}

/// Logs of batches need batches, and epochs, which end with a batch.
#[test]
fn logs_of_batches_need_batches_and_epochs() {
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        let open = |change: &dyn Fn(&mut Config)| {
            let mut config = small();
            (config.concurrency, config.content) = (Scheme::DependencyGraph, content);
            change(&mut config);
            Database::open(tempfile::tempdir().unwrap().path(), config).map(drop)
        };
        open(&|_| {}).unwrap();
        let error = open(&|config| config.concurrency = Scheme::Optimistic).unwrap_err().to_string();
        assert!(error.contains(&content.to_string()) && error.contains("dgcc"), "{error}");
        for sequencing in [Sequencing::Serial, Sequencing::Ssn, Sequencing::Gsn] {
            let error = open(&|config| config.sequencing = sequencing).unwrap_err().to_string();
            assert!(error.contains("take epoch"), "{error}");
        }
    }
}
