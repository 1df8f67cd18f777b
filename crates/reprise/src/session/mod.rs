//! A session: the settings, the open transaction and the last answer of one client. It runs calls and
//! statements on its worker, one at a time.

mod alone;
mod answers;
mod batched;
mod block;
mod deferred;
mod defined;
mod execute;
mod read_only;
mod script;
mod serving;
mod staged;
mod statement;
mod temporary;
mod waiting;

pub use batched::StartedCall;
pub use block::TransactionState;
pub use read_only::Access;
pub use serving::{Attempt, Completion};
pub use statement::{Parameters, Statement, ToStatement};

use crate::Error;
use crate::batches::Batches;
use crate::commit::SessionDatabase;
use crate::inner::Inner;
use crate::temporary::TemporarySchema;
use crate::worker::{Refused, Request, Settings, Worker};
use catalog::{CommitOrder, SessionZone};
use logging::Commit as CommitPoint;
use procedure::seed_of;
use sql::Schema;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A session of one client. It runs one transaction at a time, and one thread uses it at a time.
///
/// ```
/// # use reprise::{Config, Database, Error, params};
/// # fn main() -> Result<(), Error> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let db = Database::open(folder.path(), Config::default())?;
/// let mut session = db.session()?;
/// session.execute_script(
///     "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL);
///      INSERT INTO accounts VALUES (1, 100), (2, 0);",
/// )?;
/// session.begin()?;
/// session.execute("UPDATE accounts SET balance = balance - 30 WHERE id = 1", params![])?;
/// session.execute("UPDATE accounts SET balance = balance + 30 WHERE id = 2", params![])?;
/// session.commit()?.wait()?; // durable now
/// # Ok(()) }
/// ```
pub struct Session {
    worker: Worker,
    /// The transaction of several statements.
    block: block::Block,
    waiting: waiting::Waiting,
    /// The access mode of later transactions.
    access: Access,
    /// Whether a new routine is refused whose body names what does not exist.
    checks_bodies: bool,
    /// The number of the role that acts.
    role: u32,
    /// The temporary schema of the session or of its client; `None` until it is needed.
    temporary: Option<Arc<TemporarySchema>>,
    /// Whether the client wants its transactions logged by value.
    logs_by_value: bool,
    /// The number of the next seed.
    seeds: u64,
    /// Buffer for the encoded arguments of the next call.
    arguments: Vec<u8>,
    /// The commit that must be durable before the last answer is shown, without definitions.
    answer: CommitPoint,
    /// The session's reference for the commits that it hands out.
    database: Arc<SessionDatabase>,
    /// What runs calls, where they run in batches.
    batches: Option<Arc<Batches>>,
    _counted: Counted,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("workspace", &self.worker.workspace).finish_non_exhaustive()
    }
}

/// Counts a session until it is dropped.
struct Counted(Arc<Inner>);

impl Counted {
    /// # Errors
    /// `53300`: the database has as many sessions as are configured.
    fn new(inner: &Arc<Inner>) -> Result<Self, Error> {
        let counted = Self(Arc::clone(inner));
        if inner.sessions.fetch_add(1, Ordering::Relaxed) >= inner.config.workers {
            return Err(Error::TooManySessions(inner.config.workers));
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Session {
    pub(crate) fn new(inner: Arc<Inner>, batches: Option<Arc<Batches>>) -> Result<Self, Error> {
        let counted = Counted::new(&inner)?;
        let database = Arc::new(SessionDatabase(Arc::clone(&inner)));
        let worker = Worker::new(inner)?;
        let slot = worker.workspace.slot();
        Ok(Self {
            worker,
            block: block::Block::default(),
            waiting: waiting::Waiting::default(),
            access: Access::default(),
            checks_bodies: true,
            role: Schema::first_superuser(),
            temporary: None,
            logs_by_value: false,
            seeds: RandomState::new().hash_one(slot.0),
            arguments: Vec::new(),
            answer: CommitPoint { worker: slot, ..CommitPoint::of_all(CommitOrder(0)) },
            database,
            batches,
            _counted: counted,
        })
    }

    /// Returns the worker's settings for the next request.
    #[inline]
    fn settings(&self) -> Settings {
        Settings {
            is_in_batch: false,
            is_read_only: self.access == Access::ReadOnly,
            is_in_block: self.block.state != TransactionState::None,
            caller_waits: self.waiting.by_caller,
            lock_timeout: self.waiting.lock_timeout,
        }
    }

    /// Sets whether a log of commands records later transactions by value: their rows instead of their calls.
    /// Such records are longer, and replay does not run their procedures. PACMAN §4.5 (ad-hoc transactions).
    pub fn log_by_value(&mut self, by_value: bool) {
        self.logs_by_value = by_value;
        self.choose_record();
    }

    /// Sets the time zone of later statements: of literals and texts of timestamps with a zone, and of
    /// conversions to dates and local times. `None` is UTC.
    ///
    /// Replay has no sessions, so it evaluates in UTC. So a log of commands records the transactions of a
    /// session in another zone by value: no replay asks for the zone. Held by:
    /// `crates/reprise/tests/suite/zones.rs`.
    pub fn set_zone(&mut self, zone: Option<Arc<SessionZone>>) {
        if self.worker.machine.zone() != zone.as_ref() {
            self.worker.machine.set_zone(zone);
            self.choose_record();
        }
    }

    /// Returns the time zone of the session; `None` is UTC.
    pub fn zone(&self) -> Option<&Arc<SessionZone>> {
        self.worker.machine.zone()
    }

    fn choose_record(&mut self) {
        self.worker.pipeline.by_value = self.logs_by_value || self.zone().is_some();
    }

    /// Sets the memory limit of later statements, in bytes; `None` is the limit of the configuration.
    pub fn limit_statements(&mut self, bytes: Option<usize>) {
        let bytes = bytes.unwrap_or(self.worker.inner.config.statement_bytes());
        self.worker.machine.limit_statements(bytes);
    }

    /// Frees the buffers of a statement that took much memory, and with them the last answer; otherwise the
    /// next statement reuses them. Returns whether a buffer was freed.
    pub fn give_memory_back(&mut self) -> bool {
        let has_ended = self.block.state == TransactionState::None && !self.is_waiting();
        let is_much = self.worker.give_memory_back(has_ended);
        if is_much {
            self.arguments = Vec::new();
        }
        is_much
    }

    /// Returns whether deleted and overwritten rows of this session wait to be freed.
    pub fn has_garbage(&self) -> bool {
        self.worker.workspace.has_garbage()
    }

    /// Frees deleted and overwritten rows of the session's transactions. A session that runs transactions
    /// does this at intervals; an idle one does not.
    pub fn collect_garbage(&mut self) {
        self.worker.collect_garbage();
    }

    /// Checks that the log accepts writes. Waits while this is unknown.
    ///
    /// # Errors
    /// `Error::Log`: the log cannot grow, or has failed. Or the caller waits.
    fn check_log(&mut self) -> Result<(), Error> {
        let settings = self.settings();
        self.worker.check_log(&settings)
    }

    #[inline]
    fn run_request(&mut self, request: &Request<'_>) -> Result<Option<CommitPoint>, Error> {
        let settings = self.settings();
        match self.worker.run(request, &settings) {
            Ok(commit) => Ok(commit.map(|commit| self.answers(commit))),
            Err(Refused { error, shown }) => {
                self.shows(shown);
                Err(*error)
            }
        }
    }

    /// Returns the seed of the next transaction.
    fn next_seed(&mut self) -> u64 {
        self.seeds = self.seeds.wrapping_add(1);
        seed_of(self.seeds)
    }
}
