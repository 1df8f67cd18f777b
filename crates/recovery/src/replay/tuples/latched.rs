//! Rows written by whichever thread comes, newest transaction first, each under its record's latch: the last
//! writer wins.
//! Paper: SiloR §5 (log recovery); PACMAN §6.2 (PLR and LLR, and Figure 15: both without latches).

use super::run_on;
use crate::{LogContents, Progress, RecoveryError};
use catalog::CommitOrder;
use logging::content::Record as Logged;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Guard, Record, RecordState};
use transaction::Tables;

/// Records of the log that a thread takes at a time.
const CHUNK: usize = 256;

/// Whether rows are latched while they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latches {
    /// They are.
    #[default]
    On,
    /// They are not: what comes out may be wrong, and only how long it took is worth anything.
    Off,
}

/// Runs `write` on the records of a part of the log, from its end backwards, on several threads.
pub(in crate::replay) fn newest_first<'l>(
    log: &'l LogContents,
    range: Range<usize>,
    tables: &Tables,
    threads: usize,
    progress: &Progress,
    write: impl Fn(CommitOrder, Logged<'l>, &Guard) -> Result<(), RecoveryError> + Sync,
) -> Result<(), RecoveryError> {
    let done = AtomicU64::new(range.start as u64);
    let chunks = range.len().div_ceil(CHUNK);
    run_on(threads, tables, chunks, |chunk, worker| {
        let end = range.end - chunk * CHUNK;
        let places = end.saturating_sub(CHUNK).max(range.start)..end;
        let count = places.len() as u64;
        let guard = worker.enter();
        let result = places.rev().try_for_each(|place| {
            let (order, record) = log.record(place);
            write(order, record, &guard)
        });
        drop(guard);
        worker.reclaim();
        progress.set_done(done.fetch_add(count, Ordering::Relaxed) + count);
        result
    })?;
    let last = range.map(|place| log.order(place)).max().unwrap_or_default();
    tables.epochs.advance_to(last.epoch());
    Ok(())
}

/// The state of a record that was written at an order, or is gone by that.
pub(in crate::replay) fn state_at(order: CommitOrder, gone: bool) -> RecordState {
    if gone { RecordState::absent(order) } else { RecordState::present(order) }
}

/// Gives a record what it is at an order, unless it is of a later one already; `None` when the row is gone.
/// Returns whether it did.
pub(in crate::replay) fn rewrite(
    record: Record<'_>,
    order: CommitOrder,
    image: Option<&[u64]>,
    latches: Latches,
) -> bool {
    let state = state_at(order, image.is_none());
    if latches == Latches::Off {
        // A row that outgrows its memory moves, which two threads can't do at a time.
        let fits = image.is_none_or(|image| image.len() <= record.row().capacity());
        let newer = record.locked_state().order() < order;
        if newer && fits {
            image.inspect(|image| record.write_image(image));
            record.unlock(state);
        }
        return newer && fits;
    }
    let before = loop {
        if let Some(before) = record.try_lock() {
            break before;
        }
        std::hint::spin_loop();
    };
    // A record that was never written is of no order, and the first transaction's order is above that.
    if before.was_present() && before.order() >= order {
        record.unlock(before);
        return false;
    }
    image.inspect(|image| record.write_image(image));
    record.unlock(state);
    true
}
