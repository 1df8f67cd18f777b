//! INSERT, UPDATE, DELETE and MERGE.
//!
//! A statement first collects the rows to write and then writes them, so its input never reads a row that the
//! statement has written. INSERT of VALUES has no such input and writes each row at once.

mod merge;
mod nodes;
mod rules;
mod triggers;

pub(super) use merge::merge;
pub use merge::{Merge, MergeAction, MergeChange};
pub use nodes::{ConflictUpdate, Delete, Insert, OnConflict, RowRules, Triggers, Update};

use super::Plan;
use super::buffer::Buffer;
use super::run::{Sink, check_cancelled, collect, run};
use crate::execution::access::row_of;
use crate::execution::foreign_keys::ChangedRows;
use crate::execution::rows::Flow;
use crate::{Conflict, Failure, ForeignKeys, Machine, Register, ScanRange, SqlError, Transaction};
use catalog::{Arena, Datum, Table, successor};
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

pub(super) fn insert<D: Transaction>(
    insert: &Insert,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let width = insert.values.len();
    let triggers = insert.triggers.as_deref();
    let of_update =
        insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref()?.triggers.as_deref());
    let mut touched = WrittenRows::of(&insert.keys, &insert.table, triggers, of_update);
    touched.begin(machine, data)?;
    let evaluate = |machine: &mut Machine| {
        for (column, value) in insert.values.iter().enumerate() {
            let value = value.evaluate(machine)?;
            machine.set(Register(insert.registers.0 + column as u32), value);
        }
        Ok::<(), Failure>(())
    };
    if matches!(*insert.input, Plan::One | Plan::Values { .. }) {
        let mut more = true;
        run(&insert.input, machine, data, &mut |machine, data| {
            evaluate(machine)?;
            let sink = if more { Some(&mut *sink) } else { None };
            let flow = insert_row(insert, &mut touched, machine, data, sink)?;
            more &= flow == Flow::Continue;
            Ok(Flow::Continue)
        })?;
        touched.follow(machine, data)?;
        return Ok(if more { Flow::Continue } else { Flow::Stop });
    }
    let registers: Vec<_> = (0..width as u32).map(|column| Register(insert.registers.0 + column)).collect();
    let mut rows = Buffer::new(width);
    run(&insert.input, machine, data, &mut |machine, _| {
        evaluate(machine)?;
        rows.push_registers(&registers, machine)?;
        Ok(Flow::Continue)
    })?;
    let flow = for_each_kept(&rows, &registers, machine, data, sink, |machine, data, sink| {
        insert_row(insert, &mut touched, machine, data, sink)
    })?;
    touched.follow(machine, data)?;
    Ok(flow)
}

/// The rows that a statement has written, for the foreign keys and the triggers at its end.
struct WrittenRows<'p, R> {
    keys: Option<&'p ForeignKeys>,
    table: &'p Table,
    /// The triggers of inserted rows, and those of changed or deleted ones.
    of_inserted: Option<&'p Triggers>,
    of_changed: Option<&'p Triggers>,
    inserted: Buffer,
    old: Buffer,
    new: Buffer,
    /// Rows that this statement has written; its ON CONFLICT DO UPDATE must not change them again.
    written: HashSet<R>,
}

impl<'p, R: Copy + Eq + Hash> WrittenRows<'p, R> {
    fn of(
        keys: &'p Option<Arc<ForeignKeys>>,
        table: &'p Table,
        of_inserted: Option<&'p Triggers>,
        of_changed: Option<&'p Triggers>,
    ) -> Self {
        let buffer = || Buffer::new(table.columns.len());
        Self {
            keys: keys.as_deref(),
            table,
            of_inserted,
            of_changed,
            inserted: buffer(),
            old: buffer(),
            new: buffer(),
            written: HashSet::new(),
        }
    }

    /// Fires the triggers before the statement.
    fn begin<D: Transaction>(&self, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
        let mut all = [self.of_inserted, self.of_changed].into_iter().flatten();
        all.try_for_each(|triggers| triggers.begin(machine, data))
    }

