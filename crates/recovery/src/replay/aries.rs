//! `aries`: a physiological log replayed in three passes: analysis, redo of everything that happened, undo of what did not
//! commit.
//! Paper: command logging §IV-B; ARIES (Mohan et al., TODS 1992). Differs: checkpoints are consistent, so there is no dirty
//! page table and redo begins at the checkpoint; tuples are independent, so redo is shuffled by table and key (the paper's
//! parallel redo by partition); a transaction that ended in an abort has written nothing, as it logs before it writes, so
//! redo leaves it out.
//!
//! A transaction is a loser when its operations count and its fate is not known: it was committing at the crash. It held
//! locks then, so it is the last writer of each of its rows, until recovery undoes it. What is undone is logged as
//! compensations before the database opens (`reprise::Database::open`), each transaction's and then its outcome; so a
//! recovery that is interrupted there goes on where it was, and nothing is undone twice.
//! Held by: `losers_are_undone`, `undo_goes_on_where_it_was` (crates/reprise/tests/losers.rs).

use super::tuples::{
    Select, Shuffle, Shuffled, TupleWrite, TupleWriter, Undoing, build_indexes, each_segment, sweep,
};
use super::unknown_record;
use crate::{LogContents, Progress, RecoveryError};
use catalog::CommitOrder;
use logging::content::{Outcome, Record, RecordKind};
use sql::Schema;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transaction::Tables;

/// A transaction that was undone: the records that say so, complete but for their order, the last one its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undone {
    /// Kept in the order in which they must be logged.
    pub records: Vec<Vec<u8>>,
}

/// What the log says of its transactions.
struct Fates<'l> {
    /// Of those whose fate is known: whether they committed.
    ended: HashMap<CommitOrder, bool>,
    /// Of the others that count: their operations, but for those that are undone already.
    losers: BTreeMap<CommitOrder, Vec<Undoing<'l>>>,
}

impl<'l> Fates<'l> {
    /// The pass of analysis. Operations of transactions that ended before `from` are in the checkpoint, or came to nothing.
    fn of(log: &'l LogContents, from: CommitOrder) -> Self {
        let mut fates = Self { ended: HashMap::new(), losers: BTreeMap::new() };
        let mut undone: BTreeSet<(CommitOrder, u32)> = BTreeSet::new();
        for place in 0..log.len() {
            match log.kind(place) {
                RecordKind::Outcome | RecordKind::Compensation => {}
                _ => continue,
            }
            match log.record(place).1 {
                Record::Outcome(Outcome { transaction, committed }) => {
                    fates.ended.insert(transaction, committed);
                }
                Record::Compensation(own) => {
                    undone.insert((own.transaction, own.number));
                }
                _ => {}
            }
        }
        for place in (0..log.len()).filter(|place| log.kind(*place) == RecordKind::Operation) {
            let (transaction, Record::Operation(operation)) = log.record(place) else { continue };
            if transaction < from || fates.ended.contains_key(&transaction) {
                continue;
            }
            let operations = fates.losers.entry(transaction).or_default();
            if !undone.contains(&(transaction, operation.number)) {
                operations.push(Undoing { transaction, operation });
            }
        }
        fates
    }

    /// Whether the operations of a transaction are to be redone: it committed, or it is to be undone, or was.
    fn counts(&self, transaction: CommitOrder) -> bool {
        self.ended.get(&transaction).copied().unwrap_or_else(|| self.losers.contains_key(&transaction))
    }
}

/// The pass of redo.
impl Select for &Fates<'_> {
    fn select<'l>(
        &self,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError> {
        match record {
            Record::Writes(writes) => {
                writes.writes().for_each(|(_, write)| add(order, TupleWrite::Write(write)));
            }
            Record::Operation(operation) if self.counts(order) => {
                add(order, TupleWrite::Operation(operation))
            }
            Record::Compensation(own) if self.losers.contains_key(&own.transaction) => {
                add(order, TupleWrite::Write(own.write));
            }
            Record::Operation(_) | Record::Compensation(_) | Record::Outcome(_) => {}
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
    statements: &mut Vec<String>,
    threads: usize,
    progress: &Progress,
) -> Result<(Schema, Tables, Vec<Undone>), RecoveryError> {
    let fates = Fates::of(log, from);
    let shuffle = Shuffle { log, threads, progress, select: &fates };
    let mut shuffled = Shuffled::default();
    let (schema, tables) = each_segment(log, schema, tables, statements, progress, |range, tables| {
        shuffle.replay(range, tables, &mut shuffled)
    })?;
    let mut writer = TupleWriter::new(&tables)?;
    let mut undone = Vec::new();
    writer.enter();
    for (transaction, operations) in fates.losers.iter().rev() {
        let mut records = Vec::new();
        for undoing in operations.iter().rev() {
            records.push(writer.undo(undoing, &tables)?);
        }
        let mut outcome = Vec::new();
        Outcome { transaction: *transaction, committed: false }.write(&mut outcome);
        records.push(outcome);
        undone.push(Undone { records });
    }
    writer.exit();
    shuffled.add(writer.take_tombstones());
    sweep(&shuffled.tombstones, threads, &tables)?;
    Ok((schema, build_indexes(tables, threads, log.last_order())?, undone))
}
