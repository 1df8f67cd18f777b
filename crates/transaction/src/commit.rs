//! The commit of a transaction: the one path that every content of a log and every sequencing shares.
//! Paper: Silo §§4.4–4.6; Poplar §4.4 (OCC on SSN, early lock release). Differs: the number of a transaction
//! comes from one clock at the serialization point where a command log needs a total order that is a serial
//! order, write-after-read included, and from the logs otherwise.
//!
//! 1. Describe: each log's record is made as far as it is known; the worker waits for room.
//! 2. Lock the write set, in address order.
//! 3. Physiological logs append the operations.
//! 4. Number the transaction where numbers are a serial order; otherwise read the clock, which is the
//!    number's floor.
//! 5. Validate the read set: records and leaves.
//! 6. Install the rows; logs of rows copy each.
//! 7. Number the transaction where it has no number yet, and take room for its records.
//! 8. Publish: the rows get the number and are unlocked. A transaction that reads them gets a greater number.
//! 9. Append the records. The epoch of the number does not end before.
//!
//! Index entries are published when the statement runs, so before the number is drawn.
//! Invariants: 1. numbers are a serial order, except those of `ssn`, which are greater than all that the
//! transaction has read or overwrites. 2. nothing of an aborted attempt is ever seen. 3. outside a running
//! transaction, a record is in each index exactly under the key of its row.
//! Held by: `crates/reprise/tests/suite/serializability.rs` and `sequencings.rs`, which re-execute in commit
//! order and compare digests.
//! Not here: the steps on the workspace (`workspace/install.rs`), validation (`concurrency`), what a record
//! holds (`record`), where numbers come from (`logging::Numbering`).

#[cfg(test)]
mod tests;

use crate::gate::{BlocksBy, Gate};
use crate::record::{Adaptive, EndedBatch, Execution, Records};
use crate::workspace::MovedSums;
use crate::{Tables, Workspace};
use catalog::{CommitOrder, Written};
use logging::content::{Stamp, put_written};
use logging::{Commit, Drawn, LogError, LogSet, LoggerTag, Numbered, Numbering};
use procedure::{Conflict, Failure, Interrupts, Procedure, SqlError, WitnessRecorder};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;
use storage::{Epochs, Slot};

/// One in this many transactions is timed.
const TIMED_EVERY: u8 = 8;

/// How a log of commands records a transaction.
#[derive(Clone, Copy, Debug)]
pub enum LoggedBy<'a> {
    /// The rows that it writes.
    Value,
    /// The call, unless the procedure or the session is recorded by value.
    Call {
        /// The procedure that was called.
        procedure: &'a Procedure,
        /// What it has written, for replay to compare.
        written: Written,
        /// Whether its effects depend on more than the call, so that a replay of the call could differ.
        depends: bool,
    },
}

/// What a transaction did that has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// It wrote, at this place of the serial order.
    Wrote(CommitOrder),
    /// It only read; what it read is durable once everything up to this is.
    Read(CommitOrder),
}

/// A transaction that has committed.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// What it did.
    pub committed: Committed,
    /// What must be durable before it is acknowledged.
    pub commit: Commit,
}

/// Why a transaction did not commit.
#[derive(Debug)]
pub enum CommitError {
    /// It lost a race. It was rolled back, and may be tried again.
    Conflict(Conflict),
    /// A log refuses its record, or has failed.
    Log(LogError),
    /// Its statement was cancelled, or had no time left, while it waited for the end of a batch. It was
    /// rolled back.
    Interrupted(Box<SqlError>),
}

impl From<Conflict> for CommitError {
    fn from(conflict: Conflict) -> Self {
        Self::Conflict(conflict)
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Conflict(conflict) => conflict.into(),
            CommitError::Log(error) => SqlError::new(error.sqlstate(), error.to_string()).into(),
            CommitError::Interrupted(error) => (*error).into(),
        }
    }
}

impl From<LogError> for CommitError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

