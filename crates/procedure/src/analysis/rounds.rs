//! Loops with independent rounds. If a piece is one such loop, replay runs each round in the partition of the
//! round's keys (loop fission).
//!
//! The rounds of a loop are independent if
//! 1. the loop runs whenever its piece runs;
//! 2. no statement leaves the loop early;
//! 3. no statement of the loop assigns the loop's variable;
//! 4. no round uses a value of an earlier round;
//! 5. the piece receives witness values only, and every round takes the same number of them.
//!
//! A round executes the statements before the loop again, on the registers that the previous round has left.
//! Condition 4 therefore covers these statements, too.

use super::need::Need;
use super::program::Program;
use super::resolve::{Given, Resolver};
use super::step::Step;
use crate::ir::visit::Role;
use crate::{Expression, Label, Machine, OperationId, Register};
use catalog::Datum;
use std::collections::BTreeSet;

/// The independent rounds of a loop, known before it runs.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The first value of the variable, over the parameters.
    pub from: Expression,
    /// The last value.
    pub to: Expression,
    /// The distance between two values.
    pub step: Expression,
    /// Whether the values descend.
    pub reverse: bool,
    /// The register of the variable.
    pub variable: Register,
    /// The steps of one round. The variable's register holds the value of the round.
    pub(super) body: Vec<Step>,
}

impl Rounds {
    /// Returns the rounds of a FOR loop over integers, without their steps; `None` for another step, or if a
    /// bound does not follow from the call's record.
    pub(super) fn of(resolver: &Resolver<'_>, step: &Step) -> Option<Self> {
        let Step::ForRange { variable, from, to, step, reverse, .. } = step else { return None };
        let resolved = |value: &Expression| Some(resolver.resolved(value, Given::ARGUMENTS)?.expression);
        Some(Self {
            from: resolved(from)?,
            to: resolved(to)?,
            step: resolved(step)?,
            reverse: *reverse,
            variable: *variable,
            body: Vec::new(),
        })
    }

    /// Returns the value of the variable in a round, numbered from 0. The registers hold the call's
    /// arguments.
    pub fn value(&self, round: u32, machine: &mut Machine) -> Datum {
        match (self.from.evaluate(machine), self.step.evaluate(machine)) {
            (Ok(Datum::Int(from)), Ok(Datum::Int(step))) => {
                let distance = i64::from(round).wrapping_mul(if self.reverse { -step } else { step });
                Datum::Int(from.wrapping_add(distance))
            }
            _ => Datum::Null,
        }
    }

    /// Returns the number of rounds. It is 0 if a bound cannot be computed, because then the loop never ran.
    pub fn count(&self, machine: &mut Machine) -> u32 {
        let mut bound = |expression: &Expression| match expression.evaluate(machine) {
            Ok(Datum::Int(value)) => Some(i128::from(value)),
            _ => None,
        };
        let (Some(from), Some(to), Some(step)) = (bound(&self.from), bound(&self.to), bound(&self.step))
        else {
            return 0;
        };
        let distance = if self.reverse { from - to } else { to - from };
        if step <= 0 || distance < 0 { 0 } else { u32::try_from(distance / step + 1).unwrap_or(u32::MAX) }
    }
}

/// Returns the rounds of a slice; `None` if the slice is not one loop with independent rounds.
pub(super) fn rounds(program: &Program, resolver: &Resolver<'_>, need: &Need) -> Option<Rounds> {
    let mut body = need.body.clone();
    let rounds = {
        let only = only_loop(&mut body)?;
        let rounds = Rounds::of(resolver, only)?;
        let Step::ForRange { label, variable, from, to, step, body, .. } = only else { return None };
        let inside = Inside { program, need, label: *label };
        let (of_loop, of_all) = (inside.definitions(body), inside.definitions(&need.body));
        let carried = of_loop.contains(variable)
            || inside.carries(body, &mut BTreeSet::from([*variable]), &of_loop)
            || inside.carries(&need.body, &mut BTreeSet::new(), &of_all);
        if carried || leaves(body, *label) || !need.sources.iter().all(|id| inside.is_aligned(*id, body)) {
            return None;
        }
        (*from, *to) = (Expression::Register(*variable), Expression::Register(*variable));
        *step = Expression::Constant(Datum::Int(1));
        rounds
    };
    Some(Rounds { body, ..rounds })
}

/// Returns the loop at the end of statements, if only computations stand before it. The loop runs whenever
/// the statements do: no condition is around it and no jump before it. Otherwise its bounds would give a
/// number of rounds although the loop never ran.
pub(super) fn only_loop(statements: &mut [Step]) -> Option<&mut Step> {
    let (last, before) = statements.split_last_mut()?;
    if before.iter().any(accesses_data) || jumps(before, &mut Vec::new(), None) {
        return None;
    }
    match last {
        Step::Block { body, .. } => only_loop(body),
        Step::ForRange { .. } => Some(last),
        _ => None,
    }
}

