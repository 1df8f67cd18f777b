//! Logs for tests, on a disk in memory.

use logging::disk::{CrashingDisk, SharedDisk};
use logging::{
    DatabaseId, LogConfig, LogSet, LogSetStart, LogStart, PepochFile, PepochKeeper, RecordFormat, Sequencing,
};
use std::path::Path;
use std::sync::Arc;
use storage::Epochs;

/// Starts the logs of a new database; none without a format.
pub(crate) fn logs(
    sequencing: Sequencing,
    format: Option<RecordFormat>,
    epochs: &Arc<Epochs>,
) -> Arc<LogSet> {
    let disk: SharedDisk = Arc::new(CrashingDisk::default());
    let (folder, database) = (Path::new("/db"), DatabaseId::random());
    let file = PepochFile { database, devices: vec!["log".into()], ..PepochFile::default() };
    let own = LogStart {
        config: &LogConfig::default(),
        folders: &[folder.join("log")],
        disk: &disk,
        database,
        pepoch: &PepochKeeper::new(&disk, folder, file, true),
        incarnation: 1,
        epochs,
        retired: vec![Vec::new()],
        empty: vec![Vec::new()],
    };
    let (shadows, large_files, locks) = (&[][..], Vec::new(), Vec::new());
    let start = LogSetStart { folder, sequencing, format, shadows, own, large_files, locks };
    Arc::new(LogSet::start(start).unwrap())
}
