//! Functions of timestamps: parts of them, text of them by a template, and steps in the calendar.
//! Source: PostgreSQL 15's documentation, "Date/Time Functions and Operators" and "Data Type Formatting Functions".

use crate::{Evaluated, Machine, SqlError};
use catalog::{Datum, Decimal, moment_of, timestamp_of};
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, ToSpan};
use std::fmt::Write as _;

const DAY_US: i64 = 86_400_000_000;
/// Seconds from 1970 to 2000.
const EPOCH_S: i64 = 946_684_800;
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

/// A function of timestamps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TimeFunction {
    /// EXTRACT: a decimal.
    Extract(TimeField),
    /// `date_trunc`.
    Truncate(TimeField),
    /// Seconds between two timestamps: a decimal.
    SecondsBetween,
    /// A timestamp, an interval later; so many times, with a second argument.
    Later(Interval),
    /// `to_char(timestamp, template)`.
    ToText,
    /// `to_timestamp(text, template)`.
    FromText,
    /// `to_date(text, template)`.
    DateFromText,
    /// `to_timestamp(seconds)`.
    FromEpoch,
}

impl TimeFunction {
    /// Evaluates the function; arguments are not NULL.
    pub(crate) fn evaluate(self, arguments: &[Datum], machine: &mut Machine) -> Evaluated {
        let text = |value: Datum, machine: &Machine| {
            String::from_utf8_lossy(machine.arena.datum_bytes(value)).into_owned()
        };
        Ok(match (self, arguments) {
            (Self::Extract(field), [Datum::Int(us)]) => machine.arena.push_decimal(extract(field, *us)?),
            (Self::Truncate(field), [Datum::Int(us)]) => Datum::Int(truncate(field, *us)?),
            (Self::SecondsBetween, [Datum::Int(a), Datum::Int(b)]) => {
                let us = a.checked_sub(*b).ok_or_else(out_of_range)?;
                machine.arena.push_decimal(Decimal::new(us.into(), 6)?)
            }
            (Self::Later(by), [Datum::Int(us)]) => Datum::Int(later(*us, by)?),
            (Self::Later(by), [Datum::Int(us), Datum::Int(times)]) => {
                let by = by.times(*times).ok_or_else(|| SqlError::new("22008", "interval out of range"))?;
                Datum::Int(later(*us, by)?)
            }
            (Self::ToText, [Datum::Int(us), template]) => {
                let text = to_text(*us, &text(*template, machine))?;
                machine.arena.push_bytes(text.as_bytes())
            }
            (Self::FromText | Self::DateFromText, [value, template]) => {
                let us = from_text(&text(*value, machine), &text(*template, machine))?;
                Datum::Int(if self == Self::FromText { us } else { us.div_euclid(DAY_US) })
            }
            (Self::FromEpoch, [Datum::Double(seconds)]) => Datum::Int(from_epoch(*seconds)?),
            _ => unreachable!("{self:?} has no such arguments"),
        })
    }
}

/// A part of a timestamp that EXTRACT or `date_trunc` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "they are PostgreSQL's")]
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
    /// The field of a name.
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
}

fn out_of_range() -> SqlError {
    SqlError::new("22008", "timestamp out of range")
}

fn moment(us: i64) -> Result<DateTime, SqlError> {
    moment_of(us).ok_or_else(out_of_range)
}

fn unsupported(what: &str) -> SqlError {
    SqlError::new("0A000", format!("{what} is not supported"))
}

fn micros_of_second(at: DateTime) -> i64 {
    i64::from(at.second()) * 1_000_000 + i64::from(at.subsec_nanosecond()) / 1000
}

fn days_since_2000(day: Date) -> i64 {
    timestamp_of(day.at(0, 0, 0, 0)).unwrap_or(0).div_euclid(DAY_US)
}

