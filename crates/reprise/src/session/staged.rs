//! Definitions that a transaction of several statements changes, among other statements.
//!
//! They are its own until it commits: tables that it makes are empty and nobody else knows them, so its
//! statements use them at once. What needs everybody else to stand still, indexes and other layouts of tables
//! that were there before, is done at the commit; such tables can't be used in the same transaction any more.
//! One record has the definitions and what the transaction wrote under them. Where another session has
//! changed definitions meanwhile, the transaction has lost a race.
//! Invariant: all statements come before all writes in replay, so no definition may look at rows that the
//! transaction wrote.
//! Held by: `crates/reprise/tests/suite/definitions_in_transactions.rs`.

use super::Session;
use crate::Error;
use crate::database::Inner;
use crate::definitions::Version;
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

/// Versions that are one transaction's own have numbers from here on.
static NEXT_PRIVATE: AtomicU64 = AtomicU64::new(1 << 63);

/// What a transaction has changed of the definitions so far.
pub(super) struct Staged {
    /// The version that it began under.
    base: Arc<Version>,
    steps: Vec<(String, Effect)>,
    touched: Touched,
    /// The sequences that it has made.
    counters: Arc<Counters>,
    timestamp_us: i64,
    seed: u64,
}

/// The tables, sequences among them, that a transaction's definitions concern.
#[derive(Clone, Default)]
struct Touched {
    /// Tables that it has made, whether or not it has dropped them again.
    own: BTreeSet<TableId>,
    /// Tables that are only as they are defined once it commits.
    deferred: BTreeMap<TableId, String>,
    /// Its own sequences of which the commit takes numbers.
    drawn: BTreeMap<TableId, String>,
}

/// Sequences, of which some are the transaction's own.
struct OwnSequences {
    counters: Arc<Counters>,
    drawn: BTreeMap<TableId, String>,
    others: Source,
}

impl OwnSequences {
    /// Who counts a sequence.
    fn of(&self, sequence: TableId) -> Result<&dyn Sequences, SqlError> {
        match self.drawn.get(&sequence) {
            Some(name) => Err(used_with_its_table(name)),
            None if self.counters.has(sequence) => Ok(&*self.counters),
            None => Ok(&self.others),
        }
    }
}

impl Sequences for OwnSequences {
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
        Effect::All(effects) => effects.iter().try_for_each(|own| each_effect(own, visit)),
        one => visit(one),
    }
}

fn not_supported(what: String) -> SqlError {
    SqlError::new("0A000", what).with_hint("Commit the transaction first.")
}

fn refused(what: String) -> Error {
    Error::Sql(not_supported(what))
}

/// The rows get their numbers at the commit, and the log says nothing of numbers that were taken before.
fn used_with_its_table(sequence: &str) -> SqlError {
    let what =
        "using a sequence in the transaction that has made it and fills a column of an older table by it";
    not_supported(format!("{what} is not supported: \"{sequence}\""))
}

impl Staged {
    fn new(base: &Arc<Version>, seed: u64) -> Self {
        let (base, counters) = (Arc::clone(base), Arc::new(Counters::default()));
        Self { base, steps: Vec::new(), touched: Touched::default(), counters, timestamp_us: now_us(), seed }
    }

    /// Whether some changes are made only as the transaction commits.
    pub(super) fn defers_changes(&self) -> bool {
        !self.touched.deferred.is_empty()
    }

    /// How many definitions it has changed.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Counts the sequences that the transaction has made from now on.
    fn count_sequences(&self, effect: &Effect) {
        match effect {
            Effect::CreateTable(table) => {
                let beginning = table.sequence.as_ref().map(|own| own.beginning());
                beginning.into_iter().for_each(|beginning| self.counters.add(table, beginning));
            }
            Effect::DropTable(table) => self.counters.remove(table.id),
            Effect::All(effects) => effects.iter().for_each(|effect| self.count_sequences(effect)),
            Effect::None | Effect::Redefine(_) | Effect::Rebuild(_) | Effect::Run(_) => {}
        }
    }

    fn how(&self) -> Applying {
        Applying { timestamp_us: self.timestamp_us, seed: self.seed, is_new: true }
    }
}

