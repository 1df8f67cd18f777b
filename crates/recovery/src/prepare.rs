//! Prepares replay: memory, definitions, and the rows of the checkpoint.

use crate::find::Found;
use crate::on_demand::PendingRows;
use crate::replay::{OnDemand, Replay, ReplayContext};
use crate::{Progress, RecoveryConfig, RecoveryError, Stage};
use catalog::{CommitOrder, Epoch};
use checkpoint::{Check, Definitions, Load, Manifest};
use logging::content::StatementRecord;
use native::Compiler;
use sql::Schema;
use std::sync::Arc;
use storage::{Epochs, Memory};
use transaction::Tables;

/// Makes the tables of a database without definitions, and begins to fault in their memory.
pub(crate) fn empty_tables(config: &RecoveryConfig) -> Tables {
    let epochs = Arc::new(Epochs::new(Epoch(1), config.workers));
    let memory = Arc::new(Memory::new(config.memory_bytes));
    if config.memory_ahead_bytes > 0 {
        memory.keep_ready(config.memory_ahead_bytes);
    }
    Tables::new(epochs, memory)
}

/// Applies the definitions of the checkpoint, and loads its rows as the method asks, or leaves them to be
/// brought back when a transaction looks for them.
///
/// # Errors
/// A definition is refused; the checkpoint is damaged; memory is short.
pub(crate) fn prepare<'a>(
    found: &'a Found<'_>,
    tables: Tables,
    replay: &mut dyn Replay,
    config: &'a RecoveryConfig,
    progress: &'a Progress,
) -> Result<ReplayContext<'a>, RecoveryError> {
    // Two threads a device at least: one of them works while the other waits for the device.
    let threads = config.threads.max(2 * found.devices.len());
    // Each thread that loads or replays, and the thread that applies definitions.
    tables.memory.allow_beyond_limit(2 * threads + 1);
    let (log, from, schema) = (&found.log, found.bound(), Schema::default());
    let mut context = ReplayContext {
        log,
        from,
        schema,
        tables,
        compiler: Compiler::new(config.compile),
        config,
        progress,
        rows: None,
        defers_commands: false,
        undone: Vec::new(),
    };
    if let Some(manifest) = &found.manifest {
        progress.begin(Stage::Checkpoint, manifest.bytes());
        define(manifest, &mut context)?;
    }
    let on_demand = if config.on_demand && !config.verify { replay.on_demand() } else { OnDemand::Nothing };
    let rows = match on_demand {
        OnDemand::Nothing => None,
        OnDemand::Checkpoint | OnDemand::Commands if found.manifest.is_none() => None,
        OnDemand::Checkpoint | OnDemand::Commands => PendingRows::of_checkpoint(found, &context)?,
        OnDemand::Writes { needs_whole_rows } => {
            PendingRows::of_writes(found, needs_whole_rows, &mut context)?
        }
        OnDemand::Slots => PendingRows::of_slots(found, &mut context)?,
    };
    context.defers_commands = on_demand == OnDemand::Commands;
    if let Some(rows) = rows.map(Arc::new) {
        context.rows = Some(Arc::clone(&rows));
        context.tables = context.tables.recovered_on_demand(rows.clone());
        context.tables.epochs.advance_to(from.epoch());
        return Ok(context);
    }
    let Some(manifest) = &found.manifest else { return Ok(context) };
    let check = if config.verify { Check::Digests } else { Check::Checksums };
    let (disk, folder) = (&found.disk, found.folder);
    let load = Load {
        disk,
        folder,
        manifest,
        tables: &context.tables,
        threads,
        check,
        progress: progress.counter(),
    };
    replay.load(&load)?;
    context.tables.epochs.advance_to(from.epoch());
    Ok(context)
}

/// Makes the empty tables of a checkpoint.
fn define(manifest: &Manifest, context: &mut ReplayContext<'_>) -> Result<(), RecoveryError> {
    let mut worker = context.worker()?;
    let statements = match &manifest.definitions {
        Definitions::Image(image) => return context.apply_image(image, &mut worker),
        Definitions::Statements(statements) => statements,
    };
    for text in statements {
        let record = StatementRecord { timestamp_us: 0, seed: 0, text, written: None };
        context.apply_definition(CommitOrder(0), &record, &mut worker)?;
    }
    Ok(())
}