/// EXTRACT.
pub(crate) fn extract(field: TimeField, us: i64) -> Result<Decimal, SqlError> {
    let at = moment(us)?;
    let whole = |value: i64| Ok(Decimal::from_int(value));
    let scaled = |mantissa: i64, scale: u8| {
        Decimal::new(mantissa.into(), scale).map_err(|error| SqlError::new("22003", error.to_string()))
    };
    let year = i64::from(at.year());
    match field {
        TimeField::Microseconds => whole(micros_of_second(at)),
        TimeField::Milliseconds => scaled(micros_of_second(at), 3),
        TimeField::Second => scaled(micros_of_second(at), 6),
        TimeField::Minute => whole(at.minute().into()),
        TimeField::Hour => whole(at.hour().into()),
        TimeField::Day => whole(at.day().into()),
        TimeField::Week => whole(at.date().iso_week_date().week().into()),
        TimeField::Month => whole(at.month().into()),
        TimeField::Quarter => whole((i64::from(at.month()) + 2) / 3),
        TimeField::Year => whole(year),
        TimeField::Decade => whole(year.div_euclid(10)),
        TimeField::Century => whole((year + 99).div_euclid(100)),
        TimeField::Millennium => whole((year + 999).div_euclid(1000)),
        TimeField::DayOfWeek => whole(at.weekday().to_sunday_zero_offset().into()),
        TimeField::IsoDayOfWeek => whole(at.weekday().to_monday_one_offset().into()),
        TimeField::DayOfYear => whole(at.day_of_year().into()),
        TimeField::IsoYear => whole(at.date().iso_week_date().year().into()),
        TimeField::Epoch => scaled(us.checked_add(EPOCH_S * 1_000_000).ok_or_else(out_of_range)?, 6),
        TimeField::Julian => Err(unsupported("EXTRACT (JULIAN …)")),
    }
}

/// `date_trunc`.
pub(crate) fn truncate(field: TimeField, us: i64) -> Result<i64, SqlError> {
    let at = moment(us)?;
    let to = |step: i64| Ok(us - us.rem_euclid(step));
    let year_from = |year: i16| {
        let first = Date::new(year, 1, 1).map_err(|_| out_of_range())?;
        timestamp_of(first.at(0, 0, 0, 0)).ok_or_else(out_of_range)
    };
    let month_from = |month: i8| {
        let first = Date::new(at.year(), month, 1).map_err(|_| out_of_range())?;
        timestamp_of(first.at(0, 0, 0, 0)).ok_or_else(out_of_range)
    };
    match field {
        TimeField::Microseconds => Ok(us),
        TimeField::Milliseconds => to(1000),
        TimeField::Second => to(1_000_000),
        TimeField::Minute => to(60_000_000),
        TimeField::Hour => to(3_600_000_000),
        TimeField::Day => to(DAY_US),
        TimeField::Week => {
            let back = i64::from(at.weekday().to_monday_zero_offset());
            Ok(us - us.rem_euclid(DAY_US) - back * DAY_US)
        }
        TimeField::Month => month_from(at.month()),
        TimeField::Quarter => month_from((at.month() - 1) / 3 * 3 + 1),
        TimeField::Year => year_from(at.year()),
        TimeField::Decade => year_from(at.year().div_euclid(10) * 10),
        TimeField::Century => year_from((at.year() - 1).div_euclid(100) * 100 + 1),
        TimeField::Millennium => year_from((at.year() - 1).div_euclid(1000) * 1000 + 1),
        _ => Err(SqlError::new("22023", "this unit is not one to truncate to")),
    }
}

/// A length of time, as INTERVAL has it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// Months; years are twelve.
    pub months: i32,
    /// Days; weeks are seven.
    pub days: i32,
    /// What is less, or counted in hours.
    pub us: i64,
}

