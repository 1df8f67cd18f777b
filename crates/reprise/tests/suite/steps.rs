//! Procedures that end transactions themselves: each step is durable, and none is done twice.

use crate::common::Durably as _;
use crate::common::{open, recovered_digest, small};
use reprise::{Database, Nowhere, Scheme, Session, params};

fn count(session: &mut Session, query: &str) -> String {
    session.query(query).unwrap().rows[0][0].to_string()
}

const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE hot (id INT PRIMARY KEY, n INT NOT NULL);
INSERT INTO hot VALUES (1, 0);
CREATE PROCEDURE in_batches(p_rows INT, p_each INT, p_fail INT) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..p_rows LOOP
        IF i = p_fail THEN RAISE EXCEPTION 'row % fails', i; END IF;
        INSERT INTO t VALUES (i, i);
        IF i % p_each = 0 THEN COMMIT; END IF;
    END LOOP;
END $$;
CREATE PROCEDURE every_other() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 101..110 LOOP
        INSERT INTO t VALUES (i, 0);
        IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
    END LOOP;
END $$;
CREATE PROCEDURE guarded() LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t VALUES (201, 0);
    BEGIN COMMIT; EXCEPTION WHEN OTHERS THEN INSERT INTO t VALUES (202, 0); END;
END $$;
CREATE PROCEDURE bump(p_times INT) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..p_times LOOP
        UPDATE hot SET n = n + 1 WHERE id = 1;
        COMMIT;
    END LOOP;
END $$;
CREATE PROCEDURE outer_one() LANGUAGE plpgsql AS $$
BEGIN INSERT INTO t VALUES (301, 0); CALL bump(1); INSERT INTO t VALUES (302, 0); ROLLBACK; END $$;";

#[test]
fn steps_stay_and_what_fails_after_them_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let live = {
        let db = open(folder.path());
        let mut session = db.session().unwrap();
        session.execute_script(SCHEMA).unwrap();
        session.call_durably("in_batches", params![25, 10, 0]).unwrap();
        assert_eq!(count(&mut session, "SELECT count(*) FROM t"), "25");
        session.query("DELETE FROM t").unwrap();
        let error = session.call_durably("in_batches", params![25, 10, 17]).unwrap_err();
        assert_eq!(error.sqlstate(), "P0001", "{error}");
        assert_eq!(count(&mut session, "SELECT count(*) FROM t"), "10", "the step that failed left nothing");
        session.call_durably("every_other", params![]).unwrap();
        assert_eq!(
            count(&mut session, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t WHERE id > 100"),
            "102 104 106 108 110"
        );
        session.call_durably("outer_one", params![]).unwrap();
        assert_eq!(
            count(&mut session, "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t WHERE id > 300"),
            "301"
        );
        session.call_durably("guarded", params![]).unwrap();
        assert_eq!(
            count(
                &mut session,
                "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t WHERE id BETWEEN 200 AND 300"
            ),
            "201 202"
        );
        session.begin().unwrap();
        let call = session.prepare("CALL every_other()").unwrap();
        let error = session.execute_into(&call, &[], Box::new(Nowhere)).unwrap_err();
        assert_eq!(error.sqlstate(), "2D000", "{error}");
        session.rollback();
        db.digest().unwrap()
    };
    assert_eq!(recovered_digest(folder.path()), live);
}

#[test]
fn contended_steps_lose_nothing() {
    Scheme::all().for_each(contend);
}

fn contend(concurrency: Scheme) {
    let folder = tempfile::tempdir().unwrap();
    let live = {
        let mut config = small();
        config.concurrency = concurrency;
        let db = Database::open(folder.path(), config).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        let done: i64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut session = db.session().unwrap();
                        let mut done = 0;
                        for _ in 0..300 {
                            // What loses a race after its first step has done some: so one step a call here.
                            match session.call_durably("bump", params![1]) {
                                Ok(_) => done += 1,
                                Err(error) => assert_eq!(error.sqlstate(), "40001", "{error}"),
                            }
                        }
                        done
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let counted = count(&mut db.session().unwrap(), "SELECT n FROM hot");
        assert_eq!(counted, done.to_string(), "{concurrency}");
        db.digest().unwrap()
    };
    assert_eq!(recovered_digest(folder.path()), live);
}
