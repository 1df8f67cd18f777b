//! Runs operations: SELECT INTO, INSERT, UPDATE and DELETE on one table.

use super::code::Execution;
use super::form::Form;
use crate::execution::rows::{Flow, for_each_row, select_rows};
use crate::execution::tape::{Part, Tapes};
use crate::execution::violations::{require_values, violated_by_changes, violated_check};
use crate::{
    Access, DataAccess, Expression, Failure, LookAhead, Machine, Operation, OperationId, OperationKind, Path,
    Register, Select, SqlError,
};
use catalog::{Arena, Datum, RowHash};

impl<D: DataAccess + LookAhead, T: Tapes, F: Form<D>> Execution<'_, D, T, F> {
    #[inline]
    pub(super) fn operation(&mut self, id: OperationId, machine: &mut Machine) -> Result<(), Failure> {
        let code = self.code;
        match self.tapes.part(id) {
            Part::Run => {
                self.run_operation(&code.operations[id.0 as usize], machine)?;
                self.tapes.ran(id, machine.frame.row_count);
                Ok(())
            }
            Part::Send => {
                self.run_operation(&code.operations[id.0 as usize], machine)?;
                self.tapes.ran(id, machine.frame.row_count);
                self.send(id, machine);
                Ok(())
            }
            Part::Receive => {
                self.receive(id, machine);
                Ok(())
            }
        }
    }

    /// Sends the results of an operation.
    pub(super) fn send(&mut self, id: OperationId, machine: &Machine) {
        for register in &self.code.sent[id.0 as usize] {
            self.tapes.send(id, machine.get(*register), &machine.frame.arena);
        }
    }

    /// Receives the results of an operation.
    pub(super) fn receive(&mut self, id: OperationId, machine: &mut Machine) {
        for register in &self.code.sent[id.0 as usize] {
            let value = self.tapes.receive(id, &mut machine.frame.arena);
            machine.set(*register, value);
        }
    }

    fn run_operation(&mut self, operation: &Operation, machine: &mut Machine) -> Result<(), Failure> {
        let ran = self.access(operation, machine);
        if ran.is_err() {
            machine.frame.failed_at.get_or_insert(operation.position);
        }
        ran
    }

    #[inline]
    fn access(&mut self, operation: &Operation, machine: &mut Machine) -> Result<(), Failure> {
        let count = match &operation.kind {
            OperationKind::Select(select) => self.select_into(select, machine)?,
            OperationKind::Insert { table, values, registers, checks, references, returning } => {
                for (column, value) in values.iter().enumerate() {
                    let value = value.evaluate(machine)?;
                    machine.set(Register(registers.0 + column as u32), value);
                }
                let (row, arena) = machine.window(*registers, values.len());
                require_values(table, row, arena)?;
                let violated = violated_check(checks, machine)?;
                let (row, arena) = machine.window(*registers, values.len());
                if let Some(violated) = violated {
                    return Err(violated.error(table, row, arena).into());
                }
                self.data.insert(table, row, arena)?;
                let hash = hash_further(RowHash::of(table.id), row, arena);
                machine.frame.written += hash.written();
                for reference in references {
                    let (row, arena) = machine.window(*registers, values.len());
                    F::require(reference, row, arena, self.data)?;
                }
                assign(returning, machine)?;
                1
            }
            OperationKind::Update { access, assignments, checks, returning, added } => {
                let table = &access.table;
                let count = self.for_each_collected(access, machine, |row, machine, data| {
                    let mut changes = std::mem::take(&mut machine.frame.changes);
                    changes.clear();
                    let hash = hash_found(access, machine);
                    for (column, register, value) in assignments {
                        let value = value.evaluate(machine)?;
                        changes.push((*column, value));
                        machine.set(*register, value);
                    }
                    let hash = hash_changes(hash, &changes, &machine.frame.arena);
                    if let Some(violated) = violated_by_changes(table, &changes, checks, machine)? {
                        return Err(violated.error_of_changes(table, row, &changes, machine, data));
                    }
                    if !added.is_empty() {
                        data.adds_to(table, row, added);
                    }
                    data.update(table, row, &changes, &machine.frame.arena)?;
                    machine.frame.changes = changes;
                    machine.frame.written += hash.written();
                    assign(returning, machine)
                })?;
                settle_returning(returning, count, machine)?;
                count
            }
            OperationKind::Delete { access, returning } => {
                let count = self.for_each_collected(access, machine, |row, machine, data| {
                    data.delete(&access.table, row)?;
                    machine.frame.written += hash_found(access, machine).written();
                    assign(returning, machine)
                })?;
                settle_returning(returning, count, machine)?;
                count
            }
        };
        machine.frame.row_count = count as i64;
        if operation.writes() {
            machine.frame.affected += count as u64;
        }
        machine.set(operation.found, Datum::boolean(count > 0));
        Ok(())
    }

    /// Visits every row of an access. The rows of a range are collected first, so that the scan does not find
    /// rows that `visit` writes.
    fn for_each_collected(
        &mut self,
        access: &Access,
        machine: &mut Machine,
        mut visit: impl FnMut(D::Row, &mut Machine, &mut D) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut count = 0;
        self.data.will_write(Some(access.table.id));
        if matches!(access.path, Path::Point { .. }) {
            let ran = for_each_row(access, machine, self.data, |row, machine, data| {
                data.will_write(None);
                count += 1;
                visit(row, machine, data)?;
                Ok(Flow::Stop)
            });
            self.data.will_write(None);
            return ran.map(|()| count);
        }
        let mut found = Vec::new();
        let start = machine.frame.rows.len();
        let ran = for_each_row(access, machine, self.data, |row, machine, _| {
            found.push(row);
            for column in 0..access.slots.len() {
                let value = machine.get(Register(access.registers.0 + column as u32));
                machine.frame.rows.push(value);
            }
            Ok(Flow::Continue)
        });
        self.data.will_write(None);
        ran?;
        for (index, row) in found.iter().enumerate() {
            machine.check_kept()?;
            for column in 0..access.slots.len() {
                let value = machine.frame.rows[start + index * access.slots.len() + column];
                machine.set(Register(access.registers.0 + column as u32), value);
            }
            visit(*row, machine, self.data)?;
        }
        machine.frame.rows.truncate(start);
        Ok(found.len())
    }

    /// Runs a SELECT INTO: sets the targets to the first row, or to NULL if there is none.
    fn select_into(&mut self, select: &Select, machine: &mut Machine) -> Result<usize, Failure> {
        let start = machine.frame.rows.len();
        let count = select_rows(select, if select.strict { 2 } else { 1 }, machine, self.data)?;
        if select.strict && count != 1 {
            return Err(not_one_row(count).into());
        }
        if count > 0 {
            load_outputs(select, start, machine);
        } else {
            machine.frame.set_to_null(&select.outputs);
        }
        machine.frame.rows.truncate(start);
        Ok(count)
    }
}

