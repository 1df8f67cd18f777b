//! Reads intervals.
//! Source: PostgreSQL 15, `ParseDateTime`, `DecodeInterval` and `DecodeISO8601Interval` in `datetime.c`.
//! Differs: ISO 8601's alternative format, such as `P0001-02-03T04:05:06`, is refused.

use super::{DAYS_PER_MONTH, Interval, out_of_range};
use crate::ValueError;
use crate::input::is_space;
use crate::temporal::MICROSECONDS_PER_DAY;

/// The reason why a text is no interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    Syntax,
    /// A field is out of range.
    Field,
}

/// A unit of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// A word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Unit(Unit),
    Ago,
}

/// Most characters of a word that count.
const WORD_LENGTH: usize = 10;

/// Returns the meaning of a word in lower case.
fn word(text: &str) -> Option<Word> {
    let end = text.char_indices().nth(WORD_LENGTH).map_or(text.len(), |(end, _)| end);
    Some(Word::Unit(match &text[..end] {
        "ago" => return Some(Word::Ago),
        "microsecon" | "us" | "usec" | "usecond" | "useconds" | "usecs" => Unit::Microsecond,
        "millisecon" | "ms" | "msec" | "msecond" | "mseconds" | "msecs" => Unit::Millisecond,
        "s" | "sec" | "second" | "seconds" | "secs" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hour" | "hours" | "hr" | "hrs" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "year" | "years" | "yr" | "yrs" => Unit::Year,
        "dec" | "decade" | "decades" | "decs" => Unit::Decade,
        "c" | "cent" | "centuries" | "century" => Unit::Century,
        "mil" | "millennia" | "millennium" | "mils" => Unit::Millennium,
        _ => return None,
    }))
}

/// A part of the text.
#[derive(Debug)]
enum Field {
    /// Digits, with a sign, points, hyphens, slashes or letters in them.
    Number(String),
    /// Digits and colons, with a sign.
    Time(String),
    Word(String),
}

/// Words that PostgreSQL knows as parts of dates, so that a number may follow without a space.
const PARTS_OF_DATES: [&str; 7] = ["d", "dec", "h", "m", "mon", "s", "y"];

/// Takes the longest beginning of which all characters are so.
fn take(rest: &mut &str, is_own: impl Fn(char) -> bool, own: &mut String) {
    let end = rest.find(|c| !is_own(c)).unwrap_or(rest.len());
    own.push_str(&rest[..end]);
    *rest = &rest[end..];
}

fn fields(text: &str) -> Result<Vec<Field>, Refusal> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut fields = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut own = String::new();
        match first {
            '0'..='9' => {
                take(&mut rest, is_digit, &mut own);
                match rest.chars().next() {
                    Some(':') => take(&mut rest, |c| is_digit(c) || matches!(c, ':' | '.'), &mut own),
                    Some(mark @ ('-' | '/' | '.')) => {
                        own.push(mark);
                        rest = &rest[1..];
                        match rest.starts_with(is_digit) {
                            true => take(&mut rest, is_digit, &mut own),
                            false => {
                                take(&mut rest, |c| c.is_ascii_alphanumeric() || c == mark, &mut own);
                            }
                        }
                        if rest.starts_with(mark) {
                            take(&mut rest, |c| is_digit(c) || c == mark, &mut own);
                        }
                    }
                    _ => {}
                }
            }
            '.' => {
                own.push('.');
                rest = &rest[1..];
                take(&mut rest, is_digit, &mut own);
            }
            '+' | '-' => {
                own.push(first);
                rest = rest[1..].trim_start_matches(|c: char| c.is_ascii_whitespace());
                if !rest.starts_with(|c| is_digit(c) || c == '.') {
                    return Err(Refusal::Syntax);
                }
                take(&mut rest, |c| is_digit(c) || matches!(c, ':' | '.' | '-'), &mut own);
            }
            'a'..='z' | 'A'..='Z' => {
                take(&mut rest, |c| c.is_ascii_alphabetic(), &mut own);
                own.make_ascii_lowercase();
                let is_part_of_date = PARTS_OF_DATES.contains(&own.as_str());
                if rest.starts_with(['-', '/', '.'])
                    || !is_part_of_date && rest.starts_with(|c| is_digit(c) || c == '+')
                {
                    return Err(Refusal::Syntax);
                }
                fields.push(Field::Word(own));
                continue;
            }
            _ if is_space(first) || first.is_ascii_punctuation() => {
                rest = &rest[1..];
                continue;
            }
            _ => return Err(Refusal::Syntax),
        }
        fields.push(if own.contains(':') { Field::Time(own) } else { Field::Number(own) });
    }
    Ok(fields)
}

/// What was read so far.
#[derive(Default)]
struct Sum {
    /// Its months are those beside the years.
    interval: Interval,
    years: i32,
    /// The units that were read.
    seen: u32,
}

const SECONDS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;
const TIMES: u32 = SECONDS | 1 << Unit::Minute as u32 | 1 << Unit::Hour as u32;

