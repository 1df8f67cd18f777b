//! What the tests of the database share.

use catalog::{TableId, value_from_datum};
use checkpoint::{Consistency, Manifest};
use procedure::Interrupts;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use recovery::{Recovered, RecoveryConfig, recover};
use reprise::{
    Arena, Column, Compile, Config, Content, Database, Digest, Error, Executed, Method, Progress, ReplayMode,
    Row, Scheme, Session, Value, disk::Disk, params,
};
use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use storage::{Cursor, Direction, Record, TableStore, Worker};
use transaction::{Intent, Place, Tables};

/// A configuration for small databases.
pub fn small() -> Config {
    let mut config = Config::default();
    config.log_file_bytes = 1 << 20;
    config.memory_bytes = 1 << 30;
    config.memory_ahead_bytes = 0;
    config.checkpoint_threads = 2;
    config.concurrency = asked_scheme().unwrap_or_default();
    // From the first call on. What `clr` replays is interpreted, and must come to the same.
    config.compile = Compile::AtOnce;
    config
}

/// As `small`, with a log of this content.
pub fn logging(content: Content) -> Config {
    let mut config = small();
    config.content = content;
    config
}

/// The concurrency control that REPRISE_CONCURRENCY names.
fn asked_scheme() -> Option<Scheme> {
    let asked = std::env::var("REPRISE_CONCURRENCY").ok()?;
    Some(asked.parse().expect("REPRISE_CONCURRENCY names a concurrency control"))
}

/// The concurrency control of a random history: OCC for one half of the seeds, each other one in turn for the
/// other half.
pub fn scheme_of(seed: u64) -> Scheme {
    let rest: Vec<Scheme> = Scheme::all().filter(|scheme| *scheme != Scheme::Optimistic).collect();
    asked_scheme().unwrap_or(match seed % 2 {
        0 => Scheme::Optimistic,
        _ => rest[seed as usize / 2 % rest.len()],
    })
}

/// OCC and another concurrency control, in turn by a seed; or the one that REPRISE_CONCURRENCY names.
pub fn schemes_of(seed: u64) -> impl Iterator<Item = Scheme> {
    let asked = asked_scheme();
    [scheme_of(2 * seed), scheme_of(2 * seed + 1)].into_iter().take(if asked.is_some() { 1 } else { 2 })
}

/// The seeds of random histories: some number of them, another one with REPRISE_HISTORIES, or the one that
/// REPRISE_SEED names.
pub fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("REPRISE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("REPRISE_HISTORIES").unwrap_or(usual),
    }
}

pub fn open(folder: &Path) -> Database {
    Database::open(folder, small()).expect("it opens")
}

/// A new database in a folder of its own, after a script; and a session of it.
pub fn with(script: &str) -> (tempfile::TempDir, Database, Session) {
    under(small().concurrency, script)
}

/// As `with`, under a concurrency control.
pub fn under(concurrency: Scheme, script: &str) -> (tempfile::TempDir, Database, Session) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = small();
    config.concurrency = concurrency;
    let db = Database::open(folder.path(), config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(script).unwrap();
    (folder, db, session)
}

/// The concurrency controls under which a transaction that holds rows waits for another transaction. Under
/// the remaining ones it fails at once with 40001, unless it can run again.
pub const WAITING: [Scheme; 3] = [Scheme::Optimistic, Scheme::TwoPhase, Scheme::DependencyGraph];

/// A durable answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    pub affected: u64,
}

/// Executes statements and calls, and waits until their answers, errors included, are durable.
pub trait Durably {
    fn query(&mut self, text: &str) -> Result<Answer, Error>;

    /// Returns the outputs of the procedure.
    fn call_durably(&mut self, procedure: &str, arguments: &[Value]) -> Result<Row, Error>;
}

impl Durably for Session {
    fn query(&mut self, text: &str) -> Result<Answer, Error> {
        let answer = execute(self, text);
        self.shown().wait()?;
        answer
    }