impl Interval {
    /// Reads `1 day 02:03:04`, `2 months ago`, …; `None` where the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = Self::default();
        let mut words = text.split_whitespace().peekable();
        let mut any = false;
        let mut ago = false;
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("ago") {
                ago = true;
                continue;
            }
            any = true;
            if word.contains(':') {
                all.us = all.us.checked_add(clock(word)?)?;
                continue;
            }
            // The unit may stand right behind its number.
            let split = word.find(|c: char| c.is_ascii_alphabetic());
            let (number, unit) = match split {
                Some(0) => return None,
                Some(at) => (&word[..at], word[at..].to_lowercase()),
                None => (
                    word,
                    words
                        .next_if(|next| !next.contains(':') && next.starts_with(char::is_alphabetic))
                        .unwrap_or("second")
                        .to_lowercase(),
                ),
            };
            all.add(number, &unit)?;
        }
        if ago {
            all = all.negated()?;
        }
        any.then_some(all)
    }

    fn add(&mut self, number: &str, unit: &str) -> Option<()> {
        let number: Decimal = number.parse().ok()?;
        let whole = |factor: i64| {
            let product = number.times(Decimal::from_int(factor)).ok()?;
            product.rescale(0).ok()?.to_int().ok()
        };
        let is_whole = number.compare(Decimal::from_int(whole(1)?)).is_eq();
        let months = |factor: i64| whole(factor).and_then(|count| i32::try_from(count).ok());
        match unit.trim_end_matches('s') {
            "microsecond" | "u" => self.us = self.us.checked_add(whole(1)?)?,
            "millisecond" | "m" => self.us = self.us.checked_add(whole(1000)?)?,
            "second" | "sec" | "" => self.us = self.us.checked_add(whole(1_000_000)?)?,
            "minute" | "min" => self.us = self.us.checked_add(whole(60_000_000)?)?,
            "hour" | "hr" | "h" => self.us = self.us.checked_add(whole(3_600_000_000)?)?,
            "day" | "d" if is_whole => self.days = self.days.checked_add(months(1)?)?,
            "week" | "w" if is_whole => self.days = self.days.checked_add(months(7)?)?,
            "day" | "d" => self.us = self.us.checked_add(whole(DAY_US)?)?,
            "month" | "mon" if is_whole => self.months = self.months.checked_add(months(1)?)?,
            "year" | "yr" | "y" => self.months = self.months.checked_add(months(12)?)?,
            "decade" => self.months = self.months.checked_add(months(120)?)?,
            "century" | "centurie" => self.months = self.months.checked_add(months(1200)?)?,
            _ => return None,
        }
        Some(())
    }

    /// So many times as long.
    fn times(self, count: i64) -> Option<Self> {
        let narrow = i32::try_from(count);
        let few = |of: i32| if of == 0 { Some(0) } else { of.checked_mul(narrow.ok()?) };
        Some(Self { months: few(self.months)?, days: few(self.days)?, us: self.us.checked_mul(count)? })
    }

    /// As much back.
    pub fn negated(self) -> Option<Self> {
        let Self { months, days, us } = self;
        Some(Self { months: months.checked_neg()?, days: days.checked_neg()?, us: us.checked_neg()? })
    }
}

/// Microseconds of `[-]HH:MM[:SS[.f]]`.
fn clock(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let seconds: Decimal = parts.next().unwrap_or("0").parse().ok()?;
    let us = seconds.times(Decimal::from_int(1_000_000)).ok()?.rescale(0).ok()?.to_int().ok()?;
    (minutes < 60 && us < 60_000_000)
        .then(|| hours.checked_mul(3600)?.checked_add(minutes * 60)?.checked_mul(1_000_000)?.checked_add(us))
        .flatten()
        .map(|all| sign * all)
}

/// A timestamp, an interval later: months first, then days, then the rest, as PostgreSQL.
pub(crate) fn later(us: i64, by: Interval) -> Result<i64, SqlError> {
    let at = moment(us)?;
    let at = at.checked_add(by.months.months()).map_err(|_| out_of_range())?;
    let at = at.checked_add(by.days.days()).map_err(|_| out_of_range())?;
    let at = at.checked_add(SignedDuration::from_micros(by.us)).map_err(|_| out_of_range())?;
    timestamp_of(at).ok_or_else(out_of_range)
}

/// The names of months and days, in the case and length that a template asks for.
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

/// Patterns of templates, the longest first; those with two cases stand as they are matched, without regard to case.
const PATTERNS: [&str; 52] = [
    "MONTH", "IYYY", "YYYY", "HH24", "HH12", "SSSSS", "SSSS", "Y,YYY", "A.M.", "P.M.", "B.C.", "A.D.",
    "IDDD", "DAY", "MON", "IYY", "YYY", "DDD", "IW", "WW", "YY", "IY", "DD", "DY", "ID", "HH", "MI", "MM",
    "SS", "MS", "US", "AM", "PM", "CC", "RM", "TZH", "TZM", "TZ", "OF", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "BC", "AD", "Y", "D", "W", "J", "Q",
];

