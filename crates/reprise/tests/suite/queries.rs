//! Procedures that hold queries, statements of clients and their transactions come back after a crash as they
//! were: they are logged by value, beside calls that are logged as such.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest_of, seeds, small, with};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Database, Nowhere, Sequencing, Session, TransactionState, Value, params};

const SCHEMA: &str = "
CREATE TABLE item (id INT PRIMARY KEY, price INT NOT NULL, kind INT NOT NULL);
CREATE INDEX item_by_kind ON item (kind);
CREATE TABLE place (id INT PRIMARY KEY, n BIGINT NOT NULL, before INT);
CREATE TABLE total (kind INT PRIMARY KEY, n BIGINT NOT NULL, sum BIGINT NOT NULL);
CREATE PROCEDURE add(p_id INT, p_price INT, p_kind INT) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO item VALUES (p_id, p_price, p_kind); END $$;
CREATE PROCEDURE sum_up() LANGUAGE plpgsql AS $$
DECLARE r RECORD;
BEGIN
  INSERT INTO total SELECT kind, count(*), sum(price) FROM item GROUP BY kind
    ON CONFLICT (kind) DO UPDATE SET n = excluded.n, sum = excluded.sum;
  DELETE FROM place;
  INSERT INTO place SELECT id, row_number() OVER (PARTITION BY kind ORDER BY price % 9),
    lag(id) OVER (ORDER BY price % 5) FROM item;
  FOR r IN SELECT i.id, t.n FROM item i JOIN total t ON t.kind = i.kind WHERE t.n > 3 ORDER BY i.id DESC
      LIMIT 2 LOOP
    UPDATE item SET price = price + r.n::INT WHERE id = r.id;
  END LOOP;
  IF (SELECT count(*) FROM total) > 2 THEN
    DELETE FROM total USING item WHERE item.kind = total.kind AND item.price > 60;
  END IF;
END $$;
";

fn run(session: &mut Session, text: &str, arguments: &[Value]) -> Result<u64, reprise::Error> {
    let prepared = session.prepare(text)?;
    Ok(session.execute_into(&prepared, arguments, Box::new(Nowhere))?.affected)
}

#[test]
fn queries_in_procedures_and_transactions_are_recovered() {
    let sequencings = [Sequencing::Epoch, Sequencing::Gsn, Sequencing::Serial];
    for sequencing in sequencings {
        let folder = tempfile::tempdir().unwrap();
        let mut config = small();
        config.sequencing = sequencing;
        let db = Database::open(folder.path(), config).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCHEMA).unwrap();
        for n in 0..40i64 {
            session.call_durably("add", params![n, n * 7 % 50, n % 4]).unwrap();
            if n % 10 == 9 {
                session.call_durably("sum_up", params![]).unwrap();
            }
            if n % 7 == 3 {
                session.begin().unwrap();
                let insert =
                    "INSERT INTO item SELECT id + 1000, price, 9 FROM item WHERE id = $1 RETURNING id";
                assert_eq!(run(&mut session, insert, params![n]).unwrap(), 1);
                assert_eq!(
                    run(&mut session, "UPDATE item SET price = $1 WHERE kind = 9", params![n]).unwrap(),
                    n as u64 / 7 + 1
                );
                let commit = session.commit().unwrap();
                commit.wait().unwrap();
            }
            if n % 8 == 5 {
                session.begin().unwrap();
                run(&mut session, "DELETE FROM item", params![]).unwrap();
                session.rollback();
            }
        }
        let moved = "UPDATE item SET id = id + 5000 WHERE kind = 2";
        assert_eq!(run(&mut session, moved, params![]).unwrap(), 10);
        let answer = session.query("SELECT count(*), sum(price) FROM item").unwrap();
        assert_eq!(answer.rows[0][0], Value::Int(46));
        let live = db.digest().unwrap();
        drop((session, db));
        assert_eq!(recovered_digest_of(Content::Command, folder.path()), live, "{sequencing}");
    }
}

