//! Partitions of units whose keys follow from results of earlier blocks.
//! Paper: PACMAN §4.3.1: keys are found from arguments, and from values of piece-sets that have run.
//!
//! A block is deferred when no other cut gives its threads enough partitions. Its piece-set is assigned to
//! partitions once the blocks that send its keys are done with the batch. Example, the bank of the paper:
//!
//! 1. A batch is planned: the pieces of block α (the reads of Spouse) fall into partitions by `src`; those of
//!    block β (Current) wait.
//! 2. The partitions of α run, and send `dst` on tapes.
//! 3. β is assigned: a piece of `transfer` connects the keys `src` and `dst`, a piece of `deposit` has one.
//!    Keys that no piece of the batch connects are of different partitions.
//! 4. The partitions of β run.
//!
//! Invariant: a unit is assigned only after all units that send its keys. Held by:
//! `tasks_keep_the_order_of_blocks_and_batches`, and by an assertion in `PlannedBatch::received`.

use crate::divergence::{Divergence, malformed_writes};
use crate::plan::{Assigned, Connected, PlannedBatch, Planner, WaitingUnit, partition_of_hash};
use crate::programs::{Call, Cut, Partitions, PieceFacts, Programs, TapeSource};
use crate::tape::Received;
use crate::unit::Unit;
use crate::{Batch, Body};

impl Programs {
    /// Assigns the units of a deferred block to partitions. `received` begins to receive the results of a
    /// transaction that are on a tape.
    pub(crate) fn assign<'t, B: Batch>(
        &self,
        batch: &PlannedBatch<B>,
        block: usize,
        planner: &mut Planner,
        received: impl Fn(&TapeSource, u32) -> Received<'t>,
    ) -> Result<(), Divergence> {
        let Partitions { count, cut, .. } = self.partitions[block];
        let mut assigned =
            Assigned { units: vec![Vec::new(); count], partitions: vec![0; batch.transactions.len()] };
        let mut push = |unit: Unit, partition: usize| {
            assigned.units[partition].push(unit);
            assigned.partitions[unit.transaction as usize] = partition as u8;
        };
        let mut connected = Connected::default();
        for WaitingUnit { unit, key } in &batch.waiting[block] {
            let transaction = batch.transactions.get(unit.transaction as usize);
            match (transaction.body, *key) {
                (_, Some(hash)) if cut == Cut::Keys => connected.add(*unit, &[hash]),
                (_, Some(hash)) => push(*unit, partition_of_hash(hash, count)),
                (Body::Call { program, record }, None) => {
                    let call = Call { order: transaction.order, program, record: &record };
                    self.load_for_planning(call, planner)?;
                    let facts = self.facts(program, block);
                    load_received(facts, planner, |source| received(source, unit.transaction));
                    if cut == Cut::Keys {
                        let hashes = planner.hashes_of(&facts.piece.keys);
                        connected.add(*unit, &hashes);
                        planner.hashes = hashes;
                    } else {
                        push(*unit, planner.partition_of(&facts.piece.received_partition, count));
                    }
                }
                (Body::Writes(_), None) => return Err(malformed_writes(transaction.order)),
            }
        }
        connected.for_each(count, &mut push);
        batch.set_assigned(block, assigned);
        Ok(())
    }
}

/// Puts the results that the keys of a piece follow from into the registers of the planner. Those of an
/// operation that never ran stay NULL: then what they tell never ran, either.
fn load_received<'t>(
    facts: &PieceFacts,
    planner: &mut Planner,
    received: impl Fn(&TapeSource) -> Received<'t>,
) {
    let Planner { machine, witnesses, .. } = planner;
    for key in &facts.keys {
        let mut received = received(&key.tape);
        for register in &key.registers {
            let Some(value) = received.next(witnesses, &mut machine.frame.arena) else { break };
            machine.set(*register, value);
        }
    }
}
