//! Commands or columns, for each procedure as the bound on recovery asks.

use super::columns::ColumnsRecorder;
use super::command::CommandRecorder;
use super::{Ran, Recorder};
use crate::adaptive::{Adaptive, Costs, Observed};
use catalog::ProcedureId;
use logging::content::Stamp;
use std::sync::Arc;

/// One in this many transactions of a procedure is observed.
const OBSERVE_EVERY: u32 = 32;
/// What was logged is told to the others after this many transactions.
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
    fn chooses_value(&mut self, ran: &Ran<'_>) -> bool {
        let Self { adaptive, trial, known, replay_ns, .. } = self;
        let procedure = ran.procedure;
        let place = known.iter().position(|own| own.procedure == procedure).unwrap_or_else(|| {
            let costs = adaptive.costs(procedure);
            known.push(Known { procedure, costs, by_value: false, since_observed: OBSERVE_EVERY });
            known.len() - 1
        });
        let own = &mut known[place];
        own.since_observed += 1;
        if own.since_observed > OBSERVE_EVERY
            && let Some(execution) = ran.execution
        {
            own.since_observed = 0;
            let value_bytes = trial.prepare(ran);
            let (command_bytes, writes) = (ran.asked.len(), trial.writes());
            own.costs.observe(Observed { execution, command_bytes, writes, value_bytes });
            own.by_value = adaptive.prefers_value(&own.costs);
        }
        let by_value = own.by_value || ran.by_value;
        *replay_ns = own.costs.replay_ns(by_value);
        by_value
    }
}

impl Recorder for AdaptiveRecorder {
    fn wants_asked(&self) -> bool {
        true
    }

    fn wants_times(&self) -> bool {
        true
    }

    fn prepare(&mut self, ran: &Ran<'_>) -> usize {
        let by_value = self.chooses_value(ran);
        self.command.prepare(&Ran { by_value, ..*ran })
    }

    fn prepared<'a>(&'a mut self, asked: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        self.command.prepared(asked)
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, asked: &'a mut Vec<u8>) -> &'a [u8] {
        self.unpublished_ns += self.replay_ns;
        self.since_published += 1;
        if self.since_published >= PUBLISH_EVERY {
            self.since_published = 0;
            self.adaptive.add(std::mem::take(&mut self.unpublished_ns));
        }
        self.command.committed(stamp, asked)
    }
}

impl Drop for AdaptiveRecorder {
    fn drop(&mut self) {
        self.adaptive.add(self.unpublished_ns);
    }
}
