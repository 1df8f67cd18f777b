//! `clr`: serial re-execution of the command log in commit order.
//! Paper: PACMAN §2.3 (CLR); command logging §III. The reference for every other method.
//! Not here: the execution of a call (`reexecution`).

use super::context::{OnDemand, Replay, ReplayContext, Replayed, statements_of};
use super::divergence::unknown_record;
use super::reexecution::{Reexecution, execute_statement};
use crate::{RecoveryError, Stage};
use catalog::CommitOrder;
use checkpoint::{CheckpointError, Indexes, Load};
use logging::content::{Record, StatementRecord};

/// Progress is published after this many transactions.
const REPORT_EVERY: u64 = 1024;

/// The method.
pub(super) struct Clr;

impl Replay for Clr {
    fn load(&mut self, checkpoint: &Load<'_>) -> Result<(), CheckpointError> {
        checkpoint.rows(&Indexes::All)
    }

    fn on_demand(&self) -> OnDemand {
        OnDemand::Checkpoint
    }

    fn run_all(&mut self, context: &mut ReplayContext<'_>) -> Result<Replayed, RecoveryError> {
        let (log, progress) = (context.log, context.progress);
        let execution = Reexecution::new(context)?;
        let mut serial = Serial { context, execution };
        progress.begin(Stage::Replay, log.len() as u64);
        for (done, (order, record)) in (1..).zip(log.records()) {
            serial.context.tables.epochs.advance_to(order.epoch());
            match record {
                Record::Call(call) => serial.execution.call(order, &call)?,
                Record::Definition(statement) | Record::Statement(statement) => {
                    serial.statements(order, &statement)?;
                }
                Record::Writes(writes) => serial.execution.writes(order, writes)?,
                _ => return Err(unknown_record(order)),
            }
            serial.execution.collect_garbage(order);
            if done % REPORT_EVERY == 0 {
                progress.set_done(done);
            }
        }
        progress.set_done(log.len() as u64);
        Ok(Replayed::default())
    }
}

struct Serial<'c, 'a> {
    context: &'c mut ReplayContext<'a>,
    execution: Reexecution,
}

impl Serial<'_, '_> {
    fn statements(&mut self, order: CommitOrder, record: &StatementRecord<'_>) -> Result<(), RecoveryError> {
        let Self { context, execution } = self;
        for text in statements_of(record)? {
            let statement = StatementRecord { text: &text, ..*record };
            match context.apply_definition(order, &statement, execution.workspace.worker())? {
                Some(procedure) => {
                    let Reexecution { machine, workspace, .. } = execution;
                    execute_statement(order, &procedure, &statement, machine, workspace)?;
                }
                None => execution.enter(context),
            }
        }
        Ok(())
    }
}
