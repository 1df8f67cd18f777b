//! Runs opaque statements: rows that a function returns, cursors, EXECUTE, COMMIT and ROLLBACK within a
//! procedure, recursion.

use super::code::Execution;
use super::control::call_with;
use super::cursors::{converted, fetch, load_row};
use super::form::RunTimeForm;
use super::operations::not_one_row;
use super::tape::Tapes;
use crate::query::Buffer;
use crate::values::row_types::mismatch;
use crate::{
    Cast, Destination, Expression, Failure, Machine, Opaque, Register, RowSink, SqlError, Transaction,
};
use catalog::{Arena, Datum, Type};
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps the rows that a statement hands to its client.
struct Capture(Arc<Mutex<Buffer>>);

impl RowSink for Capture {
    fn begin(&mut self) {}

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(values.iter().copied(), arena)
    }
}

impl<D: Transaction, T: Tapes> Execution<'_, D, T, RunTimeForm<'_>> {
    pub(crate) fn run_opaque(&mut self, statement: &Opaque, machine: &mut Machine) -> Result<(), Failure> {
        match statement {
            Opaque::ReturnNext(values) => {
                let row =
                    values.iter().map(|value| value.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
                machine.check_kept()?;
                machine.frame.returned_rows()?.push(row.iter().copied())
            }
            Opaque::ReturnQuery(id) => {
                let query = &self.form.queries[id.0 as usize];
                let rows = self.collect_query(query, machine)?;
                machine.set(query.found, Datum::boolean(rows.len() > 0));
                machine.frame.row_count = rows.len() as i64;
                machine.frame.return_rows(&rows)
            }
            Opaque::Open(cursor, id) => {
                let query = &self.form.queries[id.0 as usize];
                let rows = self.collect_query(query, machine)?;
                let types = query.query.columns.iter().map(|column| column.ty).collect();
                Ok(machine.frame.open(cursor, rows, types)?)
            }
            Opaque::Fetch { cursor, movement, targets, found } => {
                fetch(cursor, movement, targets, *found, machine)
            }
            Opaque::Close(cursor) => {
                machine.frame.take_cursor(cursor)?;
                Ok(())
            }
            Opaque::Text { text, arguments, rows, found, role } => {
                self.run_text(text, *role, arguments, rows, *found, machine)
            }
            Opaque::Recursion { name, inputs, outputs } => {
                let compiler = machine.services.compiler.as_ref();
                let routine = compiler.and_then(|compiler| compiler.0.routine(name));
                let routine = routine.ok_or_else(|| {
                    SqlError::new("42883", format!("function {name} does not exist in this context"))
                })?;
                let values: Vec<Datum> = inputs.iter().map(|input| machine.get(*input)).collect();
                let outputs: Vec<_> = outputs.iter().map(|output| (*output, Cast::Same)).collect();
                call_with(&routine, &values, &outputs, machine, self.data)
            }
            Opaque::EndTransaction { .. } if machine.frame.definers > 0 => {
                Err(SqlError::new("2D000", "invalid transaction termination").into())
            }
            Opaque::EndTransaction { commit } => {
                self.data.end_transaction(*commit)?;
                machine.services.notifications.transaction_ended(*commit);
                Ok(())
            }
        }
    }

    fn run_text(
        &mut self,
        text: &Expression,
        role: u32,
        arguments: &[(Expression, Type)],
        destination: &Destination,
        found: Option<Register>,
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        let value = text.evaluate(machine)?;
        if value.is_null() {
            return Err(SqlError::new("22004", "query string argument of EXECUTE is null").into());
        }
        let text = String::from_utf8_lossy(machine.frame.arena.datum_bytes(value)).into_owned();
        let mut values = Vec::new();
        for (argument, _) in arguments {
            values.push(argument.evaluate(machine)?);
        }
        let types: Vec<Type> = arguments.iter().map(|(_, ty)| *ty).collect();
        let Some(compiler) = &machine.services.compiler else {
            return Err(SqlError::new("0A000", "EXECUTE is not available in this context").into());
        };
        let procedure = compiler.0.compile(&text, &types, role, machine.zone())?;
        let columns: Vec<Type> = procedure.client_columns().iter().map(|column| column.ty).collect();
        let captured = Arc::new(Mutex::new(Buffer::new(columns.len())));
        let output = machine.take_sink();
        let affected = machine.frame.affected;
        machine.send_rows_to(Some(Box::new(Capture(Arc::clone(&captured)))));
        let ran = call_with(&procedure, &values, &[], machine, self.data);
        machine.send_rows_to(output);
        if !matches!(destination, Destination::Cursor(_)) {
            machine.frame.row_count = (machine.frame.affected - affected) as i64;
        }
        machine.frame.affected = affected;
        ran?;
        let rows =
            std::mem::replace(&mut *captured.lock().unwrap_or_else(PoisonError::into_inner), Buffer::new(0));
        if let Some(found) = found {
            machine.set(found, Datum::boolean(rows.len() > 0));
        }
        match destination {
            Destination::Nowhere => Ok(()),
            Destination::First { strict: true, .. } if rows.len() != 1 => Err(not_one_row(rows.len()).into()),
            Destination::First { targets, .. } if rows.len() == 0 => {
                machine.frame.set_to_null(targets);
                Ok(())
            }
            Destination::First { targets, .. } => load_row(&rows, &columns, 0, targets, machine),
            Destination::Returned(types) => {
                if let Some(detail) = mismatch(&columns, types) {
                    let message = "structure of query does not match function result type";
                    return Err(SqlError::new("42804", message).with_detail(detail).into());
                }
                for index in 0..rows.len() {
                    let mut row = Vec::new();
                    for (value, types) in rows.row(index).iter().zip(columns.iter().zip(types)) {
                        let value = machine.frame.arena.adopt(*value, &rows.arena);
                        row.push(converted(value, (*types.0, *types.1), machine)?);
                    }
                    machine.frame.returned_rows()?.push(row.iter().copied())?;
                }
                Ok(())
            }
            Destination::Cursor(cursor) => Ok(machine.frame.open(cursor, rows, columns)?),
        }
    }
}
