//! What the calls of a version of the definitions reserve.

use super::{Outcome, SubmittedCall, Version, Waiting};
use catalog::ProcedureId;
use procedure::analysis::{Reservations, ReservedKey, Updated};
use procedure::{Call, Machine, Procedure};
use schedule::graph::{Entries, Reserving, Vertex};
use std::collections::HashMap;
use std::sync::Arc;

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
        let called = || version.procedures.values();
        let reservations = Reservations::of_all(called().map(|procedure| &**procedure));
        let known = called().zip(reservations).filter_map(|(procedure, reservations)| {
            let procedure = Arc::clone(procedure);
            Some((procedure.id, Planned { procedure, reservations: reservations.ok()? }))
        });
        let procedures: HashMap<_, _> = known.collect();
        let reserving = Reserving::of(procedures.values().map(|planned| &planned.reservations));
        Self { version: version.number, procedures, reserving }
    }

    /// Returns what calls of some of the procedures may update.
    pub(super) fn updated(&self, called: impl Iterator<Item = ProcedureId>) -> Updated {
        let (mut updated, mut counted) = (Updated::default(), Vec::new());
        for id in called {
            if !counted.contains(&id) {
                updated.add_all(self.procedures[&id].reservations.updated());
                counted.push(id);
            }
        }
        updated
    }

    /// Returns the procedure of a call.
    pub(super) fn procedure(&self, id: ProcedureId) -> &Procedure {
        &self.procedures[&id].procedure
    }

    /// Reserves what a call may touch. Returns the call, unless no batch can run it: then it is resolved.
    pub(super) fn reserve(
        &self,
        vertex: Vertex,
        Waiting { call, promise }: Waiting,
        buffers: &mut Buffers,
        entries: &mut Entries,
    ) -> Option<Waiting> {
        let Buffers { machine, key } = buffers;
        if call.version != self.version {
            promise.resolve(Outcome::Outdated(call));
            return None;
        }
        let planned = self.procedures.get(&call.procedure);
        let is_loaded = |Planned { procedure, reservations }: &&Planned| {
            let SubmittedCall { timestamp_us, seed, ref arguments, .. } = call;
            reservations.load(Call { procedure, timestamp_us, seed }, arguments, machine).is_ok()
        };
        let Some(Planned { reservations, .. }) = planned.filter(is_loaded) else {
            promise.resolve(Outcome::Alone(call));
            return None;
        };
        reservations.for_each(machine, None, key, |reservation, key| {
            self.reserving.reserve(vertex, reservation, key, entries);
        });
        Some(Waiting { call, promise })
    }
}
