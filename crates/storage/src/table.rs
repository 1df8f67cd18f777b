//! A table in memory: its records and indexes.
//!
//! Invariant: every record is in the primary index under its key, and in every other index at least under its
//! current row's key. Entries of earlier rows stay until they are cleaned up; a reader compares the row to
//! tell them apart.

use crate::{
    Added, Cursor, Direction, Fingers, Guard, Index, LeafChange, LeafObservation, Linked, Memory, NewState,
    OutOfMemory, Record, RecordState, RowWords, Slots,
};
use catalog::{Arena, CommitOrder, Datum, RowLayout, Table, successor};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The data of a table.
#[derive(Debug)]
pub struct TableStore {
    definition: Arc<Table>,
    /// In the order of the definition.
    indexes: Vec<Arc<Index>>,
    /// The key columns of each index.
    key_columns: Vec<Vec<usize>>,
    /// The slots of its records; `None` where the log does not name rows by slot.
    slots: Option<Arc<Slots>>,
    /// Keeps the records alive that the indexes point to.
    memory: Arc<Memory>,
    /// Whether the database has dropped the table.
    abandoned: AtomicBool,
}

impl Drop for TableStore {
    fn drop(&mut self) {
        if *self.abandoned.get_mut() {
            self.indexes.iter().for_each(|index| index.go_with_table());
        }
    }
}

/// Adds a run of records to the indexes of one table.
#[derive(Default, Debug)]
pub struct Linker {
    fingers: Fingers,
    arena: Arena,
    key: Vec<u8>,
}

impl Linker {
    /// Adds a record to some of a table's indexes, by the key of its row. Returns the position of an index
    /// that has another record under that key.
    ///
    /// # Errors
    /// Out of memory.
    pub fn link(
        &mut self,
        store: &TableStore,
        places: Range<usize>,
        record: Record<'_>,
    ) -> Result<Option<usize>, OutOfMemory> {
        let Self { fingers, arena, key } = self;
        arena.clear();
        for place in places {
            store.key_of_row(place, record.row(), arena, key);
            let linked = store.indexes[place].insert(key, record, fingers, &mut |_| {})?;
            if linked != Linked::Added {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

impl TableStore {
    /// Makes an empty table, with or without slots.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        definition: Arc<Table>,
        slots: Option<Slots>,
        memory: Arc<Memory>,
        guard: &Guard,
    ) -> Result<Self, OutOfMemory> {
        let indexes = (0..definition.indexes.len())
            .map(|place| Ok(Arc::new(Index::new(&definition, place, guard)?)))
            .collect::<Result<_, OutOfMemory>>()?;
        let key_columns = Self::columns_of(&definition);
        let (slots, abandoned) = (slots.map(Arc::new), AtomicBool::new(false));
        Ok(Self { definition, indexes, key_columns, slots, memory, abandoned })
    }

    /// Returns a table of the same definition whose indexes from position `from` on are empty.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_empty_indexes(&self, from: usize, guard: &Guard) -> Result<Self, OutOfMemory> {
        let mut empty = Self::new(Arc::clone(&self.definition), None, Arc::clone(&self.memory), guard)?;
        self.indexes[from..].iter().for_each(|index| index.abandon());
        empty.indexes[..from].clone_from_slice(&self.indexes[..from]);
        empty.slots.clone_from(&self.slots);
        Ok(empty)
    }

    /// Declares that the database has dropped the table, so that its last user frees its rows. No worker that
    /// enters from now on finds the table in the database's definitions.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Returns whether another table has the same records.
    pub fn shares_records_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.indexes[0], &other.indexes[0])
    }

    /// Returns the slots, if records have them.
    pub fn slots(&self) -> Option<&Slots> {
        self.slots.as_deref()
    }

