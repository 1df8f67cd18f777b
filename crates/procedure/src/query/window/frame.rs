//! The frame of a row: which rows of its partition a window function sees.

use super::{Exclusion, Frame, FrameBound, FrameMode, FrameOffset};
use crate::ir::compare::compare_across;
use crate::query::buffer::Buffer;
use crate::query::compare_keys;
use crate::query::sort::SortedRows;
use crate::{Expression, Failure, Machine, Register, SortKey, SqlError};
use catalog::Datum;
use std::ops::Range;

/// The rows of a partition. A row is named by its position in the partition.
pub(super) struct Partition<'a> {
    sorted: &'a SortedRows,
    registers: &'a [Register],
    keys: &'a [SortKey],
    /// The position of the first row among all rows.
    first: usize,
    /// For each row, the group of rows with equal keys.
    groups: Vec<u32>,
    /// The first row of each group, and the number of rows.
    starts: Vec<usize>,
}

impl<'a> Partition<'a> {
    /// Returns the partition that begins with a row.
    pub(super) fn beginning_at(
        first: usize,
        sorted: &'a SortedRows,
        keys: &'a [SortKey],
        partitions: usize,
        registers: &'a [Register],
    ) -> Self {
        let (partitioning, order) = keys.split_at(partitions);
        let (mut groups, mut starts) = (Vec::new(), Vec::new());
        for position in first..sorted.order.len() {
            let row = sorted.keys(position);
            if position > first {
                let before = sorted.keys(position - 1);
                if compare_keys(partitioning, &before[..partitions], &row[..partitions], &sorted.rows).is_ne()
                {
                    break;
                }
                if compare_keys(order, &before[partitions..], &row[partitions..], &sorted.rows).is_ne() {
                    starts.push(position - first);
                }
            } else {
                starts.push(0);
            }
            groups.push(starts.len() as u32 - 1);
        }
        starts.push(groups.len());
        Self { sorted, registers, keys: order, first, groups, starts }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the position after the last row, among all rows.
    pub(super) fn end(&self) -> usize {
        self.first + self.len()
    }

    /// Returns the group of a row.
    pub(super) fn group(&self, row: usize) -> usize {
        self.groups[row] as usize
    }

    /// Returns the rows whose keys equal those of a row.
    pub(super) fn peers(&self, row: usize) -> Range<usize> {
        let group = self.group(row);
        self.starts[group]..self.starts[group + 1]
    }

    /// Copies the values of a row into their registers.
    pub(super) fn load(&self, row: usize, machine: &mut Machine) {
        let index = self.sorted.order[self.first + row] as usize;
        self.sorted.rows.load(index, self.registers, machine);
    }

    /// Evaluates an expression over a row. The value lies in the machine's arena.
    pub(super) fn value(
        &self,
        row: usize,
        expression: &Expression,
        machine: &mut Machine,
    ) -> Result<Datum, Failure> {
        self.load(row, machine);
        Ok(expression.evaluate(machine)?)
    }

    /// Returns the rows of a range that count for a row.
    pub(super) fn counted(
        &self,
        rows: Range<usize>,
        exclusion: Exclusion,
        row: usize,
    ) -> impl DoubleEndedIterator<Item = usize> {
        let group = self.groups[row];
        rows.filter(move |other| match exclusion {
            Exclusion::NoOthers => true,
            Exclusion::CurrentRow => *other != row,
            Exclusion::Group => self.groups[*other] != group,
            Exclusion::Ties => *other == row || self.groups[*other] != group,
        })
    }

    /// Returns whether the only key of a row is NULL.
    fn is_null(&self, row: usize) -> bool {
        self.sorted.keys(self.first + row).last().is_some_and(|key| key.is_null())
    }
}

/// The ends of a frame whose offsets are known.
pub(super) struct Ends<'f> {
    frame: &'f Frame,
    start: Option<usize>,
    end: Option<usize>,
}

/// Evaluates an offset. Returns the number of rows or groups, and 0 for a difference of values.
fn offset_of(
    offset: Option<&FrameOffset>,
    name: &str,
    machine: &mut Machine,
) -> Result<Option<usize>, Failure> {
    let null = || SqlError::new("22004", format!("frame {name} offset must not be null"));
    let refused = |message: String| Failure::from(SqlError::new("22013", message));
    match offset {
        None => Ok(None),
        Some(FrameOffset::Count(count)) => match count.evaluate(machine)? {
            Datum::Int(count) => match usize::try_from(count) {
                Ok(count) => Ok(Some(count)),
                Err(_) => Err(refused(format!("frame {name} offset must not be negative"))),
            },
            _ => Err(null().into()),
        },
        Some(FrameOffset::Value { is_negative, .. }) => match is_negative.evaluate(machine)? {
            Datum::Null => Err(null().into()),
            negative if negative.is_true() => {
                Err(refused("invalid preceding or following size in window function".into()))
            }
            _ => Ok(Some(0)),
        },
    }
}

