//! The database: it is opened and recovered here, and makes sessions and loaders.
//!
//! Not here: the steps of an opening (`opening`), checkpoints (`maintenance`), backups (`backup`).

use crate::batches::Batches;
use crate::definitions::{Definitions, Version};
use crate::drain::Drain;
use crate::inner::Inner;
use crate::maintenance::Checkpointer;
use crate::opening;
use crate::recovering::Recovering;
use crate::sequences::Numbers;
use crate::session_numbers::SessionNumbers;
use crate::temporary::{TemporarySchema, drop_left_behind};
use crate::{Config, Error, Loader, Session};
use catalog::CommitOrder;
use logging::Commit as CommitPoint;
use logging::{Content, LogStatistics};
use native::Compiler;
use procedure::RecoveryProgress;
use recovery::{Progress, RecoveryReport};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use storage::Digest;
use transaction::{Aborts, Adaptive};

/// Counts since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Transactions that wrote and committed.
    pub committed: u64,
    /// Transactions that only read.
    pub read: u64,
    /// Transactions that ended with an error.
    pub failed: u64,
    /// Attempts that ended with a conflict.
    pub conflicts: u64,
    /// Undone attempts, by reason. A wait that ends in a deadlock counts as a wait and as a deadlock.
    pub aborts: Aborts,
    /// Bytes of rows and indexes.
    pub memory_bytes: usize,
    /// Bytes and batches of the log, without shadow logs.
    pub log: LogStatistics,
}