    /// Returns whether records have slots.
    pub fn has_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Gives every record a slot. No other thread uses the table; the caller's worker is active.
    pub fn with_slots(&self, guard: &Guard) -> Self {
        let slots = Slots::default();
        let mut cursor = Cursor::default();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[0], guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                record.set_slot(slots.take());
            }
        }
        let (definition, indexes) = (Arc::clone(&self.definition), self.indexes.clone());
        let (key_columns, memory) = (self.key_columns.clone(), Arc::clone(&self.memory));
        let (slots, abandoned) = (Some(Arc::new(slots)), AtomicBool::new(false));
        Self { definition, indexes, key_columns, slots, memory, abandoned }
    }

    /// Adds a row with a new record under its primary key, unless the key is taken.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    #[inline]
    pub fn add<'g>(
        &self,
        key: &[u8],
        (image, state): (&[u64], NewState),
        guard: &'g Guard,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Added<'g>, OutOfMemory> {
        let slot = self.slots.as_ref().map(|slots| slots.take());
        let added = self.indexes[0].insert_new(key, (image, slot, state), guard, fingers, on_change);
        if !matches!(added, Ok(Added::New(_))) {
            self.give_back(slot);
        }
        added
    }

    fn give_back(&self, slot: Option<u32>) {
        if let (Some(slots), Some(slot)) = (&self.slots, slot) {
            slots.give_back(slot);
        }
    }

    /// Returns the same data under a changed set of indexes: keeps the common ones and fills a new one. No
    /// other thread uses the table.
    ///
    /// # Errors
    /// Out of memory; two rows with one key of a new unique index.
    pub fn with_definition(
        &self,
        definition: Arc<Table>,
        guard: &Guard,
    ) -> Result<Result<Self, DuplicateKey>, OutOfMemory> {
        let mut indexes = Vec::new();
        for (place, index) in definition.indexes.iter().enumerate() {
            let kept = self.definition.indexes.iter().position(|old| old.id == index.id);
            indexes.push(match kept {
                Some(kept) => Arc::clone(&self.indexes[kept]),
                None => {
                    let made = Index::new(&definition, place, guard)?;
                    // If the new table is never used, its records live on without the new index.
                    made.abandon();
                    Arc::new(made)
                }
            });
        }
        let key_columns = Self::columns_of(&definition);
        let (slots, memory) = (self.slots.clone(), Arc::clone(&self.memory));
        let abandoned = AtomicBool::new(false);
        let table = Self { definition, indexes, key_columns, slots, memory, abandoned };
        for (place, index) in table.definition.indexes.iter().enumerate() {
            if !self.definition.indexes.iter().any(|old| old.id == index.id)
                && let Err(duplicate) = table.fill_new(place, guard)?
            {
                table.abandon_but(&self.indexes);
                return Ok(Err(duplicate));
            }
        }
        self.abandon_but(&table.indexes);
        Ok(Ok(table))
    }

    /// Declares that the records live on without this table's indexes, except those in `kept`.
    fn abandon_but(&self, kept: &[Arc<Index>]) {
        let goes = |index: &&Arc<Index>| !kept.iter().any(|own| Arc::ptr_eq(own, index));
        self.indexes.iter().filter(goes).for_each(|index| index.abandon());
    }

    /// Adds the rows of a range of primary keys to some of the indexes.
    ///
    /// # Errors
    /// Out of memory.
    pub fn fill(
        &self,
        places: Range<usize>,
        (lower, upper): (&[u8], Option<&[u8]>),
        guard: &Guard,
    ) -> Result<(), OutOfMemory> {
        let mut cursor = Cursor::default();
        cursor.open(lower, upper, Direction::Forward);
        let mut linker = Linker::default();
        while cursor.read_leaf(&self.indexes[0], guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                if !record.stable_state().is_absent() {
                    linker.link(self, places.clone(), record)?;
                }
            }
        }
        Ok(())
    }

    /// Adds all rows to an empty index.
    ///
    /// # Errors
    /// Out of memory; two rows with one key, where it is unique.
    pub fn fill_new(&self, place: usize, guard: &Guard) -> Result<Result<(), DuplicateKey>, OutOfMemory> {
        self.fill(place..place + 1, (&[], None), guard)?;
        let mut cursor = Cursor::default();
        let (mut arena, mut key, mut previous) = (Arena::default(), Vec::new(), Vec::new());
        let index = &self.definition.indexes[place];
        if !index.is_key() {
            return Ok(Ok(()));
        }
        let own_columns = index.columns.len();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[place], guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                arena.clear();
                let row = record.row();
                let has_null = self.key_prefix_of_row(place, own_columns, row, &mut arena, &mut key)
                    && !index.rules.nulls_equal;
                if !has_null && key == previous {
                    return Ok(Err(DuplicateKey {
                        index: place,
                        key: self.shown_key(place, row, &mut arena),
                    }));
                }
                std::mem::swap(&mut key, &mut previous);
                if has_null {
                    previous.clear();
                }
            }
        }
        Ok(Ok(()))
    }

    /// Returns the key of a row in an index, as errors show it.
    fn shown_key(&self, place: usize, row: RowWords<'_>, arena: &mut Arena) -> String {
        let (columns, slots) = (&self.definition.indexes[place].columns, self.definition.layout.slots());
        let key: Vec<Datum> = columns.iter().map(|column| row.column(slots[*column], arena)).collect();
        self.definition.key_text(columns, &key, arena)
    }

    /// Calls `visit` for every row, in the order of the primary key.
    ///
    /// # Errors
    /// The error of `visit`.
    pub fn for_each_row<'g, E>(
        &self,
        guard: &'g Guard,
        mut each: impl FnMut(Record<'g>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_record(guard, |record| match record.stable_state().is_absent() {
            true => Ok(()),
            false => each(record),
        })
    }

    /// Calls `visit` for every record, in the order of the primary key, also where there is no row.
    ///
    /// # Errors
    /// The error of `visit`.
    pub fn for_each_record<'g, E>(
        &self,
        guard: &'g Guard,
        mut visit: impl FnMut(Record<'g>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = Cursor::default();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[0], guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                visit(record)?;
            }
        }
        Ok(())
    }

    /// Returns whether a row's key in an index begins with `prefix`.
    pub fn holds(&self, place: usize, prefix: &[u8], guard: &Guard) -> bool {
        let mut upper = prefix.to_vec();
        successor(&mut upper);
        let mut cursor = Cursor::default();
        cursor.open(prefix, (!upper.is_empty()).then_some(&*upper), Direction::Forward);
        while cursor.read_leaf(&self.indexes[place], guard).is_some() {
            while let Some(record) = cursor.next_buffered(guard) {
                if !record.stable_state().is_absent() {
                    return true;
                }
            }
        }
        false
    }

    fn columns_of(definition: &Table) -> Vec<Vec<usize>> {
        definition.indexes.iter().map(|index| definition.key_columns(index)).collect()
    }

    /// Returns the columns of an index's keys.
    #[inline]
    pub fn key_columns(&self, place: usize) -> &[usize] {
        &self.key_columns[place]
    }

    /// Returns the definition.
    #[inline]
    pub fn definition(&self) -> &Arc<Table> {
        &self.definition
    }

    /// Returns an index by its position in the definition.
    #[inline]
    pub fn index_at(&self, place: usize) -> &Index {
        &self.indexes[place]
    }

    /// Returns the record of a primary key, or an observation of the leaf where the key would be.
    #[inline]
    pub fn find<'g>(&self, key: &[u8], guard: &'g Guard) -> Result<Record<'g>, LeafObservation> {
        self.indexes[0].look_up(key, guard)
    }

    /// Writes the key of a row of datums in an index.
    pub fn key_of(&self, place: usize, row: &[Datum], arena: &Arena, key: &mut Vec<u8>) {
        key.clear();
        for column in &self.key_columns[place] {
            self.definition.encode_key_column(*column, row[*column], arena, key);
        }
    }

    /// Writes the key of a row in memory in an index.
    pub fn key_of_row(&self, place: usize, row: RowWords<'_>, arena: &mut Arena, key: &mut Vec<u8>) {
        self.key_prefix_of_row(place, self.key_columns[place].len(), row, arena, key);
    }

    /// Writes the first columns of that key; returns true when one of them is NULL.
    fn key_prefix_of_row(
        &self,
        place: usize,
        columns: usize,
        row: RowWords<'_>,
        arena: &mut Arena,
        key: &mut Vec<u8>,
    ) -> bool {
        key.clear();
        let mut has_null = false;
        for column in &self.key_columns[place][..columns] {
            let datum = row.column(self.definition.layout.slots()[*column], arena);
            has_null |= datum.is_null();
            self.definition.encode_key_column(*column, datum, arena, key);
        }
        has_null
    }

    /// Loads a committed row image into some of the indexes, among them the primary one. Returns false when
    /// its primary key is taken.
    ///
    /// # Errors
    /// Out of memory; nothing was added.
    pub fn load(
        &self,
        image: &[u64],
        order: CommitOrder,
        indexes: usize,
        linker: &mut Linker,
        guard: &Guard,
    ) -> Result<bool, OutOfMemory> {
        let slot = self.slots.as_ref().map(|slots| slots.take());
        let loaded = self.load_into(slot, image, order, indexes, linker, guard);
        if !matches!(loaded, Ok(true)) {
            self.give_back(slot);
        }
        loaded
    }

    /// As `load`; the record gets the slot that the row had before, where records have slots.
    ///
    /// # Errors
    /// As `load`; the slot stays the row's.
    pub fn load_into(
        &self,
        slot: Option<u32>,
        image: &[u64],
        order: CommitOrder,
        indexes: usize,
        linker: &mut Linker,
        guard: &Guard,
    ) -> Result<bool, OutOfMemory> {
        let mut key = std::mem::take(&mut linker.key);
        linker.arena.clear();
        self.key_of_image(image, &mut linker.arena, &mut key);
        let state = NewState::committed(RecordState::present(order));
        let new = (image, slot, state);
        let added = self.indexes[0].insert_new(&key, new, guard, &mut linker.fingers, &mut |_| {});
        linker.key = key;
        match added? {
            Added::New(record) => match linker.link(self, 1..indexes, record) {
                Ok(_) => Ok(true),
                Err(error) => {
                    record.try_lock().expect("no other thread loads this row");
                    record.unlock_dead();
                    self.remove_from(0..self.indexes.len(), record, &mut linker.arena, &mut |_| false);
                    Err(error)
                }
            },
            Added::Exists(_) => Ok(false),
        }
    }

    /// Writes the primary key of a row image.
    pub fn key_of_image(&self, image: &[u64], arena: &mut Arena, key: &mut Vec<u8>) {
        key.clear();
        for column in &self.key_columns[0] {
            let slot = self.definition.layout.slots()[*column];
            let datum = RowLayout::decode(slot, image.len(), |word| image[word], arena);
            self.definition.encode_key_column(*column, datum, arena, key);
        }
    }

    /// Returns at most `parts - 1` keys that divide the table into ranges of about the same number of rows,
    /// in order.
    pub fn split_keys(&self, parts: usize, guard: &Guard) -> Vec<Vec<u8>> {
        self.indexes[0].split_keys(parts, guard)
    }

    /// Adds a record to an index.
    ///
    /// # Errors
    /// Out of memory.
    #[inline]
    pub fn link<'g>(
        &self,
        place: usize,
        key: &[u8],
        record: Record<'g>,
        fingers: &mut Fingers,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Linked<'g>, OutOfMemory> {
        self.indexes[place].insert(key, record, fingers, on_change)
    }

    /// Removes a dead record from all indexes, so that it is freed once no worker can see it. `on_change` as
    /// for `Index::remove_entry`.
    pub fn unlink(
        &self,
        record: Record<'_>,
        arena: &mut Arena,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) {
        self.unlink_from(0..self.indexes.len(), record, arena, on_change);
    }

    /// Removes a record from some indexes, among them the primary one. `on_change` as for
    /// `Index::remove_entry`.
    pub fn unlink_from(
        &self,
        places: Range<usize>,
        record: Record<'_>,
        arena: &mut Arena,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) {
        if self.remove_from(places, record, arena, on_change) {
            self.give_back(record.slot());
        }
    }

    /// Removes a record from some indexes; returns whether the primary one had it.
    fn remove_from(
        &self,
        places: Range<usize>,
        record: Record<'_>,
        arena: &mut Arena,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) -> bool {
        let (mut key, mut was_there) = (Vec::new(), false);
        for place in places.rev() {
            self.key_of_row(place, record.row(), arena, &mut key);
            was_there = self.indexes[place].remove_entry(&key, record, on_change) && place == 0;
        }
        was_there
    }
}

/// Two rows have the same key of a unique index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DuplicateKey {
    /// The index's position in the definition.
    pub index: usize,
    /// The key, as errors show it.
    pub key: String,
}