/// Sets the targets of a SELECT to the values from `start` on in the frame's `rows`.
pub(super) fn load_outputs(select: &Select, start: usize, machine: &mut Machine) {
    for (offset, (target, _)) in select.outputs.iter().enumerate() {
        let value = machine.frame.rows[start + offset];
        machine.set(*target, value);
    }
}

/// Begins the hash of a row that an access has found: with its key, or with the columns that a range has
/// read.
#[inline]
fn hash_found(access: &Access, machine: &Machine) -> RowHash {
    let mut hash = RowHash::of(access.table.id);
    match access.path {
        Path::Point { .. } => hash.add_bytes(&machine.frame.key),
        Path::Range { .. } => {
            let registers =
                (0..access.slots.len()).map(|column| Register(access.registers.0 + column as u32));
            registers.for_each(|register| hash.add_datum(machine.get(register), &machine.frame.arena));
        }
    }
    hash
}

/// Adds further columns to the hash of a row.
#[inline]
pub(super) fn hash_further(mut hash: RowHash, columns: &[Datum], arena: &Arena) -> RowHash {
    columns.iter().for_each(|value| hash.add_datum(*value, arena));
    hash
}

/// Adds the changes of an update to the hash of the row that was found.
#[inline]
pub(super) fn hash_changes(mut hash: RowHash, changes: &[(usize, Datum)], arena: &Arena) -> RowHash {
    for (column, value) in changes {
        hash.add(*column as u64);
        hash.add_datum(*value, arena);
    }
    hash
}

fn assign(targets: &[(Register, Expression)], machine: &mut Machine) -> Result<(), Failure> {
    for (target, value) in targets {
        let value = value.evaluate(machine)?;
        machine.set(*target, value);
    }
    Ok(())
}

/// Ends RETURNING … INTO as PostgreSQL does: sets the targets to NULL if no row was written, and fails if
/// several rows were written.
#[inline]
fn settle_returning(
    returning: &[(Register, Expression)],
    count: usize,
    machine: &mut Machine,
) -> Result<(), Failure> {
    if returning.is_empty() || count == 1 {
        return Ok(());
    }
    if count > 1 {
        return Err(not_one_row(count).into());
    }
    machine.frame.set_to_null(returning);
    Ok(())
}

/// Returns the error of INTO STRICT.
pub(crate) fn not_one_row(count: usize) -> SqlError {
    match count {
        0 => SqlError::new("P0002", "query returned no rows"),
        _ => SqlError::new("P0003", "query returned more than one row")
            .with_hint("Make sure the query returns a single row, or use LIMIT 1."),
    }
}
