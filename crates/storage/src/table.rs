//! A table in memory: its records and the indexes that lead to them.
//!
//! Invariant: every record is in the primary index under its key, and in every other index at least under the key
//! that its current row has; other entries may be there for a while and are told apart by the row itself.

use crate::{
    Cursor, Direction, Finger, Index, InsertOutcome, LeafChange, Memory, OutOfMemory, Record, RecordState,
    RowWords, Slots, Worker,
};
use catalog::{Arena, CommitOrder, Datum, Table, successor};
use std::ops::Range;
use std::sync::Arc;

/// A table's data.
#[derive(Debug)]
pub struct TableStore {
    definition: Arc<Table>,
    /// In the order of the definition's.
    indexes: Vec<Arc<Index>>,
    /// The columns of each index's keys.
    key_columns: Vec<Vec<usize>>,
    /// Where records have them.
    slots: Option<Arc<Slots>>,
    /// Keeps what the indexes point to alive.
    memory: Arc<Memory>,
}

/// Adds many records to indexes, one after the other. To be used with one table, while its worker stays active.
#[derive(Default, Debug)]
pub struct Linker {
    fingers: Vec<Finger>,
    arena: Arena,
    key: Vec<u8>,
}

impl Linker {
    /// Forgets where the last inserts were, as the worker leaves.
    pub fn forget(&mut self) {
        self.fingers.clear();
    }

    /// Adds a record to some of a table's indexes, by the key of its row. Returns the place of an index, if there is one, that
    /// has another record under that key already.
    ///
    /// # Errors
    /// Out of memory.
    pub fn link(
        &mut self,
        store: &TableStore,
        places: Range<usize>,
        record: Record,
        worker: &mut Worker,
    ) -> Result<Option<usize>, OutOfMemory> {
        let Self { fingers, arena, key } = self;
        fingers.resize_with(store.indexes.len(), Finger::default);
        arena.clear();
        for place in places {
            store.key_of_row(place, record.row(), arena, key);
            let index = &store.indexes[place];
            let outcome = index.insert(key, record.address(), worker, &mut fingers[place], &mut |_| {})?;
            if outcome != InsertOutcome::Inserted {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

impl TableStore {
    /// An empty table, whose records have slots or not.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        definition: Arc<Table>,
        slots: Option<Slots>,
        memory: Arc<Memory>,
        worker: &mut Worker,
    ) -> Result<Self, OutOfMemory> {
        let indexes = definition
            .indexes
            .iter()
            .map(|index| Ok(Arc::new(Index::new(definition.fixed_key_length(index), worker)?)))
            .collect::<Result<_, OutOfMemory>>()?;
        let key_columns = Self::columns_of(&definition);
        Ok(Self { definition, indexes, key_columns, slots: slots.map(Arc::new), memory })
    }

    /// A table of the same definition whose indexes are empty from a place on.
    ///
    /// # Errors
    /// Out of memory.
    pub fn with_empty_indexes(&self, from: usize, worker: &mut Worker) -> Result<Self, OutOfMemory> {
        let mut empty = Self::new(Arc::clone(&self.definition), None, Arc::clone(&self.memory), worker)?;
        empty.indexes[..from].clone_from_slice(&self.indexes[..from]);
        Ok(Self { slots: self.slots.clone(), ..empty })
    }

    /// The slots, where records have them.
    pub fn slots(&self) -> Option<&Slots> {
        self.slots.as_deref()
    }

    /// Whether records have slots.
    pub fn has_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Gives every record a slot. Nobody else may be using the table; the worker is active.
    pub fn with_slots(&self, worker: &Worker) -> Self {
        debug_assert!(worker.is_active());
        let slots = Slots::default();
        let mut cursor = Cursor::default();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[0]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                Record::from_address(address).set_slot(slots.take());
            }
        }
        let (definition, indexes) = (Arc::clone(&self.definition), self.indexes.clone());
        let (key_columns, memory) = (self.key_columns.clone(), Arc::clone(&self.memory));
        Self { definition, indexes, key_columns, slots: Some(Arc::new(slots)), memory }
    }

    /// Makes a record of this table that holds a row image but counts as absent until its transaction commits.
    ///
    /// # Errors
    /// Out of memory.
    #[inline]
    pub fn create(&self, image: &[u64], worker: &mut Worker) -> Result<Record, OutOfMemory> {
        let record = Record::create(image, worker)?;
        if let Some(slots) = &self.slots {
            record.set_slot(slots.take());
        }
        Ok(record)
    }

    /// Makes a record that has a slot already, as a log says.
    ///
    /// # Errors
    /// Out of memory.
    pub fn create_in(&self, slot: u32, image: &[u64], worker: &mut Worker) -> Result<Record, OutOfMemory> {
        let record = Record::create(image, worker)?;
        record.set_slot(slot);
        Ok(record)
    }

    /// Frees a record that is in no index, once nobody can see it.
    pub fn retire(&self, record: Record, worker: &mut Worker) {
        if let (Some(slots), Some(slot)) = (&self.slots, record.slot()) {
            slots.give_back(slot);
        }
        record.retire(worker);
    }

    /// The same data under a changed set of indexes: those that stay are kept, a new one is filled. Nobody else may
    /// be using the table.
    ///
    /// # Errors
    /// Out of memory; two rows with one key of a new unique index.
    pub fn with_definition(
        &self,
        definition: Arc<Table>,
        worker: &mut Worker,
    ) -> Result<Result<Self, DuplicateKey>, OutOfMemory> {
        let mut indexes = Vec::new();
        for index in &definition.indexes {
            let kept = self.definition.indexes.iter().position(|old| old.id == index.id);
            indexes.push(match kept {
                Some(place) => Arc::clone(&self.indexes[place]),
                None => Arc::new(Index::new(definition.fixed_key_length(index), worker)?),
            });
        }
        let key_columns = Self::columns_of(&definition);
        let (slots, memory) = (self.slots.clone(), Arc::clone(&self.memory));
        let table = Self { definition, indexes, key_columns, slots, memory };
        for (place, index) in table.definition.indexes.iter().enumerate() {
            if !self.definition.indexes.iter().any(|old| old.id == index.id)
                && let Err(duplicate) = table.fill_new(place, worker)?
            {
                return Ok(Err(duplicate));
            }
        }
        Ok(Ok(table))
    }

    /// Adds the rows of a range of primary keys to some of the indexes. The worker is active.
    ///
    /// # Errors
    /// Out of memory.
    pub fn fill(
        &self,
        places: Range<usize>,
        (lower, upper): (&[u8], Option<&[u8]>),
        worker: &mut Worker,
    ) -> Result<(), OutOfMemory> {
        let mut cursor = Cursor::default();
        cursor.open(lower, upper, Direction::Forward);
        let mut linker = Linker::default();
        while cursor.read_leaf(&self.indexes[0]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                let record = Record::from_address(address);
                if !record.stable_state().is_absent() {
                    linker.link(self, places.clone(), record, worker)?;
                }
            }
        }
        Ok(())
    }

