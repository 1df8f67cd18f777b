//! Reads texts as dates and timestamps.
//! Source: PostgreSQL 15, `ParseDateTime`, `DecodeDateTime` and their callees, under `DateStyle` ISO, MDY.
//! Differs: values that depend on the clock (`now`, `today`) are not supported.

use super::abbreviations::SUMMER_TIME;
use super::offset::{Read, Refusal, number_of, offset_of};
use super::tokens::{Token, WEEKDAYS, month_of, tokens};
use super::{
    DATE_AFTER_ALL, DATE_BEFORE_ALL, Day, EPOCH_JULIAN, MICROSECONDS_PER_DAY, Moment, POSTGRES_EPOCH_S,
    SessionZone, TIMESTAMP_AFTER_ALL, TIMESTAMP_BEFORE_ALL, TemporalError, Zone,
};

/// The meaning of a text.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    BeforeAll,
    AfterAll,
    Epoch,
    /// A moment, and the zone in the text.
    At(Moment, Option<Zone>),
}

/// Returns days since 2000-01-01. Ignores a time and a zone in the text.
///
/// # Errors
/// The error of PostgreSQL for the text; `Unsupported` for a value that depends on the clock.
pub fn parse_date(text: &str) -> Result<i32, TemporalError> {
    let refused = |refusal| error("date", text, refusal);
    match meaning(text).map_err(refused)? {
        Meaning::BeforeAll => Ok(DATE_BEFORE_ALL),
        Meaning::AfterAll => Ok(DATE_AFTER_ALL),
        Meaning::Epoch => Day { year: 1970, month: 1, day: 1 }.date(),
        Meaning::At(moment, _) => moment.day.date(),
    }
}

fn timestamp_meant(text: &str, kind: &'static str) -> Result<Meaning, TemporalError> {
    meaning(text).map_err(|refusal| error(kind, text, refusal))
}

/// Returns microseconds since 2000-01-01. Ignores a zone in the text.
///
/// # Errors
/// The error of PostgreSQL for the text; `Unsupported` for a value that depends on the clock.
pub fn parse_timestamp(text: &str) -> Result<i64, TemporalError> {
    match timestamp_meant(text, "timestamp")? {
        Meaning::At(moment, _) => moment.timestamp(),
        special => Ok(special.us()),
    }
}

/// Returns microseconds since 2000-01-01 UTC. A text without a zone is in that of the session.
///
/// # Errors
/// The error of PostgreSQL for the text; `Unsupported` for a value that depends on the clock.
pub fn parse_timestamptz(text: &str, session: Option<&SessionZone>) -> Result<i64, TemporalError> {
    match timestamp_meant(text, ZONED)? {
        Meaning::At(moment, Some(zone)) => zone.moment(moment),
        Meaning::At(moment, None) => match session {
            None => Zone::UTC.moment(moment),
            Some(session) => session.zone().moment(moment),
        },
        special => Ok(special.us()),
    }
}

/// Returns the local time that a text without a zone means; `None` if the text has the same meaning in each
/// zone.
///
/// # Errors
/// As `parse_timestamptz`.
pub fn local_timestamp(text: &str) -> Result<Option<i64>, TemporalError> {
    match timestamp_meant(text, ZONED)? {
        Meaning::At(moment, None) => moment.timestamp().map(Some),
        _ => Ok(None),
    }
}

pub(super) fn error(kind: &'static str, text: &str, refusal: Refusal) -> TemporalError {
    match refusal {
        Refusal::Syntax => TemporalError::Syntax { kind, text: text.into() },
        Refusal::Field => TemporalError::Field(text.into()),
        Refusal::Displacement => TemporalError::Displacement(text.into()),
        Refusal::Zone(name) => TemporalError::Zone(name),
        Refusal::Unsupported => TemporalError::Unsupported(format!("\"{text}\"")),
    }
}

/// The name of the type in errors.
const ZONED: &str = "timestamp with time zone";

impl Meaning {
    /// Returns the timestamp of a word.
    fn us(&self) -> i64 {
        match self {
            Self::BeforeAll => TIMESTAMP_BEFORE_ALL,
            Self::AfterAll => TIMESTAMP_AFTER_ALL,
            Self::Epoch | Self::At(..) => -POSTGRES_EPOCH_S * 1_000_000,
        }
    }
}

