//! Runs plans: each node pushes its rows into the sink of the node above it.

use super::buffer::Buffer;
use super::key::write_distinct;
use super::measure::Measures;
use super::series::Series;
use super::slots::SlotContent;
use super::{
    Beside, Combination, HeldRows, HeldTable, Plan, Query, TableFunction, group, join, sort, subquery,
    window, write,
};
use crate::execution::access::row_of;
use crate::execution::control::call;
use crate::execution::rows::{Flow, for_each_row};
use crate::{
    Access, Cast, Conflict, Expression, Failure, HoldStrength, Machine, Procedure, Register, SkippingSearch,
    SqlError, Transaction,
};
use catalog::{Datum, TableId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Consumes the row in the registers. Returns whether to go on.
pub(crate) type Sink<'s, D> = dyn FnMut(&mut Machine, &mut D) -> Result<Flow, Failure> + 's;

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

/// Holds each row of a plan before the next one is read. With NOWAIT neither the search for rows nor the hold
/// waits; the statements that use the rows may wait.
fn hold_rows<D: Transaction>(
    input: &Plan,
    tables: &[HeldTable],
    held: HeldRows,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    if let HeldRows::Skip { is_alone } = held {
        return skip_locked(input, tables, is_alone, machine, data, sink);
    }
    let nowait = held == HeldRows::Fail;
    let mut is_found = false;
    let is_written = |held: &&HeldTable| held.strength == HoldStrength::Exclusive;
    let written = tables.iter().find(is_written).map(|held| held.table);
    data.will_write(written);
    data.never_wait(nowait);
    let ran = run(input, machine, data, &mut |machine, data| {
        for HeldTable { table, handle, strength } in tables {
            let number = machine.get(*handle);
            if !number.is_null() {
                data.hold(*table, row_of(number, data)?, *strength)?;
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

/// Holds those rows of a plan that no other transaction holds.
fn skip_locked<D: Transaction>(
    input: &Plan,
    tables: &[HeldTable],
    is_alone: bool,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let numbers: Vec<TableId> = tables.iter().map(|held| held.table).collect();
    data.begin_skipping(SkippingSearch { tables: &numbers, is_alone });
    let ran = run(input, machine, data, &mut |machine, data| {
        for HeldTable { table, handle, strength } in tables {
            let number = machine.get(*handle);
            if !number.is_null() && !data.hold_unless_locked(*table, row_of(number, data)?, *strength)? {
                return Ok(Flow::Continue);
            }
        }
        data.pause_skipping();
        let flow = sink(machine, data)?;
        data.resume_skipping();
        Ok(flow)
    });
    data.end_skipping();
    ran
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
        Plan::Together { parts, ordinality } => together(parts, *ordinality, machine, data, sink),
        Plan::Filter { input, condition } => run(input, machine, data, &mut |machine, data| {
            if condition.evaluate(machine)?.is_true() { sink(machine, data) } else { Ok(Flow::Continue) }
        }),
        Plan::Hold { input, tables, held } => {
            let is_shared = |held: &HeldTable| held.strength == HoldStrength::Shared;
            let word = if tables.iter().all(is_shared) { "SELECT FOR SHARE" } else { "SELECT FOR UPDATE" };
            machine.services.check_writes(word)?;
            hold_rows(input, tables, *held, machine, data, sink)
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
            let width = procedure.rows.iter().flatten().count() + usize::from(procedure.is_row);
            machine.frame.returned.push(Buffer::new(width));
            call_within(procedure, arguments, &[], machine, data)?;
            let rows = machine.frame.returned.pop().unwrap_or_else(|| Buffer::new(width));
            for index in 0..rows.len() {
                let mark = machine.frame.arena.mark();
                rows.load(index, registers, machine);
                if let Some(ordinality) = ordinality {
                    machine.set(*ordinality, Datum::Int(index as i64 + 1));
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
        Plan::Group { input, keys, forms, aggregates, sets } => {
            let keys = group::Keys { values: keys, forms, sets };
            group::run_group(input, keys, aggregates, machine, data, sink)
        }
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
            sort::sort(input, (keys, registers, wanted), machine, data, sink)
        }
        Plan::Window(window) => window::run_window(window, machine, data, sink),
        Plan::Limit { input, offset, limit, ties } => {
            sort::limit(input, [offset.as_ref(), limit.as_ref()], ties, machine, data, sink)
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
                SlotContent::Rows(rows) => rows,
                _ => {
                    let rows = Arc::new(collect(input, registers, machine, data)?);
                    machine.frame.slots.set(*slot, SlotContent::Rows(Arc::clone(&rows)));
                    rows
                }
            };
            read(&rows, registers, machine, data, sink)
        }
        Plan::With { named, input } => {
            for (slot, plan, registers) in named {
                let rows = collect(plan, registers, machine, data)?;
                machine.frame.slots.set(*slot, SlotContent::Rows(Arc::new(rows)));
            }
            run(input, machine, data, sink)
        }
        Plan::Recursive(query) => subquery::run_recursive(query, machine, data, sink),
        Plan::Named { slot, name, registers } => match machine.frame.slots.get(*slot) {
            SlotContent::Rows(rows) => read(&rows, registers, machine, data, sink),
            _ => unreachable!("\"{name}\" runs before the query that refers to it"),
        },
        Plan::Insert(insert) => write::insert(insert, machine, data, sink),
        Plan::Update(update) => write::update(update, machine, data, sink),
        Plan::Delete(delete) => write::delete(delete, machine, data, sink),
        Plan::Merge(merge) => write::merge(merge, machine, data, sink),
    }
}

/// Calls a function for a row of a query. The scans of the function do not disturb the scan of the query.
fn call_within<D: Transaction>(
    function: &Procedure,
    arguments: &[Expression],
    outputs: &[(Register, Cast)],
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    data.enter_scan();
    let called = call(function, arguments, outputs, machine, data);
    data.leave_scan();
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
    let values =
        arguments.iter().map(|argument| argument.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
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
            for index in 0..longest {
                for (value, array) in row.iter_mut().zip(&values) {
                    *value = match array {
                        Datum::Array(span) => {
                            machine.frame.arena.elements(*span).get(index).copied().unwrap_or(Datum::Null)
                        }
                        _ => Datum::Null,
                    };
                }
                if emit(&row, machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        TableFunction::Json(_) | TableFunction::Live(_) => {
            let all = match function {
                TableFunction::Json(rows) => rows.of(values[0], machine)?,
                TableFunction::Live(relation) => machine.live_rows(relation),
                _ => Vec::new(),
            };
            for row in all.chunks(registers.len()) {
                if emit(row, machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        TableFunction::Series(of) => {
            let mut series = Series::new(of, &values, &machine.frame.arena)?;
            loop {
                let mark = machine.frame.arena.mark();
                let Some(value) = series.next(&mut machine.frame.arena)? else { break };
                if emit(&[value], machine, data)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
                machine.frame.arena.release(mark);
            }
        }
    }
    Ok(Flow::Continue)
}

/// Runs functions side by side, up to the end of the longest. The values of functions that have ended are
/// NULL.
/// Source: PostgreSQL 15, `nodeProjectSet.c`.
fn together<D: Transaction>(
    parts: &[Beside],
    ordinality: Option<Register>,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let rows = parts.iter().map(|part| collect(&part.plan, &part.registers, machine, data));
    let rows: Vec<Buffer> = rows.collect::<Result<_, _>>()?;
    for row in 0..rows.iter().map(Buffer::len).max().unwrap_or(0) {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        for (part, rows) in parts.iter().zip(&rows) {
            if row < rows.len() {
                rows.load(row, &part.registers, machine);
            } else {
                part.registers.iter().for_each(|register| machine.set(*register, Datum::Null));
            }
        }
        if let Some(ordinality) = ordinality {
            machine.set(ordinality, Datum::Int(row as i64 + 1));
        }
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
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

/// Passes the rows of a buffer to the sink.
pub(super) fn read<D: Transaction>(
    rows: &Buffer,
    registers: &[Register],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    read_in(rows, 0..rows.len(), registers, machine, data, sink)
}

pub(super) fn read_in<D: Transaction>(
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
        registers
            .iter()
            .for_each(|register| write_distinct(machine.get(*register), &machine.frame.arena, key));
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
