//! All tables in memory, by number, with what is common to them.

mod counters;
mod rebuild;

pub use counters::{CounterPlaces, Counters, SequenceRow, check_bounds, exhausted};

use crate::aborts::AbortCounters;
use crate::concurrency::{Concurrency, Optimistic, Scheme};
use crate::garbage::Garbage;
use crate::holds::Holds;
use crate::on_demand::{Intent, Place, RowsOnDemand};
use catalog::{Arena, CommitOrder, Table, TableId};
use logging::{AccessNumbers, Numbering, Readable};
use procedure::{Effect, Interrupts, SqlError};
use std::sync::{Arc, Mutex};
use storage::{
    DuplicateKey, Epochs, Guard, LeafChange, Memory, Record, RowWords, Slots, Snapshots, TableStore, Worker,
};

/// When a definition is applied.
#[derive(Clone, Copy, Debug)]
pub struct Applying {
    /// What `now()` is, in microseconds since 2000-01-01 UTC.
    pub timestamp_us: i64,
    /// What randomness follows from.
    pub seed: u64,
    /// Whether it is new, so that rows may not fit it.
    pub is_new: bool,
}

pub(crate) fn duplicate_in(table: &Table, DuplicateKey { index, key }: DuplicateKey) -> SqlError {
    let name = &table.indexes[index].name;
    SqlError::new("23505", format!("could not create unique index \"{name}\""))
        .with_detail(format!("{key} is duplicated."))
        .with_constraint(table, name)
}

/// The number of the first table that is set aside.
const SET_ASIDE: u32 = 1 << 31;

/// The data of a database. Cheap to clone; a definition change makes a new one.
#[derive(Clone, Debug)]
pub struct Tables {
    stores: Vec<Option<Arc<TableStore>>>,
    /// Tables that the open transaction has written before it changed their definitions. No definition names
    /// them; the write set does, until the transaction ends.
    set_aside: Vec<Arc<TableStore>>,
    /// The clock.
    pub epochs: Arc<Epochs>,
    /// Where rows and indexes live.
    pub memory: Arc<Memory>,
    /// The open snapshots.
    pub snapshots: Arc<Snapshots>,
    /// Whether records of new tables have slots.
    slotted: bool,
    /// The scheme of concurrency control; optimistic in replay.
    pub(crate) discipline: &'static dyn Concurrency,
    /// The last readers of rows and the last transactions that took index entries away; `None` in replay.
    pub(crate) access_numbers: Option<Arc<AccessNumbers>>,
    /// The rows that running transactions hold.
    pub holds: Arc<Holds>,
    /// The aborts of all workers.
    pub aborts: Arc<AbortCounters>,
    /// What workers that are gone have left to clean up.
    pub(crate) orphans: Arc<Mutex<Vec<Garbage>>>,
    /// The rows that recovery has still to bring back; `None` where it has brought back all.
    on_demand: Option<Arc<dyn RowsOnDemand>>,
}

impl Tables {
    /// No tables yet.
    pub fn new(epochs: Arc<Epochs>, memory: Arc<Memory>) -> Self {
        let holds = Arc::new(Holds::new(epochs.capacity(), Optimistic.deadlocks()));
        Self {
            stores: Vec::new(),
            set_aside: Vec::new(),
            epochs,
            memory,
            snapshots: Arc::default(),
            slotted: false,
            discipline: &Optimistic,
            access_numbers: None,
            holds,
            aborts: Arc::default(),
            orphans: Arc::default(),
            on_demand: None,
        }
    }

    /// Says which rows are brought back when an access looks for them.
    #[must_use]
    pub fn recovered_on_demand(self, rows: Arc<dyn RowsOnDemand>) -> Self {
        Self { on_demand: Some(rows), ..self }
    }

    /// Returns once recovery has brought back the rows of a place; before a write, once it also reads them no
    /// more.
    ///
    /// # Errors
    /// As `RowsOnDemand::recover`.
    #[inline]
    pub fn recover(
        &self,
        table: TableId,
        place: Place<'_>,
        intent: Intent,
        guard: &Guard,
        interrupts: &Interrupts,
    ) -> Result<(), SqlError> {
        match &self.on_demand {
            None => Ok(()),
            Some(rows) => rows.recover(table, place, intent, guard, interrupts),
        }
    }

    /// Returns whether recovery has still to bring back rows.
    #[inline]
    pub(crate) fn has_pending_rows(&self) -> bool {
        self.on_demand.as_ref().is_some_and(|rows| rows.is_pending())
    }