/// A database. Clones share it; it closes when the last clone and the last session are gone.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    report: Arc<RecoveryReport>,
    batches: Option<Arc<Batches>>,
    _drain: Option<Arc<Drain>>,
    _checkpointer: Option<Arc<Checkpointer>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("folder", &self.inner.folder).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the database in a folder, and recovers it. Creates the folder if it does not exist.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let db = Database::open(folder.path(), Config::default())?;
    /// db.session()?.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// drop(db); // or a crash
    /// let db = Database::open(folder.path(), Config::default())?;
    /// let count = db.session()?.execute("SELECT count(*) FROM t", params![])?;
    /// assert_eq!(count.rows[0][0], reprise::Value::Int(1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::InUse`: another process has the folder open. `Error::Recovery`: the database cannot be
    /// recovered. `Error::Log`: the disk failed. `Error::DeviceInUse` and `Error::OtherDevices`: a log device
    /// is locked, or is not a device of the database. `Error::InvalidContent` and `Error::InvalidSequencing`:
    /// settings contradict each other. `Error::Checkpoint`: a checkpoint that the log needs failed.
    pub fn open(folder: impl AsRef<Path>, config: Config) -> Result<Self, Error> {
        Self::open_with(folder.as_ref(), config, &Progress::default())
    }

    /// Opens the database in a folder, and counts the steps of the recovery in `progress`.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(folder: &Path, config: Config, progress: &Progress) -> Result<Self, Error> {
        let begun = Instant::now();
        let format = opening::record_format(&config)?;
        let disk = Arc::clone(&config.disk);
        let lock = opening::lock(&disk, folder)?;
        opening::check_devices(&config, folder)?;
        let mut recovered =
            recovery::recover(&disk, folder, &config.recovery(), progress).map_err(Error::Recovery)?;
        for loss in &recovered.report.losses {
            let cut = recovered.report.cut;
            tracing::warn!(%loss, %cut, "all transactions after {cut} are lost, as accepted: {loss}");
        }
        let mut locks = opening::take_devices(&mut recovered, &config, folder)?;
        locks.push(lock);
        let (recovered, incarnation) = opening::begin_incarnation(recovered, &config, folder)?;
        let devices = recovered.pepoch.device_folders(folder);
        let config = Config { disk: config.device.on(&disk, &devices), ..config };
        let (mut recovered, needs_checkpoint) = opening::suit(recovered, format, &config)?;
        let logs = opening::start_logs(&recovered, format, incarnation, &config, (folder, &devices), locks)?;
        let is_scattered = opening::is_scattered(&recovered);
        let database = recovered.pepoch.database;
        let undone = std::mem::take(&mut recovered.undone);
        let rows = recovered.rows.take();
        let version = Version::new(1, recovered.schema, recovered.tables);
        let RecoveryReport { threads, replay_s, checkpoint_bytes, .. } = recovered.report;
        let replayed = transaction::Recovered { threads, replay_s, checkpoint_bytes };
        let adaptive = Arc::new(Adaptive::new(config.recovery_targets(), replayed));
        let recovering = Recovering::new(begun, &recovered.report, rows.clone(), Arc::clone(&adaptive));
        let inner = Arc::new(Inner {
            folder: folder.into(),
            account: Arc::clone(version.tables.memory.account()),
            definitions: Definitions::new(version, Compiler::new(config.compile)),
            logs: Arc::new(logs),
            adaptive,
            gate: config.concurrency.runs_batches().then(Arc::default),
            devices,
            database,
            incarnation,
            maintenance: Mutex::default(),
            loaders: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            numbers: Numbers::default(),
            session_numbers: SessionNumbers::default(),
            recovering: Arc::new(recovering),
            last_checkpoint: Mutex::default(),
            committed: AtomicU64::new(0),
            read: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            config,
        });
        inner.log_undone(undone)?;
        if needs_checkpoint {
            inner.checkpoint()?;
        } else if is_scattered && let Err(error) = inner.checkpoint() {
            // The log still holds all transactions.
            tracing::warn!(%error, "the log cannot be shortened, because a checkpoint failed: {error}");
        }
        inner.logs.publish_shadows()?;
        inner.definitions.current().tables.memory.count_all();
        let checkpointer = Checkpointer::start(&inner).map(Arc::new);
        let batches = Batches::start(&inner)?;
        inner.recovering.opened();
        let drain = rows.map(|rows| Drain::start(&inner, &rows)).transpose()?.map(Arc::new);
        drop_left_behind(&inner);
        let report = Arc::new(recovered.report);
        Ok(Self { inner, report, batches, _drain: drain, _checkpointer: checkpointer })
    }

    /// Returns the report of the recovery at the opening.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # db.session()?.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// # drop(db);
    /// let db = Database::open(folder.path(), Config::default())?;
    /// let report = db.recovery_report();
    /// println!("{report}"); // recovered in 0.01 s: …; nothing acknowledged is missing
    /// assert!(report.transactions > 0);
    /// # Ok(()) }
    /// ```
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Returns once all procedures are compiled that were created before (`Config::compile`).
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// db.session()?.execute_script("CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN END $$")?;
    /// db.wait_for_code();
    /// # Ok(()) }
    /// ```
    pub fn wait_for_code(&self) {
        self.inner.definitions.wait_for_code();
    }

    /// Returns how far the recovery at the opening is (`Config::on_demand`).
    ///
    /// ```
    /// # use reprise::{Config, Database, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// let db = Database::open(folder.path(), Config::default())?;
    /// let progress = db.recovery_progress();
    /// println!("open after {} s, {} bytes are left", progress.open_s, progress.bytes_left);
    /// assert!(progress.recovered_s.is_some(), "a new database has nothing to recover");
    /// # Ok(()) }
    /// ```
    pub fn recovery_progress(&self) -> RecoveryProgress {
        self.inner.recovering.progress()
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `Error::TooManySessions`: all workers are in use.
    pub fn session(&self) -> Result<Session, Error> {
        Session::new(Arc::clone(&self.inner), self.batches.clone())
    }

    /// Returns the temporary schema of a new client, whose statements run in sessions of several clients.
    pub fn temporary_schema(&self) -> Arc<TemporarySchema> {
        Arc::new(TemporarySchema::new(&self.inner))
    }

    /// Begins a bulk load, before sessions use the tables. Loaded rows are durable after the next
    /// `checkpoint`. Until then all transactions are refused (SQLSTATE 55000), because a transaction that had
    /// read loaded rows could not be recovered.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")?;
    /// let mut loader = db.loader()?;
    /// for id in 0..1000 {
    ///     loader.insert("t", params![id, format!("row {id}")])?;
    /// }
    /// drop(loader);
    /// db.checkpoint()?; // the rows are durable now
    /// let count = session.execute("SELECT count(*) FROM t", params![])?;
    /// assert_eq!(count.rows[0][0], reprise::Value::Int(1000));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::TooManySessions`: all workers are in use. `55P03`: transactions stay open.
    pub fn loader(&self) -> Result<Loader, Error> {
        Loader::new(Arc::clone(&self.inner))
    }

    /// Takes a checkpoint, and recycles the log files that recovery no longer needs.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// let summary = db.checkpoint()?;
    /// assert_eq!(summary.rows, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The disk is full or fails. The previous checkpoint then still exists.
    pub fn checkpoint(&self) -> Result<checkpoint::CheckpointSummary, Error> {
        self.inner.checkpoint()
    }

    /// Takes a last checkpoint and drops this handle, so that the next opening has nothing to replay. A later
    /// release can then open the folder even if its executor has other semantics. Transactions that other
    /// clones and sessions commit after the checkpoint are replayed.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # db.session()?.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// db.close()?;
    /// let db = Database::open(folder.path(), Config::default())?;
    /// assert_eq!(db.recovery_report().transactions, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The disk is full or fails. The log then holds all transactions.
    pub fn close(self) -> Result<(), Error> {
        self.checkpoint().map(drop)
    }

    /// Returns the digest of all tables.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")?;
    /// let before = db.digest()?;
    /// session.execute("UPDATE t SET id = 2", params![])?.commit.wait()?;
    /// assert_ne!(db.digest()?, before);
    /// session.execute("UPDATE t SET id = 1", params![])?.commit.wait()?;
    /// assert_eq!(db.digest()?, before);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Error::TooManySessions`: all workers are in use. `58030`, `XX001`, `53200`: rows cannot be recovered.
    pub fn digest(&self) -> Result<Digest, Error> {
        let _alone = self.inner.maintenance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let tables = self.inner.definitions.current().tables.clone();
        tables.recover_all()?;
        tables.digest().ok_or(Error::TooManySessions(self.inner.config.workers))
    }

    /// Returns the account of all memory of the database.
    pub fn memory(&self) -> &memory::Account {
        &self.inner.account
    }

    /// Reserves memory for parsing a text of statements, until the result is dropped. `None`: the text is
    /// short and needs no reservation.
    ///
    /// # Errors
    /// `53200`: there is not enough memory.
    pub fn room_for(&self, text: &str) -> Result<Option<memory::Reserved<'_>>, Error> {
        Ok(crate::worker::room_for(text, &self.inner.account)?)
    }

    /// Returns the memory limit of a statement, in bytes, for sessions that set no other one.
    pub fn statement_bytes(&self) -> usize {
        self.inner.config.statement_bytes()
    }

    /// Waits until the memory that is faulted in ahead of use is ready. Blocks this thread.
    pub fn wait_for_memory(&self) {
        let memory = self.inner.definitions.current().tables.memory.clone();
        while !memory.is_ready() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Returns whether a point of the log is durable, for callers that hold the points of many commits.
    ///
    /// ```
    /// # use reprise::{CommitQueue, Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// let insert = session.prepare("INSERT INTO t VALUES ($1)")?;
    /// let mut in_flight = CommitQueue::default();
    /// for id in 0..10 {
    ///     in_flight.push(session.execute(&insert, params![id])?.commit.point(), id);
    /// }
    /// while let Some(first) = in_flight.first() {
    ///     db.wait(first)?;
    ///     while let Some(id) = in_flight.pop_durable(|point| db.is_durable(point)) {
    ///         println!("row {id} is durable");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    #[inline]
    pub fn is_durable(&self, point: CommitPoint) -> bool {
        self.inner.is_durable(point)
    }

    /// Waits until a point of the log is durable. Blocks this thread.
    ///
    /// # Errors
    /// `Error::Log`: the log failed before the point was durable.
    pub fn wait(&self, point: CommitPoint) -> Result<(), Error> {
        Ok(self.inner.wait(point)?)
    }

    /// Returns the point of the log that must be durable before rows are sent, where `shown` is the greatest
    /// number of the rows (`RowSink::relieve`).
    pub fn must_be_durable(&self, shown: CommitOrder) -> CommitPoint {
        CommitPoint::of_all(shown.max(self.inner.logs.defined()))
    }

    /// Waits until a point of the log is durable. Blocks no thread.
    ///
    /// # Errors
    /// `Error::Log`: the log failed before the point was durable.
    pub async fn durable(&self, commit: CommitPoint) -> Result<(), Error> {
        Ok(std::future::poll_fn(|context| self.inner.poll(commit, context)).await?)
    }

    /// Returns the statistics of each log since the opening: the main log first, then shadow logs.
    pub fn log_statistics(&self) -> Vec<(Content, LogStatistics)> {
        self.inner.logs.statistics().collect()
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.load(Ordering::Relaxed)
    }

    /// Returns the most sessions at one time.
    pub fn most_sessions(&self) -> usize {
        self.inner.config.workers
    }

    /// Returns whether definitions are changing. A statement that begins now waits until they have changed.
    pub fn changes_definitions(&self) -> bool {
        self.inner.definitions.is_changing()
    }

    /// Checks that the log works.
    ///
    /// # Errors
    /// `Error::Log`: the log has failed, so no commit is acknowledged any more.
    pub fn check_log(&self) -> Result<(), Error> {
        Ok(self.inner.logs.check()?)
    }

    /// Returns the counts since the database was opened. Each session adds its counts after 256 calls, and
    /// when it ends.
    ///
    /// ```
    /// # use reprise::{Config, Database, Error, params};
    /// # fn main() -> Result<(), Error> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let db = Database::open(folder.path(), Config::default())?;
    /// # let mut session = db.session()?;
    /// # session.execute_script("CREATE TABLE t (id INT PRIMARY KEY)")?;
    /// session.execute("INSERT INTO t VALUES (1)", params![])?.commit.wait()?;
    /// drop(session); // adds its counts
    /// assert!(db.statistics().committed > 0);
    /// # Ok(()) }
    /// ```
    pub fn statistics(&self) -> Statistics {
        let tables = &self.inner.definitions.current().tables;
        Statistics {
            committed: self.inner.committed.load(Ordering::Relaxed),
            read: self.inner.read.load(Ordering::Relaxed),
            failed: self.inner.failed.load(Ordering::Relaxed),
            conflicts: self.inner.conflicts.load(Ordering::Relaxed),
            aborts: tables.aborts.get(),
            memory_bytes: tables.memory.used_bytes(),
            log: self.inner.logs.statistics().next().map(|(_, own)| own).unwrap_or_default(),
        }
    }
}
