//! The replay form of a procedure: the part of it that its writes need.
//!
//! Only committed calls are in the log. A RAISE is therefore unreachable, and constraints hold. Values that
//! no write needs are dead; among them are the outputs of the call.

use super::need::{Need, trim};
use super::program::Program;
use super::step::Step;
use crate::{OperationId, OperationKind};
use std::collections::BTreeMap;

impl Program {
    /// Returns the program that has the same effects on tables in replay, and no other effects.
    #[must_use]
    pub fn replay_form(&self) -> Self {
        if self.whole {
            let mut form = self.clone();
            // A committed call has found the rows that it references. Replay may insert them later.
            for operation in &mut form.operations {
                if let OperationKind::Insert { references, .. } = &mut operation.kind {
                    references.clear();
                }
            }
            return form;
        }
        let need = Need::of_all(self, self.writes(), &|_| true);
        let mut form = self.clone();
        form.body = need.body;
        let mut numbers = BTreeMap::new();
        number_operations(&mut form.body, &mut numbers);
        (form.operations, form.origins, form.witnesses) = Default::default();
        let mut old: Vec<(OperationId, OperationId)> =
            numbers.into_iter().map(|(old, new)| (new, old)).collect();
        old.sort();
        for (new, id) in old {
            let mut operation = self.operations[id.0 as usize].clone();
            trim(&mut operation, &need.registers);
            form.operations.push(operation);
            form.origins.push(self.origins[id.0 as usize]);
            if let Some(witness) = self.witnesses.get(&id) {
                form.witnesses.insert(new, witness.clone());
            }
        }
        for input in &mut form.inputs {
            *input = input.filter(|register| need.registers.contains(register));
        }
        form
    }

    /// Returns the ids of its operations.
    pub fn operation_ids(&self) -> impl Iterator<Item = OperationId> + use<> {
        (0..self.operations.len() as u32).map(OperationId)
    }
}

/// Numbers the operations that statements name, in program order, from 0.
fn number_operations(statements: &mut [Step], numbers: &mut BTreeMap<OperationId, OperationId>) {
    for statement in statements {
        if let Step::Execute(id) | Step::ForRows { operation: id, .. } = statement {
            let next = OperationId(numbers.len() as u32);
            *id = *numbers.entry(*id).or_insert(next);
        }
        statement.bodies_mut().into_iter().for_each(|body| number_operations(body, numbers));
    }
}
