//! The two forms of execution: whole procedures in a transaction, and pieces of procedures in replay.
//!
//! Invariants: 1 The replay form needs no control of a transaction. Held by: the bounds of `execute_piece`,
//! whose data accesses have none. 2 The replay form has no queries. Held by: `ReplayForm`, which has none.

use super::code::Execution;
use super::ended::Ended;
use crate::execution::tape::Tapes;
use crate::{
    DataAccess, Failure, LookAhead, Machine, Procedure, ProcedureQuery, Reference, SqlError, Statement,
    Transaction,
};
use catalog::{Arena, Datum};

/// Runs what only one of the forms has.
pub(crate) trait Form<D>: Sized {
    /// Runs a query, a loop over the rows of a query, a CALL, a block with an EXCEPTION clause, RAISE of the
    /// handled error, or an opaque statement.
    fn control<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        statement: &Statement,
        machine: &mut Machine,
    ) -> Result<Ended, Failure>;

    /// Checks that an inserted row references a row.
    fn require(reference: &Reference, row: &[Datum], arena: &mut Arena, data: &mut D) -> Result<(), Failure>;

    /// Returns whether the transaction would fail validation already.
    fn is_doomed(data: &D) -> bool;
}

/// A whole procedure, in a transaction that may fail.
pub(crate) struct RunTimeForm<'a> {
    /// The queries of the procedure, by id.
    pub(super) queries: &'a [ProcedureQuery],
}

impl<'a> From<&'a Procedure> for RunTimeForm<'a> {
    fn from(procedure: &'a Procedure) -> Self {
        Self { queries: &procedure.queries }
    }
}

impl<D: Transaction> Form<D> for RunTimeForm<'_> {
    fn control<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        statement: &Statement,
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        execution.run_control(statement, machine)
    }

    fn require(reference: &Reference, row: &[Datum], arena: &mut Arena, data: &mut D) -> Result<(), Failure> {
        reference.require(row, arena, data)
    }

    fn is_doomed(data: &D) -> bool {
        data.is_doomed()
    }
}

/// A piece of a procedure, in the replay of calls that have committed. The analysis inlines calls and drops
/// references; a procedure with queries, handlers or opaque statements is logged by value.
pub(crate) struct ReplayForm;

impl<D: DataAccess + LookAhead> Form<D> for ReplayForm {
    fn control<T: Tapes>(
        _: &mut Execution<'_, D, T, Self>,
        _: &Statement,
        _: &mut Machine,
    ) -> Result<Ended, Failure> {
        Err(not_in_replay("a query, or a statement that needs control of its transaction"))
    }

    fn require(_: &Reference, _: &[Datum], _: &mut Arena, _: &mut D) -> Result<(), Failure> {
        Err(not_in_replay("a foreign key"))
    }

    /// Returns false: replay runs committed calls, which have passed validation.
    fn is_doomed(_: &D) -> bool {
        false
    }
}

#[cold]
fn not_in_replay(found: &str) -> Failure {
    SqlError::new("XX000", format!("a piece of a procedure has {found}, which replay cannot run")).into()
}
