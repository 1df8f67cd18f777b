//! `to_timestamp(text, template)` and `to_date`: reads a timestamp by a template.
//! Source: PostgreSQL 15, `DCH_from_char` and `do_to_timestamp` in formatting.c.

use super::template::{DAYS, MONTHS, is_separator, pattern_of, prefix_of, suffix_of};
use super::unsupported;
use crate::SqlError;
use catalog::{Day, EPOCH_JULIAN, Moment, date_plus, is_space, rounded_timestamp};

/// A field of the input. 0 stands for one that is not given.
#[derive(Clone, Copy)]
enum Field {
    Year,
    Month,
    Day,
    DayOfYear,
    Weekday,
    Hour,
    Minute,
    Second,
    Milliseconds,
    Microseconds,
    Half,
    /// The seconds since midnight.
    SecondOfDay,
    /// Days since 4714-11-24 BC.
    JulianDay,
    Century,
    Week,
    WeekOfMonth,
    Quarter,
    /// 1 before Christ.
    Era,
}

/// The months in Roman numerals, from December on, so that none is the beginning of a later one.
const ROMAN_MONTHS: [&str; 12] = ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// What is read of a text so far.
struct Reader<'t> {
    left: &'t str,
    template: &'t str,
    /// The values of the fields.
    fields: [i64; 18],
    has_half_days: bool,
    /// The most digits of the year: those of its pattern.
    year_width: usize,
    /// The digits of the second of FF1 to FF6; `None` without them.
    precision: Option<u8>,
    /// Whether the template has FX: each character of the text has one of the template.
    is_exact: bool,
    /// The blanks before a field that the template does not have.
    blanks: i64,
}

/// A pattern of the template that is read.
struct Pattern<'t> {
    name: &'static str,
    written: &'t str,
    /// Whether it has FM, or what follows is no digit.
    is_delimited: bool,
}

fn invalid(value: &str, pattern: &Pattern<'_>, detail: &str) -> SqlError {
    let message = format!("invalid value \"{value}\" for \"{}\"", pattern.written);
    SqlError::new("22007", message).with_detail(detail)
}

/// Returns the number that a text begins with, as C's `strtol` does, and its length; the largest number for
/// one that is too large.
fn leading_number(text: &str) -> (i64, usize) {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    match digits {
        0 => (0, 0),
        _ => (text[..sign + digits].parse().unwrap_or(i64::MAX), sign + digits),
    }
}

/// Returns whether the text for a pattern begins with a digit.
fn is_number(pattern: &str) -> bool {
    let words = ["A.M.", "P.M.", "B.C.", "A.D.", "AM", "PM", "BC", "AD", "RM", "OF", "TZ", "TZH", "FX"];
    !words.contains(&pattern) && !["MONTH", "MON", "DAY", "DY"].contains(&pattern)
}

/// Returns the full year that a year of fewer than four digits stands for: that nearest to 2020.
fn full_year(year: i64) -> i64 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

impl<'t> Reader<'t> {
    /// Skips blanks. Returns their number.
    fn skip_blanks(&mut self) -> i64 {
        let trimmed = self.left.trim_start_matches(is_space);
        let skipped = self.left.len() - trimmed.len();
        self.left = trimmed;
        skipped as i64
    }

    fn skip_character(&mut self) {
        let mut characters = self.left.chars();
        characters.next();
        self.left = characters.as_str();
    }

    /// Reads the text by the whole template.
    fn read(&mut self) -> Result<(), SqlError> {
        let mut is_first = true;
        while !self.left.is_empty() && !self.template.is_empty() {
            let prefix = prefix_of(self.template).unwrap_or_default();
            self.template = &self.template[prefix.len()..];
            let fills = prefix.eq_ignore_ascii_case("FM");
            let found = pattern_of(self.template);
            if !self.is_exact && found.is_none_or(|(name, _)| name != "FX") && (found.is_some() || is_first) {
                self.blanks += self.skip_blanks();
            }
            is_first = false;
            match found {
                Some((name, written)) => {
                    self.template = &self.template[written.len()..];
                    self.read_pattern(name, written, fills)?;
                }
                None => self.read_characters(),
            }
        }
        Ok(())
    }

    /// Matches a character of the template that is no pattern, or a quoted text.
    fn read_characters(&mut self) {
        let mut characters = self.template.chars();
        let Some(first) = characters.next() else { return };
        if first == '"' {
            while let Some(character) = characters.next() {
                match character {
                    '"' => break,
                    '\\' => _ = characters.next(),
                    _ => {}
                }
                self.match_character(None);
            }
        } else {
            if first == '\\' && characters.as_str().starts_with('"') {
                characters.next();
            }
            self.match_character(Some(first));
        }
        self.template = characters.as_str();
    }