pub(super) fn meaning(text: &str) -> Read<Meaning> {
    if let Some(moment) = super::canonical::read(text) {
        return Ok(Meaning::At(moment, None));
    }
    let tokens = tokens(text)?;
    let mut fields = Fields::default();
    let mut special = None;
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Signed(word) | Token::Word(word) => match word.as_str() {
                "infinity" => special = Some(Meaning::AfterAll),
                "-infinity" => special = Some(Meaning::BeforeAll),
                "epoch" => special = Some(Meaning::Epoch),
                "now" | "today" | "tomorrow" | "yesterday" => return Err(Refusal::Unsupported),
                _ if matches!(token, Token::Signed(_)) => return Err(Refusal::Syntax),
                word => fields.word(word, tokens.get(place + 1))?,
            },
            Token::Date(date) => fields.date(date)?,
            Token::Time(time) => fields.time(time)?,
            Token::Zone(zone) => fields.zone(zone)?,
            Token::Number(number) => fields.number(number)?,
        }
    }
    match special {
        Some(special) if tokens.len() == 1 => Ok(special),
        Some(_) => Err(Refusal::Syntax),
        None => fields.moment(),
    }
}

/// Returns the microseconds of `.f`, rounded. PostgreSQL reads the fraction as a double.
fn fraction_of(text: &str) -> Read<i64> {
    if text == "." {
        return Ok(0);
    }
    if !text[1..].bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Syntax);
    }
    let fraction: f64 = format!("0{text}").parse().map_err(|_| Refusal::Syntax)?;
    Ok((fraction * 1e6).round_ties_even() as i64)
}

/// Whether an hour is of the first or second half of a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Half {
    First,
    Second,
}

/// The fields that the words read so far have set.
#[derive(Default, Debug)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// Hour, minute, second, microsecond.
    clock: Option<[i64; 4]>,
    zone: Option<Zone>,
    half: Option<Half>,
    is_before_christ: Option<bool>,
    has_weekday: bool,
    /// Whether the year was written with one or two digits.
    is_short: bool,
    has_month_name: bool,
    /// `T` was read, so a time must follow.
    expects_time: bool,
    /// `J` was read, so a Julian day must follow.
    expects_julian_day: bool,
    has_julian_day: bool,
    /// A field was read that no date with delimiters may follow.
    is_past_date: bool,
}

/// Sets a field that is not set yet.
fn set<T>(field: &mut Option<T>, value: T) -> Read<()> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Refusal::Syntax),
    }
}

impl Fields {
    fn has_date(&self) -> bool {
        self.year.is_some() && self.month.is_some() && self.day.is_some()
    }

    fn begins_date(&self) -> bool {
        self.year.is_some() || self.month.is_some() || self.day.is_some()
    }

    fn set_day_of_year(&mut self, day: i64) -> Read<()> {
        if self.month.is_some() || self.day.is_some() {
            return Err(Refusal::Syntax);
        }
        (self.month, self.day) = (Some(1), Some(1));
        set(&mut self.day_of_year, day)
    }

    fn set_month_name(&mut self, month: i64) -> Read<()> {
        // A number read as the month was the day if the month's name follows.
        if let (Some(own), false, None) = (self.month, self.has_month_name, self.day)
            && (1..=31).contains(&own)
        {
            (self.day, self.month) = (Some(own), None);
        }
        self.has_month_name = true;
        set(&mut self.month, month)
    }

    fn word(&mut self, word: &str, next: Option<&Token>) -> Read<()> {
        if let Some(month) = month_of(word) {
            return self.set_month_name(month);
        }
        let is_summer = SUMMER_TIME.binary_search(&word).is_ok();
        self.is_past_date |= is_summer || matches!(word, "am" | "pm" | "ad" | "bc");
        if WEEKDAYS.contains(&word) {
            self.is_past_date |= word != "on";
            return if word == "on" || !std::mem::replace(&mut self.has_weekday, true) {
                Ok(())
            } else {
                Err(Refusal::Syntax)
            };
        }
        match word {
            "am" => set(&mut self.half, Half::First),
            "pm" => set(&mut self.half, Half::Second),
            "ad" => set(&mut self.is_before_christ, false),
            "bc" => set(&mut self.is_before_christ, true),
            "at" => Ok(()),
            "j" | "jd" | "julian" => {
                self.expects_julian_day = true;
                Ok(())
            }
            "t" if self.year.is_some() && matches!(next, Some(Token::Time(_) | Token::Number(_))) => {
                self.expects_time = true;
                Ok(())
            }
            "allballs" => {
                self.set_clock([0; 4])?;
                set(&mut self.zone, Zone::UTC)
            }
            _ => {
                let zone = Zone::named(word).ok_or(Refusal::Syntax)?;
                self.is_past_date |= matches!(zone, Zone::Abbreviation(..));
                set(&mut self.zone, zone)
            }
        }
    }

