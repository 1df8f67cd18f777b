//! The code that the executor runs, and one execution of it.

use super::compiled::Compiled;
use crate::{Operation, OperationId, Procedure, Register, Statement, Witnessed};

/// The code of a procedure, or of a piece. Only whole procedures have queries, so their form has them
/// (`form.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The statements.
    pub body: &'a [Statement],
    /// The operations of the statements, by id.
    pub operations: &'a [Operation],
    /// Point accesses whose keys are known at the start.
    pub ahead: &'a [OperationId],
    /// For each operation, the registers whose values are sent or received.
    pub sent: &'a [Vec<Register>],
    /// The compiled code that runs in place of the statements; `None` if they are interpreted.
    pub compiled: Option<&'a dyn Compiled>,
}

impl<'a> From<&'a Procedure> for Code<'a> {
    fn from(procedure: &'a Procedure) -> Self {
        let Procedure { body, operations, ahead, witnesses, compiled, .. } = procedure;
        Self { body, operations, ahead, sent: witnesses.of(Witnessed::NEWEST), compiled: compiled.get() }
    }
}

/// One execution of code over a database. Its form decides which statements it can run, and has the further
/// code of these statements.
pub(crate) struct Execution<'a, D, T, F> {
    pub(super) code: Code<'a>,
    pub(super) data: &'a mut D,
    pub(super) tapes: &'a mut T,
    pub(super) form: F,
}

impl<'a, D, T, F> Execution<'a, D, T, F> {
    pub(super) fn new(code: Code<'a>, data: &'a mut D, tapes: &'a mut T, form: F) -> Self {
        Self { code, data, tapes, form }
    }
}
