//! Random definitions, inside and outside of transactions, with rows, rollbacks, savepoints and kills between
//! them.

use super::{KILLS, Target, outcome, seeds};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A random definition or statement over a few names, most of which fits what is there.
fn statement(random: &mut SmallRng) -> String {
    let (a, b) = (random.random_range(0..4), random.random_range(0..4));
    let n = random.random_range(0..1000);
    match random.random_range(0..24) {
        0..3 => format!("CREATE TABLE d{a} (id INT PRIMARY KEY, x INT, y TEXT)"),
        3 => format!("CREATE TABLE d{a} (id SERIAL PRIMARY KEY, x INT REFERENCES d{b}, y TEXT UNIQUE)"),
        4..6 => format!("ALTER TABLE d{a} ADD FOREIGN KEY (x) REFERENCES d{b}"),
        6 => format!("ALTER TABLE d{a} ADD CONSTRAINT d{a}_k UNIQUE (x)"),
        7 => format!("CREATE INDEX d{a}_i{b} ON d{a} (x, y)"),
        8 => format!("ALTER TABLE d{a} ADD COLUMN z{b} INT DEFAULT {n}"),
        9 => format!("ALTER TABLE d{a} DROP COLUMN z{b}"),
        10 => format!("ALTER TABLE d{a} ALTER COLUMN x TYPE BIGINT"),
        11 => format!("ALTER TABLE d{a} ALTER COLUMN x SET NOT NULL"),
        12 => format!("ALTER TABLE d{a} RENAME TO d{b}"),
        13 => format!("DROP TABLE d{a} CASCADE"),
        14 => format!("TRUNCATE d{a} CASCADE"),
        15 => format!(
            "CREATE OR REPLACE FUNCTION f{a}() RETURNS BIGINT LANGUAGE plpgsql AS $$
             BEGIN RETURN (SELECT count(*) FROM d{b}); END $$"
        ),
        16 => format!("CREATE OR REPLACE VIEW w{a} AS SELECT id, x FROM d{b}"),
        17 => format!("DROP VIEW IF EXISTS w{a}"),
        18 => format!("DROP INDEX IF EXISTS d{a}_i{b}"),
        19 => format!("SELECT count(*) FROM d{a}"),
        20 => format!("UPDATE d{a} SET y = y || 'z'"),
        _ => format!("INSERT INTO d{a} (id, x, y) VALUES ({n}, {}, '{n}')", n % 7),
    }
}

#[test]
fn random_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = Target::start(folder.path());
    for seed in seeds(40) {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut clients = [target.connect(), target.connect()];
        let mut said = Vec::new();
        for _ in 0..30 {
            let own = &mut clients[usize::from(random.random_range(0..8) == 0)];
            let text = match random.random_range(0..12) {
                0 => "BEGIN".to_owned(),
                1 => "COMMIT".to_owned(),
                2 => "ROLLBACK".to_owned(),
                3 => "SAVEPOINT s".to_owned(),
                4 => "ROLLBACK TO s".to_owned(),
                _ => statement(&mut random),
            };
            let answer = outcome(
                own,
                &format!("SET statement_timeout = '300ms'; {text}")
                    .replace("SET statement_timeout = '300ms'; BEGIN", "BEGIN"),
            );
            let is_known = answer.len() == 5 || answer == "ok";
            said.push(format!("{text}: {answer}"));
            assert!(is_known && answer != "XX000", "seed {seed}: {said:#?}");
        }
        drop(clients);
        target.check(&format!("seed {seed}: {said:#?}"));
        if seed % KILLS == KILLS - 1 {
            drop(target);
            target = Target::start(folder.path());
        }
    }
    let mut client = target.connect();
    for n in 0..4 {
        let drops = ["VIEW IF EXISTS w", "FUNCTION IF EXISTS f", "TABLE IF EXISTS d"];
        for drops in drops {
            let _ = client.batch_execute(&format!("DROP {drops}{n} CASCADE"));
        }
    }
    drop(client);
    target.end("random definitions");
}
