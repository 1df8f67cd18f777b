//! The indexes in which units meet, and the lengths of the granules there.

use crate::graph::entries::node_of;
use catalog::{Arena, Table, TableId};
use procedure::analysis::{Granule, Reservation, ReservationMode, Reservations, ReservedKey, key_columns};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The indexes in which units meet.
#[derive(Clone, Debug)]
pub(super) struct Indexes {
    /// By table and index, the number of the index; `None` if no units meet there.
    numbers: Vec<Vec<Option<u32>>>,
    /// By number, the lengths of the granules that units use in it, ascending.
    lengths: Vec<Vec<usize>>,
    /// By number, the lengths of the granules that requests, or writes by value, may use.
    expected: Vec<BTreeSet<usize>>,
    /// The tables that units read and none writes.
    constant: BTreeSet<TableId>,
}

/// Keys of an index that requests are expected to look for: those that begin with a number of known values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Expected {
    /// The table.
    pub table: TableId,
    /// Position among the table's indexes.
    pub index: usize,
    /// Number of values.
    pub values: usize,
}

/// The two longest lengths of the granules of an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nested {
    pub(super) number: u32,
    pub(super) outer: usize,
    pub(super) inner: usize,
}

/// What units use of an index.
#[derive(Default)]
struct Uses {
    lengths: BTreeSet<usize>,
    expected: BTreeSet<usize>,
    is_read: bool,
    is_unique: bool,
}

