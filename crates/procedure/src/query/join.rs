//! Nested-loop joins and hash joins.

use super::buffer::Buffer;
use super::key::write_equal;
use super::run::{Sink, check_cancelled, run};
use super::{JoinKey, JoinKind, Plan};
use crate::execution::rows::Flow;
use crate::{Failure, Machine, Register, Transaction};
use catalog::Datum;
use std::collections::HashMap;

fn set_null(registers: &[Register], machine: &mut Machine) {
    registers.iter().for_each(|register| machine.set(*register, Datum::Null));
}

/// Runs a nested-loop join.
pub(super) fn run_loop<D: Transaction>(
    plan: &Plan,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Plan::Loop { outer, inner, kind, condition, inner_registers } = plan else {
        unreachable!("the node is a nested-loop join")
    };
    run(outer, machine, data, &mut |machine, data| {
        let mut matched = false;
        let flow = run(inner, machine, data, &mut |machine, data| {
            if let Some(condition) = condition
                && !condition.evaluate(machine)?.is_true()
            {
                return Ok(Flow::Continue);
            }
            matched = true;
            sink(machine, data)
        })?;
        if matched || *kind == JoinKind::Inner {
            return Ok(flow);
        }
        set_null(inner_registers, machine);
        sink(machine, data)
    })
}

/// The rows of the build side, by key.
struct HashTable {
    rows: Buffer,
    /// The last row of each key.
    last: HashMap<Vec<u8>, u32>,
    /// For each row, the previous row with the same key; `None` also for a row whose key has a NULL.
    before: Vec<Option<u32>>,
}

/// Encodes the key of the row in the registers. Returns false if a value of it is NULL.
fn write_key(
    keys: &[JoinKey],
    is_probe: bool,
    machine: &mut Machine,
    out: &mut Vec<u8>,
) -> Result<bool, Failure> {
    out.clear();
    for key in keys {
        let value = if is_probe { &key.probe } else { &key.build };
        let value = value.evaluate(machine)?;
        if !write_equal(value, key.class, is_probe, &machine.frame.arena, out) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs a hash join.
pub(super) fn run_hash<D: Transaction>(
    plan: &Plan,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Plan::Hash { probe, build, keys, kind, condition, probe_registers, build_registers } = plan else {
        unreachable!("the node is a hash join")
    };
    let mut table =
        HashTable { rows: Buffer::new(build_registers.len()), last: HashMap::new(), before: Vec::new() };
    let mut key = Vec::new();
    run(build, machine, data, &mut |machine, _| {
        let has_key = write_key(keys, false, machine, &mut key)?;
        if !has_key && *kind != JoinKind::Full {
            return Ok(Flow::Continue);
        }
        let row = table.rows.len() as u32;
        table.rows.push_registers(build_registers, machine)?;
        table.before.push(if has_key { table.last.insert(key.clone(), row) } else { None });
        Ok(Flow::Continue)
    })?;
    let mut matched = vec![false; if *kind == JoinKind::Full { table.rows.len() } else { 0 }];
    let flow = run(probe, machine, data, &mut |machine, data| {
        let mut found = false;
        let mut next =
            if write_key(keys, true, machine, &mut key)? { table.last.get(&key).copied() } else { None };
        while let Some(row) = next {
            check_cancelled(machine)?;
            next = table.before[row as usize];
            let mark = machine.frame.arena.mark();
            table.rows.load(row as usize, build_registers, machine);
            let holds = match condition {
                Some(condition) => condition.evaluate(machine)?.is_true(),
                None => true,
            };
            let mut flow = Flow::Continue;
            if holds {
                found = true;
                if let Some(matched) = matched.get_mut(row as usize) {
                    *matched = true;
                }
                flow = sink(machine, data)?;
            }
            machine.frame.arena.release(mark);
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        if found || *kind == JoinKind::Inner {
            return Ok(Flow::Continue);
        }
        set_null(build_registers, machine);
        sink(machine, data)
    })?;
    if flow == Flow::Stop || *kind != JoinKind::Full {
        return Ok(flow);
    }
    for (row, _) in matched.iter().enumerate().filter(|(_, matched)| !**matched) {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        set_null(probe_registers, machine);
        table.rows.load(row, build_registers, machine);
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
