//! Common code of the methods that replay logs by value, tuple by tuple: they write rows and run no
//! procedure.
//!
//! The log is cut at definitions, which run alone. Deleted rows stay as tombstones until replay ends, because
//! an earlier write may come after the delete. Secondary indexes are built from the rows at the end.

mod finish;
mod latched;
mod shuffle;
mod write;
mod writer;

pub(crate) use finish::run_on;
pub(super) use finish::{Tombstones, build_indexes, sweep};
pub use latched::Latches;
pub(super) use latched::{newest_first, rewrite, state_at};
pub(super) use shuffle::{Select, Shuffle, Shuffled};
pub(crate) use write::TupleWrite;
pub(super) use writer::TupleWriter;

use super::context::ReplayContext;
use super::divergence::unfit;
use crate::{RecoveryError, Stage};
use catalog::{CommitOrder, Table, TableId};
use std::ops::Range;
use transaction::Tables;

/// Runs `replay` on the records between definitions, and applies the definitions between them.
pub(super) fn each_segment(
    context: &mut ReplayContext<'_>,
    mut replay: impl FnMut(Range<usize>, &ReplayContext<'_>) -> Result<(), RecoveryError>,
) -> Result<(), RecoveryError> {
    let log = context.log;
    context.progress.begin(Stage::Replay, log.len() as u64);
    let mut worker = context.worker()?;
    let mut first = 0;
    for index in log.statements().chain(std::iter::once(log.len())) {
        if first < index {
            replay(first..index, context)?;
        }
        first = index + 1;
        if index == log.len() {
            break;
        }
        context.apply_definitions_at(index, &mut worker)?;
    }
    Ok(())
}

/// Returns the definition of a write's table.
pub(crate) fn table_of(tables: &Tables, table: TableId, order: CommitOrder) -> Result<&Table, RecoveryError> {
    Ok(tables.by_id(table).ok_or_else(|| unfit(order))?.definition())
}