impl Indexes {
    /// Takes the reservations of all pieces, the tables that transactions logged by value write, and what
    /// requests are expected to want.
    pub(super) fn of<'r>(
        reservations: impl Iterator<Item = &'r Reservations>,
        by_value: &BTreeMap<TableId, Arc<Table>>,
        expected: &[Expected],
    ) -> Self {
        let (mut uses, mut written): (BTreeMap<_, Uses>, BTreeSet<TableId>) = Default::default();
        for Reservation { granule, mode, .. } in reservations.flat_map(Reservations::iter) {
            let Granule { table, index, prefix, .. } = granule;
            let own = uses.entry((table.id, *index)).or_default();
            own.lengths.insert(prefix.len());
            own.is_unique |= *index == 0 || table.indexes[*index].unique;
            let is_read = matches!(mode, ReservationMode::Read | ReservationMode::ReadFixed);
            own.is_read |= is_read;
            written.extend((!is_read).then_some(table.id));
        }
        for table in by_value.values() {
            written.insert(table.id);
            for (place, index) in table.indexes.iter().enumerate() {
                let own = uses.entry((table.id, place)).or_default();
                own.is_unique |= place == 0 || index.unique;
                own.expected.extend((place > 0).then_some(0));
                own.expected.insert(key_columns(table, place).len());
            }
        }
        for Expected { table, index, values } in expected {
            if let Some(own) = uses.get_mut(&(*table, *index)) {
                own.expected.insert(*values);
                own.is_read = true;
            }
        }
        let read = uses.keys().map(|(table, _)| *table).filter(|table| !written.contains(table)).collect();
        let (numbers, lengths, expected) = (Vec::new(), Vec::new(), Vec::new());
        let mut indexes = Self { numbers, lengths, expected, constant: read };
        // Units that read a row through an index meet those that write it there; those that write one row
        // meet in the primary index, and those that write one unique key in the index of the key.
        let meets = |((table, _), own): &((TableId, usize), Uses)| {
            written.contains(table) && (own.is_read || own.is_unique)
        };
        for ((table, index), own) in uses.into_iter().filter(meets) {
            let row = table.0 as usize;
            if indexes.numbers.len() <= row {
                indexes.numbers.resize(row + 1, Vec::new());
            }
            let numbers = &mut indexes.numbers[row];
            numbers.resize(numbers.len().max(index + 1), None);
            numbers[index] = Some(indexes.lengths.len() as u32);
            indexes.lengths.push(own.lengths.union(&own.expected).copied().collect());
            indexes.expected.push(own.expected);
        }
        indexes
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Returns the number of an index; `None` if no units meet there.
    pub(super) fn number(&self, table: TableId, index: usize) -> Option<u32> {
        *self.numbers.get(table.0 as usize)?.get(index)?
    }

    /// Returns the longest length of the granules of an index; `None` if no units meet there.
    pub(super) fn longest(&self, table: TableId, index: usize) -> Option<usize> {
        self.lengths[self.number(table, index)? as usize].last().copied()
    }

    /// Returns whether units read a table, and none writes it.
    pub(super) fn is_constant(&self, table: TableId) -> bool {
        self.constant.contains(&table)
    }

    /// Returns the numbers of the indexes of a table.
    pub(super) fn of_table(&self, table: TableId) -> impl Iterator<Item = u32> {
        self.numbers.get(table.0 as usize).into_iter().flatten().filter_map(|number| *number)
    }

    /// Returns the indexes in which units use granules of several lengths: the number of each, with the
    /// longest length and the one before.
    pub(super) fn nested(&self) -> Vec<Nested> {
        let nested = |(number, lengths): (usize, &Vec<usize>)| match lengths[..] {
            [.., outer, inner] => Some(Nested { number: number as u32, outer, inner }),
            _ => None,
        };
        self.lengths.iter().enumerate().filter_map(nested).collect()
    }

    /// Returns them so that the granules of the longest length of some indexes count as those around them.
    pub(super) fn widened(&self, numbers: &[u32]) -> Self {
        let mut widened = self.clone();
        for number in numbers {
            widened.lengths[*number as usize].pop();
        }
        widened
    }

    /// Returns them without the granules that no request is expected to use and no unit uses as a whole:
    /// they would be nodes at which no two units meet. `used` has the lengths that units use as a whole, by
    /// number. The longest one stays.
    pub(super) fn narrowed(&self, used: &BTreeSet<(u32, usize)>) -> Self {
        let mut narrowed = self.clone();
        for (number, lengths) in (0..).zip(&mut narrowed.lengths) {
            let (expected, longest) = (&self.expected[number as usize], lengths.last().copied());
            lengths.retain(|length| {
                Some(*length) == longest || expected.contains(length) || used.contains(&(number, *length))
            });
        }
        narrowed
    }

    /// Visits the nodes of a granule of an index, each with whether it is the granule's own: the narrowest.
    /// Returns whether the granule has a node of its own, or one that stands for it.
    #[inline]
    pub(super) fn for_each_node(
        &self,
        number: u32,
        key: &ReservedKey,
        mut visit: impl FnMut(u64, bool),
    ) -> bool {
        let lengths = &self.lengths[number as usize];
        let count = lengths.partition_point(|length| *length <= key.len());
        for (place, length) in lengths[..count].iter().enumerate() {
            visit(node_of(number.into(), *length, key.prefix(*length)), place + 1 == count);
        }
        count == lengths.len() || count > 0 && lengths[count - 1] == key.len()
    }

    /// Returns the node of the narrowest granule in which all keys of a range of an index lie, and those of
    /// the wider granules around it; each with whether it is the narrowest. None if no node is so wide.
    pub(super) fn nodes_around(
        &self,
        number: u32,
        table: &Table,
        index: usize,
        lower: &[u8],
        upper: Option<&[u8]>,
    ) -> Vec<(u64, bool)> {
        let (mut canonical, mut arena) = (Vec::new(), Arena::default());
        let (mut left, mut ends) = (lower, vec![0]);
        for column in key_columns(table, index) {
            let is_taken = table.take_canonical_column(column, &mut left, &mut arena, &mut canonical);
            if !is_taken || !begins_all(&lower[..lower.len() - left.len()], upper) {
                break;
            }
            ends.push(canonical.len());
        }
        let lengths = self.lengths[number as usize].iter().copied();
        let around = lengths.take_while(|length| *length < ends.len());
        let node = |length: usize| (node_of(number.into(), length, &canonical[..ends[length]]), false);
        let mut nodes: Vec<(u64, bool)> = around.map(node).collect();
        nodes.iter_mut().last().into_iter().for_each(|(_, is_narrowest)| *is_narrowest = true);
        nodes
    }
}

/// Returns whether all keys of a range begin with these bytes, as its lower end does.
fn begins_all(begin: &[u8], upper: Option<&[u8]>) -> bool {
    let mut behind = begin.to_vec();
    catalog::successor(&mut behind);
    behind.is_empty() || upper.is_some_and(|upper| upper <= behind.as_slice())
}
