//! Random procedures under dependency graphs: calls that run in batches on several executors end in the
//! state, and return the outputs, of one thread that runs them in commit order; none of them ever conflicts.

use super::tables::{TABLES, Ty};
use super::{Case, case};
use crate::common::{compiled_on, digest_by, on};
use proptest::prelude::*;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Content, Database, Error, Method, ReplayMode, Row, Scheme, Session, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const EXECUTORS: usize = 3;

/// Returns the definitions of a case. Each procedure is called by another one, which also writes the number
/// of the call: so each call that commits has a place of its own in the commit order.
fn script(case: &Case) -> String {
    let mut script = format!("{case:?}\nCREATE TABLE journal (call INT PRIMARY KEY);\n");
    for (number, procedure) in case.procedures.iter().enumerate() {
        let [x, y, z] = procedure.parameters.map(Ty::name);
        let _ = writeln!(
            script,
            "CREATE PROCEDURE noted{number}(call INT, x {x}, y {y}, z {z}, OUT result INT) LANGUAGE plpgsql
             AS $$ BEGIN CALL p{number}(x, y, z, result); INSERT INTO journal VALUES (call); END $$;"
        );
    }
    script
}

/// Returns the name and the arguments of a call.
fn noted(case: &Case, index: usize) -> (String, [Value; 4]) {
    let call = &case.calls[index];
    let [x, y, z] = call.values(&case.procedures[call.procedure]);
    (format!("noted{}", call.procedure), [Value::Int(index as i64), x, y, z])
}

/// The calls of a case that have committed: their index, their number, and their outputs.
struct Committed {
    call: usize,
    number: u64,
    rows: Vec<Row>,
}

/// Runs all calls of a case in batches, as many at a time as `under_way`.
fn run(case: &Case, session: &mut Session, under_way: usize) -> Vec<Committed> {
    let mut committed = Vec::new();
    let indexes: Vec<usize> = (0..case.calls.len()).collect();
    for indexes in indexes.chunks(under_way) {
        let started: Vec<_> = indexes
            .iter()
            .map(|index| {
                session.log_by_value(case.calls[*index].by_value);
                let (name, arguments) = noted(case, *index);
                (*index, session.begin_call(&name, &arguments))
            })
            .collect();
        for (call, started) in started {
            match started.and_then(|started| session.end_call(started)) {
                Ok(done) => {
                    let number = done.commit.point().number.0;
                    committed.push(Committed { call, number, rows: done.rows });
                }
                Err(Error::Sql(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    committed.sort_by_key(|own| own.number);
    committed
}

fn check(case: &Case, under_way: usize, calls: &AtomicU64) {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let folder = Path::new("/data");
    let mut config = compiled_on(Arc::clone(&disk));
    config.concurrency = Scheme::DependencyGraph;
    config.executors = EXECUTORS;
    config.record_witnesses = case.witnesses;
    config.shadow_logs = vec![case.recoveries.shadow.0, Content::DependencyFine, Content::DependencyCoarse];
    config.log_file_bytes = 1 << 20;
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(&script(case)).unwrap();
    let committed = run(case, &mut session, under_way);
    calls.fetch_add(committed.len() as u64, Ordering::Relaxed);
    // A call that is logged by value runs beside batches.
    if !case.calls.iter().any(|call| call.by_value) {
        assert_eq!(db.statistics().conflicts, 0, "calls of a batch do not conflict");
    }
    let live = db.digest().unwrap();
    let contents = contents_of(&mut session);
    drop((session, db));
    // A procedure that draws or reads the clock has other numbers in another run; replay has them in its
    // records.
    if !case.draws && !script(case).contains("now()") {
        check_serial(case, &committed, &contents);
    }
    case.recoveries.check(&disk, folder, &live);
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        let shadow = folder.join(format!("shadow-{content}"));
        for (method, threads) in Method::of(content).iter().flat_map(|own| [1, 3].map(|n| (*own, n))) {
            let digest = digest_by(&disk, &shadow, method, ReplayMode::default(), threads);
            assert_eq!(digest, live, "{method} of the {content} log, {threads} threads");
        }
    }
}

/// Returns the rows of all tables. A table without a primary key numbers its rows in the order in which they
/// come, so digests of two runs differ.
fn contents_of(session: &mut Session) -> Vec<Vec<Row>> {
    let table = |number: usize| {
        let select = format!("SELECT * FROM t{number} ORDER BY a, b, v, w");
        session.execute(&*select, &[]).unwrap().rows
    };
    (0..TABLES).map(table).collect()
}

/// Runs the calls that have committed again, one after the other in commit order.
fn check_serial(case: &Case, committed: &[Committed], contents: &[Vec<Row>]) {
    let db = Database::open(Path::new("/serial"), on(Arc::new(CrashingDisk::default()))).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(&script(case)).unwrap();
    for Committed { call, number, rows } in committed {
        let (name, arguments) = noted(case, *call);
        let done = session.call(&name, &arguments);
        let done = done.unwrap_or_else(|error| panic!("the call with the number {number}: {error}"));
        assert_eq!(done.rows, *rows, "outputs of the call with the number {number}");
    }
    assert_eq!(contents_of(&mut session), contents, "one thread against batches");
}

#[test]
fn batches_equal_one_thread() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(120);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    let calls = AtomicU64::new(0);
    let under_way = prop_oneof![Just(1_usize), 2..20_usize, Just(usize::MAX)];
    proptest!(config, |(case in case(), under_way in under_way)| check(&case, under_way, &calls));
    assert!(calls.into_inner() > 0, "no call has committed");
}
