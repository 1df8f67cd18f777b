//! What units may touch: evaluated for all of them when the nodes are made, and for one before it runs.

use super::indexes::{Indexes, Nested};
use super::nodes::{BUCKETS, Bucket, Nodes, Packed, bucket_of};
use super::numbers::{BY_VALUE, Layouts};
use crate::divergence::{Divergence, malformed_writes};
use crate::graph::entries::{Use, node_of};
use crate::plan::Planner;
use crate::programs::{Call, Programs};
use crate::{Batch, Body, Transaction};
use catalog::{Arena, CommitOrder, Datum, RowChange, Table};
use logging::content::{Write, WritesRecord};
use procedure::Machine;
use procedure::analysis::{
    Piece, PieceReservations, Reservation, ReservationMode, ReservedKey, UnitReservations, key_columns,
};
use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The buffers of evaluation.
#[derive(Default)]
pub(super) struct Reserver {
    pub(super) planner: Planner,
    /// The transaction whose call is loaded.
    loaded: Option<u32>,
    key: ReservedKey,
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    /// Whether a unit uses a granule that has no node.
    misses_node: bool,
}

/// A use of a node: the number of the index, the node, and the use.
pub(super) type NodeUse = (u32, u64, Use);

/// Returns the number of units of a piece whose call is loaded: of its rounds, or one.
pub(super) fn units_of(piece: &Piece, machine: &mut Machine) -> u32 {
    piece.rounds.as_ref().map_or(1, |rounds| rounds.count(machine))
}

impl Reserver {
    /// Loads a call, as far as keys follow from its record.
    pub(super) fn load(
        &mut self,
        programs: &Programs,
        reservations: &PieceReservations,
        transaction: u32,
        call: Call<'_>,
    ) -> Result<(), Divergence> {
        if self.loaded == Some(transaction) {
            return Ok(());
        }
        self.loaded = None;
        programs.load_with(call, &reservations.witnesses[call.program], &mut self.planner)?;
        self.loaded = Some(transaction);
        Ok(())
    }

    /// Visits what a unit of a piece of the loaded call uses.
    pub(super) fn visit_unit(
        &mut self,
        piece: &Piece,
        reservations: &UnitReservations,
        round: u32,
        indexes: &Indexes,
        mut visit: impl FnMut(NodeUse),
    ) {
        let mut has_nodes = true;
        self.visit_keys(piece, reservations, round, |Reservation { granule, mode, .. }, key| {
            let Some(number) = indexes.number(granule.table.id, granule.index) else { return };
            has_nodes &= indexes.for_each_node(number, key, |node, is_whole| {
                visit((number, node, Use { mode: *mode, is_whole }));
            });
        });
        self.misses_node |= !has_nodes;
    }

    /// Visits the granules that a unit of a piece of the loaded call uses.
    fn visit_keys(
        &mut self,
        piece: &Piece,
        reservations: &UnitReservations,
        round: u32,
        visit: impl FnMut(&Reservation, &ReservedKey),
    ) {
        let Planner { machine, witnesses, .. } = &mut self.planner;
        if let Some(rounds) = &piece.rounds {
            let value = rounds.value(round, machine);
            machine.set(rounds.variable, value);
            reservations.of_round.iter().for_each(|own| own.load_round(witnesses, round, machine));
        }
        reservations.reservations.for_each(machine, Some(witnesses), &mut self.key, visit);
    }

    /// Visits what the writes of a transaction that was logged by value use.
    pub(super) fn visit_writes(
        &mut self,
        programs: &Programs,
        order: CommitOrder,
        writes: WritesRecord<'_>,
        indexes: &Indexes,
        mut visit: impl FnMut(NodeUse),
    ) -> Result<(), Divergence> {
        for (_, write) in writes.writes() {
            let malformed = || malformed_writes(order);
            let table = programs.definitions.get(write.table).ok_or_else(malformed)?;
            self.arena.clear();
            write
                .decode(table, &mut self.arena, &mut self.row, &mut self.changed)
                .map_err(|_| malformed())?;
            for index in 0..table.indexes.len() {
                let Some(number) = indexes.number(table.id, index) else { continue };
                let mode = self.mode_of(&write, table, index);
                // What an update or a delete leaves behind in other indexes is not in the record.
                let is_known = index == 0 || write.change == RowChange::Insert;
                let columns = if is_known { key_columns(table, index) } else { Vec::new() };
                self.key.take_row(&columns, table, &self.row, &self.arena);
                self.misses_node |= !indexes.for_each_node(number, &self.key, |node, is_whole| {
                    visit((number, node, Use { mode, is_whole }));
                });
            }
        }
        Ok(())
    }

