//! Definitions that a transaction of several statements changes, among other statements.
//!
//! The changes are private until the transaction commits: its statements run under a private version of the
//! definitions, whose tables no other session knows. A definition that looks at the rows of an earlier table
//! works on those of this moment, so it keeps all other transactions from beginning until this one ends. One
//! that cannot fail is deferred to the commit, unless the transaction uses the table before. A table that the
//! transaction has written is copied before its definition changes (`Workspace::set_apart`). One record holds
//! the definitions and the writes of the transaction, in their order. The transaction holds the definitions
//! from its first change to its end: sessions that want to change some wait for it.
//! Example: `UPDATE t SET b = 0`, `ALTER TABLE t ALTER b SET NOT NULL`, `INSERT INTO t …`, `COMMIT`.
//! 1. The update is a pending write to `t`.
//! 2. The ALTER waits until no other transaction is open, and none begins from then on. The update is
//!    described for the log; `t` is replaced by a copy with the written rows, and the copy by a table of the
//!    new definition.
//! 3. The insert is a pending write to that.
//! 4. The commit logs update, ALTER and insert as one record, and publishes the new table; the old one goes.
//!
//! Invariants: 1. replay finds the rows that a definition has found. 2. while a private table has rows of an
//! earlier one, no other transaction writes that.
//! Held by: `crates/reprise/tests/suite/migrations.rs`, `definitions_in_transactions.rs`.
//! Not here: the commit (`commit.rs`), numbers of sequences (`numbers.rs`).

mod commit;
mod numbers;

use super::Session;
use super::alone::Alone;
use crate::Error;
use crate::definitions::{Version, apply};
use crate::inner::Inner;
use crate::sequences::{Source, Taking};
use catalog::{Index, SequencePlace, Table, TableId, now_us};
use numbers::StagedSequences;
use procedure::{Effect, Procedure, Rebuild};
use sql::Schema;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use transaction::{Applying, CounterPlaces, Counters, Tables};

/// The number of the next private version. All private versions have numbers from 2^63 on.
static NEXT_PRIVATE: AtomicU64 = AtomicU64::new(1 << 63);

/// The definitions that a transaction has changed so far.
pub(super) struct Staged {
    /// The version before the first change.
    base: Arc<Version>,
    steps: Vec<Step>,
    touched: Touched,
    /// The sequences that the transaction has created, and those from which its definitions have drawn.
    counters: Arc<Counters>,
    timestamp_us: i64,
    seed: u64,
    /// Keeps all other transactions from beginning; `None` until a definition needs that.
    alone: Option<Arc<Alone>>,
}

/// A statement that changes definitions.
#[derive(Clone)]
struct Step {
    text: String,
    effect: Effect,
    /// The transaction's writes to the tables that it changes, as a log has them.
    writes: Vec<u8>,
}

/// The tables that a transaction's definitions concern.
#[derive(Clone, Default)]
struct Touched {
    /// Tables whose data is complete in the private version, including dropped ones.
    private: BTreeSet<TableId>,
    /// Tables whose change is deferred to the commit or their first use.
    deferred: BTreeSet<TableId>,
    /// The deferred changes, in order.
    pending: Vec<Effect>,
}

/// The changed definitions at a savepoint.
#[derive(Clone)]
pub(super) struct StagedMark {
    steps: usize,
    touched: Touched,
    counters: CounterPlaces,
    version: Arc<Version>,
}

fn each_effect(effect: &Effect, visit: &mut impl FnMut(&Effect) -> Result<(), Error>) -> Result<(), Error> {
    match effect {
        Effect::All(effects) => effects.iter().try_for_each(|effect| each_effect(effect, visit)),
        single => visit(single),
    }
}

/// Returns the indexes of a definition that another one lacks.
fn indexes_beside<'t>(table: &'t Table, other: &Table) -> impl Iterator<Item = &'t Index> {
    let known: Vec<_> = other.indexes.iter().map(|index| index.id).collect();
    table.indexes.iter().filter(move |index| !known.contains(&index.id))
}

impl Staged {
    fn new(base: &Arc<Version>, seed: u64) -> Self {
        let (base, counters) = (Arc::clone(base), Arc::new(Counters::default()));
        let (steps, touched) = (Vec::new(), Touched::default());
        let (timestamp_us, alone) = (now_us(), None);
        Self { base, steps, touched, counters, timestamp_us, seed, alone }
    }

