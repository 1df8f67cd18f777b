//! Acknowledged transactions survive, and no wrong state is ever opened: a crash at every call to the disk, a
//! failure of every call, every byte of the log changed, the log cut at every byte.

use crate::common::Durably as _;
use crate::common::{on, schemes_of};
use reprise::disk::{CrashingDisk, Disk, FailingDisk, Fault};
use reprise::{Config, Content, Database, Error, Images, Scheme, Sequencing, Value, params};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = "
CREATE TABLE debits (id INT PRIMARY KEY, amount INT NOT NULL);
CREATE TABLE credits (id INT PRIMARY KEY, amount INT NOT NULL);
CREATE TABLE sums (name TEXT PRIMARY KEY, n INT NOT NULL, total BIGINT NOT NULL, seen BIGINT NOT NULL);
INSERT INTO sums VALUES ('all', 0, 0, 0);
CREATE PROCEDURE book(p_id INT, p_amount INT) LANGUAGE plpgsql AS $$
DECLARE
    v_seen BIGINT;
BEGIN
    SELECT count(*) INTO v_seen FROM debits WHERE id < p_id;
    INSERT INTO debits VALUES (p_id, p_amount);
    INSERT INTO credits VALUES (p_id, -p_amount);
    UPDATE sums SET n = n + 1, total = total + p_amount, seen = v_seen WHERE name = 'all';
END $$;
CREATE PROCEDURE has(p_id INT, OUT d INT, OUT c INT) LANGUAGE plpgsql AS $$
BEGIN
    SELECT amount INTO d FROM debits WHERE id = p_id;
    SELECT amount INTO c FROM credits WHERE id = p_id;
END $$;
CREATE PROCEDURE totals(OUT n1 BIGINT, OUT n2 INT, OUT t1 BIGINT, OUT t2 BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*), sum(amount) INTO n1, t1 FROM debits;
    SELECT n, total INTO n2, t2 FROM sums WHERE name = 'all';
END $$;
";

const FOLDER: &str = "/db";

/// What is logged: content, images where they are not the content's own, what undo needs, and in which order;
/// and the concurrency control of the transactions.
type Log = (Content, Option<Images>, bool, Sequencing, Scheme);

const COMMAND: Log = (Content::Command, None, true, Sequencing::Epoch, Scheme::Optimistic);

/// Every valid log under OCC and under another scheme, and the logs of batches.
fn logs() -> impl Iterator<Item = Log> {
    let logs = valid_logs().enumerate().flat_map(|(place, (content, images, undo, sequencing))| {
        schemes_of(place as u64).map(move |scheme| (content, images, undo, sequencing, scheme))
    });
    let of_batches = [Content::DependencyFine, Content::DependencyCoarse];
    logs.chain(of_batches.map(|content| (content, None, true, Sequencing::Epoch, Scheme::DependencyGraph)))
}

/// Returns whether a log is tried in full: every content under OCC and epochs. Under another scheme or
/// sequencing every call to the disk is tried, too, but with a part of all that may happen at it.
/// `REPRISE_CONCURRENCY` tries everything in full under one scheme.
fn is_tried_in_full((content, _, _, sequencing, scheme): &Log) -> bool {
    let is_of_batches = matches!(content, Content::DependencyFine | Content::DependencyCoarse);
    let is_plain = *scheme == Scheme::Optimistic && *sequencing == Sequencing::Epoch;
    is_plain || is_of_batches || schemes_of(0).count() == 1
}

/// The places of a log that are tried: all, or every third one.
fn places(log: &Log, all: Range<usize>) -> impl Iterator<Item = usize> {
    let step = if is_tried_in_full(log) { 1 } else { 3 };
    all.step_by(step)
}

/// Returns whether the bytes of a log are tried. A scheme writes the same bytes as OCC.
fn has_own_bytes(log: &Log) -> bool {
    log.4 == Scheme::Optimistic || is_tried_in_full(log)
}

