//! Calls in batches (`Scheme::DependencyGraph`): order, waits beside batches, changes of definitions, errors.

use crate::common::{digest_by, small, under};
use reprise::{
    Access, Attempt, Config, Content, Database, Error, Method, Nowhere, Parameters, ReplayMode, Scheme,
    Sequencing, Session, Statement, Value, params,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: &str = "
    CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL CHECK (balance >= 0));
    INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 10) AS n;
    CREATE PROCEDURE transfer(source INT, target INT, amount INT, OUT left_over INT) LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE accounts SET balance = balance + amount WHERE id = target;
        UPDATE accounts SET balance = balance - amount WHERE id = source RETURNING balance INTO left_over;
        RAISE NOTICE '% left', left_over;
    END $$;";

fn bank() -> (tempfile::TempDir, Database, Session) {
    under(Scheme::DependencyGraph, ACCOUNTS)
}

fn balances(session: &mut Session) -> Vec<i64> {
    let rows = session.execute("SELECT balance FROM accounts ORDER BY id", params![]).unwrap().rows;
    rows.iter().map(|row| int(&row[0])).collect()
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("{other} is no integer"),
    }
}

/// Ten thousand transfers between ten accounts, of four sessions at a time: nothing is lost, nothing
/// conflicts, and what fails has no effect.
#[test]
fn contended_transfers_never_conflict() {
    let (_folder, db, mut session) = bank();
    let failed: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4_i64)
            .map(|client| {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    let mut failed = 0;
                    for round in 0..25_i64 {
                        let numbers = (0..100_i64).map(|n| n * 31 + round * 17 + client * 7);
                        let started: Vec<_> = numbers
                            .map(|n| {
                                let (source, target) = (n % 10 + 1, (n * n + 3) % 10 + 1);
                                session.begin_call("transfer", params![source, target, 40]).unwrap()
                            })
                            .collect();
                        for started in started {
                            match session.end_call(started) {
                                Ok(_) => {}
                                Err(Error::Sql(error)) => {
                                    assert_eq!(error.sqlstate, "23514", "{error}");
                                    failed += 1;
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                    }
                    failed
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(failed > 0, "some account had less than its transfer");
    let balances = balances(&mut session);
    assert_eq!(balances.iter().sum::<i64>(), 1000);
    let statistics = db.statistics();
    assert_eq!(statistics.conflicts, 0);
}

/// The answer of a call has its outputs, notices and errors, as under any other scheme.
#[test]
fn answers_are_those_of_other_schemes() {
    let answers = |concurrency: Scheme| {
        let (_folder, _db, mut session) = under(concurrency, ACCOUNTS);
        let done = session.call("transfer", params![1, 2, 30]).unwrap();
        let outputs = format!("{:?} {}", done.rows, done.affected);
        let mut notices: Vec<String> = session.take_notices().iter().map(ToString::to_string).collect();
        let error = session.call("transfer", params![1, 2, 300]).unwrap_err();
        notices.extend(session.take_notices().iter().map(ToString::to_string));
        let unknown = session.call("transfers", params![]).unwrap_err();
        (outputs, notices, format!("{error:?}"), format!("{unknown:?}"), balances(&mut session))
    };
    let expected = answers(Scheme::Optimistic);
    assert_eq!(expected.1, ["70 left"]);
    assert_eq!(answers(Scheme::DependencyGraph), expected);
}

/// A call that meets a row of an open transaction waits for it, and holds up no call that does not depend on
/// its outcome.
#[test]
fn a_held_row_holds_up_its_own_calls_only() {
    let (_folder, db, mut session) = bank();
    let mut holder = db.session().unwrap();
    holder.begin().unwrap();
    holder.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 1", params![]).unwrap();
    let mut blocked = db.session().unwrap();
    let waits = std::thread::spawn(move || blocked.call("transfer", params![1, 2, 20]).map(|done| done.rows));
    let begun = Instant::now();
    for _ in 0..50 {
        session.call("transfer", params![3, 4, 1]).unwrap();
    }
    assert!(!waits.is_finished(), "the row is held");
    holder.commit().unwrap().wait().unwrap();
    let rows = waits.join().unwrap().unwrap();
    assert_eq!(rows[0][0], Value::Int(70));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(balances(&mut session)[..4], [70, 120, 50, 150]);
}

/// Calls that were begun before a definition changed run under the old or the new one, later ones under the
/// new one.
#[test]
fn calls_run_under_the_definitions_of_their_moment() {
    let (_folder, db, mut session) = bank();
    let mut other = db.session().unwrap();
    for round in 0..20_i64 {
        let started: Vec<_> =
            (0..20).map(|_| session.begin_call("transfer", params![1, 2, 0]).unwrap()).collect();
        let script = format!(
            "CREATE OR REPLACE PROCEDURE transfer(source INT, target INT, amount INT, OUT left_over INT)
             LANGUAGE plpgsql AS $$ BEGIN left_over := {round} + 1000; END $$"
        );
        other.execute_script(&script).unwrap();
        for started in started {
            let left_over = int(&session.end_call(started).unwrap().rows[0][0]);
            let of_this_round = left_over == round + 1000;
            let of_round_before = left_over == if round == 0 { 100 } else { round + 999 };
            assert!(of_this_round || of_round_before, "round {round}: {left_over}");
        }
        let after = int(&session.call("transfer", params![1, 2, 0]).unwrap().rows[0][0]);
        assert_eq!(after, round + 1000);
    }
}

/// Runs a statement as a server does: the caller waits.
fn attempt_to_end(session: &mut Session, statement: &Statement, values: &[Value]) -> Result<u64, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let parameters = Parameters::of(statement, values).unwrap();
    loop {
        let busy = match session.attempt(statement, &parameters, Box::new(Nowhere))? {
            Attempt::Done(done) => return Ok(done.affected),
            Attempt::Busy(busy) => busy,
        };
        while let Err(refusal) = runtime.block_on(busy.released()) {
            // It waits again once it holds no rows.
            session.break_deadlock(refusal)?;
        }
    }
}

/// Calls whose callers wait, while definitions change and another transaction holds a row: each statement
/// has the outcome of one call.
#[test]
fn an_attempt_has_the_outcome_of_its_call() {
    let (_folder, db, mut session) = bank();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    let give = session.prepare("CALL transfer($1, $2, 0, NULL)").unwrap();
                    let take = session.prepare("CALL transfer(2, 1 + 0, $1, NULL)").unwrap();
                    for _ in 0..100 {
                        assert_eq!(attempt_to_end(&mut session, &give, params![3, 4]).unwrap(), 1);
                        let failed = attempt_to_end(&mut session, &take, params![1000]).unwrap_err();
                        assert_eq!(failed.sqlstate(), "23514");
                    }
                })
            })
            .collect();
        while !clients.iter().all(|client| client.is_finished()) {
            session.execute_script("CREATE INDEX changed ON accounts (balance); DROP INDEX changed").unwrap();
            session.begin().unwrap();
            session.execute("UPDATE accounts SET balance = balance WHERE id = 3", params![]).unwrap();
            session.commit().unwrap().wait().unwrap();
        }
    });
    let balances = balances(&mut session);
    assert_eq!(balances.iter().sum::<i64>(), 1000);
}