    /// Returns once recovery has brought back all rows of a table, which a definition changes.
    pub(crate) fn recover_table(&self, table: TableId, guard: &Guard) -> Result<(), SqlError> {
        self.recover(table, Place::Table, Intent::Write, guard, &Interrupts::default())
    }

    /// Returns once recovery has brought back all rows.
    ///
    /// # Errors
    /// As `RowsOnDemand::recover`; `53300`: all workers are in use.
    pub fn recover_all(&self) -> Result<(), SqlError> {
        let Some(rows) = &self.on_demand else { return Ok(()) };
        let worker = Worker::new(self.epochs.clone(), self.memory.clone());
        let no_worker = || SqlError::new("53300", "all workers are in use");
        rows.recover_all(&mut worker.ok_or_else(no_worker)?)
    }

    /// Says where the numbers of transactions come from.
    #[must_use]
    pub fn numbered_by(self, numbering: &dyn Numbering) -> Self {
        Self { access_numbers: Some(Arc::new(AccessNumbers::new(numbering))), ..self }
    }

    /// Says which concurrency control transactions use from now on.
    #[must_use]
    pub fn controlled_by(self, scheme: Scheme) -> Self {
        let discipline = scheme.discipline();
        let holds = Arc::new(Holds::new(self.epochs.capacity(), discipline.deadlocks()));
        Self { discipline, holds, ..self }
    }

    /// Says that records of tables made from now on have slots.
    #[must_use]
    pub fn slotted(self) -> Self {
        Self { slotted: true, ..self }
    }

    /// Says that records of tables made from now on have no slots.
    #[must_use]
    pub fn unslotted(self) -> Self {
        Self { slotted: false, ..self }
    }

    /// Whether all records have slots.
    pub fn have_slots(&self) -> bool {
        self.slotted && self.iter().all(|store| store.has_slots())
    }

    /// Gives all records slots. No other session may be using the tables.
    #[must_use]
    pub fn with_slots(mut self, worker: &mut Worker) -> Self {
        let guard = worker.enter();
        for store in self.stores.iter_mut().flatten() {
            *store = Arc::new(store.with_slots(&guard));
        }
        self.slotted()
    }

    /// The data of a table.
    #[inline]
    pub fn store(&self, id: TableId) -> &TableStore {
        self.shared(id)
    }

    /// As `store`, shared.
    #[inline]
    pub(crate) fn shared(&self, id: TableId) -> &Arc<TableStore> {
        self.by_id(id).expect("a compiled operation's table is there")
    }

    /// The data of a table, shared.
    #[inline]
    pub fn by_id(&self, id: TableId) -> Option<&Arc<TableStore>> {
        match self.stores.get(id.0 as usize) {
            Some(store) => store.as_ref(),
            None => self.set_aside.get(id.0.checked_sub(SET_ASIDE)? as usize),
        }
    }

    /// Returns whether a number is that of a table that is set aside.
    pub(crate) fn is_set_aside(id: TableId) -> bool {
        id.0 >= SET_ASIDE
    }

    /// Keeps a table for the write set of the open transaction, under a number that no definition has.
    pub(crate) fn set_aside(&mut self, store: &Arc<TableStore>) -> TableId {
        self.set_aside.push(Arc::clone(store));
        TableId(SET_ASIDE + self.set_aside.len() as u32 - 1)
    }

    /// Whether records of new tables have slots.
    pub(crate) fn is_slotted(&self) -> bool {
        self.slotted
    }

    /// The data of a table by its definition.
    pub fn of(&self, table: &Table) -> &TableStore {
        self.store(table.id)
    }

