//! The Gregorian calendar over PostgreSQL's range: days since 2000-01-01 as years, months and days, and back.
//! Source: PostgreSQL 15, `date2j` and `j2date` in `datetime.c` (Fliegel and Van Flandern).
//!
//! The crates jiff, chrono and time do not serve: their calendars end before PostgreSQL's last years, 294276
//! for timestamps and 5874897 for dates.

use super::{MICROSECONDS_PER_DAY, TemporalError, checked_date, checked_timestamp};

/// The Julian day of 2000-01-01.
pub const EPOCH_JULIAN: i64 = 2_451_545;

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Day {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

/// A day and a time of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The day.
    pub day: Day,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 59.
    pub second: i64,
    /// 0 to 999,999.
    pub microsecond: i64,
}

/// Returns the calendar day of a number of days since 2000-01-01. Accepts any `i32`, also outside the range
/// of dates.
pub fn day_of(days: i64) -> Day {
    // Removes a multiple of 400 years first, so that the algorithm divides no negative numbers.
    const CYCLE_DAYS: i64 = 146_097;
    let julian = days + EPOCH_JULIAN;
    let cycles = julian.div_euclid(CYCLE_DAYS);
    let mut julian = julian.rem_euclid(CYCLE_DAYS) + 32_044;
    let quad = julian / CYCLE_DAYS;
    let extra = (julian - quad * CYCLE_DAYS) * 4 + 3;
    julian += 60 + quad * 3 + extra / CYCLE_DAYS;
    let quad = julian / 1461;
    julian -= quad * 1461;
    let in_quad = julian * 4 / 1461;
    julian = if in_quad == 0 { (julian + 306) % 366 } else { (julian + 305) % 365 } + 123;
    let year = in_quad + quad * 4 - 4800 + cycles * 400;
    let quad = julian * 2141 / 65_536;
    Day { year, month: (quad + 10) % 12 + 1, day: julian - 7834 * quad / 256 }
}

/// Returns the moment of a finite timestamp. Accepts any `i64`, also outside the range of timestamps.
pub fn moment_of(us: i64) -> Moment {
    let day = day_of(us.div_euclid(MICROSECONDS_PER_DAY));
    let in_day = us.rem_euclid(MICROSECONDS_PER_DAY);
    let seconds = in_day / 1_000_000;
    Moment {
        day,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        microsecond: in_day % 1_000_000,
    }
}

impl Day {
    /// Returns the number of days of a month.
    pub fn in_month(year: i64, month: i64) -> i64 {
        let is_leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
        match month {
            2 => 28 + i64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Returns the days since 2000-01-01. The year is at most a few million from 0; the day may lie outside
    /// its month.
    pub fn days(self) -> i64 {
        let (year, month) =
            if self.month > 2 { (self.year, self.month + 1) } else { (self.year - 1, self.month + 13) };
        let year = year + 4800;
        let century = year.div_euclid(100);
        let leaps = year.div_euclid(4) - century + century.div_euclid(4);
        year * 365 - 32_167 + leaps + 7834 * month / 256 + self.day - EPOCH_JULIAN
    }

    /// Returns the date.
    ///
    /// # Errors
    /// `Range`: the day is outside PostgreSQL's range.
    pub fn date(self) -> Result<i32, TemporalError> {
        match checked_date(self.days()) {
            Ok(days) if super::is_finite_date(days) => Ok(days),
            _ => Err(TemporalError::Range("date")),
        }
    }

    /// Returns the year counted from 1, and whether it is before Christ.
    pub fn written_year(self) -> (i64, bool) {
        if self.year > 0 { (self.year, false) } else { (1 - self.year, true) }
    }

    /// Returns the day of the week; Sunday is 0.
    pub fn weekday(self) -> i64 {
        // 2000-01-01 was a Saturday.
        (self.days() + 6).rem_euclid(7)
    }

    /// Returns the day of the year, counted from 1.
    pub fn of_year(self) -> i64 {
        self.days() - Self { month: 1, day: 1, ..self }.days() + 1
    }

    /// Returns the year and number of the ISO week. A week belongs to the year of its Thursday.
    pub fn iso_week(self) -> (i64, i64) {
        let monday_based = (self.weekday() + 6) % 7;
        let thursday = day_of(self.days() - monday_based + 3);
        (thursday.year, (thursday.of_year() - 1) / 7 + 1)
    }
}

impl Moment {
    /// Returns the timestamp.
    ///
    /// # Errors
    /// `Range`: the moment is outside PostgreSQL's range.
    pub fn timestamp(self) -> Result<i64, TemporalError> {
        let range = || TemporalError::Range("timestamp");
        let of_day = ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.microsecond;
        let midnight = self.day.days().checked_mul(MICROSECONDS_PER_DAY).ok_or_else(range)?;
        let us = midnight.checked_add(of_day).ok_or_else(range)?;
        checked_timestamp(us).ok().filter(|us| super::is_finite_timestamp(*us)).ok_or_else(range)
    }
}
