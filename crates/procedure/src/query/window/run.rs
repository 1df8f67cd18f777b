//! Runs a node of window functions.

use super::frame::{Ends, Partition};
use super::{Exclusion, Frame, Window, WindowCall, WindowFunction, WindowValue};
use crate::execution::rows::Flow;
use crate::query::run::{Sink, check_cancelled};
use crate::query::sort::sorted;
use crate::values::aggregate::Accumulator;
use crate::{Aggregate, Expression, Failure, Machine, SqlError, Transaction};
use catalog::{Arena, Datum};
use std::ops::Range;

/// The progress of a call through a partition.
struct Progress {
    frame: Range<usize>,
    /// The rows that the accumulator has.
    added: Range<usize>,
    accumulator: Accumulator,
    /// The result of the accumulator for `added`; `None` after a row was added or removed.
    result: Option<Datum>,
    /// Holds `result`.
    arena: Arena,
    /// The first row that `ntile` counts, and its buckets; `None` while its argument is NULL.
    buckets: Option<(usize, i64)>,
}

impl Progress {
    fn new() -> Self {
        Self {
            frame: 0..0,
            added: 0..0,
            accumulator: Accumulator::new(),
            result: None,
            arena: Arena::default(),
            buckets: None,
        }
    }
}

/// Runs the node.
pub(in crate::query) fn run_window<D: Transaction>(
    window: &Window,
    machine: &mut Machine,
    data: &mut D,
    sink: &mut Sink<'_, D>,
) -> Result<Flow, Failure> {
    let Window { input, keys, partitions, calls, registers } = window;
    let sorted = sorted(input, keys, registers, usize::MAX, machine, data)?;
    let (mut at, mut ends) = (0, Vec::new());
    let mut values = Vec::with_capacity(calls.len());
    while at < sorted.order.len() {
        let partition = Partition::beginning_at(at, &sorted, keys, *partitions, registers);
        machine.ask_kept(partition.len() * size_of::<u32>())?;
        let mut progress: Vec<Progress> = calls.iter().map(|_| Progress::new()).collect();
        for row in 0..partition.len() {
            check_cancelled(machine)?;
            let mark = machine.frame.arena.mark();
            partition.load(row, machine);
            if ends.is_empty() {
                ends = calls.iter().map(|call| Ends::of(&call.frame, machine)).collect::<Result<_, _>>()?;
            }
            values.clear();
            for ((call, ends), progress) in calls.iter().zip(&ends).zip(&mut progress) {
                values.push(value_of(call, ends, row, &partition, progress, machine)?);
            }
            partition.load(row, machine);
            calls.iter().zip(&values).for_each(|(call, value)| machine.set(call.target, *value));
            let flow = sink(machine, data)?;
            machine.frame.arena.release(mark);
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        at = partition.end();
    }
    Ok(Flow::Continue)
}

/// Returns the value of a call for a row.
fn value_of(
    call: &WindowCall,
    ends: &Ends<'_>,
    row: usize,
    partition: &Partition<'_>,
    progress: &mut Progress,
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    match &call.value {
        WindowValue::Aggregate(aggregate) => {
            let frame = ends.frame_of(row, progress.frame.clone(), partition, machine)?;
            progress.frame = frame;
            aggregate_of(aggregate, &call.frame, row, partition, progress, machine)
        }
        WindowValue::Function { function, arguments } => match function {
            WindowFunction::FirstValue | WindowFunction::LastValue | WindowFunction::NthValue => {
                let frame = ends.frame_of(row, progress.frame.clone(), partition, machine)?;
                progress.frame = frame.clone();
                value_in(*function, arguments, frame, call.frame.exclusion, row, partition, machine)
            }
            WindowFunction::Lag | WindowFunction::Lead => {
                value_beside(*function == WindowFunction::Lead, arguments, row, partition, machine)
            }
            WindowFunction::Ntile => {
                let (first, buckets) = match progress.buckets {
                    Some(buckets) => buckets,
                    None => match partition.value(row, &arguments[0], machine)? {
                        Datum::Int(buckets) if buckets <= 0 => {
                            let message = "argument of ntile must be greater than zero";
                            return Err(SqlError::new("22014", message).into());
                        }
                        Datum::Int(buckets) => (row, buckets),
                        _ => return Ok(Datum::Null),
                    },
                };
                progress.buckets = Some((first, buckets));
                Ok(Datum::Int(bucket_of((row - first) as i64, partition.len() as i64, buckets)))
            }
            function => Ok(position_of(*function, row, partition)),
        },
    }
}

/// Returns the value of a function of a row's position alone.
fn position_of(function: WindowFunction, row: usize, partition: &Partition<'_>) -> Datum {
    let (peers, count) = (partition.peers(row), partition.len());
    match function {
        WindowFunction::Rank => Datum::Int(peers.start as i64 + 1),
        WindowFunction::DenseRank => Datum::Int(partition.group(row) as i64 + 1),
        WindowFunction::PercentRank if count < 2 => Datum::Double(0.0),
        WindowFunction::PercentRank => Datum::Double(peers.start as f64 / (count - 1) as f64),
        WindowFunction::CumeDist => Datum::Double(peers.end as f64 / count as f64),
        _ => Datum::Int(row as i64 + 1),
    }
}

/// Returns the bucket of a row, from 1. The first buckets have one row more where the rows cannot be divided.
fn bucket_of(row: i64, rows: i64, buckets: i64) -> i64 {
    let (size, larger) = (rows / buckets, rows % buckets);
    let in_larger = larger * (size + 1);
    1 + if row < in_larger { row / (size + 1) } else { larger + (row - in_larger) / size }
}

/// Returns the value of `lag` or `lead`: that of another row of the partition.
fn value_beside(
    is_later: bool,
    arguments: &[Expression],
    row: usize,
    partition: &Partition<'_>,
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    let distance = match arguments.get(1) {
        None => 1,
        Some(distance) => match partition.value(row, distance, machine)? {
            Datum::Int(distance) => distance,
            _ => return Ok(Datum::Null),
        },
    };
    let other = row as i64 + if is_later { distance } else { -distance };
    match usize::try_from(other).ok().filter(|other| *other < partition.len()) {
        Some(other) => partition.value(other, &arguments[0], machine),
        None => match arguments.get(2) {
            Some(default) => partition.value(row, default, machine),
            None => Ok(Datum::Null),
        },
    }
}

/// Returns the value of `first_value`, `last_value` or `nth_value`: that of a row of the frame.
fn value_in(
    function: WindowFunction,
    arguments: &[Expression],
    frame: Range<usize>,
    exclusion: Exclusion,
    row: usize,
    partition: &Partition<'_>,
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    let mut rows = partition.counted(frame, exclusion, row);
    let found = match function {
        WindowFunction::FirstValue => rows.next(),
        WindowFunction::LastValue => rows.next_back(),
        _ => match partition.value(row, &arguments[1], machine)? {
            Datum::Int(number) if number <= 0 => {
                let message = "argument of nth_value must be greater than zero";
                return Err(SqlError::new("22016", message).into());
            }
            Datum::Int(number) => rows.nth(number as usize - 1),
            _ => None,
        },
    };
    match found {
        Some(found) => partition.value(found, &arguments[0], machine),
        None => Ok(Datum::Null),
    }
}

/// Returns an aggregate of the rows of a frame. Rows are added to those of the frame before, where it begins
/// at the same row, and rows that have left are removed, where that undoes their addition exactly.
fn aggregate_of(
    aggregate: &Aggregate,
    frame: &Frame,
    row: usize,
    partition: &Partition<'_>,
    progress: &mut Progress,
    machine: &mut Machine,
) -> Result<Datum, Failure> {
    let Progress { frame: wanted, added, accumulator, result, arena, .. } = progress;
    let grows = frame.exclusion == Exclusion::NoOthers
        && wanted.end >= added.end
        && (wanted.start == added.start || aggregate.is_invertible() && added.contains(&wanted.start));
    if frame.exclusion != Exclusion::NoOthers || wanted != added {
        *result = None;
    }
    if !grows {
        *accumulator = Accumulator::new();
        *added = wanted.start..wanted.start;
    }
    let mut change = |row: usize, is_new: bool, machine: &mut Machine| {
        let mark = machine.frame.arena.mark();
        machine.check_row()?;
        partition.load(row, machine);
        if is_new {
            accumulator.add(aggregate, machine)?
        } else {
            accumulator.remove(aggregate, machine)?
        }
        machine.frame.arena.release(mark);
        Ok::<_, Failure>(())
    };
    for leaving in added.start..wanted.start {
        change(leaving, false, machine)?;
    }
    for entering in partition.counted(added.end..wanted.end, frame.exclusion, row) {
        change(entering, true, machine)?;
    }
    *added = wanted.clone();
    let value = match result {
        Some(value) => *value,
        None => {
            let mark = machine.frame.arena.mark();
            let value = accumulator.finish(aggregate, machine)?;
            arena.clear();
            let value = arena.adopt(value, &machine.frame.arena);
            machine.frame.arena.release(mark);
            *result.insert(value)
        }
    };
    Ok(machine.frame.arena.adopt(value, arena))
}
