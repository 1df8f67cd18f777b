//! Functions of timestamps and dates.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators" and "Data Type Formatting
//! Functions".

use super::{BuiltIn, Call, Form, Kind};
use crate::values::times::template::ShownZone;
use crate::values::times::template_input;
use crate::values::times::{
    TimeField, extract, from_epoch, part_of_infinity, template, truncate, truncate_in,
};
use crate::{Evaluated, SqlError};
use catalog::{
    Datum, Day, Decimal, Moment, ScalarType, east_at, is_finite_date, is_finite_timestamp, local_of,
    midnight_of, utc_of,
};

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;
const DATE: Kind = Kind::DATE;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const TIMESTAMPTZ: Kind = Kind::TIMESTAMPTZ;
const FLOAT8: Kind = Kind::FLOAT8;
const NUMERIC: Kind = Kind::NUMERIC;
const BOOL: Kind = Kind::BOOL;

pub(super) static TIMES: &[BuiltIn] = &[
    BuiltIn::new("clock_timestamp", &[], TIMESTAMPTZ, Form::Unrepeatable),
    BuiltIn::of("date_part", &[TEXT, TIMESTAMP], FLOAT8, |call| part(call, ScalarType::Timestamp)),
    BuiltIn::of("date_part", &[TEXT, TIMESTAMPTZ], FLOAT8, |call| part(call, ScalarType::Timestamptz))
        .stable(),
    BuiltIn::of("date_part", &[TEXT, DATE], FLOAT8, |call| part(call, ScalarType::Date)),
    BuiltIn::of("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, |call| truncated(&call, ScalarType::Timestamp)),
    BuiltIn::of("date_trunc", &[TEXT, TIMESTAMPTZ], TIMESTAMPTZ, |call| match call.zone() {
        Some(session) if is_finite_timestamp(call.int(1)) => {
            let field = field(&call, ScalarType::Timestamptz)?;
            Ok(Datum::Int(truncate_in(session.zone(), field, call.int(1))?))
        }
        _ => truncated(&call, ScalarType::Timestamptz),
    })
    .stable(),
    BuiltIn::of("extract", &[TEXT, TIMESTAMP], NUMERIC, |call| extracted(call, ScalarType::Timestamp)),
    BuiltIn::of("extract", &[TEXT, TIMESTAMPTZ], NUMERIC, |call| extracted(call, ScalarType::Timestamptz))
        .stable(),
    BuiltIn::of("extract", &[TEXT, DATE], NUMERIC, |call| extracted(call, ScalarType::Date)),
    BuiltIn::of("isfinite", &[DATE], BOOL, |call| Ok(Datum::boolean(is_finite_date(call.int(0) as i32)))),
    BuiltIn::of("isfinite", &[TIMESTAMP], BOOL, is_finite),
    BuiltIn::of("isfinite", &[TIMESTAMPTZ], BOOL, is_finite),
    BuiltIn::of("make_date", &[INT4, INT4, INT4], DATE, |call| {
        let day = made_day(&call)?;
        Ok(Datum::Int(day.date().map_err(|_| outside("date", &call))?.into()))
    }),
    BuiltIn::of("make_timestamp", &[INT4, INT4, INT4, INT4, INT4, FLOAT8], TIMESTAMP, |call| {
        Ok(Datum::Int(made_moment(&call)?))
    }),
    BuiltIn::of("make_timestamptz", &[INT4, INT4, INT4, INT4, INT4, FLOAT8], TIMESTAMPTZ, |call| {
        Ok(Datum::Int(utc_of(call.zone(), made_moment(&call)?)?))
    })
    .stable(),
    BuiltIn::new("now", &[], TIMESTAMPTZ, Form::Now),
    BuiltIn::new("statement_timestamp", &[], TIMESTAMPTZ, Form::Now),
    BuiltIn::new("timeofday", &[], TEXT, Form::Unrepeatable),
    BuiltIn::of("to_char", &[TIMESTAMP, TEXT], TEXT, |call| to_text(call, false)),
    BuiltIn::of("to_char", &[TIMESTAMPTZ, TEXT], TEXT, |call| to_text(call, true)).stable(),
    BuiltIn::of("to_date", &[TEXT, TEXT], DATE, |call| {
        let input = template_input::from_text(call.text(0), call.text(1))?;
        Ok(Datum::Int(input.moment.day.date()?.into()))
    }),
    BuiltIn::of("to_timestamp", &[FLOAT8], TIMESTAMPTZ, |call| Ok(Datum::Int(from_epoch(call.double(0))?))),
    BuiltIn::of("to_timestamp", &[TEXT, TEXT], TIMESTAMPTZ, |call| {
        let local = template_input::from_text(call.text(0), call.text(1))?.timestamp()?;
        Ok(Datum::Int(utc_of(call.zone(), local)?))
    })
    .stable(),
    BuiltIn::new("transaction_timestamp", &[], TIMESTAMPTZ, Form::Now),
];

/// Returns whether a name denotes the session's offset from UTC or a part of it.
fn is_zone_field(name: &str) -> bool {
    matches!(name, "timezone" | "timezone_h" | "timezone_hour" | "timezone_m" | "timezone_minute")
}

/// Returns the field that the first argument names.
pub(super) fn field(call: &Call, ty: ScalarType) -> Result<TimeField, Box<SqlError>> {
    let name = call.text(0).to_lowercase();
    if is_zone_field(&name) {
        return Err(not_supported(call, ty));
    }
    TimeField::named(name.trim())
        .ok_or_else(|| SqlError::new("22023", format!("unit \"{name}\" not recognized for type {ty}")).into())
}

/// Returns the error of a field that a type does not have.
pub(super) fn not_supported(call: &Call, ty: ScalarType) -> Box<SqlError> {
    let message = format!("unit \"{}\" not supported for type {ty}", call.text(0).to_lowercase());
    SqlError::new("0A000", message).into()
}

/// Returns a part of the offset from UTC in seconds: all of it, its hours, or its minutes.
fn part_of_offset(name: &str, east: i64) -> i64 {
    match name {
        "timezone" => east,
        "timezone_h" | "timezone_hour" => east / 3600,
        _ => east / 60 % 60,
    }
}

/// Evaluates EXTRACT. A date is its midnight, without fields below the day.
fn extracted(call: Call, ty: ScalarType) -> Evaluated {
    let name = call.text(0).to_lowercase();
    if ty == ScalarType::Timestamptz && is_zone_field(&name) {
        let us = call.int(1);
        return match is_finite_timestamp(us) {
            true => {
                let part = part_of_offset(&name, east_at(call.zone(), us));
                call.made_numeric(Decimal::from_int(part))
            }
            false => Ok(Datum::Null),
        };
    }
    let (field, value) = (field(&call, ty)?, call.int(1));
    let is_date = ty == ScalarType::Date;
    if is_date && field.is_below_day() {
        return Err(not_supported(&call, ty));
    }
    let is_finite = if is_date { is_finite_date(value as i32) } else { is_finite_timestamp(value) };
    if !is_finite {
        return part_of_infinity(field);
    }
    let us = match ty {
        ScalarType::Date => midnight_of(value)?,
        ScalarType::Timestamptz if field != TimeField::Epoch => local_of(call.zone(), value)?,
        _ => value,
    };
    let part = extract(field, us)?;
    call.made_numeric(part)
}

/// Evaluates `date_part`: EXTRACT as a double.
fn part(mut call: Call, ty: ScalarType) -> Evaluated {
    // As in PostgreSQL, a date is a timestamp here.
    let (values, ty) = match (ty, call.values) {
        (ScalarType::Date, [field, Datum::Int(days)]) => {
            ([*field, Datum::Int(midnight_of(*days)?)], ScalarType::Timestamp)
        }
        (ty, values) => ([values[0], values[1]], ty),
    };
    let inner = Call { machine: call.machine, values: &values, element: call.element };
    let part = extracted(inner, ty)?;
    call.values = &[];
    let part = call.machine.frame.arena.numeric(part, 0);
    Ok(part.map_or(Datum::Null, |part| Datum::Double(part.to_double())))
}

fn truncated(call: &Call, ty: ScalarType) -> Evaluated {
    let us = call.int(1);
    if !is_finite_timestamp(us) {
        return Ok(Datum::Int(us));
    }
    Ok(Datum::Int(truncate(field(call, ty)?, us)?))
}

fn is_finite(call: Call) -> Evaluated {
    Ok(Datum::boolean(is_finite_timestamp(call.int(0))))
}

/// Evaluates `to_char` of a timestamp, which may have a zone.
fn to_text(call: Call, is_zoned: bool) -> Evaluated {
    let us = call.int(0);
    if !is_finite_timestamp(us) || call.text(1).is_empty() {
        return Ok(Datum::Null);
    }
    let text = match call.zone().filter(|_| is_zoned) {
        None => {
            let name = if is_zoned { "UTC" } else { "" };
            template::to_text(us, call.text(1), &ShownZone { east: 0, name })?
        }
        Some(session) => {
            let name = session.abbreviation_at(us);
            let shown = ShownZone { east: east_at(Some(session), us), name: &name };
            template::to_text(local_of(Some(session), us)?, call.text(1), &shown)?
        }
    };
    call.made(text)
}

fn outside(type_name: &str, call: &Call) -> Box<SqlError> {
    let (year, month, day) = (call.int(0), call.int(1), call.int(2));
    let message = format!("{type_name} field value out of range: {year}-{month:02}-{day:02}");
    SqlError::new("22008", message).into()
}

/// Returns the day that the first three arguments name. A negative year is before Christ.
fn made_day(call: &Call) -> Result<Day, Box<SqlError>> {
    let (year, month, day) = (call.int(0), call.int(1), call.int(2));
    let year = if year < 0 { year + 1 } else { year };
    let is_valid =
        call.int(0) != 0 && (1..=12).contains(&month) && (1..=Day::in_month(year, month)).contains(&day);
    is_valid.then_some(Day { year, month, day }).ok_or_else(|| outside("date", call))
}

/// Returns the local time that the first six arguments name.
pub(super) fn made_moment(call: &Call) -> Result<i64, Box<SqlError>> {
    let day = made_day(call)?;
    let (hour, minute, second) = (call.int(3), call.int(4), call.double(5));
    let is_valid = (0..=24).contains(&hour)
        && (0..=59).contains(&minute)
        && (0.0..=60.0).contains(&second)
        && (hour < 24 || minute == 0 && second == 0.0);
    if !is_valid {
        let message = format!("time field value out of range: {hour}:{minute:02}:{second:02}");
        return Err(SqlError::new("22008", message).into());
    }
    let microsecond = (second * 1e6).round_ties_even() as i64;
    let moment = Moment { day, hour, minute, second: 0, microsecond };
    Ok(moment.timestamp()?)
}