/// Commits the transactions of one worker.
pub struct CommitPipeline {
    logs: Arc<LogSet>,
    /// The clock. Its own reference, so that commits count no shared one.
    epochs: Arc<Epochs>,
    numbering: &'static dyn Numbering,
    worker: Slot,
    /// What keeps the writes of other transactions from being committed while a batch runs.
    gate: Option<Arc<Gate>>,
    /// How the thread of a commit waits for the gate.
    pub blocks_by: BlocksBy,
    /// What ends that wait.
    pub interrupts: Interrupts,
    /// Whether its transactions are vertices of batches.
    is_in_batches: bool,
    /// The number of the running transaction, if it is a vertex of a batch.
    vertex: Option<CommitOrder>,
    tag: Option<LoggerTag>,
    records: Records,
    /// Transactions until the next one that is timed.
    until_timed: u8,
    begun: Option<Instant>,
    /// The record of the call of the running transaction, but for its number; empty where no log records
    /// calls.
    pub call: Vec<u8>,
    /// The writes that the record of the call counts, and where they stand in it.
    counted: Option<(usize, Written)>,
    /// The results of reads that its record holds as witnesses.
    pub witnesses: WitnessRecorder,
    /// Whether transactions are recorded by value where the log has a choice.
    pub by_value: bool,
}

