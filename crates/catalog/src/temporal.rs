//! Dates and timestamps: integers since 2000-01-01 in memory, ISO 8601 as text.

use jiff::civil::{Date, DateTime, date};
use jiff::{SignedDuration, ToSpan};
use thiserror::Error;

/// Microseconds of a day.
pub const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// Seconds from the Unix epoch to 2000-01-01.
const POSTGRES_EPOCH_S: i64 = 946_684_800;

/// Text that is not a date or a timestamp, or one out of range.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("invalid input syntax for type {kind}: \"{text}\"")]
pub struct TemporalError {
    kind: &'static str,
    text: String,
}

fn origin() -> Date {
    date(2000, 1, 1)
}

/// Microseconds since 2000-01-01 UTC, from the system's clock.
pub fn now_us() -> i64 {
    let since_unix = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("the clock stands after 1970");
    i64::try_from(since_unix.as_micros()).expect("the clock stands before the year 290000")
        - POSTGRES_EPOCH_S * 1_000_000
}

/// Days since 2000-01-01.
///
/// # Errors
/// Text that is not `YYYY-MM-DD`.
pub fn parse_date(text: &str) -> Result<i32, TemporalError> {
    let error = || TemporalError { kind: "date", text: text.into() };
    let day: Date = text.trim().parse().map_err(|_| error())?;
    Ok(day.since(origin()).map_err(|_| error())?.get_days())
}

/// `YYYY-MM-DD`.
pub fn format_date(days: i32) -> String {
    origin().checked_add(days.days()).map_or_else(|_| format!("{days} days"), |day| day.to_string())
}

/// Microseconds since 2000-01-01; a zone in the text is honoured, without one it is UTC.
///
/// # Errors
/// Text that is not a date, or a date and a time.
pub fn parse_timestamp(text: &str) -> Result<i64, TemporalError> {
    let error = || TemporalError { kind: "timestamp", text: text.into() };
    let text = text.trim();
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Ok(instant.as_microsecond() - POSTGRES_EPOCH_S * 1_000_000);
    }
    let moment: DateTime = text.parse().map_err(|_| error())?;
    let since = moment.duration_since(origin().at(0, 0, 0, 0));
    i64::try_from(since.as_micros()).map_err(|_| error())
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]`, as PostgreSQL prints it.
pub fn format_timestamp(us: i64) -> String {
    let moment = origin().at(0, 0, 0, 0).checked_add(SignedDuration::from_micros(us));
    let Ok(moment) = moment else { return format!("{us} us") };
    let (day, time) = (moment.date(), moment.time());
    let fraction = time.subsec_nanosecond() / 1000;
    let mut text = format!("{day} {:02}:{:02}:{:02}", time.hour(), time.minute(), time.second());
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

/// The day and the time of a timestamp; `None` beyond the years that the calendar knows.
pub fn moment_of(us: i64) -> Option<DateTime> {
    origin().at(0, 0, 0, 0).checked_add(SignedDuration::from_micros(us)).ok()
}

/// The timestamp of a day and a time.
pub fn timestamp_of(moment: DateTime) -> Option<i64> {
    i64::try_from(moment.duration_since(origin().at(0, 0, 0, 0)).as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["2026-11-21 12:13:14", "1999-12-31 23:59:59.5", "2000-01-01 00:00:00.000001"] {
            assert_eq!(format_timestamp(parse_timestamp(text).unwrap()), text);
        }
        assert_eq!(parse_timestamp("2000-01-01T01:00:00+01:00").unwrap(), 0);
        assert_eq!(parse_date("2000-03-01").unwrap(), 60);
        assert_eq!(format_date(-1), "1999-12-31");
        assert!(parse_date("2000-13-01").is_err());
        assert!(parse_timestamp("yesterday").is_err());
    }
}
