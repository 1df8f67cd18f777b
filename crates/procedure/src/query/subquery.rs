//! Evaluates subqueries: values, EXISTS, ANY and ALL (with IN), arrays, and recursive queries.

use super::buffer::Buffer;
use super::key::{EncodedRow, KeySet, write_distinct, write_equal};
use super::run::{Sink, check_cancelled, read, run};
use super::slots::SlotContent;
use super::{JoinKey, Plan, Question, Recursive, Subquery};
use crate::execution::rows::Flow;
use crate::ir::compare::compare;
use crate::{Failure, Machine, Register, SqlError, Transaction};
use catalog::Datum;
use std::collections::HashSet;
use std::sync::Arc;

/// Evaluates a subquery for the row in the registers, and sets the registers of its answer.
pub(super) fn answer<D: Transaction>(
    subquery: &Subquery,
    machine: &mut Machine,
    data: &mut D,
) -> Result<(), Failure> {
    match &subquery.question {
        Question::Values { pairs } => {
            let (from, to): (Vec<Register>, Vec<Register>) = pairs.iter().copied().unzip();
            let rows = rows_of(subquery, &from, 2, machine, data)?;
            match rows.len() {
                0 => to.iter().for_each(|target| machine.set(*target, Datum::Null)),
                1 => rows.load(0, &to, machine),
                _ => {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(SqlError::new("21000", message).into());
                }
            }
        }
        Question::Exists { target } => {
            let mut found = matches!(kept(subquery, machine), SlotContent::Flag(true));
            if !matches!(kept(subquery, machine), SlotContent::Flag(_)) {
                run(&subquery.plan, machine, data, &mut |_, _| {
                    found = true;
                    Ok(Flow::Stop)
                })?;
                keep(subquery, SlotContent::Flag(found), machine);
            }
            machine.set(*target, Datum::boolean(found));
        }
        Question::In { target, keys } => {
            let answer = is_among(subquery, keys, machine, data)?;
            machine.set(*target, answer);
        }
        Question::Quantified { target, operator, class, value, row, all } => {
            let value = value.evaluate(machine)?;
            // ANY is false until a comparison is true; ALL is true until a comparison is false.
            let mut answer = Datum::boolean(*all);
            let decided = Datum::boolean(!*all);
            run(&subquery.plan, machine, data, &mut |machine, _| {
                let other = row.evaluate(machine)?;
                if value.is_null() || other.is_null() {
                    answer = Datum::Null;
                    return Ok(Flow::Continue);
                }
                let holds =
                    Datum::boolean(operator.holds(compare(*class, value, other, &machine.frame.arena)));
                if holds == decided {
                    answer = decided;
                    return Ok(Flow::Stop);
                }
                Ok(Flow::Continue)
            })?;
            machine.set(*target, answer);
        }
        Question::Array { value, target } => {
            let rows = rows_of(subquery, &[*value], usize::MAX, machine, data)?;
            let bytes = rows.len() * size_of::<Datum>();
            machine.ask_kept(bytes)?;
            machine.ask_memory(bytes)?;
            let mut elements = Vec::with_capacity(rows.len());
            for row in 0..rows.len() {
                elements.push(machine.frame.arena.adopt(rows.row(row)[0], &rows.arena));
            }
            let array = machine.frame.arena.push_array(&elements);
            machine.set(*target, array);
        }
    }
    Ok(())
}

fn kept(subquery: &Subquery, machine: &Machine) -> SlotContent {
    subquery.kept.map(|slot| machine.frame.slots.get(slot)).unwrap_or_default()
}

fn keep(subquery: &Subquery, kept: SlotContent, machine: &mut Machine) {
    if let Some(slot) = subquery.kept {
        machine.frame.slots.set(slot, kept);
    }
}

/// Returns the rows of a subquery, at most `enough`. Runs it only if its slot has no rows.
fn rows_of<D: Transaction>(
    subquery: &Subquery,
    registers: &[Register],
    enough: usize,
    machine: &mut Machine,
    data: &mut D,
) -> Result<Arc<Buffer>, Failure> {
    if let SlotContent::Rows(rows) = kept(subquery, machine) {
        return Ok(rows);
    }
    let mut rows = Buffer::new(registers.len());
    run(&subquery.plan, machine, data, &mut |machine, _| {
        rows.push_registers(registers, machine)?;
        Ok(if rows.len() >= enough { Flow::Stop } else { Flow::Continue })
    })?;
    let rows = Arc::new(rows);
    keep(subquery, SlotContent::Rows(Arc::clone(&rows)), machine);
    Ok(rows)
}