/// The pattern that a template begins with.
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

/// `to_char` of a timestamp.
pub(crate) fn to_text(us: i64, template: &str) -> Result<String, SqlError> {
    let at = moment(us)?;
    let mut out = String::new();
    let mut rest = template;
    let mut fills = true;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            out.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        if rest.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("FM")) {
            fills = false;
            rest = &rest[2..];
            continue;
        }
        let Some((pattern, written)) = pattern_of(rest) else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        rest = &rest[written.len()..];
        let begin = out.len();
        let number = |out: &mut String, value: i64, width: usize| {
            // Writing to a string does not fail.
            let _ = if fills { write!(out, "{value:0width$}") } else { write!(out, "{value}") };
        };
        let year = i64::from(at.year());
        let week = at.date().iso_week_date();
        let half = if at.hour() < 12 { ["AM", "am", "A.M.", "a.m."] } else { ["PM", "pm", "P.M.", "p.m."] };
        let in_case = |dotted: usize| half[dotted + usize::from(written.starts_with(char::is_lowercase))];
        let fraction = i64::from(at.subsec_nanosecond()) / 1000;
        match pattern {
            "YYYY" => number(&mut out, year, 4),
            "YYY" => number(&mut out, year % 1000, 3),
            "YY" => number(&mut out, year % 100, 2),
            "Y" => number(&mut out, year % 10, 1),
            "Y,YYY" => {
                let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
            }
            "IYYY" => number(&mut out, week.year().into(), 4),
            "IYY" => number(&mut out, i64::from(week.year()) % 1000, 3),
            "IY" => number(&mut out, i64::from(week.year()) % 100, 2),
            "MM" => number(&mut out, at.month().into(), 2),
            "MONTH" | "MON" => out.push_str(&cased(MONTHS[at.month() as usize - 1], written, fills)),
            "DAY" | "DY" => {
                let day = DAYS[at.weekday().to_sunday_zero_offset() as usize];
                out.push_str(&cased(day, written, fills));
            }
            "DD" => number(&mut out, at.day().into(), 2),
            "DDD" => number(&mut out, at.day_of_year().into(), 3),
            "D" => number(&mut out, i64::from(at.weekday().to_sunday_zero_offset()) + 1, 1),
            "ID" => number(&mut out, at.weekday().to_monday_one_offset().into(), 1),
            "W" => number(&mut out, (i64::from(at.day()) - 1) / 7 + 1, 1),
            "WW" => number(&mut out, (i64::from(at.day_of_year()) - 1) / 7 + 1, 2),
            "IW" => number(&mut out, week.week().into(), 2),
            "Q" => number(&mut out, (i64::from(at.month()) + 2) / 3, 1),
            "CC" => number(&mut out, (year + 99) / 100, 2),
            "J" => number(&mut out, days_since_2000(at.date()) + 2_451_545, 1),
            "HH24" => number(&mut out, at.hour().into(), 2),
            "HH" | "HH12" => number(&mut out, (i64::from(at.hour()) + 11) % 12 + 1, 2),
            "MI" => number(&mut out, at.minute().into(), 2),
            "SS" => number(&mut out, at.second().into(), 2),
            "SSSS" | "SSSSS" => number(&mut out, us.rem_euclid(DAY_US) / 1_000_000, 1),
            "MS" => number(&mut out, fraction / 1000, 3),
            "US" => number(&mut out, fraction, 6),
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let digits = usize::from(pattern.as_bytes()[2] - b'0');
                out.push_str(&format!("{fraction:06}")[..digits]);
            }
            "AM" | "PM" => out.push_str(in_case(0)),
            "A.M." | "P.M." => out.push_str(in_case(2)),
            "AD" | "BC" => out.push_str(if written.starts_with(char::is_lowercase) { "ad" } else { "AD" }),
            "A.D." | "B.C." => {
                out.push_str(if written.starts_with(char::is_lowercase) { "a.d." } else { "A.D." })
            }
            "TZ" => out.push_str(if written.starts_with(char::is_lowercase) { "utc" } else { "UTC" }),
            "OF" | "TZH" => out.push_str("+00"),
            "TZM" => out.push_str("00"),
            other => return Err(unsupported(&format!("the pattern {other} of to_char"))),
        }
        if rest.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("TH"))
            && out[begin..].ends_with(|c: char| c.is_ascii_digit())
        {
            let ordinal = ordinal_of(&out[begin..]);
            out.push_str(&if rest.starts_with('T') { ordinal.to_uppercase() } else { ordinal.to_owned() });
            rest = &rest[2..];
        }
        fills = true;
    }
    Ok(out)
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

