//! Rows that are brought back when a transaction looks for them: every statement has the result that it has
//! once all rows are back, whatever it looks for and in whichever order.

mod conflicts;
mod damage;
mod progress;
mod rare;
mod tables;

use crate::common::{digest_by, recovered_digest, recovered_digest_of, small};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::{
    Access, Config, Content, Database, Digest, Images, Method, ReplayMode, Scheme, Sequencing, Session,
    Value, params,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SCHEMA: &str = "
    CREATE TABLE kinds (kind INT PRIMARY KEY, about TEXT NOT NULL);
    CREATE TABLE items (
        id INT PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind INT REFERENCES kinds, price NUMERIC(8, 2),
        pad TEXT NOT NULL);
    CREATE INDEX items_kind ON items (kind);
    CREATE TABLE sales (shop INT, day DATE, number BIGINT, item INT, PRIMARY KEY (shop, day, number));
    CREATE TABLE empty (id INT PRIMARY KEY);
    CREATE SEQUENCE numbers START 17;
    CREATE TABLE numbered (id INT PRIMARY KEY DEFAULT nextval('numbers'), about TEXT);
    INSERT INTO numbered (about) SELECT 'row ' || n FROM generate_series(1, 500) AS n;
    INSERT INTO kinds SELECT n, 'kind ' || n FROM generate_series(0, 39) AS n;
    INSERT INTO items SELECT 2 * n, 'item ' || 2 * n, CASE WHEN n % 7 = 0 THEN NULL ELSE n % 37 END,
        n / 4.0, repeat('p', n % 200) FROM generate_series(1, 3000) AS n;
    INSERT INTO sales SELECT n % 5, DATE '2026-01-01' + n % 30, n, 2 * n
        FROM generate_series(1, 6000) AS n;
    CREATE PROCEDURE sell(at INT, item INT, sale BIGINT, OUT paid NUMERIC) LANGUAGE plpgsql AS $$
    BEGIN
        SELECT price INTO paid FROM items WHERE id = item;
        INSERT INTO sales VALUES (at, DATE '2026-01-07', sale, item);
        UPDATE sales SET item = 0 WHERE shop = at AND day = DATE '2026-01-03' AND number = sale % 100;
    END $$;
    CREATE PROCEDURE next(at INT, OUT next BIGINT) LANGUAGE plpgsql AS $$ BEGIN
        SELECT max(number) + 1 INTO next FROM sales WHERE shop = at;
        INSERT INTO sales VALUES (at, DATE '2026-01-08', next, 0);
    END $$;
    CREATE PROCEDURE forget(item INT) LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM items WHERE id = item;
        INSERT INTO items VALUES (item, 'again ' || item, item % 40, 1, '');
    END $$;
    CREATE TABLE shops (shop INT PRIMARY KEY, next BIGINT NOT NULL, sold BIGINT NOT NULL);
    INSERT INTO shops SELECT n, 20000, 0 FROM generate_series(0, 4) AS n;
    CREATE TABLE labels (id BIGINT PRIMARY KEY, about TEXT, found INT);
    CREATE INDEX labels_found ON labels (found);
    CREATE PROCEDURE order_one(at INT, wanted INT, OUT number BIGINT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE shops SET next = next + 1 WHERE shop = at RETURNING next - 1 INTO number;
        INSERT INTO sales VALUES (at, DATE '2026-01-09', number, wanted);
        UPDATE items SET price = price + 1 WHERE id = wanted;
        UPDATE shops SET sold = sold + wanted WHERE shop = at;
    END $$;
    CREATE PROCEDURE order_all(at INT, wanted INT[]) LANGUAGE plpgsql AS $$ BEGIN
        FOR i IN 1..array_length(wanted, 1) LOOP
            UPDATE items SET price = price + i WHERE id = wanted[i];
        END LOOP;
    END $$;
    CREATE TABLE stock (id INT PRIMARY KEY, left_over BIGINT NOT NULL);
    INSERT INTO stock SELECT n, 100 FROM generate_series(0, 99) AS n;
    CREATE PROCEDURE raise_twice(item INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE stock SET left_over = left_over + 1 WHERE id = item;
        UPDATE stock SET left_over = left_over + 1 WHERE id = item;
    END $$;
    CREATE PROCEDURE note(number BIGINT, item INT) LANGUAGE plpgsql AS $$ DECLARE own BIGINT; BEGIN
        SELECT left_over INTO own FROM stock WHERE id = item;
        INSERT INTO labels VALUES (number, 'stock', own);
    END $$;
    CREATE PROCEDURE renew(item INT) LANGUAGE plpgsql AS $$ DECLARE own BIGINT; BEGIN
        SELECT left_over INTO own FROM stock WHERE id = item;
        DELETE FROM stock WHERE id = item;
        INSERT INTO stock VALUES (item, own);
    END $$;
    CREATE PROCEDURE reprice(of INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE items SET price = price * 1.01 WHERE kind = of;
    END $$;
    CREATE PROCEDURE rename(item INT, new TEXT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE items SET name = new WHERE id = item;
    END $$;
    CREATE PROCEDURE move(item INT, wanted INT) LANGUAGE plpgsql AS $$ BEGIN
        UPDATE items SET kind = wanted WHERE id = item;
    END $$;
    CREATE PROCEDURE label(number BIGINT, of INT) LANGUAGE plpgsql AS $$
    DECLARE own TEXT; names INT := 0; r RECORD;
    BEGIN
        SELECT about INTO own FROM kinds WHERE kind = of;
        FOR r IN SELECT id, name FROM items WHERE kind = of LOOP
            names := names + length(r.name);
        END LOOP;
        INSERT INTO labels VALUES (number, own, names);
    END $$;
    CREATE TABLE waiting (shop INT PRIMARY KEY, buyer INT NOT NULL);
    INSERT INTO waiting SELECT n, n FROM generate_series(0, 2) AS n;
    CREATE TABLE buyers (shop INT, id INT, paid BIGINT NOT NULL, PRIMARY KEY (shop, id));
    INSERT INTO buyers SELECT n % 3, n / 3, 0 FROM generate_series(0, 29) AS n;
    CREATE PROCEDURE deliver(but INT) LANGUAGE plpgsql AS $$ DECLARE own INT; BEGIN
        FOR at IN 0..2 LOOP
            CONTINUE WHEN at = but;
            UPDATE waiting SET buyer = (buyer * 7 + 3) % 10 WHERE shop = at RETURNING buyer INTO own;
            UPDATE buyers SET paid = (paid * 3 + own) % 1000 WHERE shop = at AND id = own;
        END LOOP;
    END $$;
    CREATE PROCEDURE pay(at INT, known INT) LANGUAGE plpgsql AS $$ DECLARE own INT; BEGIN
        IF known IS NULL THEN
            SELECT buyer INTO own FROM waiting WHERE shop = at;
        ELSE
            own := known;
        END IF;
        UPDATE buyers SET paid = (paid * 5 + own) % 1000 WHERE shop = at AND id = own;
    END $$;
    CREATE TABLE gifts (shop INT, id INT, n BIGINT NOT NULL, PRIMARY KEY (shop, id));
    INSERT INTO gifts SELECT n % 3, n / 3, 0 FROM generate_series(0, 29) AS n;
    CREATE PROCEDURE give(wanted INT, own INT) LANGUAGE plpgsql AS $$ DECLARE at INT; BEGIN
        IF wanted < 3 THEN at := wanted; END IF;
        UPDATE gifts SET n = (n * 7 + own) % 1000 WHERE shop = coalesce(at, 1) AND id = own;
    END $$;";

/// The kinds of statements, of which some look by primary key alone: they bring back few rows. Some look for
/// single keys: of commands, they run few.
const ANY: &[u32] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
    33, 34,
];
const BY_KEY: &[u32] = &[0, 1, 2, 3, 6, 7, 19, 21, 22, 26, 28, 28];
const POINTS: &[u32] = &[0, 21, 22, 28, 28, 29, 30, 31, 33, 33];
const BY_SECONDARY: &[u32] = &[32, 32, 28];
const OF_BUYERS: &[u32] = &[33, 33, 34];

/// A statement of the workload, over keys that exist, keys between them, and keys beside them.
fn statement(kinds: &[u32], random: &mut SmallRng) -> String {
    // Every other one is an item that calls before the opening have touched often.
    let id = if random.random() { 2 * random.random_range(1..50) } else { random.random_range(-2..6010) };
    let (other, kind) = (random.random_range(1..6000), random.random_range(0..41));
    let (shop, day) = (random.random_range(0..6), random.random_range(1..=31));
    match kinds[random.random_range(0..kinds.len())] {
        0 | 1 => format!("SELECT * FROM items WHERE id = {id}"),
        2 => format!("SELECT id, price FROM items WHERE id BETWEEN {id} AND {} ORDER BY id", id + 40),
        3 => format!("SELECT id FROM items WHERE id < {id} ORDER BY id DESC LIMIT 3"),
        4 => format!("SELECT id FROM items WHERE name = 'item {id}'"),
        5 => format!("SELECT count(*), sum(price) FROM items WHERE kind = {kind}"),
        6 => format!(
            "SELECT * FROM sales WHERE shop = {shop} AND day = DATE '2026-01-{day:02}' ORDER BY number"
        ),
        7 => format!("SELECT count(*) FROM sales WHERE shop = {shop}"),
        8 => format!("INSERT INTO items VALUES ({id}, 'item {other}', {kind}, 3, '')"),
        9 => format!("INSERT INTO items VALUES ({id}, 'new {id}', NULL, 3, 'x')"),
        10 => {
            format!("INSERT INTO items VALUES ({id}, 'or {id}', {kind}, 3, 'x') ON CONFLICT (id) DO NOTHING")
        }
        11 => format!("UPDATE items SET price = price + 1, kind = {kind} WHERE id = {id}"),
        12 => format!("UPDATE items SET name = 'item {other}' WHERE id = {id}"),
        13 => format!("DELETE FROM items WHERE id = {id}"),
        14 => format!("DELETE FROM kinds WHERE kind = {kind}"),
        15 => format!("CALL sell({shop}, {id}, {other}, NULL)"),
        16 => format!("CALL forget({id})"),
        17 => format!("CALL next({shop}, NULL)"),
        19 => {
            let (shop, day) = (other % 5, other % 30 + 1);
            format!("INSERT INTO sales VALUES ({shop}, DATE '2026-01-{day:02}', {other}, 1)")
        }
        21 => format!("SELECT * FROM shops WHERE shop = {shop}"),
        29 => format!("SELECT * FROM stock WHERE id = {id}"),
        22 => format!("SELECT * FROM labels WHERE id = {}", other % 400),
        23 => format!("CALL order_one({shop}, {id}, NULL)"),
        24 => format!("UPDATE kinds SET about = 'new {id}' WHERE kind = {kind}"),
        25 => format!("INSERT INTO kinds VALUES ({}, 'added')", kind + 30),
        26 => format!("UPDATE shops SET sold = 0 WHERE shop = {shop}"),
        27 => "SELECT count(*), sum(found), max(about) FROM labels".into(),
        28 => format!("RAISE {id}"),
        30 => {
            format!("INSERT INTO items VALUES ({}, 'added {id} {other}', {}, 3, '')", id + 7001, other % 37)
        }
        31 => format!("UPDATE items SET name = 'much longer name {id} {other}' WHERE id = {id}"),
        32 => format!("SELECT count(*) FROM labels WHERE found = {}", 100 + other % 3),
        33 => format!("SELECT paid FROM buyers WHERE shop = {} AND id = {}", id % 3, other % 10),
        34 => format!("SELECT n FROM gifts WHERE shop = {} AND id = {}", id % 3, other % 10),
        18 => format!("INSERT INTO numbered (about) VALUES ('{id}') RETURNING id"),
        _ => format!("INSERT INTO empty VALUES ({id})"),
    }
}

/// How a folder is written, and opened again.
#[derive(Clone, Copy, Debug)]
struct Setup {
    scheme: Scheme,
    content: Content,
    images: Option<Images>,
    sequencing: Sequencing,
    has_checkpoint: bool,
}

/// Commands over a checkpoint.
const COMMANDS: Setup = Setup {
    scheme: Scheme::Optimistic,
    content: Content::Command,
    images: None,
    sequencing: Sequencing::Epoch,
    has_checkpoint: true,
};

/// Writes by value over a checkpoint.
const WRITES: Setup = Setup { content: Content::Logical, ..COMMANDS };

/// Every scheme, and logs by value with and without a checkpoint.
fn setups() -> impl Iterator<Item = Setup> {
    let by_scheme = Scheme::all().flat_map(|scheme| [COMMANDS, WRITES].map(|own| Setup { scheme, ..own }));
    let columns = Setup { images: Some(Images::Columns), ..WRITES };
    let (content, scheme) = (Content::DependencyFine, Scheme::DependencyGraph);
    let fine = Setup { content, scheme, ..COMMANDS };
    let ssn = Setup { sequencing: Sequencing::Ssn, ..WRITES };
    let operations = Setup { content: Content::Physiological, ..COMMANDS };
    let whole = Setup { images: Some(Images::Rows), ..operations };
    let slots = Setup { content: Content::Physical, ..COMMANDS };
    let fuzzy = Setup { sequencing: Sequencing::Ssn, ..slots };
    let over_checkpoint = [columns, fine, ssn, operations, whole, slots, fuzzy];
    let without = [COMMANDS, WRITES, columns, fine, operations, slots];
    let without = without.map(|own| Setup { has_checkpoint: false, ..own });
    let all = by_scheme.chain(over_checkpoint).chain(without);
    all.collect::<Vec<_>>().into_iter()
}

impl Setup {
    /// The settings of a database that opens once all rows are recovered.
    fn config(self) -> Config {
        let mut config = small();
        config.on_demand = false;
        (config.concurrency, config.content, config.images) = (self.scheme, self.content, self.images);
        config.sequencing = self.sequencing;
        config
    }

    /// A folder with the schema, and with calls behind it in the log.
    fn folder(self, calls: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), self.config()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(SCHEMA).unwrap();
        if self.has_checkpoint {
            db.checkpoint().unwrap();
        }
        let mut random = SmallRng::seed_from_u64(7);
        for sale in 0..calls {
            let (shop, item) = (
                random.random_range(0..5),
                2 * random.random_range(1..if sale % 2 == 0 { 50 } else { 3000 }),
            );
            let called = session.call("sell", params![shop, item, 10_000 + sale as i64]);
            called.unwrap().commit.wait().unwrap();
            // The first part of its key is not known ahead, and clr-p cuts its block by the second one.
            let given = session.call("give", params![shop, item % 10]);
            given.unwrap().commit.wait().unwrap();
            if sale % 5 == 4 {
                let text = format!("UPDATE gifts SET n = n + 1 WHERE shop = {shop} AND id = {}", item % 7);
                session.execute(&text, params![]).unwrap().commit.wait().unwrap();
            }
            let number = sale as i64;
            let done = match sale % 13 {
                0 => session.call("forget", params![item]),
                5 | 10 => session.call("renew", params![item % 100]),
                1 | 2 => session.call("order_one", params![shop, item]),
                3 => session.call("reprice", params![item % 40]),
                4 => session.call("rename", params![item, format!("called {item} {sale}")]),
                6 => session.call("move", params![item, item % 40]),
                7 => session.call("label", params![number, item % 40]),
                8 => session.call("note", params![number, item % 100]),
                9 => session.call("order_all", params![shop, vec![item, item % 100 * 2, 8, item]]),
                11 => session.call("deliver", params![(number / 13 % 5 - 1) as i32]),
                12 => session.call("pay", params![shop % 3, (sale % 2 == 0).then_some(item % 10)]),
                // Logged by value, as are those that write a table with a foreign key.
                _ => session.execute(
                    &format!(
                        "UPDATE items SET price = price + (SELECT count(*) FROM kinds),
                    name = 'valued {sale}' WHERE id = {item}"
                    ),
                    params![],
                ),
            };
            done.unwrap().commit.wait().unwrap();
        }
        folder
    }

    /// Opens a folder, whose rows some threads bring back; without any, only transactions do.
    fn open(self, folder: &Path, drain_threads: usize) -> Database {
        let mut config = self.config();
        (config.on_demand, config.drain_threads) = (true, drain_threads);
        let db = Database::open(folder, config).unwrap();
        assert!(
            drain_threads > 0 || db.recovery_progress().bytes_left > 0,
            "no row is there before it is looked for: {self:?}, {}",
            db.recovery_report()
        );
        db
    }

    /// The state that every method recovers.
    fn recovered_digest(self, folder: &Path) -> Digest {
        match (self.content, self.images) {
            (Content::Command, _) => recovered_digest(folder),
            // Of the methods for such logs only this one replays changed columns.
            (_, Some(Images::Columns)) => {
                digest_by(&small().disk, folder, Method::LlrP, ReplayMode::default(), 2)
            }
            (content, _) => recovered_digest_of(content, folder),
        }
    }
}

/// A copy of a folder.
fn copy_of(folder: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                std::fs::copy(from, to).unwrap();
            }
        }
    }
    let target = tempfile::tempdir().unwrap();
    copy(folder, target.path());
    target
}

