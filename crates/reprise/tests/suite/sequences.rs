//! No number of a sequence is given twice, whatever happens.

use crate::common::Durably as _;
use crate::common::{on, open};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Error, Session, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

fn next(session: &mut Session) -> Result<i64, Error> {
    let answer = session.query("SELECT nextval('s')")?;
    Ok(if let Value::Int(number) = answer.rows[0][0] { number } else { panic!("a number") })
}

#[test]
fn sessions_get_different_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    database.session().unwrap().execute_script("CREATE SEQUENCE s").unwrap();
    let mut all = BTreeSet::new();
    let per_thread: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let take = || {
            let mut session = database.session().unwrap();
            (0..500).map(|_| next(&mut session).unwrap()).collect()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for numbers in per_thread {
        assert!(numbers.is_sorted());
        all.extend(numbers);
    }
    assert_eq!(all.len(), 2000);
    assert_eq!(all.last(), Some(&2000));
}

#[test]
fn a_checkpoint_leaves_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    let mut session = database.session().unwrap();
    session.execute_script("CREATE SEQUENCE s").unwrap();
    assert_eq!(next(&mut session).unwrap(), 1);
    database.checkpoint().unwrap();
    assert_eq!(next(&mut session).unwrap(), 2);
    drop((session, database));
    // Without one, what was taken and not given is passed over.
    let mut session = open(folder.path()).session().unwrap();
    assert!(next(&mut session).unwrap() > 2);
}

fn work(disk: &Arc<dyn Disk>, given: &mut Vec<i64>) -> Result<(), Error> {
    let database = Database::open("/db", on(Arc::clone(disk)))?;
    let mut session = database.session()?;
    if given.is_empty() {
        session.execute_script("CREATE SEQUENCE s")?;
    }
    for _ in 0..40 {
        given.push(next(&mut session)?);
    }
    database.checkpoint()?;
    for _ in 0..3 {
        given.push(next(&mut session)?);
    }
    Ok(())
}

#[test]
fn a_crash_at_every_call_gives_no_number_again() {
    let whole = CrashingDisk::default();
    work(&(Arc::new(whole.clone()) as Arc<dyn Disk>), &mut Vec::new()).unwrap();
    for crash in 0..whole.calls() + 2 {
        let disk = CrashingDisk::default();
        disk.crash_after(crash);
        let mut given = Vec::new();
        let _ = work(&(Arc::new(disk.clone()) as Arc<dyn Disk>), &mut given);
        if given.is_empty() {
            continue;
        }
        let before = given.len();
        work(&(Arc::new(disk.after_crash(crash)) as Arc<dyn Disk>), &mut given).unwrap();
        let distinct: BTreeSet<i64> = given.iter().copied().collect();
        assert_eq!(
            distinct.len(),
            given.len(),
            "crash {crash}: {:?} then {:?}",
            &given[..before],
            &given[before..]
        );
    }
}
