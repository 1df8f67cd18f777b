//! Cursors: rows that a query found when the cursor was opened, and a position among them.

use crate::execution::machine::Machine;
use crate::query::Buffer;
use crate::{Cast, Cursor, Failure, Movement, Register, SqlError};
use catalog::{Datum, Type};

/// Converts a value as an assignment does.
pub(super) fn converted(
    value: Datum,
    (from, to): (Type, Type),
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    let cast = match (from, to) {
        _ if from == to => Some(Cast::Same),
        (Type::Scalar(from), Type::Scalar(to)) => Cast::between(from, to, false),
        _ => None,
    };
    let Some(cast) = cast else {
        let message = format!("a value of type {from} cannot be assigned to a variable of type {to}");
        return Err(SqlError::new("42804", message).into());
    };
    cast.apply(value, &mut machine.frame.arena).map_err(Failure::from)
}

/// Assigns the values of a row to variables.
pub(super) fn load_row(
    rows: &Buffer,
    types: &[Type],
    row: usize,
    targets: &[(Register, Type)],
    machine: &mut Machine,
) -> Result<(), Failure> {
    for (column, (target, ty)) in targets.iter().enumerate() {
        // As in PostgreSQL, a variable without a column is NULL, and a column without a variable is ignored.
        let value = match (rows.row(row).get(column), types.get(column)) {
            (Some(value), Some(from)) => {
                let value = machine.frame.arena.adopt(*value, &rows.arena);
                converted(value, (*from, *ty), machine)?
            }
            _ => Datum::Null,
        };
        machine.set(*target, value);
    }
    Ok(())
}

/// Moves a cursor and assigns the values of its new row to variables: FETCH and MOVE.
pub(super) fn fetch(
    cursor: &Cursor,
    movement: &Movement,
    targets: &[(Register, Type)],
    found: Register,
    machine: &mut Machine,
) -> Result<(), Failure> {
    let distance = match movement {
        Movement::By(count) | Movement::Back(count) | Movement::To(count) => match count.evaluate(machine)? {
            Datum::Int(count) => count,
            _ => return Err(SqlError::new("22004", "relative or absolute cursor position is null").into()),
        },
        _ => 0,
    };
    let null = || SqlError::new("34000", format!("cursor \"{}\" does not exist", cursor.name));
    // The cursor is taken out of the frame, because `load_row` needs the machine for its registers.
    let mut open = machine.frame.cursor(cursor)?.take().ok_or_else(null)?;
    let count = open.rows.len() as i64;
    open.at = match movement {
        Movement::First => 1,
        Movement::Last => count,
        Movement::BehindAll => count + 1,
        Movement::Next => open.at + 1,
        Movement::By(_) => open.at.saturating_add(distance),
        Movement::Back(_) => open.at.saturating_sub(distance),
        Movement::To(_) if distance < 0 => count + 1 + distance,
        Movement::To(_) => distance,
    }
    .clamp(0, count + 1);
    let is_row = (1..=count).contains(&open.at);
    let loaded = if is_row {
        load_row(&open.rows, &open.types, open.at as usize - 1, targets, machine)
    } else {
        if !matches!(movement, Movement::Next) || count == 0 {
            machine.frame.set_to_null(targets);
        }
        Ok(())
    };
    *machine.frame.cursor(cursor)? = Some(open);
    machine.set(found, Datum::boolean(is_row));
    if !matches!(movement, Movement::Next) {
        machine.frame.row_count = is_row.into();
    }
    loaded
}
