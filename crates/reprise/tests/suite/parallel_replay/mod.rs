//! Random schemas, procedures and histories: `clr-p` recovers what `clr` recovers and what the database held.
//! A case draws two of the modes and thread counts of `clr-p`, one shadow log that is recovered as well, and
//! whether a checkpoint is taken.
//!
//! `PROPTEST_CASES` sets the number of cases (340 by default). A failing case shrinks and prints itself as
//! SQL.

mod batches;
mod granules;
mod memory;
mod partitions;
mod printing;
mod received;
mod reservations;
mod rules;
mod steps;
mod tables;

use crate::common::{PARALLEL_REPLAYS, SHADOWS, compiled_on, digest_by, on_demand_digest, recovered_by};
use partitions::Change;
use printing::Procedure;
use proptest::prelude::*;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Content, Database, Digest, Error, Method, ReplayMode, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use steps::{Relation, VALUES, chains, loops, steps};
use tables::{Shape, TABLES, Ty};

/// Blocks whose pieces were assigned to partitions by keys that they received.
static DEFERRED: AtomicU64 = AtomicU64::new(0);
/// A run of this many cases has such blocks.
const CASES_WITH_DEFERRED: u32 = 100;

/// A case has fewer calls.
const MOST_CALLS: usize = 60;

/// One call.
#[derive(Clone, Debug)]
struct TestCall {
    procedure: usize,
    arguments: [Option<i32>; 3],
    by_value: bool,
}

impl TestCall {
    fn values(&self, procedure: &Procedure) -> [Value; 3] {
        let value = |place: usize| {
            let argument = self.arguments[place];
            argument.map_or(Value::Null, |own| procedure.parameters[place].value(own))
        };
        [value(0), value(1), value(2)]
    }
}

/// Tables, procedures, their calls, and whether witness values are recorded and random numbers drawn.
#[derive(Clone)]
struct Case {
    tables: Vec<Shape>,
    procedures: Vec<Procedure>,
    calls: Vec<TestCall>,
    witnesses: bool,
    draws: bool,
    /// Before which call a checkpoint is taken.
    checkpoint: Option<usize>,
    /// Changes of partitions: before which call, and of which table.
    changes: Vec<(usize, usize, Change)>,
    recoveries: Recoveries,
}

impl Case {
    /// The statements that change partitions before a call.
    fn changes_before(&self, call: usize) -> Vec<String> {
        let changes = self.changes.iter().filter(|(before, ..)| *before == call);
        let changed = changes.filter_map(|(_, t, change)| {
            let shape = &self.tables[*t];
            Some(shape.parts?.change(*t, shape, *change))
        });
        changed.flatten().collect()
    }
}

/// How a case is recovered, besides `clr`.
#[derive(Clone, Debug)]
struct Recoveries {
    parallel: Vec<(ReplayMode, usize)>,
    /// The content of the shadow log, and the threads of its recovery.
    shadow: (Content, usize),
}

impl Recoveries {
    fn any() -> impl Strategy<Value = Self> {
        let parallel = proptest::sample::subsequence(PARALLEL_REPLAYS.to_vec(), 2);
        let shadow = (proptest::sample::select(&SHADOWS[..]), proptest::sample::select(&[1, 2, 8][..]));
        (parallel, shadow).prop_map(|(parallel, shadow)| Self { parallel, shadow })
    }

    /// Recovers the folder in each way; all must come to one digest.
    fn check(&self, disk: &Arc<dyn Disk>, folder: &Path, live: &Digest) {
        let clr = digest_by(disk, folder, Method::Clr, ReplayMode::default(), 2);
        assert_eq!(clr, *live, "clr against the database before the crash");
        for &(mode, threads) in &self.parallel {
            let recovered = recovered_by(disk, folder, Method::ClrP, mode, threads);
            let digest = recovered.tables.digest().expect("a worker");
            assert_eq!(digest, clr, "clr-p ({mode}, {threads} threads) against clr");
            let blocks = recovered.report.breakdown.iter().flat_map(|breakdown| &breakdown.blocks);
            let deferred = blocks.filter(|block| block.is_deferred).count() as u64;
            DEFERRED.fetch_add(deferred, Ordering::Relaxed);
        }
        let (content, threads) = self.shadow;
        let on_demand = on_demand_digest(disk, folder, Method::ClrP, threads);
        assert_eq!(on_demand, clr, "clr-p over rows on demand ({threads} threads) against clr");
        let shadow = folder.join(format!("shadow-{content}"));
        for &method in Method::of(content) {
            let digest = digest_by(disk, &shadow, method, ReplayMode::default(), threads);
            assert_eq!(digest, clr, "{method} of the {content} log ({threads} threads) against clr");
            let digest = on_demand_digest(disk, &shadow, method, threads);
            assert_eq!(digest, clr, "{method} of the {content} log on demand against clr");
        }
    }
}