    fn call_durably(&mut self, procedure: &str, arguments: &[Value]) -> Result<Row, Error> {
        let executed = self.call(procedure, arguments);
        self.shown().wait()?;
        Ok(executed?.rows.into_iter().next().unwrap_or_default())
    }
}

fn execute(session: &mut Session, text: &str) -> Result<Answer, Error> {
    let statement = session.prepare(text).inspect_err(|_| session.fail_transaction())?;
    let Executed { rows, affected, .. } = session.execute(&statement, params![])?;
    let rows = rows.into_iter().map(Row::into_values).collect();
    Ok(Answer { columns: statement.columns().to_vec(), rows, affected })
}

/// One log of each content beside the database's own.
pub const SHADOWS: [Content; 3] = [Content::Logical, Content::Physical, Content::Physiological];

/// Modes and threads of `clr-p` that are compared with `clr`.
pub const PARALLEL_REPLAYS: [(ReplayMode, usize); 6] = [
    (ReplayMode::Pipelined, 1),
    (ReplayMode::Pipelined, 2),
    (ReplayMode::Pipelined, 8),
    (ReplayMode::Synchronous, 3),
    (ReplayMode::Static, 2),
    (ReplayMode::Chopping, 2),
];

/// A small database on a disk of the tests. Tests open many of them, so it compiles nothing.
pub fn on(disk: Arc<dyn Disk>) -> Config {
    let mut config = compiled_on(disk);
    config.compile = Compile::Never;
    config
}

/// A small database on a disk of the tests, whose procedures are compiled.
pub fn compiled_on(disk: Arc<dyn Disk>) -> Config {
    let mut config = small();
    config.disk = disk;
    config.log_file_bytes = 64 << 10;
    config.checkpoint_threads = 1;
    // Disks of the tests that fail do so for good.
    config.full_disk_patience = Duration::ZERO;
    config
}

/// Recovers a folder without changing it, and the shadow logs in it, by every method; all must come to one
/// digest.
pub fn recovered_digest(folder: &Path) -> Digest {
    recovered_digest_on(&small().disk, folder)
}

/// As `recovered_digest`, on a disk.
pub fn recovered_digest_on(disk: &Arc<dyn Disk>, folder: &Path) -> Digest {
    let reference = digest_by(disk, folder, Method::Clr, ReplayMode::default(), 2);
    for (mode, threads) in PARALLEL_REPLAYS {
        let digest = digest_by(disk, folder, Method::ClrP, mode, threads);
        assert_eq!(digest, reference, "clr-p ({mode}, {threads} threads) against clr");
    }
    for (method, threads) in [(Method::Clr, 1), (Method::ClrP, 1), (Method::ClrP, 3)] {
        let digest = on_demand_digest(disk, folder, method, threads);
        assert_eq!(digest, reference, "{method} over rows on demand ({threads} threads) against clr");
    }
    for (_, content) in Content::NAMES {
        let shadow = folder.join(format!("shadow-{content}"));
        // A crash may have come before it was a data folder.
        if !disk.list(&shadow).expect("the disk works").contains(&shadow.join("pepoch")) {
            continue;
        }
        for (method, threads) in Method::of(content).iter().flat_map(|own| [1, 2, 8].map(|n| (*own, n))) {
            let digest = digest_by(disk, &shadow, method, ReplayMode::default(), threads);
            assert_eq!(digest, reference, "{method} of the {content} log ({threads} threads) against clr");
            let digest = on_demand_digest(disk, &shadow, method, threads);
            assert_eq!(digest, reference, "{method} of the {content} log on demand against clr");
        }
    }
    reference
}

