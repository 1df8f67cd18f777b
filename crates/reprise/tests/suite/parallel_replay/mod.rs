//! Random schemas, procedures and histories: clr-p, in every mode and with several numbers of threads, recovers what clr
//! recovers and what the database held; so do the shadow logs.
//!
//! `PROPTEST_CASES` sets the number of cases (1,000 by default). A failing case shrinks and prints itself as SQL.

mod printing;
mod rules;
mod steps;
mod tables;

use crate::common::{SHADOWS, on, recovered_digest_on};
use printing::Procedure;
use proptest::prelude::*;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Error, Value};
use std::path::Path;
use std::sync::Arc;
use steps::{Relation, VALUES, chains, loops, steps};
use tables::{Shape, TABLES, Ty};

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
    let settings = (any::<bool>(), proptest::bool::weighted(0.2), 0..3u8);
    (tables, procedures(), settings).prop_flat_map(|(tables, procedures, (witnesses, draws, by_value))| {
        // None, some or all of the calls are logged by value.
        let by_value = proptest::bool::weighted(f64::from(by_value) / 2.0);
        let argument = || proptest::option::weighted(0.9, 0..VALUES);
        let call = (0..procedures.len(), [argument(), argument(), argument()], by_value);
        let call =
            call.prop_map(|(procedure, arguments, by_value)| TestCall { procedure, arguments, by_value });
        let calls = proptest::collection::vec(call, 1..60);
        calls.prop_map(move |calls| {
            let (tables, procedures) = (tables.clone(), procedures.clone());
            Case { tables, procedures, calls, witnesses, draws }
        })
    })
}

/// Runs a case and recovers it by all methods.
fn check(case: &Case) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let mut config = on(Arc::clone(&disk));
    config.record_witnesses = case.witnesses;
    config.shadow_logs = SHADOWS.to_vec();
    // The shadow logs of a call that changes many rows several times are long.
    config.log_file_bytes = 1 << 20;
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(&format!("{case:?}")).unwrap();
    for call in &case.calls {
        session.log_by_value(call.by_value);
        let arguments = call.values(&case.procedures[call.procedure]);
        match session.submit(&format!("p{}", call.procedure), &arguments) {
            Ok(_) | Err(Error::Sql(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let live = db.digest().unwrap();
    drop((session, db));
    assert_eq!(recovered_digest_on(&disk, folder), live, "recovered against live");
}

#[test]
fn parallel_replay_equals_serial_replay() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    proptest!(config, |(case in case())| check(&case));
}
