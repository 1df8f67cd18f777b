//! Commands or columns, for each procedure as the bound on recovery asks.

use super::columns::ColumnsRecorder;
use super::command::CommandRecorder;
use super::costs::{Adaptive, Costs, Sample};
use super::{Execution, Needs, Recorder};
use catalog::ProcedureId;
use logging::content::Stamp;
use std::sync::Arc;

/// One in this many transactions of a procedure is observed.
const OBSERVE_EVERY: u32 = 32;
/// A worker publishes its costs after this many transactions.
const PUBLISH_EVERY: u32 = 64;

/// A procedure as one session knows it.
struct Known {
    procedure: Option<(ProcedureId, u32)>,
    costs: Arc<Costs>,
    by_value: bool,
    since_observed: u32,
}

pub(super) struct AdaptiveRecorder {
    adaptive: Arc<Adaptive>,
    command: CommandRecorder,
    /// To observe what a record by value would be.
    trial: ColumnsRecorder,
    /// A few, so they are looked through.
    known: Vec<Known>,
    /// What the transaction in hand takes to replay.
    replay_ns: u64,
    unpublished_ns: u64,
    since_published: u32,
}

impl AdaptiveRecorder {
    pub(super) fn new(adaptive: Arc<Adaptive>) -> Self {
        Self {
            adaptive,
            command: CommandRecorder::default(),
            trial: ColumnsRecorder::default(),
            known: Vec::new(),
            replay_ns: 0,
            unpublished_ns: 0,
            since_published: 0,
        }
    }

    /// Whether a transaction is recorded by value.
    fn chooses_value(&mut self, execution: &Execution<'_>) -> bool {
        let Self { adaptive, trial, known, replay_ns, .. } = self;
        let procedure = execution.procedure;
        let place = known.iter().position(|own| own.procedure == procedure).unwrap_or_else(|| {
            let costs = adaptive.costs(procedure);
            known.push(Known { procedure, costs, by_value: false, since_observed: OBSERVE_EVERY });
            known.len() - 1
        });
        let own = &mut known[place];
        own.since_observed += 1;
        if own.since_observed > OBSERVE_EVERY
            && let Some(time) = execution.time
        {
            own.since_observed = 0;
            let value_bytes = trial.prepare(execution);
            let (command_bytes, writes) = (execution.call.len(), trial.writes());
            own.costs.observe(Sample { execution: time, command_bytes, writes, value_bytes });
            own.by_value = adaptive.prefers_value(&own.costs);
        }
        let by_value = own.by_value || execution.by_value;
        *replay_ns = own.costs.replay_ns(by_value);
        by_value
    }
}

impl Recorder for AdaptiveRecorder {
    fn needs(&self) -> Needs {
        Needs { calls: true, times: true, ..Needs::default() }
    }

    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        let by_value = self.chooses_value(execution);
        self.command.prepare(&Execution { by_value, ..*execution })
    }

    fn holds_call(&self) -> bool {
        self.command.holds_call()
    }

    fn prepared<'a>(&'a mut self, call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        self.command.prepared(call)
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, call: &'a mut Vec<u8>) -> &'a [u8] {
        self.unpublished_ns += self.replay_ns;
        self.since_published += 1;
        if self.since_published >= PUBLISH_EVERY {
            self.since_published = 0;
            self.adaptive.add(std::mem::take(&mut self.unpublished_ns));
        }
        self.command.committed(stamp, call)
    }
}

impl Drop for AdaptiveRecorder {
    fn drop(&mut self) {
        self.adaptive.add(self.unpublished_ns);
    }
}
