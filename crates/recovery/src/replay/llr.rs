//! `llr`: a logical log replayed by all threads at once, newest transaction first, under latches.
//! Paper: SiloR §5; PACMAN §6.2 (LLR). Differs: rows have one version; secondary indexes are built at the
//! end.
//!
//! The last writer of a row wins in any order of the writes, so every write must be of a whole row.

use super::context::{OnDemand, Replay, ReplayContext, Replayed};
use super::divergence::{unfit, unknown_record, writes_diverged};
use super::tuples::{
    Latches, Tombstones, TupleWrite, build_indexes, each_segment, newest_first, rewrite, state_at, sweep,
    table_of,
};
use crate::RecoveryError;
use catalog::{Arena, CommitOrder, Datum, RowChange};
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::Record as Logged;
use std::sync::{Mutex, PoisonError};
use storage::{Added, Fingers, Guard, NewState, Record, TableStore};
use transaction::Tables;

/// The method.
pub(super) struct Llr;

impl Replay for Llr {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::Primary)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Writes { needs_whole_rows: true }
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        write_newest_first(context)
    }
}

/// The buffers of one thread's writes.
#[derive(Default)]
struct Scratch {
    arena: Arena,
    row: Vec<Datum>,
    changed: Vec<usize>,
    key: Vec<u8>,
    image: Vec<u64>,
    fingers: Fingers,
}

/// Replays the whole log, from its end backwards between definitions.
pub(super) fn write_newest_first(context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
    let tombstones: Mutex<Tombstones> = Mutex::default();
    each_segment(context, |range, context| {
        let writer = RowWriter { tables: &context.tables, latches: context.config.latches };
        newest_first(range, context, |order, record, scratch: &mut Scratch, guard| {
            let Logged::Writes(writes) = record else {
                return Err(unknown_record(order));
            };
            for (_, write) in writes.writes() {
                let write = TupleWrite::Write(write);
                let deleted = writer.write(order, &write, scratch, guard)?;
                if let Some(record) = deleted.and_then(Record::held) {
                    let mut tombstones = tombstones.lock().unwrap_or_else(PoisonError::into_inner);
                    tombstones.push((write.table(), record));
                }
            }
            Ok(())
        })
    })?;
    sweep(vec![tombstones.into_inner().unwrap_or_else(PoisonError::into_inner)], context)?;
    build_indexes(context)?;
    Ok(Replayed::default())
}

/// Writes rows under latches.
struct RowWriter<'t> {
    tables: &'t Tables,
    latches: Latches,
}

impl RowWriter<'_> {
    /// Writes a row, unless a later transaction has written it; returns the record of a deleted row.
    fn write<'g>(
        &self,
        order: CommitOrder,
        write: &TupleWrite<'_>,
        scratch: &mut Scratch,
        guard: &'g Guard,
    ) -> Result<Option<Record<'g>>, RecoveryError> {
        let table = table_of(self.tables, write.table(), order)?;
        let store = self.tables.store(table.id);
        let Scratch { arena, row, changed, key, image, .. } = scratch;
        let damaged = |_| unfit(order);
        arena.clear();
        key.clear();
        write.key(table, arena, row, key).map_err(damaged)?;
        let is_delete = write.change() == RowChange::Delete;
        if is_delete || !write.image(table, image).map_err(damaged)? {
            if write.change() == RowChange::Update {
                return Err(RecoveryError::ColumnsOnly);
            }
            write.decode(table, arena, row, changed).map_err(damaged)?;
            match is_delete {
                true => table.layout.encode_columns(&table.primary().columns, row, arena, image),
                false => table.layout.encode(row, arena, image),
            }
        }
        let record = match store.find(key, guard) {
            Ok(record) => record,
            Err(_) => match add(order, store, scratch, is_delete, guard)? {
                Added::New(record) => return Ok(is_delete.then_some(record)),
                Added::Exists(record) => record,
            },
        };
        let is_written = rewrite(record, order, (!is_delete).then_some(&scratch.image), self.latches);
        Ok((is_delete && is_written).then_some(record))
    }
}

/// Adds the row in the scratch, or its tombstone; or finds the record that another thread has added
/// meanwhile.
fn add<'g>(
    order: CommitOrder,
    store: &TableStore,
    scratch: &mut Scratch,
    is_delete: bool,
    guard: &'g Guard,
) -> Result<Added<'g>, RecoveryError> {
    let failed = |error: storage::OutOfMemory| writes_diverged(order, &error);
    let Scratch { key, image, fingers, .. } = scratch;
    let new = (&**image, NewState::committed(state_at(order, is_delete)));
    store.add(key, new, guard, fingers, &mut |_| {}).map_err(failed)
}
