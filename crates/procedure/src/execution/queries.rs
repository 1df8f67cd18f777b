//! Runs the queries of a procedure: for the client, for variables, for loops and cursors.

use super::code::Execution;
use super::ended::Ended;
use super::form::RunTimeForm;
use super::operations::not_one_row;
use crate::execution::rows::Flow;
use crate::execution::services::Output;
use crate::execution::tape::Tapes;
use crate::query::{Buffer, Query, run_query};
use crate::{
    Expression, Failure, Label, Machine, ProcedureQuery, QueryId, QueryTarget, Register, Statement,
    Transaction,
};
use catalog::Datum;

impl<D: Transaction, T: Tapes> Execution<'_, D, T, RunTimeForm<'_>> {
    /// Runs a query for its effect, for the client, or for its first row, and sets ROW_COUNT and FOUND.
    pub(super) fn query(&mut self, id: QueryId, machine: &mut Machine) -> Result<(), Failure> {
        let query = &self.form.queries[id.0 as usize];
        let ran = match &query.target {
            QueryTarget::Client => self.send_rows(&query.query, machine),
            QueryTarget::Statement { outputs, strict } => {
                self.first_row(&query.query, outputs, *strict, machine)
            }
        };
        if ran.is_err() {
            machine.frame.failed_at.get_or_insert(query.position);
        }
        let count = ran?;
        machine.frame.row_count = count as i64;
        machine.set(query.found, Datum::boolean(count > 0));
        Ok(())
    }

    /// Runs a query whose rows go to the client. Returns the number of its rows.
    fn send_rows(&mut self, query: &Query, machine: &mut Machine) -> Result<usize, Failure> {
        let mut count = 0;
        let mut output = machine.services.output.take();
        // A statement that writes and returns no columns has no rows, however many it writes.
        let returns = !query.columns.is_empty() || !query.plan.writes();
        let result = run_query(query, machine, self.data, &mut |machine, data| {
            count += 1;
            if let Some(Output { sink, row }) = &mut output
                && returns
            {
                row.clear();
                row.extend(query.columns.iter().map(|column| machine.get(column.register)));
                sink.row(row, &machine.frame.arena)?;
                if sink.is_full() {
                    let shown = data.rest()?;
                    let relieved = sink.relieve(shown);
                    data.resume();
                    relieved?;
                }
            }
            Ok(Flow::Continue)
        });
        machine.services.output = output;
        result?;
        machine.frame.affected += count as u64;
        Ok(count)
    }

    /// Runs a query, and sets the targets of its outputs to its first row, or to NULL if it has none. Returns
    /// the number of its rows.
    fn first_row(
        &mut self,
        query: &Query,
        outputs: &[(Register, Expression)],
        strict: bool,
        machine: &mut Machine,
    ) -> Result<usize, Failure> {
        let mut count = 0;
        let writes = query.plan.writes();
        let mut first = Buffer::new(outputs.len());
        run_query(query, machine, self.data, &mut |machine, _| {
            count += 1;
            if count == 1 {
                push_outputs(outputs, machine, &mut first)?;
            }
            let enough = !writes && count > usize::from(strict);
            Ok(if enough { Flow::Stop } else { Flow::Continue })
        })?;
        // As in PostgreSQL, RETURNING … INTO takes one row at most, STRICT or not.
        let is_wrong = if strict { count != 1 } else { count > 1 && query.plan.returns_written_rows() };
        if is_wrong && !outputs.is_empty() {
            return Err(not_one_row(count).into());
        }
        if first.len() == 0 {
            machine.frame.set_to_null(outputs);
        } else {
            let targets: Vec<_> = outputs.iter().map(|(target, _)| *target).collect();
            first.load(0, &targets, machine);
        }
        Ok(count)
    }

    /// Runs a loop over the rows that a query finds when the loop begins.
    pub(super) fn for_query(
        &mut self,
        label: Label,
        id: QueryId,
        body: &[Statement],
        machine: &mut Machine,
    ) -> Result<Ended, Failure> {
        let query = &self.form.queries[id.0 as usize];
        let rows = self.collect_query(query, machine)?;
        let targets: Vec<_> = query.outputs().iter().map(|(target, _)| *target).collect();
        let mut ended = Ended::Here;
        for row in 0..rows.len() {
            rows.load(row, &targets, machine);
            if let Some(end) = self.round(label, body, machine)? {
                ended = end;
                break;
            }
        }
        if rows.len() == 0 {
            machine.frame.set_to_null(query.outputs());
        }
        machine.set(query.found, Datum::boolean(rows.len() > 0));
        if body.is_empty() {
            // PERFORM is a loop without a body. A loop with one leaves ROW_COUNT to its statements.
            machine.frame.row_count = rows.len() as i64;
        }
        Ok(ended)
    }

    /// Returns the outputs of all rows of a query.
    pub(super) fn collect_query(
        &mut self,
        query: &ProcedureQuery,
        machine: &mut Machine,
    ) -> Result<Buffer, Failure> {
        let outputs = query.outputs();
        let mut rows = Buffer::new(outputs.len());
        run_query(&query.query, machine, self.data, &mut |machine, _| {
            push_outputs(outputs, machine, &mut rows)?;
            Ok(Flow::Continue)
        })?;
        Ok(rows)
    }
}

/// Adds the outputs of the row in the registers.
fn push_outputs(
    outputs: &[(Register, Expression)],
    machine: &mut Machine,
    rows: &mut Buffer,
) -> Result<(), Failure> {
    let row = outputs.iter().map(|(_, value)| value.evaluate(machine));
    let row = row.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.push(row, &machine.frame.arena)?)
}
