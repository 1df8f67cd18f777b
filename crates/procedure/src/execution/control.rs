//! Runs the statements that only whole procedures have: queries, CALL, blocks with an EXCEPTION clause,
//! opaque statements.

use super::code::Execution;
use super::ended::Ended;
use super::form::RunTimeForm;
use crate::execution::tape::{Tapes, Whole};
use crate::{
    Cast, Conflict, Expression, Failure, Guarded, Machine, Procedure, Register, SqlError, Statement,
    Transaction,
};
use catalog::Datum;

/// Maximum depth of calls. PostgreSQL refuses deep calls by its stack limit.
const MAX_DEPTH: usize = 2000;
/// A call has at least this many bytes of stack when it begins.
const LEAST_STACK: usize = 256 << 10;
/// The bytes of stack that a call gets if it would have less than `LEAST_STACK`.
const STACK: usize = 2 << 20;

impl<D: Transaction, T: Tapes> Execution<'_, D, T, RunTimeForm<'_>> {
    /// Runs a statement that the replay form does not have.
    pub(super) fn run_control(
        &mut self,
        statement: &Statement,
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        match statement {
            Statement::Query(id) => {
                self.query(*id, machine)?;
                Ok(Ended::Here)
            }
            Statement::ForQuery { label, query, body } => self.for_query(*label, *query, body, machine),
            Statement::Call { procedure, arguments, outputs } => {
                call(procedure, arguments, outputs, machine, self.data)?;
                Ok(Ended::Here)
            }
            Statement::Guarded(guarded) => self.run_guarded(guarded, machine),
            Statement::RaiseAgain => match machine.frame.handled.last() {
                Some(error) => Err(error.clone().into()),
                None => {
                    let message = "RAISE without parameters cannot be used outside an exception handler";
                    Err(SqlError::new("0Z002", message).into())
                }
            },
            Statement::Opaque(opaque) => {
                self.run_opaque(opaque, machine)?;
                Ok(Ended::Here)
            }
            _ => self.run(std::slice::from_ref(statement), machine),
        }
    }

    /// Runs a block with an EXCEPTION clause. When the block fails, its writes are undone and the first
    /// handler for the error runs; its changes of settings are undone, too. Variables keep their values.
    fn run_guarded(&mut self, guarded: &Guarded, machine: &mut Machine) -> Result<Ended, Failure> {
        let mark = machine.frame.mark();
        self.data.begin_part();
        machine.services.begin_block();
        let notifications = machine.services.notifications.len();
        let error = match self.run(&guarded.body, machine) {
            Ok(ended) => {
                machine.services.end_block();
                self.data.end_part();
                return Ok(ended);
            }
            Err(Failure::Error(error)) => error,
            Err(conflict) => return Err(conflict),
        };
        let Some(handler) = guarded.handlers.iter().find(|handler| handler.fits(&error.sqlstate)) else {
            // The outer block that handles the error undoes this part together with its own part.
            machine.services.end_block();
            self.data.end_part();
            return Err(Failure::Error(error));
        };
        // An inconsistent state that the attempt has read may have caused the error, so it is retried.
        if self.data.is_doomed() {
            return Err(Conflict::Read.into());
        }
        machine.frame.has_caught_shortage |= error.sqlstate.starts_with("53");
        machine.frame.return_to(mark);
        self.data.undo_part()?;
        self.data.end_part();
        machine.services.notifications.truncate(notifications);
        if let Some(zone) = machine.services.undo_block() {
            machine.frame.arena.set_zone(zone);
        }
        let object = error.object.clone().unwrap_or_default();
        let texts: [&str; 9] = [
            &error.sqlstate,
            &error.message,
            error.detail.as_deref().unwrap_or_default(),
            error.hint.as_deref().unwrap_or_default(),
            &object.schema,
            &object.table,
            &object.column,
            &object.constraint,
            &object.datatype,
        ];
        for (register, text) in handler.diagnostics.into_iter().zip(texts) {
            let value = machine.frame.arena.push_bytes(text.as_bytes());
            machine.set(register, value);
        }
        machine.frame.handled.push(*error);
        let ended = self.run(&handler.body, machine);
        machine.frame.handled.pop();
        ended
    }
}

/// Calls a procedure or function, and copies its outputs into the caller's registers.
pub(crate) fn call<D: Transaction>(
    procedure: &Procedure,
    arguments: &[Expression],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let (first, affected) = (machine.frame.rows.len(), machine.frame.affected);
    for argument in arguments {
        let value = argument.evaluate(machine)?;
        machine.frame.rows.push(value);
    }
    let called = call_upon(procedure, first, outputs, machine, data);
    machine.frame.affected = affected;
    called
}

/// Calls a procedure or function with values.
pub(crate) fn call_with<D: Transaction>(
    procedure: &Procedure,
    arguments: &[Datum],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let first = machine.frame.rows.len();
    machine.frame.rows.extend_from_slice(arguments);
    call_upon(procedure, first, outputs, machine, data)
}

/// Calls a procedure or function whose arguments are the last values of the frame's `rows`.
fn call_upon<D: Transaction>(
    procedure: &Procedure,
    first: usize,
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    if machine.frame.depth >= MAX_DEPTH {
        let error = SqlError::new("54001", "stack depth limit exceeded");
        let hint = format!("Calls are nested {MAX_DEPTH} deep. Does a routine call itself without an end?");
        return Err(error.with_hint(hint).into());
    }
    stacker::maybe_grow(LEAST_STACK, STACK, || run_called(procedure, first, outputs, machine, data))
}

fn run_called<D: Transaction>(
    procedure: &Procedure,
    first: usize,
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let caller = machine.frame.enter(procedure.registers.len());
    for (offset, (register, _)) in procedure.inputs().enumerate() {
        let value = machine.frame.rows[first + offset];
        machine.set(Register(register as u32), value);
    }
    machine.frame.rows.truncate(first);
    machine.frame.depth += 1;
    let row_count = std::mem::take(&mut machine.frame.row_count);
    machine.frame.definers += usize::from(procedure.is_definer);
    // Each procedure numbers its operations from 0, so the caller's tapes do not apply to the called one.
    let ran =
        Execution::new(procedure.into(), data, &mut Whole, RunTimeForm::from(procedure)).run_body(machine);
    machine.frame.row_count = row_count;
    ran?;
    machine.frame.depth -= 1;
    machine.frame.definers -= usize::from(procedure.is_definer);
    for ((_, from, _), (to, cast)) in procedure.outputs().zip(outputs) {
        let value = cast.apply(machine.get(from), &mut machine.frame.arena).map_err(Failure::from)?;
        machine.frame.set_in(caller, *to, value);
    }
    machine.frame.leave(caller);
    Ok(())
}