/// The answer of a statement: its rows and the number of rows that it wrote, or the error.
fn answer(session: &mut Session, text: &str) -> Result<(Vec<Vec<Value>>, u64), String> {
    // Under dgcc only a call that a session makes is part of a batch.
    let item = text.strip_prefix("RAISE ").and_then(|item| item.parse::<i32>().ok());
    let done = match item {
        Some(item) => session.call("raise_twice", params![item]),
        None => session.execute(text, params![]),
    };
    let done = done.map_err(|error| format!("{} {error}", error.sqlstate()))?;
    Ok((done.rows.into_iter().map(reprise::Row::into_values).collect(), done.affected))
}

/// Random statements have the same answers, one after the other, where rows are loaded on demand and where
/// they were loaded before; and both databases come to one state, which is also what is recovered.
#[test]
fn rows_are_there_when_they_are_looked_for() {
    for (seed, setup) in setups().enumerate() {
        let own = setup.folder(if setup.has_checkpoint && seed % 4 == 2 { 0 } else { 250 });
        let other = copy_of(own.path());
        let db = setup.open(own.path(), 0);
        let loaded = Database::open(other.path(), setup.config()).unwrap();
        let (mut session, mut reference) = (db.session().unwrap(), loaded.session().unwrap());
        let mut random = SmallRng::seed_from_u64(seed as u64);
        for number in 0..300 {
            let first = [BY_SECONDARY, OF_BUYERS, POINTS][seed % 3];
            let kinds = [first, POINTS, BY_KEY, ANY][(number / 40).min(3)];
            let text = statement(kinds, &mut random);
            let is_on_snapshot = number % 3 == 0 && text.starts_with("SELECT");
            let ask = |session: &mut Session| {
                session.set_access(if is_on_snapshot { Access::ReadOnly } else { Access::ReadWrite });
                answer(session, &text)
            };
            assert_eq!(ask(&mut session), ask(&mut reference), "{setup:?}, statement {number}: {text}");
        }
        let live = db.digest().unwrap();
        assert_eq!(db.recovery_progress().bytes_left, 0);
        assert_eq!(live, loaded.digest().unwrap(), "{setup:?}");
        drop((session, db));
        assert_eq!(setup.recovered_digest(own.path()), live, "{setup:?}");
    }
}