impl std::fmt::Debug for CommitPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommitPipeline").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl CommitPipeline {
    /// Returns the pipeline of a worker, which is known to the logs (`LogSet::add_worker`).
    pub fn new(logs: Arc<LogSet>, adaptive: &Arc<Adaptive>, tables: &Tables, worker: Slot) -> Self {
        let records = Records::new(&logs, adaptive, worker);
        Self::of(Arc::clone(&logs), logs.numbering(), records, tables, worker)
    }

    fn of(
        logs: Arc<LogSet>,
        numbering: &'static dyn Numbering,
        records: Records,
        tables: &Tables,
        worker: Slot,
    ) -> Self {
        Self {
            epochs: Arc::clone(&tables.epochs),
            tag: numbering.tag(&logs, worker),
            numbering,
            logs,
            worker,
            gate: None,
            blocks_by: |wait| wait(),
            interrupts: Interrupts::default(),
            is_in_batches: false,
            vertex: None,
            records,
            until_timed: 0,
            begun: None,
            call: Vec::new(),
            counted: None,
            witnesses: WitnessRecorder::default(),
            by_value: false,
        }
    }

    /// Returns a pipeline whose transactions commit beside batches.
    #[must_use]
    pub fn beside_batches(self, gate: Option<Arc<Gate>>) -> Self {
        Self { gate, ..self }
    }

    /// Says that the next transactions are vertices of a batch. `home` is the worker to whose logger their
    /// records go if they have numbers before they run; it has called `Epochs::begin_commit` for the batch.
    pub fn enter_batch(&mut self, home: Slot) {
        self.gate = None;
        self.is_in_batches = true;
        if self.numbering.can_draw_ahead() {
            self.records.go_to(home);
        }
    }

    /// Sets the number of the next transaction, which is a vertex of a batch; `None`: it draws its number
    /// when it commits.
    pub fn number_vertex(&mut self, number: Option<CommitOrder>) {
        self.vertex = number;
    }

    /// Notes that all vertices of a batch have ended. Where workers write their own logs, this writes the
    /// log, once for all of them.
    ///
    /// # Errors
    /// The log has failed.
    pub fn end_vertices(&self) -> Result<(), LogError> {
        self.logs.ended(self.worker)
    }

    /// Takes the records of vertices over from a pipeline that is not used any more.
    pub fn take_over(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.records, &mut other.records);
    }

    /// Appends the records of this pipeline's vertices of a batch, all of whose vertices are done. Adds their
    /// number to `counts`, for each log of batches.
    ///
    /// # Errors
    /// A log has failed.
    pub fn end_batch(
        &mut self,
        workspace: &mut Workspace,
        batch: &dyn EndedBatch,
        counts: &[AtomicU32],
    ) -> Result<(), LogError> {
        self.records.end_batch(&self.logs, batch, workspace, counts)
    }

    /// Appends the end of a batch to each log of batches, once all pipelines have appended its records.
    ///
    /// # Errors
    /// A log has failed.
    pub fn put_batch_end(&mut self, batch: &dyn EndedBatch, counts: &[AtomicU32]) -> Result<(), LogError> {
        self.records.put_batch_end(&self.logs, batch, counts)
    }

    /// Returns a pipeline that logs nothing and takes its numbers elsewhere.
    #[cfg(test)]
    pub(crate) fn numbered_by(
        numbering: &'static dyn Numbering,
        logs: Arc<LogSet>,
        tables: &Tables,
        worker: Slot,
    ) -> Self {
        let records = Records::of(&logs, Vec::new(), worker);
        Self::of(logs, numbering, records, tables, worker)
    }

    /// Returns whether a log records calls, so that `call` has to hold them.
    #[inline]
    pub fn records_calls(&self) -> bool {
        self.records.needs.calls
    }

    /// Notes that a transaction begins to run.
    #[inline]
    pub fn begin(&mut self) {
        if !self.records.needs.times {
            return;
        }
        self.begun = (self.until_timed == 0).then(Instant::now);
        self.until_timed = self.until_timed.checked_sub(1).unwrap_or(TIMED_EVERY - 1);
    }

    /// Commits a transaction that has run, and appends its record to each log.
    ///
    /// # Errors
    /// `Conflict` when it lost a race; `Log` when its record is too large, a log can't grow, or has failed;
    /// `Interrupted` when its statement ended while it waited for a batch.
    /// The record of a vertex must fit half of a log's buffer; outside of batches the transaction can have a
    /// larger one.
    /// The transaction is rolled back, unless a log has failed after the rows were written: no transaction is
    /// acknowledged any more then.
    #[inline]
    pub fn commit(
        &mut self,
        workspace: &mut Workspace,
        logged_by: LoggedBy<'_>,
    ) -> Result<Outcome, CommitError> {
        if !workspace.writes_anything() {
            let number = workspace.commit_reads()?;
            return Ok(self.outcome_of_reads(number));
        }
        if let Err(error) = self.describe(workspace, logged_by) {
            workspace.rollback();
            return Err(error.into());
        }
        let gate = self.gate.clone();
        let passed = gate.as_ref().map(|gate| gate.pass(self.blocks_by, &self.interrupts)).transpose();
        let _passed = passed.map_err(|error| {
            workspace.rollback();
            CommitError::Interrupted(Box::new(error))
        })?;
        workspace.set_committing(true);
        let stamp = self.commit_writes(workspace);
        workspace.set_committing(false);
        let Stamp { order, alone } = stamp?;
        if !self.is_in_batches {
            self.logs.ended(self.worker)?;
        }
        let commit = Commit { number: order, worker: self.worker, alone };
        Ok(Outcome { committed: Committed::Wrote(order), commit })
    }

    /// Commits a transaction that changes definitions, with the rows that it has written. `record` holds
    /// both. Its steps are those of `commit`. The record is made already, and its number is above all earlier
    /// ones and below all later ones, because no other transaction runs.
    ///
    /// # Errors
    /// As `commit`.
    pub fn commit_definitions(
        &mut self,
        workspace: &mut Workspace,
        record: &[u8],
    ) -> Result<Commit, CommitError> {
        let records = self.logs.prepare_definition(record)?;
        let locked = workspace.lock_or_rollback().and_then(|()| {
            let valid = workspace.validate(None);
            valid.inspect_err(|_| workspace.unlock_and_rollback())
        });
        if let Err(conflict) = locked {
            self.logs.forget_definition(records);
            return Err(conflict.into());
        }
        workspace.set_committing(true);
        let (number, logged) = self.logs.define(self.worker, &self.epochs, records, |order| {
            workspace.install(|_, _, _| {});
            workspace.publish(order);
        });
        workspace.end_commit();
        workspace.set_committing(false);
        logged?;
        Ok(Commit { number, worker: self.worker, alone: false })
    }

    /// Returns the outcome of a transaction that only reads. What it has read may lie in every log.
    pub fn outcome_of_reads(&self, number: CommitOrder) -> Outcome {
        let commit = Commit { number, worker: self.worker, alone: false };
        Outcome { committed: Committed::Read(number), commit }
    }

    /// Makes the records as far as they are known before the rows are locked, and waits for room in each log.
    #[inline]
    fn describe(&mut self, workspace: &mut Workspace, logged_by: LoggedBy<'_>) -> Result<(), LogError> {
        self.counted = None;
        if self.records.is_empty() {
            workspace.sums_may_move = true;
            return Ok(());
        }
        self.logs.check()?;
        let (procedure, by_value) = match logged_by {
            LoggedBy::Value => (None, true),
            LoggedBy::Call { procedure, written, depends } => {
                if self.records_calls() && procedure.by_value.is_none() {
                    self.witnesses.append_to(&mut self.call);
                    self.counted = Some((self.call.len(), written));
                    put_written(written, &mut self.call);
                }
                let by_value = self.by_value || procedure.by_value.is_some() || depends;
                (Some((procedure.id, procedure.version)), by_value)
            }
        };
        let time = self.begun.map(|begun| begun.elapsed());
        let is_in_batch = self.vertex.is_some();
        let execution =
            Execution { procedure, time, call: &[], by_value, is_in_batch, largest: 0, workspace };
        self.records.describe(&self.logs, &mut self.call, execution)?;
        workspace.sums_may_move = !is_in_batch && self.records.hold_calls();
        Ok(())
    }

    #[inline]
    fn commit_writes(&mut self, workspace: &mut Workspace) -> Result<Stamp, CommitError> {
        let Self { logs, epochs, numbering, worker, tag, records, call, counted, vertex, .. } = self;
        workspace.lock_or_rollback()?;
        if records.needs.rows && !records.fit(logs, workspace) {
            workspace.unlock_and_rollback();
            return Err(Conflict::Write.into());
        }
        let by = Numbered { logs, epochs, worker: *worker, tag: *tag };
        if vertex.is_none() {
            epochs.begin_commit(*worker);
        }
        if records.needs.operations
            && let order = vertex.unwrap_or_else(|| epochs.draw())
            && let Err(error) = records.append_operations(logs, order, workspace)
        {
            workspace.abandon_commit();
            return Err(error.into());
        }
        let drawn = match vertex {
            Some(number) => Drawn::Number(*number),
            None => numbering.before_validation(by, workspace),
        };
        let number = match drawn {
            Drawn::Number(number) => Some(number),
            Drawn::Above(_) => None,
        };
        if let Err(conflict) = workspace.validate(number) {
            if let Drawn::Number(number) = drawn {
                numbering.aborted(by);
                records.aborted(logs, number);
            }
            workspace.abandon_commit();
            return Err(conflict.into());
        }
        count_moved(*counted, workspace.moved_sums, call);
        if records.needs.rows {
            workspace.install(|change, table, record| records.row_written(change, table, record));
        } else {
            workspace.install(|_, _, _| {});
        }
        let (stamp, result) = match drawn {
            Drawn::Number(number) => (number.into(), Ok(())),
            Drawn::Above(floor) => records.number(*numbering, by, workspace, floor),
        };
        let Stamp { order, .. } = stamp;
        if order.sequence() >= CommitOrder::SEQUENCE_LIMIT {
            // The clock's epoch never falls behind that of numbers.
            epochs.advance_from(order.epoch());
        }
        workspace.publish(order);
        let appended = match (result, drawn) {
            (Err(error), _) => Err(error),
            (Ok(()), _) if vertex.is_some() => {
                records.keep(order, call);
                Ok(())
            }
            (Ok(()), Drawn::Number(_)) => records.append(logs, stamp, call),
            (Ok(()), Drawn::Above(_)) => {
                records.fill(logs, stamp, call);
                Ok(())
            }
        };
        if vertex.is_none() {
            epochs.end_commit(*worker);
        }
        workspace.end_commit();
        appended?;
        Ok(stamp)
    }
}

/// Counts the sums that a commit has moved in the record of its call, if that counts writes.
#[inline]
fn count_moved(counted: Option<(usize, Written)>, moved: MovedSums, call: &mut Vec<u8>) {
    let MovedSums { executed, written } = moved;
    if let Some((place, counted)) = counted
        && executed.rows > 0
    {
        let mut sum = counted - executed;
        sum += written;
        call.truncate(place);
        put_written(sum, call);
    }
}
