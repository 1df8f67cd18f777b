//! Definitions and statements that take turns in one transaction, as migrations write them: random ones come
//! to what the same statements come to one by one, by every log and method.

use crate::common::{Durably as _, recovered_digest_of, scheme_of, seeds, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{Content, Database, Error, Nowhere, Scheme, Sequencing, Session, TransactionState, Value};

fn run(session: &mut Session, text: &str) -> Result<(), Error> {
    let prepared = session.prepare(text)?;
    let completion = session.execute_into(&prepared, &[], Box::new(Nowhere))?;
    completion.commit.wait()
}

const SCHEMA: [&str; 9] = [
    "CREATE SEQUENCE s",
    "CREATE TABLE p (id INT PRIMARY KEY, a INT, b TEXT)",
    "CREATE TABLE c (k INT, m TEXT, p INT REFERENCES p ON DELETE CASCADE, n INT, PRIMARY KEY (k, m))",
    "CREATE TABLE h (v INT, w TEXT)",
    "CREATE INDEX p_a ON p (a)",
    "INSERT INTO p VALUES (1, 10, 'x'), (2, 20, NULL), (3, NULL, 'z'), (4, 20, 'x')",
    "INSERT INTO c VALUES (1, 'a', 1, 5), (1, 'b', 2, NULL), (2, 'a', NULL, 7), (3, 'c', 3, 5)",
    "INSERT INTO h VALUES (1, 'one'), (1, 'one'), (2, NULL)",
    "SELECT nextval('s')",
];

fn name<'n>(rng: &mut SmallRng, names: &[&'n str]) -> &'n str {
    names[rng.random_range(0..names.len())]
}

/// The order of columns changes with the definitions, so writes name them. What does not exist any more, or
/// not yet, makes statements fail, in both ways of running them.
fn random_write(rng: &mut SmallRng) -> String {
    let (id, other, number) = (rng.random_range(1..9), rng.random_range(1..9), rng.random_range(0..4) * 10);
    match rng.random_range(0..13) {
        0 => format!("INSERT INTO p (id, a, b) VALUES ({id}, {number}, 'y{other}')"),
        1 => format!(
            "INSERT INTO p (id, a) VALUES ({id}, {number}) ON CONFLICT (id) DO UPDATE SET a = {number}"
        ),
        2 => format!("UPDATE p SET a = {number} WHERE a IS NULL"),
        3 => format!("UPDATE p SET b = 'filled' WHERE b IS NULL OR id = {id}"),
        4 => format!("UPDATE p SET a = a + 100 * id WHERE id > {id}"),
        5 => format!("DELETE FROM p WHERE id = {id}"),
        6 => format!("UPDATE p SET id = {other} WHERE id = {id}"),
        7 => format!("INSERT INTO c (k, m, p, n) VALUES ({id}, 'm{}', {other}, {number})", other % 3),
        8 => format!("UPDATE c SET n = {number} WHERE n IS NULL OR k = {id}"),
        9 => format!("DELETE FROM c WHERE k = {id}"),
        10 => format!("INSERT INTO h (v, w) VALUES ({id}, '{other}'), ({other}, NULL)"),
        11 => format!("UPDATE h SET w = coalesce(w, '{number}') WHERE v <= {id}"),
        _ => format!("DELETE FROM h WHERE v = {id}"),
    }
}

