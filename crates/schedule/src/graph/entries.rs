//! The entries of calls at the nodes of a graph: a node for each granule, and for each of its prefixes that
//! some procedure reserves.

use super::Vertex;
use catalog::TableId;
use procedure::analysis::{Reservation, ReservationMode, Reservations, ReservedKey};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Spreads small numbers over all bits (2^64 divided by the golden ratio). A seed of the hash would not do:
/// short keys with small seeds collide.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// How a vertex uses what belongs to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    pub(crate) mode: ReservationMode,
    /// Whether it uses the whole granule of the node. Otherwise it uses a granule inside, which has a node of
    /// its own.
    pub(crate) is_whole: bool,
}

/// A set of uses: a bit for each, by number.
pub(crate) type Uses = u16;

impl Use {
    /// Number of uses.
    pub(crate) const COUNT: usize = 2 * ReservationMode::ALL.len();

    /// By number, the uses that need an order with it.
    const CONFLICTING: [Uses; Self::COUNT] = {
        let mut sets = [0; Self::COUNT];
        let (mut own, mut other) = (0, 0);
        while own < Self::COUNT {
            if Self::of(own).conflicts(Self::of(other)) {
                sets[own] |= 1 << other;
            }
            other += 1;
            if other == Self::COUNT {
                (own, other) = (own + 1, 0);
            }
        }
        sets
    };

    /// By number, the uses whose place it takes: it comes after them, and all that has to come after them has
    /// to come after it.
    const REPLACED: [Uses; Self::COUNT] = {
        let mut sets = [0; Self::COUNT];
        let (mut own, mut other) = (0, 0);
        while own < Self::COUNT {
            let conflicting = Self::CONFLICTING[own];
            if conflicting >> other & 1 == 1 && Self::CONFLICTING[other] & !conflicting == 0 {
                sets[own] |= 1 << other;
            }
            other += 1;
            if other == Self::COUNT {
                (own, other) = (own + 1, 0);
            }
        }
        sets
    };

    /// Returns the use with a number.
    pub(crate) const fn of(number: usize) -> Self {
        let modes = ReservationMode::ALL.len();
        Self { mode: ReservationMode::ALL[number % modes], is_whole: number < modes }
    }

    /// Returns its number.
    pub(crate) fn number(self) -> usize {
        self.mode as usize + if self.is_whole { 0 } else { ReservationMode::ALL.len() }
    }

    /// Returns whether a set has this use.
    pub(crate) fn is_in(self, uses: Uses) -> bool {
        uses >> self.number() & 1 == 1
    }

    /// Returns whether two uses of one node need an order. Granules inside meet at their own nodes.
    const fn conflicts(self, other: Self) -> bool {
        (self.is_whole || other.is_whole) && self.mode.conflicts(other.mode)
    }

    /// Returns the uses of a node that need an order with this one.
    pub(crate) fn conflicting(self) -> Uses {
        Self::CONFLICTING[self.number()]
    }

    /// Returns the uses of a node whose place it takes.
    pub(super) fn replaced(self) -> Uses {
        Self::REPLACED[self.number()]
    }
}

/// A use of a node by a vertex.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The hash of the node's granule.
    pub(crate) node: u64,
    pub(crate) vertex: Vertex,
    pub(crate) of: Use,
}

/// An index of a table, as far as a graph needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index<'l> {
    /// Names the index among those of all tables.
    pub(super) number: u64,
    /// The lengths of the prefixes that some call reserves, ascending.
    pub(super) lengths: &'l [usize],
}

/// Returns the hash of a granule of an index: of the canonical forms of its first values.
pub(crate) fn node_of(index: u64, values: usize, prefix: &[u8]) -> u64 {
    let space = index << 8 | values as u64;
    xxh3_64(prefix) ^ space.wrapping_mul(SPREAD)
}

/// The entries of consecutive vertices, by shard.
#[derive(Clone, Debug)]
pub struct Entries {
    shards: Vec<Vec<Entry>>,
}

impl Entries {
    /// Begins a chunk, for a number of shards.
    pub fn new(shards: usize) -> Self {
        Self { shards: vec![Vec::new(); shards] }
    }

    pub(super) fn of_shard(&self, shard: usize) -> &[Entry] {
        &self.shards[shard]
    }

    /// Adds the entries of a granule of an index with a number of values. `prefix` gives the first of them.
    pub(super) fn reserve<'k>(
        &mut self,
        vertex: Vertex,
        mode: ReservationMode,
        index: Index<'_>,
        values: usize,
        prefix: impl Fn(usize) -> &'k [u8],
    ) {
        for length in index.lengths.iter().copied().take_while(|length| *length <= values) {
            let node = node_of(index.number, length, prefix(length));
            // The shard's hash map takes its bucket from the low bits, and its tag from the seven high ones.
            let middle = node >> 16 & u64::from(u32::MAX);
            let shard = ((middle * self.shards.len() as u64) >> 32) as usize;
            let of = Use { mode, is_whole: length == values };
            self.shards[shard].push(Entry { node, vertex, of });
        }
    }
}

/// What the calls of a set of procedures reserve.
#[derive(Debug)]
pub struct Reserving {
    /// By table that some call writes, and index: the lengths of the prefixes that are reserved.
    lengths: BTreeMap<(TableId, usize), Vec<usize>>,
}

impl Reserving {
    /// Takes the reservations of all procedures whose calls may be in one batch.
    pub fn of<'r>(procedures: impl Iterator<Item = &'r Reservations> + Clone) -> Self {
        let all = || procedures.clone().flat_map(Reservations::iter);
        let is_read = |mode| matches!(mode, ReservationMode::Read | ReservationMode::ReadFixed);
        let writes = all().filter(|own| !is_read(own.mode));
        let written: BTreeSet<TableId> = writes.map(|own| own.granule.table.id).collect();
        let mut lengths: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for Reservation { granule, .. } in all().filter(|own| written.contains(&own.granule.table.id)) {
            lengths.entry((granule.table.id, granule.index)).or_default().push(granule.prefix.len());
        }
        for lengths in lengths.values_mut() {
            lengths.sort_unstable();
            lengths.dedup();
        }
        Self { lengths }
    }

    /// Adds the entries of a reservation of a vertex. Vertices come in batch order.
    pub fn reserve(
        &self,
        vertex: Vertex,
        reservation: &Reservation,
        key: &ReservedKey,
        entries: &mut Entries,
    ) {
        let Reservation { granule, mode, .. } = reservation;
        // No call writes the table.
        let Some(lengths) = self.lengths.get(&(granule.table.id, granule.index)) else { return };
        let number = u64::from(granule.table.id.0) << 8 | granule.index as u64;
        entries.reserve(vertex, *mode, Index { number, lengths }, key.len(), |values| key.prefix(values));
    }
}
