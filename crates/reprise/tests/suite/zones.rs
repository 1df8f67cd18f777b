//! Sessions in other time zones than UTC. A replay evaluates in UTC, so a log of commands has the rows of
//! their transactions; calls of sessions in UTC stay commands.

use crate::common::Durably as _;
use crate::common::{SHADOWS, open, recovered_digest, small};
use reprise::disk::CrashingDisk;
use reprise::{Content, Database, Session, SessionZone, Value, params};
use std::sync::Arc;

const ZONES: [&str; 4] = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"];

/// Seconds from 2000 to 2024.
const IN_2024_S: i64 = 757_382_400;

/// A procedure of operations alone, whose writes depend on the zone in each way.
const SCRIPT: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ, local TIMESTAMP, day DATE, shown TEXT,
         since TIMESTAMPTZ DEFAULT '2024-07-01', CHECK (at::date > '2020-01-01'));
     CREATE INDEX t_day ON t (day);
     CREATE PROCEDURE put(p INT, x TIMESTAMPTZ) LANGUAGE plpgsql AS $$
     DECLARE noon TIMESTAMPTZ := '2024-07-01 12:00';
     BEGIN
         INSERT INTO t (id, at, local, day, shown) VALUES (p, x, x, x, x);
         UPDATE t SET at = at + INTERVAL '1 day', since = date_trunc('day', x) WHERE id = p - 1;
         UPDATE t SET at = noon, local = now() WHERE id = p - 2 AND day = x::date;
         UPDATE t SET shown = to_char(at, 'HH24 OF') WHERE at > local AND id = p - 3;
     END $$;";

fn set(session: &mut Session, zone: &str) {
    let zone = SessionZone::of_setting(zone).unwrap();
    session.set_zone(Some(zone).filter(|zone| !zone.is_utc()).map(Arc::new));
}

fn shown(session: &mut Session, query: &str) -> Vec<String> {
    let rows = session.execute(query, params![]).unwrap().rows;
    rows.iter()
        .map(|row| row.values().iter().map(ToString::to_string).collect::<Vec<_>>().join("|"))
        .collect()
}

/// Calls the procedure in each zone, and writes by statements and in transactions.
fn play(session: &mut Session) {
    let put = session.prepare("CALL put($1, '2024-10-27 02:30')").unwrap();
    for id in 0..40 {
        set(session, ZONES[id as usize % ZONES.len()]);
        match id % 5 {
            0 => drop(session.execute(&put, params![id]).unwrap()),
            1 => {
                session.begin().unwrap();
                let call = format!("CALL put({id}, '2024-03-31 02:30')");
                session.execute(&call, params![]).unwrap();
                session
                    .execute("UPDATE t SET shown = at || ' ' || '2024-07-01'::timestamptz", params![])
                    .unwrap();
                session.commit().unwrap().wait().unwrap();
            }
            _ => {
                let at = Value::Timestamp((IN_2024_S + i64::from(id) * 3600) * 1_000_000);
                session.call_durably("put", params![id, at]).unwrap();
            }
        }
    }
}

#[test]
fn what_sessions_in_other_zones_write_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.shadow_logs = SHADOWS.to_vec();
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCRIPT).unwrap();
    play(&mut session);
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest(folder.path()), live);
}

/// The machine stops: what was acknowledged is there, and an open transaction is not.
#[test]
fn a_crash_loses_no_acknowledged_call_of_a_session_in_another_zone() {
    for content in
        [Content::Command, Content::Adaptive, Content::Logical, Content::Physical, Content::Physiological]
    {
        let disk = CrashingDisk::default();
        let mut config = small();
        (config.content, config.disk) = (content, Arc::new(disk.clone()));
        let db = Database::open("data", config.clone()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCRIPT).unwrap();
        play(&mut session);
        let query = "SELECT id, at, local, day, shown, since FROM t ORDER BY id";
        let live = shown(&mut session, query);
        assert_eq!(live.len(), 40);
        session.shown().wait().unwrap();
        set(&mut session, "Asia/Tokyo");
        session.begin().unwrap();
        session.execute("INSERT INTO t (id, at) VALUES (-1, '2024-01-01')", params![]).unwrap();
        drop((session, db));
        // What was not synced is lost.
        config.disk = Arc::new(disk.after_crash(1));
        let db = Database::open("data", config).unwrap();
        assert_eq!(shown(&mut db.session().unwrap(), query), live, "{content}");
    }
}