    fn inserted(&mut self, row: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        match self.keys.is_some() || self.of_inserted.is_some_and(Triggers::follow_rows) {
            true => self.inserted.push(row.iter().copied(), arena),
            false => Ok(()),
        }
    }

    fn keeps_changed(&self) -> bool {
        self.keys.is_some() || self.of_changed.is_some_and(Triggers::follow_rows)
    }

    /// Keeps the values of a row that is about to be changed or deleted.
    fn before<D: Transaction<Row = R>>(
        &mut self,
        row: R,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<(), Failure> {
        if self.keeps_changed() {
            let slots = self.table.layout.slots();
            let mut whole = vec![Datum::Null; slots.len()];
            read_again(self.table, row, &mut machine.frame.arena, &mut whole, data)?;
            self.old.push(whole, &machine.frame.arena)?;
        }
        Ok(())
    }

    /// Keeps the values of a changed row, which are in registers.
    fn after(&mut self, registers: Register, machine: &mut Machine) -> Result<(), SqlError> {
        match self.keeps_changed() {
            true => {
                let (row, arena) = machine.window(registers, self.table.columns.len());
                self.new.push(row.iter().copied(), arena)
            }
            false => Ok(()),
        }
    }

    /// Checks foreign keys and executes their actions, and fires the triggers after the rows and after the
    /// statement.
    fn follow<D: Transaction>(self, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
        let Self { keys, table, of_inserted, of_changed, inserted, old, new, .. } = self;
        let changed = ChangedRows { table, old, new: (new.len() > 0).then_some(new) };
        if let Some(keys) = keys {
            keys.require_all(table.id, &inserted, machine, data)?;
            if changed.old.len() > 0 {
                keys.follow(&changed, machine, data)?;
            }
        }
        if let Some(triggers) = of_inserted {
            triggers.after(None, Some(&inserted), machine, data)?;
        }
        if let Some(triggers) = of_changed {
            triggers.after(Some(&changed.old), changed.new.as_ref(), machine, data)?;
            triggers.end(machine, data)?;
        }
        of_inserted.map_or(Ok(()), |triggers| triggers.end(machine, data))
    }
}

/// Calls `each` for every row of a buffer. After the sink has stopped, `each` gets the remaining rows without
/// a sink.
fn for_each_kept<D: Transaction>(
    rows: &Buffer,
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
    mut each: impl FnMut(&mut Machine, &mut D, Option<&mut Sink<'_, D>>) -> Result<Flow, Failure>,
) -> Result<Flow, Failure> {
    let mut more = true;
    for row in 0..rows.len() {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        rows.load(row, registers, machine);
        let flow = each(machine, data, if more { Some(&mut *sink) } else { None })?;
        more &= flow == Flow::Continue;
        machine.frame.arena.release(mark);
    }
    Ok(if more { Flow::Continue } else { Flow::Stop })
}

/// Passes the row in the registers to the sink, if the sink has not stopped.
fn pass_on<D>(sink: Option<&mut Sink<'_, D>>, machine: &mut Machine, data: &mut D) -> Result<Flow, Failure> {
    match sink {
        Some(sink) => sink(machine, data),
        None => Ok(Flow::Stop),
    }
}

/// Inserts the row in the registers.
fn insert_row<D: Transaction>(
    insert: &Insert,
    touched: &mut WrittenRows<'_, D::Row>,
    machine: &mut Machine,
    data: &mut D,
    sink: Option<&mut Sink<'_, D>>,
) -> Result<Flow, Failure> {
    let Insert { table, registers, rules, conflict, values, triggers, .. } = insert;
    if let Some(triggers) = triggers
        && !triggers.before(machine, data)?
    {
        return Ok(Flow::Continue);
    }
    rules.generate(*registers, machine)?;
    rules.check(table, *registers, machine, data)?;
    if let Some(conflict) = conflict {
        // An absent key is inserted next. Two statements that held its read lock would wait for each other.
        data.will_write(Some(table.id));
        let existing = conflicting(table, conflict, *registers, machine, data);
        data.will_write(None);
        if let Some(existing) = existing? {
            return match &conflict.update {
                None => Ok(Flow::Continue),
                Some(update) => update_existing((insert, update), touched, existing, machine, data, sink),
            };
        }
    }
    let (row, arena) = machine.window(*registers, values.len());
    data.insert(table, row, arena)?;
    touched.inserted(row, arena)?;
    if conflict.as_ref().is_some_and(|clause| clause.update.is_some()) {
        // A later row of this statement that conflicts with this row must not change it.
        let mut key = Vec::new();
        for column in &table.primary().columns {
            table.encode_key_column(*column, row[*column], arena, &mut key);
        }
        if let Some(inserted) = data.find(table, &key)? {
            touched.written.insert(inserted);
        }
    }
    pass_on(sink, machine, data)
}

/// Returns an existing row that has the same unique key as the row in the registers.
fn conflicting<D: Transaction>(
    table: &Table,
    conflict: &OnConflict,
    registers: Register,
    machine: &mut Machine,
    data: &mut D,
) -> Result<Option<D::Row>, Failure> {
    for (position, index) in table.indexes.iter().enumerate() {
        if !index.is_key() || conflict.index.is_some_and(|wanted| wanted != position) {
            continue;
        }
        if index.is_deferrable() {
            let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints \
                as arbiters";
            return Err(SqlError::new("55000", message).with_constraint(table, &index.name).into());
        }
        let value = |column: usize| machine.get(Register(registers.0 + column as u32));
        if !index.rules.nulls_equal && index.columns.iter().any(|column| value(*column).is_null()) {
            continue;
        }
        let mut lower = Vec::new();
        for column in &index.columns {
            table.encode_key_column(*column, value(*column), &machine.frame.arena, &mut lower);
        }
        if position == 0 {
            if let Some(row) = data.find(table, &lower)?
                && data.read(row, &[], &mut machine.frame.arena, &mut [])?
            {
                return Ok(Some(row));
            }
            continue;
        }
        let mut upper = lower.clone();
        successor(&mut upper);
        let upper = (!upper.is_empty()).then_some(upper.as_slice());
        data.enter_scan();
        let found = first_of(
            table,
            ScanRange { index: position, lower: &lower, upper, backward: false },
            machine,
            data,
        );
        data.leave_scan();
        if let Some(row) = found? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

fn first_of<D: Transaction>(
    table: &Table,
    range: ScanRange<'_>,
    machine: &mut Machine,
    data: &mut D,
) -> Result<Option<D::Row>, Failure> {
    data.open_scan(table, range)?;
    while let Some(row) = data.next_row()? {
        if data.read(row, &[], &mut machine.frame.arena, &mut [])? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Executes ON CONFLICT DO UPDATE on the row `existing`; the registers hold the row that was to be inserted.
fn update_existing<D: Transaction>(
    (insert, update): (&Insert, &ConflictUpdate),
    touched: &mut WrittenRows<'_, D::Row>,
    existing: D::Row,
    machine: &mut Machine,
    data: &mut D,
    sink: Option<&mut Sink<'_, D>>,
) -> Result<Flow, Failure> {
    let Insert { table, registers, rules, .. } = insert;
    let slots = table.layout.slots();
    let (old, arena) = machine.window(update.old, slots.len());
    read_again(table, existing, arena, old, data)?;
    if touched.written.contains(&existing) {
        let error = SqlError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time");
        let hint = "Ensure that no rows proposed for insertion within the same command have duplicate \
            constrained values.";
        return Err(error.with_hint(hint).into());
    }
    if let Some(condition) = &update.condition
        && !condition.evaluate(machine)?.is_true()
    {
        return Ok(Flow::Continue);
    }
    let mut changes = Vec::new();
    for (column, register, value) in &update.assignments {
        let value = value.evaluate(machine)?;
        machine.set(*register, value);
        changes.push((*column, value));
    }
    copy_row(slots.len(), update.old, *registers, machine);
    for (column, value) in &changes {
        machine.set(Register(registers.0 + *column as u32), *value);
    }
    if let Some(triggers) = &update.triggers {
        rules.forget_generated(*registers, machine);
        if !triggers.before_change(table, existing, machine, data)? {
            return Ok(Flow::Continue);
        }
        triggers.add_changes(slots.len(), &mut changes, machine);
    }
    rules.generate_changes(*registers, &mut changes, machine)?;
    rules.check(table, *registers, machine, data)?;
    touched.written.insert(existing);
    touched.before(existing, machine, data)?;
    write_changes(table, existing, *registers, &changes, machine, data)?;
    touched.after(*registers, machine)?;
    pass_on(sink, machine, data)
}

/// Reads all columns of a row that the statement has found.
fn read_again<D: Transaction>(
    table: &Table,
    row: D::Row,
    arena: &mut Arena,
    whole: &mut [Datum],
    data: &mut D,
) -> Result<(), Failure> {
    if data.read(row, table.layout.slots(), arena, whole)? {
        return Ok(());
    }
    if data.is_doomed() {
        // Another transaction has deleted the row since this statement found it.
        return Err(Conflict::Read.into());
    }
    let message = "tuple to be updated was already modified by an operation triggered by the current command";
    Err(SqlError::new("27000", message).into())
}

fn copy_row(width: usize, from: Register, to: Register, machine: &mut Machine) {
    for column in 0..width as u32 {
        machine.set(Register(to.0 + column), machine.get(Register(from.0 + column)));
    }
}

/// Sets registers to the new values of a row. Returns the changed columns with their values; `None` if a
/// trigger has suppressed the update.
fn change_row<D: Transaction>(
    update: &Update,
    row: D::Row,
    machine: &mut Machine,
    data: &mut D,
) -> Result<Option<Vec<(usize, Datum)>>, Failure> {
    let Update { table, assignments, registers, rules, triggers, .. } = update;
    let mut changes = Vec::with_capacity(assignments.len());
    for (column, value) in assignments {
        changes.push((*column, value.evaluate(machine)?));
    }
    let slots = table.layout.slots();
    let (whole, arena) = machine.window(*registers, slots.len());
    read_again(table, row, arena, whole, data)?;
    if let Some(triggers) = triggers {
        copy_row(slots.len(), *registers, triggers.old, machine);
    }
    for (column, value) in &changes {
        machine.set(Register(registers.0 + *column as u32), *value);
    }
    if let Some(triggers) = triggers {
        rules.forget_generated(*registers, machine);
        if !triggers.before_change(table, row, machine, data)? {
            return Ok(None);
        }
        triggers.add_changes(slots.len(), &mut changes, machine);
    }
    rules.generate_changes(*registers, &mut changes, machine)?;
    Ok(Some(changes))
}

/// Writes the changes of a row, whose new values are in registers. A row whose primary key a trigger has
/// changed moves.
fn write_changes<D: Transaction>(
    table: &Table,
    row: D::Row,
    registers: Register,
    changes: &[(usize, Datum)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    if !changes.iter().any(|(column, _)| table.primary().columns.contains(column)) {
        return data.update(table, row, changes, &machine.frame.arena);
    }
    data.delete(table, row)?;
    let (row, arena) = machine.window(registers, table.columns.len());
    data.insert(table, row, arena)
}

pub(super) fn update<D: Transaction>(
    update: &Update,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Update { input, table, handle, keep, assignments, registers, rules, keys, triggers } = update;
    let mut touched = WrittenRows::of(keys, table, None, triggers.as_deref());
    touched.begin(machine, data)?;
    let kept = kept_registers(*handle, keep);
    let rows = rows_to_write(input, table, &kept, machine, data)?;
    let mut written = assignments.iter().chain(&rules.generated).map(|(column, _)| column);
    let moves = written.any(|column| table.primary().columns.contains(column));
    let flow = if moves {
        move_rows(update, &rows, &mut touched, machine, data, sink)?
    } else {
        for_each_kept(&rows, &kept, machine, data, sink, |machine, data, sink| {
            let row = row_of(machine.get(*handle), data)?;
            let Some(changes) = change_row(update, row, machine, data)? else { return Ok(Flow::Continue) };
            touched.before(row, machine, data)?;
            rules.check(table, *registers, machine, data)?;
            write_changes(table, row, *registers, &changes, machine, data)?;
            touched.after(*registers, machine)?;
            pass_on(sink, machine, data)
        })?
    };
    touched.follow(machine, data)?;
    Ok(flow)
}

/// Changes the primary keys of rows. All rows are deleted before the first is inserted again, because a new
/// key may be the old key of another row; and none is deleted before triggers have seen the last one.
fn move_rows<D: Transaction>(
    update: &Update,
    rows: &Buffer,
    touched: &mut WrittenRows<'_, D::Row>,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Update { table, handle, keep, registers, rules, .. } = update;
    let kept = kept_registers(*handle, keep);
    let width = table.columns.len();
    let whole = (0..width as u32).map(|column| Register(registers.0 + column));
    // The handle is among the kept registers.
    let whole: Vec<Register> = whole.chain(kept.iter().copied()).collect();
    let mut moved = Buffer::new(whole.len());
    let mut no_sink = |_: &mut Machine, _: &mut D| Ok(Flow::Continue);
    for_each_kept(rows, &kept, machine, data, &mut no_sink, |machine, data, _| {
        let row = row_of(machine.get(*handle), data)?;
        if change_row(update, row, machine, data)?.is_none() {
            return Ok(Flow::Continue);
        }
        touched.before(row, machine, data)?;
        rules.check(table, *registers, machine, data)?;
        moved.push_registers(&whole, machine)?;
        Ok(Flow::Continue)
    })?;
    for index in 0..moved.len() {
        data.delete(table, row_of(moved.row(index)[width], data)?)?;
    }
    for_each_kept(&moved, &whole, machine, data, sink, |machine, data, sink| {
        let (row, arena) = machine.window(*registers, width);
        data.insert(table, row, arena)?;
        touched.after(*registers, machine)?;
        pass_on(sink, machine, data)
    })
}

pub(super) fn delete<D: Transaction>(
    delete: &Delete,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Delete { input, table, handle, keep, keys, triggers } = delete;
    let mut touched = WrittenRows::of(keys, table, None, triggers.as_deref());
    touched.begin(machine, data)?;
    let kept = kept_registers(*handle, keep);
    let rows = rows_to_write(input, table, &kept, machine, data)?;
    let flow = for_each_kept(&rows, &kept, machine, data, sink, |machine, data, sink| {
        let row = row_of(machine.get(*handle), data)?;
        if let Some(triggers) = triggers {
            let (old, arena) = machine.window(triggers.old, table.columns.len());
            read_again(table, row, arena, old, data)?;
            if !triggers.before_change(table, row, machine, data)? {
                return Ok(Flow::Continue);
            }
        }
        touched.before(row, machine, data)?;
        data.delete(table, row)?;
        pass_on(sink, machine, data)
    })?;
    touched.follow(machine, data)?;
    Ok(flow)
}

/// Returns the registers of a found row that its statement keeps, the handle first.
fn kept_registers(handle: Register, keep: &[Register]) -> Vec<Register> {
    std::iter::once(handle).chain(keep.iter().copied()).collect()
}

/// Returns the rows that a statement changes or deletes, each once.
fn rows_to_write<D: Transaction>(
    input: &Plan,
    table: &Table,
    kept: &[Register],
    machine: &mut Machine,
    data: &mut D,
) -> Result<Buffer, Failure> {
    data.will_write(Some(table.id));
    let found = collect(input, kept, machine, data);
    data.will_write(None);
    distinct_rows(&found?, kept.len(), data)
}

/// Returns each row of the table once; a join may have produced it several times.
fn distinct_rows<D: Transaction>(rows: &Buffer, width: usize, data: &D) -> Result<Buffer, Failure> {
    let mut seen = HashSet::new();
    let mut distinct = Buffer::new(width);
    for row in 0..rows.len() {
        let row = rows.row(row);
        if !row[0].is_null() && seen.insert(row_of(row[0], data)?) {
            distinct.push(row.iter().copied(), &rows.arena)?;
        }
    }
    Ok(distinct)
}
