//! Formats intervals by a template.
//! Source: PostgreSQL 15, `interval_to_char` and `DCH_to_char` in `formatting.c`.

use super::template::{Pattern, filled};
use super::unsupported;
use crate::SqlError;
use catalog::{Day, EPOCH_JULIAN, Interval};
use std::fmt::Write as _;

/// Days that an interval's month has in the number of its day in the year.
const DAYS_PER_MONTH: i64 = 30;

/// Evaluates `to_char` of an interval.
pub(crate) fn interval_text(own: Interval, template: &str) -> Result<String, SqlError> {
    filled(template, |pattern, out| write_field(own, pattern, out))
}

fn write_field(own: Interval, pattern: &Pattern<'_>, out: &mut String) -> Result<(), SqlError> {
    let (months, day) = (i64::from(own.months), i64::from(own.days));
    let (year, month) = (months / 12, months % 12);
    let of_year = months * DAYS_PER_MONTH + day;
    let seconds = own.us / 1_000_000;
    let (hour, minute, second, us) = (seconds / 3600, seconds / 60 % 60, seconds % 60, own.us % 1_000_000);
    // A sign has a place of its own.
    let signed = |out: &mut String, value: i64, width: usize| {
        pattern.number(out, value, width + usize::from(value < 0));
    };
    match pattern.name {
        "YYYY" => signed(out, year, 4),
        "YYY" => signed(out, year % 1000, 3),
        "YY" => signed(out, year % 100, 2),
        "Y" => signed(out, year % 10, 1),
        "Y,YYY" => {
            // Writing to a string does not fail.
            let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
        }
        "CC" => signed(out, year / 100, 2),
        "Q" if month == 0 => {}
        "Q" => _ = write!(out, "{}", (month - 1) / 3 + 1),
        "MM" => signed(out, month, 2),
        "DD" => pattern.number(out, day, 2),
        "DDD" => pattern.number(out, of_year, 3),
        "W" => _ = write!(out, "{}", (day - 1) / 7 + 1),
        "WW" => pattern.number(out, (of_year - 1) / 7 + 1, 2),
        "J" => _ = write!(out, "{}", Day { year, month, day }.days() + EPOCH_JULIAN),
        "HH24" => signed(out, hour, 2),
        "HH" | "HH12" => {
            let of_half = if hour % 12 == 0 { 12 } else { hour % 12 };
            pattern.number(out, of_half, 2 + usize::from(hour < 0));
        }
        "MI" => signed(out, minute, 2),
        "SS" => signed(out, second, 2),
        "SSSS" | "SSSSS" => pattern.number(out, seconds, 1),
        "MS" | "FF3" => _ = write!(out, "{:03}", us / 1000),
        "US" | "FF6" => _ = write!(out, "{us:06}"),
        "FF1" => _ = write!(out, "{}", us / 100_000),
        "FF2" => _ = write!(out, "{:02}", us / 10_000),
        "FF4" => _ = write!(out, "{:04}", us / 100),
        "FF5" => _ = write!(out, "{:05}", us / 10),
        "FX" => {}
        "AM" | "PM" | "A.M." | "P.M." => pattern.half(out, hour % 24 >= 12),
        "IYYY" | "IYY" | "IY" | "I" | "IW" | "IDDD" | "RM" => {
            return Err(unsupported(&format!("pattern \"{}\" of to_char of an interval", pattern.name)));
        }
        _ => {
            let error = SqlError::new("22007", "invalid format specification for an interval value");
            return Err(error.with_hint("Intervals are not tied to specific calendar dates."));
        }
    }
    Ok(())
}