impl<'f> Ends<'f> {
    /// Evaluates the offsets of a frame.
    ///
    /// # Errors
    /// `22004`: an offset is NULL. `22013`: it is negative.
    pub(super) fn of(frame: &'f Frame, machine: &mut Machine) -> Result<Self, Failure> {
        let start = offset_of(frame.start.offset(), "starting", machine)?;
        let end = offset_of(frame.end.offset(), "ending", machine)?;
        Ok(Self { frame, start, end })
    }

    /// Returns the frame of a row. `last` is that of the row before it.
    pub(super) fn frame_of(
        &self,
        row: usize,
        last: Range<usize>,
        partition: &Partition<'_>,
        machine: &mut Machine,
    ) -> Result<Range<usize>, Failure> {
        let start = match &self.frame.start {
            FrameBound::Preceding(FrameOffset::Value { .. })
            | FrameBound::Following(FrameOffset::Value { .. }) => {
                range_end(&self.frame.start, row, last.start, true, partition, machine)?
            }
            bound => self.edge(bound, self.start, row, partition).start,
        };
        let end = match &self.frame.end {
            FrameBound::Preceding(FrameOffset::Value { .. })
            | FrameBound::Following(FrameOffset::Value { .. }) => {
                range_end(&self.frame.end, row, last.end, false, partition, machine)?
            }
            bound => self.edge(bound, self.end, row, partition).end,
        };
        Ok(start..end.max(start))
    }

    /// Returns the rows at an end of the frame of a row: the frame begins with the first of them, or ends
    /// with the last.
    fn edge(
        &self,
        bound: &FrameBound,
        offset: Option<usize>,
        row: usize,
        partition: &Partition<'_>,
    ) -> Range<usize> {
        let (count, offset) = (partition.len(), offset.unwrap_or(0));
        let is_rows = self.frame.mode == FrameMode::Rows;
        let (unit, units) =
            if is_rows { (row, count) } else { (partition.group(row), partition.starts.len() - 1) };
        let unit = match bound {
            FrameBound::UnboundedPreceding => return 0..0,
            FrameBound::UnboundedFollowing => return count..count,
            FrameBound::CurrentRow => Some(unit),
            FrameBound::Preceding(_) => unit.checked_sub(offset),
            FrameBound::Following(_) => Some(unit.saturating_add(offset)),
        };
        match unit {
            None => 0..0,
            Some(unit) if unit >= units => count..count,
            Some(unit) if is_rows => unit..unit + 1,
            Some(unit) => partition.starts[unit]..partition.starts[unit + 1],
        }
    }
}

/// Returns the first row of a frame, or the row after its last, where the end is a difference of values. The
/// search begins at the end of the frame of the row before.
fn range_end(
    bound: &FrameBound,
    row: usize,
    from: usize,
    is_start: bool,
    partition: &Partition<'_>,
    machine: &mut Machine,
) -> Result<usize, Failure> {
    let (Some(FrameOffset::Value { key, limit, class, .. }), [order]) = (bound.offset(), partition.keys)
    else {
        unreachable!("the binder gives a RANGE with an offset one key")
    };
    let mark = machine.frame.arena.mark();
    let limit = partition.value(row, limit, machine)?;
    let mut limits = Buffer::new(1);
    limits.push([limit], &machine.frame.arena)?;
    machine.frame.arena.release(mark);
    let is_null = partition.is_null(row);
    let mut at = from;
    while at < partition.len() {
        let before = if is_null || partition.is_null(at) {
            null_is_before(partition.is_null(at), is_null, order.nulls_first, is_start)
        } else {
            let mark = machine.frame.arena.mark();
            let value = partition.value(at, key, machine)?;
            let limit = (limits.row(0)[0], &limits.arena);
            let compared = compare_across(*class, (value, &machine.frame.arena), limit);
            let compared = if order.descending { compared.reverse() } else { compared };
            machine.frame.arena.release(mark);
            if is_start { compared.is_lt() } else { compared.is_le() }
        };
        if !before {
            break;
        }
        at += 1;
    }
    Ok(at)
}

/// Returns whether a row lies before the start of the frame, or before its end, where the key of the row or
/// of the current row is NULL.
fn null_is_before(other: bool, current: bool, nulls_first: bool, is_start: bool) -> bool {
    match (nulls_first, is_start) {
        (true, true) => other && !current,
        (false, true) => !other && current,
        (true, false) => other || !current,
        (false, false) => !other || current,
    }
}
