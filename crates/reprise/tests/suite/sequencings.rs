//! What each sequencing promises beside that nothing is lost.

use crate::common::{recovered_digest_of, small};
use reprise::{Config, Content, Database, Sequencing, Session, params};
use std::path::Path;
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

/// DESIGN §6.3, trap 4: who inserts a row again that is gone has a greater number than who deleted it, though its own buffer
/// is far behind, and though the deleted record was long ready to be cleaned up.
#[test]
fn a_deleted_row_keeps_its_number_until_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = ssn(2);
    // Nothing more becomes durable, and no number is raised, before the end.
    config.flush_floor = Duration::from_secs(60);
    let db = open(folder.path(), config);
    let mut sessions = [db.session().unwrap(), db.session().unwrap()];
    for session in &mut sessions {
        let _ = session.submit("put", params![1, 1]).ok();
    }
    std::thread::sleep(Duration::from_millis(20));
    let [ahead, behind] = &mut sessions;
    for n in 10..500 {
        let _ = ahead.submit("put", params![n, n]).unwrap();
    }
    let _ = ahead.submit("remove", params![1]).unwrap();
    for n in 500..1_000 {
        let _ = ahead.submit("put", params![n, n]).unwrap();
    }
    let _ = behind.submit("put", params![1, 2]).unwrap();
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
    let first = session.submit("put", params![1, 1]).unwrap();
    first.wait().unwrap();
    db.checkpoint().unwrap();
    let alone = session.submit("change", params![1, 2]).unwrap();
    assert!(alone.commit().alone, "the row that it overwrites is durable");
    alone.wait().unwrap();
    assert!(alone.is_durable());
    let run = |sessions: &mut [Session]| {
        let count = sessions.len();
        let submit = |n: usize| sessions[n % count].submit("change", params![1, n as i64]).unwrap();
        let tickets: Vec<_> = (0..1_000).map(submit).collect();
        tickets.last().unwrap().wait().unwrap();
        tickets.iter().for_each(|ticket| ticket.wait().unwrap());
        assert!(tickets.iter().all(|ticket| ticket.is_durable()));
        tickets.iter().filter(|ticket| ticket.commit().alone).count()
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
            config.sequencing = sequencing;
            let db = Database::open(folder.path(), config).unwrap();
            let mut session = db.session().unwrap();
            if next == 0 {
                session.execute_script(SCHEMA).unwrap();
            }
            for n in next..next + 20 {
                session.call("put", params![n, n]).unwrap();
                let _ = session.submit("change", params![n / 2, n]).unwrap();
                if n % 7 == 0 {
                    let _ = session.submit("remove", params![n / 3]).unwrap();
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
