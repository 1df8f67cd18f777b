//! Sorts the rows of a node.
//!
//! Invariant: a sort is stable. Rows with equal keys keep the order in which they come, so every run of a
//! statement over the same rows has the same order.

use super::buffer::Buffer;
use super::run::{Sink, read_in, run};
use super::{Plan, SortKey};
use crate::execution::rows::{Flow, counts_of};
use crate::ir::compare::compare_across;
use crate::{Expression, Failure, Machine, Register, SqlError, Transaction};
use catalog::Datum;
use std::cmp::Ordering;

/// A sort with a LIMIT drops the rows beyond the limit once it holds this many.
const SORT_AT_LEAST: usize = 1024;

/// Rows that are kept with their sort keys, and their order.
pub(super) struct SortedRows {
    /// Each row, followed by its keys.
    pub(super) rows: Buffer,
    /// The indexes of the rows, in order.
    pub(super) order: Vec<u32>,
    /// The number of values of a row before its keys.
    width: usize,
}

impl SortedRows {
    /// Returns the keys of the row at a position of the order.
    pub(super) fn keys(&self, position: usize) -> &[Datum] {
        &self.rows.row(self.order[position] as usize)[self.width..]
    }
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

/// Runs a node, and returns its first `enough` rows in order.
pub(super) fn sorted<D: Transaction>(
    input: &Plan,
    keys: &[SortKey],
    registers: &[Register],
    enough: usize,
    machine: &mut Machine,
    data: &mut D,
) -> Result<SortedRows, Failure> {
    let width = registers.len();
    let mut rows = Buffer::new(width + keys.len());
    let order_of = |rows: &Buffer, machine: &Machine| {
        // 4 bytes a row for the order, and 2 for the temporary memory of the sort.
        machine.ask_kept(rows.len() * 6)?;
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        if !keys.is_empty() {
            let key = |row: u32| &rows.row(row as usize)[width..];
            order.sort_by(|a, b| compare_keys(keys, key(*a), key(*b), rows));
        }
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
    Ok(SortedRows { rows, order, width })
}

/// Runs a sort.
pub(super) fn sort<D: Transaction>(
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
    let SortedRows { rows, order, .. } = sorted(input, keys, registers, enough, machine, data)?;
    read_in(&rows, order.into_iter().map(|row| row as usize), registers, machine, data, sink)
}

/// Passes to the sink the rows after an offset, up to a limit, and those with the keys of the last row.
pub(super) fn limit<D: Transaction>(
    input: &Plan,
    counts: [Option<&Expression>; 2],
    ties: &[SortKey],
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let [offset, limit] = counts_of(counts, machine)?;
    let (offset, limit) = (offset.unwrap_or(0), limit.unwrap_or(usize::MAX));
    if limit == 0 {
        return Ok(Flow::Continue);
    }
    let (mut seen, mut outer) = (0usize, Flow::Continue);
    let mut last = Buffer::new(ties.len());
    run(input, machine, data, &mut |machine, data| {
        seen += 1;
        if seen <= offset {
            return Ok(Flow::Continue);
        }
        let is_last = seen - offset >= limit;
        if is_last && !ties.is_empty() {
            let keys = ties.iter().map(|key| key.value.evaluate(machine)).collect::<Result<Vec<_>, _>>()?;
            last.push(keys, &machine.frame.arena)?;
            let count = last.len();
            if count > 1 && compare_keys(ties, last.row(count - 2), last.row(count - 1), &last).is_ne() {
                return Ok(Flow::Stop);
            }
        }
        outer = sink(machine, data)?;
        Ok(if is_last && ties.is_empty() { Flow::Stop } else { outer })
    })?;
    Ok(outer)
}
