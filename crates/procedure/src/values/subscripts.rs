//! Assignments to elements and slices of arrays.
//! Source: PostgreSQL 15, `array_set_element` and `array_set_slice`. Differs: an array begins at 1; another
//! begin is refused.

use crate::{Evaluated, Machine, SqlError};
use catalog::{Arena, Datum};

/// The greatest subscript of an assignment.
const MOST: i64 = 1_000_000;

fn refused(sqlstate: &str, message: &str) -> Box<SqlError> {
    SqlError::new(sqlstate, message).into()
}

/// Returns the index of a subscript, from 0.
fn index_of(index: Datum) -> Result<usize, Box<SqlError>> {
    match index {
        Datum::Int(index @ 1..=MOST) => Ok(index as usize - 1),
        Datum::Null => Err(refused("22004", "array subscript in assignment must not be null")),
        _ => Err(refused("2202E", "array subscripts are supported from 1 to 1000000")),
    }
}

/// Refuses an array that would begin after 1.
fn check_first(is_empty: bool, index: usize) -> Result<(), Box<SqlError>> {
    if !is_empty || index == 0 {
        return Ok(());
    }
    let message = format!("an array whose first element has the subscript {} is not supported", index + 1);
    let error = SqlError::new("0A000", message);
    Err(error.with_hint("Assign the element with the subscript 1 first.").into())
}

/// Returns an array with another element. An array that is NULL is empty; a gap is filled with NULLs.
///
/// # Errors
/// `22004`: the subscript is NULL. `2202E`: it is outside the range. `0A000`: the array would begin after 1.
pub(crate) fn with_element(array: Datum, index: Datum, value: Datum, machine: &mut Machine) -> Evaluated {
    machine.check_memory()?;
    let index = index_of(index)?;
    machine.ask_elements(index + 1)?;
    let span = match array {
        Datum::Array(span) if span.length > 0 => Some(span),
        _ => None,
    };
    check_first(span.is_none(), index)?;
    Ok(machine.frame.arena.with_element(span, index, value))
}

/// Returns an array with another slice. `ends` are its first and last subscript; without one, the slice
/// begins or ends with the array. Surplus elements of the source are left out. A source that is NULL changes
/// nothing.
///
/// # Errors
/// `22004`: a subscript is NULL. `2202E`: the slice is outside the range or ends before it begins, or the
/// source is too short. `0A000`: the array would begin after 1.
pub(crate) fn with_slice(
    array: Datum,
    ends: [Option<Datum>; 2],
    source: Datum,
    machine: &mut Machine,
) -> Evaluated {
    machine.check_memory()?;
    let arena = &machine.frame.arena;
    let mut elements = elements(array, arena).to_vec();
    let Datum::Array(source) = source else { return Ok(machine.frame.arena.push_array(&elements)) };
    let [from, to] = ends;
    if elements.is_empty() && (from.is_none() || to.is_none()) {
        let error = SqlError::new("2202E", "array slice subscript must provide both boundaries");
        let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully \
                      specified.";
        return Err(error.with_detail(detail).into());
    }
    if let [Some(Datum::Int(from)), Some(Datum::Int(to))] = ends
        && from > to
    {
        return Err(refused("2202E", "upper bound cannot be less than lower bound"));
    }
    let from = from.map_or(Ok(0), index_of)?;
    let end = to.map_or(Ok(elements.len()), |to| index_of(to).map(|to| to + 1))?;
    if from >= end {
        return Err(refused("2202E", "upper bound cannot be less than lower bound"));
    }
    check_first(elements.is_empty(), from)?;
    let source = arena.elements(source).get(..end - from);
    let source = source.ok_or_else(|| refused("2202E", "source array too small"))?.to_vec();
    machine.ask_elements(end)?;
    elements.resize(elements.len().max(end), Datum::Null);
    elements[from..end].copy_from_slice(&source);
    Ok(machine.frame.arena.push_array(&elements))
}

fn elements(array: Datum, arena: &Arena) -> &[Datum] {
    match array {
        Datum::Array(span) => arena.elements(span),
        _ => &[],
    }
}