    /// Matches a character outside of quotes, or one within.
    fn match_character(&mut self, written: Option<char>) {
        let is_blank = |c: char| is_space(c) || is_separator(c);
        let separates = written.is_some_and(is_blank);
        if self.is_exact {
            self.skip_character();
        } else if separates {
            match self.left.starts_with(is_blank) {
                true => self.skip_character(),
                false => self.blanks -= 1,
            }
        } else if self.blanks > 0 {
            self.blanks -= 1;
        } else {
            self.skip_character();
        }
    }

    /// Returns whether what follows a pattern in the template is no digit.
    fn is_delimited(&self) -> bool {
        let suffix = suffix_of(self.template).unwrap_or_default();
        if !suffix.is_empty() && suffix != "SP" {
            return true;
        }
        let next = &self.template[suffix.len()..];
        let next = &next[prefix_of(next).map_or(0, str::len)..];
        match pattern_of(next) {
            Some((pattern, _)) => !is_number(pattern),
            None => !next.trim_start_matches('"').starts_with(|c: char| c.is_ascii_digit()),
        }
    }

    fn read_pattern(&mut self, name: &'static str, written: &'t str, fills: bool) -> Result<(), SqlError> {
        if name == "FX" {
            self.is_exact = true;
            return Ok(());
        }
        let pattern = Pattern { name, written, is_delimited: fills || self.is_delimited() };
        self.read_field(&pattern)?;
        if let Some(suffix) = suffix_of(self.template) {
            self.template = &self.template[suffix.len()..];
            if suffix != "SP"
                && !matches!(name, "MONTH" | "MON" | "DAY" | "DY" | "AM" | "PM" | "A.M." | "P.M.")
            {
                self.skip_character();
                self.skip_character();
            }
        }
        if !self.is_exact {
            self.blanks = self.skip_blanks();
        }
        Ok(())
    }

