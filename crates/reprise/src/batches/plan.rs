//! What the calls of a version of the definitions reserve.

use super::{Batch, Outcome, SubmittedCall, Version, Waiting};
use catalog::{ProcedureId, TableId};
use procedure::analysis::{Reservations, ReservedKey, Updated};
use procedure::{Call, Machine, Procedure};
use schedule::graph::{Entries, GraphBuilder, Reserving, Vertex};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The procedures whose calls run in batches, under one version of the definitions.
pub(super) struct Plan {
    pub(super) version: u64,
    procedures: HashMap<ProcedureId, Planned>,
    reserving: Reserving,
    updated: Updated,
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
        let called = || version.procedures.values();
        let (reservations, updated) = Reservations::of_all(called().map(|procedure| &**procedure));
        let known = called().zip(reservations).filter_map(|(procedure, reservations)| {
            let procedure = Arc::clone(procedure);
            Some((procedure.id, Planned { procedure, reservations: reservations.ok()? }))
        });
        let procedures: HashMap<_, _> = known.collect();
        let reserving = Reserving::of(procedures.values().map(|planned| &planned.reservations));
        Self { version: version.number, procedures, reserving, updated }
    }

    /// Returns the columns of a table that some call may change, ascending.
    pub(super) fn updated(&self, table: TableId) -> &[usize] {
        self.updated.columns(table)
    }

    /// Returns the procedure of a call.
    pub(super) fn procedure(&self, id: ProcedureId) -> &Procedure {
        &self.procedures[&id].procedure
    }

    /// Builds the graph of calls. Calls that no batch can run are resolved at once.
    pub(super) fn resolve(
        self: &Arc<Self>,
        calls: Vec<Waiting>,
        logs: usize,
        buffers: &mut Buffers,
    ) -> Option<Batch> {
        let Buffers { machine, key } = buffers;
        let (mut taken, mut entries) = (Vec::with_capacity(calls.len()), Entries::new(1));
        for Waiting { call, promise } in calls {
            if call.version != self.version {
                promise.resolve(Outcome::Outdated(call));
                continue;
            }
            let planned = self.procedures.get(&call.procedure);
            let is_loaded = |Planned { procedure, reservations }: &&Planned| {
                let SubmittedCall { timestamp_us, seed, ref arguments, .. } = call;
                reservations.load(Call { procedure, timestamp_us, seed }, arguments, machine).is_ok()
            };
            let Some(Planned { reservations, .. }) = planned.filter(is_loaded) else {
                promise.resolve(Outcome::Alone(call));
                continue;
            };
            let vertex = taken.len() as Vertex;
            reservations.for_each(machine, key, |reservation, key| {
                self.reserving.reserve(vertex, reservation, key, &mut entries);
            });
            taken.push(Mutex::new(Some(Waiting { call, promise })));
        }
        let builder = GraphBuilder::new(taken.len(), 1, 1);
        builder.set_chunk(0, entries);
        builder.build_shard(0);
        let graph = builder.finish();
        (!taken.is_empty()).then(|| Batch::new(Arc::clone(self), taken, graph, logs))
    }
}
