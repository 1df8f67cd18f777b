//! Witness values: results of reads that are recorded with a call, so that its replay need not read them
//! again. Not in the papers.
//!
//! Two kinds of operations are witnesses, if replay needs their results and these are few machine words:
//!
//! * A read that searches a range, because it costs more than a lookup. Example: the record of a payment has
//!   the customer that was found by name. Replay saves two scans and a sort, and knows the key of the update
//!   ahead.
//! * An operation whose results are keys of other operations. Example: the order number that a new order
//!   takes from its district. Replay knows all keys ahead, so it need not execute one order after the other
//!   (`schedule::closures`). An operation that writes is still executed. In a loop, the results are
//!   keys of operations of the same round: a delivery pays the customer of each order that it updates.
//!
//! Which operations are witnesses follows from the procedure alone. Replay must make the same choice as the
//! logged execution did, so the rules belong to the log format, and a record says which of them it follows
//! (`Witnessed`).

use super::granules::Footprint;
use super::need::Need;
use super::program::{Program, definitions, originals};
use super::resolve::{Given, Resolver};
use super::step::Step;
use crate::{Operation, OperationId, OperationKind, Path, Procedure, Register, Witnessed, Witnesses};
use catalog::Type;
use std::collections::BTreeSet;

/// Maximum number of values of a witness.
const MOST_VALUES: usize = 3;

/// Returns the results that calls of a procedure may record.
pub fn witnesses(procedure: &Procedure) -> Witnesses {
    if procedure.read_only || procedure.uses_seed {
        return Witnesses::default();
    }
    let Ok(mut program) = Program::new(procedure, Witnessed::Nothing) else { return Witnesses::default() };
    let scans = scans(procedure, &program);
    program.witnesses = program.witnesses_of(procedure, &scans);
    let need = Need::of_all(&program, program.writes(), &|_| true);
    let none = Given { variable: None, results: &|_, _| true };
    let executed: Vec<OperationId> = need.executed.iter().copied().collect();
    let sources = sources_of(&program, &executed, &Resolver::of_witnesses(&program), none);
    let mut keys = scans.clone();
    add_keys(procedure, &program, &need, &sources, &mut keys);
    let mut sources = sources_of(&program, &executed, &Resolver::new(&program), none);
    add_sources_of_rounds(&program, &program.body, &need, &mut sources);
    let mut rounds = keys.clone();
    add_keys(procedure, &program, &need, &sources, &mut rounds);
    Witnesses { scans, keys, rounds }
}

/// Returns the operations whose results are keys of some operations.
fn sources_of(
    program: &Program,
    operations: &[OperationId],
    resolver: &Resolver<'_>,
    given: Given<'_>,
) -> BTreeSet<OperationId> {
    let operations = operations.iter().map(|id| &program.operations[id.0 as usize]);
    let granules = operations.map(|operation| Footprint::of(resolver, operation, given));
    granules
        .flat_map(|footprint| {
            let values = footprint.iter().flat_map(|granule| &granule.prefix);
            values.flat_map(|value| value.after().clone()).collect::<Vec<_>>()
        })
        .collect()
}

/// Adds the operations whose results are keys of operations in the same round of a loop that is in no other
/// loop.
fn add_sources_of_rounds(
    program: &Program,
    steps: &[Step],
    need: &Need,
    sources: &mut BTreeSet<OperationId>,
) {
    for step in steps {
        match step {
            Step::ForRange { variable, body, .. } => {
                let resolver = Resolver::of_round(program, Some(*variable));
                let given = Given { variable: Some(*variable), results: &|_, _| true };
                let mut inside = BTreeSet::new();
                collect_executed(body, &mut inside);
                let inside: Vec<OperationId> = inside.intersection(&need.executed).copied().collect();
                if resolver.has_one_definition(*variable) {
                    sources.extend(sources_of(program, &inside, &resolver, given));
                }
            }
            Step::If { .. } | Step::Block { .. } => {
                let bodies = step.bodies().into_iter();
                bodies.for_each(|body| add_sources_of_rounds(program, body, need, sources));
            }
            _ => {}
        }
    }
}

/// Adds the operations whose results are keys, and are not recorded yet.
fn add_keys(
    procedure: &Procedure,
    program: &Program,
    need: &Need,
    sources: &BTreeSet<OperationId>,
    recorded: &mut Vec<Vec<Register>>,
) {
    for id in sources.iter().filter(|id| !program.witnesses.contains_key(id)) {
        let operation = &program.operations[id.0 as usize];
        let Some(origin) = program.origins[id.0 as usize] else { continue };
        let needed = needed_of(operation, &need.registers);
        let registers = originals(&needed, operation, &procedure.operations[origin.0 as usize]);
        let are_words = registers.iter().all(|register| is_word(procedure.registers[register.0 as usize]));
        if !needed.is_empty() && needed.len() <= MOST_VALUES && are_words {
            recorded.resize(procedure.operations.len(), Vec::new());
            recorded[origin.0 as usize] = registers;
        }
    }
}

/// Returns, for each operation of a procedure, the registers whose values are recorded because it is a scan;
/// empty if none is.
fn scans(procedure: &Procedure, program: &Program) -> Vec<Vec<Register>> {
    let all = Need::of_all(program, program.writes(), &|_| true);
    let mut executed = BTreeSet::new();
    collect_executed(&program.body, &mut executed);
    let is_witness = |id: OperationId| {
        let operation = &program.operations[id.0 as usize];
        let Some(origin) = program.origins[id.0 as usize] else { return false };
        let needed = needed_of(operation, &all.registers);
        let registers = originals(&needed, operation, &procedure.operations[origin.0 as usize]);
        executed.contains(&id)
            && is_range_read(operation)
            && !needed.is_empty()
            && needed.len() <= MOST_VALUES
            && registers.iter().all(|register| is_word(procedure.registers[register.0 as usize]))
    };
    let need = Need::of_all(program, program.writes(), &|id| !is_witness(id));
    let mut chosen = Vec::new();
    for id in &need.sources {
        let operation = &program.operations[id.0 as usize];
        let origin =
            program.origins[id.0 as usize].expect("a witness is an operation of the procedure itself");
        let needed = needed_of(operation, &need.registers);
        chosen.resize(procedure.operations.len(), Vec::new());
        chosen[origin.0 as usize] = originals(&needed, operation, &procedure.operations[origin.0 as usize]);
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
    !scalar.is_bytes() && !scalar.is_wide_numeric() && !scalar.is_float()
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

fn collect_executed(statements: &[Step], executed: &mut BTreeSet<OperationId>) {
    for statement in statements {
        if let Step::Execute(id) = statement {
            executed.insert(*id);
        }
        statement.bodies().into_iter().for_each(|body| collect_executed(body, executed));
    }
}