    fn read_field(&mut self, pattern: &Pattern<'t>) -> Result<(), SqlError> {
        let length = pattern.name.len();
        match pattern.name {
            "YYYY" => {
                self.year_width = length;
                self.number(Field::Year, length, pattern)?;
            }
            "YYY" | "YY" | "Y" => {
                self.year_width = length;
                let used = self.number(Field::Year, length, pattern)?;
                let year = &mut self.fields[Field::Year as usize];
                if used < 4 {
                    *year = full_year(*year);
                }
            }
            "MM" => _ = self.number(Field::Month, length, pattern)?,
            "DD" => _ = self.number(Field::Day, length, pattern)?,
            "DDD" => _ = self.number(Field::DayOfYear, length, pattern)?,
            // As in PostgreSQL, the day of the week has no effect.
            "D" => _ = self.number(Field::Weekday, length, pattern)?,
            "HH" | "HH12" => {
                self.number(Field::Hour, 2, pattern)?;
                self.has_half_days = true;
            }
            "HH24" => _ = self.number(Field::Hour, 2, pattern)?,
            "MI" => _ = self.number(Field::Minute, length, pattern)?,
            "SS" => _ = self.number(Field::Second, length, pattern)?,
            "MS" => self.fraction(Field::Milliseconds, 3, 3, pattern)?,
            "US" => self.fraction(Field::Microseconds, 6, 6, pattern)?,
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let width = pattern.name.as_bytes()[2] - b'0';
                self.fraction(Field::Microseconds, width.into(), 6, pattern)?;
                self.precision = Some(width);
            }
            "AM" | "PM" => {
                let half = self.word(&["am", "pm"], 2, pattern)?;
                self.set_half(half, pattern)?;
            }
            "A.M." | "P.M." => {
                let half = self.word(&["a.m.", "p.m."], 4, pattern)?;
                self.set_half(half, pattern)?;
            }
            "MONTH" | "MON" => {
                let width = if pattern.name == "MON" { 3 } else { usize::MAX };
                let month = self.word(&MONTHS, width, pattern)?;
                self.set(Field::Month, month + 1, pattern)?;
            }
            "DAY" | "DY" => {
                let width = if pattern.name == "DY" { 3 } else { usize::MAX };
                let day = self.word(&DAYS, width, pattern)?;
                self.set(Field::Weekday, day, pattern)?;
                self.fields[Field::Weekday as usize] += 1;
            }
            _ => return self.read_rare_field(pattern),
        }
        Ok(())
    }

    fn read_rare_field(&mut self, pattern: &Pattern<'t>) -> Result<(), SqlError> {
        let length = pattern.name.len();
        let field = match pattern.name {
            "J" => Field::JulianDay,
            "CC" => Field::Century,
            "WW" => Field::Week,
            "W" => Field::WeekOfMonth,
            // As in PostgreSQL, the quarter has no effect.
            "Q" => {
                self.number(Field::Quarter, length, pattern)?;
                self.fields[Field::Quarter as usize] = 0;
                return Ok(());
            }
            "SSSS" | "SSSSS" => Field::SecondOfDay,
            "AD" | "BC" | "A.D." | "B.C." => {
                let words = if length == 2 { ["ad", "bc"] } else { ["a.d.", "b.c."] };
                let era = self.word(&words, length, pattern)?;
                return self.set(Field::Era, era, pattern);
            }
            "RM" => {
                let before = self.word(&ROMAN_MONTHS, usize::MAX, pattern)?;
                return self.set(Field::Month, 12 - before, pattern);
            }
            other => return Err(unsupported(&format!("pattern \"{other}\" of to_timestamp"))),
        };
        self.number(field, length, pattern).map(|_| ())
    }

    fn set_half(&mut self, half: i64, pattern: &Pattern<'_>) -> Result<(), SqlError> {
        self.has_half_days = true;
        self.set(Field::Half, half, pattern)
    }

    /// Sets a field.
    ///
    /// # Errors
    /// `22007`: it has another value.
    fn set(&mut self, field: Field, value: i64, pattern: &Pattern<'_>) -> Result<(), SqlError> {
        let known = &mut self.fields[field as usize];
        if *known != 0 && *known != value {
            let message =
                format!("conflicting values for \"{}\" field in formatting string", pattern.written);
            let error = SqlError::new("22007", message);
            return Err(
                error.with_detail("This value contradicts a previous setting for the same field type.")
            );
        }
        *known = value;
        Ok(())
    }

    /// Reads a number of a width, or all digits if what follows is no digit. Returns the characters read.
    fn number(&mut self, field: Field, width: usize, pattern: &Pattern<'_>) -> Result<usize, SqlError> {
        let before = self.left.len();
        self.skip_blanks();
        let text = self.left;
        let end = text.ceil_char_boundary(width.min(text.len()));
        let (value, used) = match pattern.is_delimited {
            true => leading_number(text),
            false => leading_number(&text[..end]),
        };
        let needed =
            |count: usize, what: &str| format!("Field requires {width} characters, but only {count} {what}.");
        if !pattern.is_delimited && text.len() < width {
            let message = format!("source string too short for \"{}\" formatting field", pattern.written);
            return Err(SqlError::new("22007", message).with_detail(needed(text.len(), "remain")));
        }
        if !pattern.is_delimited && used > 0 && used < width {
            return Err(invalid(&text[..end], pattern, &needed(used, "could be parsed")));
        }
        if used == 0 {
            return Err(invalid(&text[..end], pattern, "Value must be an integer."));
        }
        if i32::try_from(value).is_err() {
            let message = format!("value for \"{}\" in source string is out of range", pattern.written);
            return Err(SqlError::new("22008", message));
        }
        self.left = &text[used..];
        self.set(field, value, pattern)?;
        Ok(before - self.left.len())
    }

    /// Reads the digits behind the point of a second, of which `full` make a unit.
    fn fraction(
        &mut self,
        field: Field,
        width: usize,
        full: usize,
        pattern: &Pattern<'_>,
    ) -> Result<(), SqlError> {
        let used = self.number(field, width, pattern)?;
        let missing = full.saturating_sub(used) as u32;
        self.fields[field as usize] *= 10_i64.pow(missing);
        Ok(())
    }

    /// Reads one of the words, cut to a width. Returns its position.
    fn word(&mut self, words: &[&str], width: usize, pattern: &Pattern<'_>) -> Result<i64, SqlError> {
        let fits = |word: &&str| {
            let wanted = &word[..width.min(word.len())];
            self.left.get(..wanted.len()).is_some_and(|head| head.eq_ignore_ascii_case(wanted))
        };
        let Some(position) = words.iter().position(fits) else {
            let value = self.left.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
            let detail = "The given value did not match any of the allowed values for this field.";
            return Err(invalid(value, pattern, detail));
        };
        self.left = &self.left[width.min(words[position].len())..];
        Ok(position as i64)
    }

    fn of(&self, field: Field) -> i64 {
        self.fields[field as usize]
    }

    /// Returns the hour of the day.
    fn hour(&self) -> Result<i64, SqlError> {
        let hour = match self.of(Field::Hour) {
            0 => self.of(Field::SecondOfDay) / 3600,
            hour => hour,
        };
        if !self.has_half_days {
            return Ok(hour);
        }
        if !(1..=12).contains(&hour) {
            let error = SqlError::new("22007", format!("hour \"{hour}\" is invalid for the 12-hour clock"));
            return Err(error.with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        Ok(hour % 12 + if self.of(Field::Half) == 1 { 12 } else { 0 })
    }

    /// Returns the year, of which 0 is 1 BC; `None` if none is given.
    fn year(&self) -> Option<i64> {
        let (given, century) = (self.of(Field::Year), self.of(Field::Century));
        let sign = if self.of(Field::Era) == 1 { -1 } else { 1 };
        let signed = sign * century;
        match (given, century) {
            (0, 0) => None,
            // The first year of the century.
            (0, _) => Some(if signed >= 0 { (signed - 1) * 100 + 1 } else { signed * 100 + 1 }),
            (_, century) if century != 0 && self.year_width <= 2 => Some(match (given % 100, signed >= 0) {
                (0, is_after) => signed * 100 + i64::from(!is_after),
                (year, true) => (signed - 1) * 100 + year,
                (year, false) => (signed + 1) * 100 - year + 1,
            }),
            _ => {
                let year = sign * given;
                Some(if year < 0 { year + 1 } else { year })
            }
        }
    }

    /// Returns the day; `None` if a field is out of range.
    fn day(&self) -> Result<Option<Day>, SqlError> {
        let week_begin = |field: Field, otherwise: i64| match self.of(field) {
            0 => otherwise,
            week => (week - 1) * 7 + 1,
        };
        let of_year = week_begin(Field::Week, self.of(Field::DayOfYear));
        let (mut month, mut day) =
            (self.of(Field::Month), week_begin(Field::WeekOfMonth, self.of(Field::Day)));
        let given = self.year();
        let mut is_whole = given.is_some() && (month != 0 && day != 0 || of_year != 0);
        let mut year = given.unwrap_or(0);
        if self.of(Field::JulianDay) != 0 {
            let own = catalog::day_of(self.of(Field::JulianDay) - EPOCH_JULIAN);
            (is_whole, year) = (true, own.year);
            (month, day) = (if month == 0 { own.month } else { month }, if day == 0 { own.day } else { day });
        }
        (month, day) = (if month == 0 { 1 } else { month }, if day == 0 { 1 } else { day });
        if of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.of(Field::Era) == 0 {
                let message = "cannot calculate day of year without year information";
                return Err(SqlError::new("22007", message));
            }
            let mut before = 0;
            let mut found = 1;
            while found <= 12 && of_year > before + Day::in_month(year, found) {
                before += Day::in_month(year, found);
                found += 1;
            }
            month = if month <= 1 { found } else { month };
            day = if day <= 1 { of_year - before } else { day };
        }
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Ok(None);
        }
        if is_whole && day > Day::in_month(year, month) {
            return Ok(None);
        }
        if year > 10_000_000 {
            return Ok(None);
        }
        // As in PostgreSQL, without a year the 31st of February is the 2nd of March.
        let first = Day { year, month, day: 1 }.days();
        Ok(Some(catalog::day_of(date_plus(first, day - 1)?.into())))
    }
}

