//! ALTER TABLE on the data: a table made of the rows of another one.

use super::counters::Counters;
use super::{Applying, Tables, duplicate_in};
use catalog::{Arena, Datum, Table};
use procedure::{Machine, Rebuild, Reference, Register, Sequences, SqlError};
use std::sync::Arc;
use storage::{DuplicateKey, Guard, Linker, Slots, TableStore};

fn out_of_memory(error: storage::OutOfMemory) -> SqlError {
    SqlError::new("53200", error.to_string())
}

fn violated(table: &Table, check: &str) -> SqlError {
    let message = format!(
        "check constraint \"{check}\" of relation \"{}\" is violated by some row",
        table.short_name()
    );
    SqlError::new("23514", message).with_constraint(table, check)
}

pub(super) fn apply(
    tables: &mut Tables,
    rebuild: &Rebuild,
    how: Applying,
    guard: &Guard,
) -> Result<(), SqlError> {
    let Rebuild { old, new, registers, values, generated, checks, references } = rebuild;
    let from = Arc::clone(tables.by_id(old.id).expect("a table that is altered is there"));
    let slots = tables.slotted.then(Slots::default);
    let memory = Arc::clone(&tables.memory);
    let store = TableStore::new(Arc::clone(new), slots, memory, guard).map_err(out_of_memory)?;
    let mut machine = Machine::default();
    machine.begin_piece(*registers, how.timestamp_us, how.seed);
    let counters = Arc::new(Counters::default());
    rebuild.sequences().into_iter().for_each(|sequence| counters.read(tables.store(sequence), guard));
    machine.count_by(Arc::clone(&counters) as Arc<dyn Sequences>);
    let (mut linker, mut image) = (Linker::default(), Vec::new());
    let width = old.columns.len();
    from.for_each_row(guard, |record| {
        if tables.slotted {
            let error = SqlError::new("0A000", "a physical log can't hold that rows get another layout");
            let hint = "Open the database with another content of the log, and change the table then.";
            return Err(error.with_hint(hint));
        }
        let mark = machine.frame.arena.mark();
        let state = record.stable_state();
        for (place, slot) in old.layout.slots().iter().enumerate() {
            let value = record.row().column(*slot, &mut machine.frame.arena);
            machine.set(Register(place as u32), value);
        }
        let mut row = Vec::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            let value = value.evaluate(&mut machine).map_err(|error| *error)?;
            machine.set(Register((width + place) as u32), value);
            row.push(value);
        }
        for (place, value) in generated {
            row[*place] = value.evaluate(&mut machine).map_err(|error| *error)?;
            machine.set(Register((width + place) as u32), row[*place]);
        }
        let mut columns = new.columns.iter().zip(&row);
        if how.is_new
            && let Some((column, _)) = columns.find(|(column, value)| value.is_null() && !column.nullable)
        {
            let message = format!(
                "column \"{}\" of relation \"{}\" contains null values",
                column.name,
                new.short_name()
            );
            return Err(SqlError::new("23502", message).with_column(new, &column.name));
        }
        for check in checks.iter().filter(|_| how.is_new) {
            if check.condition.evaluate(&mut machine).map_err(|error| *error)? == Datum::Int(0) {
                let error = check.domain_error().or_else(|| check.added_error(new));
                return Err(error.unwrap_or_else(|| violated(new, &check.name)));
            }
        }
        new.layout.encode(&row, &machine.frame.arena, &mut image);
        if !store.load(&image, state.order(), 1, &mut linker, guard).map_err(out_of_memory)? {
            let columns = &new.primary().columns;
            let key: Vec<Datum> = columns.iter().map(|column| row[*column]).collect();
            let key = new.key_text(columns, &key, &machine.frame.arena);
            return Err(duplicate_in(new, DuplicateKey { index: 0, key }));
        }
        machine.frame.arena.release(mark);
        Ok(())
    })?;
    for place in 1..new.indexes.len() {
        if let Err(duplicate) = store.fill_new(place, guard).map_err(out_of_memory)? {
            return Err(duplicate_in(new, duplicate));
        }
    }
    counters.write(tables, guard).map_err(out_of_memory)?;
    tables.remove(old.id);
    tables.set(store);
    if how.is_new {
        references.iter().try_for_each(|reference| look_up(tables, reference, guard))?;
    }
    Ok(())
}

/// Refuses a foreign key that some row does not keep to.
fn look_up(tables: &Tables, reference: &Reference, guard: &Guard) -> Result<(), SqlError> {
    let parent = tables.of(&reference.parent);
    let mut arena = Arena::default();
    tables.of(&reference.table).for_each_row(guard, |record| {
        arena.clear();
        let slots = reference.table.layout.slots();
        let values: Vec<Datum> =
            reference.columns.iter().map(|column| record.row().column(slots[*column], &mut arena)).collect();
        if values.iter().any(|value| value.is_null()) {
            return Ok(());
        }
        if parent.holds(reference.parent_index, &reference.parent_key(&values, &arena), guard) {
            return Ok(());
        }
        Err(reference.missing(&values, &arena))
    })
}