impl Sum {
    fn note(&mut self, units: u32) -> Result<(), Refusal> {
        let is_new = self.seen & units == 0;
        self.seen |= units;
        is_new.then_some(()).ok_or(Refusal::Syntax)
    }

    fn add_us(&mut self, whole: i64, fraction: f64, scale: i64) -> Result<(), Refusal> {
        let more = whole.checked_mul(scale).ok_or(Refusal::Field)?;
        let more = more.checked_add((fraction * scale as f64).round_ties_even() as i64);
        let sum = more.and_then(|more| self.interval.us.checked_add(more));
        self.interval.us = sum.ok_or(Refusal::Field)?;
        Ok(())
    }

    fn add_days(&mut self, whole: i64, scale: i64) -> Result<(), Refusal> {
        let more = whole.checked_mul(scale).and_then(|own| i32::try_from(own).ok());
        self.interval.days =
            more.and_then(|own| self.interval.days.checked_add(own)).ok_or(Refusal::Field)?;
        Ok(())
    }

    fn add_months(&mut self, more: i64) -> Result<(), Refusal> {
        let more = i32::try_from(more).map_err(|_| Refusal::Field)?;
        self.interval.months = self.interval.months.checked_add(more).ok_or(Refusal::Field)?;
        Ok(())
    }

    fn add_years(&mut self, whole: i64, scale: i64) -> Result<(), Refusal> {
        let more = whole.checked_mul(scale).and_then(|own| i32::try_from(own).ok());
        self.years = more.and_then(|own| self.years.checked_add(own)).ok_or(Refusal::Field)?;
        Ok(())
    }

    /// Returns the whole; `None` if it is no interval.
    fn interval(self) -> Option<Interval> {
        let months = self.years.checked_mul(12)?.checked_add(self.interval.months)?;
        Some(Interval { months, ..self.interval })
    }

    /// Adds a fraction of a number of days.
    fn add_part_of_days(&mut self, fraction: f64, scale: i32) -> Result<(), Refusal> {
        let days = fraction * f64::from(scale);
        self.add_days(days.trunc() as i64, 1)?;
        self.add_us(0, days - days.trunc(), MICROSECONDS_PER_DAY)
    }

    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Result<(), Refusal> {
        let years = |scale: i64| (fraction * scale as f64 * 12.0).round_ties_even() as i64;
        match unit {
            Unit::Microsecond => self.add_us(whole, fraction, 1),
            Unit::Millisecond => self.add_us(whole, fraction, 1000),
            Unit::Second => self.add_us(whole, fraction, 1_000_000),
            Unit::Minute => self.add_us(whole, fraction, 60_000_000),
            Unit::Hour => self.add_us(whole, fraction, 3_600_000_000),
            Unit::Day => {
                self.add_days(whole, 1)?;
                self.add_us(0, fraction, MICROSECONDS_PER_DAY)
            }
            Unit::Week => {
                self.add_days(whole, 7)?;
                self.add_part_of_days(fraction, 7)
            }
            Unit::Month => {
                self.add_months(whole)?;
                self.add_part_of_days(fraction, DAYS_PER_MONTH)
            }
            Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium => {
                let scale = match unit {
                    Unit::Year => 1,
                    Unit::Decade => 10,
                    Unit::Century => 100,
                    _ => 1000,
                };
                self.add_years(whole, scale)?;
                self.add_months(years(scale))
            }
        }
    }

