//! Data folders whose history is known: every state that their files ever had, and the digest of the database
//! then.

use crate::common::Durably as _;
use crate::common::on;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Digest, Scheme, Sequencing, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const FOLDER: &str = "/db";
const CALLS: i32 = 18;
/// Bytes of a log file: it holds seven batches.
const LOG_FILE: u64 = 32 << 10;

const SCHEMA: [&str; 4] = [
    "CREATE TABLE accounts (id INT PRIMARY KEY, amount INT NOT NULL)",
    "CREATE TABLE sums (id INT PRIMARY KEY, n INT NOT NULL, total BIGINT NOT NULL)",
    "INSERT INTO sums VALUES (1, 0, 0)",
    "CREATE PROCEDURE book(p_id INT, p_amount INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts SET amount = amount + p_amount WHERE id = p_id % 11;
    IF NOT FOUND THEN INSERT INTO accounts VALUES (p_id % 11, p_amount); END IF;
    UPDATE sums SET n = n + 1, total = (total * 3 + p_amount) % 1000003 WHERE id = 1;
END $$",
];

/// The files of a folder, with those of its devices.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a folder is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub devices: usize,
    pub incarnations: i32,
    pub has_checkpoints: bool,
    pub sequencing: Sequencing,
    pub content: Content,
    /// Whether the last incarnation was closed; otherwise its process was killed.
    pub is_closed: bool,
}

/// A folder at one moment, when everything that its database holds was acknowledged.
#[derive(Clone, Debug)]
pub struct Moment {
    pub files: Files,
    pub digest: Digest,
}

/// What a folder was like while it was made.
pub struct History {
    pub moments: Vec<Moment>,
    /// The digest after each transaction.
    pub digests: Vec<Digest>,
}

impl Shape {
    pub fn config(&self, disk: &Arc<dyn Disk>) -> Config {
        let mut config = on(Arc::clone(disk));
        config.log_file_bytes = LOG_FILE;
        (config.sequencing, config.content) = (self.sequencing, self.content);
        if self.content.needs_batches() {
            config.concurrency = Scheme::DependencyGraph;
        }
        config.log_devices = Some((0..self.devices).map(device).collect());
        config
    }

    /// Makes a folder; `salt` makes its rows differ from those of another folder of this shape. The last
    /// moment is the state to recover.
    pub fn make(&self, salt: i32) -> History {
        let disk = CrashingDisk::default();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (mut moments, mut digests) = (Vec::new(), Vec::new());
        for incarnation in 0..self.incarnations {
            let db = Database::open(FOLDER, self.config(&shared)).unwrap();
            // Two sessions, so that with two devices both loggers have records.
            let mut sessions = [db.session().unwrap(), db.session().unwrap()];
            digests.push(db.digest().unwrap());
            for statement in SCHEMA.iter().filter(|_| incarnation == 0) {
                sessions[0].execute_script(statement).unwrap();
                digests.push(db.digest().unwrap());
            }
            for call in 0..CALLS {
                let id = incarnation * CALLS + call;
                sessions[call as usize % 2].call_durably("book", params![id, id * 7 + salt]).unwrap();
                digests.push(db.digest().unwrap());
                let checkpoints = [CALLS / 3, 2 * CALLS / 3];
                if self.has_checkpoints && checkpoints.contains(&call) {
                    db.checkpoint().unwrap();
                }
                if call % 3 == 2 {
                    moments.push(Moment { files: disk.contents(), digest: db.digest().unwrap() });
                }
            }
            let digest = db.digest().unwrap();
            drop((sessions, db));
            if self.is_closed || incarnation + 1 < self.incarnations {
                moments.push(Moment { files: disk.contents(), digest });
            }
        }
        History { moments, digests }
    }
}

/// A log device, seen from the data folder.
pub fn device(number: usize) -> PathBuf {
    format!("log{number}").into()
}

/// The folder of a log device.
pub fn device_folder(number: usize) -> PathBuf {
    Path::new(FOLDER).join(device(number))
}