/// Everything that is valid; see `invalid_combinations_are_refused` for the rest.
fn valid_logs() -> impl Iterator<Item = (Content, Option<Images>, bool, Sequencing)> {
    let contents = [
        (Content::Command, None, true),
        (Content::Adaptive, None, true),
        (Content::Logical, None, true),
        (Content::Logical, Some(Images::Columns), true),
        (Content::Physical, None, true),
        (Content::Physiological, None, true),
        (Content::Physiological, Some(Images::Rows), true),
        (Content::Physiological, None, false),
    ];
    let all = contents.into_iter().flat_map(|(content, images, undo)| {
        Sequencing::NAMES.map(|(_, sequencing)| (content, images, undo, sequencing))
    });
    all.filter(|(content, images, _, sequencing)| {
        sequencing.admits(*content, images.unwrap_or(content.images())).is_ok()
    })
}

fn config(disk: &Arc<dyn Disk>, devices: usize, log: Log) -> Config {
    let mut config = on(Arc::clone(disk));
    (config.content, config.images, config.undo, config.sequencing, config.concurrency) = log;
    config.log_devices = Some((0..devices).map(|device| PathBuf::from(format!("log{device}"))).collect());
    config
}

/// Which contents each sequencing can log, as a table.
#[test]
fn invalid_combinations_are_refused() {
    let open = |content, images, sequencing, devices| {
        let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
        Database::open(
            FOLDER,
            config(&disk, devices, (content, images, true, sequencing, Scheme::Optimistic)),
        )
    };
    let refused = [
        (Content::Command, None, Sequencing::Ssn, "command records are replayed in a serial order"),
        (Content::Adaptive, None, Sequencing::Ssn, "adaptive records are replayed in a serial order"),
        (
            Content::Physiological,
            None,
            Sequencing::Ssn,
            "physiological records are replayed in a serial order",
        ),
        (Content::Physiological, None, Sequencing::Gsn, "physiological records are numbered by one clock"),
        (Content::Logical, Some(Images::Columns), Sequencing::Ssn, "it must be logged whole"),
    ];
    for (content, images, sequencing, why) in refused {
        let error = open(content, images, sequencing, 1).expect_err("it is refused");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.sqlstate(), "22023");
    }
    let error = open(Content::Command, None, Sequencing::Serial, 2).expect_err("it is refused");
    assert!(error.to_string().contains("to one device, not to 2"), "{error}");
    for log in logs() {
        let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
        Database::open(FOLDER, config(&disk, 1, log)).unwrap();
    }
    assert_eq!(valid_logs().count(), 23);
}

/// What a client knows.
#[derive(Clone, Default, Debug)]
struct Ledger {
    acknowledged: BTreeSet<i32>,
    tried: BTreeSet<i32>,
    has_schema: bool,
}

/// Opens, books some numbers and takes a checkpoint in between, until something fails.
fn work(
    disk: &Arc<dyn Disk>,
    (devices, log): (usize, Log),
    ids: std::ops::Range<i32>,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let db = Database::open(FOLDER, config(disk, devices, log))?;
    // Two sessions, so that with two devices both loggers have records.
    let mut sessions = [db.session()?, db.session()?];
    if !ledger.has_schema {
        sessions[0].execute_script(SCHEMA)?;
        ledger.has_schema = true;
    }
    let middle = (ids.start + ids.end) / 2;
    for id in ids {
        ledger.tried.insert(id);
        let session = &mut sessions[id as usize % 2];
        session.log_by_value(id % 3 == 0);
        session.call_durably("book", params![id, id * 10])?;
        ledger.acknowledged.insert(id);
        if id == middle {
            // A checkpoint that fails harms nothing; only a log that fails ends the work.
            let _ = db.checkpoint();
        }
    }
    Ok(())
}

