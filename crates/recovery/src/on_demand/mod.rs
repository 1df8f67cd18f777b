//! Rows that are brought back when a transaction first looks for them: from the blocks of the checkpoint, and
//! from the writes of a log by value.
//! Paper: DistDGCC §4.1 (on-demand recovery).
//!
//! 1. `PendingRows::of_checkpoint`, `of_writes` and `of_slots` read the directories of all parts, and the
//!    latter two the records of the log. They divide each table into granules: ranges of the primary key,
//!    each within one block of the checkpoint, with the places of the writes to its rows. They read no row.
//! 2. A thread that looks for a row brings back its granule, unless another one does: then it waits for that
//!    one. A row goes into the table once, as the block and all writes leave it. A look into a secondary
//!    index needs the whole table, because any row may belong there.
//! 3. Background threads bring back the granules in which no transaction looks (`Pending::recover_next`),
//!    after those that a look into many granules waits for (`demands`).
//!
//! Invariant: the rows of a granule go into their table once, by one thread at a time, each into all indexes.
//! A thread that fails leaves the granule to the next one, which goes on behind the rows that are there.
//! Held by: `crates/reprise/tests/suite/on_demand`.
//! Commands are executed on demand (`commands`), by `clr-p`; other methods execute them before the database
//! opens.

mod bounds;
mod commands;
mod definitions;
mod demands;
mod filling;
mod log_rows;
mod merge;
mod places;
mod slots;
mod writes;

pub(crate) use commands::PendingCommands;

use crate::find::Found;
use crate::replay::{Fates, ReplayContext};
use crate::{RecoveryError, Stage};
use bounds::Bounds;
use catalog::{CommitOrder, TableId};
use checkpoint::{CheckpointError, Manifest, PartBlocks, PartRow};
use definitions::changes_rows;
use demands::Demands;
use filling::{Filling, Granule, LOADED, LOADING, WAITING};
use log_rows::{LogRows, OverGranule};
use logging::content::RecordKind;
use logging::{CorruptionKind, LogError};
use procedure::{Interrupts, ScanRange, SqlError};
use slots::{LogSlots, UsedSlots};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use storage::{Guard, Memory, TableStore, Worker};
use transaction::{Intent, Place, RowsOnDemand};
use writes::LogWrites;

/// Time after which a thread that waits for another one looks whether it is interrupted.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The granules of a table.
#[derive(Debug)]
struct PendingTable {
    /// The table, until all its granules are loaded: it may be dropped afterwards.
    store: Mutex<Option<Arc<TableStore>>>,
    bounds: Bounds,
    granules: Vec<Granule>,
    /// The number of granules that are not loaded.
    left: AtomicUsize,
    /// The slots of the loaded rows, where the log has slots.
    slots: Option<UsedSlots>,
}

/// What recovery has still to do.
pub trait Pending: RowsOnDemand {
    /// Returns the bytes of the checkpoint and of the log that are not recovered.
    fn bytes_left(&self) -> u64;

    /// Recovers a part that is not recovered. Returns false at the end of a round over all parts.
    ///
    /// # Errors
    /// The disk fails; a file is damaged; memory is short. The round goes on with the next part.
    fn recover_next(&self, worker: &mut Worker) -> Result<bool, RecoveryError>;

    /// Makes the limit of memory hold once all is recovered. Called once.
    fn limit_at_end(&self, memory: &Arc<Memory>);

    /// Returns whether the log is replayed on demand, too.
    fn replays(&self) -> bool;
}

/// The rows that recovery has still to bring back.
#[derive(Debug)]
pub(crate) struct PendingRows {
    parts: Vec<PartBlocks>,
    tables: HashMap<TableId, PendingTable>,
    /// The writes of the log, until all rows are loaded; `None` where the log is replayed before the database
    /// opens.
    writes: Mutex<Option<Arc<LogRows>>>,
    /// The order of rows of the checkpoint that have none of their own.
    order: CommitOrder,
    /// The number of granules that are not loaded.
    left: AtomicUsize,
    /// The bytes that are read for them.
    bytes_left: AtomicU64,
    /// The granules in the order in which background threads load them.
    queue: Vec<(TableId, usize)>,
    /// The next one in that order.
    next: AtomicUsize,
    /// The looks into many granules, which come before that order.
    demands: Demands,
    /// The memory whose limit holds once all rows are loaded.
    memory: Mutex<Option<Arc<Memory>>>,
    /// Held while a thread begins to wait for a granule that another one loads.
    waiting: Mutex<()>,
    /// Signalled when a granule is no longer being loaded.
    changed: Condvar,
}

