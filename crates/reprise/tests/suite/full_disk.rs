//! A full disk, and a process without descriptors, stop nothing for good: commits are refused while the log
//! can't grow, reads go on, and what was acknowledged, and nothing else, is there afterwards.

use crate::common::Durably as _;
use crate::common::on;
use logging::LogError;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::disk::{CrashingDisk, RealDisk, ScarceDisk};
use reprise::{Config, Content, Database, Error, Nowhere, Parameters, Sequencing, Session, Value, params};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FOLDER: &str = "/db";
const SCHEMA: &str = "
CREATE TABLE bookings (id INT PRIMARY KEY, note TEXT NOT NULL);
CREATE PROCEDURE book(p_id INT, p_note TEXT) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO bookings VALUES (p_id, p_note);
END $$;
CREATE PROCEDURE rewrite(p_id INT, p_note TEXT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE bookings SET note = p_note WHERE id = p_id;
END $$;
CREATE PROCEDURE has(p_id INT, OUT n BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*) INTO n FROM bookings WHERE id = p_id;
END $$;
";

/// SSN orders no calls, so values are logged.
fn config(disk: &ScarceDisk, sequencing: Sequencing, devices: usize) -> Config {
    let mut config = on(Arc::new(disk.clone()));
    config.sequencing = sequencing;
    config.content = if sequencing == Sequencing::Ssn { Content::Logical } else { Content::Command };
    config.log_devices = Some((0..devices).map(|device| PathBuf::from(format!("log{device}"))).collect());
    config.full_disk_patience = Duration::from_secs(60);
    config
}

fn book(session: &mut Session, id: i32, bytes: usize) -> Result<(), Error> {
    session.call_durably("book", params![id, "x".repeat(bytes)]).map(drop)
}

fn has(session: &mut Session, id: i32) -> bool {
    session.call_durably("has", params![id]).unwrap()[0] == Value::Int(1)
}

/// A database whose log files have more room than its buffers, on a folder of the operating system.
struct Large {
    folder: tempfile::TempDir,
    disk: ScarceDisk,
    sequencing: Sequencing,
    devices: usize,
}

/// Bytes of its log files.
const FILE: u64 = 20 << 20;
/// Bytes of its notes.
const NOTE: usize = 200 << 10;

impl Large {
    fn new((sequencing, devices): (Sequencing, usize)) -> Self {
        let disk = ScarceDisk::new(Arc::new(RealDisk));
        Self { folder: tempfile::tempdir().unwrap(), disk, sequencing, devices }
    }

    fn open(&self) -> (Database, Session) {
        let mut config = config(&self.disk, self.sequencing, self.devices);
        config.log_file_bytes = FILE;
        let db =
            Database::open(self.folder.path(), config).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let session = db.session().unwrap();
        (db, session)
    }

    /// Books until it is refused; returns the first that was.
    fn book_until_refused(&self, session: &mut Session) -> (i32, Error) {
        let refused = (0..1000).find_map(|id| book(session, id, NOTE).err().map(|error| (id, error)));
        let (id, error) = refused.expect("a disk is finite");
        assert!(matches!(error, Error::Log(LogError::NoRoom(_))), "{self:?}: {error}");
        assert!(id > 0 && has(session, 0) && !has(session, id), "{self:?}: {id}");
        (id, error)
    }

    /// Books one as soon as it is not refused any more, and some more.
    fn book_at_last(&self, session: &mut Session, id: i32) {
        let begun = Instant::now();
        while let Err(error) = book(session, id, NOTE) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{self:?}: it is still refused: {error}");
            std::thread::yield_now();
        }
        (id + 1..id + 10).for_each(|id| book(session, id, NOTE).unwrap());
    }

    /// Opens it again and looks what is there.
    fn check(&self, there: impl Iterator<Item = i32>, gone: i32) {
        let (_db, mut session) = self.open();
        for id in there {
            assert!(has(&mut session, id), "{self:?}: {id} is lost");
        }
        assert!(!has(&mut session, gone), "{self:?}: what was refused is there");
    }
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {} devices", self.sequencing, self.devices)
    }
}

fn schemes() -> impl Iterator<Item = (Sequencing, usize)> {
    Sequencing::NAMES.into_iter().flat_map(|(_, sequencing)| {
        [1, 2]
            .into_iter()
            .filter(move |devices| sequencing.admits_devices(*devices).is_ok())
            .map(move |devices| (sequencing, devices))
    })
}