/// Snapshots open while batches run and clean up: each shows all of a batch or nothing.
#[test]
fn snapshots_open_beside_batches() {
    let (_folder, db, mut session) = bank();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..2_i64 {
            let (mut session, done) = (db.session().unwrap(), &done);
            scope.spawn(move || {
                for n in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let started: Vec<_> = (0..20_i64)
                        .map(|call| {
                            let (source, target) =
                                (1 + (n + call) % 10, 1 + (n * 3 + call * 7 + client) % 10);
                            session.begin_call("transfer", params![source, target, 1]).unwrap()
                        })
                        .collect();
                    // An account may have nothing left.
                    started.into_iter().for_each(|started| drop(session.end_call(started)));
                }
            });
        }
        session.set_access(Access::ReadOnly);
        let sums: Vec<i64> = (0..200).map(|_| balances(&mut session).iter().sum()).collect();
        done.store(true, Ordering::Relaxed);
        assert_eq!(sums, [1000; 200]);
    });
}

/// A statement that is given up before its batch begins has no effect, and the session goes on.
#[test]
fn a_withdrawn_call_does_not_run() {
    let (_folder, db, mut session) = bank();
    session
        .execute_script(
            "CREATE PROCEDURE forever() LANGUAGE plpgsql AS $$
             BEGIN LOOP UPDATE accounts SET balance = 1 WHERE id = 1; END LOOP; END $$",
        )
        .unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let endless = session.begin_call("forever", params![]).unwrap();
    let mut other = db.session().unwrap();
    let pay = other.prepare("CALL transfer(1, 2, 5, NULL)").unwrap();
    for _ in 0..3 {
        let Attempt::Busy(busy) = other.attempt(&pay, &Parameters::default(), Box::new(Nowhere)).unwrap()
        else {
            panic!("the batch before it goes on")
        };
        assert!(busy.is_in_batch() && busy.withdraw() && other.is_waiting());
        other.stop_waiting();
    }
    flag.store(true, Ordering::Relaxed);
    assert_eq!(session.end_call(endless).unwrap_err().sqlstate(), "57014");
    flag.store(false, Ordering::Relaxed);
    assert_eq!(attempt_to_end(&mut other, &pay, params![]).unwrap(), 1);
    assert_eq!(balances(&mut session)[..2], [95, 105]);
}

