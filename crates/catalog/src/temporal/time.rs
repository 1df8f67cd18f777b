//! Times of day: microseconds since midnight, up to 24:00.
//! Source: PostgreSQL 15, `time_in` in `date.c` and `DecodeTimeOnly` in `datetime.c`.

use super::input::{Meaning, error, meaning};
use super::offset::Refusal;
use super::{MICROSECONDS_PER_DAY, TemporalError};

/// Returns microseconds since midnight as a time.
///
/// # Errors
/// `Range`: they are negative or above 24 hours.
pub fn checked_time(us: i64) -> Result<i64, TemporalError> {
    match us {
        0..=MICROSECONDS_PER_DAY => Ok(us),
        _ => Err(TemporalError::Range("time")),
    }
}

/// Reads a text as a time. A date and a zone in the text are ignored.
///
/// # Errors
/// The error of PostgreSQL for the text; `Unsupported` for a value that depends on the clock.
pub fn parse_time(text: &str) -> Result<i64, TemporalError> {
    let refused = |refusal| error("time", text, refusal);
    let own = text.trim();
    let digits = own.len() == 4 && own.bytes().all(|byte| byte.is_ascii_digit());
    // A sign alone begins a zone.
    let before = own.find(':').and_then(|colon| own[..colon].chars().next_back());
    let has_time = own.starts_with(|c: char| c.is_ascii_digit())
        || before.is_some_and(|c| c.is_ascii_digit()) && !own.starts_with(['+', '-']);
    let of_day = match digits {
        _ if !has_time => Err(Refusal::Syntax),
        true => meaning(&format!("2000-01-01 {}:{}", &own[..2], &own[2..])),
        false => match meaning(&format!("2000-01-01 {text}")) {
            // A date in the text is a second one here, and must have a time beside it.
            Err(Refusal::Syntax) if text.contains(':') => meaning(text),
            of_day => of_day,
        },
    };
    match of_day.map_err(refused)? {
        Meaning::At(own, _) => {
            let seconds = (own.hour * 60 + own.minute) * 60 + own.second;
            match checked_time(seconds * 1_000_000 + own.microsecond) {
                Ok(us) => Ok(us),
                Err(_) => Err(refused(Refusal::Field)),
            }
        }
        _ => Err(refused(Refusal::Syntax)),
    }
}

/// Formats a time as PostgreSQL does: `HH:MM:SS[.ffffff]`.
pub fn format_time(us: i64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        text.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        for (text, shown) in
            [("1:02", "01:02:00"), ("24:00", "24:00:00"), ("2024-02-29 23:59:59.5", "23:59:59.5")]
        {
            assert_eq!(parse_time(text).map(format_time).as_deref(), Ok(shown));
        }
        for text in ["", "x", "25:00", "2024-02-29", "24:00:00.1"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