/// Of two calls, and of two values of one call.
#[test]
fn no_random_value_is_drawn_twice() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE t (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), r DOUBLE PRECISION UNIQUE);
             CREATE PROCEDURE draw() LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO t (r) VALUES (random());
                 INSERT INTO t (r) VALUES (random());
             END $$;",
        )
        .unwrap();
    for _ in 0..200 {
        session.call_durably("draw", &[]).unwrap();
        session.execute_script("INSERT INTO t (r) VALUES (random())").unwrap();
    }
}

#[test]
fn a_statement_that_fails_fails_its_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), small()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    session.begin().unwrap();
    run(&mut session, "INSERT INTO item VALUES (1, 1, 1)", params![]).unwrap();
    let error = run(&mut session, "INSERT INTO item VALUES ($1, 1, 1)", params![1]).unwrap_err();
    assert_eq!(error.sqlstate(), "23505");
    assert_eq!(session.transaction_state(), TransactionState::Failed);
    assert_eq!(run(&mut session, "SELECT 1", params![]).unwrap_err().sqlstate(), "25P02");
    assert_eq!(session.commit().unwrap_err().sqlstate(), "25P02", "there is nothing to commit");
    assert_eq!(session.transaction_state(), TransactionState::None);
    assert_eq!(session.query("SELECT 1 FROM item").unwrap().affected, 0);
}

/// A statement counts its own rows, not those that the functions write which it calls.
#[test]
fn rows_that_functions_write_are_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), small()).unwrap();
    let mut session = db.session().unwrap();
    let script = "CREATE TABLE written (a INT); CREATE TABLE x (a INT, b INT);
        CREATE FUNCTION two() RETURNS INT LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO written VALUES (1), (2); RETURN 1; END $$;
        CREATE FUNCTION pair() RETURNS INT LANGUAGE sql AS $$
            INSERT INTO written VALUES (1) RETURNING 1 $$";
    session.execute_script(script).unwrap();
    for (statement, rows) in [
        ("INSERT INTO x VALUES (two(), 1)", 1),
        ("INSERT INTO x VALUES (two(), 1), (pair(), 2)", 2),
        ("INSERT INTO x SELECT two(), 2", 1),
        ("INSERT INTO x SELECT pair(), a FROM x WHERE b = 1", 2),
        ("CREATE TABLE filled AS SELECT two() AS a", 1),
        ("UPDATE x SET b = two() WHERE b = 2", 2),
    ] {
        assert_eq!(session.execute(statement, params![]).unwrap().affected, rows, "{statement}");
    }
}

#[test]
fn definitions_that_change_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), small()).unwrap();
    let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
    session.execute_script(SCHEMA).unwrap();
    let prepared = session.prepare("SELECT price FROM item WHERE price = $1").unwrap();
    other.execute_script("CREATE INDEX item_by_price ON item (price)").unwrap();
    session.execute_into(&prepared, params![3], Box::new(Nowhere)).unwrap();
    let plan = session.prepare("EXPLAIN SELECT price FROM item WHERE price = 3").unwrap();
    let plan = format!("{:?}", plan.plan().kind);
    assert!(plan.contains("item_by_price"), "{plan}");
    other.execute_script("DROP PROCEDURE sum_up; DROP PROCEDURE add; DROP TABLE item").unwrap();
    let error = session.execute_into(&prepared, params![3], Box::new(Nowhere)).unwrap_err();
    assert_eq!(error.sqlstate(), "42P01");
}