/// Opens what is there and compares it with what the client knows.
fn check(disk: &Arc<dyn Disk>, (devices, log): (usize, Log), ledger: &Ledger, context: &str) {
    let db = Database::open(FOLDER, config(disk, devices, log)).unwrap_or_else(|e| panic!("{context}: {e}"));
    let mut session = db.session().unwrap();
    let Ok(totals) = session.call_durably("totals", params![]) else {
        assert!(!ledger.has_schema, "{context}: the acknowledged schema is missing");
        return;
    };
    assert_eq!(totals[0], totals[1], "{context}: a transaction is there in part");
    if totals[0] != Value::Int(0) {
        assert_eq!(totals[2], totals[3], "{context}: a transaction is there in part");
    }
    for id in &ledger.tried {
        let row = session.call_durably("has", params![*id]).unwrap();
        let present = row[0] != Value::Null;
        assert_eq!(present, row[1] != Value::Null, "{context}: {id} is there in part");
        assert!(present || !ledger.acknowledged.contains(id), "{context}: acknowledged {id} is missing");
    }
}

#[test]
fn a_crash_at_every_call_loses_nothing() {
    let all = [1, 2].into_iter().flat_map(|devices| logs().map(move |log| (devices, log)));
    for (devices, log) in all.filter(|(devices, log)| log.3.admits_devices(*devices).is_ok()) {
        let whole = CrashingDisk::default();
        let shared: Arc<dyn Disk> = Arc::new(whole.clone());
        let mut ledger = Ledger::default();
        work(&shared, (devices, log), 0..12, &mut ledger).unwrap();
        let calls = whole.calls() + 2;
        for crash in 0..calls {
            let disk = CrashingDisk::default();
            disk.crash_after(crash);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let mut ledger = Ledger::default();
            let _ = work(&shared, (devices, log), 0..12, &mut ledger);
            let seeds = if is_tried_in_full(&log) { 0..3 } else { crash % 3..crash % 3 + 1 };
            for seed in seeds {
                let context = format!("{log:?}, {devices} devices, crash after call {crash}, seed {seed}");
                check_and_go_on(&disk, (devices, log, log), seed, &ledger, &context);
            }
        }
    }
}

/// Recovers, checks, works, crashes and checks again, as what the first recovery cut must not rise again.
/// From then on the log may be of another content.
fn check_and_go_on(
    disk: &CrashingDisk,
    (devices, log, next): (usize, Log, Log),
    seed: u64,
    ledger: &Ledger,
    context: &str,
) {
    let after = disk.after_crash(seed);
    let shared: Arc<dyn Disk> = Arc::new(after.clone());
    check(&shared, (devices, log), ledger, context);
    let mut ledger = ledger.clone();
    let opened = Database::open(FOLDER, config(&shared, devices, next));
    ledger.has_schema |= has_schema(opened.unwrap_or_else(|e| panic!("{context}: {e}")).session().unwrap());
    work(&shared, (devices, next), 100..106, &mut ledger).unwrap_or_else(|e| panic!("{context}: {e}"));
    let again: Arc<dyn Disk> = Arc::new(after.after_crash(seed + 7));
    check(&again, (devices, log), &ledger, &format!("{context}, second crash"));
}

/// A folder may be opened with another content and another concurrency control each time: what its log holds
/// then is of another kind than before.
#[test]
fn every_content_follows_every_other() {
    // Each pair twice: from OCC to another concurrency control, and back.
    let is_optimistic = |log: &Log| log.4 == Scheme::Optimistic;
    let is_one_scheme = schemes_of(0).count() == 1;
    let pairs = logs().flat_map(|log| logs().map(move |next| (log, next)));
    let pairs = pairs.filter(|(log, next)| is_one_scheme || is_optimistic(log) != is_optimistic(next));
    for (place, (log, next)) in pairs.enumerate() {
        for crash in (60 + place as u64 % 167..400).step_by(167) {
            let disk = CrashingDisk::default();
            disk.crash_after(crash);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let mut ledger = Ledger::default();
            let _ = work(&shared, (1, log), 0..12, &mut ledger);
            let context = format!("{next:?} after {log:?}, crash after call {crash}");
            check_and_go_on(&disk, (1, log, next), crash, &ledger, &context);
        }
    }
}

