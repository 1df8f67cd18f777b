//! Intervals: months, days and microseconds, as PostgreSQL's; their text, order and arithmetic.
//! Source: PostgreSQL 15, `timestamp.c` (`interval_mul`, `interval_div`, `interval_cmp_value`,
//! `timestamp_age`) and `EncodeInterval` in `datetime.c`, with the style `postgres`.
//!
//! A value is held as 16 bytes: microseconds, days, months, all little-endian. Intervals that are equal, such
//! as a month and 30 days, may have different bytes.

mod input;

use super::{
    Day, MICROSECONDS_PER_DAY, Moment, TemporalError, is_finite_timestamp, moment_of, timestamp_plus,
};
use crate::ValueError;
use std::fmt;

const MONTHS_PER_YEAR: i32 = 12;
const DAYS_PER_MONTH: i32 = 30;
const SECONDS_PER_DAY: f64 = 86_400.0;

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

/// Returns the error of an interval that no INTERVAL can be.
fn out_of_range() -> ValueError {
    ValueError::new("22008", "interval out of range")
}

/// Rounds to microseconds.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

impl Interval {
    /// Number of bytes of a value.
    pub const BYTES: usize = 16;

    /// Returns the bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.us.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_le_bytes());
        bytes[12..].copy_from_slice(&self.months.to_le_bytes());
        bytes
    }

    /// Returns the interval of its bytes; zero if there are too few.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let Some((us, rest)) = bytes.split_first_chunk() else { return Self::default() };
        let Some((days, rest)) = rest.split_first_chunk() else { return Self::default() };
        let months = rest.first_chunk().copied().unwrap_or_default();
        let (us, days) = (i64::from_le_bytes(*us), i32::from_le_bytes(*days));
        Self { us, days, months: i32::from_le_bytes(months) }
    }

    /// Returns the microseconds as which intervals are compared: a month has 30 days, a day 24 hours.
    pub fn total(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(MICROSECONDS_PER_DAY) + i128::from(self.us)
    }

    /// Returns an interval with a total, with as many months as it has.
    pub(crate) fn of_total(total: i128) -> Self {
        let per_month = i128::from(DAYS_PER_MONTH) * i128::from(MICROSECONDS_PER_DAY);
        let months = (total / per_month).clamp(i32::MIN.into(), i32::MAX.into());
        let rest = total - months * per_month;
        let days = (rest / i128::from(MICROSECONDS_PER_DAY)).clamp(i32::MIN.into(), i32::MAX.into());
        let us = rest - days * i128::from(MICROSECONDS_PER_DAY);
        Self { months: months as i32, days: days as i32, us: us as i64 }
    }

    /// Returns the sum of two intervals.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn plus(self, other: Self) -> Result<Self, ValueError> {
        let sum = || {
            Some(Self {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                us: self.us.checked_add(other.us)?,
            })
        };
        sum().ok_or_else(out_of_range)
    }

    /// Returns the interval with the opposite sign.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn negated(self) -> Result<Self, ValueError> {
        let negative = || {
            let Self { months, days, us } = self;
            Some(Self { months: months.checked_neg()?, days: days.checked_neg()?, us: us.checked_neg()? })
        };
        negative().ok_or_else(out_of_range)
    }

    /// Returns the difference of two intervals.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn minus(self, other: Self) -> Result<Self, ValueError> {
        let difference = || {
            Some(Self {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                us: self.us.checked_sub(other.us)?,
            })
        };
        difference().ok_or_else(out_of_range)
    }

    /// Returns the interval with each field changed alike. What is left of months becomes days, and what is
    /// left of days microseconds.
    fn scaled(self, change: impl Fn(f64) -> f64) -> Result<Self, ValueError> {
        let narrow = |value: f64| {
            let fits = value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
            fits.then_some(value as i32).ok_or_else(out_of_range)
        };
        let (months, days) = (change(self.months.into()), change(self.days.into()));
        let (whole_months, mut whole_days) = (narrow(months)?, narrow(days)?);
        let more_days = rounded((months - f64::from(whole_months)) * f64::from(DAYS_PER_MONTH));
        let left = days - f64::from(whole_days) + more_days - more_days.trunc();
        let mut seconds = rounded(left * SECONDS_PER_DAY);
        if seconds.abs() >= SECONDS_PER_DAY {
            let days = (seconds / SECONDS_PER_DAY).trunc();
            whole_days = whole_days.checked_add(narrow(days)?).ok_or_else(out_of_range)?;
            seconds -= days * SECONDS_PER_DAY;
        }
        whole_days = whole_days.checked_add(more_days as i32).ok_or_else(out_of_range)?;
        let us = (change(self.us as f64) + seconds * 1e6).round_ties_even();
        // 2⁶³ is the least double above the range.
        if us.is_nan() || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&us) {
            return Err(out_of_range());
        }
        Ok(Self { months: whole_months, days: whole_days, us: us as i64 })
    }

    /// Returns the interval times a factor.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn times(self, factor: f64) -> Result<Self, ValueError> {
        self.scaled(|value| value * factor)
    }

    /// Returns the interval divided by a number.
    ///
    /// # Errors
    /// `22012`: the number is zero. `22008`: a field is out of range.
    pub fn divided(self, by: f64) -> Result<Self, ValueError> {
        if by == 0.0 {
            return Err(ValueError::new("22012", "division by zero"));
        }
        self.scaled(|value| value / by)
    }

    /// Returns the interval with 24 hours as days.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn justified_hours(self) -> Result<Self, ValueError> {
        let Self { months, mut days, mut us } = self;
        let whole = us / MICROSECONDS_PER_DAY;
        us -= whole * MICROSECONDS_PER_DAY;
        let whole = i32::try_from(whole).map_err(|_| out_of_range())?;
        days = days.checked_add(whole).ok_or_else(out_of_range)?;
        if days > 0 && us < 0 {
            (days, us) = (days - 1, us + MICROSECONDS_PER_DAY);
        } else if days < 0 && us > 0 {
            (days, us) = (days + 1, us - MICROSECONDS_PER_DAY);
        }
        Ok(Self { months, days, us })
    }

    /// Returns the interval with 30 days as months.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn justified_days(self) -> Result<Self, ValueError> {
        let mut own = self.with_days_as_months()?;
        if own.months > 0 && own.days < 0 {
            (own.months, own.days) = (own.months - 1, own.days + DAYS_PER_MONTH);
        } else if own.months < 0 && own.days > 0 {
            (own.months, own.days) = (own.months + 1, own.days - DAYS_PER_MONTH);
        }
        Ok(own)
    }

    fn with_days_as_months(self) -> Result<Self, ValueError> {
        let whole = self.days / DAYS_PER_MONTH;
        let months = self.months.checked_add(whole).ok_or_else(out_of_range)?;
        Ok(Self { months, days: self.days - whole * DAYS_PER_MONTH, us: self.us })
    }

    /// Returns the interval with 24 hours as days, 30 days as months, and one sign.
    ///
    /// # Errors
    /// `22008`: a field is out of range.
    pub fn justified(self) -> Result<Self, ValueError> {
        // Days become months first where the hours would make them overflow.
        let is_one_sign = self.days > 0 && self.us > 0 || self.days < 0 && self.us < 0;
        let mut own = if is_one_sign { self.with_days_as_months()? } else { self };
        let whole = own.us / MICROSECONDS_PER_DAY;
        own.us -= whole * MICROSECONDS_PER_DAY;
        let whole = i32::try_from(whole).map_err(|_| out_of_range())?;
        own.days = own.days.checked_add(whole).ok_or_else(out_of_range)?;
        own = own.with_days_as_months()?;
        if own.months > 0 && (own.days < 0 || own.days == 0 && own.us < 0) {
            (own.months, own.days) = (own.months - 1, own.days + DAYS_PER_MONTH);
        } else if own.months < 0 && (own.days > 0 || own.days == 0 && own.us > 0) {
            (own.months, own.days) = (own.months + 1, own.days - DAYS_PER_MONTH);
        }
        if own.days > 0 && own.us < 0 {
            (own.days, own.us) = (own.days - 1, own.us + MICROSECONDS_PER_DAY);
        } else if own.days < 0 && own.us > 0 {
            (own.days, own.us) = (own.days + 1, own.us - MICROSECONDS_PER_DAY);
        }
        Ok(own)
    }

    /// Returns a timestamp plus the interval: first the months, then the days, then the microseconds.
    ///
    /// # Errors
    /// `Range`: the result is outside PostgreSQL's range.
    pub fn after(self, us: i64) -> Result<i64, TemporalError> {
        if !is_finite_timestamp(us) {
            return Ok(us);
        }
        let mut moment = moment_of(us);
        if self.months != 0 {
            let Day { year, month, day } = moment.day;
            let months = year * 12 + month - 1 + i64::from(self.months);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            moment.day = Day { year, month, day: day.min(Day::in_month(year, month)) };
            moment.timestamp()?;
        }
        if self.days != 0 {
            let day = Day { day: moment.day.day + i64::from(self.days), ..moment.day };
            moment = Moment { day, ..moment };
        }
        timestamp_plus(moment.timestamp()?, self.us)
    }

    /// Returns the time from one finite timestamp to another in days and microseconds.
    ///
    /// # Errors
    /// `22008`: it is out of range.
    pub fn between(to: i64, from: i64) -> Result<Self, ValueError> {
        if !is_finite_timestamp(to) || !is_finite_timestamp(from) {
            return Err(ValueError::new("22008", "cannot subtract infinite timestamps"));
        }
        let us = to.checked_sub(from).ok_or_else(out_of_range)?;
        Self { us, ..Self::default() }.justified_hours()
    }

    /// Returns the time from one finite timestamp to another in years, months, days and microseconds.
    ///
    /// # Errors
    /// `0A000`: a timestamp is infinite.
    pub fn age(to: i64, from: i64) -> Result<Self, ValueError> {
        if !is_finite_timestamp(to) || !is_finite_timestamp(from) {
            return Err(ValueError::new("0A000", "the age of an infinite timestamp is not supported"));
        }
        let (a, b) = (moment_of(to), moment_of(from));
        let sign = if to < from { -1 } else { 1 };
        let of_day = |m: Moment| ((m.hour * 60 + m.minute) * 60 + m.second) * 1_000_000 + m.microsecond;
        let mut us = sign * (of_day(a) - of_day(b));
        let mut days = sign * (a.day.day - b.day.day);
        let mut months = sign * ((a.day.year - b.day.year) * 12 + a.day.month - b.day.month);
        if us < 0 {
            (us, days) = (us + MICROSECONDS_PER_DAY, days - 1);
        }
        while days < 0 {
            let own = if sign < 0 { a.day } else { b.day };
            (days, months) = (days + Day::in_month(own.year, own.month), months - 1);
        }
        let narrow = |value: i64| i32::try_from(sign * value).map_err(|_| out_of_range());
        Ok(Self { months: narrow(months)?, days: narrow(days)?, us: sign * us })
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (years, months) = (self.months / MONTHS_PER_YEAR, self.months % MONTHS_PER_YEAR);
        let (mut is_first, mut follows_negative) = (true, false);
        for (value, unit) in [(years, "year"), (months, "mon"), (self.days, "day")] {
            if value == 0 {
                continue;
            }
            let space = if is_first { "" } else { " " };
            let plus = if follows_negative && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            write!(f, "{space}{plus}{value} {unit}{plural}")?;
            (is_first, follows_negative) = (false, value < 0);
        }
        if !is_first && self.us == 0 {
            return Ok(());
        }
        let space = if is_first { "" } else { " " };
        let sign = match self.us {
            ..0 => "-",
            _ if follows_negative => "+",
            _ => "",
        };
        let us = self.us.unsigned_abs();
        let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{space}{sign}{hours:02}:{minutes:02}:{seconds:02}")?;
        match fraction {
            0 => Ok(()),
            _ => f.write_str(format!(".{fraction:06}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_texts_come_back() {
        for text in ["00:00:00", "-1 years -2 mons +3 days -04:05:06.7", "-1 days +00:00:01", "1 mon 1 day"] {
            let own = Interval::parse(text).unwrap();
            assert_eq!(own.to_string(), text);
            assert_eq!(Interval::from_bytes(&own.to_bytes()), own);
        }
        for (us, text) in [(i64::MIN, "-2562047788:00:54.775808"), (i64::MAX, "2562047788:00:54.775807")] {
            assert_eq!(Interval { us, ..Interval::default() }.to_string(), text);
        }
        let month = Interval { months: 1, ..Interval::default() };
        assert_eq!(month.total(), Interval { days: 30, ..Interval::default() }.total());
    }
}