impl PendingRows {
    /// Finds the rows of the checkpoint, whose tables are empty, for a method that replays the log over them.
    /// Returns `None` if the format of the checkpoint has no directory.
    ///
    /// # Errors
    /// The disk fails; a part is missing, damaged, or of another checkpoint.
    pub(crate) fn of_checkpoint(
        found: &Found<'_>,
        context: &ReplayContext<'_>,
    ) -> Result<Option<Self>, RecoveryError> {
        let Some(parts) = parts_of(found)? else { return Ok(None) };
        let bounds = bounds_of(&parts, HashMap::new(), found, context)?;
        Self::new(parts, bounds, None, context).map(Some)
    }

    /// Finds the rows of the checkpoint, and the writes of a log by value. Returns `None` if the format of
    /// the checkpoint has no directory, if the log has anything else, or if a definition of the log changes a
    /// table that has rows by then; nothing has happened then. Otherwise all definitions are applied.
    /// Where every write must be of a whole row, the log may be arranged by device.
    ///
    /// # Errors
    /// The disk fails; a file is missing, damaged, or of another checkpoint; a definition or a write of the
    /// log does not fit.
    pub(crate) fn of_writes(
        found: &Found<'_>,
        needs_whole_rows: bool,
        context: &mut ReplayContext<'_>,
    ) -> Result<Option<Self>, RecoveryError> {
        let log = &found.log;
        if !writes::are_writes(log.kinds.iter()) {
            return Ok(None);
        }
        let Some(parts) = parts_of(found)? else { return Ok(None) };
        if !apply_definitions(found, context)? {
            return Ok(None);
        }
        let has_operations = log.kinds.contains(&RecordKind::Operation);
        let fates = has_operations.then(|| Fates::of(log, context.from));
        let keys = writes::sampled_keys(log, fates.as_ref(), &context.tables)?;
        let bounds = bounds_of(&parts, of_each_table(keys, context), found, context)?;
        let writes = LogWrites::sort(log, &bounds, needs_whole_rows, fates.as_ref(), context)?;
        context.undone = fates.map(|fates| fates.undone()).unwrap_or_default();
        Self::new(parts, bounds, Some(LogRows::Writes(writes)), context).map(Some)
    }

    /// Finds the rows of the checkpoint and of a physical log. Returns `None` as `of_writes` does, and if the
    /// directory of a part has no slots.
    ///
    /// # Errors
    /// As `of_writes`.
    pub(crate) fn of_slots(
        found: &Found<'_>,
        context: &mut ReplayContext<'_>,
    ) -> Result<Option<Self>, RecoveryError> {
        let log = &found.log;
        let Some(parts) = parts_of(found)? else { return Ok(None) };
        if parts.iter().any(|part| part.end_of_slots().is_none()) || !apply_definitions(found, context)? {
            return Ok(None);
        }
        let keys = slots::sampled_keys(log, &context.tables)?;
        let bounds = bounds_of(&parts, of_each_table(keys, context), found, context)?;
        let slots = LogSlots::sort(log, &bounds, context)?;
        Self::new(parts, bounds, Some(LogRows::Slots(slots)), context).map(Some)
    }

