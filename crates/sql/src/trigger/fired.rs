//! The triggers that INSERT, UPDATE and DELETE fire.

use super::function::{fires, has_record};
use crate::binder::Binder;
use catalog::{ScalarType, Table, TriggerEvent, TriggerTiming};
use procedure::query::{Plan, Triggers};
use procedure::{Expression, Procedure, Register};
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
    /// Returns the triggers that a statement fires which sets columns; `None` if there are none.
    pub(crate) fn bind_triggers(
        &mut self,
        table: &Table,
        event: TriggerEvent,
        set: &[usize],
        row: WrittenRow,
    ) -> Option<Box<Triggers>> {
        use TriggerTiming::{After, Before};
        if !table.triggers.iter().any(|own| fires(own, event, table, set)) {
            return None;
        }
        let mut calls = |timing, for_each_row| {
            let procedures = self.fired_functions(table, event, set, timing, for_each_row);
            procedures.into_iter().fold(Plan::One, |plan, own| self.fire(plan, own, table, event, row))
        };
        Some(Box::new(Triggers {
            before_statement: calls(Before, false),
            before_row: calls(Before, true),
            after_row: calls(After, true),
            after_statement: calls(After, false),
            old: row.old,
            new: row.new,
        }))
    }

    /// Returns the functions of the triggers of one kind, in the order of the triggers' names.
    fn fired_functions(
        &self,
        table: &Table,
        event: TriggerEvent,
        set: &[usize],
        timing: TriggerTiming,
        for_each_row: bool,
    ) -> Vec<Arc<Procedure>> {
        let of_kind = table.triggers.iter().filter(|own| {
            own.timing == timing && own.for_each_row == for_each_row && fires(own, event, table, set)
        });
        let compiled = of_kind.map(|own| {
            let all = self.schema.triggers.get(&(table.name.clone(), own.name.clone()));
            let procedure = all.into_iter().flatten().find(|(of, _)| *of == event);
            Arc::clone(&procedure.expect("a trigger is compiled before what fires it").1)
        });
        compiled.collect()
    }

    /// Returns a plan that calls a trigger's function for the rows of a plan, and leaves out those that the
    /// function does.
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
