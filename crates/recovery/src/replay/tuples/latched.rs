//! Rows written by any thread, newest transaction first, each under its record's latch: the last writer wins.
//! Paper: SiloR §5 (log recovery); PACMAN §6.2 (PLR and LLR, and Figure 15: both without latches).

use super::finish::run_on;
use crate::RecoveryError;
use crate::replay::context::ReplayContext;
use catalog::CommitOrder;
use logging::content::Record as Logged;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Guard, Record, RecordState};

/// Records of the log that a thread takes at a time.
const CHUNK: usize = 256;

/// Whether rows are latched while they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latches {
    /// Rows are latched.
    #[default]
    On,
    /// Rows are not latched. The recovered state may be wrong; only the duration of replay is of use.
    Off,
}

/// Runs `write` on a range of the log's records, from its end backwards, on several threads. Calls of one
/// thread share an `S`.
pub(in crate::replay) fn newest_first<S: Default>(
    range: Range<usize>,
    context: &ReplayContext<'_>,
    write: impl Fn(CommitOrder, Logged<'_>, &mut S, &Guard) -> Result<(), RecoveryError> + Sync,
) -> Result<(), RecoveryError> {
    let ReplayContext { log, progress, .. } = context;
    let done = AtomicU64::new(range.start as u64);
    let chunks = range.len().div_ceil(CHUNK);
    run_on(context, chunks, |chunk, worker| {
        let end = range.end - chunk * CHUNK;
        let indexes = end.saturating_sub(CHUNK).max(range.start)..end;
        let count = indexes.len() as u64;
        let (guard, mut shared) = (worker.enter(), S::default());
        let result = indexes.rev().try_for_each(|index| {
            let (order, record) = log.record(index);
            write(order, record, &mut shared, &guard)
        });
        drop(guard);
        worker.reclaim();
        progress.set_done(done.fetch_add(count, Ordering::Relaxed) + count);
        result
    })?;
    let last = range.map(|index| log.order(index)).max().unwrap_or_default();
    context.tables.epochs.advance_to(last.epoch());
    Ok(())
}

/// Returns the state of a record that the transaction at an order has written, or deleted.
pub(in crate::replay) fn state_at(order: CommitOrder, is_deleted: bool) -> RecordState {
    if is_deleted { RecordState::absent(order) } else { RecordState::present(order) }
}

/// Writes a record at an order, unless it has a later order; `None` deletes the row. Returns whether the
/// record was written.
pub(in crate::replay) fn rewrite(
    record: Record<'_>,
    order: CommitOrder,
    image: Option<&[u64]>,
    latches: Latches,
) -> bool {
    let state = state_at(order, image.is_none());
    if latches == Latches::Off {
        // A row that outgrows its memory moves, which two threads cannot do at the same time.
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
    // A record that was never written has no order, and any order is above that.
    if before.was_present() && before.order() >= order {
        record.unlock(before);
        return false;
    }
    image.inspect(|image| record.write_image(image));
    record.unlock(state);
    true
}