/// What a text says by a template.
pub(crate) struct TemplateInput {
    pub(crate) moment: Moment,
    /// The digits of the second to which a timestamp is rounded; `None` for all.
    precision: Option<u8>,
}

impl TemplateInput {
    /// Returns the local timestamp.
    pub(crate) fn timestamp(&self) -> Result<i64, Box<SqlError>> {
        let timestamp = self.moment.timestamp()?;
        match self.precision {
            Some(precision) => Ok(rounded_timestamp(timestamp, precision)?),
            None => Ok(timestamp),
        }
    }
}

/// Evaluates `to_timestamp(text, template)` and `to_date`.
pub(crate) fn from_text(text: &str, template: &str) -> Result<TemplateInput, SqlError> {
    let mut reader = Reader {
        left: text,
        template,
        fields: [0; 18],
        has_half_days: false,
        year_width: 0,
        precision: None,
        is_exact: false,
        blanks: 0,
    };
    reader.read()?;
    let hour = reader.hour()?;
    let of_day = reader.of(Field::SecondOfDay);
    let given = |field: Field, otherwise: i64| match reader.of(field) {
        0 => otherwise,
        given => given,
    };
    let (minute, second) = (given(Field::Minute, of_day / 60 % 60), given(Field::Second, of_day % 60));
    let microsecond = reader.of(Field::Milliseconds) * 1000 + reader.of(Field::Microseconds);
    let is_time = (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..1_000_000).contains(&microsecond);
    match reader.day()?.filter(|_| is_time) {
        Some(day) => {
            let moment = Moment { day, hour, minute, second, microsecond };
            Ok(TemplateInput { moment, precision: reader.precision })
        }
        None => Err(SqlError::new("22008", format!("date/time field value out of range: \"{text}\""))),
    }
}