    /// Reads a date with delimiters: `DecodeDate`.
    fn date(&mut self, text: &str) -> Read<()> {
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let head: &str = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            if month_of(head).is_none() {
                // The word can only be the name of a zone, as POSIX wants it: of three letters or more.
                if head.len() < 3 || self.month.is_none() || self.day.is_none() {
                    return Err(Refusal::Syntax);
                }
                let zone = Zone::of_rules(text).ok_or_else(|| Refusal::Zone(text.into()))?;
                return set(&mut self.zone, zone);
            }
        }
        if self.begins_date() || self.is_past_date {
            return Err(Refusal::Syntax);
        }
        if text.ends_with(|c: char| !c.is_ascii_alphanumeric()) {
            return Err(Refusal::Syntax);
        }
        let is_word = |part: &&str| part.starts_with(|c: char| c.is_ascii_alphabetic());
        let parts: Vec<&str> =
            text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()).collect();
        // PostgreSQL drops a digit where letters and digits touch. This reader refuses such a text.
        if parts.iter().any(|part| part.bytes().any(|byte| byte.is_ascii_digit() == is_word(part))) {
            return Err(Refusal::Syntax);
        }
        for name in parts.iter().filter(|part| is_word(part)) {
            set(&mut self.month, month_of(name).ok_or(Refusal::Syntax)?)?;
            self.has_month_name = true;
        }
        for part in parts.iter().filter(|part| !is_word(part)) {
            if self.has_date() {
                return Err(Refusal::Syntax);
            }
            self.date_number(part)?;
        }
        if self.has_date() { Ok(()) } else { Err(Refusal::Syntax) }
    }

    fn set_year(&mut self, year: i64, digits: usize) -> Read<()> {
        self.is_short = digits <= 2;
        set(&mut self.year, year)
    }

    /// Reads a number as year, month or day, by its width and the fields already set: `DecodeNumber`.
    fn date_number(&mut self, digits: &str) -> Read<()> {
        let value = number_of(digits)?;
        let wide = digits.len() >= 3;
        match (self.year, self.month, self.day) {
            (Some(_), None, None) if digits.len() == 3 && (1..=366).contains(&value) => {
                self.set_day_of_year(value)
            }
            (None, None, None) if wide => self.set_year(value, digits.len()),
            (None, None, None) | (Some(_), None, None) | (None, None, Some(_)) => set(&mut self.month, value),
            (None, Some(_), None) if self.has_month_name && wide => self.set_year(value, digits.len()),
            (Some(year), Some(_), None) if self.has_month_name && wide && self.is_short => {
                // The first number was the day.
                (self.day, self.year) = (Some(year), None);
                self.set_year(value, digits.len())
            }
            (None | Some(_), Some(_), None) => set(&mut self.day, value),
            (None, Some(_), Some(_)) => self.set_year(value, digits.len()),
            _ => Err(Refusal::Syntax),
        }
    }

    /// Reads a number without delimiters.
    fn number(&mut self, text: &str) -> Read<()> {
        if std::mem::take(&mut self.expects_time) {
            return self.run_of_digits(text);
        }
        if std::mem::take(&mut self.expects_julian_day) {
            return self.julian_day(text);
        }
        let whole = text.find('.').unwrap_or(text.len());
        if whole < text.len() && !self.has_date() && self.year.is_none() && self.month.is_none() {
            return self.year_and_day(text);
        }
        if whole < text.len() && whole > 2 || text.len() >= 6 && (!self.has_date() || self.clock.is_none()) {
            return self.run_of_digits(text);
        }
        if whole < text.len() || self.has_date() {
            return Err(Refusal::Syntax);
        }
        self.date_number(text)
    }

    /// Reads the days since 4714-11-24 BC, whose fraction is a time.
    fn julian_day(&mut self, text: &str) -> Read<()> {
        if self.begins_date() {
            return Err(Refusal::Syntax);
        }
        let (days, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let day = super::day_of(number_of(days)? - EPOCH_JULIAN);
        (self.year, self.month, self.day) = (Some(day.year), Some(day.month), Some(day.day));
        self.has_julian_day = true;
        if fraction.is_empty() {
            return Ok(());
        }
        let fraction: f64 = format!("0{fraction}").parse().map_err(|_| Refusal::Syntax)?;
        let us = (fraction * MICROSECONDS_PER_DAY as f64) as i64;
        let (minutes, us) = (us / 60_000_000, us % 60_000_000);
        self.set_clock([minutes / 60, minutes % 60, us / 1_000_000, us % 1_000_000])
    }

    /// Reads `YYYY.DDD`.
    fn year_and_day(&mut self, text: &str) -> Read<()> {
        let (year, day) = text.split_once('.').unwrap_or((text, ""));
        if day.len() == 3 && year.len() >= 3 && !self.is_past_date {
            self.set_year(number_of(year)?, year.len())?;
            return match number_of(day)? {
                day @ 1..=366 => self.set_day_of_year(day),
                _ => Err(Refusal::Syntax),
            };
        }
        Err(Refusal::Syntax)
    }

    /// Reads `YYYYMMDD`, `YYMMDD`, `HHMMSS[.f]` or `HHMM`: `DecodeNumberField`.
    fn run_of_digits(&mut self, text: &str) -> Read<()> {
        let point = text.find('.').unwrap_or(text.len());
        let (digits, fraction) = text.split_at(point);
        let microsecond = if fraction.is_empty() { 0 } else { fraction_of(fraction)? };
        let length = digits.len();
        if fraction.is_empty() && !self.begins_date() && length >= 6 {
            set(&mut self.day, number_of(&digits[length - 2..])?)?;
            set(&mut self.month, number_of(&digits[length - 4..length - 2])?)?;
            return self.set_year(number_of(&digits[..length - 4])?, length - 4);
        }
        let part = |from: usize| number_of(digits.get(from..from + 2).unwrap_or_default());
        let second = match length {
            6 => part(4)?,
            4 => 0,
            _ => return Err(Refusal::Syntax),
        };
        self.set_clock([part(0)?, part(2)?, second, microsecond])
    }

    /// Reads `HH:MM[:SS[.f]]`: `DecodeTime`.
    fn time(&mut self, text: &str) -> Read<()> {
        self.expects_time = false;
        let point = text.find('.').unwrap_or(text.len());
        let (clock, fraction) = text.split_at(point);
        let parts: Vec<&str> = clock.split(':').collect();
        // An empty field between colons is 0.
        let number = |place: usize| match parts.get(place) {
            None | Some(&"") => Ok(0),
            Some(part) => number_of(part),
        };
        if !(2..=3).contains(&parts.len()) {
            return Err(Refusal::Syntax);
        }
        let microsecond = if fraction.is_empty() { 0 } else { fraction_of(fraction)? };
        match (parts.len(), fraction.is_empty()) {
            // `MM:SS.f`.
            (2, false) => self.set_clock([0, number(0)?, number(1)?, microsecond]),
            _ => self.set_clock([number(0)?, number(1)?, number(2)?, microsecond]),
        }
    }

    fn set_clock(&mut self, clock: [i64; 4]) -> Read<()> {
        let [hour, minute, second, microsecond] = clock;
        let is_after_midnight = hour == 24 && (minute, second, microsecond) != (0, 0, 0);
        if hour > 24 || minute > 59 || second > 60 || second == 60 && microsecond > 0 || is_after_midnight {
            return Err(Refusal::Field);
        }
        self.is_past_date = true;
        set(&mut self.clock, clock)
    }

    /// Reads `+HH[:MM[:SS]]` or `+HHMM`: `DecodeTimezone`.
    fn zone(&mut self, text: &str) -> Read<()> {
        set(&mut self.zone, Zone::Fixed(offset_of(text)?))
    }

    /// Combines the fields into a moment, with the half of the day: `ValidateDate`.
    fn moment(self) -> Read<Meaning> {
        let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) else {
            return Err(Refusal::Syntax);
        };
        if self.expects_time || self.expects_julian_day {
            return Err(Refusal::Syntax);
        }
        let year = match self.is_before_christ {
            _ if self.has_julian_day => year,
            Some(true) if year > 0 => 1 - year,
            None | Some(false) if self.is_short && year < 70 => year + 2000,
            None | Some(false) if self.is_short => year + 1900,
            _ if year > 0 => year,
            _ => return Err(Refusal::Field),
        };
        if !(1..=12).contains(&month) || !(1..=Day::in_month(year, month)).contains(&day) {
            return Err(Refusal::Field);
        }
        let [hour, minute, second, microsecond] = self.clock.unwrap_or_default();
        let hour = match self.half {
            Some(_) if hour > 12 => return Err(Refusal::Field),
            Some(Half::First) => hour % 12,
            Some(Half::Second) => hour % 12 + 12,
            None => hour,
        };
        let mut day = Day { year, month, day };
        if let Some(of_year) = self.day_of_year {
            day = super::day_of(Day { year, month: 1, day: of_year }.days());
        }
        let moment = Moment { day, hour, minute, second, microsecond };
        Ok(Meaning::At(moment, self.zone))
    }
}