fn has_schema(mut session: reprise::Session) -> bool {
    // The script is a transaction a statement, so a crash may have left a part of it.
    let ready = session.call_durably("totals", params![]).is_ok_and(|row| row[1] != Value::Null);
    if !ready {
        for statement in [
            "DROP PROCEDURE IF EXISTS totals",
            "DROP PROCEDURE IF EXISTS has",
            "DROP PROCEDURE IF EXISTS book",
        ] {
            session.execute_script(statement).unwrap();
        }
        for table in ["sums", "credits", "debits"] {
            session.execute_script(&format!("DROP TABLE IF EXISTS {table}")).unwrap();
        }
    }
    ready
}

#[test]
fn a_failing_disk_loses_nothing() {
    const FAULTS: [Fault; 3] = [Fault::Error, Fault::Full, Fault::ShortWrite];
    for (place, log) in logs().enumerate() {
        let faults = if is_tried_in_full(&log) { &FAULTS[..] } else { &FAULTS[place / 2 % 3..][..1] };
        fail_at_every_call(log, faults);
    }
}

fn fail_at_every_call(log: Log, faults: &[Fault]) {
    let disk = CrashingDisk::default();
    let counting = Arc::new(FailingDisk::new(Arc::new(disk), Fault::Error, u64::MAX, false));
    let shared: Arc<dyn Disk> = Arc::clone(&counting) as Arc<dyn Disk>;
    work(&shared, (1, log), 0..8, &mut Ledger::default()).unwrap();
    for &fault in faults {
        for for_good in [false, true] {
            for call in 0..counting.calls() {
                let disk = CrashingDisk::default();
                let inner: Arc<dyn Disk> = Arc::new(disk.clone());
                let failing: Arc<dyn Disk> = Arc::new(FailingDisk::new(inner, fault, call, for_good));
                let mut ledger = Ledger::default();
                let result = work(&failing, (1, log), 0..8, &mut ledger);
                if let Err(error) = &result {
                    assert!(["53100", "58030", "XX001"].contains(&error.sqlstate()), "{error}");
                    assert_eq!(error.sqlstate() == "53100", fault == Fault::Full, "{error}");
                    assert!(error.to_string().contains("/db"), "the error names no file: {error}");
                }
                let after: Arc<dyn Disk> = Arc::new(disk.after_crash(call));
                let context = format!("{log:?}, {fault:?} at call {call}, for good: {for_good}");
                check(&after, (1, log), &ledger, &context);
            }
        }
    }
}

/// A database that was killed with everything durable: the disk, its log file, and where the last batch
/// begins. One that was closed tells how its log ends, so that nothing of it can be cut (`altered_files`).
fn killed(log: Log) -> (CrashingDisk, PathBuf, u64, usize, Ledger) {
    let disk = CrashingDisk::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut ledger = Ledger::default();
    let db = Database::open(FOLDER, config(&shared, 1, log)).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    ledger.has_schema = true;
    for id in 0..6 {
        session.log_by_value(id % 2 == 1);
        session.call_durably("book", params![id, id]).unwrap();
        ledger.tried.insert(id);
        ledger.acknowledged.insert(id);
    }
    let killed = CrashingDisk::holding(disk.contents());
    drop((session, db));
    let (disk, shared): (_, Arc<dyn Disk>) = (killed.clone(), Arc::new(killed));
    let logs = logging::read_device(&shared, &Path::new(FOLDER).join("log0"), 0).unwrap();
    let last = logs[0].batches.last().unwrap();
    let (file, begin) = (last.file.clone(), last.offset);
    let end = begin as usize + 512;
    (disk, file, begin, end, ledger)
}

