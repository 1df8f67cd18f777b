//! `poplar`: a logical log replayed by all threads at once, each device's records as they lie there, under
//! latches: the last writer of a row wins, by number. Nothing is sorted.
//! Paper: Poplar §5. What counts, from RSNs to RSNe and what counts alone past that, is found as the log is
//! read (`crate::log`). Differs: records are taken from a device's end backwards, as the last writer then
//! mostly comes first.

use super::llr;
use super::tuples::Latches;
use crate::{LogContents, Progress, RecoveryError};
use sql::Schema;
use transaction::Tables;

/// Replays everything, upon a fuzzy checkpoint or a consistent one; returns the definitions and tables as
/// they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    schema: Schema,
    tables: Tables,
    how: (usize, Latches),
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    // The records are arranged by device (`LogContents::arrange`); rows are written as `llr` writes them.
    llr::replay(log, schema, tables, how, progress)
}
