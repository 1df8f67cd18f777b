//! The part of a program that some of its operations need: the backward slice over values and control.
//! Source: Weiser's program slices, on structured control; PACMAN §4.1.1 (flow dependencies: define-use and
//! control).
//!
//! A statement is kept when it sets a needed register, holds a kept statement, or leaves a loop or block past
//! a kept one. A loop over rows or elements sets registers itself: to which values, its EXIT decides. What it
//! uses is needed then. An operation whose results are needed is *expanded* (executed, so that its own inputs
//! are needed too) or taken as a *source* (its results come from elsewhere). The program that is left has the
//! control of the whole one around what it keeps, so an operation that it keeps runs as often as in the whole
//! one, in the same order.
//! RAISE is never kept: only committed calls are replayed.

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
    /// Operations whose results are needed and come from elsewhere; witnesses among them.
    pub(super) sources: BTreeSet<OperationId>,
    /// The statements that are left.
    pub(super) body: Vec<Step>,
}

struct Slicer<'p> {
    operations: &'p [Operation],
    witnesses: BTreeSet<OperationId>,
    expand: &'p dyn Fn(OperationId) -> bool,
    trims: bool,
    need: Need,
    /// Loops that hold a kept statement.
    loops: BTreeSet<Label>,
    grown: bool,
}

/// The loops and blocks around a statement after which a kept statement follows.
#[derive(Clone, Default)]
struct Behind {
    /// A kept statement follows before the end of the block, or of the loop's round.
    kept: BTreeSet<Label>,
}

impl Need {
    /// Returns the part of a program that operations need, when no result of theirs matters but those that
    /// they need themselves. Operations that `expand` names are executed as well.
    pub(super) fn of_all(
        program: &Program,
        of: impl IntoIterator<Item = OperationId>,
        expand: &dyn Fn(OperationId) -> bool,
    ) -> Self {
        Self::sliced(program, of, expand, true)
    }

    /// Returns the part of a program that operations need, all their results included. Operations that
    /// `expand` names are executed as well.
    pub(super) fn of(
        program: &Program,
        of: impl IntoIterator<Item = OperationId>,
        expand: &dyn Fn(OperationId) -> bool,
    ) -> Self {
        Self::sliced(program, of, expand, false)
    }

    /// All of a program.
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
            slicer.need.body = slicer.list(&program.body, &mut Behind::default(), &mut Vec::new());
        }
        slicer.need
    }
}

impl Slicer<'_> {
    fn uses(&mut self, visit: impl FnOnce(&mut crate::ir::visit::Visitor<'_>)) {
        let (registers, grown) = (&mut self.need.registers, &mut self.grown);
        visit(&mut |role, register| {
            if role == Role::Use {
                *grown |= registers.insert(*register);
            }
        });
    }

    /// Decides whether an operation is kept.
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

    /// Goes through statements from the last to the first; returns those that are kept.
    fn list(&mut self, statements: &[Step], behind: &mut Behind, around: &mut Vec<Label>) -> Vec<Step> {
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
        behind: &mut Behind,
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

    /// The body of a loop. One that sets needed registers before each round is left where the whole one is
    /// left, so that they are those of the same round afterwards.
    fn round(
        &mut self,
        label: Label,
        body: &[Step],
        sets_needed: bool,
        behind: &mut Behind,
        around: &mut Vec<Label>,
    ) -> Vec<Step> {
        if sets_needed {
            self.grown |= self.loops.insert(label);
        }
        if self.loops.contains(&label) {
            // Behind every place of the body there are the rounds to come.
            behind.kept.extend(around.iter().copied());
        }
        around.push(label);
        let kept = self.list(body, behind, around);
        around.pop();
        behind.kept.remove(&label);
        // A loop that only ends itself is not needed. A loop that leaves a block around it is.
        if sets_needed || kept.iter().any(|statement| !is_jump_of(label, statement)) {
            self.grown |= self.loops.insert(label);
            kept
        } else {
            Vec::new()
        }
    }
}

/// Whether a statement does nothing but end a loop or its round, on conditions or not.
fn is_jump_of(own: Label, statement: &Step) -> bool {
    match statement {
        Step::Exit(label) | Step::Continue(label) => *label == own,
        Step::If { then, otherwise, .. } => {
            then.iter().chain(otherwise).all(|statement| is_jump_of(own, statement))
        }
        _ => false,
    }
}

/// Drops the results of an operation that are not needed, and the checks that a committed call has passed.
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
        OperationKind::Query(_) => {}
    }
}
