//! Formats and parses timestamps by a template: `to_char`, `to_timestamp`, `to_date`.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", tables 9.26 and 9.27.

use super::{DAY_US, unsupported};
use crate::SqlError;
use catalog::{Day, Moment, date_plus, moment_of};
use std::fmt::Write as _;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Returns the name of a month or day in the case and length of a pattern.
fn cased(name: &str, pattern: &str, fills: bool) -> String {
    let short = pattern.len() == 2 || pattern.eq_ignore_ascii_case("mon");
    let name = if short { &name[..3] } else { name };
    let first_two: Vec<bool> = pattern.chars().take(2).map(char::is_uppercase).collect();
    let name = match first_two.as_slice() {
        [true, true] => name.to_uppercase(),
        [false, _] => name.to_lowercase(),
        _ => name.to_owned(),
    };
    if fills && !short { format!("{name:<9}") } else { name }
}

/// The patterns of templates. They are matched without regard to case, and the longest match counts.
const PATTERNS: [&str; 53] = [
    "MONTH", "IYYY", "YYYY", "HH24", "HH12", "SSSSS", "SSSS", "Y,YYY", "A.M.", "P.M.", "B.C.", "A.D.",
    "IDDD", "DAY", "MON", "IYY", "YYY", "DDD", "IW", "WW", "YY", "IY", "DD", "DY", "ID", "HH", "MI", "MM",
    "SS", "MS", "US", "AM", "PM", "CC", "RM", "TZH", "TZM", "TZ", "OF", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "BC", "AD", "Y", "I", "D", "W", "J", "Q",
];

/// Returns the pattern that a template begins with, and how the template writes it.
fn pattern_of(template: &str) -> Option<(&'static str, &str)> {
    let mut found: Option<&'static str> = None;
    for pattern in PATTERNS {
        let fits = template.get(..pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(pattern));
        if fits && found.is_none_or(|other| other.len() < pattern.len()) {
            found = Some(pattern);
        }
    }
    found.map(|pattern| (pattern, &template[..pattern.len()]))
}

/// A pattern of a template.
pub(super) struct Pattern<'a> {
    pub(super) name: &'static str,
    /// The pattern as the template writes it.
    pub(super) written: &'a str,
    /// Whether numbers and names are filled up to their widths.
    fills: bool,
}

impl Pattern<'_> {
    /// Writes a number with zeros before it up to a width.
    pub(super) fn number(&self, out: &mut String, value: i64, width: usize) {
        // Writing to a string does not fail.
        let _ = if self.fills { write!(out, "{value:0width$}") } else { write!(out, "{value}") };
    }

    /// Writes the half of the day of an hour.
    pub(super) fn half(&self, out: &mut String, is_second: bool) {
        let half = if is_second { ["PM", "pm", "P.M.", "p.m."] } else { ["AM", "am", "A.M.", "a.m."] };
        let is_lower = self.written.starts_with(char::is_lowercase);
        out.push_str(half[if self.name.contains('.') { 2 } else { 0 } + usize::from(is_lower)]);
    }
}

/// Writes a template, with each pattern written by a function.
pub(super) fn filled(
    template: &str,
    write: impl Fn(&Pattern<'_>, &mut String) -> Result<(), SqlError>,
) -> Result<String, SqlError> {
    let mut out = String::new();
    let mut remaining = template;
    let mut fills = true;
    while let Some(first) = remaining.chars().next() {
        if let Some(quoted) = remaining.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push_str(&quoted[..end]);
            remaining = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        if remaining.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("FM")) {
            fills = false;
            remaining = &remaining[2..];
            continue;
        }
        let Some((name, written)) = pattern_of(remaining) else {
            out.push(first);
            remaining = &remaining[first.len_utf8()..];
            continue;
        };
        remaining = &remaining[written.len()..];
        let begin = out.len();
        write(&Pattern { name, written, fills }, &mut out)?;
        if remaining.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("TH"))
            && out[begin..].ends_with(|c: char| c.is_ascii_digit())
        {
            let ordinal = ordinal_of(&out[begin..]);
            out.push_str(&if remaining.starts_with('T') {
                ordinal.to_uppercase()
            } else {
                ordinal.to_owned()
            });
            remaining = &remaining[2..];
        }
        fills = true;
    }
    Ok(out)
}

/// The zone that `to_char` shows.
pub(crate) struct ShownZone<'a> {
    /// Seconds east of UTC.
    pub(crate) east: i64,
    /// The abbreviation.
    pub(crate) name: &'a str,
}

impl ShownZone<'_> {
    /// Writes the offset: its hours with a sign, and its minutes if there are any.
    fn write_offset(&self, out: &mut String) {
        self.write_hours(out);
        let minute = self.east.abs() / 60 % 60;
        if minute != 0 {
            // Writing to a string does not fail.
            let _ = write!(out, ":{minute:02}");
        }
    }

    fn write_hours(&self, out: &mut String) {
        let sign = if self.east < 0 { '-' } else { '+' };
        let _ = write!(out, "{sign}{:02}", self.east.abs() / 3600);
    }
}

