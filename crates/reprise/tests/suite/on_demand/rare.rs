//! Calls that use more than a sample of the log shows.

use super::{COMMANDS, answer, copy_of};
use reprise::{Database, params};

const SCHEMA: &str = "
    CREATE TABLE many (id INT PRIMARY KEY, n BIGINT NOT NULL);
    INSERT INTO many SELECT n, n FROM generate_series(0, 1999) AS n;
    CREATE PROCEDURE one(item INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE many SET n = (n * 3 + 1) % 1000 WHERE id = item;
    END $$;
    CREATE PROCEDURE all_of(wanted INT[]) LANGUAGE plpgsql AS $$ DECLARE sum INT := 0; BEGIN
        FOR i IN 1..array_length(wanted, 1) LOOP
            sum := sum + i;
            UPDATE many SET n = (n * 5 + sum) % 1000 WHERE id = wanted[i];
        END LOOP;
    END $$;";

/// One call among 40,000, which a sample does not have. It has 5,000 rounds, so it uses the whole table.
#[test]
fn a_rare_use_of_a_whole_table_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path(), COMMANDS.config()).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    db.checkpoint().unwrap();
    let mut last = None;
    for number in 0..40_000 {
        let called = if number == 20_000 {
            session.call("all_of", params![(0..5000).map(|n| n % 700).collect::<Vec<_>>()])
        } else {
            session.call("one", params![number * 7 % 2000])
        };
        last = Some(called.unwrap().commit);
    }
    last.unwrap().wait().unwrap();
    drop((session, db));
    let copy = copy_of(folder.path());
    let closed = Database::open(copy.path(), COMMANDS.config()).unwrap();
    let db = COMMANDS.open(folder.path(), 0);
    let (mut expected, mut session) = (closed.session().unwrap(), db.session().unwrap());
    for item in (0..2000).step_by(94) {
        let text = format!("SELECT n FROM many WHERE id = {item}");
        assert_eq!(answer(&mut session, &text), answer(&mut expected, &text), "item {item}");
    }
    assert_eq!(db.digest().unwrap(), closed.digest().unwrap());
}