/// A call that would run for ever is cancelled, and the batches behind it go on.
#[test]
fn a_cancelled_call_lets_later_batches_run() {
    let (_folder, db, mut session) = bank();
    session
        .execute_script(
            "CREATE PROCEDURE forever() LANGUAGE plpgsql AS $$
             DECLARE n INT := 0;
             BEGIN
                 LOOP
                     UPDATE accounts SET balance = 1 WHERE id = 1;
                     n := 1 - n;
                 END LOOP;
             END $$",
        )
        .unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let endless = session.begin_call("forever", params![]).unwrap();
    let mut other = db.session().unwrap();
    let behind = other.begin_call("transfer", params![1, 2, 5]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    flag.store(true, Ordering::Relaxed);
    assert_eq!(session.end_call(endless).unwrap_err().sqlstate(), "57014");
    assert_eq!(other.end_call(behind).unwrap().rows[0][0], Value::Int(95));
}

/// A session that closes does not ask for its outcomes; its calls run all the same, or never begin.
#[test]
fn a_database_closes_with_calls_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = small();
        config.concurrency = Scheme::DependencyGraph;
        config
    };
    let db = Database::open(folder.path(), config()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let calls: Vec<_> = (0..200).map(|_| session.begin_call("transfer", params![5, 6, 0]).unwrap()).collect();
    drop(calls);
    drop((session, db));
    let db = Database::open(folder.path(), config()).unwrap();
    let mut session = db.session().unwrap();
    assert_eq!(balances(&mut session), [100; 10]);
}

/// Each batch has at most as many calls as are configured, and one executor is enough.
#[test]
fn one_executor_and_batches_of_one_call_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.concurrency = Scheme::DependencyGraph;
    (config.executors, config.batch_size) = (1, 1);
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let started: Vec<_> =
        (0..300).map(|n| session.begin_call("transfer", params![n % 10 + 1, 3, 1]).unwrap()).collect();
    started.into_iter().for_each(|started| drop(session.end_call(started)));
    assert_eq!(balances(&mut session).iter().sum::<i64>(), 1000);
}

/// A call waits for further ones, but a full batch does not, nor does one of a database that closes.
#[test]
fn calls_wait_for_further_ones_of_their_batch() {
    let folder = tempfile::tempdir().unwrap();
    let config = |wait: Duration| {
        let mut config = small();
        (config.concurrency, config.batch_size, config.batch_wait) = (Scheme::DependencyGraph, 4, wait);
        config
    };
    let wait = Duration::from_millis(300);
    let db = Database::open(folder.path(), config(wait)).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(ACCOUNTS).unwrap();
    let begun = Instant::now();
    session.call("transfer", params![1, 2, 1]).unwrap();
    assert!(begun.elapsed() >= wait, "it has waited for {:?}", begun.elapsed());
    drop((session, db));

    let wait = Duration::from_secs(600);
    let db = Database::open(folder.path(), config(wait)).unwrap();
    let mut session = db.session().unwrap();
    let begun = Instant::now();
    let started: Vec<_> = (0..4).map(|_| session.begin_call("transfer", params![1, 2, 1]).unwrap()).collect();
    started.into_iter().for_each(|started| drop(session.end_call(started).unwrap()));
    drop(session.begin_call("transfer", params![1, 2, 1]).unwrap());
    drop((session, db));
    assert!(begun.elapsed() < wait, "it has waited for {:?}", begun.elapsed());
}

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

/// As `bytes_of`. A batch begins once it has so many calls.
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

/// A change of definitions that is cancelled while a batch runs is answered at once: it shows nothing of the
/// batch.
#[test]
fn cancelled_definitions_do_not_wait_for_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.concurrency = Scheme::DependencyGraph;
    let db = Database::open(folder.path(), config).unwrap();
    let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
    let slow = "CREATE TABLE t (id INT PRIMARY KEY);
        CREATE PROCEDURE slow() LANGUAGE plpgsql AS $$ DECLARE k INT := 0; BEGIN
            INSERT INTO t VALUES (1);
            LOOP k := (k + 1) % 9973; END LOOP;
        END $$;";
    session.execute_script(slow).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    session.cancelled_by(Arc::clone(&flag));
    let started = session.begin_call("slow", params![]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    other.ends_at(Some(Instant::now() + Duration::from_millis(100)));
    let error = other.execute("CREATE TABLE other (id INT PRIMARY KEY)", params![]).unwrap_err();
    assert_eq!(error.sqlstate(), "57014");
    assert!(db.is_durable(other.must_be_durable()), "the answer waits for the batch");
    flag.store(true, Ordering::Relaxed);
    assert!(session.end_call(started).is_err());
}
