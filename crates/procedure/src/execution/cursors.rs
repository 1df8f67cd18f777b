//! Cursors: rows that a query found when the cursor was opened, and a position among them.

use crate::execution::frame::OpenCursor;
use crate::execution::machine::Machine;
use crate::query::Buffer;
use crate::{Cast, CastContext, Cursor, Failure, Function, Movement, Register, SqlError};
use catalog::{Datum, ScalarType, Type, Value, array_datum, datum_from_value, output_text};

/// Converts a value as an assignment to a variable does.
pub(super) fn converted(
    value: Datum,
    (from, to): (Type, Type),
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    if from == to || value.is_null() {
        return Ok(value);
    }
    match (from, to) {
        (Type::Scalar(from), Type::Scalar(to)) => {
            let arena = &mut machine.frame.arena;
            let cast = |value, cast: Cast| cast.apply(value, arena);
            Ok(casts(from, to)?.try_fold(value, cast)?)
        }
        (Type::Array(from), Type::Array(to)) => {
            let cast = |array, cast| Function::CastElements(cast).apply(&[array], machine);
            Ok(casts(from, to)?.try_fold(value, cast)?)
        }
        // By the output function of one type, and the input function of the other.
        (_, to) => {
            let arena = &mut machine.frame.arena;
            let text = output_text(value, from, arena);
            Ok(match to {
                Type::Array(element) => array_datum(&text, element, arena)?,
                Type::Scalar(_) => datum_from_value(&Value::Text(text), to, arena)?,
            })
        }
    }
}

/// Returns the casts from one type to another, one after the other.
fn casts(from: ScalarType, to: ScalarType) -> Result<impl Iterator<Item = Cast>, SqlError> {
    let casts = CastContext::Variable.casts(from, to).ok_or_else(|| {
        let message = format!("a value of type {from} cannot be assigned to a variable of type {to}");
        SqlError::new("42804", message)
    });
    Ok(casts?.into_iter().flatten())
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
        Movement::By(count) | Movement::Forward(count) | Movement::Back(count) | Movement::To(count) => {
            match count.evaluate(machine)? {
                Datum::Int(count) => count,
                _ => {
                    return Err(SqlError::new("22004", "relative or absolute cursor position is null").into());
                }
            }
        }
        _ => 0,
    };
    // The cursor is taken out of the frame, because `load_row` needs the machine for its registers.
    let mut open = machine.frame.take_cursor(cursor)?;
    if open.is_forward_only && is_backward(movement, distance, targets.is_empty(), &open) {
        machine.frame.put_back(cursor, open);
        let error = SqlError::new("55000", "cursor can only scan forward");
        return Err(error.with_hint("Declare it with SCROLL option to enable backward scan.").into());
    }
    let (count, from) = (open.rows.len() as i64, open.at);
    open.at = match movement {
        Movement::First => 1,
        Movement::Last => count,
        Movement::Next => from + 1,
        Movement::By(_) | Movement::Forward(_) => from.saturating_add(distance),
        Movement::Back(_) => from.saturating_sub(distance),
        Movement::To(_) if distance < 0 => count + 1 + distance,
        Movement::To(_) => distance,
    }
    .clamp(0, count + 1);
    let is_row = (1..=count).contains(&open.at);
    let moved = match movement {
        Movement::Forward(_) | Movement::Back(_) if distance != 0 => rows_passed(from, open.at, count),
        _ => is_row.into(),
    };
    let loaded = if is_row {
        load_row(&open.rows, &open.types, open.at as usize - 1, targets, machine)
    } else {
        if !matches!(movement, Movement::Next) || count == 0 {
            machine.frame.set_to_null(targets);
        }
        Ok(())
    };
    machine.frame.put_back(cursor, open);
    machine.set(found, Datum::boolean(moved > 0));
    if !matches!(movement, Movement::Next) {
        machine.frame.row_count = moved;
    }
    loaded
}

/// Returns the number of rows that a cursor has come to, of `count` rows, between two positions.
fn rows_passed(from: i64, to: i64, count: i64) -> i64 {
    match to > from {
        true => to.min(count) - from,
        false => from - to.max(1),
    }
    .max(0)
}

/// Returns whether a movement needs a scan backward.
/// Source: PostgreSQL 15, `DoPortalRunFetch`. It rewinds or scans backward to a row that it has passed.
fn is_backward(movement: &Movement, distance: i64, moves: bool, open: &OpenCursor) -> bool {
    let is_on_row = (1..=open.rows.len() as i64).contains(&open.at);
    match movement {
        Movement::Next => false,
        Movement::First => open.at > 0,
        Movement::Last => true,
        // MOVE BACKWARD ALL rewinds.
        Movement::Back(_) if distance == i64::MAX => open.at > 0,
        Movement::By(_) | Movement::Forward(_) | Movement::Back(_) if distance == 0 => !moves && is_on_row,
        Movement::By(_) | Movement::Forward(_) => distance < 0,
        Movement::Back(_) => distance > 0,
        Movement::To(_) => distance < 0 || open.at > 0 && distance <= open.at,
    }
}