impl Session {
    /// Changes definitions in the open transaction.
    pub(super) fn stage(&mut self, text: &str) -> Result<(), Error> {
        let (schema, effect) = self.worker.version.schema.apply(text)?;
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
                self.worker.machine.count_by(Arc::new(OwnSequences {
                    counters: Arc::clone(&staged.counters),
                    drawn: staged.touched.drawn.clone(),
                    others: Source::new(Arc::clone(&self.worker.inner), staged.base.tables.clone()),
                }));
            }
            // The transaction may go on behind a savepoint.
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
                    let what = "changing a table that the same transaction has written";
                    Err(refused(format!("{what} is not supported: \"{name}\"")))
                }
                false => Ok(()),
            };
        match effect {
            Effect::CreateTable(table) => {
                tables.apply(effect, staged.how(), self.worker.workspace.worker().guard())?;
                staged.touched.own.insert(table.id);
            }
            Effect::DropTable(table) => {
                written(self, table.id, &table.name)?;
                // Its rows may have been read; whether they still are as they were is looked at in the end.
                staged.touched.deferred.remove(&table.id);
            }
            Effect::Redefine(table) => {
                let known = tables.by_id(table.id).map(|store| Arc::clone(store.definition()));
                let known = known.as_ref().map(|own| &own.indexes[..]).unwrap_or_default();
                let is_among =
                    |indexes: &[Index], index: &Index| indexes.iter().any(|own| own.id == index.id);
                let adds = table.indexes.iter().any(|index| !is_among(known, index));
                let removes = known.iter().any(|index| !is_among(&table.indexes, index));
                // Writes are taken back by the indexes that they were made under.
                if adds || removes {
                    written(self, table.id, &table.name)?;
                }
                let Touched { own, deferred, .. } = &mut staged.touched;
                if deferred.contains_key(&table.id) || adds && !own.contains(&table.id) {
                    deferred.insert(table.id, table.name.clone());
                } else {
                    tables.apply(effect, staged.how(), self.worker.workspace.worker().guard())?;
                }
            }
            Effect::Rebuild(rebuild) => {
                written(self, rebuild.old.id, &rebuild.old.name)?;
                for reference in &rebuild.references {
                    written(self, reference.parent.id, &reference.parent.name)?;
                }
                if staged.touched.own.contains(&rebuild.old.id) {
                    tables.apply(effect, staged.how(), self.worker.workspace.worker().guard())?;
                    staged.touched.own.insert(rebuild.new.id);
                    return Ok(());
                }
                let Touched { own, drawn, .. } = &mut staged.touched;
                for sequence in rebuild.sequences().into_iter().filter(|used| own.contains(used)) {
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

    /// Refuses a statement about tables that are only as they are defined once the transaction commits.
    pub(super) fn refuse_deferred(&self, procedure: &Procedure) -> Result<(), Error> {
        let Some(staged) = self.block.staged.as_ref().filter(|own| own.defers_changes()) else {
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
                let what = "using a table in the transaction that has changed it";
                Err(refused(format!("{what} is not supported: \"{name}\"")))
            }
        }
    }

    /// Commits the transaction with its definitions.
    pub(super) fn commit_staged(&mut self, staged: &Staged) -> Result<Commit, Error> {
        let committed = self.try_commit_staged(staged);
        match committed {
            Ok(commit) => _ = self.answers(commit),
            Err(_) => {
                self.worker.workspace.rollback_if_running();
                // Definitions look at rows without taking note of them.
                self.shows_everything();
            }
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
            let own = staged.touched.own.iter();
            own.filter_map(|id| private.tables.by_id(*id)).for_each(|store| tables.share(store));
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
            };
            Ok(Some((private.schema.clone(), tables)))
        })?;
        Ok(commit)
    }

    /// Waits for a checkpoint or the like to end. Not for another definition: it waits for this transaction
    /// to end, which has lost the race to it.
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

    /// Does to the data what is to be seen by everybody from now on.
    fn publish_effect(&mut self, effect: &Effect, staged: &Staged, tables: &mut Tables) -> Result<(), Error> {
        let is_own = |table: TableId| staged.touched.own.contains(&table);
        // Its own tables are as they are defined already.
        let is_done = match effect {
            Effect::CreateTable(table) | Effect::Redefine(table) => is_own(table.id),
            Effect::Rebuild(rebuild) => is_own(rebuild.new.id),
            Effect::DropTable(_) => false,
            Effect::None | Effect::All(_) | Effect::Run(_) => true,
        };
        if !is_done {
            tables.apply(effect, staged.how(), self.worker.workspace.worker().guard())?;
        }
        Ok(())
    }

    /// Writes the rows of sequences that the transaction has made.
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

    /// The record of the definitions and of what was written, but for its number.
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
            let what = "a log of whole rows can't hold a transaction that changes definitions and rows";
            return Err(refused(what.into()));
        }
        Ok(record)
    }
}
