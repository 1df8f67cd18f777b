//! Timestamps: fields, truncation, and conversion by a template.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators" and "Data Type Formatting
//! Functions".

pub(crate) mod interval_template;
pub(crate) mod template;
pub(crate) mod template_input;

use crate::{Evaluated, SqlError};
use catalog::{
    Datum, Day, Decimal, Moment, Zone, checked_timestamp, is_finite_timestamp, moment_of, timestamp_plus,
};

const DAY_US: i64 = 86_400_000_000;
/// Seconds from 1970 to 2000.
const EPOCH_S: i64 = 946_684_800;

/// A field of a timestamp, for EXTRACT and `date_trunc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are PostgreSQL's")]
pub enum TimeField {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Epoch,
    Julian,
}

impl TimeField {
    /// Returns the field that a name denotes; the name is in lower case.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.trim_end_matches('s') {
            "microsecond" | "u" => Self::Microseconds,
            "millisecond" | "m" => Self::Milliseconds,
            "second" | "sec" => Self::Second,
            "minute" | "min" => Self::Minute,
            "hour" | "hr" => Self::Hour,
            "day" => Self::Day,
            "week" => Self::Week,
            "month" | "mon" => Self::Month,
            "quarter" => Self::Quarter,
            "year" | "yr" => Self::Year,
            "decade" => Self::Decade,
            "century" | "centurie" => Self::Century,
            "millennium" | "millennia" => Self::Millennium,
            "dow" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" => Self::DayOfYear,
            "isoyear" => Self::IsoYear,
            "epoch" => Self::Epoch,
            "julian" => Self::Julian,
            _ => return None,
        })
    }

    /// Returns whether the field is finer than a day, so that a date does not have it.
    pub(crate) fn is_below_day(self) -> bool {
        matches!(self, Self::Microseconds | Self::Milliseconds | Self::Second | Self::Minute | Self::Hour)
    }
}

fn unsupported(feature: &str) -> SqlError {
    SqlError::new("0A000", format!("{feature} is not supported"))
}

/// Returns NULL for a cyclic field of an infinite timestamp. Refuses a growing field, which is infinite in
/// PostgreSQL, because a decimal cannot be infinite.
pub(crate) fn part_of_infinity(field: TimeField) -> Evaluated {
    match field {
        TimeField::Decade
        | TimeField::Century
        | TimeField::Millennium
        | TimeField::Year
        | TimeField::IsoYear
        | TimeField::Epoch
        | TimeField::Julian => Err(unsupported("EXTRACT of this field of an infinite timestamp").into()),
        _ => Ok(Datum::Null),
    }
}

/// Returns the number of the century or millennium of a year; `length` is 100 or 1000. The number 1 begins
/// with the year 1; the number before 1 is -1.
fn span_of(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - year) / length) }
}

/// Evaluates EXTRACT of a finite timestamp.
pub(crate) fn extract(field: TimeField, us: i64) -> Result<Decimal, SqlError> {
    let Moment { day, hour, minute, second, microsecond } = moment_of(us);
    let whole = |value: i64| Ok(Decimal::from_int(value));
    let scaled = |mantissa: i64, scale: u8| {
        Decimal::new(mantissa.into(), scale).map_err(|error| SqlError::new("22003", error.to_string()))
    };
    let microseconds = second * 1_000_000 + microsecond;
    // The year before 1 is written -1.
    let written = |year: i64| if year > 0 { year } else { year - 1 };
    match field {
        TimeField::Microseconds => whole(microseconds),
        TimeField::Milliseconds => scaled(microseconds, 3),
        TimeField::Second => scaled(microseconds, 6),
        TimeField::Minute => whole(minute),
        TimeField::Hour => whole(hour),
        TimeField::Day => whole(day.day),
        TimeField::Week => whole(day.iso_week().1),
        TimeField::Month => whole(day.month),
        TimeField::Quarter => whole((day.month + 2) / 3),
        TimeField::Year => whole(written(day.year)),
        TimeField::Decade => whole(day.year.div_euclid(10)),
        TimeField::Century => whole(span_of(day.year, 100)),
        TimeField::Millennium => whole(span_of(day.year, 1000)),
        TimeField::DayOfWeek => whole(day.weekday()),
        TimeField::IsoDayOfWeek => whole((day.weekday() + 6) % 7 + 1),
        TimeField::DayOfYear => whole(day.of_year()),
        TimeField::IsoYear => whole(written(day.iso_week().0)),
        TimeField::Epoch => {
            let since_1970 = i128::from(us) + i128::from(EPOCH_S) * 1_000_000;
            Decimal::new(since_1970, 6).map_err(|error| SqlError::new("22003", error.to_string()))
        }
        TimeField::Julian => Err(unsupported("EXTRACT of the field \"julian\"")),
    }
}

/// Evaluates `date_trunc` of a finite timestamp.
pub(crate) fn truncate(field: TimeField, us: i64) -> Result<i64, SqlError> {
    let Moment { day, .. } = moment_of(us);
    let to = |step: i64| Ok(checked_timestamp(us - us.rem_euclid(step))?);
    let from = |year: i64, month: i64| {
        let day = Day { year, month, day: 1 };
        Ok(Moment { day, hour: 0, minute: 0, second: 0, microsecond: 0 }.timestamp()?)
    };
    match field {
        TimeField::Microseconds => Ok(us),
        TimeField::Milliseconds => to(1000),
        TimeField::Second => to(1_000_000),
        TimeField::Minute => to(60_000_000),
        TimeField::Hour => to(3_600_000_000),
        TimeField::Day => to(DAY_US),
        TimeField::Week => {
            let monday_based = (day.weekday() + 6) % 7;
            Ok(timestamp_plus(us - us.rem_euclid(DAY_US), -monday_based * DAY_US)?)
        }
        TimeField::Month => from(day.year, day.month),
        TimeField::Quarter => from(day.year, (day.month - 1) / 3 * 3 + 1),
        TimeField::Year => from(day.year, 1),
        TimeField::Decade => from(day.year.div_euclid(10) * 10, 1),
        TimeField::Century => from((day.year - 1).div_euclid(100) * 100 + 1, 1),
        TimeField::Millennium => from((day.year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => Err(SqlError::new("22023", "date_trunc does not support this unit")),
    }
}

/// Evaluates `date_trunc` of a finite timestamp in a zone.
pub(crate) fn truncate_in(zone: &Zone, field: TimeField, us: i64) -> Result<i64, SqlError> {
    let local = truncate(field, zone.local_of(us)?)?;
    match field.is_below_day() {
        // A whole hour may occur twice, so the offset stays.
        true => Ok(local - (zone.local_of(us)? - us)),
        false => Ok(zone.utc_of(local)?),
    }
}

/// Evaluates `to_timestamp(seconds since 1970)`.
pub(crate) fn from_epoch(seconds: f64) -> Result<i64, SqlError> {
    if seconds.is_nan() {
        return Err(SqlError::new("22008", "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 { i64::MAX } else { i64::MIN });
    }
    let us = ((seconds - EPOCH_S as f64) * 1e6).round_ties_even();
    let is_close = us.abs() < 9.3e18;
    let us = is_close.then(|| checked_timestamp(us as i64).ok().filter(|us| is_finite_timestamp(*us)));
    us.flatten().ok_or_else(|| SqlError::new("22008", format!("timestamp out of range: \"{seconds}\"")))
}
