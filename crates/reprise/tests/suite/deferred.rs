//! Foreign keys that are checked at the end of a transaction, in every way in which one ends, under every
//! concurrency control; random histories come to what a model of the keys says.

use crate::common::{Durably as _, recovered_digest_of, scheme_of, seeds, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Database, Error, Nowhere, Scheme, Session, Value};
use std::collections::BTreeMap;

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(Nowhere))?;
    completion.commit.wait()
}

const SCHEMA: &str = "
CREATE TABLE p (id INT PRIMARY KEY, n INT);
CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED, q INT);
CREATE TABLE s (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES s DEFERRABLE);
CREATE PROCEDURE pair(c INT, p INT) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO c VALUES (c, p); INSERT INTO p VALUES (p, 0); END $$;
CREATE PROCEDURE lone(c INT, p INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO c VALUES (c, p); END $$;
CREATE PROCEDURE stepped(c INT, p INT) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO c VALUES (c, p); INSERT INTO p VALUES (p, 0); COMMIT;
  INSERT INTO c VALUES (c + 1, p + 1); END $$;
CREATE PROCEDURE broken(c INT, p INT) LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO c VALUES (c, p); COMMIT; INSERT INTO p VALUES (p, 0); END $$;
";

fn database(content: Content, scheme: Scheme) -> (tempfile::TempDir, Database, Session) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    (config.content, config.concurrency) = (content, scheme);
    let database = Database::open(folder.path(), config).unwrap();
    let mut session = database.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    (folder, database, session)
}

fn ids(session: &mut Session, table: &str) -> Vec<i64> {
    let answer = session.query(&format!("SELECT id FROM {table} ORDER BY id")).unwrap();
    answer.rows.iter().map(|row| if let Value::Int(n) = row[0] { n } else { -1 }).collect()
}

#[test]
fn calls_are_checked_at_their_end() {
    for scheme in Scheme::all() {
        let (folder, database, mut session) = self::database(Content::Command, scheme);
        let ints = |c: i64, p: i64| [Value::Int(c), Value::Int(p)];
        session.call_durably("pair", &ints(1, 10)).unwrap();
        for (procedure, state) in [("lone", "23503"), ("broken", "23503")] {
            let error = session.call_durably(procedure, &ints(2, 20)).unwrap_err();
            assert_eq!(error.sqlstate(), state, "{scheme}: {procedure}");
        }
        // The first step stays.
        assert_eq!(
            session.call_durably("stepped", &ints(3, 30)).unwrap_err().sqlstate(),
            "23503",
            "{scheme}"
        );
        assert_eq!(run(&mut session, "DELETE FROM p WHERE id = 10").unwrap_err().sqlstate(), "23503");
        assert_eq!(run(&mut session, "INSERT INTO c VALUES (5, 50)").unwrap_err().sqlstate(), "23503");
        assert_eq!(ids(&mut session, "c"), [1, 3], "{scheme}");
        assert_eq!(ids(&mut session, "p"), [10, 30], "{scheme}");
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest, "{scheme}");
    }
}

/// A change of a table with rows that are not checked yet is refused, as on PostgreSQL.
#[test]
fn tables_with_pending_checks_do_not_change() {
    let (_folder, _database, mut session) = database(Content::Command, Scheme::Optimistic);
    for statement in ["ALTER TABLE c ADD CHECK (id > 0)", "CREATE INDEX ON c (q)", "TRUNCATE c"] {
        session.begin().unwrap();
        run(&mut session, "INSERT INTO c VALUES (1, 1)").unwrap();
        assert_eq!(run(&mut session, statement).unwrap_err().sqlstate(), "55006", "{statement}");
        session.rollback();
    }
    session.begin().unwrap();
    run(&mut session, "INSERT INTO c VALUES (1, 1)").unwrap();
    run(&mut session, "INSERT INTO p VALUES (1, 1)").unwrap();
    // No key refers to this column, and inserted rows leave no key unused.
    run(&mut session, "UPDATE p SET n = 2").unwrap();
    run(&mut session, "ALTER TABLE p ADD CHECK (n > 0)").unwrap();
    run(&mut session, "SET CONSTRAINTS ALL IMMEDIATE").unwrap();
    run(&mut session, "ALTER TABLE c ADD CHECK (id > 0)").unwrap();
    session.commit().unwrap().wait().unwrap();
    assert_eq!(ids(&mut session, "c"), [1]);
}

/// The rows of both tables: the parents, and the parent of each child.
#[derive(Clone, Default)]
struct Model {
    parents: BTreeMap<i64, ()>,
    children: BTreeMap<i64, Option<i64>>,
}

impl Model {
    fn is_whole(&self) -> bool {
        self.children.values().flatten().all(|parent| self.parents.contains_key(parent))
    }