/// Evaluates `to_char` of a timestamp.
pub(crate) fn to_text(us: i64, template: &str, zone: &ShownZone<'_>) -> Result<String, SqlError> {
    let Moment { day, hour, minute, second, microsecond: fraction } = moment_of(us);
    let (year, is_before_christ) = day.written_year();
    let (iso_year, iso_week) = day.iso_week();
    let iso_year = Day { year: iso_year, ..day }.written_year().0;
    filled(template, |pattern, out| {
        let written = pattern.written;
        match pattern.name {
            "YYYY" => pattern.number(out, year, 4),
            "YYY" => pattern.number(out, year % 1000, 3),
            "YY" => pattern.number(out, year % 100, 2),
            "Y" => pattern.number(out, year % 10, 1),
            "Y,YYY" => {
                let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
            }
            "IYYY" => pattern.number(out, iso_year, 4),
            "IYY" => pattern.number(out, iso_year % 1000, 3),
            "IY" => pattern.number(out, iso_year % 100, 2),
            "I" => pattern.number(out, iso_year % 10, 1),
            "MM" => pattern.number(out, day.month, 2),
            "MONTH" | "MON" => out.push_str(&cased(MONTHS[day.month as usize - 1], written, pattern.fills)),
            "DAY" | "DY" => {
                let name = DAYS[day.weekday() as usize];
                out.push_str(&cased(name, written, pattern.fills));
            }
            "DD" => pattern.number(out, day.day, 2),
            "DDD" => pattern.number(out, day.of_year(), 3),
            "D" => pattern.number(out, day.weekday() + 1, 1),
            "ID" => pattern.number(out, (day.weekday() + 6) % 7 + 1, 1),
            "W" => pattern.number(out, (day.day - 1) / 7 + 1, 1),
            "WW" => pattern.number(out, (day.of_year() - 1) / 7 + 1, 2),
            "IW" => pattern.number(out, iso_week, 2),
            "Q" => pattern.number(out, (day.month + 2) / 3, 1),
            "CC" => pattern.number(out, (year + 99) / 100, 2),
            "J" => pattern.number(out, day.days() + 2_451_545, 1),
            "HH24" => pattern.number(out, hour, 2),
            "HH" | "HH12" => pattern.number(out, (hour + 11) % 12 + 1, 2),
            "MI" => pattern.number(out, minute, 2),
            "SS" => pattern.number(out, second, 2),
            "SSSS" | "SSSSS" => pattern.number(out, us.rem_euclid(DAY_US) / 1_000_000, 1),
            "MS" => pattern.number(out, fraction / 1000, 3),
            "US" => pattern.number(out, fraction, 6),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = usize::from(pattern.name.as_bytes()[2] - b'0');
                out.push_str(&format!("{fraction:06}")[..digits]);
            }
            "AM" | "PM" | "A.M." | "P.M." => pattern.half(out, hour >= 12),
            "AD" | "BC" | "A.D." | "B.C." => {
                let era = match (is_before_christ, pattern.name.len()) {
                    (false, 2) => "AD",
                    (true, 2) => "BC",
                    (false, _) => "A.D.",
                    (true, _) => "B.C.",
                };
                let is_lower = written.starts_with(char::is_lowercase);
                out.push_str(&if is_lower { era.to_lowercase() } else { era.to_owned() });
            }
            "TZ" if written.starts_with(char::is_lowercase) => out.push_str(&zone.name.to_lowercase()),
            "TZ" => out.push_str(zone.name),
            "OF" => zone.write_offset(out),
            "TZH" => zone.write_hours(out),
            "TZM" => {
                let _ = write!(out, "{:02}", zone.east.abs() / 60 % 60);
            }
            other => return Err(unsupported(&format!("pattern \"{other}\" of to_char"))),
        }
        Ok(())
    })
}

fn ordinal_of(digits: &str) -> &'static str {
    let tens = digits.len().checked_sub(2).and_then(|at| digits.get(at..at + 1));
    match (tens, digits.chars().last()) {
        (Some("1"), _) => "th",
        (_, Some('1')) => "st",
        (_, Some('2')) => "nd",
        (_, Some('3')) => "rd",
        _ => "th",
    }
}