#[test]
fn commits_are_refused_and_reads_go_on_until_there_is_room() {
    for scheme in schemes() {
        let large = Large::new(scheme);
        let (db, mut session) = large.open();
        session.execute_script(SCHEMA).unwrap();
        large.disk.leave_room(FILE + (1 << 20));
        let (refused, error) = large.book_until_refused(&mut session);
        assert_eq!(error.sqlstate(), "53100", "{large:?}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("disk space")));
        assert_eq!(db.check_log().unwrap_err().sqlstate(), "53100");
        let count = session.query("SELECT count(*) FROM bookings").unwrap().rows[0][0].clone();
        assert_eq!(count, Value::Int(refused.into()));
        for statement in ["DELETE FROM bookings", "CREATE TABLE more (id INT PRIMARY KEY)"] {
            assert_eq!(session.query(statement).unwrap_err().sqlstate(), "53100", "{statement}");
        }
        // A caller that waits itself has nothing to wait for.
        let prepared = session.prepare("DELETE FROM bookings").unwrap();
        let refused_at_once = session.attempt(&prepared, &Parameters::default(), Box::new(Nowhere));
        assert_eq!(refused_at_once.unwrap_err().sqlstate(), "53100", "{large:?}");
        session.begin().unwrap();
        session.query("SELECT count(*) FROM bookings").unwrap();
        assert_eq!(session.query("DELETE FROM bookings").unwrap_err().sqlstate(), "53100");
        session.rollback();
        large.disk.limit_room(u64::MAX);
        large.book_at_last(&mut session, refused);
        drop((session, db));
        large.check(0..refused + 10, refused + 10);
    }
}

/// The record of such a transaction has a file of its own, which is written before any row is locked.
#[test]
fn a_large_transaction_with_definitions_is_refused_and_leaves_nothing_locked() {
    for scheme in schemes() {
        let large = Large::new(scheme);
        let (db, mut session) = large.open();
        session.execute_script(SCHEMA).unwrap();
        (0..30).for_each(|id| book(&mut session, id, NOTE).unwrap());
        let mut other = db.session().unwrap();
        let mut run = || {
            session.begin().unwrap();
            session.query("CREATE TABLE more (id INT PRIMARY KEY)")?;
            session.query("INSERT INTO bookings SELECT id + 100, note FROM bookings")?;
            session.query("DELETE FROM bookings WHERE id = 0")?;
            session.commit().map(drop)
        };
        large.disk.limit_room(0);
        let error = run().unwrap_err();
        assert_eq!(error.sqlstate(), "53100", "{large:?}: {error}");
        assert!(has(&mut other, 0) && !has(&mut other, 100), "{large:?}");
        large.disk.limit_room(u64::MAX);
        other.query("UPDATE bookings SET note = 'shorter' WHERE id = 1").unwrap();
        run().unwrap();
        assert!(!has(&mut other, 0) && has(&mut other, 100), "{large:?}");
        drop((session, other, db));
        large.check(1..30, 0);
    }
}

#[test]
fn a_database_closes_and_opens_on_a_full_disk_and_a_checkpoint_frees_its_log() {
    for scheme in schemes() {
        let large = Large::new(scheme);
        let (db, mut session) = large.open();
        session.execute_script(SCHEMA).unwrap();
        book(&mut session, 0, NOTE).unwrap();
        large.disk.leave_room(FILE * 2);
        let mut rewrite = || session.call_durably("rewrite", params![0, "y".repeat(NOTE)]).err();
        let error = (0..1000).find_map(|_| rewrite()).expect("a disk is finite");
        assert!(matches!(error, Error::Log(LogError::NoRoom(_))), "{large:?}: {error}");
        large.disk.limit_room(0);
        let used = large.disk.used();
        assert_eq!(db.checkpoint().unwrap_err().sqlstate(), "53100", "{large:?}");
        assert!(large.disk.used() <= used, "{large:?}: a checkpoint that failed takes room");
        // What was kept in reserve may have been spent: that it is still free is all that is left.
        large.disk.leave_room(80 << 10);
        drop((session, db));
        let (db, mut session) = large.open();
        assert!(has(&mut session, 0));
        assert_eq!(book(&mut session, 1, NOTE).unwrap_err().sqlstate(), "53100", "{large:?}");
        drop((session, db));
        // A log file does not fit, but the rows do.
        large.disk.leave_room(2 << 20);
        let (db, mut session) = large.open();
        assert!(has(&mut session, 0));
        assert_eq!(book(&mut session, 1, NOTE).unwrap_err().sqlstate(), "53100", "{large:?}");
        let used = large.disk.used();
        db.checkpoint().unwrap_or_else(|error| panic!("{large:?}: {error}"));
        assert!(large.disk.used() < used, "{large:?}: nothing is freed");
        large.book_at_last(&mut session, 1);
        drop((session, db));
        large.check(0..11, 11);
    }
}

#[test]
fn a_file_that_finds_no_descriptor_is_made_later() {
    for scheme in schemes() {
        let large = Large::new(scheme);
        let (db, mut session) = large.open();
        session.execute_script(SCHEMA).unwrap();
        large.disk.leave_descriptors(0);
        std::thread::scope(|scope| {
            let (large, booking) =
                (&large, scope.spawn(|| (0..400).map(|id| book(&mut session, id, NOTE)).collect::<Vec<_>>()));
            while db.check_log().is_ok() {
                assert!(!booking.is_finished(), "{large:?}: it made a file without a descriptor");
                std::thread::yield_now();
            }
            assert_eq!(db.check_log().unwrap_err().sqlstate(), "53000", "{large:?}");
            large.disk.leave_descriptors(usize::MAX);
            for booked in booking.join().expect("it does not panic") {
                assert!(
                    booked.is_ok() || matches!(booked, Err(Error::Log(LogError::NoRoom(_)))),
                    "{large:?}: {booked:?}"
                );
            }
        });
        large.book_at_last(&mut session, 400);
        drop((session, db));
        large.check(400..410, 410);
    }
}

/// A session that gave up waiting for room leaves its record in the log's buffer, and may be idle from then
/// on, or gone. A checkpoint, or a commit of another session, comes to an end all the same.
#[test]
fn nothing_waits_for_a_session_that_gave_up() {
    for (sequencing, devices) in schemes() {
        for is_gone in [false, true] {
            let disk = ScarceDisk::new(Arc::new(CrashingDisk::default()));
            let mut config = config(&disk, sequencing, devices);
            config.full_disk_patience = Duration::ZERO;
            let db = Database::open(FOLDER, config).unwrap();
            let (mut session, mut other) = (db.session().unwrap(), db.session().unwrap());
            session.execute_script(SCHEMA).unwrap();
            book(&mut other, 0, 1).unwrap();
            disk.leave_room(0);
            let gives_up =
                |id: &i32| matches!(book(&mut session, *id, 3000), Err(Error::Log(LogError::Stalled(_))));
            let scheme = (sequencing, devices, is_gone, (1..100).find(gives_up));
            let _idle = (!is_gone).then_some(session);
            let begun = Instant::now();
            let checkpoint = db.checkpoint();
            assert!(begun.elapsed() < Duration::from_secs(30), "{scheme:?}: {checkpoint:?}");
            disk.limit_room(u64::MAX);
            while let Err(error) = book(&mut other, 20_000, 3000) {
                assert!(begun.elapsed() < Duration::from_secs(60), "{scheme:?}: {error}");
                std::thread::yield_now();
            }
            db.checkpoint().unwrap();
        }
    }
}

/// What was acknowledged, and nothing that was refused, is there after a crash.
fn check(
    crashing: &CrashingDisk,
    config: &dyn Fn(&ScarceDisk) -> Config,
    booked: &BTreeSet<i32>,
    refused: &BTreeSet<i32>,
) {
    for seed in 0..4 {
        let disk = ScarceDisk::new(Arc::new(crashing.after_crash(seed)));
        let db = Database::open(FOLDER, config(&disk)).unwrap();
        let mut session = db.session().unwrap();
        assert!(booked.iter().all(|id| has(&mut session, *id)), "what was acknowledged is lost");
        assert!(!refused.iter().any(|id| has(&mut session, *id)), "what was refused is there");
    }
}

/// Sessions book at the same time while room and descriptors come and go, and the database is closed or
/// killed with whatever it lacks then.
#[test]
fn whatever_is_lacking_when_nothing_acknowledged_is_lost() {
    for seed in crate::common::seeds(40) {
        let mut random = SmallRng::seed_from_u64(seed);
        let schemes: Vec<_> = schemes().collect();
        let (sequencing, devices) = schemes[random.random_range(0..schemes.len())];
        let patience = [0, 5, 1000][random.random_range(0..3)];
        let crashing = CrashingDisk::default();
        let disk = ScarceDisk::new(Arc::new(crashing.clone()));
        let config = |disk: &ScarceDisk| {
            let mut config = config(disk, sequencing, devices);
            config.full_disk_patience = Duration::from_millis(patience);
            config
        };
        let db = Database::open(FOLDER, config(&disk)).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        let work = &|number: i32| {
            let (mut booked, mut refused) = (BTreeSet::new(), BTreeSet::new());
            let mut session = db.session()?;
            for id in (0..120).map(|id| id * 3 + number) {
                match book(&mut session, id, 3000) {
                    Ok(()) => _ = booked.insert(id),
                    Err(Error::Log(LogError::NoRoom(_))) => {
                        refused.insert(id);
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    // The outcome is not known.
                    Err(_) => {}
                }
            }
            Ok::<_, Error>((booked, refused))
        };
        let (mut booked, mut refused) = (BTreeSet::new(), BTreeSet::new());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|number| scope.spawn(move || work(number))).collect();
            while !workers.iter().all(|worker| worker.is_finished()) {
                match random.random_range(0..4) {
                    0 => disk.leave_room(random.random_range(0..300 << 10)),
                    1 => disk.leave_descriptors(random.random_range(0..3)),
                    2 => _ = db.checkpoint(),
                    _ => {
                        disk.limit_room(u64::MAX);
                        disk.leave_descriptors(usize::MAX);
                    }
                }
                std::thread::sleep(Duration::from_millis(random.random_range(0..20)));
            }
            for worker in workers {
                let Ok((own, not)) = worker.join().expect("it does not panic") else { continue };
                booked.extend(own);
                refused.extend(not);
            }
        });
        assert!(!booked.is_empty() || patience == 0, "seed {seed}");
        if random.random_range(0..2) == 0 {
            check(&crashing, &config, &booked, &refused);
        }
        drop(db);
        check(&crashing, &config, &booked, &refused);
    }
}
