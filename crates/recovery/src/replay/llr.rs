//! `llr`: a logical log replayed by all threads at once, newest transaction first, under latches.
//! Paper: SiloR §5; PACMAN §6.2 (LLR). Differs: rows have one version; secondary indexes are built at the
//! end.
//!
//! The last writer of a row wins, whenever it comes, so every write must be of a whole row.

use super::tuples::{
    Latches, Tombstones, TupleWrite, build_indexes, each_segment, newest_first, rewrite, state_at, sweep,
    table_of,
};
use super::{unfit, unknown_record, writes_diverged};
use crate::{LogContents, Progress, RecoveryError};
use catalog::{Arena, CommitOrder, Datum, RowChange};
use logging::content::Record as Logged;
use sql::Schema;
use std::sync::{Mutex, PoisonError};
use storage::{Added, Finger, Guard, NewState, Record, TableStore};
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
    (threads, latches): (usize, Latches),
    progress: &Progress,
) -> Result<(Schema, Tables), RecoveryError> {
    let tombstones: Mutex<Tombstones> = Mutex::default();
    let (schema, tables) = each_segment(log, schema, tables, progress, |range, tables| {
        newest_first(log, range, tables, threads, progress, |order, record, guard| {
            let Logged::Writes(writes) = record else {
                return Err(unknown_record(order));
            };
            let mut scratch = Scratch::default();
            for (_, write) in writes.writes() {
                let write = TupleWrite::Write(write);
                let gone = write_row(order, &write, tables, latches, &mut scratch, guard)?;
                if let Some(record) = gone.and_then(Record::held) {
                    let mut tombstones = tombstones.lock().unwrap_or_else(PoisonError::into_inner);
                    tombstones.push((write.table(), record));
                }
            }
            Ok(())
        })
    })?;
    let tombstones = tombstones.into_inner().unwrap_or_else(PoisonError::into_inner);
    sweep(vec![tombstones], threads, &tables)?;
    Ok((schema, build_indexes(tables, threads, log.last_order())?))
}

/// Writes a row unless a later transaction has; returns its record when it is gone by that.
fn write_row<'g>(
    order: CommitOrder,
    write: &TupleWrite<'_>,
    tables: &Tables,
    latches: Latches,
    scratch: &mut Scratch,
    guard: &'g Guard,
) -> Result<Option<Record<'g>>, RecoveryError> {
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
    let record = match store.find(key, guard).0 {
        Some(record) => record,
        None => {
            let (record, is_added) = add(order, (store, key), image, gone, guard)?;
            if is_added {
                return Ok(gone.then_some(record));
            }
            record
        }
    };
    let written = rewrite(record, order, (!gone).then_some(image), latches);
    Ok((gone && written).then_some(record))
}

/// Adds a row, or the tombstone of one; or finds the record that another thread has added meanwhile. Whether
/// it was added.
fn add<'g>(
    order: CommitOrder,
    (store, key): (&TableStore, &[u8]),
    image: &[u64],
    gone: bool,
    guard: &'g Guard,
) -> Result<(Record<'g>, bool), RecoveryError> {
    let failed = |error: storage::OutOfMemory| writes_diverged(order, &error);
    let new = (image, NewState::committed(state_at(order, gone)));
    Ok(match store.add(key, new, guard, &mut Finger::default(), &mut |_| {}).map_err(failed)? {
        Added::New(record) => (record, true),
        Added::Exists(existing) => (existing, false),
    })
}
