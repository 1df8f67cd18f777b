//! MERGE.
//!
//! The statement first collects the pairs of source rows and rows of the table, and then acts upon each pair,
//! so its conditions never see a row that it has written.
//! Invariant: a row of the table is changed or deleted at most once.
//! Held by: `crates/workload/tests/sql/merging.slt`.
//! Not here: triggers, which the binder refuses.

use super::{Plan, RowRules, WrittenRows, kept_registers, pass_on, read_again, write_changes};
use super::{Sink, collect, for_each_kept, row_of};
use crate::execution::rows::Flow;
use crate::{Expression, Failure, ForeignKeys, Machine, Register, SqlError, Transaction};
use catalog::{Datum, Table};
use std::collections::HashSet;
use std::sync::Arc;

/// MERGE.
#[derive(Clone, Debug)]
pub struct Merge {
    /// Produces each source row, with each row of the table that matches it. The handle of a source row
    /// without a match is NULL.
    pub input: Box<Plan>,
    /// The table.
    pub table: Arc<Table>,
    /// The register of the row's handle, a number that `NestedScans::keep` has given.
    pub handle: Register,
    /// Further registers that the input sets and an action reads.
    pub keep: Vec<Register>,
    /// WHEN, in order: the first one that applies is executed.
    pub actions: Vec<MergeAction>,
    /// The first register of the written row, with one register per column.
    pub registers: Register,
    /// Generated columns and CHECK constraints, over those registers.
    pub rules: RowRules,
    /// Foreign keys of the table and to it; `None` if there are none.
    pub keys: Option<Arc<ForeignKeys>>,
}

/// One WHEN of a MERGE.
#[derive(Clone, Debug)]
pub struct MergeAction {
    /// Whether it applies to source rows with a match.
    pub matched: bool,
    /// AND: it applies only if this is true.
    pub condition: Option<Expression>,
    /// What it does.
    pub change: MergeChange,
}

/// What an action of a MERGE does.
#[derive(Clone, Debug)]
pub enum MergeChange {
    /// DO NOTHING.
    Nothing,
    /// Changes the row: columns, and their new values, of their types.
    Update(Vec<(usize, Expression)>),
    /// Deletes the row.
    Delete,
    /// Inserts a row: a value for each column, of its type.
    Insert(Vec<Expression>),
}

impl MergeAction {
    /// Returns its expressions.
    pub(in crate::query) fn expressions(&self) -> Vec<&Expression> {
        let mut all: Vec<_> = self.condition.iter().collect();
        match &self.change {
            MergeChange::Update(assignments) => all.extend(assignments.iter().map(|(_, value)| value)),
            MergeChange::Insert(values) => all.extend(values),
            MergeChange::Nothing | MergeChange::Delete => {}
        }
        all
    }

    /// Returns its expressions, to be changed.
    pub(in crate::query) fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        let mut all: Vec<_> = self.condition.iter_mut().collect();
        match &mut self.change {
            MergeChange::Update(assignments) => all.extend(assignments.iter_mut().map(|(_, value)| value)),
            MergeChange::Insert(values) => all.extend(values),
            MergeChange::Nothing | MergeChange::Delete => {}
        }
        all
    }
}

impl Merge {
    /// Returns the nodes directly below it.
    pub(in crate::query) fn inputs(&self) -> Vec<&Plan> {
        std::iter::once(&*self.input).chain(self.rules.calls.as_deref()).collect()
    }

    /// Returns the nodes directly below it, to be changed.
    pub(in crate::query) fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        std::iter::once(&mut *self.input).chain(self.rules.calls.as_deref_mut()).collect()
    }

    /// Returns the action for the pair in the registers; `None` if no action applies.
    fn action(&self, is_matched: bool, machine: &mut Machine) -> Result<Option<&MergeChange>, Failure> {
        for action in self.actions.iter().filter(|action| action.matched == is_matched) {
            match &action.condition {
                Some(condition) if !condition.evaluate(machine)?.is_true() => {}
                _ => return Ok(Some(&action.change)),
            }
        }
        Ok(None)
    }
}

fn twice() -> Failure {
    let error = SqlError::new("21000", "MERGE command cannot affect row a second time");
    error.with_hint("Ensure that not more than one source row matches any one target row.").into()
}

pub(in crate::query) fn merge<D: Transaction>(
    merge: &Merge,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Merge { input, table, handle, keep, keys, .. } = merge;
    let (mut changed, mut deleted) =
        (WrittenRows::of(keys, table, None, None), WrittenRows::of(keys, table, None, None));
    let kept = kept_registers(*handle, keep);
    data.will_write(Some(table.id));
    let found = collect(input, &kept, machine, data);
    data.will_write(None);
    let mut written = HashSet::new();
    let flow = for_each_kept(&found?, &kept, machine, data, sink, |machine, data, sink| {
        let matched = machine.get(*handle);
        match merge.action(!matched.is_null(), machine)? {
            None | Some(MergeChange::Nothing) => return Ok(Flow::Continue),
            Some(MergeChange::Insert(values)) => insert_row(merge, values, &mut changed, machine, data)?,
            Some(change) => {
                let row = row_of(matched, data)?;
                if !written.insert(row) {
                    return Err(twice());
                }
                match change {
                    MergeChange::Update(assignments) => {
                        update_row(merge, assignments, row, &mut changed, machine, data)?;
                    }
                    _ => {
                        deleted.before(row, machine, data)?;
                        data.delete(table, row)?;
                    }
                }
            }
        }
        pass_on(sink, machine, data)
    })?;
    changed.follow(machine, data)?;
    deleted.follow(machine, data)?;
    Ok(flow)
}

fn insert_row<D: Transaction>(
    merge: &Merge,
    values: &[Expression],
    written: &mut WrittenRows<'_, D::Row>,
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let Merge { table, registers, rules, .. } = merge;
    for (place, value) in values.iter().enumerate() {
        let value = value.evaluate(machine)?;
        machine.set(Register(registers.0 + place as u32), value);
    }
    rules.generate(*registers, machine)?;
    rules.check(table, *registers, machine, data)?;
    let (row, arena) = machine.window(*registers, values.len());
    data.insert(table, row, arena)?;
    Ok(written.inserted(row, arena)?)
}

fn update_row<D: Transaction>(
    merge: &Merge,
    assignments: &[(usize, Expression)],
    row: D::Row,
    written: &mut WrittenRows<'_, D::Row>,
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let Merge { table, registers, rules, .. } = merge;
    let mut changes: Vec<(usize, Datum)> = Vec::with_capacity(assignments.len());
    for (column, value) in assignments {
        changes.push((*column, value.evaluate(machine)?));
    }
    let (whole, arena) = machine.window(*registers, table.layout.slots().len());
    read_again(table, row, arena, whole, data)?;
    for (column, value) in &changes {
        machine.set(Register(registers.0 + *column as u32), *value);
    }
    rules.generate_changes(*registers, &mut changes, machine)?;
    written.before(row, machine, data)?;
    rules.check(table, *registers, machine, data)?;
    write_changes(table, row, *registers, &changes, machine, data)?;
    Ok(written.after(*registers, machine)?)
}
