//! Access of operations to their rows: key paths, filters, and the DISTINCT, ORDER BY, OFFSET and LIMIT of
//! SELECT.

use crate::ir::compare::compare;
use crate::query::write_distinct;
use crate::values::aggregate::Accumulator;
use crate::{
    Access, Aggregate, Bound, Choice, Conflict, DataAccess, Expression, Failure, Machine, Path, ScanRange,
    Select, SqlError,
};
use catalog::{Datum, Table, successor};
use std::cmp::Ordering;

/// Whether to go on to the next row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

/// Writes the key of expressions for the first columns of an index into the frame's `key`. Returns false if a
/// value is NULL.
pub(crate) fn write_key(
    table: &Table,
    columns: &[usize],
    values: &[Expression],
    machine: &mut Machine,
) -> Result<bool, Failure> {
    machine.frame.key.clear();
    for (column, value) in columns.iter().zip(values) {
        let datum = value.evaluate(machine)?;
        if datum.is_null() {
            return Ok(false);
        }
        table.encode_key_column(*column, datum, &machine.frame.arena, &mut machine.frame.key);
    }
    Ok(true)
}

/// Calls `visit` for every row of an access, with the row's columns in its registers, until it stops.
pub(crate) fn for_each_row<D: DataAccess>(
    access: &Access,
    machine: &mut Machine,
    data: &mut D,
    mut visit: impl FnMut(D::Row, &mut Machine, &mut D) -> Result<Flow, Failure>,
) -> Result<(), Failure> {
    let table = &*access.table;
    match &access.path {
        Path::Point { key } => {
            if !write_key(table, &table.primary().columns, key, machine)? {
                return Ok(());
            }
            let Some(row) = data.find(table, &machine.frame.key)? else { return Ok(()) };
            if read_row(access, row, machine, data)? {
                visit(row, machine, data)?;
            }
            Ok(())
        }
        Path::Range { index, key_columns, prefix, lower, upper, backward } => {
            let ends = (lower.as_deref(), upper.as_deref());
            if !write_range(table, key_columns, prefix, ends, machine)? {
                return Ok(());
            }
            let upper = (!machine.frame.upper.is_empty()).then_some(machine.frame.upper.as_slice());
            let range = ScanRange { index: *index, lower: &machine.frame.key, upper, backward: *backward };
            data.open_scan(table, range)?;
            while let Some(row) = data.next_row()? {
                machine.check_row()?;
                if read_row(access, row, machine, data)? && visit(row, machine, data)? == Flow::Stop {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Loads a row's columns. Returns false if the row does not exist or the filter rejects it.
fn read_row<D: DataAccess>(
    access: &Access,
    row: D::Row,
    machine: &mut Machine,
    data: &mut D,
) -> Result<bool, Failure> {
    let (registers, arena) = machine.window(access.registers, access.slots.len());
    if !data.read(row, &access.slots, arena, registers)? {
        return Ok(false);
    }
    for choice in &access.choices {
        read_choice(access, choice, row, machine, data)?;
    }
    match &access.filter {
        Some(filter) => Ok(filter.evaluate(machine)?.is_true()),
        None => Ok(true),
    }
}

/// Loads the column that a choice selects. Both reads of the row are in the read set, so a transaction that
/// commits has read one version.
fn read_choice<D: DataAccess>(
    access: &Access,
    choice: &Choice,
    row: D::Row,
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let mut column = choice.otherwise;
    for (condition, chosen) in &choice.branches {
        let holds = match condition.compared_to_constant() {
            // Most choices compare a number with one constant after the other.
            Some((register, constant)) => machine.get(register) == Datum::Int(constant),
            None => condition.evaluate(machine)?.is_true(),
        };
        if holds {
            column = *chosen;
            break;
        }
    }
    let slot = access.table.layout.slots()[column];
    let (register, arena) = machine.window(choice.target, 1);
    if !data.read(row, &[slot], arena, register)? {
        // Another transaction has deleted the row since the first read.
        return Err(Conflict::Read.into());
    }
    Ok(())
}

/// Appends the key of a bound to the key of a prefix. Returns false if no row compares with the bound.
fn write_bound(
    table: &Table,
    columns: &[usize],
    bound: &Bound,
    is_lower: bool,
    machine: &mut Machine,
    key: &mut Vec<u8>,
) -> Result<bool, Failure> {
    let mut is_included = bound.inclusive;
    for (index, (value, column)) in bound.values().zip(columns).enumerate() {
        let datum = value.evaluate(machine)?;
        if datum.is_null() {
            if index == 0 {
                return Ok(false);
            }
            // Rows whose first values are equal do not compare with a row that has a NULL next.
            is_included = false;
            break;
        }
        table.encode_key_column(*column, datum, &machine.frame.arena, key);
    }
    if is_included != is_lower {
        successor(key);
    }
    Ok(true)
}

/// Writes the bounds of a range into the frame's `key` and `upper` (empty: no end). Returns false when the
/// range is empty.
fn write_range(
    table: &Table,
    columns: &[usize],
    prefix: &[Expression],
    (lower, upper): (Option<&Bound>, Option<&Bound>),
    machine: &mut Machine,
) -> Result<bool, Failure> {
    if !write_key(table, columns, prefix, machine)? {
        return Ok(false);
    }
    let prefix_length = machine.frame.key.len();
    let mut end = std::mem::take(&mut machine.frame.upper);
    end.clear();
    end.extend_from_slice(&machine.frame.key);
    let open = &columns[prefix.len()..];
    let mut empty = false;
    match upper {
        Some(bound) => empty |= !write_bound(table, open, bound, false, machine, &mut end)?,
        // A comparison is not true for NULLs, which are last in the index.
        None if lower.is_some() && table.columns[open[0]].nullable => {
            table.encode_key_column(open[0], Datum::Null, &machine.frame.arena, &mut end);
        }
        None => successor(&mut end),
    }
    if let Some(bound) = lower {
        let mut begin = std::mem::take(&mut machine.frame.key);
        begin.truncate(prefix_length);
        empty |= !write_bound(table, open, bound, true, machine, &mut begin)?;
        machine.frame.key = begin;
    }
    empty |= !end.is_empty() && machine.frame.key >= end;
    machine.frame.upper = end;
    Ok(!empty)
}

#[cold]
fn negative_count(state: &str, clause: &str) -> Failure {
    SqlError::new(state, format!("{clause} must not be negative")).into()
}

/// Returns the number of rows that a clause states. A negative number is refused with the clause's SQLSTATE.
#[inline]
fn count_of(
    expression: Option<&Expression>,
    (state, clause): (&str, &str),
    machine: &mut Machine,
) -> Result<Option<usize>, Failure> {
    let Some(expression) = expression else { return Ok(None) };
    match expression.evaluate(machine)? {
        Datum::Int(count) => match usize::try_from(count) {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(negative_count(state, clause)),
        },
        _ => Ok(None),
    }
}

/// Returns the numbers of rows of OFFSET and LIMIT; `None` for a clause that is missing or NULL.
///
/// # Errors
/// `2201X`, `2201W`: a number is negative. The error of an expression.
#[inline]
pub(crate) fn counts_of(
    [offset, limit]: [Option<&Expression>; 2],
    machine: &mut Machine,
) -> Result<[Option<usize>; 2], Failure> {
    Ok([count_of(offset, ("2201X", "OFFSET"), machine)?, count_of(limit, ("2201W", "LIMIT"), machine)?])
}

/// Runs a SELECT and appends its rows of outputs, at most `enough`, to the frame's `rows`. Returns their
/// number.
pub(crate) fn select_rows<D: DataAccess>(
    select: &Select,
    enough: usize,
    machine: &mut Machine,
    data: &mut D,
) -> Result<usize, Failure> {
    let [offset, limit] = counts_of([select.offset.as_ref(), select.limit.as_ref()], machine)?;
    let (offset, limit) = (offset.unwrap_or(0), limit.unwrap_or(usize::MAX).min(enough));
    if limit == 0 {
        return Ok(0);
    }
    let start = machine.frame.rows.len();
    if !select.aggregates.is_empty() {
        aggregate_row(select, machine, data)?;
        return Ok(finish_rows(select, start, 1, offset, limit, machine));
    }
    let early =
        if select.order.is_empty() && !select.distinct { offset.saturating_add(limit) } else { usize::MAX };
    machine.frame.distinct.clear();
    let mut found = 0;
    for_each_row(&select.access, machine, data, |_, machine, _| {
        if found < offset && early != usize::MAX {
            // OFFSET skips this row, so NULLs take the place of its values.
            machine.frame.rows.extend(std::iter::repeat_n(Datum::Null, width(select)));
            found += 1;
        } else {
            found += usize::from(push_row(select, machine)?);
        }
        Ok(if found >= early { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(finish_rows(select, start, found, offset, limit, machine))
}

fn width(select: &Select) -> usize {
    select.outputs.len() + select.order.len()
}

/// Appends the outputs and sort keys of the row in the registers. Returns false if DISTINCT has seen it.
fn push_row(select: &Select, machine: &mut Machine) -> Result<bool, Failure> {
    let start = machine.frame.rows.len();
    for (_, output) in &select.outputs {
        let value = output.evaluate(machine)?;
        machine.frame.rows.push(value);
    }
    if select.distinct && !is_new_row(start, machine) {
        machine.frame.rows.truncate(start);
        return Ok(false);
    }
    for key in &select.order {
        let value = key.value.evaluate(machine)?;
        machine.frame.rows.push(value);
    }
    Ok(true)
}

fn is_new_row(start: usize, machine: &mut Machine) -> bool {
    let row = &machine.frame.rows[start..];
    if let [Datum::Int(value)] = row {
        return machine.frame.distinct.ints.insert(*value);
    }
    let mut bytes = Vec::new();
    row.iter().for_each(|datum| write_distinct(*datum, &machine.frame.arena, &mut bytes));
    machine.frame.distinct.rows.insert(bytes)
}

/// Adds the row in the registers to running aggregates. Returns `Stop` when no further row changes them.
pub(crate) fn add_row(
    running: &mut [Accumulator],
    aggregates: &[Aggregate],
    machine: &mut Machine,
) -> Result<Flow, Failure> {
    let mut are_final = !aggregates.is_empty();
    for (accumulator, aggregate) in running.iter_mut().zip(aggregates) {
        accumulator.add(aggregate, machine)?;
        are_final &= accumulator.is_final(aggregate);
    }
    Ok(if are_final { Flow::Stop } else { Flow::Continue })
}

fn aggregate_row<D: DataAccess>(select: &Select, machine: &mut Machine, data: &mut D) -> Result<(), Failure> {
    let mut running: Vec<_> = select.aggregates.iter().map(|_| Accumulator::new()).collect();
    for_each_row(&select.access, machine, data, |_, machine, _| {
        add_row(&mut running, &select.aggregates, machine)
    })?;
    for (accumulator, aggregate) in running.iter().zip(&select.aggregates) {
        let value = accumulator.finish(aggregate, machine)?;
        machine.set(aggregate.target, value);
    }
    push_row(select, machine).map(|_| ())
}

/// Sorts the rows from `start` on, and drops their sort keys and the rows outside of OFFSET and LIMIT.
/// Returns the number of rows that stay.
fn finish_rows(
    select: &Select,
    start: usize,
    found: usize,
    offset: usize,
    limit: usize,
    machine: &mut Machine,
) -> usize {
    let (outputs, width) = (select.outputs.len(), width(select));
    if !select.order.is_empty() {
        let mut permutation = std::mem::take(&mut machine.frame.permutation);
        permutation.clear();
        permutation.extend(0..found as u32);
        let key = |row: u32, index: usize| machine.frame.rows[start + row as usize * width + outputs + index];
        permutation.sort_by(|a, b| {
            for (index, sort) in select.order.iter().enumerate() {
                let (a, b) = (key(*a, index), key(*b, index));
                let order = match (a.is_null(), b.is_null()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => {
                        if sort.nulls_first {
                            Ordering::Less
                        } else {
                            Ordering::Greater
                        }
                    }
                    (false, true) => {
                        if sort.nulls_first {
                            Ordering::Greater
                        } else {
                            Ordering::Less
                        }
                    }
                    (false, false) => {
                        let order = compare(sort.class, a, b, &machine.frame.arena);
                        if sort.descending { order.reverse() } else { order }
                    }
                };
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        });
        let sorted: Vec<Datum> = permutation
            .iter()
            .flat_map(|row| {
                let row = start + *row as usize * width;
                machine.frame.rows[row..row + outputs].iter().copied()
            })
            .collect();
        machine.frame.permutation = permutation;
        machine.frame.rows.truncate(start);
        machine.frame.rows.extend(sorted);
    }
    let skipped = offset.min(found);
    let kept = (found - skipped).min(limit);
    machine.frame.rows.drain(start..start + skipped * outputs);
    machine.frame.rows.truncate(start + kept * outputs);
    kept
}