    /// Makes a random statement, and returns its text. The statement does not fail but for the foreign key.
    fn step(&mut self, rng: &mut SmallRng) -> String {
        let (id, other) = (rng.random_range(0..6), rng.random_range(0..6));
        match rng.random_range(0..7) {
            0 => {
                self.parents.insert(id, ());
                format!("INSERT INTO p VALUES ({id}, 0) ON CONFLICT DO NOTHING")
            }
            1 => {
                self.parents.remove(&id);
                format!("DELETE FROM p WHERE id = {id}")
            }
            2 if !self.parents.contains_key(&other) => {
                if self.parents.remove(&id).is_some() {
                    self.parents.insert(other, ());
                }
                format!("UPDATE p SET id = {other} WHERE id = {id}")
            }
            3 => {
                self.children.remove(&id);
                format!("DELETE FROM c WHERE id = {id}")
            }
            4 => {
                self.children
                    .iter_mut()
                    .filter(|(_, parent)| **parent == Some(id))
                    .for_each(|(_, p)| *p = None);
                format!("UPDATE c SET p = NULL WHERE p = {id}")
            }
            _ => {
                self.children.insert(id, Some(other));
                format!("INSERT INTO c VALUES ({id}, {other}) ON CONFLICT (id) DO UPDATE SET p = {other}")
            }
        }
    }
}

/// A transaction that fails behind a savepoint gives its writes and definitions back together.
#[test]
fn what_fails_behind_a_savepoint_and_a_definition_is_undone() {
    for scheme in Scheme::all() {
        let (folder, database, mut session) = self::database(Content::Command, scheme);
        run(&mut session, "CREATE TABLE d (id INT PRIMARY KEY, b TEXT)").unwrap();
        for fails in ["INSERT INTO c VALUES (8, 9)", "SELECT 1 / (SELECT count(*) FROM c)"] {
            session.begin().unwrap();
            run(&mut session, "INSERT INTO d VALUES (3)").unwrap();
            session.set_savepoint("before").unwrap();
            run(&mut session, "ALTER TABLE d ADD COLUMN z INT").unwrap();
            run(&mut session, "UPDATE d SET z = 4").unwrap();
            let failed = run(&mut session, fails).and_then(|()| session.commit().map(|_| ()));
            assert!(["23503", "22012"].contains(&failed.unwrap_err().sqlstate()), "{scheme}: {fails}");
            session.rollback();
            assert_eq!(ids(&mut session, "d"), Vec::<i64>::new(), "{scheme}");
            // No lock remains.
            run(&mut database.session().unwrap(), "INSERT INTO d VALUES (3, 'x')").unwrap();
            run(&mut session, "DELETE FROM d").unwrap();
        }
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(Content::Command, folder.path()), digest);
    }
}

#[test]
fn random_transactions_keep_the_keys() {
    for seed in seeds(24) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let contents = [Content::Command, Content::Logical, Content::Physical, Content::Physiological];
        let content = contents[seed as usize % contents.len()];
        let (folder, database, mut session) = self::database(content, scheme_of(seed));
        let mut model = Model::default();
        for _ in 0..30 {
            let before = model.clone();
            session.begin().unwrap();
            // Whether keys are deferred, and still without an error.
            let (mut deferred, mut is_good) = (true, true);
            let mut saved = None;
            for _ in 0..rng.random_range(1..6) {
                let earlier = model.clone();
                let (statement, to) = match rng.random_range(0..10) {
                    0 => ("SET CONSTRAINTS ALL IMMEDIATE".to_owned(), false),
                    1 => ("SET CONSTRAINTS c_p_fkey DEFERRED".to_owned(), true),
                    2 => {
                        session.set_savepoint("one").unwrap();
                        saved = Some((model.clone(), deferred));
                        continue;
                    }
                    3 if saved.is_some() => {
                        session.roll_back_to_savepoint("one").unwrap();
                        (model, deferred) = saved.clone().unwrap();
                        continue;
                    }
                    _ => (model.step(&mut rng), deferred),
                };
                let fits = to || model.is_whole();
                let ran = run(&mut session, &statement);
                assert_eq!(ran.is_ok(), fits, "seed {seed}: {statement}");
                if fits {
                    deferred = to;
                    continue;
                }
                assert_eq!(ran.unwrap_err().sqlstate(), "23503", "seed {seed}: {statement}");
                session.fail_transaction();
                match saved.clone() {
                    Some((before, earlier)) => {
                        session.roll_back_to_savepoint("one").unwrap();
                        (model, deferred) = (before, earlier);
                    }
                    None => {
                        is_good = false;
                        model = earlier;
                        break;
                    }
                }
            }
            let ends_well = is_good && model.is_whole();
            let ended = session.commit();
            assert_eq!(ended.is_ok(), ends_well, "seed {seed}");
            if !ends_well {
                model = before;
            }
            let rows = |table: &BTreeMap<i64, ()>| table.keys().copied().collect::<Vec<_>>();
            assert_eq!(ids(&mut session, "p"), rows(&model.parents), "seed {seed}");
            let children: Vec<i64> = model.children.keys().copied().collect();
            assert_eq!(ids(&mut session, "c"), children, "seed {seed}");
        }
        let digest = database.digest().unwrap();
        drop((session, database));
        assert_eq!(recovered_digest_of(content, folder.path()), digest, "seed {seed}");
    }
}