fn procedures() -> impl Strategy<Value = Vec<Procedure>> {
    let bodies = prop_oneof![
        2 => proptest::collection::vec(steps(2), 1..4),
        1 => proptest::collection::vec(loops(), 1..3),
        2 => proptest::collection::vec(chains(), 2..4),
    ];
    let parameters = proptest::collection::vec((Ty::integer(), Ty::integer(), Ty::any()), 4);
    (bodies, Relation::any(), parameters).prop_map(|(bodies, relation, parameters)| {
        let procedure =
            |(steps, (x, y, z))| Procedure { parameters: [x, y, z], steps: relation.relate(steps) };
        bodies.into_iter().zip(parameters).map(procedure).collect()
    })
}

fn case() -> impl Strategy<Value = Case> {
    let tables = proptest::collection::vec(Shape::any(), TABLES);
    let checkpoint = proptest::option::weighted(0.3, 0..MOST_CALLS);
    let changes = proptest::collection::vec((0..MOST_CALLS, 0..TABLES, Change::any()), 0..4);
    let places = (checkpoint, changes);
    let settings = (any::<bool>(), proptest::bool::weighted(0.2), 0..3u8, places, Recoveries::any());
    (tables, procedures(), settings).prop_flat_map(|(tables, procedures, settings)| {
        let (witnesses, draws, by_value, (checkpoint, changes), recoveries) = settings;
        // None, some or all of the calls are logged by value.
        let by_value = proptest::bool::weighted(f64::from(by_value) / 2.0);
        let argument = || proptest::option::weighted(0.9, 0..VALUES);
        let call = (0..procedures.len(), [argument(), argument(), argument()], by_value);
        let call =
            call.prop_map(|(procedure, arguments, by_value)| TestCall { procedure, arguments, by_value });
        let calls = proptest::collection::vec(call, 1..MOST_CALLS);
        calls.prop_map(move |calls| {
            let (tables, procedures, recoveries) = (tables.clone(), procedures.clone(), recoveries.clone());
            let changes = changes.clone();
            Case { tables, procedures, calls, witnesses, draws, checkpoint, changes, recoveries }
        })
    })
}

/// Runs a case and recovers it.
fn check(case: &Case) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let mut config = compiled_on(Arc::clone(&disk));
    config.record_witnesses = case.witnesses;
    config.shadow_logs = vec![case.recoveries.shadow.0];
    // The shadow logs of a call that changes many rows several times are long.
    config.log_file_bytes = 1 << 20;
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(&format!("{case:?}")).unwrap();
    for (number, call) in case.calls.iter().enumerate() {
        if case.checkpoint == Some(number) {
            db.checkpoint().unwrap();
        }
        for change in case.changes_before(number) {
            match session.execute_script(&change) {
                Ok(()) | Err(Error::Sql(_) | Error::Statement(_)) => {}
                Err(error) => panic!("{error}: {change}"),
            }
        }
        session.log_by_value(call.by_value);
        let arguments = call.values(&case.procedures[call.procedure]);
        match session.call(&format!("p{}", call.procedure), &arguments) {
            Ok(_) | Err(Error::Sql(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let live = db.digest().unwrap();
    drop((session, db));
    case.recoveries.check(&disk, folder, &live);
}

#[test]
fn parallel_replay_equals_serial_replay() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(340);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    proptest!(config, |(case in case())| check(&case));
    let deferred = DEFERRED.load(Ordering::Relaxed);
    assert!(cases < CASES_WITH_DEFERRED || deferred > 0, "no block was partitioned by received keys");
}
