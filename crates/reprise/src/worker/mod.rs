//! A worker executes transactions: it has the workspace, the registers, the commit pipeline and the
//! definitions of the running call.
//!
//! The request and the settings describe a call completely, so a call can run on any thread. The session
//! holds the state that a client keeps from call to call.
//! Not here: the statements of longer transactions and their savepoints, which a session runs on its worker
//! (`session/block.rs`).

mod races;
mod request;
mod run;
mod steps;
mod texts;
mod utilization;

pub use races::Busy;
pub(crate) use races::{Awaited, Races, serialization_failure, waker_of};
pub(crate) use request::{Recorded, Refused, Request, Settings};
pub(crate) use texts::room_for;

use crate::definitions::Version;
use crate::inner::Inner;
use crate::sequences::Source;
use crate::{Column, Error};
use catalog::Datum;
use procedure::{Machine, Notice, Procedure};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use transaction::{CommitPipeline, Workspace};
use utilization::Utilization;

/// A worker adds its counters to those of the database after this many calls.
const PUBLISH_EVERY: u64 = 256;

/// One worker's references to the procedures. Workers share procedures, but not these references, so that
/// calls of different workers do not contend for one reference count.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) procedures: Vec<KnownProcedure>,
    /// The index of each procedure, by name.
    pub(crate) indexes: HashMap<String, usize>,
}

/// A procedure, and the columns of its outputs.
#[derive(Debug)]
pub(crate) struct KnownProcedure {
    pub(crate) procedure: Arc<Procedure>,
    pub(crate) columns: Arc<[Column]>,
}

impl KnownProcedure {
    fn new(procedure: &Arc<Procedure>) -> Self {
        let outputs = procedure.outputs();
        let columns =
            outputs.map(|(name, _, ty)| Column { name: name.into(), ty, declared: ty.base(), origin: None });
        let columns = columns.collect();
        Self { procedure: Arc::clone(procedure), columns }
    }
}

impl Known {
    fn new(version: &Version) -> Arc<Self> {
        let procedures: Vec<_> = version.procedures.values().map(KnownProcedure::new).collect();
        let indexes = procedures.iter().enumerate();
        let indexes = indexes.map(|(index, known)| (known.procedure.name.clone(), index)).collect();
        Arc::new(Self { procedures, indexes })
    }
}

/// Counts of a worker that are not added to the counters of the database yet.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) committed: u64,
    pub(crate) read: u64,
    pub(crate) failed: u64,
    pub(crate) conflicts: u64,
    /// Calls since the counts were added last.
    calls: u64,
}

/// The executor of transactions; one session at a time uses it.
pub(crate) struct Worker {
    pub(crate) inner: Arc<Inner>,
    /// The definitions of its transactions.
    pub(crate) version: Arc<Version>,
    /// The temporary schema of the session.
    temporary: Option<Arc<str>>,
    pub(crate) known: Arc<Known>,
    pub(crate) workspace: Workspace,
    pub(crate) machine: Machine,
    /// The arguments of the current request, decoded from its record.
    arguments: Vec<Datum>,
    pub(crate) pipeline: CommitPipeline,
    pub(crate) races: Races,
    pub(crate) tally: Tally,
    utilization: Utilization,
}

impl Worker {
    pub(crate) fn new(inner: Arc<Inner>) -> Result<Self, Error> {
        let version = inner.definitions.current();
        let (epochs, memory) = (version.tables.epochs.clone(), version.tables.memory.clone());
        let worker = storage::Worker::new(epochs, memory);
        let worker = worker.ok_or(Error::TooManySessions(inner.config.workers))?;
        inner.logs.add_worker(worker.slot())?;
        let pipeline =
            CommitPipeline::new(Arc::clone(&inner.logs), &inner.adaptive, &version.tables, worker.slot())
                .beside_batches(inner.gate.clone());
        let workspace = Workspace::new(version.tables.clone(), worker);
        let mut machine = Machine::default();
        machine.database_is(Arc::clone(&inner) as _);
        machine.count_by(Arc::new(Source::new(Arc::clone(&inner), version.tables.clone())));
        machine.compile_by(Some(Arc::new(texts::Texts::new(&version, None))));
        machine.compile_expressions_by(Arc::new(inner.definitions.compiler().clone()));
        let account = Arc::clone(version.tables.memory.account());
        machine.limit_memory(Some(account), inner.config.statement_bytes());
        Ok(Self {
            known: Known::new(&version),
            inner,
            version,
            temporary: None,
            workspace,
            machine,
            arguments: Vec::new(),
            pipeline,
            races: Races::default(),
            tally: Tally::default(),
            utilization: Utilization::default(),
        })
    }