/// Recovers a folder whose log holds one content by every method that there is for it, and the shadow logs in
/// it; all must come to one digest.
pub fn recovered_digest_of(content: Content, folder: &Path) -> Digest {
    let disk = &small().disk;
    if content == Content::Command {
        return recovered_digest_on(disk, folder);
    }
    let shadows = Content::NAMES.map(|(name, content)| (content, folder.join(format!("shadow-{name}"))));
    let logs = shadows.into_iter().filter(|(_, shadow)| shadow.exists());
    let mut reference = None;
    for (content, folder) in std::iter::once((content, folder.to_path_buf())).chain(logs) {
        let manifest = Manifest::read(disk, &folder).expect("it can be read");
        let is_fuzzy = manifest.is_some_and(|manifest| manifest.consistency == Consistency::Fuzzy);
        let methods = Method::of(content).iter().filter(|own| !is_fuzzy || **own != Method::LlrP);
        for (method, threads) in methods.flat_map(|own| [1, 2, 8].map(|threads| (*own, threads))) {
            let digest = digest_by(disk, &folder, method, ReplayMode::default(), threads);
            let reference = reference.get_or_insert_with(|| digest.clone());
            assert_eq!(digest, *reference, "{method} of the {content} log with {threads} threads");
            let digest = on_demand_digest(disk, &folder, method, threads);
            assert_eq!(digest, *reference, "{method} of the {content} log on demand");
        }
    }
    reference.expect("there is a method for every content")
}

/// The digest of what a folder recovers to by one method.
pub fn digest_by(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    method: Method,
    mode: ReplayMode,
    threads: usize,
) -> Digest {
    recovered_by(disk, folder, method, mode, threads).tables.digest().expect("a worker")
}

/// A row: its table, its primary key, and its values in words.
type KeyedRow = (TableId, Vec<u8>, String);

/// Most rows that are looked for while they come back.
const LOOKED_FOR: usize = 200;

/// The digest of what a folder recovers to by one method on demand. While threads recover what is left, rows
/// are looked for in a random order; each must be as a closed recovery leaves it.
pub fn on_demand_digest(disk: &Arc<dyn Disk>, folder: &Path, method: Method, threads: usize) -> Digest {
    let closed = recover(disk, folder, &RecoveryConfig { threads, ..settings(method) }, &Progress::default());
    let mut rows = rows_of(&closed.unwrap_or_else(|error| panic!("{method} recovers: {error}")).tables);
    let mut random = SmallRng::seed_from_u64(rows.len() as u64 ^ threads as u64);
    rows.shuffle(&mut random);
    rows.truncate(LOOKED_FOR);
    let settings = RecoveryConfig { threads, on_demand: true, ..settings(method) };
    let recovered = recover(disk, folder, &settings, &Progress::default());
    let recovered = recovered.unwrap_or_else(|error| panic!("{method} recovers on demand: {error}"));
    let tables = &recovered.tables;
    let worker = || Worker::new(tables.epochs.clone(), tables.memory.clone()).expect("a worker");
    let (looked_for, begin) = (AtomicUsize::new(0), random.random_range(0..=rows.len() / 2));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| look_for(tables, &rows, &looked_for, &mut worker()));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                // The rows behind are looked for beside it.
                while looked_for.load(Ordering::Relaxed) < begin {
                    std::thread::yield_now();
                }
                let mut worker = worker();
                while let Some(pending) = recovered.rows.as_ref().filter(|pending| pending.is_pending())
                    && pending.recover_next(&mut worker).expect("all rows come back")
                {}
            });
        }
    });
    tables.recover_all().expect("all rows come back");
    assert!(recovered.rows.as_ref().is_none_or(|pending| !pending.is_pending()), "all rows are back");
    check_indexes(&recovered.tables);
    recovered.tables.digest().expect("a worker")
}

/// Lets no thread wait for one that has ended, however it did.
struct Ended<'c>(&'c AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(LOOKED_FOR, Ordering::Relaxed);
    }
}

