//! The part of a program that some of its operations need: the backward slice over values and control.
//! Source: Weiser's program slices, on structured control; PACMAN §4.1.1 (flow dependencies: define-use and
//! control).
//!
//! A statement is kept if it
//! - sets a needed register,
//! - contains a kept statement, or
//! - leaves a loop or block in which a kept statement follows.
//!
//! The registers that a kept statement uses are needed. A loop over rows or elements sets registers itself;
//! their values after the loop depend on its EXITs, so these are kept with it.
//! An operation whose results are needed is either *expanded* (executed, so its inputs are needed too) or a
//! *source* (its results come from outside the slice).
//! RAISE is never kept, because replay executes committed calls only.
//!
//! Invariant: the slice keeps the control flow around the kept statements, so a kept operation runs as often
//! as in the whole program, and in the same order.

use super::program::Program;
use super::step::Step;
use crate::ir::visit::Role;
use crate::{Label, Operation, OperationId, Register};
use std::collections::BTreeSet;

/// A backward slice of a program.
#[derive(Clone, Debug)]
pub(super) struct Need {
    /// Registers whose values are needed.
    pub(super) registers: BTreeSet<Register>,
    /// Operations that are executed.
    pub(super) executed: BTreeSet<OperationId>,
    /// Operations whose results are needed and come from outside the slice, witnesses included.
    pub(super) sources: BTreeSet<OperationId>,
    /// The kept statements.
    pub(super) body: Vec<Step>,
}

struct Slicer<'p> {
    operations: &'p [Operation],
    witnesses: BTreeSet<OperationId>,
    expand: &'p dyn Fn(OperationId) -> bool,
    /// Whether an operation's unneeded results don't count as uses of its inputs.
    trims: bool,
    need: Need,
    /// Loops that contain a kept statement.
    loops: BTreeSet<Label>,
    /// Whether a pass over the program has added to `need` or `loops`.
    grown: bool,
}

/// The kept statements that follow a statement.
#[derive(Clone, Default)]
struct FollowingStatements {
    /// The surrounding blocks and loops in which a kept statement follows: before the end of the block, or of
    /// the loop's round.
    kept: BTreeSet<Label>,
}

impl Need {
    /// Returns the part of a program that operations need, of whose results only those matter that this part
    /// uses. Operations for which `expand` is true are executed as well.
    pub(super) fn of_all(
        program: &Program,
        of: impl IntoIterator<Item = OperationId>,
        expand: &dyn Fn(OperationId) -> bool,
    ) -> Self {
        Self::sliced(program, of, expand, true)
    }

    /// Returns the part of a program that operations and all their results need. Operations for which
    /// `expand` is true are executed as well.
    pub(super) fn of(
        program: &Program,
        of: impl IntoIterator<Item = OperationId>,
        expand: &dyn Fn(OperationId) -> bool,
    ) -> Self {
        Self::sliced(program, of, expand, false)
    }

    /// Returns the whole program.
    pub(super) fn whole(program: &Program) -> Self {
        let registers = (0..program.registers as u32).map(Register).collect();
        let executed = program.operation_ids().collect();
        Self { registers, executed, sources: BTreeSet::new(), body: program.body.clone() }
    }

    fn sliced(
        program: &Program,
        of: impl IntoIterator<Item = OperationId>,
        expand: &dyn Fn(OperationId) -> bool,
        trims: bool,
    ) -> Self {
        let need = Self {
            registers: BTreeSet::new(),
            executed: of.into_iter().collect(),
            sources: BTreeSet::new(),
            body: Vec::new(),
        };
        let operations = &program.operations;
        let witnesses = program.witnesses.keys().copied().collect();
        let mut slicer =
            Slicer { operations, witnesses, expand, trims, need, loops: BTreeSet::new(), grown: true };
        while std::mem::take(&mut slicer.grown) {
            slicer.need.body =
                slicer.list(&program.body, &mut FollowingStatements::default(), &mut Vec::new());
        }
        slicer.need
    }
}

