//! A database that is killed and opened again and again holds few log files, and all that was acknowledged.

use crate::common::Durably as _;
use crate::common::on;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Sequencing, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = "/db";
const KILLS: i32 = 40;

/// The log files on all devices.
fn log_files(disk: &CrashingDisk) -> usize {
    let folders = ["log0", "log1"].map(|name| Path::new(FOLDER).join(name));
    let files = folders.iter().flat_map(|folder| disk.list(folder).unwrap());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "rlog")).count()
}

/// Opens and kills; `works` tells in which incarnations something is committed. Returns the most log files
/// that there were.
fn kill_again_and_again(sequencing: Sequencing, works: impl Fn(i32) -> bool) -> usize {
    let mut disk = CrashingDisk::default();
    let config = |disk: &CrashingDisk| -> Config {
        let mut config = on(Arc::new(disk.clone()));
        config.sequencing = sequencing;
        config.content = if sequencing == Sequencing::Ssn { Content::Logical } else { Content::Command };
        let devices = if sequencing.admits_devices(2).is_ok() { 2 } else { 1 };
        config.log_devices = Some((0..devices).map(|device| PathBuf::from(format!("log{device}"))).collect());
        config
    };
    let schema = "CREATE TABLE kills (id INT PRIMARY KEY)";
    Database::open(FOLDER, config(&disk)).unwrap().session().unwrap().execute_script(schema).unwrap();
    let (mut most, mut committed) = (0, 0);
    for id in 0..KILLS {
        let db = Database::open(FOLDER, config(&disk))
            .unwrap_or_else(|error| panic!("{sequencing}, {id}: {error}"));
        let mut session = db.session().unwrap();
        if works(id) {
            session.query(&format!("INSERT INTO kills VALUES ({id})")).unwrap();
            committed += 1;
        }
        let count = session.query("SELECT count(*) FROM kills").unwrap().rows[0][0].clone();
        assert_eq!(count, Value::Int(committed), "{sequencing}");
        // What is there now, durable or not, or what a loss of power leaves.
        let killed = match id % 3 {
            0 => disk.after_crash(id as u64),
            _ => CrashingDisk::holding(disk.contents()),
        };
        most = most.max(log_files(&killed));
        drop((session, db));
        disk = killed;
    }
    most
}

#[test]
fn many_incarnations_end_in_a_checkpoint() {
    for (_, sequencing) in Sequencing::NAMES {
        let most = kill_again_and_again(sequencing, |_| true);
        assert!(most <= 9 * 2, "{sequencing}: {most} log files");
    }
}

#[test]
fn incarnations_without_records_leave_no_files() {
    for (_, sequencing) in Sequencing::NAMES {
        // The first incarnation, one that works and the one that was killed.
        let most = kill_again_and_again(sequencing, |id| id == 5);
        assert!(most <= 3 * 2, "{sequencing}: {most} log files");
    }
}
