//! Temporary relations: they belong to one session, go with it, and no recovery keeps them; what permanent
//! tables have from them stays.

use crate::common::{SHADOWS, open, recovered_digest, schemes_of, seeds, small};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use reprise::disk::CrashingDisk;
use reprise::{Content, Database, Session, params};
use std::sync::Arc;
use std::time::Duration;

const CONTENTS: [Content; 5] =
    [Content::Command, Content::Adaptive, Content::Logical, Content::Physical, Content::Physiological];

/// A table, a procedure whose calls are commands, one that names a temporary table, and a trigger function
/// that does.
const SETUP: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, a INT);
    CREATE TABLE log (id SERIAL PRIMARY KEY, a INT);
    INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);
    CREATE PROCEDURE add(x INT) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET a = a + x WHERE id = 1; END $$;
    CREATE FUNCTION noted() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO log (a) SELECT count(*) FROM t; RETURN NEW; END $$;
    CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION noted();";

/// A procedure whose body names a relation of later.
const LATER: &str = "CREATE PROCEDURE move(x INT) LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO tmp VALUES (x + 1000, x);
    UPDATE t SET a = a + (SELECT count(*) FROM tmp) WHERE id = 2;
    EXECUTE 'UPDATE tmp SET a = a + 1 WHERE id > 1000';
  END $$;";

fn run(session: &mut Session, text: &str) -> Result<(), reprise::Error> {
    session.execute(text, params![]).map(|_| ())
}

fn state(session: &mut Session, text: &str) -> String {
    run(session, text).map_or_else(|error| error.sqlstate().to_owned(), |()| "00000".into())
}

fn shown(session: &mut Session, text: &str) -> Vec<String> {
    let rows = session.execute(text, params![]).unwrap_or_else(|error| panic!("{text}: {error}")).rows;
    rows.iter()
        .map(|row| row.values().iter().map(ToString::to_string).collect::<Vec<_>>().join("|"))
        .collect()
}

fn prepared(db: &Database) -> Session {
    let mut session = db.session().unwrap();
    session.check_bodies(false);
    session.execute_script(SETUP).unwrap();
    session.execute_script(LATER).unwrap();
    session
}

/// Everything that the permanent tables have, and the number of permanent relations.
fn permanent(session: &mut Session) -> Vec<String> {
    let queries = [
        "SELECT * FROM public.t ORDER BY id",
        "SELECT a FROM public.log ORDER BY id",
        "SELECT count(*) FROM pg_class WHERE relpersistence <> 't'",
    ];
    queries.iter().flat_map(|query| shown(session, query)).collect()
}

