//! The database: opened, recovered, and handed out in sessions.

use crate::definitions::{Definitions, Version};
use crate::maintenance::Checkpointer;
use crate::opening;
use crate::sequences::Numbers;
use crate::{Config, Error, Loader, Session};
use catalog::{CommitOrder, Epoch};
use logging::Commit as CommitPoint;
use logging::content::{Outcome, seal};
use logging::{Content, DatabaseId, LogSet, LogStatistics};
use recovery::{Progress, RecoveryReport};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use storage::{Digest, Worker};
use transaction::{Aborts, Adaptive};

/// What happened since the database was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Transactions that wrote and committed.
    pub committed: u64,
    /// Transactions that only read.
    pub read: u64,
    /// Transactions that an error ended.
    pub failed: u64,
    /// Attempts that a conflict ended and that were tried again.
    pub conflicts: u64,
    /// Attempts that were undone, by reason. A wait that ends in a deadlock counts as both.
    pub aborts: Aborts,
    /// Bytes that rows and indexes take.
    pub memory_bytes: usize,
    /// What was logged.
    pub log: LogStatistics,
}

/// What all sessions share.
pub(crate) struct Inner {
    pub(crate) folder: PathBuf,
    /// Of everything that the database takes.
    pub(crate) account: Arc<memory::Account>,
    pub(crate) config: Config,
    pub(crate) definitions: Definitions,
    pub(crate) logs: Arc<LogSet>,
    pub(crate) adaptive: Arc<Adaptive>,
    pub(crate) devices: Vec<PathBuf>,
    pub(crate) database: DatabaseId,
    pub(crate) incarnation: u64,
    pub(crate) numbers: Numbers,
    /// Held while a checkpoint is taken, definitions change, or a loader begins.
    pub(crate) maintenance: Mutex<()>,
    /// Loaders that have not ended.
    pub(crate) loaders: AtomicUsize,
    /// Sessions that there are.
    pub(crate) sessions: AtomicUsize,
    pub(crate) committed: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}

/// A database. Clones share it; it closes when the last clone and the last session are gone.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    report: Arc<RecoveryReport>,
    _checkpointer: Option<Arc<Checkpointer>>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("folder", &self.inner.folder).finish_non_exhaustive()
    }
}

impl Inner {
    /// Up to which number everything is durable, or as good as that.
    pub(crate) fn durable(&self, worker: &Worker) -> CommitOrder {
        let of_ended_epochs = || CommitOrder::last_of(Epoch(worker.epochs().current().0 - 1));
        self.logs.durable().unwrap_or_else(of_ended_epochs)
    }

    /// Logs that recovery has undone transactions, before anything else is logged, so that no later recovery
    /// undoes what was written since. Each is durable before the next one. A log of another content goes on
    /// from a checkpoint instead.
    fn log_undone(&self, undone: Vec<CommitOrder>) -> Result<(), Error> {
        let tables = &self.definitions.current().tables;
        let own = self.logs.iter().next().filter(|own| own.format.content == Content::Physiological);
        let Some(log) = own.map(|own| &*own.log) else { return Ok(()) };
        let mut record = Vec::new();
        for transaction in undone {
            let worker = Worker::new(tables.epochs.clone(), tables.memory.clone())
                .ok_or(Error::TooManySessions(self.config.workers))?;
            Outcome { transaction, committed: false }.write(&mut record);
            tables.epochs.begin_commit(worker.slot());
            let order = tables.epochs.draw();
            seal(order, &mut record);
            let appended = log.append(worker.slot(), &record, order);
            tables.epochs.end_commit(worker.slot());
            appended?;
            log.complete(order)?;
        }
        Ok(())
    }
}

impl Database {
    /// Opens a folder, which is made if it is not there, and recovers what is in it.
    ///
    /// # Errors
    /// Another process has it; it cannot be recovered; the disk fails.
    pub fn open(folder: impl AsRef<Path>, config: Config) -> Result<Self, Error> {
        Self::open_with(folder.as_ref(), config, &Progress::default())
    }

