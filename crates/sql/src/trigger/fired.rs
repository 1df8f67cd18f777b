//! Binds the triggers that INSERT, UPDATE and DELETE fire.

use super::function::{fires, has_record, names_of};
use crate::binder::Binder;
use crate::error::StatementError;
use catalog::{ScalarType, Table, Trigger, TriggerEvent, TriggerTiming};
use procedure::query::{Plan, Triggers};
use procedure::{Expression, Procedure, Register};
use squawk_syntax::SyntaxNode;
use std::sync::Arc;

/// The registers of the rows that a statement writes.
#[derive(Clone, Copy)]
pub(crate) struct WrittenRow {
    /// The first register of the old row.
    pub(crate) old: Register,
    /// The first register of the new row.
    pub(crate) new: Register,
}

impl Binder<'_> {
    /// Returns the triggers that a statement fires; `None` if it fires none. `set` are the columns that an
    /// UPDATE sets.
    ///
    /// # Errors
    /// `0A000`: a trigger is not compiled yet, because the binder compiles its function.
    pub(crate) fn bind_triggers(
        &mut self,
        table: &Table,
        event: TriggerEvent,
        set: &[usize],
        row: WrittenRow,
        node: &SyntaxNode,
    ) -> Result<Option<Box<Triggers>>, StatementError> {
        use TriggerTiming::{After, Before};
        let fired = |trigger: &&Trigger| fires(trigger, event, names_of(table, set));
        let fired: Vec<&Trigger> = table.triggers.iter().filter(fired).collect();
        if fired.is_empty() {
            return Ok(None);
        }
        let mut calls = |timing, for_each_row| {
            let of_kind = fired
                .iter()
                .filter(|trigger| (trigger.timing, trigger.for_each_row) == (timing, for_each_row));
            of_kind.into_iter().try_fold(Plan::One, |plan, trigger| {
                let procedure = self.function_of(table, trigger, event, node)?;
                Ok(self.fire(plan, procedure, table, event, row))
            })
        };
        Ok(Some(Box::new(Triggers {
            before_statement: calls(Before, false)?,
            before_row: calls(Before, true)?,
            after_row: calls(After, true)?,
            after_statement: calls(After, false)?,
            old: row.old,
            new: row.new,
        })))
    }

    /// Returns the compiled function of a trigger for an event.
    fn function_of(
        &self,
        table: &Table,
        trigger: &Trigger,
        event: TriggerEvent,
        node: &SyntaxNode,
    ) -> Result<Arc<Procedure>, StatementError> {
        let all = self.schema.triggers.get(&(table.name.clone(), trigger.name.clone()));
        let compiled = all.into_iter().flatten().find(|(of, _)| *of == event);
        compiled.map(|(_, procedure)| Arc::clone(procedure)).ok_or_else(|| {
            self.unsupported(node, &format!("trigger {}, whose function fires it again,", trigger.name))
        })
    }

    /// Returns a plan that calls a trigger's function for the rows of a plan. It leaves out the rows for
    /// which a BEFORE trigger returns NULL.
    fn fire(
        &mut self,
        plan: Plan,
        procedure: Arc<Procedure>,
        table: &Table,
        event: TriggerEvent,
        row: WrittenRow,
    ) -> Plan {
        self.note_call(&procedure);
        let columns = |first: Register| {
            let width = table.visible().len() as u32;
            (first.0..first.0 + width).map(Register)
        };
        let mut arguments = Vec::new();
        if procedure.inputs().next().is_some() {
            for (record, first) in [("new", row.new), ("old", row.old)] {
                if has_record(record, event) {
                    arguments.extend(columns(first).map(Expression::Register));
                }
            }
        }
        let count = procedure.outputs().count();
        let input = Box::new(plan);
        if count == 0 {
            return Plan::Call { input, procedure, arguments, outputs: Vec::new() };
        }
        let is_written = self.new_register(ScalarType::Boolean);
        let mut outputs: Vec<Register> = columns(row.new).take(count - 1).collect();
        outputs.push(is_written);
        Plan::Call { input, procedure, arguments, outputs }.filter(Expression::Register(is_written))
    }
}