fn temporary_relations(session: &mut Session) -> Vec<String> {
    let mut all = shown(session, "SELECT relname FROM pg_class WHERE relpersistence = 't' ORDER BY 1");
    all.extend(shown(session, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg_temp%'"));
    all
}

/// Statements in which a session uses temporary relations beside permanent ones.
const STEPS: [&str; 24] = [
    "CREATE TEMP TABLE IF NOT EXISTS tmp (id INT PRIMARY KEY, a INT)",
    "CREATE TEMP TABLE IF NOT EXISTS tmp (id INT PRIMARY KEY, a INT)",
    "INSERT INTO tmp SELECT id, a FROM public.t ON CONFLICT DO NOTHING",
    "INSERT INTO tmp VALUES (100, 7), (101, 8) ON CONFLICT (id) DO UPDATE SET a = excluded.a + tmp.a",
    "UPDATE public.t SET a = t.a + tmp.a FROM tmp WHERE tmp.id = t.id",
    "INSERT INTO public.t SELECT id + 50, a FROM tmp WHERE id > 99 ON CONFLICT DO NOTHING",
    "DELETE FROM public.t USING tmp WHERE t.id = tmp.id + 50",
    "DELETE FROM tmp WHERE id = 100",
    "CREATE TEMP TABLE t AS SELECT id, a + 1 AS a FROM t",
    "CREATE TEMP TABLE t (id INT PRIMARY KEY, a INT) ON COMMIT DELETE ROWS",
    "INSERT INTO t VALUES (500, 1) ON CONFLICT DO NOTHING",
    "UPDATE t SET a = a * 2",
    "INSERT INTO log (a) SELECT count(*) FROM t",
    "DROP TABLE IF EXISTS pg_temp.t",
    "CREATE TEMP VIEW v AS SELECT a FROM tmp",
    "INSERT INTO log (a) SELECT sum(a) FROM v",
    "DROP VIEW IF EXISTS pg_temp.v",
    "CALL add(3)",
    "CALL move(4)",
    "CALL move(5)",
    "TRUNCATE tmp",
    "ALTER TABLE tmp ADD COLUMN b INT DEFAULT 1",
    "CREATE TEMP TABLE ending ON COMMIT DROP AS SELECT a FROM public.t",
    "DROP TABLE IF EXISTS pg_temp.tmp CASCADE",
];

/// Runs random steps, some of them in transactions.
fn play(session: &mut Session, rng: &mut SmallRng, steps: usize) {
    for _ in 0..steps {
        if rng.random_bool(0.6) {
            let _ = run(session, STEPS.choose(rng).unwrap());
            continue;
        }
        session.begin().unwrap();
        for _ in 0..rng.random_range(1..5) {
            if rng.random_bool(0.2) {
                session.set_savepoint("s").unwrap();
                let ran = run(session, STEPS.choose(rng).unwrap());
                if ran.is_err() || rng.random_bool(0.5) {
                    session.roll_back_to_savepoint("s").unwrap();
                }
            } else if run(session, STEPS.choose(rng).unwrap()).is_err() {
                break;
            }
        }
        match rng.random_bool(0.8) {
            true => drop(session.commit()),
            false => session.rollback(),
        }
    }
    session.rollback();
    // All earlier transactions are durable with this one.
    run(session, "UPDATE public.t SET a = a").unwrap();
    session.shown().wait().unwrap();
}

/// The machine stops while a session has temporary relations.
#[test]
fn a_crash_keeps_permanent_rows_and_no_temporary_relation() {
    let mut seen = 0;
    for seed in seeds(2) {
        for (content, scheme) in CONTENTS.into_iter().flat_map(|own| schemes_of(seed).map(move |s| (own, s)))
        {
            let mut rng = SmallRng::seed_from_u64(seed);
            let disk = CrashingDisk::default();
            let mut config = small();
            (config.content, config.concurrency) = (content, scheme);
            config.disk = Arc::new(disk.clone());
            config.on_demand = rng.random();
            let db = Database::open("data", config.clone()).unwrap();
            let mut session = prepared(&db);
            for _ in 0..rng.random_range(1..3) {
                play(&mut session, &mut rng, 12);
                if rng.random_bool(0.5) {
                    db.checkpoint().unwrap();
                }
            }
            let live = permanent(&mut session);
            seen += temporary_relations(&mut session).len();
            session.shown().wait().unwrap();
            // The session is open when the machine stops.
            config.disk = Arc::new(disk.after_crash(seed));
            drop((session, db));
            let db = Database::open("data", config.clone()).unwrap();
            let mut session = db.session().unwrap();
            let named = format!("seed {seed}, {content}, {scheme}");
            assert_eq!(temporary_relations(&mut session), [""; 0], "{named}");
            assert_eq!(permanent(&mut session), live, "{named}");
            // The session's number is free again.
            run(&mut session, "CREATE TEMP TABLE tmp (id INT)").unwrap();
            assert_eq!(shown(&mut session, "SELECT count(*) FROM tmp"), ["0"]);
            drop(session);
            let digest = db.digest().unwrap();
            drop(db);
            let db = Database::open("data", config).unwrap();
            assert_eq!(db.digest().unwrap(), digest, "{named}");
        }
    }
    assert!(seen > 20, "only {seen} temporary relations were open at a crash");
}

/// Replay has the temporary tables, and comes to the same permanent rows by every method.
#[test]
fn every_method_replays_what_comes_from_temporary_rows() {
    for seed in seeds(4) {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small();
        config.shadow_logs = SHADOWS.to_vec();
        let db = Database::open(folder.path(), config).unwrap();
        let mut session = prepared(&db);
        play(&mut session, &mut SmallRng::seed_from_u64(seed), 30);
        if seed % 2 == 0 {
            drop(session);
        } else {
            // The session ends after the last record of the log.
            std::mem::forget(session);
        }
        let live = db.digest().unwrap();
        drop(db);
        assert_eq!(recovered_digest(folder.path()), live, "seed {seed}");
    }
}

#[test]
fn sessions_have_tables_of_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let (mut first, mut second) = (prepared(&db), db.session().unwrap());
    run(&mut first, "CREATE TEMP TABLE tmp (id INT PRIMARY KEY, a INT)").unwrap();
    let read = second.prepare("SELECT id FROM t WHERE id = 1").unwrap();
    assert_eq!(state(&mut second, "SELECT * FROM tmp"), "42P01");
    run(&mut second, "CREATE TEMP TABLE tmp (b TEXT)").unwrap();
    run(&mut first, "INSERT INTO tmp VALUES (1, 1)").unwrap();
    run(&mut second, "INSERT INTO tmp VALUES ('second')").unwrap();
    assert_eq!(shown(&mut first, "SELECT * FROM tmp"), ["1|1"]);
    assert_eq!(shown(&mut second, "SELECT * FROM tmp"), ["second"]);
    // A prepared statement finds a table that hides the one it was prepared with.
    run(&mut second, "CREATE TEMP TABLE t (id INT)").unwrap();
    assert!(second.execute(&read, params![]).unwrap().rows.is_empty());
    run(&mut second, "DROP TABLE t").unwrap();
    assert_eq!(second.execute(&read, params![]).unwrap().rows.len(), 1);
    let schemas = shown(&mut first, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pg_temp%'");
    assert_eq!(schemas.len(), 2);
    let foreign = shown(&mut first, "SELECT count(*) FROM pg_namespace WHERE pg_is_other_temp_schema(oid)");
    assert_eq!(foreign, ["1"]);
    // No session names the schema of another one.
    for schema in &schemas {
        let texts = [format!("SELECT * FROM {schema}.tmp"), format!("CREATE TABLE {schema}.more (a INT)")];
        let states: Vec<String> =
            texts.iter().flat_map(|text| [state(&mut first, text), state(&mut second, text)]).collect();
        let (mut reads, mut makes) = (states[..2].to_vec(), states[2..].to_vec());
        reads.sort();
        makes.sort();
        assert_eq!((reads.join(" "), makes.join(" ")), ("00000 0A000".into(), "00000 42P16".into()));
    }
    drop(first);
    assert_eq!(temporary_relations(&mut second).iter().filter(|name| *name == "tmp").count(), 1);
    assert_eq!(shown(&mut second, "SELECT * FROM tmp"), ["second"]);
    drop(second);
    assert_eq!(temporary_relations(&mut db.session().unwrap()), [""; 0]);
}

/// A session that ends while other transactions are open leaves its tables to the next one that ends.
#[test]
fn what_one_session_leaves_the_next_one_drops() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let (mut first, mut second) = (prepared(&db), db.session().unwrap());
    run(&mut first, "CREATE TEMP TABLE tmp (id INT)").unwrap();
    second.begin().unwrap();
    run(&mut second, "SELECT * FROM t").unwrap();
    first.set_lock_timeout(Some(Duration::from_millis(50)));
    drop(first);
    second.commit().unwrap().wait().unwrap();
    assert_eq!(temporary_relations(&mut second).len(), 2);
    run(&mut second, "CREATE TEMP TABLE tmp (id INT)").unwrap();
    drop(second);
    assert_eq!(temporary_relations(&mut db.session().unwrap()), [""; 0]);
}

#[test]
fn calls_that_find_no_temporary_relation_stay_commands() {
    let bytes = |temporary: &str| {
        let folder = tempfile::tempdir().unwrap();
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, text TEXT)").unwrap();
        let put = "CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO t VALUES (p, repeat('x', 1000)); END $$";
        session.execute_script(put).unwrap();
        run(&mut session, temporary).unwrap();
        for id in 0..50 {
            run(&mut session, &format!("CALL put({id})")).unwrap();
        }
        session.shown().wait().unwrap();
        shown(&mut session, "SELECT record_bytes FROM reprise_log")[0].parse::<i64>().unwrap()
    };
    let commands = bytes("CREATE TEMP TABLE other (id INT)");
    let values = bytes("CREATE TEMP TABLE t (id INT, text TEXT)");
    assert!(values > commands + 40_000, "{commands} bytes of commands, {values} of values");
}

