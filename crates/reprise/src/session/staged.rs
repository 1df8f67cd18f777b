//! Definitions that a transaction of several statements changes, among other statements.
//!
//! The changes are private until the transaction commits. The transaction's statements use its new tables at
//! once, because no other session knows them. Changes that need all other sessions idle are deferred to the
//! commit: new indexes and new layouts of earlier tables. Such a table cannot be used in the same transaction
//! any more. One record holds the definitions and the writes of the transaction. If another session has
//! changed definitions meanwhile, the transaction fails with 40001.
//! Invariant: replay runs all definitions before all writes, so no definition may read rows that the
//! transaction wrote.
//! Held by: `crates/reprise/tests/suite/definitions_in_transactions.rs`.

use super::Session;
use crate::Error;
use crate::definitions::{Version, apply};
use crate::inner::Inner;
use crate::sequences::{Source, Taking};
use crate::worker::serialization_failure;
use catalog::{Index, SequencePlace, TableId, now_us};
use logging::content::{DefinitionsRecord, Images, StatementRecord, WritesBuilder};
use logging::{Commit, Content};
use procedure::{Conflict, Effect, Procedure, Sequences, SqlError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::Duration;
use transaction::{Applying, CommitError, Counters, Description, Tables};

/// The number of the next private version. All private versions have numbers from 2^63 on.
static NEXT_PRIVATE: AtomicU64 = AtomicU64::new(1 << 63);

/// The definitions that a transaction has changed so far.
pub(super) struct Staged {
    /// The version before the first change.
    base: Arc<Version>,
    /// The text and the effect of each statement.
    steps: Vec<(String, Effect)>,
    touched: Touched,
    /// The sequences that the transaction has created.
    counters: Arc<Counters>,
    timestamp_us: i64,
    seed: u64,
}

/// The tables and sequences that a transaction's definitions concern.
#[derive(Clone, Default)]
struct Touched {
    /// Tables that the transaction has created, including dropped ones.
    created: BTreeSet<TableId>,
    /// Tables whose change is deferred to the commit, with their names.
    deferred: BTreeMap<TableId, String>,
    /// Created sequences from which the commit draws numbers, with their names.
    drawn: BTreeMap<TableId, String>,
}

/// The sequences of a transaction that changes definitions.
struct StagedSequences {
    /// Sequences that the transaction has created.
    counters: Arc<Counters>,
    drawn: BTreeMap<TableId, String>,
    /// Sequences of the database.
    shared: Source,
}

impl StagedSequences {
    /// Returns the source of a sequence's numbers.
    ///
    /// # Errors
    /// `0A000`: the commit draws numbers from the sequence.
    fn of(&self, sequence: TableId) -> Result<&dyn Sequences, SqlError> {
        match self.drawn.get(&sequence) {
            Some(name) => Err(used_with_its_table(name)),
            None if self.counters.has(sequence) => Ok(&*self.counters),
            None => Ok(&self.shared),
        }
    }
}

impl Sequences for StagedSequences {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        self.of(sequence)?.next(sequence)
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        self.of(sequence)?.set(sequence, number, is_called)
    }

    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.of(sequence)?.place(sequence)
    }
}

fn each_effect(effect: &Effect, visit: &mut impl FnMut(&Effect) -> Result<(), Error>) -> Result<(), Error> {
    match effect {
        Effect::All(effects) => effects.iter().try_for_each(|effect| each_effect(effect, visit)),
        single => visit(single),
    }
}

fn not_supported(message: String) -> SqlError {
    SqlError::new("0A000", message).with_hint("Commit the transaction first.")
}

fn refused(message: String) -> Error {
    Error::Sql(not_supported(message))
}

/// Returns the error of a sequence that fills a column of an older table and is also used directly. The rows
/// get their numbers at the commit, and the log has no record of numbers that were drawn before.
fn used_with_its_table(sequence: &str) -> SqlError {
    not_supported(format!(
        "using the new sequence \"{sequence}\" is not supported in a transaction that fills a column of an \
         earlier table from it"
    ))
}