/// A read by key loads the block of the key, not the table.
#[test]
fn a_row_costs_its_block() {
    let folder = COMMANDS.folder(0);
    let db = COMMANDS.open(folder.path(), 0);
    let (before, mut session) = (db.recovery_progress().bytes_left, db.session().unwrap());
    assert_eq!(answer(&mut session, "SELECT id FROM items WHERE id = 3000").unwrap().0.len(), 1);
    let after = db.recovery_progress().bytes_left;
    assert!(before - after < 80_000 && after > 0, "of {before} bytes {after} are left");
    assert_eq!(answer(&mut session, "SELECT id FROM items WHERE id = 3000").unwrap().0.len(), 1);
    assert_eq!(db.recovery_progress().bytes_left, after, "a block is loaded once");
}

/// A statement that waits for many rows of a slow disk ends at its deadline, or when it is cancelled.
#[test]
fn a_statement_that_waits_for_rows_is_interrupted() {
    let folder = COMMANDS.folder(0);
    let mut config = COMMANDS.config();
    (config.on_demand, config.drain_threads, config.device.rate) = (true, 1, Some(128 << 10));
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    let statement = "SELECT count(*) FROM items";
    for access in [Access::ReadOnly, Access::ReadWrite] {
        session.set_access(access);
        let begun = Instant::now();
        session.ends_at(Some(begun + Duration::from_millis(50)));
        let error = answer(&mut session, statement).unwrap_err();
        assert!(error.starts_with("57014"), "{error}");
        session.ends_at(None);
        let flag = Arc::new(AtomicBool::new(false));
        session.cancelled_by(Arc::clone(&flag));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                flag.store(true, Ordering::Relaxed);
            });
            let error = answer(&mut session, statement).unwrap_err();
            assert!(error.starts_with("57014"), "{error}");
        });
        session.cancelled_by(Arc::default());
    }
    assert!(db.recovery_progress().bytes_left > 0, "the disk is slow");
    assert_eq!(answer(&mut session, statement).unwrap().0, [[Value::Int(3000)]]);
}

