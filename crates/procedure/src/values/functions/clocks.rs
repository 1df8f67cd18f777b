//! Functions and operators of times of day.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators", and `time_part_common` in
//! `date.c`.

use super::times::{field, not_supported};
use super::{BuiltIn, Call, Kind};
use crate::values::times::TimeField;
use crate::{Evaluated, SqlError};
use catalog::{
    Datum, Decimal, Interval, MICROSECONDS_PER_DAY, ScalarType, ValueError, is_finite_date, midnight_of,
    timestamp_plus,
};

const TEXT: Kind = Kind::TEXT;
const DATE: Kind = Kind::DATE;
const TIME: Kind = Kind::TIME;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const INTERVAL: Kind = Kind::INTERVAL;
const INT4: Kind = Kind::INT4;

pub(super) static CLOCKS: &[BuiltIn] = &[
    BuiltIn::of("date_part", &[TEXT, TIME], Kind::FLOAT8, |call| Ok(Datum::Double(part(&call)?.to_double()))),
    BuiltIn::of("datetime_pl", &[DATE, TIME], TIMESTAMP, |call| moment(call.int(0), call.int(1))),
    BuiltIn::of("extract", &[TEXT, TIME], Kind::NUMERIC, |call| {
        let part = part(&call)?;
        call.made_numeric(part)
    }),
    BuiltIn::of("interval_pl_time", &[INTERVAL, TIME], TIME, |call| {
        Ok(turned(call.int(1), Interval::from_bytes(call.bytes(0)).us))
    }),
    BuiltIn::of("make_time", &[INT4, INT4, Kind::FLOAT8], TIME, |call| made(&call)),
    BuiltIn::of("time_mi_interval", &[TIME, INTERVAL], TIME, |call| {
        let by = Interval::from_bytes(call.bytes(1)).us % MICROSECONDS_PER_DAY;
        Ok(turned(call.int(0), -by))
    }),
    BuiltIn::of("time_mi_time", &[TIME, TIME], INTERVAL, |call| {
        let interval = Interval { us: call.int(0) - call.int(1), ..Interval::default() };
        Ok(call.machine.frame.arena.push_bytes(&interval.to_bytes()))
    }),
    BuiltIn::of("time_pl_interval", &[TIME, INTERVAL], TIME, |call| {
        Ok(turned(call.int(0), Interval::from_bytes(call.bytes(1)).us))
    }),
    BuiltIn::of("timedate_pl", &[TIME, DATE], TIMESTAMP, |call| moment(call.int(1), call.int(0))),
];

/// Returns a time plus microseconds, which goes around the clock.
fn turned(us: i64, by: i64) -> Datum {
    Datum::Int((us + by % MICROSECONDS_PER_DAY).rem_euclid(MICROSECONDS_PER_DAY))
}

fn moment(date: i64, us: i64) -> Evaluated {
    let midnight = midnight_of(date).map_err(SqlError::from)?;
    if !is_finite_date(date as i32) {
        return Ok(Datum::Int(midnight));
    }
    Ok(Datum::Int(timestamp_plus(midnight, us).map_err(SqlError::from)?))
}

/// Evaluates EXTRACT.
fn part(call: &Call) -> Result<Decimal, Box<SqlError>> {
    let (field, us) = (field(call, ScalarType::Time)?, call.int(1));
    let seconds = us % 60_000_000;
    let scaled = |mantissa: i64, scale: u8| {
        let decimal = Decimal::new(mantissa.into(), scale).map_err(ValueError::from);
        Ok(decimal.map_err(SqlError::from)?)
    };
    match field {
        TimeField::Microseconds => Ok(Decimal::from_int(seconds)),
        TimeField::Milliseconds => scaled(seconds, 3),
        TimeField::Second => scaled(seconds, 6),
        TimeField::Minute => Ok(Decimal::from_int(us / 60_000_000 % 60)),
        TimeField::Hour => Ok(Decimal::from_int(us / 3_600_000_000)),
        TimeField::Epoch => scaled(us, 6),
        _ => Err(not_supported(call, ScalarType::Time)),
    }
}

/// Evaluates `make_time(hour, minute, second)`.
fn made(call: &Call) -> Evaluated {
    let (hour, minute, second) = (call.int(0), call.int(1), call.double(2));
    let us = (second * 1e6).round_ties_even();
    let is_valid = (0..=24).contains(&hour)
        && (0..=59).contains(&minute)
        && (0.0..=60e6).contains(&us)
        && (hour < 24 || minute == 0 && us == 0.0);
    if !is_valid {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(SqlError::new("22008", message).into());
    }
    Ok(Datum::Int((hour * 60 + minute) * 60_000_000 + us as i64))
}
