//! Finds the point accesses whose rows can be looked up before they are read.
//!
//! In a FOR over a range, the key of a point access may follow from the loop variable and from registers that
//! the loop does not set. Its rows are then known for all rounds when the loop begins. Outside of loops, a
//! point access whose key follows from parameters is known when the procedure begins. Looking up all of these
//! rows at once lets their cache misses overlap: a miss that waits for an earlier miss costs several times as
//! much. A lookup reads no row, so it changes only the time that the procedure takes.

use crate::{Expression, Operation, OperationId, OperationKind, ProcedureQuery, Register, Statement};
use std::collections::HashSet;

/// The data accesses that statements name by id.
#[derive(Clone, Copy, Debug)]
pub struct Accesses<'a> {
    /// The operations, by id.
    pub operations: &'a [Operation],
    /// The queries, by id; a piece has none.
    pub queries: &'a [ProcedureQuery],
}

/// Sets the accesses to look up ahead in every loop over a range of a procedure's body. Returns the accesses
/// that are known when the procedure begins.
pub fn plan_lookups(body: &mut [Statement], accesses: Accesses<'_>) -> Vec<OperationId> {
    plan_lookups_of(body, accesses, &|_| true)
}

/// As `plan_lookups`, but only for operations for which `runs` is true.
pub(crate) fn plan_lookups_of(
    body: &mut [Statement],
    accesses: Accesses<'_>,
    runs: &dyn Fn(OperationId) -> bool,
) -> Vec<OperationId> {
    plan_loops(body, accesses, runs);
    let (mut set, mut known) = (HashSet::new(), Vec::new());
    collect_set(body, accesses, &mut set);
    collect_known(body, accesses.operations, &set, runs, &mut known);
    known
}

fn plan_loops(statements: &mut [Statement], accesses: Accesses<'_>, runs: &dyn Fn(OperationId) -> bool) {
    for statement in statements {
        statement.bodies_mut().into_iter().for_each(|body| plan_loops(body, accesses, runs));
        if let Statement::ForRange { variable, body, ahead, .. } = statement {
            let mut set = HashSet::new();
            collect_set(body, accesses, &mut set);
            set.remove(variable);
            ahead.clear();
            collect_known(body, accesses.operations, &set, runs, ahead);
        }
    }
}

fn collect_known(
    statements: &[Statement],
    operations: &[Operation],
    set: &HashSet<Register>,
    runs: &dyn Fn(OperationId) -> bool,
    known: &mut Vec<OperationId>,
) {
    for statement in statements {
        match statement {
            Statement::Execute(id) if runs(*id) => {
                let is_known = |expression: &Expression| {
                    let mut known = true;
                    expression.walk(&mut |part| match part {
                        Expression::Register(register) => known &= !set.contains(register),
                        Expression::Function { function, .. } => known &= !function.depends_on_call(),
                        _ => {}
                    });
                    known
                };
                if operations[id.0 as usize].point_key().is_some_and(|key| key.iter().all(is_known)) {
                    known.push(*id);
                }
            }
            Statement::If { then, otherwise, .. } => {
                collect_known(then, operations, set, runs, known);
                collect_known(otherwise, operations, set, runs, known);
            }
            Statement::Block { body, .. } => collect_known(body, operations, set, runs, known),
            _ => {}
        }
    }
}

/// Collects the registers that statements and the statements inside them set.
fn collect_set(statements: &[Statement], accesses: Accesses<'_>, set: &mut HashSet<Register>) {
    Statement::walk(statements, &mut |statement| match statement {
        Statement::Assign { target: register, .. }
        | Statement::AssignElement { array: register, .. }
        | Statement::ForRange { variable: register, .. }
        | Statement::ForEach { variable: register, .. } => {
            set.insert(*register);
        }
        Statement::ForRows { operation: id, .. } | Statement::Execute(id) => {
            let operation = &accesses.operations[id.0 as usize];
            set.insert(operation.found);
            set.extend(outputs_of(operation).iter().map(|(register, _)| *register));
        }
        Statement::ForQuery { query: id, .. } | Statement::Query(id) => {
            let query = &accesses.queries[id.0 as usize];
            set.insert(query.found);
            set.extend(query.outputs().iter().map(|(register, _)| *register));
        }
        Statement::Call { outputs, .. } => set.extend(outputs.iter().map(|(register, _)| *register)),
        Statement::Guarded(guarded) => {
            set.extend(guarded.handlers.iter().flat_map(|handler| handler.diagnostics))
        }
        Statement::Opaque(opaque) => opaque.visit_targets(&mut |register| {
            set.insert(register);
        }),
        Statement::If { .. }
        | Statement::While { .. }
        | Statement::Block { .. }
        | Statement::Exit(_)
        | Statement::Continue(_)
        | Statement::Raise(_)
        | Statement::RaiseAgain
        | Statement::Return => {}
    });
}

/// Returns the registers that an operation sets, apart from FOUND, and their values.
fn outputs_of(operation: &Operation) -> &[(Register, Expression)] {
    match &operation.kind {
        OperationKind::Select(select) => &select.outputs,
        OperationKind::Insert { returning, .. }
        | OperationKind::Update { returning, .. }
        | OperationKind::Delete { returning, .. } => returning,
    }
}
