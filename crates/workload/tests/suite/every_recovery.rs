//! The workloads, run by two sessions at a time, with none, some and all of the transactions logged by value,
//! and logged as every other content beside: every recovery of every log comes to the state that the database
//! had.

use recovery::{REPLAY_BATCH, RecoveryConfig, recover};
use reprise::{Config, Content, Database, Digest, Error, Method, Progress, ReplayMode, Sequencing};
use std::path::Path;
use std::time::Duration;
use workload::{Request, Settings, Workload, by_name};

const SHADOWS: [Content; 3] = [Content::Logical, Content::Physical, Content::Physiological];
const SESSIONS: usize = 2;
const CALLS: usize = 3_000;

/// Makes a workload's tables, procedures and rows, durably.
fn load(db: &Database, workload: &dyn Workload) {
    let mut session = db.session().unwrap();
    for script in workload.definitions() {
        session.execute_script(script).unwrap();
    }
    workload.load(db, 42, &|_, _| {}).unwrap();
    db.checkpoint().unwrap();
}

fn run(db: &Database, workload: &dyn Workload, ad_hoc_percent: usize, seed: u64) {
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            scope.spawn(move || {
                let mut session = db.session().unwrap();
                let mut client = workload.client(number, SESSIONS, seed);
                let mut request = Request::default();
                let mut last = None;
                for call in 0..CALLS {
                    client.next(&mut request);
                    session.log_by_value(call * 37 % 100 < ad_hoc_percent);
                    match session.call(request.procedure, &request.arguments) {
                        Ok(done) => last = Some(done.commit),
                        Err(Error::Sql(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                last.unwrap().wait().unwrap();
            });
        }
    });
}

fn digest(folder: &Path, method: Method, mode: ReplayMode, threads: usize) -> Digest {
    let config = Config::default();
    let settings = RecoveryConfig {
        method,
        mode,
        threads,
        batch: REPLAY_BATCH / 4,
        memory_ahead_bytes: 0,
        ..RecoveryConfig::default()
    };
    let recovered = recover(&config.disk, folder, &settings, &Progress::default()).unwrap();
    recovered.tables.digest().unwrap()
}

fn check(name: &str, mix: &str) {
    check_workload(&*by_name(name, 1, mix).unwrap());
}

fn check_workload(workload: &dyn Workload) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.memory_ahead_bytes = 0;
    config.shadow_logs = SHADOWS.to_vec();
    let db = Database::open(folder.path(), config).unwrap();
    load(&db, workload);
    for (seed, ad_hoc_percent) in [0, 10, 50, 100].into_iter().enumerate() {
        run(&db, workload, ad_hoc_percent, seed as u64);
        let live = db.digest().unwrap();
        let recovered = |method, mode, threads| digest(folder.path(), method, mode, threads);
        let after = format!("after a part with {ad_hoc_percent} % logged by value");
        assert_eq!(recovered(Method::Clr, ReplayMode::default(), 1), live, "clr {after}");
        assert_eq!(recovered(Method::ClrP, ReplayMode::Pipelined, 2), live, "clr-p {after}");
        assert_eq!(recovered(Method::ClrP, ReplayMode::Pipelined, 8), live, "clr-p, 8 threads, {after}");
    }
    let live = db.digest().unwrap();
    for content in SHADOWS {
        let shadow = folder.path().join(format!("shadow-{content}"));
        for (method, threads) in Method::of(content).iter().flat_map(|own| [1, 2, 8].map(|n| (*own, n))) {
            let digest = digest(&shadow, method, ReplayMode::default(), threads);
            assert_eq!(digest, live, "{method} of the {content} log, {threads} threads");
        }
    }
    // The last part alone: all of it by value.
    db.checkpoint().unwrap();
    run(&db, workload, 100, 9);
    let live = db.digest().unwrap();
    assert_eq!(digest(folder.path(), Method::Clr, ReplayMode::default(), 1), live);
    assert_eq!(digest(folder.path(), Method::ClrP, ReplayMode::Pipelined, 3), live);
}

#[test]
fn tpcc() {
    check("tpcc", "full");
}

#[test]
fn smallbank() {
    check("smallbank", "full");
}

#[test]
fn ycsb() {
    check("ycsb", "d");
    check("ycsb", "hybrid:20@zipfian");
}

#[test]
fn ycsb_of_several_operations() {
    let settings = Settings { scale: 1, mix: "f".into(), operations: 10, skew: Some(0.8) };
    check_workload(&*settings.workload("ycsb").unwrap());
}

/// Without a centre: each workload under `ssn`, with fuzzy checkpoints while it runs, on two devices.
#[test]
fn under_ssn() {
    for (name, mix) in [("tpcc", "full"), ("smallbank", "full"), ("ycsb", "f"), ("ycsb", "write@zipfian")] {
        let workload = by_name(name, 1, mix).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.memory_ahead_bytes = 0;
        (config.sequencing, config.content) = (Sequencing::Ssn, Content::Logical);
        config.shadow_logs = vec![Content::Physical];
        config.log_devices = Some(vec!["log0".into(), "log1".into()]);
        config.checkpoint_every = Some(Duration::from_millis(100));
        let db = Database::open(folder.path(), config).unwrap();
        load(&db, &*workload);
        run(&db, &*workload, 0, 3);
        db.checkpoint().unwrap();
        run(&db, &*workload, 0, 4);
        let live = db.digest().unwrap();
        drop(db);
        for (method, threads) in
            [Method::Poplar, Method::Llr].into_iter().flat_map(|own| [1, 2, 8].map(|n| (own, n)))
        {
            let digest = digest(folder.path(), method, ReplayMode::default(), threads);
            assert_eq!(digest, live, "{name} {mix}: {method}, {threads} threads");
        }
        let shadow = folder.path().join("shadow-physical");
        assert_eq!(digest(&shadow, Method::Plr, ReplayMode::default(), 2), live, "{name} {mix}: plr");
    }
}
