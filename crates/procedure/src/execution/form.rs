//! The two forms of execution: whole procedures in a transaction, and pieces of procedures in replay.
//!
//! Invariant: the replay form needs no control of a transaction. Held by: the bounds of `execute_piece`,
//! whose data accesses have none.

use super::code::{Ended, Execution};
use crate::execution::tape::Tapes;
use crate::query::Buffer;
use crate::{
    DataAccess, Failure, LookAhead, Machine, QueryOperation, Reference, SqlError, Statement, Transaction,
};
use catalog::{Arena, Datum};

/// Runs what only one of the forms has.
pub(crate) trait Form<D>: Sized {
    /// Runs a CALL, a block with an EXCEPTION clause, RAISE of the handled error, or an opaque statement.
    fn control<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        statement: &Statement,
        machine: &mut Machine,
    ) -> Result<Ended, Failure>;

    /// Runs a query for its effect, for the client, or for its first row. Returns the number of its rows.
    fn query<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        query: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<usize, Failure>;

    /// Returns the outputs of all rows of a query.
    fn rows_of<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        query: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<Buffer, Failure>;

    /// Checks that an inserted row references a row.
    fn require(reference: &Reference, row: &[Datum], arena: &mut Arena, data: &mut D) -> Result<(), Failure>;

    /// Returns whether the transaction would fail validation already.
    fn is_doomed(data: &D) -> bool;
}

/// A whole procedure, in a transaction that may fail.
pub(crate) enum RunTimeForm {}

impl<D: Transaction> Form<D> for RunTimeForm {
    fn control<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        statement: &Statement,
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        execution.run_control(statement, machine)
    }

    fn query<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        query: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<usize, Failure> {
        execution.run_query(query, machine)
    }

    fn rows_of<T: Tapes>(
        execution: &mut Execution<'_, D, T, Self>,
        query: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<Buffer, Failure> {
        execution.collect_query(query, machine)
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
pub(crate) enum ReplayForm {}

impl<D: DataAccess + LookAhead> Form<D> for ReplayForm {
    fn control<T: Tapes>(
        _: &mut Execution<'_, D, T, Self>,
        _: &Statement,
        _: &mut Machine,
    ) -> Result<Ended, Failure> {
        Err(not_in_replay("a statement that needs control of its transaction"))
    }

    fn query<T: Tapes>(
        _: &mut Execution<'_, D, T, Self>,
        _: &QueryOperation,
        _: &mut Machine,
    ) -> Result<usize, Failure> {
        Err(not_in_replay("a query"))
    }

    fn rows_of<T: Tapes>(
        _: &mut Execution<'_, D, T, Self>,
        _: &QueryOperation,
        _: &mut Machine,
    ) -> Result<Buffer, Failure> {
        Err(not_in_replay("a query"))
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
