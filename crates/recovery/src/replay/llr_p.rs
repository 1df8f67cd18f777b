//! `llr-p`: a logical log replayed without latches, its writes shuffled by table and primary key.
//! Paper: PACMAN §4.5, §6.2 (LLR-P).

use super::tuples::{Select, Shuffle, Shuffled, TupleWrite, build_indexes, each_segment, sweep};
use super::unknown_record;
use crate::{LogContents, Progress, RecoveryError};
use catalog::CommitOrder;
use logging::content::Record;
use sql::Schema;
use transaction::Tables;

/// All writes count.
struct AllWrites;

impl Select for AllWrites {
    fn select<'l>(
        &self,
        _place: usize,
        order: CommitOrder,
        record: Record<'l>,
        add: &mut dyn FnMut(CommitOrder, TupleWrite<'l>),
    ) -> Result<(), RecoveryError> {
        let Record::Writes(writes) = record else { return Err(unknown_record(order)) };
        writes.writes().for_each(|(_, write)| add(order, TupleWrite::Write(write)));
        Ok(())
    }
}

/// Replays everything; returns the definitions and tables as they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    schema: Schema,
    tables: Tables,
    threads: usize,
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let shuffle = Shuffle { log, threads, progress, select: AllWrites };
    let mut shuffled = Shuffled::default();
    let (schema, tables) = each_segment(log, schema, tables, progress, |range, tables| {
        shuffle.replay(range, tables, &mut shuffled)
    })?;
    sweep(shuffled.tombstones, threads, &tables)?;
    Ok((schema, build_indexes(tables, threads, log.last_order())?))
}