#[test]
fn the_privilege_on_the_database_allows_temporary_tables() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut admin = db.session().unwrap();
    admin
        .execute_script(
            "CREATE ROLE ada; CREATE ROLE bob; CREATE TABLE t (a INT); CREATE SCHEMA s;
             REVOKE TEMP ON DATABASE postgres FROM PUBLIC; GRANT TEMP ON DATABASE postgres TO ada",
        )
        .unwrap();
    let mut session = db.session().unwrap();
    let act = |session: &mut Session, role: &str| {
        let id = session.with_definitions(|schema| schema.role(role).unwrap().0);
        session.act_as(id);
    };
    act(&mut session, "ada");
    for text in [
        "CREATE TEMP TABLE own (a SERIAL PRIMARY KEY, b INT)",
        "INSERT INTO own (b) VALUES (1)",
        "CREATE INDEX ON own (b)",
        "ALTER TABLE own ADD COLUMN c INT",
        "CREATE TEMP VIEW v AS SELECT a FROM own",
        "SELECT * FROM v",
        "CREATE TEMP TABLE filled AS SELECT a FROM own",
        "TRUNCATE own",
    ] {
        run(&mut session, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    act(&mut session, "bob");
    assert_eq!(state(&mut session, "CREATE TEMP TABLE of_bob (a INT)"), "42501");
    assert_eq!(state(&mut session, "CREATE TEMP TABLE of_bob AS SELECT 1"), "42501");
    assert_eq!(state(&mut session, "SELECT * FROM own"), "42501");
    assert_eq!(state(&mut session, "DROP TABLE own"), "42501");
    assert_eq!(state(&mut session, "CREATE TABLE x (a INT)"), "42501");
    act(&mut session, "ada");
    run(&mut session, "GRANT SELECT ON own TO bob").unwrap();
    act(&mut session, "bob");
    run(&mut session, "SELECT * FROM own").unwrap();
    drop(session);
    assert_eq!(temporary_relations(&mut admin), [""; 0]);
}

#[test]
fn errors_have_the_positions_and_names_of_the_clients_text() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    run(&mut session, "CREATE TEMP TABLE tmp (a INT)").unwrap();
    for (text, line, column, message) in [
        ("SELECT a,\n  b FROM tmp", 2, 3, "column \"b\" does not exist"),
        ("SELECT a FROM tmp WHERE b = 1", 1, 25, "column \"b\" does not exist"),
        ("SELECT a FROM tmp, tmp x WHERE x.b = 1", 1, 32, "column x.b does not exist"),
        ("SELECT 1 FROM pg_temp.tmp, none", 1, 28, "relation \"none\" does not exist"),
        ("SELECT 1 FROM pg_temp.nothing", 1, 15, "relation \"pg_temp.nothing\" does not exist"),
        ("CREATE TEMP TABLE tmp (a INT)", 1, 1, "relation \"tmp\" already exists"),
        ("INSERT INTO tmp (c) VALUES (1)", 1, 18, "column \"c\" of relation \"tmp\" does not exist"),
    ] {
        let error = session.execute(text, params![]).unwrap_err();
        let reprise::Error::Statement(error) = error else { panic!("{text}: {error}") };
        let found = (error.line, error.column, error.error.message.as_str());
        assert_eq!(found, (line, column, message), "{text}");
    }
}
