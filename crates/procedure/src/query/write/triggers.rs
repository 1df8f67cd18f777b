//! Fires the triggers of a statement.
//!
//! As in PostgreSQL, a trigger before a row sees what the statement has written so far, and the triggers
//! after the rows run at its end, when the foreign keys have been followed.

use super::Triggers;
use crate::execution::rows::Flow;
use crate::query::{Buffer, Plan, run::run};
use crate::{Failure, Machine, Register, SqlError, Transaction};
use catalog::{Arena, Datum, Table};

/// Runs the calls of triggers. Returns false if a trigger has suppressed the write.
fn fire<D: Transaction>(calls: &Plan, machine: &mut Machine, data: &mut D) -> Result<bool, Failure> {
    let mut is_kept = false;
    run(calls, machine, data, &mut |_, _| {
        is_kept = true;
        Ok(Flow::Continue)
    })?;
    Ok(is_kept)
}

/// Returns whether two values are the same in all their bits: equal numerics may have different scales.
fn is_same(old: Datum, new: Datum, arena: &Arena) -> bool {
    match (old, new) {
        (Datum::Bytes(old), Datum::Bytes(new)) => arena.bytes(old) == arena.bytes(new),
        (Datum::Wide(_), Datum::Wide(_)) => {
            let numeric = |value| arena.numeric(value, 0).map(|own| (own.scale(), own));
            numeric(old) == numeric(new)
        }
        (Datum::Array(old), Datum::Array(new)) => {
            let (old, new) = (arena.elements(old), arena.elements(new));
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_same(*old, *new, arena))
        }
        (Datum::Null | Datum::Int(_) | Datum::Double(_), _) => old == new,
        (Datum::Bytes(_) | Datum::Wide(_) | Datum::Array(_), _) => false,
    }
}

impl Triggers {
    /// Fires the triggers before the statement.
    pub(super) fn begin<D: Transaction>(&self, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
        fire(&self.before_statement, machine, data).map(|_| ())
    }

    /// Fires the triggers after the statement.
    pub(super) fn end<D: Transaction>(&self, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
        fire(&self.after_statement, machine, data).map(|_| ())
    }

    /// Fires the triggers before a row is inserted. Returns whether it is inserted.
    pub(super) fn before<D: Transaction>(
        &self,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<bool, Failure> {
        fire(&self.before_row, machine, data)
    }

    /// Fires the triggers before a row is changed or deleted. Returns whether the statement goes on with it.
    ///
    /// # Errors
    /// `27000`: a trigger has written the row itself. The error of a trigger.
    pub(super) fn before_change<D: Transaction>(
        &self,
        table: &Table,
        row: D::Row,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<bool, Failure> {
        if matches!(self.before_row, Plan::One) {
            return Ok(true);
        }
        let is_kept = fire(&self.before_row, machine, data)?;
        let slots = table.layout.slots();
        let mut now = vec![Datum::Null; slots.len()];
        let is_there = data.read(row, slots, &mut machine.frame.arena, &mut now)?;
        let (old, arena) = machine.window(self.old, slots.len());
        if is_there && old.iter().zip(&now).all(|(old, now)| is_same(*old, *now, arena)) {
            return Ok(is_kept);
        }
        // A deleted row has no new one.
        let action = if self.old == self.new { "deleted" } else { "updated" };
        let message = format!(
            "tuple to be {action} was already modified by an operation triggered by the current command"
        );
        let hint = "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to \
            other rows.";
        Err(SqlError::new("27000", message).with_hint(hint).into())
    }

    /// Adds the columns that triggers have changed to those that the statement changes, with their values.
    pub(super) fn add_changes(&self, width: usize, changes: &mut Vec<(usize, Datum)>, machine: &Machine) {
        let value = |first: Register, column: usize| machine.get(Register(first.0 + column as u32));
        changes.iter_mut().for_each(|(column, new)| *new = value(self.new, *column));
        for column in 0..width {
            let (old, new) = (value(self.old, column), value(self.new, column));
            if !is_same(old, new, &machine.frame.arena)
                && changes.iter().all(|(changed, _)| *changed != column)
            {
                changes.push((column, new));
            }
        }
    }

    /// Returns whether there are triggers after the rows.
    pub(super) fn follow_rows(&self) -> bool {
        !matches!(self.after_row, Plan::One)
    }

    /// Fires the triggers after the rows, for rows that the statement has written.
    pub(super) fn after<D: Transaction>(
        &self,
        old: Option<&Buffer>,
        new: Option<&Buffer>,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<(), Failure> {
        if !self.follow_rows() {
            return Ok(());
        }
        let sides = [(old, self.old), (new, self.new)];
        let count = sides.iter().filter_map(|(rows, _)| rows.map(Buffer::len)).max().unwrap_or(0);
        for index in 0..count {
            machine.check_row()?;
            let mark = machine.frame.arena.mark();
            for (rows, first) in sides {
                let Some(rows) = rows else { continue };
                for (column, value) in rows.row(index).iter().enumerate() {
                    let value = machine.frame.arena.adopt(*value, &rows.arena);
                    machine.set(Register(first.0 + column as u32), value);
                }
            }
            fire(&self.after_row, machine, data)?;
            machine.frame.arena.release(mark);
        }
        Ok(())
    }
}
