//! One test for each rule of the analysis: what may be replayed apart, and what stays together.

use crate::common::{compiled_on, recovered_digest_on};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Value};
use std::path::Path;
use std::sync::Arc;

/// What the random cases once found: a RETURN from within a loop that does nothing else, and FOUND inside a
/// loop over rows.
#[test]
fn jumps_and_found_are_replayed_as_they_ran() {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, compiled_on(Arc::clone(&disk))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(include_str!("../../../../sql/tests/analysis/jumps.sql")).unwrap();
    for id in 1..=6 {
        let rows = format!("INSERT INTO a VALUES ({id}, 0); INSERT INTO b VALUES ({id}, 0);");
        session.execute_script(&rows).unwrap();
    }
    session.execute_script("INSERT INTO c VALUES (1, 0), (3, 0);").unwrap();
    for k in [2, 5, 1, 9, 4, 3] {
        let _ = session.call("returns_from_within", &[Value::Int(k)]).unwrap();
        let _ = session.call("finds", &[Value::Int(k)]).unwrap();
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live);
}

/// A call.
type TestCall = (&'static str, Vec<Value>);

/// Runs scripts, after each of them calls, of which those that `by_value` names are logged so; compares all
/// recoveries with the database.
fn check_parts(parts: &[(&str, Vec<TestCall>)], by_value: impl Fn(usize) -> bool) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let db = Database::open(folder, compiled_on(Arc::clone(&disk))).unwrap();
    let mut session = db.session().unwrap();
    for (script, calls) in parts {
        session.execute_script(script).unwrap();
        for (number, (procedure, arguments)) in calls.iter().enumerate() {
            session.log_by_value(by_value(number));
            let _ = session.call(procedure, arguments).unwrap();
        }
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live);
}

fn check_calls(script: &str, calls: impl Iterator<Item = TestCall>, by_value: impl Fn(usize) -> bool) {
    check_parts(&[(script, calls.collect())], by_value);
}

/// Runs procedures that carry values between the rows of tables `a` and `b` with one key, whose columns are
/// declared so.
fn check_shared_keys(a: &str, b: &str, parameter: &str, key: impl Fn(i64) -> Value) {
    let tables = format!(
        "CREATE TABLE a (id {a}, v INT NOT NULL);
        CREATE TABLE b (id {b}, v INT NOT NULL);
        CREATE INDEX a_id ON a (id); CREATE INDEX b_id ON b (id);
        CREATE PROCEDURE fill(k {parameter}) LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO a VALUES (k, 1);
            INSERT INTO b VALUES (k, 2);
        END $$;"
    );
    // Of another segment of the log, so that the inserts do not shape the blocks.
    let procedures = format!(
        "CREATE PROCEDURE there(k {parameter}) LANGUAGE plpgsql AS $$
        DECLARE p INT := 0;
        BEGIN
            UPDATE a SET v = (v * 3 + 1) % 1009 WHERE id = k RETURNING v INTO p;
            UPDATE b SET v = (v * 5 + coalesce(p, 0)) % 1009 WHERE id = k;
        END $$;
        CREATE PROCEDURE back(k {parameter}) LANGUAGE plpgsql AS $$
        DECLARE p INT := 0;
        BEGIN
            UPDATE b SET v = (v * 7 + 1) % 1009 WHERE id = k RETURNING v INTO p;
            UPDATE a SET v = (v * 11 + coalesce(p, 0)) % 1009 WHERE id = k;
        END $$;"
    );
    for by_value_every in [usize::MAX, 3] {
        let fill = (0..8).map(|n| ("fill", vec![key(n)])).collect();
        let name = |n: i64| if n * 7 / 3 % 2 == 0 { "there" } else { "back" };
        let calls = (0..400).map(|n| (name(n), vec![key(n % 8)]));
        let none = ["there", "back"].map(|procedure| (procedure, vec![Value::Null]));
        let calls = calls.chain(none).collect();
        check_parts(&[(&tables, fill), (&procedures, calls)], |number| number % by_value_every == 2);
    }
}