    /// Lets other transactions begin, because this one has failed. The sequences of the database go on behind
    /// the numbers that this transaction has given: a client may have seen them.
    pub(super) fn readmit_others(&mut self, inner: &Inner) {
        if self.alone.is_none() {
            return;
        }
        let taking = Taking { inner, tables: &self.base.tables };
        for (sequence, (row, _)) in self.counters.rows() {
            let place = SequencePlace::of_row(row).filter(|_| self.base.tables.by_id(sequence).is_some());
            if let Some(place) = place {
                // Only a log that has failed refuses this; then the database gives no further numbers.
                let _ = taking.advance(sequence, place);
            }
        }
        self.alone = None;
    }

    /// Begins to count created sequences, and stops for dropped ones.
    fn count_sequences(&self, effect: &Effect) {
        match effect {
            Effect::CreateTable(table) => {
                let beginning = table.sequence.as_ref().map(|sequence| sequence.beginning());
                beginning.into_iter().for_each(|beginning| self.counters.add(table, beginning));
            }
            Effect::DropTable(table) => self.counters.remove(table.id),
            Effect::Redefine(table) => self.counters.redefine(table),
            Effect::All(effects) => effects.iter().for_each(|effect| self.count_sequences(effect)),
            Effect::None | Effect::Rebuild(_) | Effect::Run(_) => {}
        }
    }

    fn applying(&self) -> Applying {
        Applying { timestamp_us: self.timestamp_us, seed: self.seed, is_new: true }
    }

    fn is_private(&self, table: TableId) -> bool {
        self.touched.private.contains(&table)
    }
}

impl Session {
    /// Changes definitions in the open transaction.
    ///
    /// # Errors
    /// The errors of the statement; `40P01`: another transaction that changes definitions waits for this one;
    /// `55P03`: other transactions stay open; `0A000`: a log names rows by slot. Or the caller waits.
    pub(super) fn stage(&mut self, text: &str) -> Result<(), Error> {
        if self.block.staged.is_none() {
            self.hold_definitions()?;
        }
        let (mut schema, effect) = apply(&self.worker.version.schema, text, self.checks_bodies)?;
        self.worker.machine.services.notices.extend(schema.take_notices());
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
        // After an error the transaction can only go back, to before the changes of this.
        let ran = self.stage_step(text, schema, effect, &mut staged);
        self.block.staged = Some(staged);
        ran
    }

    fn stage_step(
        &mut self,
        text: &str,
        schema: Schema,
        effect: Effect,
        staged: &mut Staged,
    ) -> Result<(), Error> {
        let mut writes = Vec::new();
        each_effect(&effect, &mut |effect| self.make_ready(effect, staged, &mut writes))?;
        let mut tables = self.worker.workspace.tables().clone();
        staged.count_sequences(&effect);
        each_effect(&effect, &mut |effect| self.stage_effect(effect, staged, &mut tables))?;
        staged.steps.push(Step { text: text.into(), effect, writes });
        self.enter_private(staged, schema, tables);
        Ok(())
    }

    /// Runs later statements under private definitions.
    fn enter_private(&mut self, staged: &Staged, schema: Schema, tables: Tables) {
        // What the transaction has observed in earlier private tables is there until it ends.
        self.block.retired.push(self.worker.workspace.tables().clone());
        let number = NEXT_PRIVATE.fetch_add(1, Ordering::Relaxed);
        self.worker.enter_version(Arc::new(Version::new(number, schema, tables)));
        self.count_by(staged);
    }

    fn count_by(&mut self, staged: &Staged) {
        let shared = Source::new(Arc::clone(&self.worker.inner), staged.base.tables.clone());
        let counters = Arc::clone(&staged.counters);
        self.worker.machine.count_by(Arc::new(StagedSequences { counters, shared }));
    }

    /// Makes the tables ready that an effect changes or looks at: they get no pending writes. Appends the
    /// writes that they had to `writes`.
    fn make_ready(
        &mut self,
        effect: &Effect,
        staged: &mut Staged,
        writes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match effect {
            Effect::DropTable(table) if self.worker.workspace.has_written(table.id) => {
                self.refuse_pending_checks(table.id, "DROP TABLE")?;
                // Nothing of its rows remains, so no log needs them.
                self.worker.workspace.set_aside(table.id);
            }
            Effect::Redefine(table) => {
                let known = self.worker.workspace.tables().by_id(table.id);
                let Some(known) = known.map(|store| Arc::clone(store.definition())) else { return Ok(()) };
                self.count_changed(&known, table, staged)?;
                let mut added = indexes_beside(table, &known);
                let is_checked = added.any(Index::is_key);
                let changes_indexes = is_checked
                    || indexes_beside(table, &known).next().is_some()
                    || indexes_beside(&known, table).next().is_some();
                let is_written = changes_indexes && self.worker.workspace.has_written(table.id);
                if !staged.is_private(table.id) && (is_checked || is_written) {
                    self.exclude_others(staged)?;
                    staged.touched.private.insert(table.id);
                }
                if is_written {
                    self.set_apart(table.id, writes)?;
                }
            }
            Effect::Rebuild(rebuild) => self.make_ready_to_rebuild(effect, rebuild, staged, writes)?,
            Effect::DropTable(_) | Effect::CreateTable(_) | Effect::None => {}
            Effect::All(_) | Effect::Run(_) => {}
        }
        Ok(())
    }

