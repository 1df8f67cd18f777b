//! Dates and timestamps: integers since 2000-01-01 in memory, PostgreSQL's text outside.
//! Source: PostgreSQL 15, `datetime.c`, `timestamp.h`, `date.h`: the same ranges, the same infinities.
//!
//! Invariant: a date or timestamp in a row or register is infinite or within PostgreSQL's range. Held by:
//! `checked_date` and `checked_timestamp`, which check every input and every result of arithmetic; tests
//! `values_out_of_range_are_refused` here, `values` in `workload`.

mod abbreviations;
mod calendar;
mod canonical;
mod input;
mod interval;
mod offset;
mod session_zone;
mod time;
mod tokens;
mod zone;

pub use calendar::{Day, EPOCH_JULIAN, Moment, day_of, moment_of};
pub use input::{local_timestamp, parse_date, parse_timestamp, parse_timestamptz};
pub use interval::Interval;
pub use session_zone::{NoZone, SessionZone, east_at, later, local_of, utc_of};
pub use time::{checked_time, format_time, parse_time};
pub use zone::Zone;

use thiserror::Error;

/// Microseconds of a day.
pub const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// The date `-infinity`.
pub const DATE_BEFORE_ALL: i32 = i32::MIN;
/// The date `infinity`.
pub const DATE_AFTER_ALL: i32 = i32::MAX;
/// The timestamp `-infinity`.
pub const TIMESTAMP_BEFORE_ALL: i64 = i64::MIN;
/// The timestamp `infinity`.
pub const TIMESTAMP_AFTER_ALL: i64 = i64::MAX;

/// 4714-11-24 BC, in days since 2000-01-01.
const FIRST_DATE: i64 = -EPOCH_JULIAN;
/// 5874897-12-31.
const LAST_DATE: i64 = 2_145_031_948;
/// 4714-11-24 BC, in microseconds since 2000-01-01.
const FIRST_TIMESTAMP: i64 = FIRST_DATE * MICROSECONDS_PER_DAY;
/// The first microsecond of the year 294277.
const END_OF_TIMESTAMPS: i64 = 9_223_371_331_200_000_000;

/// Seconds from the Unix epoch to 2000-01-01.
const POSTGRES_EPOCH_S: i64 = 946_684_800;

/// Why a text or number is not a date or timestamp.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum TemporalError {
    /// The text does not have the form of the type.
    #[error("invalid input syntax for type {kind}: \"{text}\"")]
    Syntax {
        /// `date` or `timestamp`.
        kind: &'static str,
        /// The text.
        text: String,
    },
    /// A field of the text is out of range, such as the month.
    #[error("date/time field value out of range: \"{0}\"")]
    Field(String),
    /// The zone is further from UTC than any zone.
    #[error("time zone displacement out of range: \"{0}\"")]
    Displacement(String),
    /// A numeric zone has no sign.
    #[error("invalid input syntax for type numeric time zone: \"{0}\"")]
    UnsignedZone(String),
    /// A numeric zone is further from UTC than any zone.
    #[error("numeric time zone \"{0}\" out of range")]
    NumericZone(String),
    /// No zone has this name.
    #[error("time zone \"{0}\" not recognized")]
    Zone(String),
    /// The value lies outside of the type's range.
    #[error("{0} out of range")]
    Range(&'static str),
    /// The date is outside the range of timestamps, which is narrower.
    #[error("date out of range for timestamp")]
    DateForTimestamp,
    /// The text uses a form that is not supported.
    #[error("{0} is not supported in a date or timestamp")]
    Unsupported(String),
}

impl TemporalError {
    /// Returns PostgreSQL's five-character code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "22007",
            Self::Field(_) | Self::Range(_) | Self::DateForTimestamp => "22008",
            Self::Displacement(_) => "22009",
            Self::UnsignedZone(_) | Self::NumericZone(_) | Self::Zone(_) => "22023",
            Self::Unsupported(_) => "0A000",
        }
    }
}

/// Returns the microseconds from 2000-01-01 UTC to the system clock's time.
pub fn now_us() -> i64 {
    let since_unix = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("the clock stands after 1970");
    i64::try_from(since_unix.as_micros()).expect("the clock stands before the year 290000")
        - POSTGRES_EPOCH_S * 1_000_000
}

/// Returns the milliseconds from 1970-01-01 UTC to a moment in microseconds from 2000-01-01 UTC.
pub fn unix_ms(us: i64) -> i64 {
    us / 1000 + POSTGRES_EPOCH_S * 1000
}

/// Returns whether a date is not infinite.
pub fn is_finite_date(days: i32) -> bool {
    !matches!(days, DATE_BEFORE_ALL | DATE_AFTER_ALL)
}

/// Returns whether a timestamp is not infinite.
pub fn is_finite_timestamp(us: i64) -> bool {
    !matches!(us, TIMESTAMP_BEFORE_ALL | TIMESTAMP_AFTER_ALL)
}

/// Returns days since 2000-01-01 as a date.
///
/// # Errors
/// `Range`: the days are outside PostgreSQL's range.
pub fn checked_date(days: i64) -> Result<i32, TemporalError> {
    match i32::try_from(days) {
        Ok(days) if !is_finite_date(days) || (FIRST_DATE..=LAST_DATE).contains(&days.into()) => Ok(days),
        _ => Err(TemporalError::Range("date")),
    }
}

