//! `aries`: a physiological log replayed in three passes: analysis, redo of everything that happened, undo of
//! what did not commit.
//! Paper: command logging §IV-B; ARIES (Mohan et al., TODS 1992). Differs: checkpoints are consistent, so
//! there is no dirty page table and redo begins at the checkpoint; tuples are independent, so redo is
//! shuffled by table and key (the paper's parallel redo by partition); a transaction that ended in an abort
//! has written nothing, as it logs before it writes, so redo leaves it out.
//!
//! A transaction is a loser when its operations count and its fate is not known: it was committing at the
//! crash. It held locks then, so it is the last writer of each of its rows, until recovery undoes it. Before
//! the database opens, the log is told so of each, one after the other (`reprise::Database::open`); so a
//! recovery that is interrupted there goes on where it was, and what later transactions write is never
//! undone. One record a transaction compensates all of its operations: from then on redo leaves them out, as
//! it does with those of a transaction that ended in an abort.
//! Held by: `losers_are_undone`, `undo_goes_on_where_it_was` (crates/reprise/tests/suite/losers.rs).

use super::tuples::{Select, Shuffle, Shuffled, TupleWrite, TupleWriter, build_indexes, each_segment, sweep};
use super::unknown_record;
use crate::{LogContents, Progress, RecoveryError};
use catalog::CommitOrder;
use logging::content::{Operation, Outcome, Record, RecordKind};
use sql::Schema;
use std::collections::BTreeMap;
use transaction::Tables;

/// What the log says of its transactions.
struct Fates<'l> {
    /// By place in the log: whether it is an operation to redo. Its transaction committed, or is to be
    /// undone.
    redone: Vec<bool>,
    /// Of transactions that count and whose fate is not known: their operations.
    losers: BTreeMap<CommitOrder, Vec<Operation<'l>>>,
}

impl<'l> Fates<'l> {
    /// The pass of analysis. Operations of transactions that ended before `from` are in the checkpoint, or
    /// came to nothing.
    fn of(log: &'l LogContents, from: CommitOrder) -> Self {
        let places = |kind| (0..log.len()).filter(move |place| log.kind(*place) == kind);
        let fate = |place| match log.record(place).1 {
            Record::Outcome(Outcome { transaction, committed }) => Some((transaction, committed)),
            _ => None,
        };
        let mut ended: Vec<(CommitOrder, bool)> = places(RecordKind::Outcome).filter_map(fate).collect();
        ended.sort_unstable();
        // Operations come in the order of their transactions too, so both are gone through side by side.
        let mut ended = ended.into_iter().peekable();
        let mut fates = Self { redone: vec![false; log.len()], losers: BTreeMap::new() };
        for place in places(RecordKind::Operation) {
            let (transaction, Record::Operation(operation)) = log.record(place) else { continue };
            while ended.next_if(|(other, _)| *other < transaction).is_some() {}
            let fate = ended.peek().filter(|(other, _)| *other == transaction);
            fates.redone[place] = match fate {
                Some((_, committed)) => *committed,
                None => transaction >= from,
            };
            if fate.is_none() && transaction >= from {
                fates.losers.entry(transaction).or_default().push(operation);
            }
        }
        fates
    }
}

/// The pass of redo.
impl Select for &Fates<'_> {
    fn select<'l>(
        &self,
        place: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError> {
        match record {
            Record::Writes(writes) => {
                writes.writes().for_each(|(_, write)| add(order, TupleWrite::Write(write)));
            }
            Record::Operation(operation) if self.redone[place] => {
                add(order, TupleWrite::Operation(operation))
            }
            Record::Operation(_) | Record::Outcome(_) => {}
            _ => return Err(unknown_record(order)),
        }
        Ok(())
    }
}

/// Replays everything; returns the definitions and tables as they are afterwards, and what was undone.
pub(crate) fn replay(
    log: &LogContents,
    from: CommitOrder,
    (schema, tables): (Schema, Tables),
    threads: usize,
    progress: &Progress,
) -> Result<(Schema, Tables, Vec<CommitOrder>), RecoveryError> {
    let fates = Fates::of(log, from);
    let shuffle = Shuffle { log, threads, progress, select: &fates };
    let mut shuffled = Shuffled::default();
    let (schema, tables) = each_segment(log, schema, tables, progress, |range, tables| {
        shuffle.replay(range, tables, &mut shuffled)
    })?;
    let mut writer = TupleWriter::new(&tables)?;
    writer.stay();
    for (transaction, operations) in fates.losers.iter().rev() {
        let mut operations = operations.iter().rev();
        operations.try_for_each(|operation| writer.undo(*transaction, operation, &tables))?;
    }
    writer.leave();
    shuffled.add(writer.take_tombstones());
    sweep(shuffled.tombstones, threads, &tables)?;
    let undone = fates.losers.into_keys().rev().collect();
    Ok((schema, build_indexes(tables, threads, log.last_order())?, undone))
}
