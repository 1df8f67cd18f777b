//! What the calls of a version of the definitions reserve.

use super::{Batch, Outcome, SubmittedCall, Version, Waiting};
use catalog::ProcedureId;
use procedure::analysis::{Reservations, ReservedKey};
use procedure::{Call, Machine, Procedure};
use schedule::graph::{Entries, GraphBuilder, Reserving, Vertex};
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// The procedures whose calls run in batches, under one version of the definitions.
pub(super) struct Plan {
    pub(super) version: u64,
    procedures: HashMap<ProcedureId, Planned>,
    reserving: Reserving,
}

struct Planned {
    procedure: Arc<Procedure>,
    reservations: Reservations,
}

/// The buffers of an executor that builds graphs.
#[derive(Default)]
pub(super) struct Buffers {
    machine: Machine,
    key: ReservedKey,
}

impl Plan {
    pub(super) fn of(version: &Version) -> Self {
        let mut procedures = HashMap::new();
        for procedure in version.procedures.values() {
            if let Ok(reservations) = Reservations::of(procedure) {
                let procedure = Arc::clone(procedure);
                procedures.insert(procedure.id, Planned { procedure, reservations });
            }
        }
        let reserving = Reserving::of(procedures.values().map(|planned| &planned.reservations));
        Self { version: version.number, procedures, reserving }
    }

    /// Returns the procedure of a call.
    pub(super) fn procedure(&self, id: ProcedureId) -> &Procedure {
        &self.procedures[&id].procedure
    }

    /// Builds the graph of calls. Calls that no batch can run are resolved at once.
    pub(super) fn resolve(self: &Arc<Self>, calls: Vec<Waiting>, buffers: &mut Buffers) -> Option<Batch> {
        let Buffers { machine, key } = buffers;
        let (mut taken, mut entries) = (Vec::with_capacity(calls.len()), Entries::new(1));
        for Waiting { call, ticket } in calls {
            if call.version != self.version {
                ticket.resolve(Outcome::Outdated(call));
                continue;
            }
            let planned = self.procedures.get(&call.procedure);
            let is_loaded = |Planned { procedure, reservations }: &&Planned| {
                let SubmittedCall { timestamp_us, seed, ref arguments, .. } = call;
                reservations.load(Call { procedure, timestamp_us, seed }, arguments, machine).is_ok()
            };
            let Some(Planned { reservations, .. }) = planned.filter(is_loaded) else {
                ticket.resolve(Outcome::Alone(call));
                continue;
            };
            let vertex = taken.len() as Vertex;
            reservations.for_each(machine, key, |reservation, key| {
                self.reserving.reserve(vertex, reservation, key, &mut entries);
            });
            taken.push(Mutex::new(Some(Waiting { call, ticket })));
        }
        let builder = GraphBuilder::new(taken.len(), 1, 1);
        builder.set_chunk(0, entries);
        builder.build_shard(0);
        let (graph, left) = (builder.finish(), AtomicUsize::new(taken.len()));
        let batch = Batch { number: 0, plan: Arc::clone(self), calls: taken, graph, left };
        (!batch.calls.is_empty()).then_some(batch)
    }
}