#[test]
fn functions_that_scan_leave_the_scan_that_calls_them() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    session
        .execute_script(
            "CREATE TABLE step (n INT PRIMARY KEY, height INT NOT NULL);
            CREATE TABLE visitor (id INT PRIMARY KEY);
            CREATE FUNCTION climbed(last INT) RETURNS INT LANGUAGE plpgsql AS $$
            DECLARE r RECORD; sum INT := 0;
            BEGIN
              FOR r IN SELECT n, height FROM step WHERE n <= last LOOP sum := sum + r.height; END LOOP;
              RETURN sum;
            END $$;",
        )
        .unwrap();
    for n in 1..=40i64 {
        run(&mut session, "INSERT INTO step VALUES ($1, 10)", params![n]).unwrap();
        run(&mut session, "INSERT INTO visitor VALUES ($1)", params![n]).unwrap();
    }
    let answer = session.query("SELECT id, climbed(id) FROM visitor").unwrap();
    let rows: Vec<String> = answer.rows.iter().map(|row| format!("{} {}", row[0], row[1])).collect();
    let expected: Vec<String> = (1..=40).map(|n| format!("{n} {}", n * 10)).collect();
    assert_eq!(rows, expected);
    let joined = "SELECT count(*) FROM visitor v JOIN step s ON climbed(v.id) = s.n * 10";
    assert_eq!(session.query(joined).unwrap().rows[0][0].to_string(), "40");
}

/// Returns a condition on the columns of `ranged`, of a few comparisons.
fn condition(random: &mut SmallRng) -> String {
    let comparison = |random: &mut SmallRng| {
        let column = ["id", "a", "b", "c"][random.random_range(0..4)];
        let mut value = || match random.random_range(0..8) {
            0 => "NULL".to_owned(),
            1 => "x".to_owned(),
            2 => "2.5".to_owned(),
            3 => "(x + 1)".to_owned(),
            _ => random.random_range(-1..7).to_string(),
        };
        let (one, another) = (value(), value());
        match random.random_range(0..9) {
            0 => format!("{column} BETWEEN {one} AND {another}"),
            1 => format!("{one} = {column}"),
            2 => format!("{one} < {column}"),
            3 => format!("{column} IN ({one}, {another}, {another}, 3)"),
            4 => format!("({column} = {one} OR {another} = {column} OR {column} = 2)"),
            5 => format!("{column} = ANY (ARRAY[4, x, NULL, 1, 4])"),
            place => format!("{column} {} {one}", ["=", "<=", ">"][place - 6]),
        }
    };
    let all: Vec<String> = (0..random.random_range(1..5)).map(|_| comparison(random)).collect();
    all.join(" AND ")
}

/// A statement finds the rows for which its condition is true, whichever index it finds them by.
#[test]
fn paths_find_the_rows_of_their_conditions() {
    let (_folder, _db, mut session) = with(
        "
        CREATE TABLE ranged (id INT, a INT, b BIGINT, c NUMERIC(6,1), PRIMARY KEY (id, a));
        CREATE INDEX ranged_b ON ranged (b, c);
        INSERT INTO ranged SELECT i, a, nullif(a, 2), i + 0.5 * a
            FROM generate_series(0, 5) AS i CROSS JOIN generate_series(0, 5) AS a;",
    );
    for seed in seeds(300) {
        let mut random = SmallRng::seed_from_u64(seed);
        let condition = condition(&mut random);
        let procedure = format!(
            "CREATE OR REPLACE PROCEDURE found(x INT, OUT n BIGINT, OUT m BIGINT, OUT d BIGINT)
            LANGUAGE plpgsql AS $$ DECLARE r RECORD; BEGIN
                SELECT count(*) INTO n FROM ranged WHERE {condition};
                SELECT count(*) INTO m FROM ranged WHERE CASE WHEN {condition} THEN TRUE END;
                d := 0;
                FOR r IN SELECT id FROM ranged WHERE {condition} ORDER BY id DESC, a DESC LOOP
                    d := d + 1;
                END LOOP;
            END $$"
        );
        session.execute_script(&procedure).unwrap();
        let x = Value::Int(random.random_range(-1..7));
        let found = session.call("found", &[x]).unwrap().rows;
        assert!((1..3).all(|place| found[0][place] == found[0][0]), "{condition}: {found:?}");
    }
}
