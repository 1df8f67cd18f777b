//! What each sequencing promises beside that nothing is lost.

use crate::common::Durably as _;
use crate::common::{on, recovered_digest_of, scheme_of, small};
use logging::disk::SharedDisk;
use reprise::disk::{ClosedGate, CrashingDisk, GatedDisk};
use reprise::{Arena, Config, Content, Database, Datum, RowSink, Sequencing, Session, SqlError, params};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
CREATE PROCEDURE put(p_id INT, p_v INT) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO t VALUES (p_id, p_v); END $$;
CREATE PROCEDURE remove(p_id INT) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM t WHERE id = p_id; END $$;
CREATE PROCEDURE change(p_id INT, p_v INT) LANGUAGE plpgsql AS $$
BEGIN UPDATE t SET v = p_v WHERE id = p_id; END $$;
";

fn ssn(devices: usize) -> Config {
    let mut config = small();
    (config.sequencing, config.content) = (Sequencing::Ssn, Content::Logical);
    config.log_devices = Some((0..devices).map(|device| format!("log{device}").into()).collect());
    config
}

fn open(folder: &Path, config: Config) -> Database {
    let db = Database::open(folder, config).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    db
}

/// A transaction that inserts a deleted row again has a greater number than the one that deleted it, though
/// its own buffer is far behind, and though the deleted record was long ready to be cleaned up.
#[test]
fn a_deleted_row_keeps_its_number_until_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ssn(2);
    // Nothing more becomes durable, and no number is raised, before the end.
    config.flush_floor = Duration::from_secs(60);
    let db = open(folder.path(), config);
    let mut sessions = [db.session().unwrap(), db.session().unwrap()];
    for session in &mut sessions {
        let _ = session.call("put", params![1, 1]).ok();
    }
    std::thread::sleep(Duration::from_millis(20));
    let [ahead, behind] = &mut sessions;
    for n in 10..500 {
        let _ = ahead.call("put", params![n, n]).unwrap();
    }
    let _ = ahead.call("remove", params![1]).unwrap();
    for n in 500..1_000 {
        let _ = ahead.call("put", params![n, n]).unwrap();
    }
    let _ = behind.call("put", params![1, 2]).unwrap();
    let live = db.digest().unwrap();
    drop((sessions, db));
    assert_eq!(recovered_digest_of(Content::Logical, folder.path()), live);
}

/// What has read only what is durable waits for its own logger alone; what has not waits for all.
#[test]
fn what_depends_on_nothing_undurable_is_acknowledged_alone() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path(), ssn(2));
    let mut session = db.session().unwrap();
    let first = session.call("put", params![1, 1]).unwrap().commit;
    first.wait().unwrap();
    db.checkpoint().unwrap();
    let alone = session.call("change", params![1, 2]).unwrap().commit;
    assert!(alone.point().alone, "the row that it overwrites is durable");
    alone.wait().unwrap();
    assert!(alone.is_durable());
    let run = |sessions: &mut [Session]| {
        let count = sessions.len();
        let submit = |n: usize| sessions[n % count].call("change", params![1, n as i64]).unwrap().commit;
        let commits: Vec<_> = (0..1_000).map(submit).collect();
        commits.last().unwrap().wait().unwrap();
        commits.iter().for_each(|commit| commit.wait().unwrap());
        assert!(commits.iter().all(|commit| commit.is_durable()));
        commits.iter().filter(|commit| commit.point().alone).count()
    };
    let mut sessions = [session, db.session().unwrap()];
    assert_eq!(run(&mut sessions[..1]), 1_000, "each overwrites what is in its own log, before it");
    let alone = run(&mut sessions);
    assert!(alone < 500, "each overwrites what is in the other log: {alone}");
}

/// A folder may be opened with another sequencing each time.
#[test]
fn every_sequencing_follows_every_other() {
    let all = Sequencing::NAMES.map(|(_, sequencing)| sequencing);
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for (from, to) in all.into_iter().flat_map(|from| all.map(|to| (from, to))) {
        for sequencing in [from, to] {
            let mut config = ssn(1);
            (config.sequencing, config.concurrency) = (sequencing, scheme_of(next as u64 / 20));
            let db = Database::open(folder.path(), config).unwrap();
            let mut session = db.session().unwrap();
            if next == 0 {
                session.execute_script(SCHEMA).unwrap();
            }
            for n in next..next + 20 {
                session.call_durably("put", params![n, n]).unwrap();
                let _ = session.call("change", params![n / 2, n]).unwrap();
                if n % 7 == 0 {
                    let _ = session.call("remove", params![n / 3]).unwrap();
                }
            }
            next += 20;
            if next % 60 == 0 {
                db.checkpoint().unwrap();
            }
            let live = db.digest().unwrap();
            drop((session, db));
            assert_eq!(recovered_digest_of(Content::Logical, folder.path()), live, "{from} to {to}");
        }
    }
}