/// Evaluates `to_timestamp(text, template)` and `to_date`.
pub(crate) fn from_text(whole: &str, template: &str) -> Result<Moment, SqlError> {
    let (mut year, mut month, mut day) = (None::<i64>, 1i64, 1i64);
    let (mut day_of_year, mut is_afternoon, mut us) = (None::<i64>, None::<bool>, 0i64);
    let (mut hour, mut minute, mut second) = (0i64, 0i64, 0i64);
    let (mut text, mut remaining) = (whole.trim_start(), template);
    let wrong = |pattern: &str, text: &str| {
        let value: String = text.chars().take(pattern.len()).collect();
        let error = SqlError::new("22007", format!("invalid value \"{value}\" for \"{pattern}\""));
        error.with_detail("Value must be an integer.")
    };
    while let Some(first) = remaining.chars().next() {
        if remaining.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("FM")) {
            remaining = &remaining[2..];
            continue;
        }
        let Some((pattern, written)) =
            pattern_of(remaining).filter(|(pattern, _)| !matches!(*pattern, "TZ" | "OF"))
        else {
            // A separator of the template matches any separator of the text, or none.
            remaining = &remaining[first.len_utf8()..];
            let is_separator = |c: char| !c.is_alphanumeric() && c != '+';
            if first.is_alphanumeric() {
                text = text.get(text.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            } else if text.starts_with(is_separator) {
                text = &text[text.chars().next().map_or(0, char::len_utf8)..];
            }
            continue;
        };
        remaining = &remaining[written.len()..];
        text = text.trim_start();
        // A number has at most the digits of its pattern if another pattern of digits follows directly.
        let follows = pattern_of(remaining).is_some_and(|(next, _)| {
            !matches!(next, "AM" | "PM" | "A.M." | "P.M." | "MON" | "MONTH" | "DY" | "DAY")
        });
        let mut number = |width: usize| -> Result<i64, SqlError> {
            let most = if follows || width < 4 && pattern != "YYYY" { width } else { usize::MAX };
            let digits = text.bytes().take_while(u8::is_ascii_digit).count().min(most);
            let value = text[..digits].parse().map_err(|_| wrong(written, text))?;
            text = &text[digits..];
            Ok(value)
        };
        match pattern {
            "YYYY" => year = Some(number(4)?),
            "YYY" | "YY" | "Y" => {
                let short = number(pattern.len())?;
                // As in PostgreSQL, a short year stands for the year nearest to 2020.
                year = Some(match short {
                    0..70 => short + 2000,
                    70..100 => short + 1900,
                    100..520 => short + 2000,
                    _ => short + 1000,
                });
            }
            "MM" => month = number(2)?,
            "DD" => day = number(2)?,
            "DDD" => day_of_year = Some(number(3)?),
            "HH24" | "HH" | "HH12" => hour = number(2)?,
            "MI" => minute = number(2)?,
            "SS" => second = number(2)?,
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits: String = text.chars().take_while(char::is_ascii_digit).take(6).collect();
                let unit = if pattern == "MS" { 3 } else { 6 };
                let value: i64 = digits.parse().map_err(|_| wrong(written, text))?;
                let power = |digits: usize| 10i64.pow(digits as u32);
                us = if pattern == "US" && digits.len() < 6 || pattern == "MS" && digits.len() < 3 {
                    value * power(unit - digits.len()) * power(6 - unit)
                } else {
                    value * power(6usize.saturating_sub(digits.len()))
                };
                text = &text[digits.len()..];
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let length = pattern.len();
                let half = text.get(..length).unwrap_or_default().to_lowercase();
                if !half.starts_with(['a', 'p']) {
                    return Err(SqlError::new(
                        "22007",
                        format!("invalid value \"{half}\" for \"{written}\""),
                    ));
                }
                is_afternoon = Some(half.starts_with('p'));
                text = &text[length..];
            }
            "MON" | "MONTH" => {
                let name: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
                let wanted = if pattern == "MON" { name.get(..3).unwrap_or(&name) } else { &name };
                let fits = |name: &&str| {
                    let name = if pattern == "MON" { &name[..3] } else { name };
                    name.eq_ignore_ascii_case(wanted)
                };
                let index = MONTHS.iter().position(fits);
                let index = index.ok_or_else(|| {
                    SqlError::new("22007", format!("invalid value \"{name}\" for \"{written}\""))
                })?;
                month = index as i64 + 1;
                text = &text[wanted.len()..];
            }
            "DAY" | "DY" => text = text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
            other => return Err(unsupported(&format!("pattern \"{other}\" of to_timestamp"))),
        }
    }
    if let Some(is_afternoon) = is_afternoon {
        if !(1..=12).contains(&hour) {
            let error = SqlError::new("22007", format!("hour \"{hour}\" is invalid for the 12-hour clock"));
            return Err(error.with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        hour = hour % 12 + if is_afternoon { 12 } else { 0 };
    }
    let range = || SqlError::new("22008", format!("date/time field value out of range: \"{whole}\""));
    let year = year.unwrap_or(0);
    // As in PostgreSQL, the year 0 is 1 BC here.
    let year = if (0..10_000_000).contains(&year) { year } else { return Err(range()) };
    let last = if (1..=12).contains(&month) { Day::in_month(year, month) } else { 0 };
    let day = match day_of_year {
        Some(day) if (1..=366).contains(&day) => {
            let first = Day { year, month: 1, day: 1 }.days();
            catalog::day_of(date_plus(first, day - 1)?.into())
        }
        None if (1..=last).contains(&day) => Day { year, month, day },
        _ => return Err(range()),
    };
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(range());
    }
    Ok(Moment { day, hour, minute, second, microsecond: us })
}
