//! Templates of timestamps and intervals, and `to_char` of timestamps.
//! Source: PostgreSQL 15's documentation, "Data Type Formatting Functions", tables 9.26 and 9.27.

use super::{DAY_US, unsupported};
use crate::SqlError;
use catalog::{Day, EPOCH_JULIAN, Moment, moment_of};
use std::fmt::Write as _;

pub(super) const MONTHS: [&str; 12] = [
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
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

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

/// The patterns of templates. They are written in one case, but names may begin with a capital letter.
/// The longest match counts.
const PATTERNS: [&str; 54] = [
    "MONTH", "IYYY", "YYYY", "HH24", "HH12", "SSSSS", "SSSS", "Y,YYY", "A.M.", "P.M.", "B.C.", "A.D.",
    "IDDD", "DAY", "MON", "IYY", "YYY", "DDD", "IW", "WW", "YY", "IY", "DD", "DY", "ID", "HH", "MI", "MM",
    "SS", "MS", "US", "AM", "PM", "CC", "RM", "TZH", "TZM", "TZ", "OF", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "BC", "AD", "Y", "I", "D", "W", "J", "Q", "FX",
];

/// Returns whether a character separates fields: it is neither a letter, a digit nor a blank.
pub(super) fn is_separator(character: char) -> bool {
    character.is_ascii_punctuation()
}

/// Returns the pattern that a template begins with, and how the template writes it.
pub(super) fn pattern_of(template: &str) -> Option<(&'static str, &str)> {
    let mut found: Option<&'static str> = None;
    for pattern in PATTERNS {
        let is_upper = |head: &str| head.contains(|c: char| c.is_ascii_uppercase());
        let is_capital = |head: &str| {
            matches!(pattern, "MONTH" | "MON" | "DAY" | "DY")
                && head.starts_with(&pattern[..1])
                && !is_upper(&head[1..])
        };
        let is_written = |head: &str| {
            head.eq_ignore_ascii_case(pattern) && (head == pattern || !is_upper(head) || is_capital(head))
        };
        let fits = template.get(..pattern.len()).is_some_and(is_written);
        if fits && found.is_none_or(|other| other.len() < pattern.len()) {
            found = Some(pattern);
        }
    }
    found.map(|pattern| (pattern, &template[..pattern.len()]))
}

/// Returns what a template begins with that changes the pattern behind it: FM or TM.
pub(super) fn prefix_of(template: &str) -> Option<&str> {
    template.get(..2).filter(|head| ["FM", "fm", "TM", "tm"].contains(head))
}

/// Returns what a template begins with that changes the pattern before it: TH or SP.
pub(super) fn suffix_of(template: &str) -> Option<&str> {
    template.get(..2).filter(|head| ["TH", "th", "SP"].contains(head))
}

/// A pattern of a template.
pub(super) struct Pattern<'a> {
    pub(super) name: &'static str,
    /// The pattern as the template writes it.
    pub(super) written: &'a str,
    /// Whether numbers are filled up to their widths.
    fills: bool,
    /// Whether names are filled up to their widths.
    fills_names: bool,
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
    while !remaining.is_empty() {
        let prefix = prefix_of(remaining);
        remaining = &remaining[prefix.map_or(0, str::len)..];
        let Some((name, written)) = pattern_of(remaining) else {
            remaining = write_literal(remaining, &mut out);
            continue;
        };
        remaining = &remaining[written.len()..];
        let begin = out.len();
        let fills = !prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case("FM"));
        write(&Pattern { name, written, fills, fills_names: prefix.is_none() }, &mut out)?;
        let Some(suffix) = suffix_of(remaining) else { continue };
        remaining = &remaining[suffix.len()..];
        let is_number = out[begin..].ends_with(|c: char| c.is_ascii_digit());
        if suffix != "SP" && is_number && !["TZH", "TZM", "OF"].contains(&name) {
            let ordinal = ordinal_of(&out[begin..]);
            let is_upper = suffix == "TH";
            out.push_str(&if is_upper { ordinal.to_uppercase() } else { ordinal.to_owned() });
        }
    }
    Ok(out)
}

/// Writes a quoted text, or a character that is no pattern, at the beginning of a template. Returns what is
/// behind it.
fn write_literal<'t>(template: &'t str, out: &mut String) -> &'t str {
    let mut characters = template.chars();
    let first = characters.next();
    if first == Some('"') {
        while let Some(character) = characters.next().filter(|character| *character != '"') {
            let escaped = if character == '\\' { characters.clone().next() } else { None };
            out.push(escaped.unwrap_or(character));
            _ = escaped.and_then(|_| characters.next());
        }
    } else if first == Some('\\') && characters.as_str().starts_with('"') {
        out.extend(characters.next());
    } else {
        out.extend(first);
    }
    characters.as_str()
}

/// The zone that `to_char` shows.
pub(crate) struct ShownZone<'a> {
    /// Seconds east of UTC.
    pub(crate) east: i64,
    /// The abbreviation; empty for a timestamp without a zone.
    pub(crate) name: &'a str,
}

impl ShownZone<'_> {
    /// Writes the offset: its hours with a sign, and its minutes if there are any.
    fn write_offset(&self, width: usize, out: &mut String) {
        self.write_hours(width, out);
        let minute = self.east.abs() / 60 % 60;
        if minute != 0 {
            // Writing to a string does not fail.
            let _ = write!(out, ":{minute:02}");
        }
    }

    fn write_hours(&self, width: usize, out: &mut String) {
        let sign = if self.east < 0 { '-' } else { '+' };
        let _ = write!(out, "{sign}{:0width$}", self.east.abs() / 3600);
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
            "Y,YYY" => _ = write!(out, "{},{:03}", year / 1000, year % 1000),
            "IYYY" => pattern.number(out, iso_year, 4),
            "IYY" => pattern.number(out, iso_year % 1000, 3),
            "IY" => pattern.number(out, iso_year % 100, 2),
            "I" => pattern.number(out, iso_year % 10, 1),
            "MM" => pattern.number(out, day.month, 2),
            "MONTH" | "MON" => {
                out.push_str(&cased(MONTHS[day.month as usize - 1], written, pattern.fills_names))
            }
            "DAY" | "DY" => {
                let name = DAYS[day.weekday() as usize];
                out.push_str(&cased(name, written, pattern.fills_names));
            }
            "DD" => pattern.number(out, day.day, 2),
            "DDD" => pattern.number(out, day.of_year(), 3),
            "D" => pattern.number(out, day.weekday() + 1, 1),
            "ID" => pattern.number(out, (day.weekday() + 6) % 7 + 1, 1),
            "W" => pattern.number(out, (day.day - 1) / 7 + 1, 1),
            "WW" => pattern.number(out, (day.of_year() - 1) / 7 + 1, 2),
            "IW" => pattern.number(out, iso_week, 2),
            "Q" => pattern.number(out, (day.month + 2) / 3, 1),
            "CC" if is_before_christ => pattern.number(out, -(year + 99) / 100, 3),
            "CC" => pattern.number(out, (year + 99) / 100, 2),
            "J" => pattern.number(out, day.days() + EPOCH_JULIAN, 1),
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
            "OF" => zone.write_offset(if pattern.fills { 2 } else { 1 }, out),
            "TZH" => zone.write_hours(2, out),
            "TZM" => _ = write!(out, "{:02}", zone.east.abs() / 60 % 60),
            "FX" => {}
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
