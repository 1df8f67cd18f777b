//! Intervals, and their addition to timestamps.

use super::{DAY_US, out_of_range};
use crate::SqlError;
use catalog::{Day, Decimal, DecimalError, Moment, is_finite_timestamp, moment_of, timestamp_plus};

/// The value of an INTERVAL.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// Months; a year is 12.
    pub months: i32,
    /// Days; a week is 7.
    pub days: i32,
    /// Microseconds: of hours and smaller units, and of a fraction of a day.
    pub us: i64,
}

impl Interval {
    /// Reads `1 day 02:03:04`, `2 months ago`, ….
    ///
    /// # Errors
    /// `22007`: the text is no interval. `22015`: a field of it is out of range.
    pub fn parse(text: &str) -> Result<Self, SqlError> {
        let refused = |refusal| match refusal {
            Refusal::Syntax => {
                SqlError::new("22007", format!("invalid input syntax for type interval: \"{text}\""))
            }
            Refusal::Field => {
                SqlError::new("22015", format!("interval field value out of range: \"{text}\""))
            }
        };
        Self::read(text).map_err(refused)
    }

    fn read(text: &str) -> Result<Self, Refusal> {
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
                all.us = all.us.checked_add(clock(word)?).ok_or(Refusal::Field)?;
                continue;
            }
            // The unit may follow its number without a space.
            let split = word.find(|c: char| c.is_ascii_alphabetic());
            let (number, unit) = match split {
                Some(0) => return Err(Refusal::Syntax),
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
            all = all.negated().ok_or(Refusal::Field)?;
        }
        if any { Ok(all) } else { Err(Refusal::Syntax) }
    }

    fn add(&mut self, number: &str, unit: &str) -> Result<(), Refusal> {
        let number: Decimal = number.parse()?;
        let whole =
            |factor: i64| Ok::<_, Refusal>(number.times(Decimal::from_int(factor))?.rescale(0)?.to_int()?);
        let is_whole = number.compare(Decimal::from_int(whole(1)?)).is_eq();
        let narrow = |factor: i64| i32::try_from(whole(factor)?).map_err(|_| Refusal::Field);
        let added = match unit.trim_end_matches('s') {
            "microsecond" | "u" => add_to(&mut self.us, whole(1)?, i64::checked_add),
            "millisecond" | "m" => add_to(&mut self.us, whole(1000)?, i64::checked_add),
            "second" | "sec" | "" => add_to(&mut self.us, whole(1_000_000)?, i64::checked_add),
            "minute" | "min" => add_to(&mut self.us, whole(60_000_000)?, i64::checked_add),
            "hour" | "hr" | "h" => add_to(&mut self.us, whole(3_600_000_000)?, i64::checked_add),
            "day" | "d" if is_whole => add_to(&mut self.days, narrow(1)?, i32::checked_add),
            "week" | "w" if is_whole => add_to(&mut self.days, narrow(7)?, i32::checked_add),
            "day" | "d" => add_to(&mut self.us, whole(DAY_US)?, i64::checked_add),
            "month" | "mon" if is_whole => add_to(&mut self.months, narrow(1)?, i32::checked_add),
            "year" | "yr" | "y" => add_to(&mut self.months, narrow(12)?, i32::checked_add),
            "decade" => add_to(&mut self.months, narrow(120)?, i32::checked_add),
            "century" | "centurie" => add_to(&mut self.months, narrow(1200)?, i32::checked_add),
            "millennium" | "millennia" => add_to(&mut self.months, narrow(12_000)?, i32::checked_add),
            _ => return Err(Refusal::Syntax),
        };
        added.ok_or(Refusal::Field)
    }

    /// Returns the interval `count` times; `None` on overflow.
    pub(super) fn times(self, count: i64) -> Option<Self> {
        let narrow = i32::try_from(count);
        let few = |of: i32| if of == 0 { Some(0) } else { of.checked_mul(narrow.ok()?) };
        Some(Self { months: few(self.months)?, days: few(self.days)?, us: self.us.checked_mul(count)? })
    }

    /// Returns the interval with the opposite sign; `None` on overflow.
    pub fn negated(self) -> Option<Self> {
        let Self { months, days, us } = self;
        Some(Self { months: months.checked_neg()?, days: days.checked_neg()?, us: us.checked_neg()? })
    }
}

/// The reason why a text is no interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    Syntax,
    Field,
}

impl From<DecimalError> for Refusal {
    fn from(error: DecimalError) -> Self {
        if error == DecimalError::Overflow { Self::Field } else { Self::Syntax }
    }
}

fn add_to<T: Copy>(field: &mut T, more: T, sum: impl Fn(T, T) -> Option<T>) -> Option<()> {
    *field = sum(*field, more)?;
    Some(())
}

/// Returns the microseconds of `[+-]HH:MM[:SS[.f]]`.
fn clock(text: &str) -> Result<i64, Refusal> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or("0").parse::<Decimal>();
    let (hours, minutes, seconds) = (next()?.to_int()?, next()?.to_int()?, next()?);
    let us = seconds.times(Decimal::from_int(1_000_000))?.rescale(0)?.to_int()?;
    if parts.next().is_some() {
        return Err(Refusal::Syntax);
    }
    if hours < 0 || !(0..60).contains(&minutes) || !(0..=60_000_000).contains(&us) {
        return Err(Refusal::Field);
    }
    let whole = hours.checked_mul(3600).and_then(|own| own.checked_add(minutes * 60)?.checked_mul(1_000_000));
    whole.and_then(|whole| whole.checked_add(us)).map(|all| sign * all).ok_or(Refusal::Field)
}

/// Adds an interval to a timestamp: first the months, then the days, then the microseconds, as PostgreSQL.
///
/// # Errors
/// `22008`: the result is out of range.
pub(super) fn later(us: i64, by: Interval) -> Result<i64, SqlError> {
    if !is_finite_timestamp(us) {
        return Ok(us);
    }
    let mut moment = moment_of(us);
    if by.months != 0 {
        let Day { year, month, day } = moment.day;
        let months = year * 12 + month - 1 + i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        moment.day = Day { year, month, day: day.min(Day::in_month(year, month)) };
        moment.timestamp()?;
    }
    if by.days != 0 {
        let day = Day { day: moment.day.day + i64::from(by.days), ..moment.day };
        moment = Moment { day, ..moment };
    }
    timestamp_plus(moment.timestamp()?, by.us).map_err(|_| out_of_range())
}