fn random_definition(rng: &mut SmallRng, count: &mut usize) -> String {
    *count += 1;
    let table = name(rng, &["p", "c", "h"]);
    // The rows of a table without a key have random ones, so which of them gets which number is random.
    let keyed = name(rng, &["p", "c"]);
    let column = name(rng, &["a", "b", "n", "v", "w", "x1", "x2", "x3"]);
    match rng.random_range(0..26) {
        0 => format!("ALTER TABLE {table} ADD COLUMN x{} INT", *count % 4),
        1 => format!("ALTER TABLE {table} ADD COLUMN x{} INT NOT NULL DEFAULT 7", *count % 4),
        2 => format!("ALTER TABLE {keyed} ADD COLUMN x{} SERIAL", *count % 4),
        3 => format!("ALTER TABLE {keyed} ADD COLUMN x{} INT DEFAULT nextval('s')", *count % 4),
        4 => format!("ALTER TABLE {table} DROP COLUMN {column}"),
        5 | 6 => format!("ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL"),
        7 => format!("ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL"),
        8 => format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE BIGINT"),
        9 => format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE TEXT"),
        10 => format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE INT USING length({column})"),
        11 => format!("CREATE INDEX i{count} ON {table} ({column})"),
        12 => format!("CREATE UNIQUE INDEX u{count} ON {table} ({column})"),
        13 => {
            format!("CREATE UNIQUE INDEX IF NOT EXISTS once ON {table} ({column}) WHERE {column} IS NOT NULL")
        }
        14 => format!("DROP INDEX IF EXISTS i{}", rng.random_range(0..*count)),
        15 => "DROP INDEX p_a".into(),
        16 => format!("ALTER TABLE {table} ADD CONSTRAINT k{count} CHECK ({column} > 0)"),
        17 => format!("ALTER TABLE {table} ADD CONSTRAINT f{count} FOREIGN KEY ({column}) REFERENCES p"),
        18 => format!("ALTER TABLE {table} ADD CONSTRAINT q{count} UNIQUE ({column})"),
        19 => format!("ALTER TABLE {table} DROP CONSTRAINT IF EXISTS k{}", rng.random_range(0..*count)),
        20 => format!("TRUNCATE {}", name(rng, &["h", "c", "p CASCADE"])),
        21 => format!("ALTER TABLE {table} RENAME COLUMN {column} TO x{}", *count % 4),
        22 => "CREATE TABLE IF NOT EXISTS fresh (id SERIAL PRIMARY KEY, a INT REFERENCES p, b TEXT)".into(),
        23 => format!("CREATE INDEX e{count} ON {table} (lower({column}::text))"),
        24 => "DROP TABLE IF EXISTS fresh".into(),
        _ => format!("CREATE TABLE t{count} AS SELECT * FROM {table}"),
    }
}

fn random_statement(rng: &mut SmallRng, count: &mut usize) -> String {
    match rng.random_range(0..10) {
        0..5 => random_definition(rng, count),
        5 => match rng.random_range(0..3) {
            0 => "INSERT INTO fresh (b) SELECT 'n' FROM p".into(),
            1 => "UPDATE fresh SET a = (SELECT min(id) FROM p) WHERE a IS NULL".into(),
            _ => "INSERT INTO h (v) SELECT nextval('s') FROM p WHERE id = 1".into(),
        },
        _ => random_write(rng),
    }
}

/// The rows of all tables, as texts.
fn rows(session: &mut Session) -> Vec<String> {
    let tables = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                  WHERE nspname = 'public' AND relkind = 'r' ORDER BY relname";
    let tables = session.query(tables).unwrap();
    let mut all = Vec::new();
    for table in &tables.rows {
        let Value::Text(table) = &table[0] else { panic!("{table:?}") };
        let answer = session.query(&format!("SELECT * FROM {table}")).unwrap();
        let columns: Vec<_> = answer.columns.iter().map(|column| column.name.clone()).collect();
        let mut own: Vec<String> =
            answer.rows.iter().map(|row| format!("{table}{columns:?}: {row:?}")).collect();
        own.sort();
        all.append(&mut own);
        all.push(format!("{table} has {columns:?}"));
    }
    all
}

