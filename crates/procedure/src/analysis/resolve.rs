//! Resolves expressions to values that are known before their operation runs: the arguments, the call's time
//! and seed, the variable of a round, and results of operations that run before.
//!
//! Invariant: a resolved expression has the value of the original one wherever the program evaluates that. A
//! result counts only when its operation runs at most once a call, or once a round, and is the only
//! definition of its register.
//! Held by: `every_row_lies_in_its_granule`, `parallel_replay_equals_serial_replay`.

use super::program::Program;
use super::step::Step;
use crate::ir::visit::Role;
use crate::{Expression, Function, OperationId, Register};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a chain of assignments that is followed back.
const MOST_ASSIGNMENTS: usize = 16;

/// A definition of a register.
enum Definition<'p> {
    /// An assignment.
    Assigned(&'p Expression),
    /// The result of an operation that runs at most once a call.
    Result(OperationId),
    /// A loop, an operation in a loop, or a row in a window.
    Other,
}

/// The values that are known besides those that follow from the call's record.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// The variable of a round.
    pub(super) variable: Option<Register>,
    /// Whether the result of an operation in a register is known.
    pub(super) results: &'a dyn Fn(OperationId, Register) -> bool,
}

impl Given<'_> {
    /// No values beyond the call's record, and no witness values.
    pub(super) const ARGUMENTS: Given<'static> = Given { variable: None, results: &|_, _| false };
}

/// An expression over known registers.
pub(super) struct Resolved {
    pub(super) expression: Expression,
    /// The operations whose results it uses.
    pub(super) after: BTreeSet<OperationId>,
}

/// The definitions of a program's registers.
pub(super) struct Resolver<'p> {
    program: &'p Program,
    definitions: BTreeMap<Register, Vec<Definition<'p>>>,
}

impl<'p> Resolver<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        Self::of_round(program, None)
    }

    /// As `new`, for one round of the loop with a variable: what runs at most once a round counts.
    pub(super) fn of_round(program: &'p Program, variable: Option<Register>) -> Self {
        let mut resolver = Self { program, definitions: BTreeMap::new() };
        let mut once = BTreeSet::new();
        resolver.add_steps(&program.body, variable, false, &mut once);
        for (id, operation) in program.operation_ids().zip(&program.operations) {
            operation.clone().visit_registers(&mut |role, register| {
                if role == Role::Define {
                    let runs_once = once.contains(&id);
                    resolver
                        .add(*register, if runs_once { Definition::Result(id) } else { Definition::Other });
                }
            });
            for (first, count) in operation.windows() {
                let window = first.0..first.0 + count as u32;
                window.for_each(|register| resolver.add(Register(register), Definition::Other));
            }
        }
        resolver
    }

    fn add(&mut self, register: Register, definition: Definition<'p>) {
        self.definitions.entry(register).or_default().push(definition);
    }

    /// Returns whether one definition alone sets a register.
    pub(super) fn has_one_definition(&self, register: Register) -> bool {
        self.definitions.get(&register).is_some_and(|definitions| definitions.len() == 1)
    }

    /// Adds the definitions of steps, and collects the operations that run at most once.
    fn add_steps(
        &mut self,
        steps: &'p [Step],
        round: Option<Register>,
        is_in_loop: bool,
        once: &mut BTreeSet<OperationId>,
    ) {
        for step in steps {
            match step {
                Step::Assign { target, value } => self.add(*target, Definition::Assigned(value)),
                Step::Execute(id) if !is_in_loop => {
                    once.insert(*id);
                }
                other => other.clone().visit_definitions(&mut |_, register| {
                    self.add(*register, Definition::Other);
                }),
            }
            let is_loop = match step {
                Step::If { .. } | Step::Block { .. } => false,
                Step::ForRange { variable, .. } => Some(*variable) != round,
                _ => true,
            };
            let bodies = step.bodies();
            bodies.into_iter().for_each(|body| self.add_steps(body, round, is_in_loop || is_loop, once));
        }
    }

    /// Returns an expression over known values that always has the value of this one; `None` when none is
    /// found.
    pub(super) fn resolved(&self, expression: &Expression, given: Given<'_>) -> Option<Resolved> {
        let mut after = BTreeSet::new();
        let expression = self.resolved_within(expression, given, &mut after, MOST_ASSIGNMENTS)?;
        Some(Resolved { expression, after })
    }

    fn resolved_within(
        &self,
        expression: &Expression,
        given: Given<'_>,
        after: &mut BTreeSet<OperationId>,
        depth: usize,
    ) -> Option<Expression> {
        let (mut uses, mut depends_on_call) = (Vec::new(), false);
        expression.walk(&mut |part| match part {
            Expression::Register(register) => uses.push(*register),
            // The call's time is in its record.
            Expression::Function { function: Function::Now, .. } => {}
            Expression::Function { function, .. } => depends_on_call |= function.depends_on_call(),
            _ => {}
        });
        if depends_on_call {
            return None;
        }
        let mut result = expression.clone();
        for register in uses.into_iter().filter(|register| Some(*register) != given.variable) {
            let definitions = self.definitions.get(&register).map_or(&[][..], Vec::as_slice);
            let is_set = !self.program.unset.contains(&register);
            match definitions {
                [] if self.program.inputs.contains(&Some(register)) => {}
                // No step ever sets it.
                [] => substitute(&mut result, register, &Expression::NULL),
                [Definition::Assigned(value)] if is_set && depth > 0 => {
                    let value = self.resolved_within(value, given, after, depth - 1)?;
                    substitute(&mut result, register, &value);
                }
                [Definition::Result(id)] if is_set && (given.results)(*id, register) => {
                    after.insert(*id);
                }
                _ => return None,
            }
        }
        Some(result)
    }
}

/// Replaces a register by an expression.
fn substitute(expression: &mut Expression, register: Register, value: &Expression) {
    if *expression == Expression::Register(register) {
        *expression = value.clone();
        return;
    }
    expression.operands_mut().into_iter().for_each(|operand| substitute(operand, register, value));
}
