//! What the tests of the database share.
#![allow(dead_code, reason = "each test file uses its part")]

use reprise::rooms::recovery::{RecoveryConfig, recover};
use reprise::{Config, Database, Digest, Progress, disk::Disk};
use std::path::Path;
use std::sync::Arc;

/// A configuration for small databases.
pub fn small() -> Config {
    let mut config = Config::default();
    config.log_file_bytes = 1 << 20;
    config.memory_bytes = 1 << 30;
    config.checkpoint_threads = 2;
    config
}

pub fn open(folder: &Path) -> Database {
    Database::open(folder, small()).expect("it opens")
}

/// A small database on a disk of the tests.
pub fn on(disk: Arc<dyn Disk>) -> Config {
    let mut config = small();
    config.disk = disk;
    config.log_file_bytes = 64 << 10;
    config.checkpoint_threads = 1;
    config
}

/// Recovers a folder without changing it.
pub fn recovered_digest(folder: &Path) -> Digest {
    let config = small();
    let settings = RecoveryConfig {
        method: config.method,
        mode: config.mode,
        threads: 2,
        workers: config.workers,
        memory_bytes: config.memory_bytes,
    };
    let recovered = recover(&config.disk, folder, &settings, &Progress::default()).expect("it recovers");
    recovered.tables.digest().expect("a worker")
}