#[test]
fn every_changed_byte_of_the_log_is_refused_or_harmless() {
    logs().filter(has_own_bytes).for_each(change_every_byte);
}

fn change_every_byte(log: Log) {
    let (disk, file, _, end, ledger) = killed(log);
    let length = disk.contents()[&file].len();
    let mut refused = 0;
    for at in places(&log, 0..length.min(end + 5_000)) {
        // Beyond its sectors a page is padding that recovery does not read, so a sample suffices.
        if at % PAGE > 520 && at % 97 != 0 {
            continue;
        }
        let damaged = disk.after_crash(0);
        damaged.damage(&file, |bytes| bytes[at] ^= 1 << (at % 8));
        let shared: Arc<dyn Disk> = Arc::new(damaged.after_crash(0));
        match Database::open(FOLDER, config(&shared, 1, log)) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&*file.to_string_lossy()), "byte {at}: no file is named: {text}");
                assert!(text.contains("at byte"), "byte {at}: no offset is named: {text}");
                refused += 1;
            }
            Ok(db) => {
                drop(db);
                check(&shared, (1, log), &ledger, &format!("{log:?}, byte {at} changed"));
            }
        }
    }
    assert!(refused > places(&log, 0..end).count() / 10, "most of the log is checked: {refused} of {end}");
}

#[test]
fn a_log_cut_at_any_byte_is_refused() {
    logs().filter(has_own_bytes).for_each(cut_at_every_byte);
}

fn cut_at_every_byte(log: Log) {
    let (disk, file, begin, end, ledger) = killed(log);
    for at in places(&log, 0..PAGE).chain(begin as usize..end + 1) {
        let damaged = disk.after_crash(0);
        damaged.damage(&file, |bytes| bytes.truncate(at));
        let shared: Arc<dyn Disk> = Arc::new(damaged.after_crash(0));
        let error = Database::open(FOLDER, config(&shared, 1, log)).expect_err("a shortened log");
        assert!(error.to_string().contains("is damaged at byte"), "cut at {at}: {error}");
    }
    // Lost sectors look like a crash before the batch was durable: recovery drops its transactions only.
    for at in begin as usize..end {
        let damaged = disk.after_crash(0);
        let mut is_changed = false;
        damaged.damage(&file, |bytes| {
            // The last bytes of a checksum may be zeros.
            is_changed = bytes[at..].iter().any(|byte| *byte != 0);
            bytes[at..].fill(0);
        });
        let shared: Arc<dyn Disk> = Arc::new(damaged.after_crash(0));
        match Database::open(FOLDER, config(&shared, 1, log)) {
            Err(error) => {
                assert!(error.to_string().contains("is damaged at byte"), "zeroed from {at}: {error}");
                assert!(is_changed, "zeroed from {at}, which changes nothing: {error}");
            }
            Ok(db) => {
                drop(db);
                let mut ledger = ledger.clone();
                if is_changed {
                    assert_eq!(at, begin as usize, "half a sector is no torn write");
                    ledger.acknowledged.remove(&5);
                }
                check(&shared, (1, log), &ledger, &format!("{log:?}, zeroed from {at}"));
            }
        }
    }
}

const PAGE: usize = 4096;

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = crate::common::open(folder.path());
    let error = Database::open(folder.path(), crate::common::small()).expect_err("it is in use");
    assert_eq!(error.sqlstate(), "55006");
    drop(first);
    crate::common::open(folder.path());
}

/// Closing ends the thread that makes log files ahead: the next process that opens the folder makes files of
/// the same names.
#[test]
fn a_closed_database_leaves_the_disk_alone() {
    let disk = CrashingDisk::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut config = config(&shared, 2, COMMAND);
    config.log_file_bytes = 64 << 20;
    let db = Database::open(FOLDER, config).unwrap();
    db.session().unwrap().execute_script(SCHEMA).unwrap();
    drop(db);
    let calls = disk.calls();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(disk.calls(), calls, "something still writes");
}
