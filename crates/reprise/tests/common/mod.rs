//! What the tests of the database share.
#![allow(dead_code, reason = "each test file uses its part")]

use reprise::rooms::recovery::{RecoveryConfig, recover};
use reprise::{Config, Database, Digest, Method, Progress, ReplayMode, disk::Disk};
use std::path::Path;
use std::sync::Arc;

/// A configuration for small databases.
pub fn small() -> Config {
    let mut config = Config::default();
    config.log_file_bytes = 1 << 20;
    config.memory_bytes = 1 << 30;
    config.memory_ahead_bytes = 0;
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

/// Recovers a folder without changing it, by every method; all must come to one digest.
pub fn recovered_digest(folder: &Path) -> Digest {
    recovered_digest_on(&small().disk, folder)
}

/// As `recovered_digest`, on a disk.
pub fn recovered_digest_on(disk: &Arc<dyn Disk>, folder: &Path) -> Digest {
    let reference = digest_by(disk, folder, Method::Clr, ReplayMode::default(), 2);
    for (mode, threads) in [
        (ReplayMode::Pipelined, 1),
        (ReplayMode::Pipelined, 2),
        (ReplayMode::Pipelined, 8),
        (ReplayMode::Synchronous, 3),
        (ReplayMode::Static, 2),
        (ReplayMode::Chopping, 2),
    ] {
        let digest = digest_by(disk, folder, Method::ClrP, mode, threads);
        assert_eq!(digest, reference, "clr-p ({mode}, {threads} threads) against clr");
    }
    reference
}

fn digest_by(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    method: Method,
    mode: ReplayMode,
    threads: usize,
) -> Digest {
    let settings = RecoveryConfig {
        method,
        mode,
        threads,
        // Small, so that short histories have several.
        batch: 16,
        memory_bytes: small().memory_bytes,
        memory_ahead_bytes: 0,
        ..RecoveryConfig::default()
    };
    let recovered = recover(disk, folder, &settings, &Progress::default());
    let recovered =
        recovered.unwrap_or_else(|error| panic!("{method} recovers ({mode}, {threads}): {error}"));
    recovered.tables.digest().expect("a worker")
}
