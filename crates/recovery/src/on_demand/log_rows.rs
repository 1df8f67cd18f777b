//! What a log leaves of the rows of a granule: by key, or by slot.

use super::merge::GranuleWrites;
use super::slots::LogSlots;
use super::writes::LogWrites;
use crate::RecoveryError;
use crate::replay::{TupleWrite, unfit};
use catalog::{CommitOrder, Table, TableId};

/// What the log leaves of the rows of a granule.
#[derive(Debug)]
pub(super) enum LogRows {
    /// Writes to rows, by key.
    Writes(LogWrites),
    /// Rows by slot.
    Slots(LogSlots),
}

impl LogRows {
    /// Returns the bytes of the writes to a granule of a table.
    pub(super) fn bytes(&self, table: TableId, granule: usize) -> u64 {
        match self {
            Self::Writes(writes) => writes.places.bytes(table, granule),
            Self::Slots(slots) => slots.places.bytes(table, granule),
        }
    }

    /// Begins to bring back a granule of a table.
    pub(super) fn over<'l>(
        &'l self,
        table: &'l Table,
        granule: usize,
    ) -> Result<OverGranule<'l>, RecoveryError> {
        match self {
            Self::Writes(writes) => OverGranule::of_writes(table, writes.newest_first(table.id, granule)),
            Self::Slots(slots) => Ok(OverGranule::of_slots(table, slots, granule)),
        }
    }
}

/// What the log leaves of the rows of a granule, over those of the checkpoint.
#[derive(Default)]
pub(super) struct OverGranule<'l>(Over<'l>);

#[derive(Default)]
enum Over<'l> {
    #[default]
    Nothing,
    Writes(Box<GranuleWrites<'l>>),
    Slots {
        slots: &'l LogSlots,
        table: &'l Table,
        granule: usize,
    },
}

impl<'l> OverGranule<'l> {
    /// Collects writes, newest first.
    ///
    /// # Errors
    /// A write does not fit the table.
    fn of_writes(
        table: &'l Table,
        newest_first: impl Iterator<Item = (CommitOrder, TupleWrite<'l>)>,
    ) -> Result<Self, RecoveryError> {
        let writes = GranuleWrites::of(table, newest_first)?;
        Ok(Self(if writes.is_empty() { Over::Nothing } else { Over::Writes(Box::new(writes)) }))
    }

    /// The rows of slots.
    fn of_slots(table: &'l Table, slots: &'l LogSlots, granule: usize) -> Self {
        Self(Over::Slots { slots, table, granule })
    }

    /// Returns whether the rows of the checkpoint are all there is.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.0, Over::Nothing)
    }

    /// Returns what the log leaves of a row of the checkpoint: its order and words, or nothing if the log
    /// deletes it. The newest write of the log is not older than the row, also where the checkpoint is fuzzy:
    /// the log holds whatever a row, or its slot, was written by since the checkpoint began.
    ///
    /// # Errors
    /// A write does not fit the row.
    pub(super) fn row<'w>(
        &'w mut self,
        key: &[u8],
        slot: Option<u32>,
        order: CommitOrder,
        words: &'w [u64],
    ) -> Result<Option<(CommitOrder, &'w [u64])>, RecoveryError> {
        match &mut self.0 {
            Over::Nothing => Ok(Some((order, words))),
            Over::Writes(writes) => writes.over_row(key, order, words),
            Over::Slots { slots, table, .. } => {
                let is_written = slot.is_some_and(|slot| slots.writes(table.id, slot));
                Ok((!is_written).then_some((order, words)))
            }
        }
    }

    /// Passes the rows that the checkpoint does not have to `each`, with their slots where the log has them.
    ///
    /// # Errors
    /// A write needs a row that is not there, or does not fit its table; `each` fails.
    pub(super) fn rows_of_log(
        &mut self,
        mut each: impl FnMut(Option<u32>, CommitOrder, &[u64]) -> Result<(), RecoveryError>,
    ) -> Result<(), RecoveryError> {
        match &mut self.0 {
            Over::Nothing => Ok(()),
            Over::Writes(writes) => writes.rows_of_log(|order, words| each(None, order, words)),
            Over::Slots { slots, table, granule } => {
                let mut words = Vec::new();
                for (order, write) in slots.rows(table.id, *granule) {
                    words.clear();
                    words.extend(write.image(table).map_err(|_| unfit(order))?.into_iter().flatten());
                    each(Some(write.slot), order, &words)?;
                }
                Ok(())
            }
        }
    }
}