/// Returns microseconds since 2000-01-01 as a timestamp.
///
/// # Errors
/// `Range`: the microseconds are outside PostgreSQL's range.
pub fn checked_timestamp(us: i64) -> Result<i64, TemporalError> {
    if !is_finite_timestamp(us) || (FIRST_TIMESTAMP..END_OF_TIMESTAMPS).contains(&us) {
        Ok(us)
    } else {
        Err(TemporalError::Range("timestamp"))
    }
}

/// Returns a timestamp rounded to a number of digits after the second, halves away from 2000-01-01.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
pub fn rounded_timestamp(us: i64, precision: u8) -> Result<i64, TemporalError> {
    if !is_finite_timestamp(us) {
        return Ok(us);
    }
    let unit = 10i64.pow(6u32.saturating_sub(precision.into()));
    let half = unit / 2 * us.signum();
    checked_timestamp(checked_timestamp(us)?.saturating_add(half) / unit * unit)
}

/// Returns the sum of a finite date and a number of days.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
pub fn date_plus(days: i64, more: i64) -> Result<i32, TemporalError> {
    let sum = days.checked_add(more).ok_or(TemporalError::Range("date"))?;
    if (FIRST_DATE..=LAST_DATE).contains(&sum) {
        checked_date(sum)
    } else {
        Err(TemporalError::Range("date"))
    }
}

/// Returns the sum of a finite timestamp and a number of microseconds.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
pub fn timestamp_plus(us: i64, more: i64) -> Result<i64, TemporalError> {
    let range = TemporalError::Range("timestamp");
    let sum = us.checked_add(more).filter(|sum| is_finite_timestamp(*sum)).ok_or(range)?;
    checked_timestamp(sum)
}

/// Returns midnight of a date.
///
/// # Errors
/// `DateForTimestamp`: the date is outside the range of timestamps.
pub fn midnight_of(days: i64) -> Result<i64, TemporalError> {
    match i32::try_from(days) {
        Ok(DATE_BEFORE_ALL) => Ok(TIMESTAMP_BEFORE_ALL),
        Ok(DATE_AFTER_ALL) => Ok(TIMESTAMP_AFTER_ALL),
        _ => {
            let range = TemporalError::DateForTimestamp;
            let us = days.checked_mul(MICROSECONDS_PER_DAY);
            us.filter(|us| (FIRST_TIMESTAMP..END_OF_TIMESTAMPS).contains(us)).ok_or(range)
        }
    }
}

/// Returns the date of a timestamp.
pub fn date_of(us: i64) -> i32 {
    match us {
        TIMESTAMP_BEFORE_ALL => DATE_BEFORE_ALL,
        TIMESTAMP_AFTER_ALL => DATE_AFTER_ALL,
        us => us.div_euclid(MICROSECONDS_PER_DAY) as i32,
    }
}

/// Appends a number that is not negative, with zeros before it up to a width of at most four.
fn push_number(number: i64, width: usize, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number);
    out.push_str(&"0000"[..width.saturating_sub(digits.len())]);
    out.push_str(digits);
}

/// Writes the year, month and day of a date. Returns whether the year is before Christ; the caller then ends
/// the text with "BC".
fn write_day(day: Day, out: &mut String) -> bool {
    let (year, is_before_christ) = day.written_year();
    push_number(year, 4, out);
    for number in [day.month, day.day] {
        out.push('-');
        push_number(number, 2, out);
    }
    is_before_christ
}

/// Formats a date as PostgreSQL does: `YYYY-MM-DD`.
pub fn format_date(days: i32) -> String {
    match days {
        DATE_BEFORE_ALL => return "-infinity".into(),
        DATE_AFTER_ALL => return "infinity".into(),
        _ => {}
    }
    let mut text = String::new();
    if write_day(day_of(days.into()), &mut text) {
        text.push_str(" BC");
    }
    text
}

fn format_moment(us: i64, zone: &str) -> String {
    match us {
        TIMESTAMP_BEFORE_ALL => return "-infinity".into(),
        TIMESTAMP_AFTER_ALL => return "infinity".into(),
        _ => {}
    }
    let Moment { day, hour, minute, second, microsecond } = moment_of(us);
    let mut text = String::new();
    let is_before_christ = write_day(day, &mut text);
    for (before, number) in [(' ', hour), (':', minute), (':', second)] {
        text.push(before);
        push_number(number, 2, &mut text);
    }
    if microsecond != 0 {
        text.push_str(format!(".{microsecond:06}").trim_end_matches('0'));
    }
    text.push_str(zone);
    if is_before_christ {
        text.push_str(" BC");
    }
    text
}

/// Formats a timestamp as PostgreSQL does: `YYYY-MM-DD HH:MM:SS[.ffffff]`.
pub fn format_timestamp(us: i64) -> String {
    format_moment(us, "")
}

/// Formats a timestamp with time zone as PostgreSQL does in a session's zone:
/// `YYYY-MM-DD HH:MM:SS[.ffffff]+hh[:mm[:ss]]`.
pub fn format_timestamptz(us: i64, zone: Option<&SessionZone>) -> String {
    match local_of(zone, us) {
        Ok(local) if zone.is_some() && is_finite_timestamp(us) => {
            format_moment(local, &session_zone::signed_offset(east_at(zone, us)))
        }
        // The local time may be just outside the range.
        _ => format_moment(us, "+00"),
    }
}

#[cfg(test)]
mod tests;