    /// Adds a number, whose unit is known.
    fn add_number(&mut self, text: &str, unit: Unit) -> Result<Unit, Refusal> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_negative = text.starts_with('-');
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, further) = digits.split_at(end);
        let whole: i64 = match whole {
            "" if digits.len() < text.len() => return Err(Refusal::Syntax),
            "" => 0,
            _ => format!("{}{whole}", if is_negative { "-" } else { "" })
                .parse()
                .map_err(|_| Refusal::Field)?,
        };
        if let Some(months) = further.strip_prefix('-') {
            // Years and months of the standard.
            let end = months.find(|c: char| !c.is_ascii_digit()).unwrap_or(months.len());
            let (months, further) = months.split_at(end);
            let months: i64 =
                if months.is_empty() { 0 } else { months.parse().map_err(|_| Refusal::Field)? };
            if months > 11 {
                return Err(Refusal::Field);
            }
            if !further.is_empty() {
                return Err(Refusal::Syntax);
            }
            let months = if is_negative { -months } else { months };
            let all = whole.checked_mul(12).and_then(|own| own.checked_add(months)).ok_or(Refusal::Field)?;
            self.note(1 << Unit::Month as u32)?;
            self.add(all, 0.0, Unit::Month)?;
            return Ok(Unit::Month);
        }
        let fraction = match further {
            "" | "." => 0.0,
            _ if further.starts_with('.') && further[1..].bytes().all(|byte| byte.is_ascii_digit()) => {
                further.parse::<f64>().map_err(|_| Refusal::Syntax)?
            }
            _ => return Err(Refusal::Syntax),
        };
        let fraction = if is_negative { -fraction } else { fraction };
        self.note(if unit == Unit::Second && fraction != 0.0 { SECONDS } else { 1 << unit as u32 })?;
        self.add(whole, fraction, unit)?;
        Ok(unit)
    }

    /// Adds `[+-]HH:MM[:SS[.f]]` or `MM:SS.f`.
    fn add_time(&mut self, text: &str) -> Result<(), Refusal> {
        let clock = text.strip_prefix(['+', '-']).unwrap_or(text);
        let parts: Vec<&str> = clock.split(':').collect();
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true if text.is_empty() => Ok(0),
            true => text.parse::<i64>().map_err(|_| Refusal::Field),
            false => Err(Refusal::Syntax),
        };
        let seconds = |text: &str| {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            number(fraction)?;
            let fraction = format!("0.{fraction}0").parse::<f64>().map_err(|_| Refusal::Syntax)?;
            Ok((number(whole)?, (fraction * 1e6).round_ties_even() as i64))
        };
        let (hours, minutes, (seconds, us)) = match parts[..] {
            [minutes, own] if own.contains('.') => (0, number(minutes)?, seconds(own)?),
            [hours, minutes] => (number(hours)?, number(minutes)?, (0, 0)),
            [hours, minutes, own] => (number(hours)?, number(minutes)?, seconds(own)?),
            _ => return Err(Refusal::Syntax),
        };
        if minutes > 59 || seconds > 60 || us > 1_000_000 {
            return Err(Refusal::Field);
        }
        let whole = hours.checked_mul(3600).and_then(|own| own.checked_add(minutes * 60 + seconds));
        let all = whole.and_then(|own| own.checked_mul(1_000_000)?.checked_add(us)).ok_or(Refusal::Field)?;
        self.note(TIMES)?;
        self.add_us(if text.starts_with('-') { -all } else { all }, 0.0, 1)
    }
}

/// Reads the usual forms: `1 year 2 mons`, `1-2`, `3 4:05:06`, `1 day ago`.
fn read(text: &str) -> Result<(Sum, bool), Refusal> {
    let mut sum = Sum::default();
    let mut unit = None;
    let mut is_ago = false;
    for field in fields(text)?.into_iter().rev() {
        match field {
            Field::Word(own) => match word(&own).ok_or(Refusal::Syntax)? {
                Word::Unit(own) => unit = Some(own),
                Word::Ago => is_ago = true,
            },
            Field::Time(own) => {
                sum.add_time(&own)?;
                unit = Some(Unit::Day);
            }
            // "ago" is behind a unit; years and months need none.
            Field::Number(own) if is_ago && unit.is_none() && !own.trim_start_matches('-').contains('-') => {
                return Err(Refusal::Syntax);
            }
            Field::Number(own) => unit = Some(sum.add_number(&own, unit.unwrap_or(Unit::Second))?),
        }
    }
    if sum.seen == 0 { Err(Refusal::Syntax) } else { Ok((sum, is_ago)) }
}

/// Reads ISO 8601's format with designators: `P1Y2M3DT4H5M6.7S`.
fn read_iso(text: &str) -> Result<Sum, Refusal> {
    let mut rest = text.strip_prefix('P').ok_or(Refusal::Syntax)?;
    let mut sum = Sum::default();
    let (mut is_time, mut has_field) = (false, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (rest, is_time, has_field) = (after, true, false);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Refusal::Syntax)?;
        // A number may have a minus, and no plus.
        let number = Some(&rest[..end]).filter(|own| !own.starts_with('+')).ok_or(Refusal::Syntax)?;
        let number: f64 = number.parse().map_err(|_| Refusal::Syntax)?;
        let unit = match (&rest[end..=end], is_time) {
            ("Y", false) => Unit::Year,
            ("M", false) => Unit::Month,
            ("W", false) => Unit::Week,
            ("D", false) => Unit::Day,
            ("H", true) => Unit::Hour,
            ("M", true) => Unit::Minute,
            ("S", true) => Unit::Second,
            _ => return Err(Refusal::Syntax),
        };
        if number.abs() > 1e15 {
            return Err(Refusal::Field);
        }
        sum.add(number.trunc() as i64, number.fract(), unit)?;
        (rest, has_field) = (&rest[end + 1..], true);
    }
    if has_field { Ok(sum) } else { Err(Refusal::Syntax) }
}

impl Interval {
    /// Reads a text.
    ///
    /// # Errors
    /// `22007`: the text is no interval. `22015`: a field of it is out of range. `22008`: the whole is.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let own = match read(text) {
            Err(Refusal::Syntax) => read_iso(text.trim()).map(|own| (own, false)),
            own => own,
        };
        match own {
            Ok((own, is_ago)) => {
                let own = own.interval().ok_or_else(out_of_range)?;
                if is_ago { own.negated() } else { Ok(own) }
            }
            Err(Refusal::Syntax) => {
                Err(ValueError::new("22007", format!("invalid input syntax for type interval: \"{text}\"")))
            }
            Err(Refusal::Field) => {
                Err(ValueError::new("22015", format!("interval field value out of range: \"{text}\"")))
            }
        }
    }
}
