//! `llr`: a logical log replayed by all threads at once, newest transaction first, under latches.
//! Paper: SiloR §5; PACMAN §6.2 (LLR). Differs: rows have one version; secondary indexes are built at the end.
//!
//! The last writer of a row wins, whenever it comes, so every write must be of a whole row.

use super::tuples::{
    Latches, TupleWrite, build_indexes, each_segment, newest_first, rewrite, state_at, sweep, table_of,
};
use super::{unfit, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError};
use catalog::{Arena, CommitOrder, Datum, RowChange, TableId};
use logging::content::Record as Logged;
use sql::Schema;
use std::sync::{Mutex, PoisonError};
use storage::{Finger, Record, TableStore, Worker};
use transaction::Tables;

/// What one write needs.
#[derive(Default)]
struct Scratch {
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    key: Vec<u8>,
    image: Vec<u64>,
}

/// Replays everything; returns the definitions and tables as they are afterwards.
pub(crate) fn replay(
    log: &LogContents,
    schema: Schema,
    tables: Tables,
    statements: &mut Vec<String>,
    (threads, latches): (usize, Latches),
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let tombstones: Mutex<Vec<(TableId, Record)>> = Mutex::default();
    let (schema, tables) = each_segment(log, schema, tables, statements, progress, |range, tables| {
        newest_first(log, range, tables, threads, progress, |order, record, worker| {
            let Logged::Writes(writes) = record else {
                return Err(unknown_record(order));
            };
            let mut scratch = Scratch::default();
            for (_, write) in writes.writes() {
                let write = TupleWrite::Write(write);
                let gone = write_row(order, &write, tables, latches, &mut scratch, worker)?;
                if let Some(record) = gone {
                    let mut tombstones = tombstones.lock().unwrap_or_else(PoisonError::into_inner);
                    tombstones.push((write.table(), record));
                }
            }
            Ok(())
        })
    })?;
    let mut tombstones = tombstones.into_inner().unwrap_or_else(PoisonError::into_inner);
    tombstones.sort_unstable();
    tombstones.dedup();
    sweep(&[tombstones], threads, &tables)?;
    Ok((schema, build_indexes(tables, threads, log.last_order())?))
}

/// Writes a row unless a later transaction has; returns its record when it is gone by that.
fn write_row(
    order: CommitOrder,
    write: &TupleWrite<'_>,
    tables: &Tables,
    latches: Latches,
    scratch: &mut Scratch,
    worker: &mut Worker,
) -> Result<Option<Record>, RecoveryError> {
    let table = table_of(tables, write.table(), order)?;
    let store = tables.store(table.id);
    let Scratch { arena, row, changed, key, image } = scratch;
    let damaged = |_| unfit(order);
    arena.clear();
    key.clear();
    write.key(table, (arena, row), key).map_err(damaged)?;
    let gone = write.change() == RowChange::Delete;
    if gone || !write.image(table, image).map_err(damaged)? {
        if write.change() == RowChange::Update {
            return Err(RecoveryError::ColumnsOnly);
        }
        write.decode(table, arena, row, changed).map_err(damaged)?;
        match gone {
            true => table.layout.encode_columns(&table.primary().columns, row, arena, image),
            false => table.layout.encode(row, arena, image),
        }
    }
    let record = match store.find(key, worker).0 {
        Some(record) => record,
        None => {
            let (record, is_added) = add(order, (store, key), image, gone, worker)?;
            if is_added {
                return Ok(gone.then_some(record));
            }
            record
        }
    };
    let written = rewrite(record, order, (!gone).then_some(image), latches, worker);
    Ok((gone && written).then_some(record))
}

/// Adds a row, or the tombstone of one; or finds the record that another thread has added meanwhile. Whether it was added.
fn add(
    order: CommitOrder,
    (store, key): (&TableStore, &[u8]),
    image: &[u64],
    gone: bool,
    worker: &mut Worker,
) -> Result<(Record, bool), RecoveryError> {
    let failed = |error: storage::OutOfMemory| writes_diverged(order, &error);
    let record = store.create(image, worker).map_err(failed)?;
    // Whoever finds it waits until it has its order.
    record.try_lock().expect("nobody else knows of it yet");
    let existing = store.link(0, key, record, worker, &mut Finger::default(), &mut |_| {}).map_err(failed)?;
    if let Some(existing) = existing {
        record.unlock_dead();
        store.retire(record, worker);
        return Ok((existing, false));
    }
    record.unlock(state_at(order, gone));
    Ok((record, true))
}