/// Looks for rows that come back, and compares them; `looked_for` is the number of rows that threads have
/// claimed. Also looks for keys and in tables that are not there.
fn look_for(tables: &Tables, rows: &[KeyedRow], looked_for: &AtomicUsize, worker: &mut Worker) {
    let _ended = Ended(looked_for);
    let no_interrupts = Interrupts::default();
    let missing: [(TableId, &[u8]); 2] = [(TableId(999), b"key"), (TableId(0), b"")];
    for (table, key) in missing {
        let found = tables.recover(table, Place::Key(key), Intent::Read, &worker.enter(), &no_interrupts);
        found.expect("nothing is there");
    }
    while let Some((table, key, values)) = rows.get(looked_for.fetch_add(1, Ordering::Relaxed)) {
        let guard = worker.enter();
        tables
            .recover(*table, Place::Key(key), Intent::Read, &guard, &no_interrupts)
            .expect("the row comes back");
        let store = tables.by_id(*table).expect("the table is there");
        let found = store.find(key, &guard).ok().map(|record| values_of(store, record));
        assert_eq!(found.as_ref(), Some(values), "a row of {}, as it comes back", store.definition().name);
    }
}

/// All rows of tables.
fn rows_of(tables: &Tables) -> Vec<KeyedRow> {
    let mut worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).expect("a worker");
    let guard = worker.enter();
    let mut rows = Vec::new();
    for store in tables.iter() {
        let each = |record: Record<'_>| {
            let (mut arena, mut key) = (Arena::default(), Vec::new());
            store.key_of_row(0, record.row(), &mut arena, &mut key);
            rows.push((store.definition().id, key, values_of(store, record)));
            Ok::<_, Infallible>(())
        };
        store.for_each_row(&guard, each).unwrap_or_else(|never| match never {});
    }
    rows
}

/// The values of a record's row, in words.
fn values_of(store: &TableStore, record: Record<'_>) -> String {
    let (mut arena, mut values) = (Arena::default(), Vec::new());
    let definition = store.definition();
    for (column, slot) in definition.columns.iter().zip(definition.layout.slots()) {
        let datum = record.row().column(*slot, &mut arena);
        values.push(value_from_datum(datum, column.ty, &arena).to_string());
    }
    values.join(", ")
}

fn settings(method: Method) -> RecoveryConfig {
    RecoveryConfig {
        method,
        compile: if method == Method::Clr { Compile::Never } else { Compile::AtOnce },
        // Small, so that short histories have several.
        batch: 16,
        memory_bytes: small().memory_bytes,
        memory_ahead_bytes: 0,
        ..RecoveryConfig::default()
    }
}

/// Recovers a folder by a method, a mode and a number of threads, and checks its indexes.
pub fn recovered_by(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    method: Method,
    mode: ReplayMode,
    threads: usize,
) -> Recovered {
    let settings = RecoveryConfig { mode, threads, ..settings(method) };
    let recovered = recover(disk, folder, &settings, &Progress::default());
    let recovered =
        recovered.unwrap_or_else(|error| panic!("{method} recovers ({mode}, {threads}): {error}"));
    check_indexes(&recovered.tables);
    recovered
}

/// Every row is in every index of its table under its key.
fn check_indexes(tables: &Tables) {
    let mut worker = Worker::new(tables.epochs.clone(), tables.memory.clone()).expect("a worker");
    let guard = worker.enter();
    for store in tables.iter() {
        let mut cursor = Cursor::default();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(store.index_at(0), &guard).is_some() {
            while let Some(record) = cursor.next_buffered(&guard) {
                if record.stable_state().is_absent() {
                    continue;
                }
                for place in 0..store.definition().indexes.len() {
                    let (mut arena, mut key) = (Arena::default(), Vec::new());
                    store.key_of_row(place, record.row(), &mut arena, &mut key);
                    let found = store.index_at(place).look_up(&key, &guard);
                    let index = &store.definition().indexes[place].name;
                    assert_eq!(found, Ok(record), "a row of {} is not in {index}", store.definition().name);
                }
            }
        }
    }
}
