//! The state that all sessions, workers and threads of a database share.

use crate::definitions::Definitions;
use crate::recovering::Recovering;
use crate::sequences::Numbers;
use crate::session_numbers::SessionNumbers;
use crate::{Config, Error};
use catalog::{CommitOrder, Epoch};
use checkpoint::CheckpointSummary;
use logging::content::{Outcome, seal};
use logging::{Commit, Content, Csn, DatabaseId, LogError, LogSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;
use storage::Worker;
use transaction::{Adaptive, Gate};

/// A checkpoint that was taken since the opening.
pub(crate) struct TakenCheckpoint {
    /// When it was complete.
    pub(crate) at: Instant,
    pub(crate) summary: CheckpointSummary,
    /// Bytes of records in the main log when it began.
    pub(crate) log_bytes: u64,
}

/// The state that all sessions share.
pub(crate) struct Inner {
    pub(crate) folder: PathBuf,
    /// Counts all memory of the database.
    pub(crate) account: Arc<memory::Account>,
    pub(crate) config: Config,
    pub(crate) definitions: Definitions,
    pub(crate) logs: Arc<LogSet>,
    pub(crate) adaptive: Arc<Adaptive>,
    /// Keeps other transactions from committing writes while a batch runs; `None` without batches.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) devices: Vec<PathBuf>,
    pub(crate) database: DatabaseId,
    pub(crate) incarnation: u64,
    pub(crate) numbers: Numbers,
    /// The sessions that may have temporary relations.
    pub(crate) session_numbers: SessionNumbers,
    /// Held while a checkpoint or backup is written, definitions change, a digest is computed, or a loader
    /// begins.
    pub(crate) maintenance: Mutex<()>,
    /// Loaders that have not ended.
    pub(crate) loaders: AtomicUsize,
    /// Sessions that have not ended.
    pub(crate) sessions: AtomicUsize,
    pub(crate) recovering: Arc<Recovering>,
    /// The last checkpoint since the opening.
    pub(crate) last_checkpoint: Mutex<Option<TakenCheckpoint>>,
    pub(crate) committed: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}

impl Inner {
    /// Returns whether the record of a definition can lie among those of open transactions: each transaction
    /// has one record, and replay puts all records into one order. Batches run under one version of the
    /// definitions.
    pub(crate) fn can_define_beside(&self) -> bool {
        let mut contents = self.logs.iter().map(|own| own.format.content);
        self.gate.is_none()
            && self.logs.numbering().is_serial()
            && contents.all(|content| content != Content::Physiological)
    }

    /// Returns whether a commit may be acknowledged.
    #[inline]
    pub(crate) fn is_durable(&self, commit: Commit) -> bool {
        let is_durable = self.logs.is_durable(commit);
        if is_durable {
            self.recovering.acknowledged(&self.logs);
        }
        is_durable
    }

    /// Returns once a commit may be acknowledged.
    ///
    /// # Errors
    /// A log has failed before that.
    pub(crate) fn wait(&self, commit: Commit) -> Result<(), LogError> {
        self.logs.wait(commit)?;
        self.recovering.acknowledged(&self.logs);
        Ok(())
    }

    /// As `wait`, for a task: wakes it when more is known.
    ///
    /// # Errors
    /// As `wait`.
    pub(crate) fn poll(&self, commit: Commit, context: &Context<'_>) -> Poll<Result<(), LogError>> {
        match self.logs.poll(commit, context.waker()) {
            Ok(true) => {
                self.recovering.acknowledged(&self.logs);
                Poll::Ready(Ok(()))
            }
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Returns the number up to which all transactions are durable. Without a log, these are the transactions
    /// of ended epochs.
    pub(crate) fn durable(&self, worker: &Worker) -> CommitOrder {
        let of_ended_epochs = || CommitOrder::last_of(Epoch(worker.epochs().current().0 - 1));
        self.logs.durable().map_or_else(of_ended_epochs, Csn::order)
    }

    /// Logs the aborts of the transactions that recovery has undone. They precede all new records, so that no
    /// later recovery undoes newer writes. Each abort is durable before the next one is logged. Only a
    /// physiological log needs them: a log of another content continues from a checkpoint.
    pub(crate) fn log_undone(&self, undone: Vec<CommitOrder>) -> Result<(), Error> {
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