/// The columns of two tables that stand for one key hold it in several widths, scales and with NULL or
/// without: a row is of one partition whatever the column that its piece begins with.
#[test]
fn tables_share_a_key_of_several_types() {
    let int = |n: i64| Value::Int(n - 3);
    for parameter in ["INT", "BIGINT"] {
        check_shared_keys("INT PRIMARY KEY", "BIGINT PRIMARY KEY", parameter, int);
        check_shared_keys("SMALLINT PRIMARY KEY", "NUMERIC(12,2) PRIMARY KEY", parameter, int);
        check_shared_keys("INT PRIMARY KEY", "INT UNIQUE", parameter, int);
        check_shared_keys("BIGINT", "INT NOT NULL", parameter, int);
    }
    let text = |n: i64| Value::Text(format!("key {n}"));
    check_shared_keys("TEXT PRIMARY KEY", "VARCHAR(9) UNIQUE", "TEXT", text);
}

/// Rows that move between tables that share a key: how many rows a call writes follows from the calls before
/// it, so replay in another order is refused before states are compared.
#[test]
fn rows_move_between_tables_that_share_a_key() {
    let script = "
        CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE TABLE b (id BIGINT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE there(k INT) LANGUAGE plpgsql AS $$
        DECLARE p INT;
        BEGIN
            DELETE FROM a WHERE id = k RETURNING v INTO p;
            IF FOUND THEN
                INSERT INTO b VALUES (k, p + 1);
            ELSE
                UPDATE b SET v = v * 3 % 1009 WHERE id = k;
            END IF;
        END $$;
        CREATE PROCEDURE back(k INT) LANGUAGE plpgsql AS $$
        DECLARE p INT;
        BEGIN
            DELETE FROM b WHERE id = k RETURNING v INTO p;
            IF FOUND THEN
                INSERT INTO a VALUES (k, p + 1);
            ELSE
                UPDATE a SET v = v * 5 % 1009 WHERE id = k;
            END IF;
        END $$;";
    let rows = (0..8).map(|id| format!("INSERT INTO a VALUES ({id}, {id});"));
    let script = script.to_owned() + &rows.collect::<String>();
    let name = |n: i64| if n * 7 / 3 % 2 == 0 { "there" } else { "back" };
    let calls = || (0..400).map(|n| (name(n), vec![Value::Int(n % 8)]));
    check_calls(&script, calls(), |_| false);
    check_calls(&script, calls(), |number| number % 3 == 2);
}

/// A column that rounds or cuts what it is given holds another value than the parameter: the partition is
/// that of the row.
#[test]
fn rows_are_where_their_columns_say() {
    let cents = |n: i64| Value::Numeric(format!("{n}.004").parse().unwrap());
    check_shared_keys("NUMERIC(8,2) PRIMARY KEY", "NUMERIC(8,2) UNIQUE", "NUMERIC(8,3)", cents);
    check_shared_keys("NUMERIC(8,2) PRIMARY KEY", "INT UNIQUE", "NUMERIC(8,2)", |n| {
        Value::Numeric(format!("{n}.40").parse().unwrap())
    });
    check_shared_keys("CHAR(8) PRIMARY KEY", "TEXT UNIQUE", "TEXT", |n| Value::Text(format!("k{n}  ")));
}

/// Rounds take as many witness values as they received when they ran, so a round may run on its own only
/// where every one takes equally many.
#[test]
fn rounds_that_pass_over_a_witness_stay_together() {
    let script = "
        CREATE TABLE item (a INT, b INT, v INT NOT NULL, PRIMARY KEY (a, b));
        CREATE PROCEDURE raise_some(p INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE m INT;
        BEGIN
            FOR i IN 1..n LOOP
                CONTINUE WHEN (i + p) % 3 = 0;
                SELECT max(v) INTO m FROM item WHERE a = i;
                UPDATE item SET v = m + i WHERE a = i AND b = p % 4;
            END LOOP;
        END $$;";
    let rows = (1..10).flat_map(|a| (0..4).map(move |b| format!("INSERT INTO item VALUES ({a}, {b}, {b});")));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("raise_some", vec![Value::Int(n % 7), Value::Int(3 + n % 7)]));
    check_calls(&script, calls, |_| false);
}

/// A round that uses what an earlier one computed does not run on its own.
#[test]
fn rounds_that_hand_values_on_stay_together() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE carry(p INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE m INT := 0;
        BEGIN
            FOR i IN 1..n LOOP
                UPDATE item SET v = v + m WHERE a = i;
                m := m + p * i;
            END LOOP;
        END $$;";
    let rows = (1..10).map(|a| format!("INSERT INTO item VALUES ({a}, 0);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("carry", vec![Value::Int(n % 7), Value::Int(3 + n % 7)]));
    check_calls(&script, calls, |_| false);
}

/// Rows that hand a unique key from one to the other are of one partition, though the procedure that does so
/// is only logged by value, and those that are logged as calls leave unique keys alone.
#[test]
fn rows_hand_unique_keys_on() {
    let script = "
        CREATE TABLE seat (id INT PRIMARY KEY, place INT NOT NULL, note TEXT);
        CREATE UNIQUE INDEX seat_place ON seat (place);
        CREATE PROCEDURE rotate(p_id INT) LANGUAGE plpgsql AS $$
        DECLARE
            v_first INT;
            v_second INT;
        BEGIN
            SELECT place INTO v_first FROM seat WHERE id = p_id;
            SELECT place INTO v_second FROM seat WHERE id = (p_id + 1) % 16;
            UPDATE seat SET place = -1 WHERE id = p_id;
            UPDATE seat SET place = v_first WHERE id = (p_id + 1) % 16;
            UPDATE seat SET place = v_second WHERE id = p_id;
        END $$;
        CREATE PROCEDURE annotate(p_id INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE seat SET note = left('again ' || coalesce(note, ''), 20) WHERE id = p_id;
        END $$;";
    let rows = (0..16).map(|id| format!("INSERT INTO seat VALUES ({id}, {id}, NULL);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let procedures = ["rotate", "annotate"];
    let calls = (0..1000).map(|n| (procedures[n as usize % 2], vec![Value::Int(n * 7 % 16)]));
    check_calls(&script, calls, |number| number % 2 == 0);
}

/// A row that is looked up ahead, and deleted and inserted again before its turn, is another one then. The
/// table is so large that looking up ahead is worth it.
#[test]
fn rows_that_come_back_are_found() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE come(k INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (k, 0); END $$;
        CREATE PROCEDURE grow(k INT) LANGUAGE plpgsql AS $$
            BEGIN UPDATE item SET v = v + 1 WHERE a = k; END $$;
        CREATE PROCEDURE go(k INT) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM item WHERE a = k; END $$;";
    let steps = ["come", "grow", "grow", "go", "come", "grow", "go"];
    let calls = (0..500).flat_map(|n| steps.map(|step| (step, vec![Value::Int(n % 3)])));
    let last = (0..3).flat_map(|k| ["come", "grow"].map(|step| (step, vec![Value::Int(k)])));
    let first = (10..600).map(|k| ("come", vec![Value::Int(k)]));
    check_calls(script, first.chain(calls).chain(last), |_| false);
}

/// A piece that touches the rows of two keys runs after everything that touched either before it. What is
/// done to a row is not the same in another order.
#[test]
fn pieces_of_several_keys_stay_with_all_of_them() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(p INT, q INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE item SET v = (v * 3 + q) % 1009 WHERE a = p;
            UPDATE item SET v = (v * 5 + p) % 1009 WHERE a = q;
        END $$;
        CREATE PROCEDURE turn(p INT, q INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE item SET v = (v * 7 + 1) % 1009 WHERE a = p;
        END $$;";
    let rows = (0..40).map(|a| format!("INSERT INTO item VALUES ({a}, {a});"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..3000).map(|n| {
        let procedure = if n % 3 == 0 { "pass" } else { "turn" };
        (procedure, vec![Value::Int(n * 7 % 40), Value::Int(n * 11 % 40)])
    });
    check_calls(&script, calls, |number| number % 5 == 0);
}

/// A table that calls only read is read at their place in the order, where transactions logged by value write
/// it.
#[test]
fn tables_that_are_written_by_value_are_read_in_order() {
    let script = "
        CREATE TABLE rate (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE TABLE item (a INT PRIMARY KEY, v BIGINT NOT NULL);
        INSERT INTO rate VALUES (1, 0);
        CREATE PROCEDURE set_rate(k INT, n INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE rate SET v = n WHERE id = 1;
        END $$;
        CREATE PROCEDURE charge(k INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE r INT;
        BEGIN
            SELECT v INTO r FROM rate WHERE id = 1;
            UPDATE item SET v = v + r WHERE a = k;
        END $$;";
    let rows = (0..20).map(|a| format!("INSERT INTO item VALUES ({a}, 0);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..1000).map(|n| {
        let procedure = if n % 4 == 0 { "set_rate" } else { "charge" };
        (procedure, vec![Value::Int(n % 20), Value::Int(n)])
    });
    check_calls(&script, calls, |number| number % 4 == 0);
}

/// Calls `pass(x)`, whose loop may fall into rounds, over ten rows of `item`.
fn check_rounds(script: &str) {
    let rows = (0..10).map(|a| format!("INSERT INTO item VALUES ({a}, {a});"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = (0..400).map(|n| ("pass", vec![Value::Int(n)]));
    check_calls(&script, calls, |_| false);
}

/// A loop over no rows sets its variables to NULL, so nothing goes from one round to the next through them.
#[test]
fn loops_over_no_rows_forget_the_row_before() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(x INT) LANGUAGE plpgsql AS $$
        DECLARE p INT; e INT;
        BEGIN
            FOR i IN 1..9 LOOP
                FOR p, e IN SELECT v, a FROM item WHERE a = i AND v % 3 <> 0 LOOP END LOOP;
                UPDATE item SET v = (v * 5 + coalesce(p, x)) % 1009 WHERE a = i;
            END LOOP;
        END $$;";
    check_rounds(script);
}

/// Inside of a loop over rows FOUND is what it was before that began, which may be of the round before.
#[test]
fn found_inside_a_loop_over_rows_is_of_the_round_before() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE pass(x INT) LANGUAGE plpgsql AS $$
        DECLARE p INT; e INT;
        BEGIN
            FOR i IN 1..9 LOOP
                FOR p, e IN SELECT v, a FROM item WHERE a = i AND v % 3 <> 0 LOOP
                    IF FOUND THEN
                        UPDATE item SET v = (v * 5 + x) % 1009 WHERE a = i;
                    END IF;
                END LOOP;
            END LOOP;
        END $$;";
    check_rounds(script);
}

/// A call draws the same numbers whatever its pieces are: before, inside and behind loops and branches, and
/// once for each row.
#[test]
fn draws_are_the_same_in_pieces() {
    let script = "
        CREATE TABLE item (a INT PRIMARY KEY, v DOUBLE PRECISION, w TEXT);
        CREATE TABLE other (a INT PRIMARY KEY, v DOUBLE PRECISION, w TEXT);
        CREATE TABLE event (a INT, v DOUBLE PRECISION, w TEXT);
        CREATE INDEX event_a ON event (a);
        CREATE FUNCTION noise() RETURNS DOUBLE PRECISION LANGUAGE plpgsql AS $$
        BEGIN
            RETURN random() + random();
        END $$;
        CREATE PROCEDURE mix(k INT, l INT) LANGUAGE plpgsql AS $$
        DECLARE p DOUBLE PRECISION; n INT;
        BEGIN
            p := random();
            UPDATE item SET v = v + p, w = left(gen_random_uuid()::text, 9) WHERE a = k RETURNING a INTO n;
            IF FOUND THEN
                p := noise();
            END IF;
            INSERT INTO event VALUES (k, random(), gen_random_uuid()::text);
            FOR i IN 1..3 LOOP
                p := p + random();
                UPDATE other SET v = v + p WHERE a = (l + i) % 16;
            END LOOP;
            INSERT INTO event VALUES (l, p, 'x' || random());
        END $$;
        CREATE PROCEDURE plain(k INT, l INT) LANGUAGE plpgsql AS $$
        DECLARE p DOUBLE PRECISION := random();
        BEGIN
            UPDATE item SET v = v + p WHERE a = k;
            UPDATE other SET v = v - p, w = now()::text WHERE a = k;
            UPDATE event SET v = v + 1 WHERE a = k;
            DELETE FROM event WHERE a = l AND v > 2;
        END $$;";
    let each = "
        CREATE PROCEDURE each_row(k INT, l INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE event SET v = random() WHERE a = k;
            UPDATE item SET v = CASE WHEN k > l THEN random() ELSE v END WHERE a = k;
            INSERT INTO event VALUES (k, coalesce(NULL, random()), 'last');
        END $$;";
    let rows =
        (0..16).map(|a| format!("INSERT INTO item VALUES ({a}, 0); INSERT INTO other VALUES ({a}, 0);"));
    let script = script.to_owned() + &rows.collect::<String>();
    let calls = |procedures: &'static [&'static str]| {
        let call = |n: i64| {
            (procedures[n as usize % procedures.len()], vec![Value::Int(n * 7 % 17), Value::Int(n * 5 % 16)])
        };
        (0..400).map(call).collect::<Vec<_>>()
    };
    let parts = [(&script[..], calls(&["mix", "plain"])), (each, calls(&["each_row", "plain", "mix"]))];
    check_parts(&parts, |_| false);
    check_parts(&parts, |number| number % 3 == 1);
}

/// Two procedures only read a table, in parts of their own, and the log writes it by value alone: what they
/// read is as old as it was.
#[test]
fn all_reads_of_a_table_that_is_written_by_value_stay_in_order() {
    let script = "
        CREATE TABLE source (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE TABLE first (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE TABLE second (id INT PRIMARY KEY, v INT NOT NULL);
        CREATE PROCEDURE change(k INT, n INT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE source SET v = n WHERE id = k;
        END $$;
        CREATE PROCEDURE copy(k INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE p INT;
        BEGIN
            SELECT v INTO p FROM source WHERE id = k;
            UPDATE first SET v = p WHERE id = k;
        END $$;
        CREATE PROCEDURE add(k INT, n INT) LANGUAGE plpgsql AS $$
        DECLARE p INT;
        BEGIN
            UPDATE second SET v = v + n WHERE id = k RETURNING v INTO p;
            SELECT v INTO p FROM source WHERE id = p % 8;
            UPDATE second SET v = p WHERE id = k;
        END $$;";
    let fill = (0..8).map(|id| {
        let insert = |table| format!("INSERT INTO {table} VALUES ({id}, {id});");
        ["source", "first", "second"].map(insert).concat()
    });
    let script = script.to_owned() + &fill.collect::<String>();
    let calls = (0..300).map(|n| {
        let procedure = ["copy", "add", "change"][n as usize % 3];
        (procedure, vec![Value::Int(n * 5 / 3 % 8), Value::Int(n)])
    });
    check_calls(&script, calls, |number| number % 3 == 2);
}

/// A loop that does nothing but end still sets its variables: to the row or the element at which it was left.
#[test]
fn a_loop_is_left_at_the_same_row() {
    let script = "
    CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
    CREATE TABLE u (id INT PRIMARY KEY, v INT NOT NULL);
    INSERT INTO t SELECT n, n % 4 FROM generate_series(0, 9) AS g (n);
    INSERT INTO u SELECT n, n % 4 FROM generate_series(0, 9) AS g (n);
    CREATE PROCEDURE at_a_row(k INT) LANGUAGE plpgsql AS $$
    DECLARE found_id INT; found_v INT;
    BEGIN
        FOR found_id, found_v IN SELECT id, v FROM t WHERE id >= k ORDER BY id LOOP
            EXIT WHEN found_v = 2;
        END LOOP;
        UPDATE t SET v = found_v + 1 WHERE id = found_id;
        UPDATE u SET v = v + found_id WHERE id = k;
    END $$;
    CREATE PROCEDURE at_an_element(k INT) LANGUAGE plpgsql AS $$
    DECLARE last INT; outer_last INT; n INT;
    BEGIN
        FOREACH last IN ARRAY ARRAY[k, k + 1, k + 2, k + 3] LOOP
            EXIT WHEN last % 3 = 0;
        END LOOP;
        <<around>>
        FOREACH outer_last IN ARRAY ARRAY[k, k + 1, k + 2] LOOP
            FOR i IN 1..3 LOOP
                EXIT around WHEN (i + outer_last) % 5 = 0;
            END LOOP;
        END LOOP;
        FOREACH n IN ARRAY ARRAY[last, outer_last] LOOP
        END LOOP;
        UPDATE u SET v = v + 1 WHERE id = last;
        UPDATE t SET v = v + n WHERE id = outer_last;
    END $$;";
    let name = |number| if number % 2 == 0 { "at_a_row" } else { "at_an_element" };
    let calls = (0..60).map(|number| (name(number), vec![Value::Int(number * 7 % 10)]));
    check_calls(script, calls, |_| false);
}

/// Calls of a procedure `p(a, b)` on a table of 400 rows.
fn check_on_rows(body: &str, calls: i64) {
    let script = format!(
        "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL);
         INSERT INTO t SELECT n, n FROM generate_series(0, 399) AS g (n);
         CREATE PROCEDURE p(a INT, b INT, OUT n INT) LANGUAGE plpgsql AS $$ {body} $$;"
    );
    let calls =
        (0..calls).map(|number| ("p", vec![Value::Int(number * 37 % 300), Value::Int(number * 7 % 4)]));
    check_calls(&script, calls, |_| false);
}

/// A round whose variable its body changes reaches other rows than its number tells.
#[test]
fn a_loop_changes_its_variable() {
    let body = "BEGIN FOR i IN a..a + 40 LOOP
        IF i % 3 = b THEN i := i + 7; END IF;
        UPDATE t SET v = b * 1000 + a WHERE id = i;
    END LOOP; END";
    check_on_rows(body, 150);
}

/// What comes before a loop changes what it began with: it must not happen again in every round.
#[test]
fn what_comes_before_a_loop_happens_once() {
    let update = "UPDATE t SET v = (v * 3 + coalesce(n, b)) % 1000003 WHERE id = i;";
    for before in [
        "IF b > 1 THEN b := b + 1; END IF;",
        "IF b > 1 THEN n := coalesce(n, 0) + b; END IF;",
        "WHILE a % 4 > 0 LOOP a := a + 1; b := b + 1; END LOOP;",
    ] {
        check_on_rows(&format!("BEGIN {before} FOR i IN a..a + 40 LOOP {update} END LOOP; END"), 100);
    }
    let array = "DECLARE s INT[]; BEGIN s := ARRAY[b]; s[1] := s[1] + 1;
        FOR i IN a..a + 40 LOOP UPDATE t SET v = v * 3 + s[1] WHERE id = i; END LOOP; END";
    check_on_rows(array, 100);
}

/// A loop that is never reached may have any bounds: nothing is planned for it.
#[test]
fn rounds_that_never_ran_are_not_planned() {
    let script = "
    CREATE TABLE lg (k INT PRIMARY KEY, n INT NOT NULL);
    CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL);
    INSERT INTO t SELECT n, n FROM generate_series(0, 99) AS g (n);
    CREATE PROCEDURE p(k INT, n INT) LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO lg VALUES (k, n);
        IF n > 1000 THEN RETURN; END IF;
        FOR i IN 1..n LOOP UPDATE t SET v = v * 3 % 100003 + n WHERE id = i; END LOOP;
    END $$;";
    // Recovery samples one call of several, and not the last one.
    let last = std::iter::once(("p", vec![Value::Int(-1), Value::Int(400_000_000)]));
    let calls = (0..2_003).map(|k| ("p", vec![Value::Int(k), Value::Int(k % 20)]));
    check_calls(script, calls.chain(last), |_| false);
}

/// Of a variable that is named twice the second value counts.
#[test]
fn a_variable_is_read_into_twice() {
    let script = "
    CREATE TABLE w (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL);
    CREATE INDEX w_k ON w (k);
    INSERT INTO w SELECT n, n % 50, n FROM generate_series(0, 399) AS g (n);
    CREATE TABLE t (id INT PRIMARY KEY, v BIGINT NOT NULL);
    INSERT INTO t SELECT n, n FROM generate_series(0, 399) AS g (n);
    CREATE PROCEDURE p(a INT) LANGUAGE plpgsql AS $$ DECLARE x INT; BEGIN
        SELECT v, id INTO x, x FROM w WHERE k = a ORDER BY id DESC LIMIT 1;
        UPDATE t SET v = v * 3 % 1000003 + x WHERE id = a;
        UPDATE w SET v = v + 1 WHERE id = a;
    END $$;";
    check_calls(script, (0..100).map(|n| ("p", vec![Value::Int(n * 7 % 50)])), |_| false);
}

/// Nothing looks for referenced rows in replay, whether or not the procedure falls into parts.
#[test]
fn references_are_not_looked_up_in_replay() {
    let script = "
    CREATE TABLE parent (id INT PRIMARY KEY, v INT NOT NULL);
    CREATE TABLE child (id INT PRIMARY KEY, parent INT NOT NULL REFERENCES parent (id), r DOUBLE PRECISION);
    CREATE PROCEDURE add_child(a INT, b INT) LANGUAGE plpgsql AS $$ DECLARE x DOUBLE PRECISION; BEGIN
        x := CASE WHEN b > 0 THEN random() ELSE 0 END;
        INSERT INTO child VALUES (a, b, x);
    END $$;
    CREATE PROCEDURE add_parents(a INT) LANGUAGE plpgsql AS $$ BEGIN
        FOR i IN a..a + 50 LOOP INSERT INTO parent VALUES (i, 0); END LOOP;
    END $$;";
    let calls = (1..100).flat_map(|n: i64| {
        let child = move |j| ("add_child", vec![Value::Int(n * 100 + j), Value::Int(n * 100 + 50)]);
        std::iter::once(("add_parents", vec![Value::Int(n * 100)])).chain((0..5).map(child))
    });
    check_calls(script, calls, |_| false);
}