/// `to_timestamp(text, template)`, `to_date`: microseconds since 2000.
pub(crate) fn from_text(text: &str, template: &str) -> Result<i64, SqlError> {
    let (mut year, mut month, mut day) = (None::<i64>, 1i64, 1i64);
    let (mut day_of_year, mut is_afternoon, mut us) = (None::<i64>, None::<bool>, 0i64);
    let (mut hour, mut minute, mut second) = (0i64, 0i64, 0i64);
    let (mut text, mut rest) = (text.trim_start(), template);
    let wrong = |pattern: &str, text: &str| {
        let value: String = text.chars().take(pattern.len()).collect();
        let error = SqlError::new("22007", format!("invalid value \"{value}\" for \"{pattern}\""));
        error.with_detail("Value must be an integer.")
    };
    while let Some(first) = rest.chars().next() {
        if rest.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("FM")) {
            rest = &rest[2..];
            continue;
        }
        let Some((pattern, written)) =
            pattern_of(rest).filter(|(pattern, _)| !matches!(*pattern, "TZ" | "OF"))
        else {
            // A separator stands for any other, and for none.
            rest = &rest[first.len_utf8()..];
            let is_separator = |c: char| !c.is_alphanumeric() && c != '+';
            if first.is_alphanumeric() {
                text = text.get(text.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            } else if text.starts_with(is_separator) {
                text = &text[text.chars().next().map_or(0, char::len_utf8)..];
            }
            continue;
        };
        rest = &rest[written.len()..];
        text = text.trim_start();
        // A number takes no more digits than its pattern where another one follows at once.
        let follows = pattern_of(rest).is_some_and(|(next, _)| {
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
                // As PostgreSQL: the year that is nearest to 2020.
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
                let fits = |own: &&str| {
                    let own = if pattern == "MON" { &own[..3] } else { own };
                    own.eq_ignore_ascii_case(wanted)
                };
                let place = MONTHS.iter().position(fits);
                let place = place.ok_or_else(|| {
                    SqlError::new("22007", format!("invalid value \"{name}\" for \"{written}\""))
                })?;
                month = place as i64 + 1;
                text = &text[wanted.len()..];
            }
            "DAY" | "DY" => text = text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
            other => return Err(unsupported(&format!("the pattern {other} of to_timestamp"))),
        }
    }
    if let Some(is_afternoon) = is_afternoon {
        if !(1..=12).contains(&hour) {
            let error = SqlError::new("22007", format!("hour \"{hour}\" is invalid for the 12-hour clock"));
            return Err(error.with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        hour = hour % 12 + if is_afternoon { 12 } else { 0 };
    }
    let range = || SqlError::new("22008", format!("date/time field value out of range: \"{template}\""));
    let year = i16::try_from(year.unwrap_or(1)).map_err(|_| range())?;
    let narrow = |value: i64| i8::try_from(value).map_err(|_| range());
    let date = match day_of_year {
        Some(day) => Date::new(year, 1, 1).ok().and_then(|first| first.checked_add((day - 1).days()).ok()),
        None => Date::new(year, narrow(month)?, narrow(day)?).ok(),
    };
    let date = date.ok_or_else(range)?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return Err(range());
    }
    let midnight = timestamp_of(date.at(0, 0, 0, 0)).ok_or_else(range)?;
    Ok(midnight + ((hour * 60 + minute) * 60 + second) * 1_000_000 + us)
}

/// `to_timestamp(seconds since 1970)`.
pub(crate) fn from_epoch(seconds: f64) -> Result<i64, SqlError> {
    let us = (seconds - EPOCH_S as f64) * 1e6;
    if !us.is_finite() || us.abs() > 9.0e18 {
        return Err(out_of_range());
    }
    Ok(us.round_ties_even() as i64)
}
