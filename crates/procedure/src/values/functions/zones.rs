//! Functions of timestamps in a zone that an argument names.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators", section "AT TIME ZONE".

use super::times::{field, made_moment};
use super::{BuiltIn, Call, Kind};
use crate::values::times::{TimeField, truncate};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Interval, ScalarType, TemporalError, Zone, is_finite_timestamp};

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;
const INTERVAL: Kind = Kind::INTERVAL;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const TIMESTAMPTZ: Kind = Kind::TIMESTAMPTZ;

pub(super) static ZONES: &[BuiltIn] = &[
    BuiltIn::of("date_trunc", &[TEXT, TIMESTAMPTZ, TEXT], TIMESTAMPTZ, truncated).stable(),
    BuiltIn::of(
        "make_timestamptz",
        &[INT4, INT4, INT4, INT4, INT4, Kind::FLOAT8, TEXT],
        TIMESTAMPTZ,
        |call| Ok(Datum::Int(Zone::of_argument(call.text(6))?.utc_of(made_moment(&call)?)?)),
    )
    .stable(),
    BuiltIn::of("timezone", &[INTERVAL, TIMESTAMP], TIMESTAMPTZ, |call| {
        converted(&call, offset, Zone::utc_of)
    }),
    BuiltIn::of("timezone", &[INTERVAL, TIMESTAMPTZ], TIMESTAMP, |call| {
        converted(&call, offset, Zone::local_of)
    }),
    BuiltIn::of("timezone", &[TEXT, TIMESTAMP], TIMESTAMPTZ, |call| {
        converted(&call, |call| Ok(named(call.text(0))?), Zone::utc_of)
    }),
    BuiltIn::of("timezone", &[TEXT, TIMESTAMPTZ], TIMESTAMP, |call| {
        converted(&call, |call| Ok(named(call.text(0))?), Zone::local_of)
    }),
];

/// Converts a timestamp. The zone of an infinite one does not matter, and may be no zone.
fn converted(
    call: &Call,
    zone: impl Fn(&Call) -> Result<Zone, Box<SqlError>>,
    convert: impl Fn(&Zone, i64) -> Result<i64, TemporalError>,
) -> Evaluated {
    let us = call.int(1);
    match is_finite_timestamp(us) {
        true => Ok(Datum::Int(convert(&zone(call)?, us)?)),
        false => Ok(Datum::Int(us)),
    }
}

fn named(name: &str) -> Result<Zone, TemporalError> {
    Zone::named(name).ok_or_else(|| TemporalError::Zone(name.into()))
}

/// Returns the zone that is an interval east of UTC.
fn offset(call: &Call) -> Result<Zone, Box<SqlError>> {
    let own = Interval::from_bytes(call.bytes(0));
    if own.months != 0 || own.days != 0 {
        let message = format!("interval time zone \"{own}\" must not include months or days");
        return Err(SqlError::new("22023", message).into());
    }
    Ok(Zone::Fixed(own.us / 1_000_000))
}

/// Evaluates `date_trunc` in a zone.
fn truncated(call: Call) -> Evaluated {
    let us = call.int(1);
    if !is_finite_timestamp(us) {
        return Ok(Datum::Int(us));
    }
    let zone = named(call.text(2))?.of_abbreviation();
    truncated_in(&zone, field(&call, ScalarType::Timestamptz)?, us)
}

/// Truncates a finite timestamp in a zone.
pub(super) fn truncated_in(zone: &Zone, field: TimeField, us: i64) -> Evaluated {
    let local = truncate(field, zone.local_of(us)?)?;
    match field.is_below_day() {
        // A whole hour may occur twice, so the offset stays.
        true => Ok(Datum::Int(local - (zone.local_of(us)? - us))),
        false => Ok(Datum::Int(zone.utc_of(local)?)),
    }
}
