//! Transactions whose operations are in a physiological log, but not what became of them: `aries` undoes
//! them, logs that it did before the database opens, and goes on where it was when that is interrupted.

use crate::common::Durably as _;
use crate::common::{digest_by, on, on_demand_digest};
use catalog::Reader;
use logging::content::{self, Record};
use logging::{self, LogConfig, LogStart, PepochFile, PepochKeeper, read_device};
use recovery::{RecoveryConfig, recover};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{
    CommitOrder, Config, Content, Database, Digest, Epoch, Images, Method, Progress, ReplayMode, Sequencing,
    params,
};
use std::path::Path;
use std::sync::Arc;
use storage::{Epochs, Slot};

const FOLDER: &str = "/db";
const DEVICE: &str = "log";
/// What a crash at one call to the disk can leave is looked at so often.
const SEEDS: u64 = 24;
/// Transactions without an outcome.
const LOSERS: usize = 5;

const SCHEMA: &str = "
CREATE TABLE accounts (id INT PRIMARY KEY, owner TEXT, balance INT NOT NULL);
CREATE INDEX accounts_owner ON accounts (owner);
CREATE TABLE moves (id INT PRIMARY KEY, amount INT NOT NULL);
CREATE PROCEDURE open_account(p_id INT) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts VALUES (p_id, 'owner ' || p_id, 100);
END $$;
CREATE PROCEDURE move(p_id INT, p_from INT, p_to INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts SET balance = balance - p_id, owner = owner || '!' WHERE id = p_from;
    UPDATE accounts SET balance = balance + p_id WHERE id = p_to;
    INSERT INTO moves VALUES (p_id, p_id);
    DELETE FROM moves WHERE id = p_id - 20;
END $$;
CREATE PROCEDURE close_account(p_id INT) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM accounts WHERE id = p_id;
    UPDATE accounts SET balance = balance + 1 WHERE id = p_id + 1;
END $$;
";

fn config(disk: &Arc<dyn Disk>, images: Images) -> Config {
    let mut config = on(Arc::clone(disk));
    config.content = Content::Physiological;
    config.images = Some(images);
    config
}

/// A log whose last transactions lack their outcomes, and the state without these.
fn with_losers(images: Images) -> (CrashingDisk, Digest) {
    let whole: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
    let db = Database::open(FOLDER, config(&whole, images)).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(SCHEMA).unwrap();
    for id in 0..30 {
        session.call_durably("open_account", params![id]).unwrap();
    }
    for id in 1..40 {
        session.call_durably("move", params![id, id % 10, 10 + id % 10]).unwrap();
    }
    let digest = db.digest().unwrap();
    // Each of rows that no other one of them has, as it holds their locks.
    session.call_durably("move", params![100, 0, 1]).unwrap();
    session.call_durably("move", params![40, 2, 3]).unwrap();
    session.call_durably("open_account", params![50]).unwrap();
    session.call_durably("close_account", params![20]).unwrap();
    session.call_durably("close_account", params![4]).unwrap();
    drop((session, db));

    let disk = CrashingDisk::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let folder = Path::new(FOLDER);
    let mut pepoch = PepochFile::read(&whole, folder).unwrap().unwrap();
    // The log is written anew, without some of its records, on devices that have no markers.
    pepoch.is_unmarked = true;
    pepoch.incarnations.iter_mut().for_each(|incarnation| incarnation.ends.clear());
    logging::disk::make_folder(&*shared, folder).unwrap();
    pepoch.write(&shared, folder).unwrap();
    let logs = read_device(&whole, &folder.join(DEVICE), 0).unwrap();
    let mut records = Vec::new();
    for batch in &logs[0].batches {
        let mut reader = Reader::new(&batch.records);
        while reader.remaining() > 0 {
            let start = batch.records.len() - reader.remaining();
            let (stamp, _, record) = content::read(&mut reader).unwrap();
            let bytes = batch.records[start..batch.records.len() - reader.remaining()].to_vec();
            records.push((stamp.order, matches!(record, Record::Outcome(_)), bytes));
        }
    }
    let outcomes = records.iter().filter(|(_, is_outcome, _)| *is_outcome);
    let first_lost = outcomes.clone().nth(outcomes.count() - LOSERS).unwrap().0;
    records.retain(|(order, is_outcome, _)| !is_outcome || *order < first_lost);
    let last = records.last().unwrap().0;
    let epochs = Arc::new(Epochs::new(Epoch(last.epoch().0 + 1), 1));
    let settings = LogConfig { devices: vec![DEVICE.into()], file_bytes: 64 << 10, ..LogConfig::default() };
    let folders = [folder.join(DEVICE)];
    let start = LogStart {
        config: &settings,
        folders: &folders,
        disk: &shared,
        database: pepoch.database,
        pepoch: &PepochKeeper::new(&shared, folder, pepoch.clone(), true),
        incarnation: 1,
        epochs: &epochs,
        retired: Vec::new(),
        empty: Vec::new(),
    };
    let log = logging::start(Sequencing::Epoch, start).unwrap();
    for (order, _, bytes) in &records {
        log.append(Slot(0), bytes, *order).unwrap();
    }
    log.complete(CommitOrder::last_of(Epoch(last.epoch().0 + 1))).unwrap();
    drop(log);
    (disk, digest)
}

/// What a folder recovers to, and how many transactions were undone.
fn recovered(disk: &Arc<dyn Disk>) -> (Digest, u64) {
    let settings =
        RecoveryConfig { memory_ahead_bytes: 0, memory_bytes: 1 << 30, ..RecoveryConfig::default() };
    let recovered = recover(disk, Path::new(FOLDER), &settings, &Progress::default()).unwrap();
    (recovered.tables.digest().unwrap(), recovered.report.undone)
}

#[test]
fn losers_are_undone() {
    for images in [Images::Columns, Images::Rows] {
        let (disk, digest) = with_losers(images);
        let shared: Arc<dyn Disk> = Arc::new(disk);
        assert_eq!(recovered(&shared), (digest.clone(), LOSERS as u64));
        for threads in [1, 2, 8] {
            let own = digest_by(&shared, Path::new(FOLDER), Method::Aries, ReplayMode::default(), threads);
            assert_eq!(own, digest, "{images:?}, {threads} threads");
            let own = on_demand_digest(&shared, Path::new(FOLDER), Method::Aries, threads);
            assert_eq!(own, digest, "{images:?}, {threads} threads, on demand");
        }
    }
}

#[test]
fn undo_goes_on_where_it_was() {
    let (begun, digest) = with_losers(Images::Columns);
    let whole = begun.after_crash(0);
    let shared: Arc<dyn Disk> = Arc::new(whole.clone());
    drop(Database::open(FOLDER, config(&shared, Images::Columns)).unwrap());
    let (mut crashes, mut in_the_middle) = (0, 0);
    for crash in 0..whole.calls() + 2 {
        let disk = begun.after_crash(0);
        disk.crash_after(crash);
        let opening: Arc<dyn Disk> = Arc::new(disk.clone());
        let _ = Database::open(FOLDER, config(&opening, Images::Columns));
        for seed in 0..SEEDS {
            let after = disk.after_crash(seed);
            let shared: Arc<dyn Disk> = Arc::new(after.clone());
            let context = format!("crash after call {crash}, seed {seed}");
            let (own, undone) = recovered(&shared);
            assert_eq!(own, digest, "{context}");
            crashes += 1;
            in_the_middle += usize::from((1..LOSERS as u64).contains(&undone));
            // The losers' rows are written again: nothing of that may be undone.
            let mut config = config(&shared, Images::Columns);
            (config.on_demand, config.drain_threads) = (seed % 2 == 1, (crash % 2) as usize);
            let db = Database::open(FOLDER, config).unwrap();
            let mut session = db.session().unwrap();
            for (id, from, to) in [(200, 0, 1), (201, 2, 3), (202, 5, 21)] {
                session.call_durably("move", params![id, from, to]).unwrap();
            }
            session.call_durably("open_account", params![50]).unwrap();
            session.call_durably("close_account", params![20]).unwrap();
            let live = db.digest().unwrap();
            drop((session, db));
            let again: Arc<dyn Disk> = Arc::new(after.after_crash(seed));
            assert_eq!(recovered(&again), (live, 0), "{context}, after it has worked");
        }
    }
    eprintln!("{crashes} crashes, {in_the_middle} of them in the middle of undo");
    assert!(in_the_middle >= 100, "{in_the_middle} of {crashes} crashes were in the middle of undo");
}
