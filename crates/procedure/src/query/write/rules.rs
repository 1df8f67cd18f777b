//! Generated columns and constraints of a row that is about to be written.

use super::RowRules;
use crate::execution::rows::Flow;
use crate::execution::violations::{require_values, violated_check};
use crate::query::run::run;
use crate::{Failure, Machine, Register, Transaction};
use catalog::{Datum, Table};

impl RowRules {
    /// Sets the registers of generated columns, of the row in the registers from `first` on.
    pub(super) fn generate(&self, first: Register, machine: &mut Machine) -> Result<(), Failure> {
        for (column, value) in &self.generated {
            let value = value.evaluate(machine)?;
            machine.set(Register(first.0 + *column as u32), value);
        }
        Ok(())
    }

    /// Sets the registers of generated columns to NULL: triggers before a row do not see their values.
    pub(super) fn forget_generated(&self, first: Register, machine: &mut Machine) {
        for (column, _) in &self.generated {
            machine.set(Register(first.0 + *column as u32), Datum::Null);
        }
    }

    /// Sets the registers of generated columns of a changed row, and adds them to its changes.
    pub(super) fn generate_changes(
        &self,
        first: Register,
        changes: &mut Vec<(usize, Datum)>,
        machine: &mut Machine,
    ) -> Result<(), Failure> {
        self.generate(first, machine)?;
        for (column, _) in &self.generated {
            changes.retain(|(changed, _)| changed != column);
            changes.push((*column, machine.get(Register(first.0 + *column as u32))));
        }
        Ok(())
    }

    /// Checks the NOT NULL and CHECK constraints of the row in the registers from `first` on.
    pub(super) fn check<D: Transaction>(
        &self,
        table: &Table,
        first: Register,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<(), Failure> {
        let (row, arena) = machine.window(first, table.columns.len());
        require_values(table, row, arena)?;
        if let Some(calls) = &self.calls {
            run(calls, machine, data, &mut |_, _| Ok(Flow::Continue))?;
        }
        let violated = violated_check(&self.conditions, machine)?;
        let (row, arena) = machine.window(first, table.columns.len());
        violated.map_or(Ok(()), |violated| Err(violated.error(table, row, arena).into()))
    }
}