impl Staged {
    fn new(base: &Arc<Version>, seed: u64) -> Self {
        let (base, counters) = (Arc::clone(base), Arc::new(Counters::default()));
        Self { base, steps: Vec::new(), touched: Touched::default(), counters, timestamp_us: now_us(), seed }
    }

    /// Returns whether some changes are deferred to the commit.
    pub(super) fn defers_changes(&self) -> bool {
        !self.touched.deferred.is_empty()
    }

    /// Returns the number of changed definitions.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Begins to count created sequences, and stops for dropped ones.
    fn count_sequences(&self, effect: &Effect) {
        match effect {
            Effect::CreateTable(table) => {
                let beginning = table.sequence.as_ref().map(|sequence| sequence.beginning());
                beginning.into_iter().for_each(|beginning| self.counters.add(table, beginning));
            }
            Effect::DropTable(table) => self.counters.remove(table.id),
            Effect::All(effects) => effects.iter().for_each(|effect| self.count_sequences(effect)),
            Effect::None | Effect::Redefine(_) | Effect::Rebuild(_) | Effect::Run(_) => {}
        }
    }

    fn applying(&self) -> Applying {
        Applying { timestamp_us: self.timestamp_us, seed: self.seed, is_new: true }
    }
}

impl Session {
    /// Changes definitions in the open transaction.
    ///
    /// # Errors
    /// The errors of the statement; `0A000`: the combination with earlier statements is not supported.
    pub(super) fn stage(&mut self, text: &str) -> Result<(), Error> {
        let (schema, effect) = apply(&self.worker.version.schema, text, self.checks_bodies)?;
        if effect.is_nothing() && schema.defines_the_same_as(&self.worker.version.schema) {
            return Ok(());
        }
        let mut staged = match self.block.staged.take() {
            Some(staged) => staged,
            None => {
                let seed = self.next_seed();
                Box::new(Staged::new(&self.worker.version, seed))
            }
        };
        let (mut tables, before) = (self.worker.version.tables.clone(), staged.touched.clone());
        let ran = each_effect(&effect, &mut |effect| self.stage_effect(effect, &mut staged, &mut tables));
        match &ran {
            Ok(()) => {
                staged.count_sequences(&effect);
                staged.steps.push((text.into(), effect));
                let number = NEXT_PRIVATE.fetch_add(1, Ordering::Relaxed);
                self.worker.enter_version(Arc::new(Version::new(number, schema, tables)));
                self.worker.machine.count_by(Arc::new(StagedSequences {
                    counters: Arc::clone(&staged.counters),
                    drawn: staged.touched.drawn.clone(),
                    shared: Source::new(Arc::clone(&self.worker.inner), staged.base.tables.clone()),
                }));
            }
            // The transaction may continue after a rollback to a savepoint.
            Err(_) => staged.touched = before,
        }
        self.block.staged = Some(staged);
        ran
    }

