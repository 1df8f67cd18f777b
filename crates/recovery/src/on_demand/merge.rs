//! What the writes of a log leave of the rows of a granule.

use crate::RecoveryError;
use crate::replay::{TupleWrite, unfit, writes_diverged};
use catalog::{Arena, CommitOrder, Datum, DecodeError, RowChange, RowLayout, Table};
use std::collections::HashMap;

/// What the log does to one row.
struct RowWrites<'l> {
    /// The order of the newest write.
    order: CommitOrder,
    /// The writes that count, newest first: up to the first one that does not need the row before it.
    writes: Vec<TupleWrite<'l>>,
    /// Whether the row before them is needed.
    needs_row: bool,
    /// Whether the row of the checkpoint has been seen.
    is_done: bool,
}

/// What the log does to the rows of a granule, by key.
pub(super) struct GranuleWrites<'l> {
    table: &'l Table,
    rows: Vec<RowWrites<'l>>,
    by_key: HashMap<Vec<u8>, usize>,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    decoded: Vec<Datum>,
    words: Vec<u64>,
}

impl<'l> GranuleWrites<'l> {
    /// Collects the writes to a part of a table, newest first.
    ///
    /// # Errors
    /// A write does not fit the table.
    pub(super) fn of(
        table: &'l Table,
        newest_first: impl Iterator<Item = (CommitOrder, TupleWrite<'l>)>,
    ) -> Result<Self, RecoveryError> {
        let mut own = Self {
            table,
            rows: Vec::new(),
            by_key: HashMap::new(),
            arena: Arena::default(),
            row: Vec::new(),
            changed: Vec::new(),
            decoded: Vec::new(),
            words: Vec::new(),
        };
        let mut key = Vec::new();
        for (order, write) in newest_first {
            key.clear();
            own.arena.clear();
            write.key(table, &mut own.arena, &mut own.row, &mut key).map_err(|_| unfit(order))?;
            let place = match own.by_key.get(&key) {
                Some(place) => *place,
                None => {
                    own.by_key.insert(key.clone(), own.rows.len());
                    own.rows.push(RowWrites { order, writes: Vec::new(), needs_row: true, is_done: false });
                    own.rows.len() - 1
                }
            };
            let row = &mut own.rows[place];
            if row.needs_row {
                row.writes.push(write);
                let is_whole = write.is_whole(table).map_err(|_| unfit(order))?;
                row.needs_row = write.change() == RowChange::Update && !is_whole;
            }
        }
        Ok(own)
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns what the writes leave of a row of the checkpoint: its order and words, or nothing if they
    /// delete it.
    ///
    /// # Errors
    /// A write does not fit the row.
    pub(super) fn over_row<'w>(
        &'w mut self,
        key: &[u8],
        order: CommitOrder,
        words: &'w [u64],
    ) -> Result<Option<(CommitOrder, &'w [u64])>, RecoveryError> {
        let Some(place) = self.by_key.get(key).copied() else { return Ok(Some((order, words))) };
        self.rows[place].is_done = true;
        self.written(place, Some(words))
    }

    /// Passes the rows that the checkpoint does not have to `each`.
    ///
    /// # Errors
    /// A write needs a row that is not there; `each` fails.
    pub(super) fn rows_of_log(
        &mut self,
        mut each: impl FnMut(CommitOrder, &[u64]) -> Result<(), RecoveryError>,
    ) -> Result<(), RecoveryError> {
        for place in 0..self.rows.len() {
            if !self.rows[place].is_done
                && let Some((order, words)) = self.written(place, None)?
            {
                each(order, words)?;
            }
        }
        Ok(())
    }

    /// Returns a row after all writes to it.
    fn written(
        &mut self,
        place: usize,
        before: Option<&[u64]>,
    ) -> Result<Option<(CommitOrder, &[u64])>, RecoveryError> {
        let Self { table, rows, arena, row, changed, decoded, words, .. } = self;
        let RowWrites { order, writes, needs_row, .. } = &rows[place];
        let damaged = |_: DecodeError| unfit(*order);
        let lacks_row = || writes_diverged(*order, &format!("{} lacks a row that was written", table.name));
        words.clear();
        arena.clear();
        row.clear();
        let mut later = writes.as_slice();
        if *needs_row {
            let before = before.ok_or_else(lacks_row)?;
            let word = |at: usize| before[at];
            let slots = table.layout.slots().iter();
            row.extend(slots.map(|slot| RowLayout::decode(*slot, before.len(), word, arena)));
        } else if let Some((first, rest)) = writes.split_last() {
            later = rest;
            match (first.change(), rest) {
                (RowChange::Delete, []) => return Ok(None),
                (RowChange::Delete, _) => return Err(lacks_row()),
                (_, []) if first.image(table, words).map_err(damaged)? => return Ok(Some((*order, words))),
                _ => {}
            }
            first.decode(table, arena, row, changed).map_err(damaged)?;
        }
        for write in later.iter().rev() {
            write.decode(table, arena, decoded, changed).map_err(damaged)?;
            changed.iter().for_each(|column| row[*column] = decoded[*column]);
        }
        table.layout.encode(row, arena, words);
        Ok(Some((*order, words)))
    }
}