    /// Opens a folder and tells a watcher how far recovery is.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(folder: &Path, config: Config, progress: &Progress) -> Result<Self, Error> {
        let format = opening::record_format(&config)?;
        let disk = Arc::clone(&config.disk);
        let lock = opening::lock(&disk, folder)?;
        opening::check_devices(&config, folder)?;
        let mut recovered =
            recovery::recover(&disk, folder, &config.recovery(), progress).map_err(Error::Recovery)?;
        for loss in &recovered.report.losses {
            let cut = recovered.report.cut;
            tracing::warn!(%loss, %cut, "accepted as lost is everything after {cut}, because {loss}");
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
        let version = Version::new(1, recovered.schema, recovered.tables);
        let RecoveryReport { threads, replay_s, checkpoint_bytes, .. } = recovered.report;
        let adaptive = Adaptive::new(
            config.recovery_target,
            transaction::Recovered { threads, replay_s, checkpoint_bytes },
        );
        let inner = Arc::new(Inner {
            folder: folder.into(),
            account: Arc::clone(version.tables.memory.account()),
            definitions: Definitions::new(version),
            logs: Arc::new(logs),
            adaptive: Arc::new(adaptive),
            devices,
            database,
            incarnation,
            maintenance: Mutex::default(),
            loaders: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            numbers: Numbers::default(),
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
            // The log still has everything.
            tracing::warn!(%error, "the log is not made shorter, because a checkpoint failed: {error}");
        }
        inner.logs.publish_shadows()?;
        inner.definitions.current().tables.memory.count_all();
        let checkpointer = Checkpointer::start(&inner).map(Arc::new);
        Ok(Self { inner, report: Arc::new(recovered.report), _checkpointer: checkpointer })
    }

    /// What recovery found when the database was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// A session: one thread's way to run transactions.
    ///
    /// # Errors
    /// All worker slots are taken.
    pub fn session(&self) -> Result<Session, Error> {
        Session::new(Arc::clone(&self.inner))
    }

    /// A way to fill tables before sessions use them. What it loads is durable after the next `checkpoint`;
    /// until then every transaction is refused (SQLSTATE 55000), as one that saw loaded rows could not be
    /// recovered.
    ///
    /// # Errors
    /// All worker slots are taken; transactions stay open (`55P03`).
    pub fn loader(&self) -> Result<Loader, Error> {
        Loader::new(Arc::clone(&self.inner))
    }

    /// Takes a checkpoint now, and recycles the log behind it.
    ///
    /// # Errors
    /// The disk is full, or fails; the checkpoint before is then still there.
    pub fn checkpoint(&self) -> Result<checkpoint::CheckpointSummary, Error> {
        self.inner.checkpoint()
    }

    /// Takes a last checkpoint and closes the database, so that the next opening has nothing to replay: a
    /// later release may then open the folder, whatever its executor means. Other clones and sessions must be
    /// gone, or what they do later is replayed.
    ///
    /// # Errors
    /// The disk is full, or fails; the log holds everything then.
    pub fn close(self) -> Result<(), Error> {
        self.checkpoint().map(drop)
    }

    /// The digest of all tables as of now.
    ///
    /// # Errors
    /// All worker slots are taken.
    pub fn digest(&self) -> Result<Digest, Error> {
        let _alone = self.inner.maintenance.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let tables = self.inner.definitions.current().tables.clone();
        tables.digest().ok_or(Error::TooManySessions(self.inner.config.workers))
    }

    /// The account of everything that the database takes.
    pub fn memory(&self) -> &memory::Account {
        &self.inner.account
    }

    /// Takes memory for a text of statements that is about to be taken to pieces, until that is done.
    ///
    /// # Errors
    /// `53200`: there is not enough.
    pub fn room_for(&self, text: &str) -> Result<Option<memory::Reserved<'_>>, Error> {
        Ok(crate::worker::room_for(text, &self.inner.account)?)
    }

    /// Bytes that a statement may take, unless its session says otherwise.
    pub fn statement_bytes(&self) -> usize {
        self.inner.config.statement_bytes()
    }

    /// Returns once the memory that is kept ahead of use is ready.
    pub fn wait_for_memory(&self) {
        let memory = self.inner.definitions.current().tables.memory.clone();
        while memory.ready_bytes() < self.inner.config.ahead_bytes() && !memory.is_exhausted() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Returns whether a point of the log is durable. For callers that keep the points of many commits.
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
        self.inner.logs.is_durable(point)
    }

    /// Waits until a point of the log is durable. Blocks this thread.
    ///
    /// # Errors
    /// The log has failed before that.
    pub fn wait(&self, point: CommitPoint) -> Result<(), Error> {
        Ok(self.inner.logs.wait(point)?)
    }

    /// Returns what must be durable before rows are sent of which this is the greatest number
    /// (`RowSink::relieve`).
    pub fn must_be_durable(&self, shown: CommitOrder) -> CommitPoint {
        CommitPoint::of_all(shown.max(self.inner.logs.defined()))
    }

    /// Waits until a point of the log is durable. Blocks no thread.
    ///
    /// # Errors
    /// The log has failed before that.
    pub async fn durable(&self, commit: CommitPoint) -> Result<(), Error> {
        std::future::poll_fn(|context| match self.inner.logs.poll(commit, context.waker()) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        })
        .await
    }

    /// What was written to each log since the database was opened, its own first, then shadow logs.
    pub fn log_statistics(&self) -> Vec<(Content, LogStatistics)> {
        self.inner.logs.statistics().collect()
    }

    /// Sessions that there are.
    pub fn sessions(&self) -> usize {
        self.inner.sessions.load(Ordering::Relaxed)
    }

    /// Sessions that there may be at one time.
    pub fn most_sessions(&self) -> usize {
        self.inner.config.workers
    }

    /// Whether definitions are changing: a statement that begins now waits until they have changed.
    pub fn changes_definitions(&self) -> bool {
        self.inner.definitions.is_changing()
    }

    /// Whether the log works.
    ///
    /// # Errors
    /// It has failed: nothing is acknowledged any more.
    pub fn check_log(&self) -> Result<(), Error> {
        Ok(self.inner.logs.check()?)
    }

    /// What happened since the database was opened, of sessions that have published it: each does so at
    /// intervals, and when it ends.
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
