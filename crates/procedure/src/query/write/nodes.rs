//! INSERT, UPDATE and DELETE as nodes of a plan.

use crate::query::Plan;
use crate::{Check, Expression, ForeignKeys, Register};
use catalog::Table;
use std::sync::Arc;

/// ON CONFLICT of an INSERT: the action on a row that exists already.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The position of the unique index whose conflicts count; `None`: of every unique index.
    pub index: Option<usize>,
    /// DO UPDATE; `None`: DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// ON CONFLICT … DO UPDATE.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// The first register of the existing row; one register per column follows from it.
    pub old: Register,
    /// WHERE: the row is changed only if this is true.
    pub condition: Option<Expression>,
    /// Column, register of its new value, and the value.
    pub assignments: Vec<(usize, Register, Expression)>,
    /// The triggers of UPDATE; `None` if there are none.
    pub triggers: Option<Box<Triggers>>,
}

/// The generated columns and CHECK constraints of a row before it is written, over its registers.
#[derive(Clone, Debug, Default)]
pub struct RowRules {
    /// Generated columns, and their values of the other columns.
    pub generated: Vec<(usize, Expression)>,
    /// Calls the functions whose results the conditions read, once for each row; `None` if there are none.
    pub calls: Option<Box<Plan>>,
    /// The CHECK constraints.
    pub conditions: Vec<Check>,
}

/// The triggers that a statement fires. Each plan is a chain of their calls over one row (`Plan::One`).
#[derive(Clone, Debug)]
pub struct Triggers {
    /// Runs once, before the rows.
    pub before_statement: Plan,
    /// Runs for each row before it is written, over the registers of the old and the new row. It changes the
    /// new row. It returns no row if a trigger has suppressed the write.
    pub before_row: Plan,
    /// Runs for each written row at the end of the statement, over the same registers.
    pub after_row: Plan,
    /// Runs once, after the rows.
    pub after_statement: Plan,
    /// The first register of the old row.
    pub old: Register,
    /// The first register of the new row.
    pub new: Register,
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Produces a row for each row to insert.
    pub input: Box<Plan>,
    /// The table.
    pub table: Arc<Table>,
    /// A value for each column, of its type.
    pub values: Vec<Expression>,
    /// The first register of the written row, with one register per column.
    pub registers: Register,
    /// Generated columns and CHECK constraints, over those registers.
    pub rules: RowRules,
    /// ON CONFLICT.
    pub conflict: Option<OnConflict>,
    /// Foreign keys of the table and to it; `None` if there are none.
    pub keys: Option<Arc<ForeignKeys>>,
    /// The triggers of INSERT; `None` if there are none.
    pub triggers: Option<Box<Triggers>>,
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// Produces the rows to change.
    pub input: Box<Plan>,
    /// Their table.
    pub table: Arc<Table>,
    /// The register of the row's handle, a number that `NestedScans::keep` has given.
    pub handle: Register,
    /// Further registers that the input sets and a later node reads.
    pub keep: Vec<Register>,
    /// Column, and its new value, of its type.
    pub assignments: Vec<(usize, Expression)>,
    /// The first register of the written row, with one register per column.
    pub registers: Register,
    /// Generated columns and CHECK constraints, over those registers.
    pub rules: RowRules,
    /// Foreign keys of the table and to it; `None` if there are none.
    pub keys: Option<Arc<ForeignKeys>>,
    /// The triggers of UPDATE; `None` if there are none.
    pub triggers: Option<Box<Triggers>>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// Produces the rows to delete.
    pub input: Box<Plan>,
    /// Their table.
    pub table: Arc<Table>,
    /// The register of the row's handle, a number that `NestedScans::keep` has given.
    pub handle: Register,
    /// Further registers that the input sets and a later node reads.
    pub keep: Vec<Register>,
    /// Foreign keys of the table and to it; `None` if there are none.
    pub keys: Option<Arc<ForeignKeys>>,
    /// The triggers of DELETE; `None` if there are none.
    pub triggers: Option<Box<Triggers>>,
}

/// The nodes below a node that writes: its input, the calls of its rules, and those of its triggers.
macro_rules! below {
    ($input:expr, $calls:expr, $triggers:expr $(, $mut:tt)?) => {{
        let mut all: Vec<_> = vec![&$($mut)? **$input];
        if let Some(calls) = $calls {
            all.push(&$($mut)? **calls);
        }
        for triggers in $triggers.into_iter().flatten() {
            let triggers = &$($mut)? **triggers;
            let Triggers { before_statement, before_row, after_row, after_statement, .. } = triggers;
            all.extend([before_statement, before_row, after_row, after_statement]);
        }
        all
    }};
}

impl Insert {
    /// Returns the nodes directly below it.
    pub(in crate::query) fn inputs(&self) -> Vec<&Plan> {
        let Self { input, rules, triggers, conflict, .. } = self;
        let update = conflict.as_ref().and_then(|clause| clause.update.as_ref());
        let of_update = update.and_then(|clause| clause.triggers.as_ref());
        below!(input, &rules.calls, [triggers.as_ref(), of_update])
    }

    /// Returns the nodes directly below it, to be changed.
    pub(in crate::query) fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        let Self { input, rules, triggers, conflict, .. } = self;
        let update = conflict.as_mut().and_then(|clause| clause.update.as_mut());
        let of_update = update.and_then(|clause| clause.triggers.as_mut());
        below!(input, &mut rules.calls, [triggers.as_mut(), of_update], mut)
    }
}

impl Update {
    /// Returns the nodes directly below it.
    pub(in crate::query) fn inputs(&self) -> Vec<&Plan> {
        below!(&self.input, &self.rules.calls, [self.triggers.as_ref()])
    }

    /// Returns the nodes directly below it, to be changed.
    pub(in crate::query) fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        below!(&mut self.input, &mut self.rules.calls, [self.triggers.as_mut()], mut)
    }
}

impl Delete {
    /// Returns the nodes directly below it.
    pub(in crate::query) fn inputs(&self) -> Vec<&Plan> {
        below!(&self.input, None::<&Box<Plan>>, [self.triggers.as_ref()])
    }

    /// Returns the nodes directly below it, to be changed.
    pub(in crate::query) fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        below!(&mut self.input, None::<&mut Box<Plan>>, [self.triggers.as_mut()], mut)
    }
}