/// Transactions run while threads load the rest: nothing is lost, and what is recovered is what was there.
#[test]
fn transactions_run_while_rows_are_loaded() {
    for setup in setups() {
        let folder = setup.folder(200);
        let db = setup.open(folder.path(), 2);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    for _ in 0..150 {
                        let text = statement(ANY, &mut random);
                        if let Err(error) = answer(&mut session, &text) {
                            let states = ["23502", "23503", "23505", "40001", "40P01"];
                            assert!(
                                states.iter().any(|own| error.starts_with(own)),
                                "{setup:?}: {text}: {error}"
                            );
                        }
                    }
                });
            }
        });
        let begun = Instant::now();
        while db.recovery_progress().bytes_left > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{} bytes are left",
                db.recovery_progress().bytes_left
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let live = db.digest().unwrap();
        drop(db);
        assert_eq!(setup.recovered_digest(folder.path()), live, "{setup:?}");
        assert_eq!(setup.open(folder.path(), 1).digest().unwrap(), live, "{setup:?}, on demand");
    }
}

/// Definitions, checkpoints and backups see all rows, loaded or not.
#[test]
fn definitions_and_checkpoints_see_all_rows() {
    let definitions = [
        "CREATE INDEX ON sales (item)",
        "ALTER TABLE items ADD COLUMN more INT NOT NULL DEFAULT 3",
        "ALTER TABLE sales ADD CONSTRAINT few CHECK (number < 5000)",
        "CREATE UNIQUE INDEX ON items (kind)",
        "DROP TABLE sales",
        "ALTER TABLE sales ADD FOREIGN KEY (item) REFERENCES items",
        "ALTER TABLE sales ADD FOREIGN KEY (shop) REFERENCES kinds",
        "ALTER TABLE kinds ADD COLUMN number SERIAL",
        "ALTER TABLE kinds ADD COLUMN number INT NOT NULL DEFAULT nextval('numbers')",
        "BEGIN; CREATE INDEX ON sales (item); SELECT count(*) FROM sales WHERE item = 30; ROLLBACK",
    ];
    for (text, setup) in definitions.iter().flat_map(|text| [(*text, COMMANDS), (*text, WRITES)]) {
        let own = setup.folder(5);
        let other = copy_of(own.path());
        let (db, loaded) = (setup.open(own.path(), 0), Database::open(other.path(), setup.config()).unwrap());
        let run = |db: &Database| {
            let mut session = db.session().unwrap();
            let run = |text: &str| session.execute(text, params![]).map_err(|error| error.to_string());
            let answers: Vec<_> =
                text.split("; ").map(run).map(|done| done.map(|done| done.affected)).collect();
            answers
        };
        assert_eq!(run(&db), run(&loaded), "{text}");
        let backup = tempfile::tempdir().unwrap();
        db.backup(backup.path().join("copy")).unwrap();
        let live = db.digest().unwrap();
        assert_eq!(live, loaded.digest().unwrap(), "{text}");
        db.checkpoint().unwrap();
        drop((db, loaded));
        assert_eq!(setup.recovered_digest(own.path()), live, "{text}");
        assert_eq!(setup.recovered_digest(&backup.path().join("copy")), live, "{text}: the backup");
    }
}