    /// Counts a sequence in this transaction, from where it stands, if the transaction changes its numbers.
    fn count_changed(&mut self, known: &Table, new: &Table, staged: &mut Staged) -> Result<(), Error> {
        let numbers = |table: &Table| {
            let own = table.sequence.as_ref();
            own.map(|own| (own.increment, own.least, own.greatest, own.cycles))
        };
        if numbers(known) == numbers(new) || staged.counters.has(new.id) {
            return Ok(());
        }
        self.exclude_others(staged)?;
        Taking { inner: &self.worker.inner, tables: &staged.base.tables }.give_back_one(new.id)?;
        let tables = self.worker.workspace.tables().clone();
        staged.counters.read(tables.store(new.id), self.worker.workspace.worker().guard());
        staged.touched.private.insert(new.id);
        Ok(())
    }

    fn make_ready_to_rebuild(
        &mut self,
        effect: &Effect,
        rebuild: &Rebuild,
        staged: &mut Staged,
        writes: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let sequences = rebuild.sequences();
        for sequence in &sequences {
            if let Some(row) = staged.counters.row_of(*sequence) {
                self.store_number(*sequence, &row)?;
            }
        }
        let parents = rebuild.references.iter().map(|reference| reference.parent.id);
        let tables: Vec<TableId> = std::iter::once(rebuild.old.id).chain(parents).chain(sequences).collect();
        let has_written = |table: &TableId| self.worker.workspace.has_written(*table);
        let is_written = tables.iter().any(has_written);
        let is_private = staged.is_private(rebuild.old.id);
        if !is_private && !is_written && !rebuild.depends_on_rows() {
            return Ok(());
        }
        let looks_at_earlier =
            tables.iter().any(|table| *table != rebuild.new.id && !staged.is_private(*table));
        if looks_at_earlier && (!is_private || self.has_rows(rebuild.old.id)) {
            self.exclude_others(staged)?;
            Taking { inner: &self.worker.inner, tables: &staged.base.tables }.give_back_for(effect)?;
        }
        for table in tables {
            if self.worker.workspace.has_written(table) {
                self.set_apart(table, writes)?;
                staged.touched.private.insert(table);
            }
        }
        staged.touched.private.insert(rebuild.new.id);
        Ok(())
    }

    /// Returns whether the transaction sees rows in one of its private tables, or has seen some.
    pub(super) fn has_rows(&mut self, table: TableId) -> bool {
        let tables = self.worker.workspace.tables().clone();
        let guard = self.worker.workspace.worker().guard();
        tables.by_id(table).is_some_and(|store| store.for_each_record(guard, |_| Err(())).is_err())
    }

    /// Describes the writes to a table for the log, and goes on with a copy of it.
    fn set_apart(&mut self, table: TableId, writes: &mut Vec<u8>) -> Result<(), Error> {
        self.refuse_pending_checks(table, "ALTER TABLE")?;
        self.describe_writes(Some(table), writes);
        self.block.retired.push(self.worker.workspace.tables().clone());
        Ok(self.worker.workspace.set_apart(table)?)
    }

    fn stage_effect(
        &mut self,
        effect: &Effect,
        staged: &mut Staged,
        tables: &mut Tables,
    ) -> Result<(), Error> {
        let touched = &mut staged.touched;
        match effect {
            Effect::CreateTable(table) => _ = touched.private.insert(table.id),
            Effect::DropTable(table) => {
                // The transaction may have read its rows; the commit validates these reads.
                touched.deferred.remove(&table.id);
                return Ok(());
            }
            Effect::Redefine(table) if !touched.private.contains(&table.id) => {
                let known = tables.by_id(table.id).map(|store| Arc::clone(store.definition()));
                let adds = known.is_none_or(|known| indexes_beside(table, &known).next().is_some());
                if adds || touched.deferred.contains(&table.id) {
                    touched.deferred.insert(table.id);
                    touched.pending.push(effect.clone());
                    return Ok(());
                }
            }
            Effect::Rebuild(rebuild) if !touched.private.contains(&rebuild.new.id) => {
                touched.deferred.remove(&rebuild.old.id);
                touched.deferred.insert(rebuild.new.id);
                touched.pending.push(effect.clone());
                return Ok(());
            }
            Effect::Redefine(_) | Effect::Rebuild(_) | Effect::None | Effect::All(_) | Effect::Run(_) => {}
        }
        tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
        if let Effect::Rebuild(rebuild) = effect {
            // From here on the transaction counts these sequences itself, if no other one can. Otherwise the
            // table has no rows, so the definition has drawn no numbers.
            let counts = |own: &TableId| staged.alone.is_some() || staged.counters.has(*own);
            for sequence in rebuild.sequences().into_iter().filter(counts) {
                staged.counters.read(tables.store(sequence), self.worker.workspace.worker().guard());
                staged.touched.private.insert(sequence);
            }
        }
        Ok(())
    }

