//! Functions and operators of intervals.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators", and `timestamp.c`
//! (`interval_part_common`, `interval_trunc`).

use super::times::{field, not_supported};
use super::{BuiltIn, Call, Kind};
use crate::values::times::TimeField;
use crate::values::times::interval_template::interval_text;
use crate::{Evaluated, SqlError};
use catalog::{
    Datum, Decimal, Interval, MICROSECONDS_PER_DAY, ScalarType, ValueError, later, local_of, midnight_of,
};

const TEXT: Kind = Kind::TEXT;
const DATE: Kind = Kind::DATE;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const TIMESTAMPTZ: Kind = Kind::TIMESTAMPTZ;
const INTERVAL: Kind = Kind::INTERVAL;
const FLOAT8: Kind = Kind::FLOAT8;
const INT4: Kind = Kind::INT4;

pub(super) static INTERVALS: &[BuiltIn] = &[
    BuiltIn::of("age", &[TIMESTAMP, TIMESTAMP], INTERVAL, |call| {
        made(Interval::age(call.int(0), call.int(1)), call)
    }),
    BuiltIn::of("age", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |call| {
        let local = |index: usize| local_of(call.zone(), call.int(index)).map_err(SqlError::from);
        made(Interval::age(local(0)?, local(1)?), call)
    }),
    BuiltIn::of("date_mi_interval", &[DATE, INTERVAL], TIMESTAMP, |call| day_moved(&call, 0, true)),
    BuiltIn::of("date_part", &[TEXT, INTERVAL], FLOAT8, |call| {
        Ok(part(&call)?.map_or(Datum::Null, |part| Datum::Double(part.to_double())))
    }),
    BuiltIn::of("date_pl_interval", &[DATE, INTERVAL], TIMESTAMP, |call| day_moved(&call, 0, false)),
    BuiltIn::of("date_trunc", &[TEXT, INTERVAL], INTERVAL, |call| made(Ok(truncated(&call)?), call)),
    BuiltIn::of("extract", &[TEXT, INTERVAL], Kind::NUMERIC, |call| match part(&call)? {
        Some(part) => call.made_numeric(part),
        None => Ok(Datum::Null),
    }),
    BuiltIn::of("interval_div", &[INTERVAL, FLOAT8], INTERVAL, |call| {
        made(interval_at(&call, 0).divided(call.double(1)), call)
    }),
    BuiltIn::of("interval_mi", &[INTERVAL, INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 0).minus(interval_at(&call, 1)), call)
    }),
    BuiltIn::of("interval_mul", &[INTERVAL, FLOAT8], INTERVAL, |call| {
        made(interval_at(&call, 0).times(call.double(1)), call)
    }),
    BuiltIn::of("interval_pl", &[INTERVAL, INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 0).plus(interval_at(&call, 1)), call)
    }),
    BuiltIn::of("interval_pl_date", &[INTERVAL, DATE], TIMESTAMP, |call| day_moved(&call, 1, false)),
    BuiltIn::of("interval_pl_timestamp", &[INTERVAL, TIMESTAMP], TIMESTAMP, |call| moved(&call, 1, false)),
    BuiltIn::of("interval_pl_timestamptz", &[INTERVAL, TIMESTAMPTZ], TIMESTAMPTZ, |call| {
        moved_in_zone(&call, 1, false)
    })
    .stable(),
    BuiltIn::of("interval_um", &[INTERVAL], INTERVAL, |call| made(interval_at(&call, 0).negated(), call)),
    BuiltIn::of("isfinite", &[INTERVAL], Kind::BOOL, |_| Ok(Datum::boolean(true))),
    BuiltIn::of("justify_days", &[INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 0).justified_days(), call)
    }),
    BuiltIn::of("justify_hours", &[INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 0).justified_hours(), call)
    }),
    BuiltIn::of("justify_interval", &[INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 0).justified(), call)
    }),
    BuiltIn::of("make_interval", &[INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8], INTERVAL, |call| {
        let fields = [0, 1, 2, 3, 4, 5].map(|index| call.int(index));
        made(of_fields(fields, call.double(6)), call)
    }),
    BuiltIn::of("mul_d_interval", &[FLOAT8, INTERVAL], INTERVAL, |call| {
        made(interval_at(&call, 1).times(call.double(0)), call)
    }),
    BuiltIn::of("timestamp_mi", &[TIMESTAMP, TIMESTAMP], INTERVAL, |call| {
        made(Interval::between(call.int(0), call.int(1)), call)
    }),
    BuiltIn::of("timestamp_mi_interval", &[TIMESTAMP, INTERVAL], TIMESTAMP, |call| moved(&call, 0, true)),
    BuiltIn::of("timestamp_pl_interval", &[TIMESTAMP, INTERVAL], TIMESTAMP, |call| moved(&call, 0, false)),
    BuiltIn::of("timestamptz_mi", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |call| {
        made(Interval::between(call.int(0), call.int(1)), call)
    }),
    BuiltIn::of("timestamptz_mi_interval", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |call| {
        moved_in_zone(&call, 0, true)
    })
    .stable(),
    BuiltIn::of("timestamptz_pl_interval", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, |call| {
        moved_in_zone(&call, 0, false)
    })
    .stable(),
    BuiltIn::of("to_char", &[INTERVAL, TEXT], TEXT, |call| {
        if call.text(1).is_empty() {
            return Ok(Datum::Null);
        }
        let text = interval_text(interval_at(&call, 0), call.text(1))?;
        call.made(text)
    }),
];