    /// Returns another pipeline for this worker.
    fn new_pipeline(&self) -> CommitPipeline {
        let Inner { logs, adaptive, gate, .. } = &*self.inner;
        let (tables, slot) = (self.workspace.tables(), self.workspace.slot());
        CommitPipeline::new(Arc::clone(logs), adaptive, tables, slot).beside_batches(gate.clone())
    }

    /// Takes over the current definitions.
    pub(crate) fn refresh(&mut self) {
        self.enter_version(self.inner.definitions.current());
        let sequences = Source::new(Arc::clone(&self.inner), self.version.tables.clone());
        self.machine.count_by(Arc::new(sequences));
    }

    /// Takes over a version of the definitions.
    pub(crate) fn enter_version(&mut self, version: Arc<Version>) {
        self.version = version;
        self.compile_texts();
        self.known = Known::new(&self.version);
        self.workspace.set_tables(self.version.tables.clone());
    }

    fn compile_texts(&mut self) {
        let texts = texts::Texts::new(&self.version, self.temporary.as_ref());
        self.machine.compile_by(Some(Arc::new(texts)));
    }

    /// Sets the temporary schema in which later texts of EXECUTE find relations first.
    pub(crate) fn set_temporary(&mut self, temporary: Option<Arc<str>>) {
        if self.temporary != temporary {
            self.temporary = temporary;
            self.compile_texts();
        }
    }

    /// Takes the notices that RAISE made in the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.machine.services.notices)
    }

    /// Frees the buffers of a statement that took much memory; otherwise the next statement reuses them.
    /// `has_ended`: no transaction is open. Returns whether a buffer was freed.
    pub(crate) fn give_memory_back(&mut self, has_ended: bool) -> bool {
        let is_much = self.machine.give_back(has_ended);
        if is_much {
            self.arguments = Vec::new();
            self.workspace.give_memory_back();
            let CommitPipeline { by_value, blocks_by, .. } = self.pipeline;
            self.pipeline = self.new_pipeline();
            (self.pipeline.by_value, self.pipeline.blocks_by) = (by_value, blocks_by);
            memory::give_back();
        }
        is_much
    }

    /// Frees the old rows and versions of the worker's transactions, unless a transaction is running.
    pub(crate) fn collect_garbage(&mut self) {
        if self.workspace.worker().is_active() {
            return;
        }
        let durable = self.inner.durable(self.workspace.worker());
        let (definitions, version) = (&self.inner.definitions, self.version.number);
        self.workspace.collect_garbage_now(durable, || definitions.is_current(version));
    }

    /// Checks that the log accepts writes. Waits while this is unknown.
    ///
    /// # Errors
    /// `Error::Log`: the log cannot grow, or has failed. Or the caller waits.
    #[inline]
    pub(crate) fn check_log(&mut self, settings: &Settings) -> Result<(), Error> {
        if self.inner.logs.is_in_doubt() {
            // A vertex waits on its thread: all that follows in its batch needs the log, too.
            let settings =
                Settings { caller_waits: settings.caller_waits && !settings.is_in_batch, ..*settings };
            self.await_end(Awaited::Log(Arc::clone(&self.inner)), None, &settings)?;
        }
        Ok(self.inner.logs.check()?)
    }

    /// Collects garbage and counts after a transaction.
    #[inline]
    pub(crate) fn after_call(&mut self) {
        self.tally.calls += 1;
        if self.workspace.is_in_batches() {
            // Its executor does so at the end of the batch.
            return;
        }
        let durable = self.inner.durable(self.workspace.worker());
        let (definitions, version) = (&self.inner.definitions, self.version.number);
        self.workspace.collect_garbage(durable, || definitions.is_current(version));
        if self.tally.calls >= PUBLISH_EVERY || self.inner.recovering.is_running() {
            self.publish();
        }
    }

    /// Adds the counters to those of the database.
    pub(crate) fn publish(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        if self.inner.recovering.is_running() {
            self.inner.recovering.served(tally.committed + tally.read);
        }
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        add(&self.inner.committed, tally.committed);
        add(&self.inner.read, tally.read);
        add(&self.inner.failed, tally.failed);
        add(&self.inner.conflicts, tally.conflicts);
        if self.inner.logs.durable().is_none() {
            // Loggers end epochs. Without one the worker does, because memory is reclaimed by epochs.
            let epochs = self.workspace.worker().epochs();
            epochs.advance_from(epochs.current());
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.workspace.is_committing() {
            // A panic inside a commit leaves rows in memory that are no state of the database. The log holds
            // a consistent one.
            tracing::error!("a commit panicked: the process aborts; the next start recovers from the log");
            std::process::abort();
        }
        self.workspace.rollback_if_running();
        self.workspace.release_holds();
        self.publish();
    }
}