    /// Lets no other transaction run from now on, because the next statements complete a definition.
    ///
    /// # Errors
    /// As `exclude_others`.
    pub(super) fn shut_others_out(&mut self) -> Result<(), Error> {
        let Some(mut staged) = self.block.staged.take() else { return Ok(()) };
        let alone = self.go_on_alone(&mut staged);
        self.block.staged = Some(staged);
        alone
    }

    /// Lets no other transaction run from now on, and goes on under the definitions with the deferred
    /// changes.
    fn go_on_alone(&mut self, staged: &mut Staged) -> Result<(), Error> {
        self.exclude_others(staged)?;
        let (schema, tables) = (self.worker.version.schema.clone(), self.worker.workspace.tables().clone());
        self.enter_private(staged, schema, tables);
        Ok(())
    }

    /// Waits until no other transaction is open, and lets none begin until this one ends. Makes
    /// the deferred changes: there is nothing to wait for any more.
    ///
    /// # Errors
    /// `55P03`: transactions stay open.
    fn exclude_others(&mut self, staged: &mut Staged) -> Result<(), Error> {
        if staged.alone.is_none() {
            let patience = self.worker.patience(&self.settings());
            staged.alone = Some(self.run_alone_from_now(&patience)?);
        }
        if staged.touched.pending.is_empty() {
            return Ok(());
        }
        let mut tables = self.worker.workspace.tables().clone();
        self.block.retired.push(tables.clone());
        for effect in std::mem::take(&mut staged.touched.pending) {
            tables.apply(&effect, staged.applying(), self.worker.workspace.worker().guard())?;
        }
        staged.touched.private.append(&mut staged.touched.deferred);
        self.worker.workspace.set_tables(tables);
        Ok(())
    }

    /// Makes the deferred changes if a statement uses one of their tables, or may run text that does.
    ///
    /// # Errors
    /// As `exclude_others`.
    pub(super) fn make_deferred_for(&mut self, procedure: &Procedure) -> Result<(), Error> {
        let Some(mut staged) = self.block.staged.take() else { return Ok(()) };
        let mut uses = procedure.runs_text();
        procedure.for_each_table(&mut |table| uses |= staged.touched.deferred.contains(&table.id));
        let mut made = Ok(());
        if uses && !staged.touched.deferred.is_empty() {
            made = self.go_on_alone(&mut staged);
        }
        self.block.staged = Some(staged);
        made
    }

    /// Returns the changed definitions, for a savepoint; `None` if there are none.
    pub(super) fn mark_staged(&self) -> Option<Box<StagedMark>> {
        let staged = self.block.staged.as_ref()?;
        Some(Box::new(StagedMark {
            steps: staged.steps.len(),
            touched: staged.touched.clone(),
            counters: staged.counters.places(),
            version: Arc::clone(&self.worker.version),
        }))
    }

    /// Takes the definitions back that were changed since a savepoint. The writes since are undone already.
    pub(super) fn roll_back_staged(&mut self, mark: Option<&StagedMark>) {
        let Some(mut staged) = self.block.staged.take() else { return };
        self.block.retired.push(self.worker.workspace.tables().clone());
        let Some(mark) = mark else {
            staged.readmit_others(&self.worker.inner);
            self.worker.enter_version(Arc::clone(&staged.base));
            let shared = Source::new(Arc::clone(&self.worker.inner), staged.base.tables.clone());
            self.worker.machine.count_by(Arc::new(shared));
            return;
        };
        staged.steps.truncate(mark.steps);
        staged.touched = mark.touched.clone();
        staged.counters.go_back_to(&mark.counters);
        self.worker.enter_version(Arc::clone(&mark.version));
        self.count_by(&staged);
        self.block.staged = Some(staged);
    }

    /// Frees the private tables of a transaction that has ended. `retired` begins with those of the version
    /// that the transaction had found.
    pub(super) fn free_private(&self, retired: &[Tables]) {
        let Some(base) = retired.first() else { return };
        let current = self.worker.inner.definitions.current();
        retired.iter().for_each(|tables| tables.give_way_to_both(base, &current.tables));
    }
}