/// Definitions in a log by value: those that leave all rows alone are applied at the opening, and the rows
/// still come on demand; those that change rows are replayed where they stand.
#[test]
fn definitions_in_the_log_are_applied() {
    let leave_rows_alone = [
        "CREATE TABLE more (id INT PRIMARY KEY, kind INT, about TEXT); CREATE INDEX ON more (kind);
         ALTER TABLE more ADD COLUMN n INT DEFAULT 4; INSERT INTO more VALUES (1, 2, 'x')",
        "CREATE PROCEDURE add(at INT) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO empty VALUES (at); END $$;
         CALL add(5); DROP PROCEDURE add; CREATE SEQUENCE further",
        "CREATE TABLE gone (id INT PRIMARY KEY); DROP TABLE gone; DELETE FROM items WHERE id < 100",
    ];
    let change_rows = [
        "ALTER TABLE items ADD COLUMN more INT NOT NULL DEFAULT 3; UPDATE items SET more = 4 WHERE id < 40",
        "CREATE INDEX ON sales (item); DELETE FROM sales WHERE item = 30",
        "ALTER TABLE numbered DROP COLUMN about; INSERT INTO numbered DEFAULT VALUES",
        "ALTER TABLE sales ADD CHECK (number < 50000)",
        "DROP TABLE numbered; CREATE TABLE numbered (id TEXT PRIMARY KEY); INSERT INTO numbered VALUES ('a')",
        "INSERT INTO empty VALUES (4); ALTER TABLE empty ADD COLUMN n INT NOT NULL DEFAULT 2",
        "CREATE TABLE late (id INT PRIMARY KEY); INSERT INTO late VALUES (1), (2);
         ALTER TABLE late ADD COLUMN n INT NOT NULL DEFAULT 2",
    ];
    let both = leave_rows_alone.map(|text| (text, true)).into_iter();
    let both = both.chain(change_rows.map(|text| (text, false)));
    let of_rows = Setup { has_checkpoint: false, ..WRITES };
    let columns = Setup { images: Some(Images::Columns), ..WRITES };
    for ((text, is_on_demand), setup) in
        both.flat_map(|own| [WRITES, of_rows, columns].map(|setup| (own, setup)))
    {
        let folder = setup.folder(7);
        let db = Database::open(folder.path(), setup.config()).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(text).unwrap();
        session
            .execute("UPDATE items SET price = 7 WHERE id < 600", params![])
            .unwrap()
            .commit
            .wait()
            .unwrap();
        let live = db.digest().unwrap();
        // What is closed leaves a checkpoint of its definitions.
        let killed = copy_of(folder.path());
        drop((session, db));
        let mut config = setup.config();
        (config.on_demand, config.drain_threads) = (true, 0);
        let db = Database::open(killed.path(), config).unwrap();
        assert_eq!(db.recovery_report().replays_on_demand, is_on_demand, "{setup:?}: {text}");
        assert_eq!(db.digest().unwrap(), live, "{setup:?}: {text}");
    }
}

/// A database that closes while rows are loaded opens again, on demand or not, as often as one likes.
#[test]
fn a_database_closes_while_rows_are_loaded() {
    for setup in [COMMANDS, WRITES, Setup { has_checkpoint: false, ..WRITES }] {
        let folder = setup.folder(10);
        let expected = setup.recovered_digest(folder.path());
        for drain_threads in [0, 1, 2, 1] {
            drop(setup.open(folder.path(), drain_threads));
            assert_eq!(setup.recovered_digest(folder.path()), expected);
        }
        let db = Setup { scheme: Scheme::TwoPhase, ..setup }.open(folder.path(), 1);
        assert_eq!(db.digest().unwrap(), expected);
    }
}