/// Two sessions whose logs are on two devices; the second device can be held up. All rows that there are are
/// durable.
fn two_devices(folder: &Path) -> (Arc<GatedDisk>, Database, [Session; 2]) {
    let mut config = ssn(2);
    let disk = Arc::new(GatedDisk::before("log1", Arc::clone(&config.disk)));
    config.disk = Arc::clone(&disk) as SharedDisk;
    let db = open(folder, config);
    let mut sessions = [db.session().unwrap(), db.session().unwrap()];
    sessions[0]
        .execute_script(
            "CREATE PROCEDURE change_and_look(p_a INT, p_b INT, OUT v INT) LANGUAGE plpgsql AS $$
         BEGIN UPDATE t SET v = 7 WHERE id = p_a; COMMIT; SELECT t.v INTO v FROM t WHERE id = p_b; END $$;
         INSERT INTO t SELECT n, 1 FROM generate_series(1, 6000) AS g (n);
         CREATE INDEX t_v ON t (v)",
        )
        .unwrap();
    sessions[1].call_durably("change", params![5, 1]).unwrap();
    // A worker's log follows from its slot.
    let device =
        |session: &mut Session| session.call("change", params![6, 1]).unwrap().commit.point().worker.0 % 2;
    if device(&mut sessions[0]) == 1 {
        sessions.swap(0, 1);
    }
    assert_eq!(sessions.each_mut().map(device), [0, 1]);
    db.checkpoint().unwrap();
    (disk, db, sessions)
}

/// What a session has written before does not tell what its read on a snapshot depends on.
#[test]
fn a_read_on_a_snapshot_waits_for_all_that_it_has_read() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, db, [mut first, mut second]) = two_devices(folder.path());
    let closed = disk.close();
    let undurable = second.call("change", params![77, 2]).unwrap().commit;
    let alone = first.call("change", params![1, 2]).unwrap().commit;
    assert!(alone.point().alone, "it waits for the first device only");
    alone.wait().unwrap();
    assert_is_not_acknowledged(closed, &db, &mut first, ("SELECT sum(v) FROM t", 6_002));
    assert!(undurable.is_durable());
}

/// A row that is not there any more is part of the answer, also where an index leads to it.
#[test]
fn a_read_on_a_snapshot_waits_for_deletes() {
    for query in [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM (SELECT v FROM t WHERE v >= 0 ORDER BY v DESC LIMIT 9000) AS one",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (disk, db, [mut first, mut second]) = two_devices(folder.path());
        let closed = disk.close();
        let undurable = second.call("remove", params![77]).unwrap().commit;
        assert_is_not_acknowledged(closed, &db, &mut first, (query, 5_999));
        assert!(undurable.is_durable());
    }
}

/// Runs a query that goes on on a snapshot, while what it reads is not durable. Then opens the gate, and
/// waits.
fn assert_is_not_acknowledged(
    closed: ClosedGate,
    db: &Database,
    session: &mut Session,
    (query, expected): (&str, i64),
) {
    let prepared = session.prepare(query).unwrap();
    let found = Arc::new(Mutex::new(Datum::Null));
    let sink = || Box::new(Last(Arc::clone(&found))) as Box<dyn RowSink>;
    let commit = session.execute_into(&prepared, &[], sink()).unwrap().commit;
    let is_durable = db.is_durable(commit.point());
    drop(closed);
    assert_eq!(*found.lock().unwrap(), Datum::Int(expected), "{query}");
    assert!(!is_durable, "{query} is acknowledged before what it has read is durable");
    commit.wait().unwrap();
}

/// The last step of a procedure that commits may depend on less than its earlier steps.
#[test]
fn a_call_waits_for_all_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _db, [_first, mut second]) = two_devices(folder.path());
    let closed = disk.close();
    let commit = second.call("change_and_look", params![8, 9]).unwrap().commit;
    let is_durable = commit.is_durable();
    drop(closed);
    assert!(!is_durable, "it is acknowledged before its first step is durable");
    commit.wait().unwrap();
}

/// Keeps the first value of the last row.
struct Last(Arc<Mutex<Datum>>);

impl RowSink for Last {
    fn begin(&mut self) {}

    fn row(&mut self, values: &[Datum], _: &Arena) -> Result<(), SqlError> {
        *self.0.lock().unwrap() = values[0];
        Ok(())
    }
}

/// A worker begins its log while a checkpoint is about to say which files are needed: none of that log's
/// files may go.
#[test]
fn a_log_that_begins_during_a_checkpoint_stays() {
    let crashing = CrashingDisk::default();
    let gated = Arc::new(GatedDisk::before("checkpoint.tmp", Arc::new(crashing.clone())));
    let config = |disk: SharedDisk| {
        let mut config = on(disk);
        (config.sequencing, config.content) = (Sequencing::Gsn, Content::Logical);
        config
    };
    let folder = Path::new("/db");
    let db = open(folder, config(Arc::clone(&gated) as SharedDisk));
    // So that the session below is not given its worker.
    let _other = db.session().unwrap();
    let closed = gated.close();
    let killed = std::thread::scope(|scope| {
        let taking = scope.spawn(|| db.checkpoint().map(drop));
        closed.wait_for(&[taking.thread().id()]);
        // More than one file holds.
        let mut session = db.session().unwrap();
        for n in 0..5_000 {
            session.call_durably("put", params![n, n]).unwrap();
        }
        drop(closed);
        taking.join().unwrap().unwrap();
        CrashingDisk::holding(crashing.contents())
    });
    let live = db.digest().unwrap();
    assert_eq!(Database::open(folder, config(Arc::new(killed))).unwrap().digest().unwrap(), live);
}