    fn new(
        parts: Vec<PartBlocks>,
        bounds: HashMap<TableId, Bounds>,
        writes: Option<LogRows>,
        context: &ReplayContext<'_>,
    ) -> Result<Self, RecoveryError> {
        let (mut tables, mut queue) = (HashMap::new(), Vec::new());
        let mut blocks = blocks_of(&parts);
        for (id, bounds) in bounds {
            let store = Arc::clone(context.tables.by_id(id).expect("`bounds_of` has found it"));
            let blocks = blocks.remove(&id).unwrap_or_default();
            let mut granules: Vec<Granule> = Vec::new();
            for number in 0..bounds.count() {
                // The last block that does not begin above the granule; or the first one.
                let lower = bounds.lower(number);
                let first_key = |(part, block): &(u32, u32)| parts[*part as usize].first_key(*block as usize);
                let above = blocks.partition_point(|block| first_key(block) <= lower);
                let block = blocks.get(above.saturating_sub(1)).copied();
                let before = granules.last_mut().filter(|before| block.is_some() && before.block == block);
                let shares_block = before.is_some();
                before.into_iter().for_each(|before| before.shares_block = true);
                let own_block = block.filter(|_| !shares_block);
                let of_block =
                    own_block.map_or(0, |(part, block)| parts[part as usize].bytes(block as usize));
                let of_log = writes.as_ref().map_or(0, |own| own.bytes(id, number));
                granules.push(Granule {
                    state: AtomicU8::new(WAITING),
                    loaded: AtomicU32::new(0),
                    block,
                    shares_block,
                    bytes: of_block + of_log,
                });
            }
            queue.extend((0..granules.len()).map(|granule| (id, granule)));
            let left = AtomicUsize::new(granules.len());
            let slots = match &writes {
                Some(LogRows::Slots(own)) => {
                    let ends =
                        parts.iter().filter(|part| part.table == id).filter_map(PartBlocks::end_of_slots);
                    let end = ends.max().unwrap_or(0).max(own.end_of(id));
                    store.slots().map(|slots| UsedSlots::begin(end, slots))
                }
                _ => None,
            };
            let store = Mutex::new(Some(store));
            tables.insert(id, PendingTable { store, bounds, granules, left, slots });
        }
        // File after file, as the disk reads them fastest.
        queue.sort_by_key(|(table, granule)| (tables[table].granules[*granule].block, *table, *granule));
        let bytes_left = tables.values().flat_map(|table| &table.granules).map(|granule| granule.bytes).sum();
        Ok(Self {
            parts,
            tables,
            writes: Mutex::new(writes.map(Arc::new)),
            order: CommitOrder(context.from.0.saturating_sub(1)),
            left: AtomicUsize::new(queue.len()),
            bytes_left: AtomicU64::new(bytes_left),
            queue,
            next: AtomicUsize::new(0),
            demands: Demands::default(),
            memory: Mutex::default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Returns whether all rows are loaded.
    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Frees the log, and makes the limit of memory hold.
    fn end(&self) {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(memory) = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take() {
            memory.allow_beyond_limit(0);
        }
    }

    /// Loads a granule that the caller has claimed.
    fn load(&self, table: &PendingTable, number: usize, guard: &Guard) -> Result<(), RecoveryError> {
        let granule = &table.granules[number];
        // A thread that fails, or panics, leaves the granule to the next one.
        let mut ends = Ends { rows: self, granule, state: WAITING };
        self.load_rows(table, number, guard)?;
        ends.state = LOADED;
        self.bytes_left.fetch_sub(granule.bytes, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of `is_done` and `recover`: who sees that nothing is left
        // sees all rows.
        // Acquire: the last one sees the slots of all rows.
        if table.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let store = table.store.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(used), Some(slots)) = (&table.slots, store.as_ref().and_then(|store| store.slots()))
            {
                used.end(slots);
            }
        }
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.end();
        }
        Ok(())
    }

    /// Returns once a granule is loaded, by this thread or another one.
    ///
    /// # Errors
    /// As `RowsOnDemand::recover`.
    fn ensure(
        &self,
        table: &PendingTable,
        number: usize,
        guard: &Guard,
        interrupts: &Interrupts,
    ) -> Result<(), SqlError> {
        let granule = &table.granules[number];
        while granule.state.load(Ordering::Acquire) != LOADED {
            interrupts.check()?;
            match granule.try_claim() {
                Ok(_) => return self.load(table, number, guard).map_err(not_recovered),
                Err(LOADED) => return Ok(()),
                Err(_) => {
                    let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    if granule.state.load(Ordering::Relaxed) == LOADING {
                        let woken = self.changed.wait_timeout(waiting, LOOK_AGAIN);
                        drop(woken.unwrap_or_else(PoisonError::into_inner));
                    }
                }
            }
        }
        Ok(())
    }

    fn load_rows(&self, table: &PendingTable, number: usize, guard: &Guard) -> Result<(), RecoveryError> {
        let store = table.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let store = store.expect("it has a granule that is not loaded");
        let (granule, definition) = (&table.granules[number], store.definition());
        let mut filling = Filling::new(&store, granule, table.slots.as_ref(), guard);
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut over = match &writes {
            Some(log) => log.over(definition, number)?,
            None => OverGranule::default(),
        };
        if let Some((part, block)) = granule.block {
            let (part, block) = (&self.parts[part as usize], block as usize);
            let upper = (number + 1 < table.bounds.count()).then(|| table.bounds.lower(number + 1));
            let needs_key = granule.shares_block || !over.is_empty();
            let mut key = Vec::new();
            part.read(block, |PartRow { order, slot, words }| {
                if words.len() < definition.layout.fixed_words() {
                    let error = "a row is shorter than the rows of its table";
                    return Err(part.malformed(block, error).into());
                }
                let order = order.unwrap_or(self.order);
                let twice = || part.malformed(block, "a row occurs twice").into();
                if !needs_key {
                    return filling.put(slot, order, words, twice);
                }
                filling.key_of(words, &mut key);
                let is_here = key.as_slice() >= table.bounds.lower(number)
                    && upper.is_none_or(|upper| key.as_slice() < upper);
                match is_here.then(|| over.row(&key, slot, order, words)).transpose()?.flatten() {
                    Some((order, words)) => filling.put(slot, order, words, twice),
                    None => Ok(()),
                }
            })?;
        }
        over.rows_of_log(|slot, order, words| filling.put(slot, order, words, || crate::replay::unfit(order)))
    }

    /// Returns the granules of a table in which a place may have rows.
    fn granules_at(table: &PendingTable, place: Place<'_>) -> Range<usize> {
        let bounds = &table.bounds;
        match place {
            Place::Key(key) => bounds.granule_of(key)..bounds.granule_of(key) + 1,
            Place::Range(ScanRange { index: 0, lower, upper, .. }) => {
                let first = bounds.granule_of(lower);
                first..upper.map_or(bounds.count(), |upper| bounds.end_below(upper)).max(first + 1)
            }
            Place::Range(_) | Place::Table => 0..bounds.count(),
        }
    }
}

impl Pending for PendingRows {
    fn bytes_left(&self) -> u64 {
        self.bytes_left.load(Ordering::Relaxed)
    }