    /// Adds all rows to an index that is empty.
    ///
    /// # Errors
    /// Out of memory; two rows with one key, where it is unique.
    pub fn fill_new(
        &self,
        place: usize,
        worker: &mut Worker,
    ) -> Result<Result<(), DuplicateKey>, OutOfMemory> {
        self.fill(place..place + 1, (&[], None), worker)?;
        let mut cursor = Cursor::default();
        let (mut arena, mut key, mut previous) = (Arena::default(), Vec::new(), Vec::new());
        if !self.definition.indexes[place].unique {
            return Ok(Ok(()));
        }
        let own_columns = self.definition.indexes[place].columns.len();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[place]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                arena.clear();
                let row = Record::from_address(address).row();
                let has_null = self.key_prefix_of_row(place, own_columns, row, &mut arena, &mut key);
                if !has_null && key == previous {
                    return Ok(Err(DuplicateKey(place)));
                }
                std::mem::swap(&mut key, &mut previous);
                if has_null {
                    previous.clear();
                }
            }
        }
        Ok(Ok(()))
    }

    /// Does something with every row, in the order of the primary key. The worker is active.
    ///
    /// # Errors
    /// What the other one fails with.
    pub fn for_each_row<E>(&self, mut each: impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        let mut cursor = Cursor::default();
        cursor.open(&[], None, Direction::Forward);
        while cursor.read_leaf(&self.indexes[0]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                let record = Record::from_address(address);
                if !record.stable_state().is_absent() {
                    each(record)?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is a row whose key in an index begins so. The worker is active.
    pub fn holds(&self, place: usize, prefix: &[u8]) -> bool {
        let mut upper = prefix.to_vec();
        successor(&mut upper);
        let mut cursor = Cursor::default();
        cursor.open(prefix, (!upper.is_empty()).then_some(&*upper), Direction::Forward);
        while cursor.read_leaf(&self.indexes[place]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                if !Record::from_address(address).stable_state().is_absent() {
                    return true;
                }
            }
        }
        false
    }

    fn columns_of(definition: &Table) -> Vec<Vec<usize>> {
        definition.indexes.iter().map(|index| definition.key_columns(index)).collect()
    }

    /// The columns of an index's keys.
    #[inline]
    pub fn key_columns(&self, place: usize) -> &[usize] {
        &self.key_columns[place]
    }

    /// The definition.
    #[inline]
    pub fn definition(&self) -> &Arc<Table> {
        &self.definition
    }

    /// An index by its place in the definition.
    #[inline]
    pub fn index_at(&self, place: usize) -> &Index {
        &self.indexes[place]
    }

    /// The record with a primary key, and what was observed of the leaf where it is or would be.
    #[inline]
    pub fn find(&self, key: &[u8], worker: &Worker) -> (Option<Record>, crate::LeafObservation) {
        let (value, observed) = self.indexes[0].get(key, worker);
        (value.map(Record::from_address), observed)
    }

    /// A record as an index holds it.
    #[inline]
    pub fn record(address: u64) -> Record {
        Record::from_address(address)
    }

    /// Writes the key that a row of datums has in an index.
    pub fn key_of(&self, place: usize, row: &[Datum], arena: &Arena, key: &mut Vec<u8>) {
        key.clear();
        for column in &self.key_columns[place] {
            self.definition.encode_key_column(*column, row[*column], arena, key);
        }
    }

    /// Writes the key that a row in memory has in an index.
    pub fn key_of_row(&self, place: usize, row: RowWords<'_>, arena: &mut Arena, key: &mut Vec<u8>) {
        self.key_prefix_of_row(place, self.key_columns[place].len(), row, arena, key);
    }

    /// Writes the first columns of that key; true when one of them is NULL.
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

    /// Adds a row image that is committed already, as loading does, to some of the indexes, the primary one among them. False
    /// when its primary key is taken. The worker is active.
    ///
    /// # Errors
    /// Out of memory.
    pub fn load(
        &self,
        image: &[u64],
        order: CommitOrder,
        indexes: usize,
        linker: &mut Linker,
        worker: &mut Worker,
    ) -> Result<bool, OutOfMemory> {
        let record = self.create(image, worker)?;
        if linker.link(self, 0..indexes, record, worker)? == Some(0) {
            self.retire(record, worker);
            return Ok(false);
        }
        record.unlock(RecordState::present(order));
        Ok(true)
    }

    /// Keys that cut the table into at most `parts` ranges of about the same number of rows, in order.
    pub fn split_keys(&self, parts: usize) -> Vec<Vec<u8>> {
        self.indexes[0].split_keys(parts)
    }

    /// Adds a record to an index.
    ///
    /// # Errors
    /// Out of memory.
    #[inline]
    pub fn link(
        &self,
        place: usize,
        key: &[u8],
        record: Record,
        worker: &mut Worker,
        finger: &mut Finger,
        on_change: &mut impl FnMut(LeafChange),
    ) -> Result<Option<Record>, OutOfMemory> {
        Ok(match self.indexes[place].insert(key, record.address(), worker, finger, on_change)? {
            InsertOutcome::Inserted => None,
            InsertOutcome::Exists(address) => Some(Record::from_address(address)),
        })
    }

    /// Takes a record out of all indexes and frees it once no worker can see it. The record is dead. `on_change` as for
    /// `Index::remove_own`.
    pub fn unlink(
        &self,
        record: Record,
        arena: &mut Arena,
        worker: &mut Worker,
        on_change: &mut impl FnMut(LeafChange) -> bool,
    ) {
        let mut key = Vec::new();
        for place in (0..self.indexes.len()).rev() {
            self.key_of_row(place, record.row(), arena, &mut key);
            self.indexes[place].remove_own(&key, worker, on_change);
        }
        self.retire(record, worker);
    }
}

/// Two rows have one key of a unique index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateKey(
    /// The index, by its place.
    pub usize,
);