    fn mode_of(&self, write: &Write<'_>, table: &Table, index: usize) -> ReservationMode {
        let moves =
            |index: usize| table.indexes[index].columns.iter().any(|column| self.changed.contains(column));
        let unique = |index: usize| index == 0 || table.indexes[index].unique;
        // A row whose unique keys change leaves its table for a moment.
        let leaves = write.change != RowChange::Update
            || (0..table.indexes.len()).any(|index| unique(index) && moves(index));
        match (index, leaves) {
            (0, true) => ReservationMode::Write,
            (0, false) => ReservationMode::Update,
            (_, true) if unique(index) => ReservationMode::Write,
            (_, true) => ReservationMode::Touch,
            (_, false) if moves(index) => ReservationMode::Touch,
            (_, false) => ReservationMode::Change,
        }
    }
}

/// The entries of this part of the transactions of a chunk tell how many all of them will have.
const SAMPLE: usize = 16;

/// The entries of consecutive transactions, with units numbered from 0.
#[derive(Default)]
struct Chunk {
    /// By transaction, the end of its units, and its program.
    ends: Vec<u32>,
    programs: Vec<u32>,
    /// Numbers that no unit has, ascending.
    unused: Vec<u32>,
    /// By bucket.
    entries: Vec<Vec<Packed>>,
}

/// What `Chunk::of` and `list` go over.
pub(super) struct Listing<'l, B> {
    pub(super) programs: &'l Programs,
    pub(super) reservations: &'l PieceReservations,
    pub(super) indexes: &'l Indexes,
    pub(super) layouts: &'l Layouts,
    pub(super) transactions: &'l B,
}

/// The units of all transactions.
pub(super) struct Listed {
    /// By node.
    pub(super) nodes: Nodes,
    /// By transaction, its first unit; last the number of units.
    pub(super) firsts: Vec<u32>,
    /// By transaction, its program, or `BY_VALUE`.
    pub(super) programs: Vec<u32>,
    /// Numbers that no unit has, ascending.
    pub(super) unused: Vec<u32>,
}

/// Adds the use of a node by a unit to the entries of its bucket.
#[inline]
fn add(entries: &mut [Vec<Packed>], unit: u32, (index, node, of): NodeUse) {
    let (bucket, entry) = (&mut entries[bucket_of(index, node)], Packed::new(node, unit, of));
    if bucket.last() != Some(&entry) {
        bucket.push(entry);
    }
}

/// Why units are not listed.
pub(super) enum NotListed {
    /// They are too many to be numbered.
    TooMany,
    /// One uses a granule that has no node.
    NoNode,
    /// A transaction is not as its program says.
    Diverged(Divergence),
}

impl From<Divergence> for NotListed {
    fn from(divergence: Divergence) -> Self {
        Self::Diverged(divergence)
    }
}

impl Chunk {
    fn of<B: Batch>(listing: &Listing<'_, B>, range: std::ops::Range<usize>) -> Result<Self, NotListed> {
        let Listing { programs, reservations, indexes, layouts, transactions } = *listing;
        let (mut reserver, mut counts) = (Reserver::default(), Vec::new());
        let mut chunk = Self { entries: vec![Vec::new(); indexes.count() * BUCKETS], ..Self::default() };
        let Self { ends, programs: called, unused, entries } = &mut chunk;
        let sampled = range.len() / SAMPLE;
        for (number, index) in range.enumerate() {
            if number == sampled {
                // Lists that grow again and again are copied again and again, each time to new memory.
                entries.iter_mut().for_each(|bucket| bucket.reserve(bucket.len() * SAMPLE));
            }
            let Transaction { order, body } = transactions.get(index);
            let first = ends.last().copied().unwrap_or(0);
            let end = match body {
                Body::Call { program, record } => {
                    let call = Call { order, program, record: &record };
                    reserver.load(programs, reservations, index as u32, call)?;
                    let pieces = &programs.pieces.pieces[program];
                    counts.clear();
                    counts.extend(pieces.iter().map(|own| units_of(own, &mut reserver.planner.machine)));
                    let in_rounds = pieces.iter().zip(&counts).filter(|(piece, _)| piece.rounds.is_some());
                    let rounds = in_rounds.map(|(_, count)| *count).max().unwrap_or(0);
                    let of_call = layouts.of_call(program, first, rounds).ok_or(NotListed::TooMany)?;
                    for (position, (piece, own)) in
                        pieces.iter().zip(&reservations.units[program]).enumerate()
                    {
                        let units = layouts.of_piece(program, &of_call, position);
                        for round in 0..counts[position] {
                            let unit = units.start + round;
                            reserver.visit_unit(piece, own, round, indexes, |of| add(entries, unit, of));
                        }
                        unused.extend(units.start + counts[position]..units.end);
                    }
                    of_call.end
                }
                Body::Writes(writes) => {
                    reserver.visit_writes(programs, order, writes, indexes, |of| add(entries, first, of))?;
                    first.checked_add(1).ok_or(NotListed::TooMany)?
                }
            };
            ends.push(end);
            called.push(match body {
                Body::Call { program, .. } => program as u32,
                Body::Writes(_) => BY_VALUE,
            });
        }
        if reserver.misses_node { Err(NotListed::NoNode) } else { Ok(chunk) }
    }
}

/// Most transactions that `sampled` looks at.
const LOOKED_AT: usize = 1 << 14;

