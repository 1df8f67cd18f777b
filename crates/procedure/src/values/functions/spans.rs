//! Functions of spans of time: `date_bin` and OVERLAPS.
//! Source: PostgreSQL 15, `timestamp.c` (`timestamp_bin`) and `date.c` (`overlaps_time`).

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Interval, MICROSECONDS_PER_DAY, is_finite_timestamp};

const BOOL: Kind = Kind::BOOL;
const INTERVAL: Kind = Kind::INTERVAL;
const TIME: Kind = Kind::TIME;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const TIMESTAMPTZ: Kind = Kind::TIMESTAMPTZ;

const fn overlapping(arguments: &'static [Kind], evaluate: fn(Call<'_>) -> Evaluated) -> BuiltIn {
    BuiltIn::of("overlaps", arguments, BOOL, evaluate).taking_null()
}

pub(super) static SPANS: &[BuiltIn] = &[
    BuiltIn::of("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], TIMESTAMP, binned),
    BuiltIn::of("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], TIMESTAMPTZ, binned),
    overlapping(&[TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP], overlap),
    overlapping(&[TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL], |call| overlap_of(call, &[1, 3], after)),
    overlapping(&[TIMESTAMP, TIMESTAMP, TIMESTAMP, INTERVAL], |call| overlap_of(call, &[3], after)),
    overlapping(&[TIMESTAMP, INTERVAL, TIMESTAMP, TIMESTAMP], |call| overlap_of(call, &[1], after)),
    overlapping(&[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ], overlap),
    overlapping(&[TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL], |call| {
        overlap_of(call, &[1, 3], after_in_zone)
    })
    .stable(),
    overlapping(&[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL], |call| {
        overlap_of(call, &[3], after_in_zone)
    })
    .stable(),
    overlapping(&[TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], |call| {
        overlap_of(call, &[1], after_in_zone)
    })
    .stable(),
    overlapping(&[TIME, TIME, TIME, TIME], overlap),
    overlapping(&[TIME, INTERVAL, TIME, INTERVAL], |call| overlap_of(call, &[1, 3], later)),
    overlapping(&[TIME, TIME, TIME, INTERVAL], |call| overlap_of(call, &[3], later)),
    overlapping(&[TIME, INTERVAL, TIME, TIME], |call| overlap_of(call, &[1], later)),
];

/// Returns the beginning of the span in which a timestamp lies. Spans follow each other from an origin.
fn binned(call: Call) -> Evaluated {
    let stride = Interval::from_bytes(call.bytes(0));
    let (moment, origin) = (call.int(1), call.int(2));
    if !is_finite_timestamp(moment) {
        return Ok(Datum::Int(moment));
    }
    if !is_finite_timestamp(origin) {
        return Err(SqlError::new("22008", "origin out of range").into());
    }
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new("0A000", message).into());
    }
    let length = i128::from(stride.days) * i128::from(MICROSECONDS_PER_DAY) + i128::from(stride.us);
    if length <= 0 {
        return Err(SqlError::new("22008", "stride must be greater than zero").into());
    }
    let distance = (i128::from(moment) - i128::from(origin)).div_euclid(length) * length;
    let begin = i64::try_from(i128::from(origin) + distance).ok().filter(|us| is_finite_timestamp(*us));
    begin.map(Datum::Int).ok_or_else(|| SqlError::new("22008", "timestamp out of range").into())
}

/// Returns a timestamp plus an interval.
fn after(_: &Call, moment: i64, interval: Interval) -> Result<i64, Box<SqlError>> {
    Ok(interval.after(moment).map_err(SqlError::from)?)
}

/// Returns a timestamp plus an interval in the session's zone.
fn after_in_zone(call: &Call, moment: i64, interval: Interval) -> Result<i64, Box<SqlError>> {
    Ok(catalog::later(call.zone(), moment, interval).map_err(SqlError::from)?)
}

/// Returns a time of day plus an interval.
fn later(_: &Call, time: i64, interval: Interval) -> Result<i64, Box<SqlError>> {
    Ok((time + interval.us).rem_euclid(MICROSECONDS_PER_DAY))
}

/// Returns whether two spans overlap. The ends at the indexes `intervals` are intervals from the beginnings.
fn overlap_of(
    call: Call,
    intervals: &[usize],
    moved: fn(&Call, i64, Interval) -> Result<i64, Box<SqlError>>,
) -> Evaluated {
    let mut values = call.values.to_vec();
    for index in intervals {
        values[*index] = match (call.values[index - 1], call.values[*index]) {
            (Datum::Int(begin), length) if !length.is_null() => {
                Datum::Int(moved(&call, begin, Interval::from_bytes(call.bytes(*index)))?)
            }
            _ => Datum::Null,
        };
    }
    overlap(Call { values: &values, ..call })
}

/// Returns whether two spans overlap. Spans are half-open, except a span of one moment. The answer is NULL if
/// it depends on an end that is NULL.
fn overlap(call: Call) -> Evaluated {
    let ordered = |index: usize| match (call.values[index], call.values[index + 1]) {
        (Datum::Int(a), Datum::Int(b)) => Some((a.min(b), Some(a.max(b)))),
        (Datum::Int(known), _) | (_, Datum::Int(known)) => Some((known, None)),
        _ => None,
    };
    let (Some(first), Some(second)) = (ordered(0), ordered(2)) else { return Ok(Datum::Null) };
    if first.0 == second.0 {
        // Spans of which neither end is known begin at the same moment, at least.
        let is_known = first.1.is_some() && second.1.is_some();
        return Ok(if is_known { Datum::boolean(true) } else { Datum::Null });
    }
    let (earlier, later) = if first.0 < second.0 { (first, second) } else { (second, first) };
    Ok(match earlier.1 {
        None => Datum::Null,
        Some(end) if later.0 < end => Datum::boolean(true),
        Some(_) if later.1.is_none() => Datum::Null,
        Some(_) => Datum::boolean(false),
    })
}
