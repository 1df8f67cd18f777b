//! Backups: a copy of a database as of one moment, and its restoration.
//!
//! A backup is a data folder: a pepoch file without incarnations, one consistent checkpoint with the digests
//! of its rows, and no log. `Database::open` opens it like any other folder. A backup of an open database is
//! written from a snapshot, so transactions go on meanwhile. It holds every transaction that was acknowledged
//! before the backup began.
//! Invariants: 1. a backup holds the state after a prefix of the serial order. 2. before `Backup::write`
//! returns, the parts were read back and compared with the digest of what was written. Held by:
//! `crates/reprise/tests/suite/backups.rs`.
//! After a crash: the pepoch file is written last, so a folder without one is an unfinished backup.
//! `copy_database` refuses it.

use crate::database::Database;
use crate::{Config, Error, opening};
use catalog::CommitOrder;
use checkpoint::{
    Check, CheckpointError, Consistency, Contents, Destination, Discard, Load, Manifest, Shadow,
};
use logging::disk::{SharedDisk, make_folder};
use logging::{Csn, DatabaseId, LogError, LogRange, LogSet, PepochFile};
use recovery::{Progress, RecoveryConfig, recover};
use sql::Schema;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use storage::{Digest, TableDigest};
use transaction::Tables;

/// A backup that was written and read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The folder of the backup.
    pub folder: PathBuf,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of the checkpoint.
    pub bytes: u64,
    /// The digest of the rows, equal when written and when read back.
    pub digest: Digest,
    /// Time of writing and reading back.
    pub elapsed: Duration,
}

/// The source of a backup.
struct Source<'a> {
    disk: &'a SharedDisk,
    tables: &'a Tables,
    schema: &'a Schema,
    threads: usize,
    /// The logs of an open database, in which the copied transactions must be durable; `None` for a folder
    /// that no process has open.
    logs: Option<&'a LogSet>,
}

/// The log of a backup's source. The backup waits until the log is durable, and uses no part of it.
struct SourceLog<'a>(Option<&'a LogSet>);

impl checkpoint::Log for SourceLog<'_> {
    fn durable(&self) -> Csn {
        self.0.and_then(LogSet::durable).unwrap_or_default()
    }

    fn complete(&self, number: CommitOrder) -> Result<(), LogError> {
        self.0.map_or(Ok(()), |logs| logs.complete(number))
    }

    fn ranges_from(&self, _: CommitOrder) -> Vec<LogRange> {
        Vec::new()
    }

    fn publish_in_shadows(
        &self,
        _: CommitOrder,
        _: &dyn Fn(Shadow<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        Ok(())
    }

    fn checkpointed(&self, _: u64) -> Result<(), LogError> {
        Ok(())
    }
}

impl Database {
    /// Writes a backup of the database into a folder that is empty or does not exist. Transactions go on
    /// meanwhile.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// let target = folder.path().join("backup");
    /// let backup = db.backup(&target)?; // transactions run meanwhile
    /// assert_eq!(backup.rows, 1);
    /// let copy = Database::open(&target, Config::default())?;
    /// assert_eq!(copy.digest()?, db.digest()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::BackupTarget`: the folder holds files. `Error::Checkpoint`: the disk failed, or the rows that
    /// were read back differ. 55000: loaded rows are in no checkpoint, so a crash of the database would lose
    /// rows that the backup holds.
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<Backup, Error> {
        let inner = &self.inner;
        let _definitions_stay = inner.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        inner.definitions.check_saved()?;
        let version = inner.definitions.current();
        version.tables.recover_all()?;
        let source = Source {
            disk: &inner.config.disk,
            tables: &version.tables,
            schema: &version.schema,
            threads: inner.config.checkpoint_threads,
            logs: Some(&inner.logs),
        };
        inner.logs.complete(inner.logs.defined())?;
        source.write(target.as_ref())
    }
}

/// Writes a backup of a data folder that no process has open, or of another backup, into a folder that is
/// empty or does not exist. With a backup as its source this restores the backup: the target is a new data
/// folder, with a new database number.
///
/// # Errors
/// `Error::NoDatabase`: the source has no pepoch file. `Error::InUse`: a process has the source open.
/// `Error::Recovery`: the source cannot be recovered, or its checkpoint does not match its digest.
/// `Error::BackupTarget`: the target holds files. `Error::Checkpoint`: the disk failed, or the rows that were
/// read back differ.
pub fn copy_database(
    folder: &Path,
    target: &Path,
    config: &Config,
    progress: &Progress,
) -> Result<Backup, Error> {
    let disk = &config.disk;
    if PepochFile::read(disk, folder)?.is_none() {
        return Err(Error::NoDatabase(folder.into()));
    }
    check_empty(disk, target)?;
    let _lock = opening::lock(disk, folder)?;
    let how = RecoveryConfig { verify: true, ..config.recovery() };
    let recovered = recover(disk, folder, &how, progress).map_err(Error::Recovery)?;
    let (tables, schema) = (&recovered.tables, &recovered.schema);
    Source { disk, tables, schema, threads: how.threads, logs: None }.write(target)
}

impl Source<'_> {
    /// Writes the backup and reads it back.
    fn write(self, target: &Path) -> Result<Backup, Error> {
        let begun = Instant::now();
        let Self { disk, tables, schema, threads, logs } = self;
        check_empty(disk, target)?;
        make_folder(&**disk, target).map_err(|error| LogError::io("create", target, error))?;
        let (database, devices) = (DatabaseId::random(), [target.to_path_buf()]);
        // The checkpoint precedes the first opening of the backup, so its incarnation is 0.
        let to = Destination { disk, folder: target, database, incarnation: 0, devices: &devices };
        let definitions = schema.to_image().map_err(Error::Definitions)?;
        let (consistency, keep) = (Consistency::Consistent, CommitOrder::default());
        let contents = Contents { consistency, definitions, tables, keep, threads };
        let (manifest, summary) =
            checkpoint::write(to, contents, &SourceLog(logs)).map_err(Error::Checkpoint)?;
        let (check, progress) = (Check::Digests, &AtomicU64::new(0));
        let load = Load { disk, folder: target, manifest: &manifest, tables, threads, check, progress };
        load.rows(&Discard).map_err(Error::Checkpoint)?;
        PepochFile { database, checkpoint: manifest.number, ..PepochFile::default() }.write(disk, target)?;
        let (folder, digest) = (target.to_path_buf(), digest_of(&manifest, tables));
        let (rows, bytes) = (summary.rows, summary.bytes);
        Ok(Backup { folder, rows, bytes, digest, elapsed: begun.elapsed() })
    }
}

/// # Errors
/// `BackupTarget`: the folder holds files.
fn check_empty(disk: &SharedDisk, target: &Path) -> Result<(), Error> {
    let found = disk.list(target).map_err(|error| LogError::io("list", target, error))?;
    match found.first() {
        Some(file) => Err(Error::BackupTarget(file.clone())),
        None => Ok(()),
    }
}

/// Returns the digest of all rows of a checkpoint.
fn digest_of(manifest: &Manifest, tables: &Tables) -> Digest {
    let mut digests = Vec::new();
    for store in tables.iter() {
        let mut digest = TableDigest::default();
        for part in manifest.parts.iter().filter(|part| part.table == store.definition().id) {
            digest.merge(&TableDigest { rows: part.rows, hash: part.digest.unwrap_or_default() });
        }
        digests.push((store.definition().name.clone(), digest));
    }
    digests.sort_by(|a, b| a.0.cmp(&b.0));
    Digest { tables: digests }
}
