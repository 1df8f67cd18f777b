//! What the executor runs, and what it runs it on.

use crate::{Operation, OperationId, Procedure, Register, Statement};

/// What is executed: a procedure, or a piece of one.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The statements.
    pub body: &'a [Statement],
    /// The operations that they name.
    pub operations: &'a [Operation],
    /// Point accesses whose keys are known at the start.
    pub ahead: &'a [OperationId],
    /// For each operation that is sent or received, the registers whose values are.
    pub sent: &'a [Vec<Register>],
}

impl<'a> From<&'a Procedure> for Code<'a> {
    fn from(procedure: &'a Procedure) -> Self {
        let Procedure { body, operations, ahead, witnesses, .. } = procedure;
        Self { body, operations, ahead, sent: witnesses }
    }
}

pub(crate) struct Execution<'a, D, T> {
    pub(crate) code: Code<'a>,
    pub(crate) data: &'a mut D,
    pub(crate) tapes: &'a mut T,
}