/// Returns whether a row of a subquery has the values of the row in the registers; NULL if a NULL decides.
fn is_among<D: Transaction>(
    subquery: &Subquery,
    keys: &[JoinKey],
    machine: &mut Machine,
    data: &mut D,
) -> Result<Datum, Failure> {
    if subquery.kept.is_some() {
        let found = keys_of(subquery, keys, machine, data)?;
        if found.keys.is_empty() && found.partial.is_empty() {
            return Ok(Datum::boolean(false));
        }
        let mut key = Vec::new();
        let is_whole = write_whole(keys, true, machine, &mut key)?;
        if is_whole && found.keys.contains(&key) {
            return Ok(Datum::boolean(true));
        }
        if is_whole && found.partial.is_empty() {
            return Ok(Datum::boolean(false));
        }
        let values = encoded(keys, true, machine)?;
        let mut rows = found.partial.iter().chain(if is_whole { &[][..] } else { &found.rows });
        return Ok(if rows.any(|row| may_equal(&values, row)) { Datum::Null } else { Datum::boolean(false) });
    }
    let values = encoded(keys, true, machine)?;
    let mut answer = Datum::boolean(false);
    run(&subquery.plan, machine, data, &mut |machine, _| {
        let row = encoded(keys, false, machine)?;
        if !may_equal(&values, &row) {
            return Ok(Flow::Continue);
        }
        if values.iter().chain(&row).any(Option::is_none) {
            answer = Datum::Null;
            return Ok(Flow::Continue);
        }
        answer = Datum::boolean(true);
        Ok(Flow::Stop)
    })?;
    Ok(answer)
}

/// Returns the encoded values of one side of a comparison of rows; `None` for NULL.
fn encoded(keys: &[JoinKey], is_left: bool, machine: &mut Machine) -> Result<EncodedRow, Failure> {
    let mut values = Vec::with_capacity(keys.len());
    for JoinKey { class, probe, build } in keys {
        let value = if is_left { probe } else { build }.evaluate(machine)?;
        let mut bytes = Vec::new();
        values.push(write_equal(value, *class, is_left, &machine.frame.arena, &mut bytes).then_some(bytes));
    }
    Ok(values)
}

/// Appends the key of one side of a comparison of rows. Returns false if one of its values is NULL.
fn write_whole(
    keys: &[JoinKey],
    is_left: bool,
    machine: &mut Machine,
    out: &mut Vec<u8>,
) -> Result<bool, Failure> {
    for JoinKey { class, probe, build } in keys {
        let value = if is_left { probe } else { build }.evaluate(machine)?;
        if !write_equal(value, *class, is_left, &machine.frame.arena, out) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether two rows have no values that differ.
fn may_equal(values: &[Option<Vec<u8>>], row: &[Option<Vec<u8>>]) -> bool {
    values.iter().zip(row).all(|pair| !matches!(pair, (Some(a), Some(b)) if a != b))
}

/// Returns the set of a subquery's rows. Runs it only if its slot has no keys.
fn keys_of<D: Transaction>(
    subquery: &Subquery,
    keys: &[JoinKey],
    machine: &mut Machine,
    data: &mut D,
) -> Result<Arc<KeySet>, Failure> {
    if let SlotContent::Keys(keys) = kept(subquery, machine) {
        return Ok(keys);
    }
    let mut found = KeySet::default();
    run(&subquery.plan, machine, data, &mut |machine, _| {
        let mut key = Vec::new();
        let is_whole = write_whole(keys, false, machine, &mut key)?;
        let is_new = !is_whole || found.keys.insert(key);
        let rows = if is_whole { &mut found.rows } else { &mut found.partial };
        // Of rows of one value, a row with NULL on either side leaves open whether they are equal.
        if is_new && (keys.len() > 1 || rows.is_empty()) {
            rows.push(encoded(keys, false, machine)?);
        }
        Ok(Flow::Continue)
    })?;
    let found = Arc::new(found);
    keep(subquery, SlotContent::Keys(Arc::clone(&found)), machine);
    Ok(found)
}

/// Runs a part of a recursive query, and returns its rows without those that were found before.
fn find<D: Transaction>(
    plan: &Plan,
    query: &Recursive,
    seen: &mut HashSet<Vec<u8>>,
    machine: &mut Machine,
    data: &mut D,
) -> Result<Buffer, Failure> {
    let mut rows = Buffer::new(query.registers.len());
    let mut key = Vec::new();
    run(plan, machine, data, &mut |machine, _| {
        if !query.all {
            key.clear();
            for register in &query.registers {
                write_distinct(machine.get(*register), &machine.frame.arena, &mut key);
            }
            if !seen.insert(key.clone()) {
                return Ok(Flow::Continue);
            }
        }
        rows.push_registers(&query.registers, machine)?;
        Ok(Flow::Continue)
    })?;
    Ok(rows)
}

/// Runs a recursive query.
pub(super) fn run_recursive<D: Transaction>(
    query: &Recursive,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let mut seen = HashSet::new();
    let mut found = find(&query.base, query, &mut seen, machine, data)?;
    while found.len() > 0 {
        check_cancelled(machine)?;
        let rows = Arc::new(found);
        if read(&rows, &query.registers, machine, data, sink)? == Flow::Stop {
            return Ok(Flow::Stop);
        }
        machine.frame.slots.set(query.slot, SlotContent::Rows(rows));
        query.renewed.iter().for_each(|slot| machine.frame.slots.set(*slot, SlotContent::Nothing));
        found = find(&query.step, query, &mut seen, machine, data)?;
    }
    Ok(Flow::Continue)
}
