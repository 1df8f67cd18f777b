//! The statements of a program: those of a procedure after its calls are inlined.
//!
//! Calls of a procedure that has queries, handles errors, or has a statement that the analysis does not
//! support are logged by value; such a procedure has no program. A program therefore has fewer kinds of
//! statements than a procedure, and the analysis handles all of them. Replay runs steps as statements
//! ([`lowered`]), so there is one executor.

use crate::ir::visit::{Role, Visitor};
use crate::{Expression, Label, OperationId, Raise, Register, Statement};

/// One statement of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// `target := value`.
    Assign {
        /// The register that is set.
        target: Register,
        /// Its value, of the register's type.
        value: Expression,
    },
    /// `array[index] := value`.
    AssignElement {
        /// The register of the array.
        array: Register,
        /// The index, from 1.
        index: Expression,
        /// The new element, of the array's element type.
        value: Expression,
    },
    /// IF; ELSIF and CASE nest.
    If {
        /// Selects `then` if it is true.
        condition: Expression,
        /// THEN.
        then: Vec<Step>,
        /// ELSE.
        otherwise: Vec<Step>,
    },
    /// FOR over a range of integers.
    ForRange {
        /// Names the loop.
        label: Label,
        /// Set before each round.
        variable: Register,
        /// First value.
        from: Expression,
        /// Last value.
        to: Expression,
        /// Distance between two values; positive.
        step: Expression,
        /// Whether it counts down.
        reverse: bool,
        /// The body of the loop.
        body: Vec<Step>,
    },
    /// FOREACH over an array.
    ForEach {
        /// Names the loop.
        label: Label,
        /// Set before each round.
        variable: Register,
        /// The array.
        array: Expression,
        /// The body of the loop.
        body: Vec<Step>,
    },
    /// FOR over the rows that a read finds when the loop begins.
    ForRows {
        /// Names the loop.
        label: Label,
        /// The read; its outputs are set before each round.
        operation: OperationId,
        /// The body of the loop.
        body: Vec<Step>,
    },
    /// WHILE; LOOP has the condition TRUE.
    While {
        /// Names the loop.
        label: Label,
        /// Evaluated before each round.
        condition: Expression,
        /// The body of the loop.
        body: Vec<Step>,
    },
    /// A labelled block, or the body of an inlined call.
    Block {
        /// Names the block.
        label: Label,
        /// Its statements.
        body: Vec<Step>,
    },
    /// EXIT, or RETURN from an inlined call.
    Exit(Label),
    /// CONTINUE.
    Continue(Label),
    /// A data access.
    Execute(OperationId),
    /// RAISE. The replay form has none.
    Raise(Box<Raise>),
}

impl Step {
    /// Visits the registers that the step itself reads before a step inside it runs. Operations and the steps
    /// inside are visited separately. An array whose element is assigned counts as defined.
    pub(super) fn visit_uses(&mut self, visit: &mut Visitor<'_>) {
        match self {
            Self::Assign { value, .. } => value.visit_registers(visit),
            Self::AssignElement { index, value, .. } => {
                index.visit_registers(visit);
                value.visit_registers(visit);
            }
            Self::If { condition, .. } | Self::While { condition, .. } => condition.visit_registers(visit),
            Self::ForRange { from, to, step, .. } => {
                [from, to, step].into_iter().for_each(|bound| bound.visit_registers(visit));
            }
            Self::ForEach { array, .. } => array.visit_registers(visit),
            Self::Raise(raise) => {
                raise.expressions_mut().for_each(|part| part.visit_registers(visit));
            }
            Self::ForRows { .. }
            | Self::Block { .. }
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_) => {}
        }
    }

    /// Visits the registers that the step itself defines. A loop defines its variable before each round.
    pub(super) fn visit_definitions(&mut self, visit: &mut Visitor<'_>) {
        match self {
            Self::Assign { target: register, .. }
            | Self::AssignElement { array: register, .. }
            | Self::ForRange { variable: register, .. }
            | Self::ForEach { variable: register, .. } => visit(Role::Define, register),
            Self::If { .. }
            | Self::ForRows { .. }
            | Self::While { .. }
            | Self::Block { .. }
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Raise(_) => {}
        }
    }

    /// Returns the lists of steps inside.
    pub(super) fn bodies(&self) -> [&[Self]; 2] {
        match self {
            Self::If { then, otherwise, .. } => [then, otherwise],
            Self::ForRange { body, .. }
            | Self::ForEach { body, .. }
            | Self::ForRows { body, .. }
            | Self::While { body, .. }
            | Self::Block { body, .. } => [body, &[]],
            Self::Assign { .. }
            | Self::AssignElement { .. }
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Raise(_) => [&[], &[]],
        }
    }

    /// Returns the lists of steps inside, to be changed.
    pub(super) fn bodies_mut(&mut self) -> Vec<&mut Vec<Self>> {
        match self {
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::ForRange { body, .. }
            | Self::ForEach { body, .. }
            | Self::ForRows { body, .. }
            | Self::While { body, .. }
            | Self::Block { body, .. } => vec![body],
            Self::Assign { .. }
            | Self::AssignElement { .. }
            | Self::Exit(_)
            | Self::Continue(_)
            | Self::Execute(_)
            | Self::Raise(_) => Vec::new(),
        }
    }

    /// Returns the operation that the step names.
    pub(super) fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Execute(id) | Self::ForRows { operation: id, .. } => Some(*id),
            _ => None,
        }
    }
}

/// Returns steps as statements, which the executor runs. No row is looked up ahead.
pub(super) fn lowered(steps: &[Step]) -> Vec<Statement> {
    steps.iter().map(statement).collect()
}

fn statement(step: &Step) -> Statement {
    match step.clone() {
        Step::Assign { target, value } => Statement::Assign { target, value },
        Step::AssignElement { array, index, value } => Statement::AssignElement { array, index, value },
        Step::If { condition, then, otherwise } => {
            Statement::If { condition, then: lowered(&then), otherwise: lowered(&otherwise) }
        }
        Step::ForRange { label, variable, from, to, step, reverse, body } => Statement::ForRange {
            label,
            variable,
            from,
            to,
            step,
            reverse,
            ahead: Vec::new(),
            body: lowered(&body),
        },
        Step::ForEach { label, variable, array, body } => {
            Statement::ForEach { label, variable, array, body: lowered(&body) }
        }
        Step::ForRows { label, operation, body } => {
            Statement::ForRows { label, operation, body: lowered(&body) }
        }
        Step::While { label, condition, body } => Statement::While { label, condition, body: lowered(&body) },
        Step::Block { label, body } => Statement::Block { label, body: lowered(&body) },
        Step::Exit(label) => Statement::Exit(label),
        Step::Continue(label) => Statement::Continue(label),
        Step::Execute(id) => Statement::Execute(id),
        Step::Raise(raise) => Statement::Raise(raise),
    }
}
