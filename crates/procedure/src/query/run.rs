//! Runs plans: each node pushes its rows into the sink of the node above it.

use super::buffer::Buffer;
use super::key::write_distinct;
use super::measure::Measures;
use super::series::bounds_of_series;
use super::slots::Kept;
use super::{Combination, Plan, Query, TableFunction, join, subquery, write};
use crate::execution::access::row_of;
use crate::execution::control::call;
use crate::execution::rows::{Flow, add_row, counts_of, for_each_row};
use crate::ir::expression::compare_across;
use crate::values::aggregate::Accumulator;
use crate::{
    Access, Aggregate, Cast, Conflict, Expression, Failure, Machine, Procedure, Register, SortKey, SqlError,
    Transaction,
};
use catalog::{Datum, TableId};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Consumes the row in the registers. Returns whether to go on.
pub(crate) type Sink<'s, D> = dyn FnMut(&mut Machine, &mut D) -> Result<Flow, Failure> + 's;

/// A sort with a LIMIT drops the rows beyond the limit once it holds this many.
const SORT_AT_LEAST: usize = 1024;

/// Runs a query. `sink` finds each row in the registers of the query's columns.
pub(crate) fn run_query<D: Transaction>(
    query: &Query,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<(), Failure> {
    let outer = machine.frame.slots.enter(query.slots);
    let result = run(&query.plan, machine, data, sink);
    machine.frame.slots.leave(outer);
    result.map(|_| ())
}

/// Runs a node. Returns `Stop` if its sink has stopped it.
pub(crate) fn run<D: Transaction>(
    plan: &Plan,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    if machine.services.measured.is_none() {
        return run_node(plan, machine, data, sink);
    }
    run_measured(plan, machine, data, sink)
}

/// Runs a node for EXPLAIN ANALYZE.
#[cold]
fn run_measured<D: Transaction>(
    plan: &Plan,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let begun = Instant::now();
    // The time of the nodes above is that of the sink.
    let (mut above, mut run) = (Duration::ZERO, Measures::default());
    let ran = run_node(plan, machine, data, &mut |machine, data| {
        let found = Instant::now();
        if run.rows == 0 {
            run.first = found - begun;
        }
        run.rows += 1;
        let flow = sink(machine, data);
        above += found.elapsed();
        flow
    });
    run.all = begun.elapsed().saturating_sub(above);
    if run.rows == 0 {
        run.first = run.all;
    }
    if let Some(measured) = &mut machine.services.measured {
        measured.entry(std::ptr::from_ref(plan).addr()).or_default().add(&run);
    }
    ran
}

/// Holds each row of a plan before the next one is read: FOR UPDATE. With NOWAIT neither the search for rows
/// nor the hold waits; the statements that use the rows may wait.
fn hold_rows<D: Transaction>(
    input: &Plan,
    handles: &[(TableId, Register)],
    nowait: bool,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let mut is_found = false;
    let written = handles.first().map(|(table, _)| *table);
    data.will_write(written);
    data.never_wait(nowait);
    let ran = run(input, machine, data, &mut |machine, data| {
        for (table, handle) in handles {
            let number = machine.get(*handle);
            if !number.is_null() {
                data.hold(*table, row_of(number, data)?)?;
            }
        }
        is_found = true;
        data.will_write(None);
        data.never_wait(false);
        let flow = sink(machine, data)?;
        data.will_write(written);
        data.never_wait(nowait);
        is_found = false;
        Ok(flow)
    });
    data.will_write(None);
    data.never_wait(false);
    match ran {
        Err(Failure::Conflict(Conflict::Held)) if nowait && !is_found => {
            Err(SqlError::new("55P03", "could not obtain lock on row").into())
        }
        ran => ran,
    }
}

fn run_node<D: Transaction>(
    plan: &Plan,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    match plan {
        Plan::One => sink(machine, data),
        Plan::Values { registers, rows } => {
            for row in rows {
                let mark = machine.frame.arena.mark();
                for (register, value) in registers.iter().zip(row) {
                    let value = value.evaluate(machine)?;
                    machine.set(*register, value);
                }
                let flow = sink(machine, data)?;
                machine.frame.arena.release(mark);
                if flow == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Plan::Scan { access, handle } => scan(access, *handle, machine, data, sink),
        Plan::Function { function, arguments, registers, ordinality } => {
            table_function(*function, (arguments, registers, *ordinality), machine, data, sink)
        }
        Plan::Filter { input, condition } => run(input, machine, data, &mut |machine, data| {
            if condition.evaluate(machine)?.is_true() { sink(machine, data) } else { Ok(Flow::Continue) }
        }),
        Plan::Hold { input, handles, nowait } => {
            machine.services.check_writes("SELECT FOR UPDATE")?;
            hold_rows(input, handles, *nowait, machine, data, sink)
        }
        Plan::Compute { input, values } => run(input, machine, data, &mut |machine, data| {
            for (register, value) in values {
                let value = value.evaluate(machine)?;
                machine.set(*register, value);
            }
            sink(machine, data)
        }),
        Plan::Apply { input, subquery } => run(input, machine, data, &mut |machine, data| {
            subquery::answer(subquery, machine, data)?;
            sink(machine, data)
        }),
        Plan::Call { input, procedure, arguments, outputs } => {
            let outputs: Vec<_> = outputs.iter().map(|register| (*register, Cast::Same)).collect();
            run(input, machine, data, &mut |machine, data| {
                call_within(procedure, arguments, &outputs, machine, data)?;
                sink(machine, data)
            })
        }
        Plan::Rows { procedure, arguments, registers, ordinality } => {
            machine.frame.returned.push(Buffer::new(registers.len()));
            call_within(procedure, arguments, &[], machine, data)?;
            let rows = machine.frame.returned.pop().unwrap_or_else(|| Buffer::new(registers.len()));
            for place in 0..rows.len() {
                let mark = machine.frame.arena.mark();
                rows.load(place, registers, machine);
                if let Some(ordinality) = ordinality {
                    machine.set(*ordinality, Datum::Int(place as i64 + 1));
                }
                let flow = sink(machine, data)?;
                machine.frame.arena.release(mark);
                if flow == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Plan::Loop { .. } => join::run_loop(plan, machine, data, sink),
        Plan::Hash(join) => join::run_hash(join, machine, data, sink),
        Plan::Group { input, keys, aggregates } => group(input, keys, aggregates, machine, data, sink),
        Plan::Distinct { input, values } => {
            let mut seen: HashSet<Vec<u8>> = HashSet::new();
            let mut key = Vec::new();
            run(input, machine, data, &mut |machine, data| {
                key.clear();
                for value in values {
                    let value = value.evaluate(machine)?;
                    write_distinct(value, &machine.frame.arena, &mut key);
                }
                if seen.contains(&key) {
                    return Ok(Flow::Continue);
                }
                seen.insert(key.clone());
                sink(machine, data)
            })
        }
        Plan::Sort { input, keys, registers, wanted } => {
            sort(input, (keys, registers, wanted), machine, data, sink)
        }
        Plan::Limit { input, offset, limit } => {
            let [offset, limit] = counts_of([offset.as_ref(), limit.as_ref()], machine)?;
            let (offset, limit) = (offset.unwrap_or(0), limit.unwrap_or(usize::MAX));
            if limit == 0 {
                return Ok(Flow::Continue);
            }
            let (mut seen, mut outer) = (0usize, Flow::Continue);
            run(input, machine, data, &mut |machine, data| {
                seen += 1;
                if seen <= offset {
                    return Ok(Flow::Continue);
                }
                outer = sink(machine, data)?;
                Ok(if seen - offset >= limit { Flow::Stop } else { outer })
            })?;
            Ok(outer)
        }
        Plan::Union { inputs } => {
            for input in inputs {
                if run(input, machine, data, sink)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Ok(Flow::Continue)
        }
        Plan::Combine { combination, all, inputs, registers } => {
            combine(*combination, *all, inputs, registers, machine, data, sink)
        }
        Plan::Keep { slot, input, registers } => {
            let rows = match machine.frame.slots.get(*slot) {
                Kept::Rows(rows) => rows,
                _ => {
                    let rows = Arc::new(collect(input, registers, machine, data)?);
                    machine.frame.slots.set(*slot, Kept::Rows(Arc::clone(&rows)));
                    rows
                }
            };
            read(&rows, registers, machine, data, sink)
        }
        Plan::With { named, input } => {
            for (slot, plan, registers) in named {
                let rows = collect(plan, registers, machine, data)?;
                machine.frame.slots.set(*slot, Kept::Rows(Arc::new(rows)));
            }
            run(input, machine, data, sink)
        }
        Plan::Recursive(own) => subquery::run_recursive(own, machine, data, sink),
        Plan::Named { slot, name, registers } => match machine.frame.slots.get(*slot) {
            Kept::Rows(rows) => read(&rows, registers, machine, data, sink),
            _ => unreachable!("\"{name}\" runs before the query that refers to it"),
        },
        Plan::Insert(insert) => write::insert(insert, machine, data, sink),
        Plan::Update(update) => write::update(update, machine, data, sink),
        Plan::Delete(delete) => write::delete(delete, machine, data, sink),
    }
}

/// Calls a function for a row of a query. The scans of the function do not disturb the scan of the query, and
/// the rows that it writes are not counted among those of the statement.
fn call_within<D: Transaction>(
    function: &Procedure,
    arguments: &[Expression],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    let affected = machine.frame.affected;
    data.enter_scan();
    let called = call(function, arguments, outputs, machine, data);
    data.leave_scan();
    machine.frame.affected = affected;
    called
}

fn scan<D: Transaction>(
    access: &Access,
    handle: Option<Register>,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    data.enter_scan();
    let mut outer = Flow::Continue;
    let mark = machine.frame.arena.mark();
    let result = for_each_row(access, machine, data, |row, machine, data| {
        if let Some(handle) = handle {
            machine.set(handle, Datum::Int(data.keep(row)));
        }
        outer = sink(machine, data)?;
        machine.frame.arena.release(mark);
        Ok(outer)
    });
    data.leave_scan();
    result?;
    machine.frame.arena.release(mark);
    Ok(outer)
}

/// Fails when the client has cancelled the query, or the query keeps too much memory. Called at every row.
pub(super) fn check_cancelled(machine: &mut Machine) -> Result<(), Failure> {
    Ok(machine.check_row()?)
}

fn table_function<D: Transaction>(
    function: TableFunction,
    (arguments, registers, ordinality): (&[Expression], &[Register], Option<Register>),
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let values = arguments.iter().map(|own| own.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
    let mut number = 0;
    let mut emit = |row: &[Datum], machine: &mut Machine, data: &mut D| {
        check_cancelled(machine)?;
        number += 1;
        for (register, value) in registers.iter().zip(row) {
            machine.set(*register, *value);
        }
        if let Some(ordinality) = ordinality {
            machine.set(ordinality, Datum::Int(number));
        }
        let mark = machine.frame.arena.mark();
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        Ok::<Flow, Failure>(flow)
    };
    match function {
        TableFunction::Unnest => {
            let length = |value: &Datum| if let Datum::Array(span) = value { span.length } else { 0 };
            let longest = values.iter().map(length).max().unwrap_or(0) as usize;
            let mut row = vec![Datum::Null; values.len()];
            for place in 0..longest {
                for (value, array) in row.iter_mut().zip(&values) {
                    *value = match array {
                        Datum::Array(span) => {
                            machine.frame.arena.elements(*span).get(place).copied().unwrap_or(Datum::Null)
                        }
                        _ => Datum::Null,
                    };
                }
                if emit(&row, machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        TableFunction::Json(rows) => {
            let columns = registers.len();
            for row in rows.of(values[0], machine)?.chunks(columns) {
                if emit(row, machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        TableFunction::Series => {
            let Some((mut at, end, step)) = bounds_of_series(&values)? else {
                return Ok(Flow::Continue);
            };
            while if step > 0 { at <= end } else { at >= end } {
                if emit(&[Datum::Int(at)], machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
                let Some(next) = at.checked_add(step) else { break };
                at = next;
            }
        }
    }
    Ok(Flow::Continue)
}

/// Runs a node and returns copies of all its rows.
pub(super) fn collect<D: Transaction>(
    plan: &Plan,
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
) -> Result<Buffer, Failure> {
    let mut rows = Buffer::new(registers.len());
    run(plan, machine, data, &mut |machine, _| {
        rows.push_registers(registers, machine)?;
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

/// Hands on the rows of a buffer.
pub(super) fn read<D: Transaction>(
    rows: &Buffer,
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    read_in(rows, 0..rows.len(), registers, machine, data, sink)
}

fn read_in<D: Transaction>(
    rows: &Buffer,
    order: impl Iterator<Item = usize>,
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    for row in order {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        rows.load(row, registers, machine);
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

fn group<D: Transaction>(
    input: &Plan,
    keys: &[(Register, Expression)],
    aggregates: &[Aggregate],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut rows = Buffer::new(keys.len());
    let mut running: Vec<Accumulator> = Vec::new();
    let begin =
        |running: &mut Vec<Accumulator>| running.extend(aggregates.iter().map(|_| Accumulator::new()));
    if keys.is_empty() {
        rows.push([], &machine.frame.arena)?;
        begin(&mut running);
    }
    let (mut key, mut values) = (Vec::new(), Vec::new());
    run(input, machine, data, &mut |machine, _| {
        let mut place = 0;
        if !keys.is_empty() {
            key.clear();
            values.clear();
            for (_, value) in keys {
                let value = value.evaluate(machine)?;
                write_distinct(value, &machine.frame.arena, &mut key);
                values.push(value);
            }
            place = match places.get(&key) {
                Some(place) => *place,
                None => {
                    rows.push(values.iter().copied(), &machine.frame.arena)?;
                    begin(&mut running);
                    places.insert(key.clone(), rows.len() - 1);
                    rows.len() - 1
                }
            };
        }
        let own = &mut running[place * aggregates.len()..][..aggregates.len()];
        add_row(own, aggregates, machine)
    })?;
    drop(places);
    let registers: Vec<_> = keys.iter().map(|(register, _)| *register).collect();
    for row in 0..rows.len() {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        rows.load(row, &registers, machine);
        let own = &mut running[row * aggregates.len()..][..aggregates.len()];
        for (accumulator, aggregate) in own.iter_mut().zip(aggregates) {
            let value = accumulator.finish(aggregate, machine)?;
            machine.set(aggregate.target, value);
        }
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}

/// Compares the sort keys `a` and `b` of two rows. Their values lie in the arena of `rows`.
pub(crate) fn compare_keys(keys: &[SortKey], a: &[Datum], b: &[Datum], rows: &Buffer) -> Ordering {
    for ((key, a), b) in keys.iter().zip(a).zip(b) {
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let order = compare_across(key.class, (*a, &rows.arena), (*b, &rows.arena));
                if key.descending { order.reverse() } else { order }
            }
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn sort<D: Transaction>(
    input: &Plan,
    (keys, registers, wanted): (&[SortKey], &[Register], &[Option<Expression>; 2]),
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let counts = counts_of([wanted[0].as_ref(), wanted[1].as_ref()], machine)?;
    let enough = match (wanted, counts) {
        ([_, Some(_)], [skipped, Some(limit)]) => skipped.unwrap_or(0).saturating_add(limit),
        _ => usize::MAX,
    };
    let width = registers.len();
    let mut rows = Buffer::new(width + keys.len());
    let order_of = |rows: &Buffer, machine: &Machine| {
        // 4 bytes a row for the order, and 2 for the temporary memory of the sort.
        machine.ask_kept(rows.len() * 6)?;
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        let key = |row: u32| &rows.row(row as usize)[width..];
        order.sort_by(|a, b| compare_keys(keys, key(*a), key(*b), rows));
        order.truncate(enough);
        Ok::<_, SqlError>(order)
    };
    run(input, machine, data, &mut |machine, _| {
        let mark = machine.frame.arena.mark();
        let mut row: Vec<Datum> = registers.iter().map(|register| machine.get(*register)).collect();
        for key in keys {
            row.push(key.value.evaluate(machine)?);
        }
        rows.push(row, &machine.frame.arena)?;
        machine.frame.arena.release(mark);
        if rows.len() / 2 > enough.max(SORT_AT_LEAST) {
            let mut best = Buffer::new(width + keys.len());
            for row in order_of(&rows, machine)? {
                best.push(rows.row(row as usize).iter().copied(), &rows.arena)?;
            }
            rows = best;
        }
        Ok(Flow::Continue)
    })?;
    let order = order_of(&rows, machine)?;
    read_in(&rows, order.into_iter().map(|row| row as usize), registers, machine, data, sink)
}

fn combine<D: Transaction>(
    combination: Combination,
    all: bool,
    inputs: &[Plan; 2],
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let write = |machine: &Machine, key: &mut Vec<u8>| {
        key.clear();
        registers.iter().for_each(|own| write_distinct(machine.get(*own), &machine.frame.arena, key));
    };
    let mut counts: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut key = Vec::new();
    run(&inputs[1], machine, data, &mut |machine, _| {
        write(machine, &mut key);
        *counts.entry(key.clone()).or_default() += 1;
        Ok(Flow::Continue)
    })?;
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    run(&inputs[0], machine, data, &mut |machine, data| {
        write(machine, &mut key);
        let other = counts.get_mut(&key).filter(|count| **count > 0);
        let is_there = other.is_some();
        if let (true, Some(count)) = (all, other) {
            *count -= 1;
        }
        let wanted = is_there == (combination == Combination::Intersect);
        if !wanted || !all && !seen.insert(key.clone()) {
            return Ok(Flow::Continue);
        }
        sink(machine, data)
    })
}
