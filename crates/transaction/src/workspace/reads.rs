//! The read set of a transaction: the version of each row that it has read, with the values that it took from
//! the row, where they are few and short.
//!
//! A transaction that has read some columns of a row does not mind that another one writes other columns of
//! it: what it has read still holds. So the commit of a transaction compares values where the version has
//! moved (`Optimistic`).
//! Source: value-based validation, NOrec (Dalessandro et al., PPoPP 2010).
//!
//! Invariant: an entry has values only if nothing but these values follows from the row. Held by:
//! `crates/reprise/tests/suite/interleaved.rs`.

use catalog::{Arena, ColumnSlot, CommitOrder, Datum};
use storage::{Handle, Record, RecordState};

/// A read of more columns than this is validated by its version.
const MOST_VALUES: usize = 16;

/// A row that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) record: Handle,
    /// The version that was read, or a later one in which the values are the same.
    pub(crate) state: RecordState,
    stays: Stays,
}

/// What of a row must stay.
#[derive(Clone, Copy, Debug)]
enum Stays {
    /// Its version.
    Version,
    /// The values that were read: the index of the first, and their number.
    Values(u32, u32),
    /// Its absence. The transaction has observed the index leaf in which its key would be added again, so
    /// the record itself may leave the index.
    Absence,
}

/// The rows that a transaction has read, oldest first.
#[derive(Default, Debug)]
pub(crate) struct ReadSet {
    rows: Vec<Read>,
    values: Vec<ReadValue>,
}

/// A value that was read.
#[derive(Clone, Copy, Debug)]
struct ReadValue {
    slot: ColumnSlot,
    value: Datum,
    /// Whether it only became a part of a sum that goes back into its column.
    is_added_to: bool,
}

/// A row that is written is read among the last of this many reads.
const RECENT: usize = 16;

impl ReadSet {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.values.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Forgets the reads from a position on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.rows.truncate(length);
    }

    /// Notes a read that was noted before.
    pub(crate) fn push_again(&mut self, read: Read) {
        self.rows.push(read);
    }

    /// Forgets some of the reads from a position on.
    pub(crate) fn retain_since(&mut self, position: usize, stays: impl Fn(&Read) -> bool) {
        let mut kept = position;
        for place in position..self.rows.len() {
            if stays(&self.rows[place]) {
                self.rows.swap(kept, place);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
    }

    /// Returns the reads from a position on.
    pub(crate) fn since(&self, position: usize) -> &[Read] {
        &self.rows[position..]
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Read> {
        self.rows.iter()
    }

    /// Notes the version of a row, which must stay.
    #[inline]
    pub(crate) fn push(&mut self, record: Handle, state: RecordState) {
        self.rows.push(Read { record, state, stays: Stays::Version });
    }

    /// Notes that a row is absent whose key belongs to an index leaf that the transaction has observed.
    pub(crate) fn push_absence(&mut self, record: Handle, state: RecordState) {
        self.rows.push(Read { record, state, stays: Stays::Absence });
    }

    /// Notes the version of a row, and the values that its reader took from it.
    #[inline]
    pub(crate) fn push_values(
        &mut self,
        record: Handle,
        state: RecordState,
        columns: &[ColumnSlot],
        values: &[Datum],
    ) {
        let count = columns.len();
        let is_kept = count <= MOST_VALUES && values.iter().all(Datum::is_plain);
        let stays = match is_kept {
            true => Stays::Values(self.values.len() as u32, count as u32),
            false => Stays::Version,
        };
        if is_kept {
            let read = |(slot, value): (&ColumnSlot, &Datum)| ReadValue {
                slot: *slot,
                value: *value,
                is_added_to: false,
            };
            self.values.extend(columns.iter().zip(values).map(read));
        }
        self.rows.push(Read { record, state, stays });
    }

    /// Returns whether a record has the values that were read from it; false if its version must stay. Values
    /// that are added to may differ if `sums_may_move`.
    pub(crate) fn has_values(&self, read: &Read, record: Record<'_>, sums_may_move: bool) -> bool {
        let Stays::Values(first, count) = read.stays else { return false };
        let (row, mut arena) = (record.row(), Arena::default());
        let values = &self.values[first as usize..][..count as usize];
        values
            .iter()
            .all(|own| own.is_added_to && sums_may_move || row.column(own.slot, &mut arena) == own.value)
    }

    /// Says that what was added to values of a record has been read, so that the values must stay.
    pub(crate) fn keep_sums(&mut self, record: Handle) {
        for read in self.rows.iter().filter(|read| read.record == record) {
            if let Stays::Values(first, count) = read.stays {
                let values = &mut self.values[first as usize..][..count as usize];
                values.iter_mut().for_each(|own| own.is_added_to = false);
            }
        }
    }

    /// Says that the last read of a record took the value of a column only to add to it. Returns that value,
    /// if it is an integer that is kept.
    pub(crate) fn add_to(&mut self, record: Handle, slot: ColumnSlot) -> Option<i64> {
        let read = self.rows.iter().rev().take(RECENT).find(|read| read.record == record)?;
        let Stays::Values(first, count) = read.stays else { return None };
        let values = &mut self.values[first as usize..][..count as usize];
        let own = values.iter_mut().find(|own| own.slot == slot)?;
        let Datum::Int(value) = own.value else { return None };
        own.is_added_to = true;
        Some(value)
    }

    /// Notes that reads hold in later versions.
    pub(crate) fn move_to(&mut self, moved: &[(usize, RecordState)]) {
        for (place, state) in moved {
            self.rows[*place].state = *state;
        }
    }
}

impl Read {
    /// Returns whether its version must stay, or its absence.
    pub(crate) fn is_of_version(&self) -> bool {
        !matches!(self.stays, Stays::Values(..))
    }

    /// Returns whether nothing but the row's absence must stay.
    pub(crate) fn is_of_absence(&self) -> bool {
        matches!(self.stays, Stays::Absence)
    }

    pub(crate) fn order(&self) -> CommitOrder {
        self.state.order()
    }
}
