//! Finds the ways in which each block may be cut into partitions, and the reads of constant tables whose
//! results determine its keys.
//! Paper: PACMAN §4.3.1.

use super::need::Need;
use super::partition::{Position, SliceColumns, key_columns, positions};
use super::program::Program;
use super::resolve::{Given, Resolver};
use super::rounds::{Rounds, rounds};
use super::{Analysis, Slice};
use crate::{OperationId, Register};
use catalog::TableId;
use std::collections::{BTreeMap, BTreeSet};

/// A slice with its block, the part of the program that it needs, and its independent rounds.
pub(super) struct Needed<'a> {
    pub(super) block: usize,
    pub(super) slice: &'a Slice,
    pub(super) need: Need,
    pub(super) rounds: Option<Rounds>,
}

/// The ways in which a block may be cut into partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    /// By whole pieces, with values from the calls' records.
    pub whole: bool,
    /// By whole pieces, with values that pieces receive from earlier blocks.
    pub received: bool,
    /// By rounds of its pieces, into more partitions than whole pieces give.
    pub rounds: bool,
    /// By the keys that its pieces connect.
    pub keys: bool,
    /// Whether some of these keys follow from values that pieces receive.
    pub keys_are_received: bool,
}

/// The values that may determine the partition of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Those of the call's record: arguments and witness values.
    Recorded,
    /// Those of the record, and the variable of a round.
    InRounds,
    /// Those of the record, and results of earlier blocks.
    Received,
    /// Those of `Received`, and results of reads of constant tables, which the piece executes itself.
    Constant,
}

impl Needed<'_> {
    /// Returns the columns that the slice's operations bind to values of a kind.
    pub(super) fn columns<'p>(
        &self,
        program: &'p Program,
        resolver: &Resolver<'p>,
        values: Values,
    ) -> SliceColumns<'p> {
        let Self { slice, need, rounds, .. } = self;
        let results = |id: OperationId, register: Register| {
            if let Some((_, recorded)) = program.witnesses.get(&id) {
                return recorded.contains(&register);
            }
            let is_received = || need.sources.contains(&id);
            let is_constant = || need.executed.contains(&id) && !slice.operations.contains(&id);
            match values {
                Values::Recorded | Values::InRounds => false,
                Values::Received => is_received(),
                Values::Constant => is_received() || is_constant(),
            }
        };
        let variable = rounds.as_ref().map(|rounds| rounds.variable);
        let variable = variable.filter(|_| values == Values::InRounds);
        SliceColumns::of(program, resolver, slice, Given { variable, results: &results })
    }
}

/// The columns that determine the partitions of a block, for each way in which it may be cut.
pub(super) struct BlockPositions {
    /// By whole pieces, with values from the calls' records.
    pub(super) whole: Vec<Position>,
    /// By whole pieces, with values that they receive; empty if the records suffice.
    pub(super) received: Vec<Position>,
    /// By rounds; empty unless these give more columns than whole pieces.
    pub(super) in_rounds: Vec<Position>,
    /// The columns of keys that pieces may connect.
    pub(super) keys: BTreeMap<TableId, Vec<usize>>,
    /// Whether the keys follow from values that pieces receive.
    pub(super) keys_are_received: bool,
}

impl BlockPositions {
    /// Returns the ways in which the block may be cut.
    pub(super) fn cuts(&self) -> Cuts {
        Cuts {
            whole: !self.whole.is_empty(),
            received: !self.received.is_empty(),
            rounds: !self.in_rounds.is_empty(),
            keys: !self.keys.is_empty(),
            keys_are_received: self.keys_are_received,
        }
    }
}

impl Analysis {
    /// Returns the slices of all blocks with the parts of their programs that they need, by block.
    pub(super) fn needed<'a>(&'a self, resolvers: &[Resolver<'a>]) -> Vec<Needed<'a>> {
        let mut needed = Vec::new();
        for (index, block) in self.global.blocks.iter().enumerate() {
            for slice in &block.slices {
                let need = self.need_of(slice);
                let rounds = rounds(&self.programs[slice.program], &resolvers[slice.program], &need);
                needed.push(Needed { block: index, slice, need, rounds });
            }
        }
        needed
    }

    /// Returns the part of its program that a slice needs.
    fn need_of(&self, slice: &Slice) -> Need {
        let program = &self.programs[slice.program];
        if program.whole {
            return Need::whole(program);
        }
        Need::of(program, slice.operations.iter().copied(), &|id| self.is_free(slice.program, id))
    }

    /// Returns the columns that the slices of a block bind to values of a kind.
    fn columns_of<'a>(
        &'a self,
        block: usize,
        needed: &[Needed<'a>],
        resolvers: &[Resolver<'a>],
        values: Values,
    ) -> Vec<SliceColumns<'a>> {
        let of_block = needed.iter().filter(|needed| needed.block == block);
        let columns = |needed: &Needed<'a>| {
            let program = needed.slice.program;
            needed.columns(&self.programs[program], &resolvers[program], values)
        };
        of_block.map(columns).collect()
    }

    /// Returns the columns that determine the partitions of a block.
    pub(super) fn positions<'a>(
        &'a self,
        block: usize,
        needed: &[Needed<'a>],
        resolvers: &[Resolver<'a>],
    ) -> BlockPositions {
        let columns = |values| self.columns_of(block, needed, resolvers, values);
        let by_value = &self.written_by_value;
        let recorded = columns(Values::Recorded);
        let whole = positions(&recorded, by_value);
        let mut in_rounds = positions(&columns(Values::InRounds), by_value);
        if in_rounds.len() <= whole.len() {
            in_rounds.clear();
        }
        let mut keys = key_columns(&recorded, by_value);
        let (mut received, mut keys_are_received) = (Vec::new(), false);
        if whole.is_empty() {
            let columns = columns(Values::Received);
            received = positions(&columns, by_value);
            if keys.is_empty() {
                keys = key_columns(&columns, by_value);
                keys_are_received = !keys.is_empty();
            }
        }
        BlockPositions { whole, received, in_rounds, keys, keys_are_received }
    }

    /// Returns the reads of constant tables, by program, that should become slices: their results determine
    /// the keys of a block, which can be cut only if it receives them.
    pub(super) fn key_reads(&self) -> BTreeSet<(usize, OperationId)> {
        let resolvers: Vec<Resolver<'_>> = self.programs.iter().map(Resolver::new).collect();
        let needed = self.needed(&resolvers);
        let mut reads = BTreeSet::new();
        for block in 0..self.global.blocks.len() {
            let cuts = self.positions(block, &needed, &resolvers).cuts();
            if cuts.whole || cuts.received || cuts.rounds || cuts.keys {
                continue;
            }
            let columns = self.columns_of(block, &needed, &resolvers, Values::Constant);
            let keys = key_columns(&columns, &self.written_by_value);
            let of_block = needed.iter().filter(|needed| needed.block == block);
            for (needed, columns) in of_block.zip(&columns) {
                let values = columns.keys(&keys).into_iter().flatten();
                let sources = values.flat_map(|partition| partition.value.after().clone());
                let is_read = |id: &OperationId| needed.need.executed.contains(id);
                reads.extend(sources.filter(is_read).map(|id| (needed.slice.program, id)));
            }
        }
        reads
    }
}
