//! A table in memory: its records and the indexes that lead to them.
//!
//! Invariant: every record is in the primary index under its key, and in every other index at least under the key
//! that its current row has; other entries may be there for a while and are told apart by the row itself.

use crate::{
    Finger, Index, InsertOutcome, LeafChange, Memory, OutOfMemory, Record, RecordState, RowWords, Worker,
};
use catalog::{Arena, CommitOrder, Datum, Table};
use std::sync::Arc;

/// A table's data.
#[derive(Debug)]
pub struct TableStore {
    definition: Arc<Table>,
    /// In the order of the definition's.
    indexes: Vec<Arc<Index>>,
    /// The columns of each index's keys.
    key_columns: Vec<Vec<usize>>,
    /// Keeps what the indexes point to alive.
    memory: Arc<Memory>,
}

impl TableStore {
    /// An empty table.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(
        definition: Arc<Table>,
        memory: Arc<Memory>,
        worker: &mut Worker,
    ) -> Result<Self, OutOfMemory> {
        let indexes = definition
            .indexes
            .iter()
            .map(|index| Ok(Arc::new(Index::new(definition.fixed_key_length(index), worker)?)))
            .collect::<Result<_, OutOfMemory>>()?;
        let key_columns = Self::columns_of(&definition);
        Ok(Self { definition, indexes, key_columns, memory })
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
        let table = Self { definition, indexes, key_columns, memory: Arc::clone(&self.memory) };
        for (place, index) in table.definition.indexes.iter().enumerate() {
            if !self.definition.indexes.iter().any(|old| old.id == index.id)
                && let Err(duplicate) = table.fill(place, worker)?
            {
                return Ok(Err(duplicate));
            }
        }
        Ok(Ok(table))
    }

    fn fill(&self, place: usize, worker: &mut Worker) -> Result<Result<(), DuplicateKey>, OutOfMemory> {
        let mut cursor = crate::Cursor::default();
        cursor.open(&[], None, crate::Direction::Forward);
        let (mut arena, mut key, mut previous) = (Arena::default(), Vec::new(), Vec::new());
        let mut finger = Finger::default();
        while cursor.read_leaf(&self.indexes[0]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                let record = Record::from_address(address);
                if record.stable_state().is_absent() {
                    continue;
                }
                arena.clear();
                self.key_of_row(place, record.row(), &mut arena, &mut key);
                self.indexes[place].insert(&key, address, worker, &mut finger, &mut |_| {})?;
            }
        }
        if !self.definition.indexes[place].unique {
            return Ok(Ok(()));
        }
        let own_columns = self.definition.indexes[place].columns.len();
        cursor.open(&[], None, crate::Direction::Forward);
        while cursor.read_leaf(&self.indexes[place]).is_some() {
            while let Some(address) = cursor.next_buffered() {
                arena.clear();
                let row = Record::from_address(address).row();
                let has_null = self.key_prefix_of_row(place, own_columns, row, &mut arena, &mut key);
                if !has_null && key == previous {
                    return Ok(Err(DuplicateKey));
                }
                std::mem::swap(&mut key, &mut previous);
                if has_null {
                    previous.clear();
                }
            }
        }
        Ok(Ok(()))
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

    /// Adds a row image that is committed already, as loading does. False when its primary key is taken. The worker is
    /// active; `arena` and `key` are emptied and used.
    ///
    /// # Errors
    /// Out of memory.
    pub fn load(
        &self,
        image: &[u64],
        order: CommitOrder,
        worker: &mut Worker,
        arena: &mut Arena,
        key: &mut Vec<u8>,
    ) -> Result<bool, OutOfMemory> {
        let record = Record::create(image, worker)?;
        arena.clear();
        for place in 0..self.indexes.len() {
            self.key_of_row(place, record.row(), arena, key);
            let outcome = self.indexes[place].insert(
                key,
                record.address(),
                worker,
                &mut Finger::default(),
                &mut |_| {},
            )?;
            if place == 0 && outcome != InsertOutcome::Inserted {
                record.retire(worker);
                return Ok(false);
            }
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

    /// Takes a record out of all indexes and frees it once nobody can see it. The record is dead.
    pub fn unlink(&self, record: Record, arena: &mut Arena, worker: &mut Worker) {
        let mut key = Vec::new();
        for place in (0..self.indexes.len()).rev() {
            self.key_of_row(place, record.row(), arena, &mut key);
            self.indexes[place].remove(&key, worker);
        }
        record.retire(worker);
    }
}

/// Two rows have one key of a unique index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateKey;