    fn stage_effect(
        &mut self,
        effect: &Effect,
        staged: &mut Staged,
        tables: &mut Tables,
    ) -> Result<(), Error> {
        let written =
            |session: &Self, table: TableId, name: &str| match session.worker.workspace.has_written(table) {
                true => {
                    let cause = "after the same transaction has written the table";
                    Err(refused(format!("changing \"{name}\" is not supported {cause}")))
                }
                false => Ok(()),
            };
        match effect {
            Effect::CreateTable(table) => {
                tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
                staged.touched.created.insert(table.id);
            }
            Effect::DropTable(table) => {
                written(self, table.id, &table.name)?;
                // The transaction may have read its rows; the commit validates these reads.
                staged.touched.deferred.remove(&table.id);
            }
            Effect::Redefine(table) => {
                let known = tables.by_id(table.id).map(|store| Arc::clone(store.definition()));
                let known = known.as_ref().map(|known| &known.indexes[..]).unwrap_or_default();
                let is_among =
                    |indexes: &[Index], index: &Index| indexes.iter().any(|known| known.id == index.id);
                let adds = table.indexes.iter().any(|index| !is_among(known, index));
                let removes = known.iter().any(|index| !is_among(&table.indexes, index));
                // Rollback undoes writes through the indexes with which they were made.
                if adds || removes {
                    written(self, table.id, &table.name)?;
                }
                let Touched { created, deferred, .. } = &mut staged.touched;
                if deferred.contains_key(&table.id) || adds && !created.contains(&table.id) {
                    deferred.insert(table.id, table.name.clone());
                } else {
                    tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
                }
            }
            Effect::Rebuild(rebuild) => {
                written(self, rebuild.old.id, &rebuild.old.name)?;
                for reference in &rebuild.references {
                    written(self, reference.parent.id, &reference.parent.name)?;
                }
                if staged.touched.created.contains(&rebuild.old.id) {
                    tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
                    staged.touched.created.insert(rebuild.new.id);
                    return Ok(());
                }
                let Touched { created, drawn, .. } = &mut staged.touched;
                for sequence in rebuild.sequences().into_iter().filter(|used| created.contains(used)) {
                    let name = tables.store(sequence).definition().name.clone();
                    if staged.counters.has_used(sequence) {
                        return Err(used_with_its_table(&name).into());
                    }
                    drawn.insert(sequence, name);
                }
                staged.touched.deferred.remove(&rebuild.old.id);
                staged.touched.deferred.insert(rebuild.new.id, rebuild.new.name.clone());
            }
            Effect::None | Effect::All(_) | Effect::Run(_) => {}
        }
        Ok(())
    }

    /// Refuses a statement that uses a table or sequence whose change is deferred to the commit.
    ///
    /// # Errors
    /// `0A000`: the statement uses such a table or sequence.
    pub(super) fn refuse_deferred(&self, procedure: &Procedure) -> Result<(), Error> {
        let Some(staged) = self.block.staged.as_ref().filter(|staged| staged.defers_changes()) else {
            return Ok(());
        };
        let Touched { deferred, drawn, .. } = &staged.touched;
        let mut found = None;
        procedure.for_each_table(&mut |table| {
            if let Some(name) = deferred.get(&table.id).or(drawn.get(&table.id)) {
                found = Some(name.clone());
            }
        });
        match found {
            None => Ok(()),
            Some(name) => {
                let cause = "in the transaction that has changed the table";
                Err(refused(format!("using \"{name}\" is not supported {cause}")))
            }
        }
    }

    /// Commits the transaction with its definitions.
    pub(super) fn commit_staged(&mut self, staged: &Staged) -> Result<Commit, Error> {
        let committed = self.try_commit_staged(staged);
        match committed {
            Ok(commit) => _ = self.answers(commit),
            Err(_) => self.definitions_failed(),
        }
        self.worker.refresh();
        committed
    }

    fn try_commit_staged(&mut self, staged: &Staged) -> Result<Commit, Error> {
        self.check_log()?;
        self.store_numbers(staged)?;
        let text: String =
            staged.steps.iter().map(|(text, _)| format!("{};\n", text.trim_end_matches(';'))).collect();
        let definitions = StatementRecord {
            timestamp_us: staged.timestamp_us,
            seed: staged.seed,
            text: &text,
            written: None,
        };
        let inner = Arc::clone(&self.worker.inner);
        let _alone = self.wait_for_maintenance(&inner)?;
        let slot = self.worker.workspace.worker().slot();
        let private = Arc::clone(&self.worker.version);
        let epochs = Arc::clone(&private.tables.epochs);
        let mut commit = Commit { number: epochs.next_order(), worker: slot, alone: false };
        let patience = self.worker.patience(&self.settings());
        let holds = Arc::clone(&self.worker.workspace.tables().holds);
        let _awaits_all = holds.await_all(slot);
        inner.definitions.exclusively(slot, &epochs, &patience, |current| {
            if current.number != staged.base.number {
                return Err(serialization_failure(Conflict::Read));
            }
            let mut tables = current.tables.clone();
            let created = staged.touched.created.iter();
            created.filter_map(|id| private.tables.by_id(*id)).for_each(|store| tables.share(store));
            for (_, effect) in &staged.steps {
                Taking { inner: &inner, tables: &current.tables }.give_back_for(effect)?;
                each_effect(effect, &mut |effect| self.publish_effect(effect, staged, &mut tables))?;
            }
            let record = self.definitions_record(definitions, &inner)?;
            let worker = &mut self.worker;
            commit = match worker.pipeline.commit_definitions(&mut worker.workspace, &record) {
                Ok(committed) => committed,
                Err(CommitError::Conflict(conflict)) => return Err(worker.lost_at_commit(conflict)),
                Err(CommitError::Log(error)) => return Err(error.into()),
                Err(CommitError::Interrupted(error)) => return Err(Error::Sql(*error)),
            };
            Ok(Some((private.schema.clone(), tables)))
        })?;
        Ok(commit)
    }