fn accesses_data(statement: &Step) -> bool {
    statement.operation().is_some() || statement.bodies().into_iter().flatten().any(accesses_data)
}

/// Returns whether the body of a loop jumps out of it. A CONTINUE of the loop is no such jump.
fn leaves(body: &[Step], label: Label) -> bool {
    jumps(body, &mut Vec::new(), Some(label))
}

/// Returns whether a jump in the statements leaves them and the loops and blocks `inner`. A CONTINUE of the
/// loop `continues` does not count.
fn jumps(statements: &[Step], inner: &mut Vec<Label>, continues: Option<Label>) -> bool {
    statements.iter().any(|statement| match statement {
        Step::Exit(label) => !inner.contains(label),
        Step::Continue(label) => Some(*label) != continues && !inner.contains(label),
        Step::ForRange { label, .. }
        | Step::ForEach { label, .. }
        | Step::ForRows { label, .. }
        | Step::While { label, .. }
        | Step::Block { label, .. } => {
            inner.push(*label);
            let found = statement.bodies().into_iter().any(|body| jumps(body, inner, continues));
            inner.pop();
            found
        }
        other => other.bodies().into_iter().any(|body| jumps(body, inner, continues)),
    })
}

/// The body of a loop.
struct Inside<'p> {
    program: &'p Program,
    need: &'p Need,
    label: Label,
}

impl Inside<'_> {
    /// Visits the registers that a piece touches for an operation. If the piece receives the operation's
    /// results, it touches the registers of the results only.
    fn visit(&self, id: OperationId, visit: &mut dyn FnMut(Role, Register)) {
        let received = self.need.sources.contains(&id);
        self.program.operations[id.0 as usize].clone().visit_registers(&mut |role, register| {
            if !received || role != Role::Use {
                visit(role, *register);
            }
        });
    }

    /// Returns all registers that statements define.
    fn definitions(&self, statements: &[Step]) -> BTreeSet<Register> {
        let mut defined = BTreeSet::new();
        for statement in statements {
            statement.clone().visit_definitions(&mut |_, register| {
                defined.insert(*register);
            });
            if let Some(id) = statement.operation() {
                self.visit(id, &mut |role, register| {
                    if role != Role::Use {
                        defined.insert(register);
                    }
                });
            }
            statement.bodies().into_iter().for_each(|body| defined.extend(self.definitions(body)));
        }
        defined
    }

    /// Returns whether steps use a value that may come from an earlier round. `now` has the registers that
    /// this round has defined on every path to the steps; `of_loop` has all that a round may define.
    fn carries(
        &self,
        statements: &[Step],
        now: &mut BTreeSet<Register>,
        of_loop: &BTreeSet<Register>,
    ) -> bool {
        let is_old = |register: &Register, now: &BTreeSet<Register>| {
            of_loop.contains(register) && !now.contains(register)
        };
        for statement in statements {
            let mut carried = false;
            statement.clone().visit_uses(&mut |_, register| carried |= is_old(register, now));
            // A loop over rows sets FOUND when it ends, and its other registers before each row.
            let ends_with = match statement {
                Step::ForRows { operation, .. } => Some(self.program.operations[operation.0 as usize].found),
                _ => None,
            };
            match statement {
                Step::Execute(id) | Step::ForRows { operation: id, .. } => {
                    self.visit(*id, &mut |role, register| match role {
                        Role::Use => carried |= is_old(&register, now),
                        Role::Define | Role::Window if Some(register) == ends_with => {}
                        Role::Define | Role::Window => {
                            now.insert(register);
                        }
                    });
                }
                Step::AssignElement { array, .. } => carried |= is_old(array, now),
                _ => {}
            }
            let mut inside: Vec<BTreeSet<Register>> = Vec::new();
            for body in statement.bodies() {
                let mut inner = now.clone();
                statement.clone().visit_definitions(&mut |_, register| {
                    inner.insert(*register);
                });
                carried |= self.carries(body, &mut inner, of_loop);
                inside.push(inner);
            }
            match statement {
                Step::If { .. } => {
                    let both = inside[0].intersection(&inside[1]).copied().collect();
                    *now = both;
                }
                Step::Assign { target, .. } => {
                    now.insert(*target);
                }
                _ => now.extend(ends_with),
            }
            if carried {
                return true;
            }
        }
        false
    }

    /// Returns whether every round receives the recorded results of an operation exactly once.
    fn is_aligned(&self, id: OperationId, body: &[Step]) -> bool {
        let before =
            body.iter().position(|statement| matches!(statement, Step::Execute(executed) if *executed == id));
        let is_witness = self.program.witnesses.contains_key(&id);
        is_witness && before.is_some_and(|index| !body[..index].iter().any(|s| self.continues(s)))
    }

    fn continues(&self, statement: &Step) -> bool {
        matches!(statement, Step::Continue(label) if *label == self.label)
            || statement.bodies().into_iter().flatten().any(|inner| self.continues(inner))
    }
}