    fn recover_next(&self, worker: &mut Worker) -> Result<bool, RecoveryError> {
        let in_order = || self.queue.get(self.next.fetch_add(1, Ordering::Relaxed)).copied();
        let Some((table, granule)) = self.demands.next().or_else(in_order) else {
            self.next.store(0, Ordering::Relaxed);
            return Ok(false);
        };
        let table = &self.tables[&table];
        if table.granules[granule].try_claim().is_ok() {
            self.load(table, granule, &worker.enter())?;
            worker.reclaim();
        }
        Ok(true)
    }

    fn limit_at_end(&self, memory: &Arc<Memory>) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(memory));
        if self.is_done() {
            self.end();
        }
    }

    fn replays(&self) -> bool {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl RowsOnDemand for PendingRows {
    fn is_pending(&self) -> bool {
        !self.is_done()
    }

    fn recover(
        &self,
        table: TableId,
        place: Place<'_>,
        intent: Intent,
        guard: &Guard,
        interrupts: &Interrupts,
    ) -> Result<(), SqlError> {
        if self.is_done() {
            return Ok(());
        }
        // Who adds a unique key has looked for it before; any entry beside it may come later.
        if intent == Intent::Write && matches!(place, Place::Range(ScanRange { index: 1.., .. })) {
            return Ok(());
        }
        // Nothing is pending in other tables.
        let (id, Some(table)) = (table, self.tables.get(&table)) else { return Ok(()) };
        if table.left.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let mut granules = Self::granules_at(table, place);
        if granules.len() > 1 {
            // Background threads help; what they still load at the end is waited for below.
            let look = self.demands.begin(id, granules.clone());
            while let Some(granule) = look.next() {
                interrupts.check()?;
                if table.granules[granule].try_claim().is_ok() {
                    self.load(table, granule, guard).map_err(not_recovered)?;
                }
            }
        }
        granules.try_for_each(|granule| self.ensure(table, granule, guard, interrupts))
    }

    fn recover_all(&self, worker: &mut Worker) -> Result<(), SqlError> {
        // First the granules that no thread loads, then those that were being loaded.
        for states in [&[WAITING][..], &[WAITING, LOADING]] {
            for (table, granule) in &self.queue {
                let table = &self.tables[table];
                if states.contains(&table.granules[*granule].state.load(Ordering::Relaxed)) {
                    self.ensure(table, *granule, &worker.enter(), &Interrupts::default())?;
                }
            }
        }
        Ok(())
    }
}

/// Opens the parts of the checkpoint.
fn parts_of(found: &Found<'_>) -> Result<Option<Vec<PartBlocks>>, RecoveryError> {
    let Some(manifest) = &found.manifest else { return Ok(Some(Vec::new())) };
    Ok(PartBlocks::of(&found.disk, found.folder, manifest)?)
}

/// Returns the blocks of each table, ascending by primary key.
fn blocks_of(parts: &[PartBlocks]) -> HashMap<TableId, Vec<(u32, u32)>> {
    let mut blocks: HashMap<_, Vec<(u32, u32)>> = HashMap::new();
    for (part, own) in (0..).zip(parts) {
        blocks.entry(own.table).or_default().extend((0..own.count() as u32).map(|block| (part, block)));
    }
    let first_key = |(part, block): &(u32, u32)| parts[*part as usize].first_key(*block as usize);
    blocks.values_mut().for_each(|own| own.sort_by(|a, b| first_key(a).cmp(first_key(b))));
    blocks
}

/// Applies all definitions of the log, and begins to count its records. Returns false, and does nothing, if
/// one of them changes a table that has rows by then.
fn apply_definitions(found: &Found<'_>, context: &mut ReplayContext<'_>) -> Result<bool, RecoveryError> {
    let planned = context.plan_statements()?;
    if changes_rows(found, &planned)? {
        return Ok(false);
    }
    context.progress.begin(Stage::Replay, found.log.len() as u64);
    context.apply_planned(planned)?;
    context.tables.epochs.advance_to(found.log.last_order().epoch());
    Ok(true)
}

/// Adds the tables without keys: each is written by some record of the log, perhaps.
fn of_each_table(
    mut keys: HashMap<TableId, Vec<Vec<u8>>>,
    context: &ReplayContext<'_>,
) -> HashMap<TableId, Vec<Vec<u8>>> {
    context.tables.iter().for_each(|store| _ = keys.entry(store.definition().id).or_default());
    keys
}

/// Divides the tables where blocks begin and at further keys.
fn bounds_of(
    parts: &[PartBlocks],
    mut keys: HashMap<TableId, Vec<Vec<u8>>>,
    found: &Found<'_>,
    context: &ReplayContext<'_>,
) -> Result<HashMap<TableId, Bounds>, RecoveryError> {
    for (table, blocks) in blocks_of(parts) {
        if context.tables.by_id(table).is_none() {
            let kind = CorruptionKind::Malformed("the table of a part is not defined");
            return Err(LogError::corrupt(&Manifest::path(found.folder), 0, kind).into());
        }
        // The first granule of a table has its first block.
        let firsts = blocks.iter().skip(1);
        let firsts = firsts.map(|(part, block)| parts[*part as usize].first_key(*block as usize).to_vec());
        keys.entry(table).or_default().extend(firsts);
    }
    Ok(keys.into_iter().map(|(table, keys)| (table, Bounds::at(keys))).collect())
}

/// Returns the error of an access whose rows cannot be recovered now.
fn not_recovered(error: RecoveryError) -> SqlError {
    if let RecoveryError::Unreachable(error) = error {
        return error;
    }
    let (sqlstate, hint) = match &error {
        RecoveryError::Checkpoint(CheckpointError::Disk(LogError::Io { .. })) => {
            ("58030", "Repair the disk; the rows are then loaded.")
        }
        RecoveryError::OutOfMemory(_) | RecoveryError::Checkpoint(CheckpointError::Memory(_)) => {
            ("53200", "Delete rows, or raise the memory limit.")
        }
        _ => ("XX001", "Restore the file from a backup, and open the database again."),
    };
    SqlError::new(sqlstate, format!("a row cannot be recovered: {error}")).with_hint(hint)
}

/// Ends the loading of a granule, and wakes those who wait for it.
struct Ends<'r> {
    rows: &'r PendingRows,
    granule: &'r Granule,
    /// The state that it leaves.
    state: u8,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `try_claim` and `ensure`.
        self.granule.state.store(self.state, Ordering::Release);
        drop(self.rows.waiting.lock());
        self.rows.changed.notify_all();
    }
}