impl Slicer<'_> {
    /// Adds the registers that `visit` reports as used to the needed ones.
    fn uses(&mut self, visit: impl FnOnce(&mut crate::ir::visit::Visitor<'_>)) {
        let (registers, grown) = (&mut self.need.registers, &mut self.grown);
        visit(&mut |role, register| {
            if role == Role::Use {
                *grown |= registers.insert(*register);
            }
        });
    }

    /// Returns whether an operation is kept. Adds the registers that it uses to the needed ones.
    fn operation(&mut self, id: OperationId, needed_anyway: bool) -> bool {
        if !self.need.executed.contains(&id) {
            if !needed_anyway && !self.defines_needed(id) {
                return false;
            }
            if self.witnesses.contains(&id) || !(self.expand)(id) {
                self.grown |= self.need.sources.insert(id);
                return true;
            }
            self.need.executed.insert(id);
            self.grown = true;
        }
        let mut operation = self.operations[id.0 as usize].clone();
        if self.trims {
            trim(&mut operation, &self.need.registers);
        }
        self.uses(|visit| operation.visit_registers(visit));
        true
    }

    fn defines_needed(&self, id: OperationId) -> bool {
        let mut found = false;
        self.operations[id.0 as usize].clone().visit_registers(&mut |role, register| {
            found |= role == Role::Define && self.need.registers.contains(register);
        });
        found
    }

    /// Returns the kept statements of a list, which it visits from the last to the first.
    fn list(
        &mut self,
        statements: &[Step],
        behind: &mut FollowingStatements,
        around: &mut Vec<Label>,
    ) -> Vec<Step> {
        let mut kept = Vec::new();
        for statement in statements.iter().rev() {
            if let Some(statement) = self.statement(statement.clone(), behind, around) {
                behind.kept.extend(around.iter().copied());
                kept.push(statement);
            }
        }
        kept.reverse();
        kept
    }

    fn statement(
        &mut self,
        mut statement: Step,
        behind: &mut FollowingStatements,
        around: &mut Vec<Label>,
    ) -> Option<Step> {
        let keep = match &mut statement {
            Step::Assign { target, .. } | Step::AssignElement { array: target, .. } => {
                self.need.registers.contains(target)
            }
            Step::Execute(id) => return self.operation(*id, false).then_some(statement),
            Step::If { then, otherwise, .. } => {
                let mut other = behind.clone();
                *then = self.list(then, behind, around);
                *otherwise = self.list(otherwise, &mut other, around);
                behind.kept.extend(other.kept);
                !then.is_empty() || !otherwise.is_empty()
            }
            Step::ForRange { label, body, .. } | Step::While { label, body, .. } => {
                *body = self.round(*label, body, false, behind, around);
                !body.is_empty()
            }
            Step::ForEach { label, variable, body, .. } => {
                let sets_needed = self.need.registers.contains(variable);
                *body = self.round(*label, body, sets_needed, behind, around);
                sets_needed || !body.is_empty()
            }
            Step::ForRows { label, operation, body } => {
                let sets_needed = self.defines_needed(*operation);
                *body = self.round(*label, body, sets_needed, behind, around);
                return self.operation(*operation, !body.is_empty()).then_some(statement);
            }
            Step::Block { label, body } => {
                let label = *label;
                around.push(label);
                *body = self.list(body, behind, around);
                around.pop();
                behind.kept.remove(&label);
                !body.is_empty()
            }
            Step::Exit(label) => self.loops.contains(label) || behind.kept.contains(label),
            Step::Continue(label) => behind.kept.contains(label),
            Step::Raise(_) => false,
        };
        if keep {
            self.uses(|visit| statement.visit_uses(visit));
        }
        keep.then_some(statement)
    }

    /// Returns the kept statements of a loop's body. If the loop sets needed registers before each round, its
    /// EXITs are kept, so that the registers have the values of the same round afterwards.
    fn round(
        &mut self,
        label: Label,
        body: &[Step],
        sets_needed: bool,
        behind: &mut FollowingStatements,
        around: &mut Vec<Label>,
    ) -> Vec<Step> {
        if sets_needed {
            self.grown |= self.loops.insert(label);
        }
        if self.loops.contains(&label) {
            // Kept statements of the next round follow every statement of the body.
            behind.kept.extend(around.iter().copied());
        }
        around.push(label);
        let kept = self.list(body, behind, around);
        around.pop();
        behind.kept.remove(&label);
        // A loop whose kept statements only end it is not needed. A loop that leaves a block around it is.
        if sets_needed || kept.iter().any(|statement| !is_jump_of(label, statement)) {
            self.grown |= self.loops.insert(label);
            kept
        } else {
            Vec::new()
        }
    }
}

/// Returns whether a statement only ends a loop or its round, with or without a condition.
fn is_jump_of(loop_label: Label, statement: &Step) -> bool {
    match statement {
        Step::Exit(label) | Step::Continue(label) => *label == loop_label,
        Step::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).all(|statement| is_jump_of(loop_label, statement))
        }
        _ => false,
    }
}

/// Drops the results of an operation that are not needed, and its checks, which a committed call has passed.
pub(super) fn trim(operation: &mut Operation, needed: &BTreeSet<Register>) {
    use crate::OperationKind;
    match &mut operation.kind {
        OperationKind::Select(select) => {
            select.strict = false;
            // DISTINCT compares whole rows.
            if !select.distinct {
                select.outputs.retain(|(target, _)| needed.contains(target));
            }
        }
        OperationKind::Insert { checks, references, returning, .. } => {
            checks.clear();
            references.clear();
            returning.retain(|(target, _)| needed.contains(target));
        }
        OperationKind::Update { checks, returning, .. } => {
            checks.clear();
            returning.retain(|(target, _)| needed.contains(target));
        }
        OperationKind::Delete { returning, .. } => returning.retain(|(target, _)| needed.contains(target)),
    }
}
