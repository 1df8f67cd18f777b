//! Witness values: results of reads that are recorded with a call, so that its replay need not read them
//! again. Not in the papers.
//!
//! A read is a witness when replay needs its results, it searches a range (so it costs more than a lookup),
//! and the results are few machine words. Example: among customers with one name, the record tells which of
//! them paid. Two scans and a sort are gone, and the key of the update is known ahead.
//!
//! Which reads are witnesses follows from the procedure alone. Replay must make the same choice as the logged
//! execution did, so the rule belongs to the log format: a change of the rule needs a new format version.

use super::need::Need;
use super::program::Program;
use super::step::Step;
use crate::ir::visit::Role;
use crate::{Operation, OperationId, OperationKind, Path, Procedure, Register};
use catalog::{ScalarType, Type};
use std::collections::BTreeSet;

/// Maximum number of values of a witness.
const MOST_VALUES: usize = 3;

/// Returns, for each operation of a procedure, the registers whose values are recorded with a call. Empty if
/// the procedure has no witnesses.
pub fn witnesses(procedure: &Procedure) -> Vec<Vec<Register>> {
    if procedure.read_only || procedure.uses_seed {
        return Vec::new();
    }
    let Ok(program) = Program::new(procedure, false) else { return Vec::new() };
    let all = Need::of_all(&program, program.writes(), &|_| true);
    let mut executed = BTreeSet::new();
    collect_executed(&program.body, &mut executed);
    let is_witness = |id: OperationId| {
        let operation = &program.operations[id.0 as usize];
        let Some(own) = program.origins[id.0 as usize] else { return false };
        let needed = needed_of(operation, &all.registers);
        let registers = originals(&needed, operation, &procedure.operations[own.0 as usize]);
        executed.contains(&id)
            && is_range_read(operation)
            && !needed.is_empty()
            && needed.len() <= MOST_VALUES
            && registers.iter().all(|register| is_word(procedure.registers[register.0 as usize]))
    };
    let need = Need::of_all(&program, program.writes(), &|id| !is_witness(id));
    let mut chosen = Vec::new();
    for id in &need.sources {
        let operation = &program.operations[id.0 as usize];
        let own = program.origins[id.0 as usize].expect("a witness is an operation of the procedure itself");
        let needed = needed_of(operation, &need.registers);
        chosen.resize(procedure.operations.len(), Vec::new());
        chosen[own.0 as usize] = originals(&needed, operation, &procedure.operations[own.0 as usize]);
    }
    chosen
}

fn is_range_read(operation: &Operation) -> bool {
    let OperationKind::Select(select) = &operation.kind else { return false };
    matches!(select.access.path, Path::Range { .. })
}

/// Returns whether values of a type are machine words, so that a witness may have them.
fn is_word(ty: Type) -> bool {
    let Type::Scalar(scalar) = ty else { return false };
    let wide = matches!(scalar, ScalarType::Numeric { .. } | ScalarType::AnyNumeric | ScalarType::Double);
    !scalar.is_bytes() && (!wide || scalar.is_machine_numeric())
}

/// Returns the registers that an operation defines, in order.
pub(super) fn definitions(operation: &Operation) -> Vec<Register> {
    let mut defined = Vec::new();
    operation.clone().visit_registers(&mut |role, register| {
        if role == Role::Define {
            defined.push(*register);
        }
    });
    defined
}

fn needed_of(operation: &Operation, needed: &BTreeSet<Register>) -> Vec<Register> {
    let mut found: Vec<Register> = Vec::new();
    for register in definitions(operation) {
        if needed.contains(&register) && !found.contains(&register) {
            found.push(register);
        }
    }
    found
}

/// Returns the registers of `other` at the positions that the given registers have in `of`. Both are forms of
/// one operation.
pub(super) fn originals(registers: &[Register], of: &Operation, other: &Operation) -> Vec<Register> {
    let (from, to) = (definitions(of), definitions(other));
    // If a register is defined twice, its last value counts.
    let place = |register: &Register| from.iter().rposition(|defined| defined == register);
    registers.iter().map(|register| to[place(register).expect("it is defined there")]).collect()
}

fn collect_executed(statements: &[Step], executed: &mut BTreeSet<OperationId>) {
    for statement in statements {
        if let Step::Execute(id) = statement {
            executed.insert(*id);
        }
        statement.bodies().into_iter().for_each(|body| collect_executed(body, executed));
    }
}
