//! Reads the usual form of dates and timestamps without allocations: `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`.

use super::{Day, Moment};

fn number(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Returns the moment of a text in this form; `None` when the form differs or a field is out of range.
pub(super) fn read(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    let (date, time) = bytes.split_at_checked(10)?;
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let day = Day { year: number(&date[..4])?, month: number(&date[5..7])?, day: number(&date[8..])? };
    let is_date = day.year > 0
        && (1..=12).contains(&day.month)
        && (1..=Day::in_month(day.year, day.month)).contains(&day.day);
    if !is_date {
        return None;
    }
    if time.is_empty() {
        return Some(Moment { day, hour: 0, minute: 0, second: 0, microsecond: 0 });
    }
    let (clock, fraction) = time.split_at_checked(9)?;
    if !matches!(clock[0], b' ' | b'T') || clock[3] != b':' || clock[6] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&clock[1..3])?, number(&clock[4..6])?, number(&clock[7..])?);
    let microsecond = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            number(digits)? * 10i64.pow(6 - digits.len() as u32)
        }
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(Moment { day, hour, minute, second, microsecond })
}
