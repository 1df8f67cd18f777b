//! Resolves expressions to values that are known before their operation runs: the arguments, the call's time
//! and seed, the variable of a round, and results of operations that run before.
//!
//! Invariant: a resolved expression has the value of the original one wherever the program evaluates that. A
//! result counts only when its operation runs at most once a call, or once a round. A register of several
//! definitions counts only when they are in different branches of IF: the conditions then decide which of
//! them has run.
//! Held by: `every_row_lies_in_its_granule`, `parallel_replay_equals_serial_replay`.

use super::program::Program;
use super::step::Step;
use crate::ir::visit::Role;
use crate::{Expression, Function, OperationId, Register};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a chain of assignments that is followed back.
const MOST_ASSIGNMENTS: usize = 16;

/// A definition of a register.
struct Definition<'p> {
    value: Value<'p>,
    /// The branches around it, inside of all loops that run more than once; the outermost first.
    branches: Vec<Branch<'p>>,
}

/// A branch of an IF.
#[derive(Clone, Copy)]
struct Branch<'p> {
    /// The number of the IF among those of the program.
    number: usize,
    condition: &'p Expression,
    is_then: bool,
}

/// The value that a definition sets.
#[derive(Clone, Copy)]
enum Value<'p> {
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
    /// Whether registers that several branches define are resolved.
    follows_branches: bool,
}

/// The context of a step in `Resolver::add_steps`.
#[derive(Clone, Default)]
struct Walk<'p> {
    /// The variable of the loop whose rounds count as calls.
    round: Option<Register>,
    is_in_loop: bool,
    branches: Vec<Branch<'p>>,
}

/// The results of `Resolver::add_steps`.
#[derive(Default)]
struct Collected<'p> {
    /// The operations that run at most once, with the branches around them.
    once: BTreeMap<OperationId, Vec<Branch<'p>>>,
    /// Number of IFs.
    ifs: usize,
}

impl<'p> Resolver<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        Self::of_round(program, None)
    }

    /// As `new`, for the choice of witnesses. This rule belongs to the log format, so it must not change.
    pub(super) fn of_witnesses(program: &'p Program) -> Self {
        Self { follows_branches: false, ..Self::new(program) }
    }

    /// As `new`, for one round of the loop with a variable: what runs at most once a round counts.
    pub(super) fn of_round(program: &'p Program, variable: Option<Register>) -> Self {
        let mut resolver = Self { program, definitions: BTreeMap::new(), follows_branches: true };
        let mut seen = Collected::default();
        resolver.add_steps(&program.body, &Walk { round: variable, ..Walk::default() }, &mut seen);
        for (id, operation) in program.operation_ids().zip(&program.operations) {
            operation.clone().visit_registers(&mut |role, register| {
                if role == Role::Define {
                    match seen.once.get(&id) {
                        Some(branches) => resolver.add(*register, Value::Result(id), branches),
                        None => resolver.add(*register, Value::Other, &[]),
                    }
                }
            });
            for (first, count) in operation.windows() {
                let window = first.0..first.0 + count as u32;
                window.for_each(|register| resolver.add(Register(register), Value::Other, &[]));
            }
        }
        resolver
    }

    fn add(&mut self, register: Register, value: Value<'p>, branches: &[Branch<'p>]) {
        let definition = Definition { value, branches: branches.to_vec() };
        self.definitions.entry(register).or_default().push(definition);
    }

    /// Returns whether one definition alone sets a register.
    pub(super) fn has_one_definition(&self, register: Register) -> bool {
        self.definitions.get(&register).is_some_and(|definitions| definitions.len() == 1)
    }

    /// Adds the definitions of steps, and collects the operations that run at most once.
    fn add_steps(&mut self, steps: &'p [Step], walk: &Walk<'p>, seen: &mut Collected<'p>) {
        for step in steps {
            match step {
                Step::Assign { target, value } if walk.is_in_loop => {
                    // Its value is that of the last round.
                    self.add(*target, Value::Assigned(value), &[]);
                }
                Step::Assign { target, value } => self.add(*target, Value::Assigned(value), &walk.branches),
                Step::Execute(id) if !walk.is_in_loop => {
                    seen.once.insert(*id, walk.branches.clone());
                }
                other => other.clone().visit_definitions(&mut |_, register| {
                    self.add(*register, Value::Other, &[]);
                }),
            }
            let is_loop = match step {
                Step::If { .. } | Step::Block { .. } => false,
                Step::ForRange { variable, .. } => Some(*variable) != walk.round,
                _ => true,
            };
            let mut inner = Walk { is_in_loop: walk.is_in_loop || is_loop, ..walk.clone() };
            if let Step::If { condition, then, otherwise } = step {
                seen.ifs += 1;
                let number = seen.ifs;
                for (body, is_then) in [(then, true), (otherwise, false)] {
                    inner.branches.push(Branch { number, condition, is_then });
                    self.add_steps(body, &inner, seen);
                    inner.branches.pop();
                }
            } else {
                step.bodies().into_iter().for_each(|body| self.add_steps(body, &inner, seen));
            }
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
        uses.sort_unstable();
        uses.dedup();
        for register in uses.into_iter().filter(|register| Some(*register) != given.variable) {
            let definitions = self.definitions.get(&register).map_or(&[][..], Vec::as_slice);
            let is_set = !self.program.unset.contains(&register);
            match definitions {
                [] if self.program.inputs.contains(&Some(register)) => {}
                // No step ever sets it.
                [] => substitute(&mut result, register, &Expression::NULL),
                definitions if is_set => {
                    let definitions: Vec<&Definition<'_>> = definitions.iter().collect();
                    let value = self.chosen(register, &definitions, 0, given, after, depth)?;
                    substitute(&mut result, register, &value);
                }
                _ => return None,
            }
        }
        Some(result)
    }

    /// Returns the value of a register that some definitions set, all in the same branches down to a depth.
    fn chosen(
        &self,
        register: Register,
        definitions: &[&Definition<'p>],
        level: usize,
        given: Given<'_>,
        after: &mut BTreeSet<OperationId>,
        depth: usize,
    ) -> Option<Expression> {
        if let [definition] = definitions {
            return match definition.value {
                Value::Assigned(value) if depth > 0 => self.resolved_within(value, given, after, depth - 1),
                Value::Result(id) if (given.results)(id, register) => {
                    after.insert(id);
                    Some(Expression::Register(register))
                }
                _ => None,
            };
        }
        let branch_of = |definition: &&Definition<'p>| definition.branches.get(level).copied();
        let branch = branch_of(definitions.first()?)?;
        let is_same = |definition: &&Definition<'p>| {
            branch_of(definition).is_some_and(|other| other.number == branch.number)
        };
        if !self.follows_branches || depth == 0 || !definitions.iter().all(is_same) {
            return None;
        }
        let (then, otherwise): (Vec<_>, Vec<_>) = definitions
            .iter()
            .partition(|definition| branch_of(definition).is_some_and(|branch| branch.is_then));
        if then.is_empty() || otherwise.is_empty() {
            return self.chosen(register, definitions, level + 1, given, after, depth - 1);
        }
        let condition = self.resolved_within(branch.condition, given, after, depth - 1)?;
        let then = self.chosen(register, &then, level + 1, given, after, depth - 1)?;
        let otherwise = self.chosen(register, &otherwise, level + 1, given, after, depth - 1)?;
        Some(Expression::Case { branches: vec![(condition, then)], otherwise: Box::new(otherwise) })
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
