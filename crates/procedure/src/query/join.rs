//! Nested-loop joins and hash joins.
//!
//! A hash join that looks up single rows reads its build side for the first row without a hash table, as a
//! nested loop would: a statement that looks up only one row stops at the first match, and copies nothing.

use super::key::write_equal;
use super::run::{Sink, check_cancelled, run};
use super::slots::SlotContent;
use super::table::HashTable;
use super::{JoinKey, JoinKind, Plan, SlotId};
use crate::execution::rows::Flow;
use crate::{Expression, Failure, Machine, Register, Transaction};
use catalog::Datum;
use std::sync::Arc;

/// A hash join. The build rows that match a row keep the order of the build node.
///
/// A subquery looks the rows of a table up by values of the outer query: the probe is one row (`Plan::One`).
#[derive(Clone, Debug)]
pub struct HashJoin {
    /// The left node; each of its rows is looked up in the hash table.
    pub probe: Box<Plan>,
    /// The right node, whose rows fill the hash table.
    pub build: Box<Plan>,
    /// The values that must be equal.
    pub keys: Vec<JoinKey>,
    /// How the nodes are joined; the probe is left.
    pub kind: JoinKind,
    /// The join condition, beyond the keys.
    pub condition: Option<Expression>,
    /// The registers that the probe sets; only for `JoinKind::Full`.
    pub probe_registers: Vec<Register>,
    /// The registers that the build node sets, and that the condition or a later node reads.
    pub build_registers: Vec<Register>,
    /// The slot of the hash table, if the build node has the same rows in every run of this node. `None`:
    /// each run builds a table.
    pub kept: Option<SlotId>,
}

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

fn holds(condition: Option<&Expression>, machine: &mut Machine) -> Result<bool, Failure> {
    match condition {
        Some(condition) => Ok(condition.evaluate(machine)?.is_true()),
        None => Ok(true),
    }
}

impl HashJoin {
    /// Returns whether it looks up the rows that belong to a row of the outer query.
    pub fn is_lookup(&self) -> bool {
        self.kind == JoinKind::Inner && self.kept.is_some() && matches!(*self.probe, Plan::One)
    }

    /// Returns whether the first row is looked up without a table.
    fn begins_with_scan(&self) -> bool {
        matches!(self.kind, JoinKind::Semi | JoinKind::Anti) || self.is_lookup()
    }

    fn built<D: Transaction>(&self, machine: &mut Machine, data: &mut D) -> Result<Arc<HashTable>, Failure> {
        let mut table = HashTable::new(self.build_registers.len());
        let mut key = Vec::new();
        let is_about_matches = matches!(self.kind, JoinKind::Semi | JoinKind::Anti);
        let counts_once = is_about_matches && self.condition.is_none();
        run(&self.build, machine, data, &mut |machine, _| {
            let key = write_key(&self.keys, false, machine, &mut key)?.then_some(key.as_slice());
            let is_wanted = match key {
                Some(key) => !counts_once || !table.has(key),
                None => self.kind == JoinKind::Full,
            };
            if is_wanted {
                table.add(key, &self.build_registers, machine)?;
            }
            Ok(Flow::Continue)
        })?;
        Ok(Arc::new(table))
    }

    /// Returns the hash table; `None` for the first row, whose matches are found without a table.
    fn table<D: Transaction>(
        &self,
        state: &mut SlotContent,
        machine: &mut Machine,
        data: &mut D,
    ) -> Result<Option<Arc<HashTable>>, Failure> {
        *state = match state {
            SlotContent::Table(table) => return Ok(Some(Arc::clone(table))),
            SlotContent::Nothing if self.begins_with_scan() => SlotContent::Scanned,
            _ => SlotContent::Table(self.built(machine, data)?),
        };
        if let Some(slot) = self.kept {
            machine.frame.slots.set(slot, state.clone());
        }
        Ok(if let SlotContent::Table(table) = state { Some(Arc::clone(table)) } else { None })
    }

    /// Calls `visit` for each match of a row, with the number of the build row in the table, until it stops.
    fn for_each_match<D: Transaction>(
        &self,
        table: Option<&HashTable>,
        probe: &[u8],
        machine: &mut Machine,
        data: &mut D,
        mut visit: impl FnMut(usize, &mut Machine, &mut D) -> Result<Flow, Failure>,
    ) -> Result<Flow, Failure> {
        let Some(table) = table else {
            let mut key = Vec::new();
            return run(&self.build, machine, data, &mut |machine, data| {
                let is_match = write_key(&self.keys, false, machine, &mut key)?
                    && key == probe
                    && holds(self.condition.as_ref(), machine)?;
                if is_match { visit(0, machine, data) } else { Ok(Flow::Continue) }
            });
        };
        for row in table.rows_of(probe) {
            check_cancelled(machine)?;
            let mark = machine.frame.arena.mark();
            table.load(row, &self.build_registers, machine);
            let is_match = holds(self.condition.as_ref(), machine)?;
            let flow = if is_match { visit(row, machine, data)? } else { Flow::Continue };
            machine.frame.arena.release(mark);
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Runs a hash join.
pub(super) fn run_hash<D: Transaction>(
    join: &HashJoin,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let HashJoin { probe, keys, kind, build_registers, .. } = join;
    let mut state = join.kept.map(|slot| machine.frame.slots.get(slot)).unwrap_or_default();
    let mut matched = Vec::new();
    if !join.begins_with_scan() {
        let table = join.table(&mut state, machine, data)?;
        if let (JoinKind::Full, Some(table)) = (kind, table) {
            matched.resize(table.len(), false);
        }
    }
    let mut key = Vec::new();
    let flow = run(probe, machine, data, &mut |machine, data| {
        let mut is_found = false;
        let mut flow = Flow::Continue;
        if write_key(keys, true, machine, &mut key)? {
            let table = join.table(&mut state, machine, data)?;
            flow = join.for_each_match(table.as_deref(), &key, machine, data, |row, machine, data| {
                is_found = true;
                if let Some(matched) = matched.get_mut(row) {
                    *matched = true;
                }
                match kind {
                    JoinKind::Semi | JoinKind::Anti => Ok(Flow::Stop),
                    _ => sink(machine, data),
                }
            })?;
        }
        match kind {
            JoinKind::Semi if is_found => sink(machine, data),
            JoinKind::Semi => Ok(Flow::Continue),
            JoinKind::Anti if is_found => Ok(Flow::Continue),
            JoinKind::Left | JoinKind::Full if !is_found => {
                set_null(build_registers, machine);
                sink(machine, data)
            }
            JoinKind::Anti => sink(machine, data),
            JoinKind::Inner | JoinKind::Left | JoinKind::Full => Ok(flow),
        }
    })?;
    match (kind, state) {
        (JoinKind::Full, SlotContent::Table(table)) if flow == Flow::Continue => {
            unmatched(join, &table, &matched, machine, data, sink)
        }
        _ => Ok(flow),
    }
}

/// Passes to the sink the build rows of a full join that have no match.
fn unmatched<D: Transaction>(
    join: &HashJoin,
    table: &HashTable,
    matched: &[bool],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    for (row, _) in matched.iter().enumerate().filter(|(_, is_matched)| !**is_matched) {
        check_cancelled(machine)?;
        let mark = machine.frame.arena.mark();
        set_null(&join.probe_registers, machine);
        table.load(row, &join.build_registers, machine);
        let flow = sink(machine, data)?;
        machine.frame.arena.release(mark);
        if flow == Flow::Stop {
            return Ok(Flow::Stop);
        }
    }
    Ok(Flow::Continue)
}