/// Only the calls of sessions in other zones are logged by value.
#[test]
fn calls_of_sessions_in_utc_stay_commands() {
    let bytes = |zone: &str| {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), small()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, text TEXT)").unwrap();
        let put = "CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO t VALUES (p, repeat('x', 1000)); END $$";
        session.execute_script(put).unwrap();
        set(&mut session, zone);
        for id in 0..50 {
            session.call_durably("put", params![id]).unwrap();
        }
        shown(&mut session, "SELECT record_bytes FROM reprise_log")[0].parse::<i64>().unwrap()
    };
    let (commands, values) = (bytes("Etc/UTC"), bytes("Europe/Berlin"));
    assert!(values > commands + 40_000, "{commands} bytes of commands, {values} of values");
}

/// Literals have the zone in which the statement was prepared; casts have that of each execution.
#[test]
fn prepared_statements_follow_the_zone() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    set(&mut session, "Europe/Berlin");
    let query =
        "SELECT ('2024-07-01 12:00'::timestamptz)::text, ('2024-07-01 12:00'::text::timestamptz)::text";
    let prepared = session.prepare(query).unwrap();
    let seen = |session: &mut Session, zone: &str| {
        set(session, zone);
        let row = &session.execute(&prepared, params![]).unwrap().rows[0];
        [0, 1].map(|column| row[column].to_string())
    };
    assert_eq!(seen(&mut session, "Europe/Berlin"), ["2024-07-01 12:00:00+02", "2024-07-01 12:00:00+02"]);
    assert_eq!(seen(&mut session, "Asia/Tokyo"), ["2024-07-01 19:00:00+09", "2024-07-01 12:00:00+09"]);
    // A change of definitions binds the statement again, with the zone of its literals.
    session.execute("CREATE TABLE t (id INT PRIMARY KEY)", params![]).unwrap();
    assert_eq!(seen(&mut session, "UTC"), ["2024-07-01 10:00:00+00", "2024-07-01 12:00:00+00"]);
}

/// Definitions are kept as text, without a zone: what depends on it is refused.
#[test]
fn definitions_do_not_depend_on_the_zone() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ, local TIMESTAMP)").unwrap();
    set(&mut session, "Europe/Berlin");
    let mut state = |text: &str| {
        session.execute(text, params![]).map_or_else(|error| error.sqlstate().to_owned(), |_| "00000".into())
    };
    for refused in [
        "CREATE VIEW v AS SELECT id FROM t WHERE at > '2024-01-01'",
        "CREATE TABLE u (id INT PRIMARY KEY, at TIMESTAMPTZ DEFAULT '2024-01-01')",
        "CREATE TABLE u (id INT PRIMARY KEY, at TIMESTAMPTZ[] DEFAULT '{2024-01-01}')",
        "CREATE TABLE u (id INT PRIMARY KEY, at TIMESTAMPTZ CHECK (at > '2024-01-01'))",
        "ALTER TABLE t ALTER COLUMN at SET DEFAULT '2024-01-01'",
        "ALTER TABLE t ADD COLUMN day DATE DEFAULT now()",
        "ALTER TABLE t ALTER COLUMN local TYPE TIMESTAMPTZ",
        "ALTER TABLE t ALTER COLUMN at TYPE TIMESTAMP",
        "ALTER TABLE t ALTER COLUMN at TYPE TEXT",
        "CREATE INDEX i ON t (id) WHERE at > '2024-01-01'",
        "CREATE FUNCTION f(x TIMESTAMPTZ DEFAULT '2024-01-01') RETURNS INT LANGUAGE sql AS $$ SELECT 1 $$",
        "CREATE DOMAIN d AS TIMESTAMPTZ CHECK (VALUE > '2024-01-01')",
        "CREATE ROLE r VALID UNTIL '2024-01-01'",
    ] {
        assert_eq!(state(refused), "0A000", "{refused}");
    }
    for made in [
        "CREATE VIEW v AS SELECT id, at::date AS day FROM t WHERE at > '2024-01-01 00:00+01'",
        "CREATE TABLE u (id INT PRIMARY KEY, at TIMESTAMPTZ DEFAULT now(), day DATE DEFAULT now())",
        "ALTER TABLE t ADD COLUMN n INT DEFAULT 7",
        "ALTER TABLE t ADD CHECK (local > '2024-01-01')",
        "CREATE INDEX i ON t (at)",
        "CREATE FUNCTION f() RETURNS TEXT LANGUAGE sql AS $$ SELECT '2024-01-01'::timestamptz::text $$",
        "CREATE TABLE filled AS SELECT at, at::text AS text FROM (SELECT '2024-01-01'::timestamptz AS at) AS x",
        "CREATE ROLE r VALID UNTIL 'infinity'",
    ] {
        assert_eq!(state(made), "00000", "{made}");
    }
    let live = db.digest().unwrap();
    let rows = shown(&mut session, "SELECT f(), text, at::text FROM filled");
    assert_eq!(rows, ["2024-01-01 00:00:00+01|2024-01-01 00:00:00+01|2024-01-01 00:00:00+01"]);
    drop((session, db));
    assert_eq!(recovered_digest(folder.path()), live);
}