/// Runs statements in one transaction, each after a savepoint, with parts between them that are rolled back.
/// Returns whether each has succeeded.
fn in_one(
    session: &mut Session,
    kept: &[String],
    rng: &mut SmallRng,
    is_direct: bool,
) -> Vec<Option<String>> {
    session.begin().unwrap();
    let mut outcomes = Vec::new();
    let mut count = 1000;
    for statement in kept {
        session.set_savepoint("one").unwrap();
        let ran = run(session, statement);
        if ran.is_err() {
            session.fail_transaction();
            assert_eq!(session.transaction_state(), TransactionState::Failed, "{statement}");
            session.roll_back_to_savepoint("one").unwrap();
        }
        outcomes.push(ran.err().map(|error| error.sqlstate().to_owned()));
        session.release_savepoint("one").unwrap();
        if is_direct || rng.random_bool(0.6) {
            continue;
        }
        session.set_savepoint("gone").unwrap();
        for _ in 0..rng.random_range(1..5) {
            if run(session, &random_statement(rng, &mut count)).is_err() {
                session.fail_transaction();
                session.roll_back_to_savepoint("gone").unwrap();
            }
        }
        session.roll_back_to_savepoint("gone").unwrap();
        session.release_savepoint("gone").unwrap();
    }
    outcomes
}

fn database(
    content: Content,
    sequencing: Sequencing,
    scheme: Scheme,
) -> (tempfile::TempDir, Database, Session) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    (config.content, config.sequencing, config.concurrency) = (content, sequencing, scheme);
    let database = Database::open(folder.path(), config).unwrap();
    let mut session = database.session().unwrap();
    SCHEMA.iter().for_each(|statement| run(&mut session, statement).unwrap());
    (folder, database, session)
}

/// Numbers of the shared sequence are drawn in ranges, and those of undone parts are lost, so the sequence is
/// not compared where parts are undone.
#[test]
fn random_migrations_come_to_what_their_statements_come_to() {
    let logs = [
        (Content::Command, Sequencing::Epoch),
        (Content::Logical, Sequencing::Epoch),
        (Content::Command, Sequencing::Gsn),
        (Content::Physiological, Sequencing::Epoch),
        (Content::Logical, Sequencing::Ssn),
        (Content::Command, Sequencing::Serial),
    ];
    for seed in seeds(120) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (content, sequencing) = logs[seed as usize % logs.len()];
        let mut count = 0;
        let migrations: Vec<Vec<String>> = (0..rng.random_range(1..3))
            .map(|_| (0..rng.random_range(2..9)).map(|_| random_statement(&mut rng, &mut count)).collect())
            .collect();
        let is_direct = rng.random_bool(0.4);
        let (folder, database, mut session) = self::database(content, sequencing, scheme_of(seed));
        let (_other, _plain, mut plain) =
            self::database(Content::Command, Sequencing::Epoch, Scheme::Optimistic);
        let before = rows(&mut session);
        let draws = migrations.iter().flatten().any(|own| own.contains("nextval") || own.contains("SERIAL"));
        let mut has_undone = !is_direct;
        for statements in &migrations {
            if rng.random_bool(0.2) {
                let expected = rows(&mut session);
                in_one(&mut session, statements, &mut rng, false);
                session.rollback();
                has_undone = true;
                assert_eq!(rows(&mut session), expected, "seed {seed}: rolled back {statements:#?}");
            }
            let outcomes = in_one(&mut session, statements, &mut rng, is_direct);
            for (statement, outcome) in statements.iter().zip(outcomes) {
                let ran = run(&mut plain, statement).err().map(|error| error.sqlstate().to_owned());
                assert_eq!(outcome, ran, "seed {seed}: {statement} in {statements:#?}");
            }
            let seen = rows(&mut session);
            session.commit().unwrap().wait().unwrap();
            assert_eq!(rows(&mut session), seen, "seed {seed}: {statements:#?}");
            if !has_undone || !draws {
                assert_eq!(seen, rows(&mut plain), "seed {seed}: {statements:#?} from {before:#?}");
            }
        }
        let seen = rows(&mut session);
        let digest = database.digest().unwrap();
        drop((session, database));
        let recovered = recovered_digest_of(content, folder.path());
        assert_eq!(recovered, digest, "seed {seed}, {content}, {sequencing}: {migrations:#?}");
        let database = Database::open(folder.path(), small()).unwrap();
        assert_eq!(rows(&mut database.session().unwrap()), seen, "seed {seed}");
    }
}
