//! Runs the queries of a procedure: for the client, for variables, for loops and cursors.

use super::code::Execution;
use super::form::RunTimeForm;
use super::operations::not_one_row;
use crate::execution::rows::Flow;
use crate::execution::services::Output;
use crate::execution::tape::Tapes;
use crate::query::{Buffer, run_query};
use crate::{Expression, Failure, Machine, QueryOperation, Register, Transaction};

impl<D: Transaction, T: Tapes> Execution<'_, D, T, RunTimeForm> {
    /// Runs a query: for its effect, for the client, or for its first row. Returns the number of its rows.
    pub(super) fn run_query(
        &mut self,
        own: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<usize, Failure> {
        let QueryOperation { query, outputs, strict, to_client } = own;
        let mut count = 0;
        if *to_client {
            let mut output = machine.services.output.take();
            // A statement that returns no columns has no rows, however many it writes.
            let returns = !query.columns.is_empty();
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
            return Ok(count);
        }
        let writes = query.plan.writes();
        let mut first = Buffer::new(outputs.len());
        run_query(query, machine, self.data, &mut |machine, _| {
            count += 1;
            if count == 1 {
                push_outputs(outputs, machine, &mut first)?;
            }
            let enough = !writes && count > usize::from(*strict);
            Ok(if enough { Flow::Stop } else { Flow::Continue })
        })?;
        if *strict && count != 1 {
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

    /// Returns the outputs of all rows of a query.
    pub(super) fn collect_query(
        &mut self,
        own: &QueryOperation,
        machine: &mut Machine,
    ) -> Result<Buffer, Failure> {
        let mut rows = Buffer::new(own.outputs.len());
        run_query(&own.query, machine, self.data, &mut |machine, _| {
            push_outputs(&own.outputs, machine, &mut rows)?;
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