fn interval_at(call: &Call, index: usize) -> Interval {
    Interval::from_bytes(call.bytes(index))
}

/// Returns the interval of years, months, weeks, days, hours, minutes and seconds.
fn of_fields(
    [years, months, weeks, days, hours, minutes]: [i64; 6],
    seconds: f64,
) -> Result<Interval, ValueError> {
    let wanted = || {
        let months = i32::try_from(years * 12 + months).ok()?;
        let days = i32::try_from(weeks * 7 + days).ok()?;
        let us = (seconds * 1e6).round_ties_even();
        let us = (us.abs() < 9.2e18).then_some(us as i64)?;
        let us = us.checked_add((hours * 60 + minutes) * 60_000_000)?;
        Some(Interval { months, days, us })
    };
    wanted().ok_or_else(|| ValueError::new("22008", "interval out of range"))
}

fn made(interval: Result<Interval, ValueError>, call: Call) -> Evaluated {
    let interval = interval.map_err(SqlError::from)?;
    Ok(call.machine.frame.arena.push_bytes(&interval.to_bytes()))
}

/// Returns the interval by which a moment moves, which is one of two arguments; the other is the interval.
fn distance(call: &Call, index: usize, is_earlier: bool) -> Result<Interval, SqlError> {
    let interval = interval_at(call, 1 - index);
    Ok(if is_earlier { interval.negated()? } else { interval })
}

/// Returns a moment, which is one of two arguments, plus or minus the other one.
fn shifted(call: &Call, index: usize, us: i64, is_earlier: bool) -> Evaluated {
    Ok(Datum::Int(distance(call, index, is_earlier)?.after(us).map_err(SqlError::from)?))
}

/// The same of a timestamp with a zone, whose days and months are those of the session's zone.
fn moved_in_zone(call: &Call, index: usize, is_earlier: bool) -> Evaluated {
    let interval = distance(call, index, is_earlier)?;
    Ok(Datum::Int(later(call.zone(), call.int(index), interval).map_err(SqlError::from)?))
}

fn moved(call: &Call, index: usize, is_earlier: bool) -> Evaluated {
    shifted(call, index, call.int(index), is_earlier)
}

/// The same of a date, which is its midnight.
fn day_moved(call: &Call, index: usize, is_earlier: bool) -> Evaluated {
    shifted(call, index, midnight_of(call.int(index)).map_err(SqlError::from)?, is_earlier)
}

/// Evaluates EXTRACT.
fn part(call: &Call) -> Result<Option<Decimal>, Box<SqlError>> {
    let field = field(call, ScalarType::Interval)?;
    let Interval { months, days, us } = interval_at(call, 1);
    let (years, months, days) = (i64::from(months / 12), i64::from(months % 12), i64::from(days));
    let seconds = us % 60_000_000;
    let whole = |value: i64| Ok(Some(Decimal::from_int(value)));
    let scaled = |mantissa: i128, scale: u8| {
        let decimal = Decimal::new(mantissa, scale).map_err(ValueError::from);
        Ok(Some(decimal.map_err(SqlError::from)?))
    };
    match field {
        TimeField::Microseconds => whole(seconds),
        TimeField::Milliseconds => scaled(seconds.into(), 3),
        TimeField::Second => scaled(seconds.into(), 6),
        TimeField::Minute => whole(us / 60_000_000 % 60),
        TimeField::Hour => whole(us / 3_600_000_000),
        TimeField::Day => whole(days),
        TimeField::Month => whole(months),
        TimeField::Quarter => whole(months / 3 + 1),
        TimeField::Year => whole(years),
        TimeField::Decade => whole(years / 10),
        TimeField::Century => whole(years / 100),
        TimeField::Millennium => whole(years / 1000),
        TimeField::Epoch => {
            // A year has 365.25 days.
            let quarters = i128::from(years) * 1461 + i128::from(months) * 120 + i128::from(days) * 4;
            scaled(quarters * i128::from(MICROSECONDS_PER_DAY / 4) + i128::from(us), 6)
        }
        _ => Err(not_supported(call, ScalarType::Interval)),
    }
}

/// Evaluates `date_trunc`.
fn truncated(call: &Call) -> Result<Interval, Box<SqlError>> {
    let field = field(call, ScalarType::Interval)?;
    let Interval { months, days, us } = interval_at(call, 1);
    let years =
        |count: i32| Ok(Interval { months: months / (12 * count) * (12 * count), ..Interval::default() });
    let to = |unit: i64| Ok(Interval { months, days, us: us / unit * unit });
    match field {
        TimeField::Microseconds => to(1),
        TimeField::Milliseconds => to(1000),
        TimeField::Second => to(1_000_000),
        TimeField::Minute => to(60_000_000),
        TimeField::Hour => to(3_600_000_000),
        TimeField::Day => Ok(Interval { months, days, us: 0 }),
        TimeField::Month => Ok(Interval { months, ..Interval::default() }),
        TimeField::Quarter => Ok(Interval { months: months / 3 * 3, ..Interval::default() }),
        TimeField::Year => years(1),
        TimeField::Decade => years(10),
        TimeField::Century => years(100),
        TimeField::Millennium => years(1000),
        _ => Err(not_supported(call, ScalarType::Interval)),
    }
}