    /// Waits for a checkpoint or backup to end. Does not wait for another definition, because that waits for
    /// this transaction to end: the transaction has lost the race to it.
    ///
    /// # Errors
    /// `40001`: another session is changing definitions.
    fn wait_for_maintenance<'a>(&self, inner: &'a Inner) -> Result<MutexGuard<'a, ()>, Error> {
        loop {
            match inner.maintenance.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if inner.definitions.is_changing() => {
                    return Err(serialization_failure(Conflict::Read));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Applies an effect to the shared tables. Tables that the transaction has created are already complete.
    fn publish_effect(&mut self, effect: &Effect, staged: &Staged, tables: &mut Tables) -> Result<(), Error> {
        let is_created = |table: TableId| staged.touched.created.contains(&table);
        let is_done = match effect {
            Effect::CreateTable(table) | Effect::Redefine(table) => is_created(table.id),
            Effect::Rebuild(rebuild) => is_created(rebuild.new.id),
            Effect::DropTable(_) => false,
            Effect::None | Effect::All(_) | Effect::Run(_) => true,
        };
        if !is_done {
            tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
        }
        Ok(())
    }

    /// Inserts the rows of sequences that the transaction has created.
    fn store_numbers(&mut self, staged: &Staged) -> Result<(), Error> {
        for (sequence, (row, arena)) in staged.counters.rows() {
            let table = Arc::clone(self.worker.version.tables.store(sequence).definition());
            self.worker.workspace.insert_row(&table, &row, &arena).map_err(|failure| match failure {
                procedure::Failure::Error(error) => Error::Sql(*error),
                _ => serialization_failure(Conflict::Write),
            })?;
        }
        Ok(())
    }

    /// Returns the record of the definitions and the writes, without its commit number.
    ///
    /// # Errors
    /// `0A000`: the images of a log cannot describe the writes.
    fn definitions_record(
        &mut self,
        definitions: StatementRecord<'_>,
        inner: &Inner,
    ) -> Result<Vec<u8>, Error> {
        let mut record = Vec::new();
        if !self.worker.workspace.writes_anything() {
            definitions.write_definition(&mut record);
            return Ok(record);
        }
        DefinitionsRecord::begin(definitions, &mut record);
        let (mut writes, mut has_updates) = (WritesBuilder::default(), false);
        self.worker.workspace.describe_writes(&mut Description::default(), |row| {
            has_updates |= row.change == catalog::RowChange::Update;
            writes.push(&mut record, row.change, row.table, (row.after, row.arena), row.changed);
        });
        let holds = |format: logging::RecordFormat| {
            format.content != Content::Physical && !(has_updates && format.images == Images::Rows)
        };
        if !inner.logs.iter().all(|log| holds(log.format)) {
            let message = "a log of whole rows does not support changes of definitions and rows in one \
                           transaction";
            return Err(refused(message.into()));
        }
        Ok(record)
    }
}