/// What some of the transactions tell of the granules of all of them.
pub(super) struct Sampled {
    /// The indexes whose longest granules are not worth a node, because nearly every unit that uses some of
    /// them uses a granule around them that no other unit does.
    pub(super) widened: Vec<u32>,
    /// The lengths of the granules that units use as a whole, each with the number of the index.
    pub(super) used: BTreeSet<(u32, usize)>,
}

/// Samples the calls among the transactions.
pub(super) fn sampled<B: Batch>(listing: &Listing<'_, B>) -> Result<Sampled, Divergence> {
    let Listing { programs, reservations, indexes, transactions, .. } = *listing;
    let (nested, mut used) = (indexes.nested(), BTreeSet::new());
    let (mut outer, mut users) = (vec![HashSet::new(); nested.len()], vec![0_usize; nested.len()]);
    let mut reserver = Reserver::default();
    let step = transactions.len().div_ceil(LOOKED_AT).max(1);
    for index in (0..transactions.len()).step_by(step) {
        let Transaction { order, body: Body::Call { program, record } } = transactions.get(index) else {
            continue;
        };
        let call = Call { order, program, record: &record };
        reserver.load(programs, reservations, index as u32, call)?;
        for (piece, own) in programs.pieces.pieces[program].iter().zip(&reservations.units[program]) {
            for round in 0..units_of(piece, &mut reserver.planner.machine) {
                let mut last = None;
                reserver.visit_keys(piece, own, round, |Reservation { granule, .. }, key| {
                    let Some(number) = indexes.number(granule.table.id, granule.index) else { return };
                    used.insert((number, key.len()));
                    let is_of = |own: &Nested| own.number == number && own.inner == key.len();
                    let Some(place) = nested.iter().position(is_of) else { return };
                    let around = nested[place].outer;
                    let node = (place, node_of(nested[place].number.into(), around, key.prefix(around)));
                    if last != Some(node) {
                        last = Some(node);
                        users[place] += 1;
                        outer[place].insert(node.1);
                    }
                });
            }
        }
    }
    let is_own = |place: &usize| users[*place] > 0 && outer[*place].len() * 2 > users[*place];
    let widened = (0..nested.len()).filter(is_own).map(|place| nested[place].number).collect();
    Ok(Sampled { widened, used })
}

/// Lists the units of all transactions.
pub(super) fn list<B: Batch>(listing: &Listing<'_, B>, threads: usize) -> Result<Listed, NotListed> {
    let (threads, count) = (threads.max(1), listing.transactions.len());
    let size = count.div_ceil(threads).max(1);
    let chunks: Vec<Result<Chunk, NotListed>> = std::thread::scope(|scope| {
        let chunk = |thread: usize| {
            let range = (thread * size).min(count)..((thread + 1) * size).min(count);
            scope.spawn(move || Chunk::of(listing, range))
        };
        let running: Vec<_> = (0..threads).map(chunk).collect();
        running.into_iter().map(|thread| thread.join().expect("a listing thread does not panic")).collect()
    });
    let (mut firsts, mut called) = (Vec::with_capacity(count + 1), Vec::with_capacity(count));
    let (mut unused, mut first) = (Vec::new(), 0_u32);
    let mut by_bucket: Vec<Unsorted> = vec![Vec::new(); listing.indexes.count() * BUCKETS];
    firsts.push(0);
    for chunk in chunks {
        let chunk = chunk?;
        let units = chunk.ends.last().copied().unwrap_or(0);
        // `u32::MAX` is behind all units.
        let end = first.checked_add(units).filter(|end| *end < u32::MAX).ok_or(NotListed::TooMany)?;
        firsts.extend(chunk.ends.iter().map(|own| first + own));
        called.extend(chunk.programs);
        unused.extend(chunk.unused.iter().map(|own| first + own));
        by_bucket.iter_mut().zip(chunk.entries).for_each(|(all, own)| all.push((first, own)));
        first = end;
    }
    Ok(Listed { nodes: Nodes { buckets: sorted(by_bucket, threads) }, firsts, programs: called, unused })
}

/// The entries of a bucket, by chunk, each with the first unit of the chunk.
type Unsorted = Vec<(u32, Vec<Packed>)>;

/// Sorts the entries of each bucket.
fn sorted(by_bucket: Vec<Unsorted>, threads: usize) -> Vec<Bucket> {
    let slots: Vec<Mutex<(Unsorted, Bucket)>> =
        by_bucket.into_iter().map(|chunks| Mutex::new((chunks, Bucket::default()))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut slot = slot.lock().expect("a sorting thread does not panic");
            let chunks = std::mem::take(&mut slot.0);
            // The units of the first chunk begin at 0.
            let mut chunks = chunks.into_iter();
            let mut all = chunks.next().map(|(_, entries)| entries).unwrap_or_default();
            for (base, entries) in chunks {
                all.extend(entries.into_iter().map(|own| own.after(base)));
            }
            slot.1 = Bucket::of(all);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    slots.into_iter().map(|slot| slot.into_inner().expect("a sorting thread does not panic").1).collect()
}