    /// All tables, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TableStore>> {
        self.stores.iter().flatten()
    }

    /// Does to the data what a definition asks. No other session may be using the tables. Rows are checked
    /// where the definition is new, and not where a log says that it was made.
    ///
    /// # Errors
    /// `53200` out of memory; a row does not fit a new constraint.
    pub fn apply(&mut self, effect: &Effect, how: Applying, guard: &Guard) -> Result<(), SqlError> {
        let out_of_memory = |error: storage::OutOfMemory| SqlError::new("53200", error.to_string());
        match effect {
            Effect::None | Effect::Run(_) => {}
            Effect::CreateTable(table) => {
                let memory = Arc::clone(&self.memory);
                let slots = self.slotted.then(Slots::default);
                self.set(TableStore::new(Arc::clone(table), slots, memory, guard).map_err(out_of_memory)?);
            }
            Effect::Redefine(table) => {
                self.recover_table(table.id, guard)?;
                let changed = self.store(table.id).with_definition(Arc::clone(table), guard);
                match changed.map_err(out_of_memory)? {
                    Ok(store) => self.set(store),
                    Err(duplicate) => return Err(duplicate_in(table, duplicate)),
                }
            }
            Effect::Rebuild(rebuild) => {
                let parents = rebuild.references.iter().map(|reference| reference.parent.id);
                let read = std::iter::once(rebuild.old.id).chain(rebuild.sequences()).chain(parents);
                read.into_iter().try_for_each(|table| self.recover_table(table, guard))?;
                rebuild::apply(self, rebuild, how, guard)?;
            }
            Effect::DropTable(table) => {
                // The definitions may still fail, and the table stays.
                self.recover_table(table.id, guard)?;
                self.remove(table.id);
            }
            Effect::All(effects) => effects.iter().try_for_each(|effect| self.apply(effect, how, guard))?,
        }
        Ok(())
    }

    /// Adds a table's data, or replaces it.
    pub fn set(&mut self, store: TableStore) {
        self.share(&Arc::new(store));
    }

    /// Takes a dead record out of all indexes of its table. A transaction that has read that it is absent has
    /// then read the absence of what comes in its place. `on_change` as for `Index::remove_entry`.
    pub(crate) fn unlink(
        &self,
        store: &TableStore,
        record: Record<'_>,
        arena: &mut Arena,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) {
        if let Some(numbers) = &self.access_numbers {
            // A transaction that reads it from now on finds it dead, and does not commit.
            let readers = numbers.read_by(Readable::Row(record.address()));
            numbers.raise_read(Readable::Absence(store.definition().id), readers);
        }
        store.unlink(record, arena, on_change);
    }

    /// Forgets the older versions of a record that no snapshot needs, with the index entries that stood for
    /// them alone. The record is locked.
    pub(crate) fn drop_older(
        &self,
        store: &TableStore,
        record: Record<'_>,
        is_needed: impl Fn(CommitOrder, CommitOrder) -> bool,
    ) {
        let indexes = 1..store.definition().indexes.len();
        let (mut outdated, mut arena) = (Vec::new(), Arena::default());
        let on_drop = |row: RowWords<'_>| {
            for index in indexes.clone() {
                let mut key = Vec::new();
                store.key_of_row(index, row, &mut arena, &mut key);
                outdated.push((index, key));
            }
        };
        record.drop_older(is_needed, on_drop);
        let mut current = Vec::new();
        for (index, key) in outdated {
            store.key_of_row(index, record.row(), &mut arena, &mut current);
            if current == key || self.is_under(store, record, index, &key) {
                continue;
            }
            if let Some(numbers) = &self.access_numbers {
                // A transaction that finds nothing there depends on those that have written the row.
                numbers.raise_vacated(store.definition().id, record.locked_state().order());
                let readers = numbers.read_by(Readable::Row(record.address()));
                numbers.raise_read(Readable::Absence(store.definition().id), readers);
            }
            store.index_at(index).remove(&key, record.guard());
        }
    }

    /// Whether an older version of a record stands under a key of a secondary index. The record is locked.
    pub(crate) fn is_under(&self, store: &TableStore, record: Record<'_>, index: usize, key: &[u8]) -> bool {
        let (mut own, mut arena, mut found) = (Vec::new(), Arena::default(), false);
        record.for_each_older(|row| {
            store.key_of_row(index, row, &mut arena, &mut own);
            found |= own == key;
        });
        found
    }

    /// Adds a table's data that is shared with another set of tables.
    pub fn share(&mut self, store: &Arc<TableStore>) {
        let place = store.definition().id.0 as usize;
        if self.stores.len() <= place {
            self.stores.resize(place + 1, None);
        }
        self.stores[place] = Some(Arc::clone(store));
    }

    /// The database goes on with `next`: records that are not in its tables are freed with their last user.
    pub fn give_way_to(&self, next: &Self) {
        self.give_way_to_both(next, next);
    }

    /// The database goes on with `next` or with `current`, of which one is the version before the other:
    /// records of no table of them, as those of a transaction's private tables, are freed with their last
    /// user.
    pub fn give_way_to_both(&self, current: &Self, next: &Self) {
        let has = |tables: &Self, store: &TableStore| {
            tables.by_id(store.definition().id).is_some_and(|own| own.shares_records_with(store))
        };
        let goes = |store: &&Arc<TableStore>| !has(current, store) && !has(next, store);
        self.iter().chain(&self.set_aside).filter(goes).for_each(|store| store.abandon());
    }

    /// Forgets a table's data.
    pub fn remove(&mut self, id: TableId) {
        if let Some(store) = self.stores.get_mut(id.0 as usize) {
            *store = None;
        }
    }
}
