//! The time zone of a session: the values of the setting `TimeZone`, and times in it.
//! Source: PostgreSQL 15, `check_timezone` and `pg_tzset`.
//!
//! `None` stands for UTC, so that a session in UTC only pays for a branch.

use super::interval::Interval;
use super::zone::{PosixNames, Zone};
use super::{TemporalError, is_finite_timestamp};
use std::borrow::Cow;

const HOUR_S: i64 = 3600;

/// The time zone of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionZone {
    /// The name, as SHOW displays it.
    name: Box<str>,
    zone: Zone,
    /// The abbreviations of a zone in POSIX's form.
    posix: Option<PosixNames>,
}

/// Why a text is no value of the setting `TimeZone`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoZone {
    /// It names no zone.
    Unknown,
    /// It is an offset that no zone has, with PostgreSQL's detail.
    Offset(&'static str),
    /// The minutes of the zone do not begin with those of UTC.
    LeapSeconds,
}

const OUT_OF_RANGE: NoZone = NoZone::Offset("UTC timezone offset is out of range.");

/// Returns the seconds of an offset from UTC as `hh[:mm[:ss]]`.
fn offset_text(seconds: i64) -> String {
    let (hour, minute, second) = (seconds / HOUR_S, seconds / 60 % 60, seconds % 60);
    match (minute, second) {
        (0, 0) => format!("{hour:02}"),
        (_, 0) => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// Returns an offset east of UTC as PostgreSQL writes it behind a timestamp: `+hh[:mm[:ss]]`.
pub(super) fn signed_offset(east: i64) -> String {
    format!("{}{}", if east < 0 { '-' } else { '+' }, offset_text(east.abs()))
}

/// Returns the seconds of the value `INTERVAL '…'`; `None` if the text has another form.
fn interval_of(text: &str) -> Option<Result<i64, NoZone>> {
    let head = text.get(..8).filter(|head| head.eq_ignore_ascii_case("interval"))?;
    let quoted = text[head.len()..].trim_start().strip_prefix('\'');
    let inner = quoted.and_then(|quoted| quoted.split_once('\'')).filter(|(_, tail)| tail.is_empty());
    let interval = inner.and_then(|(inner, _)| Interval::parse(inner).ok());
    Some(match interval {
        None => Err(NoZone::Unknown),
        Some(own) if own.months != 0 => Err(NoZone::Offset("Cannot specify months in time zone interval.")),
        Some(own) if own.days != 0 => Err(NoZone::Offset("Cannot specify days in time zone interval.")),
        Some(own) => Ok(own.us / 1_000_000),
    })
}

impl SessionZone {
    /// Reads a value of the setting `TimeZone`: the name of a zone, POSIX's form of a zone, a number of hours
    /// east of UTC, or `INTERVAL '…'`.
    ///
    /// # Errors
    /// The text is no zone.
    pub fn of_setting(text: &str) -> Result<Self, NoZone> {
        if let Some(interval) = interval_of(text) {
            return Self::of_offset(interval?);
        }
        let trimmed = text.trim_start();
        let digits = trimmed.trim_start_matches(['+', '-']);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        match trimmed.parse::<f64>() {
            Ok(hours) if is_number => Self::of_offset((hours * HOUR_S as f64) as i64),
            _ => Self::named(text).and_then(|named| match named.zone.east_at(0) % 60 {
                0 => Ok(named),
                _ => Err(NoZone::LeapSeconds),
            }),
        }
    }

    /// Returns the zone that is some seconds east of UTC.
    fn of_offset(east: i64) -> Result<Self, NoZone> {
        let (shown, sign) = (offset_text(east.abs()), if east < 0 { '-' } else { '+' });
        let opposite = if east < 0 { '+' } else { '-' };
        Self::named(&format!("<{sign}{shown}>{opposite}{shown}")).map_err(|_| OUT_OF_RANGE)
    }

    fn named(text: &str) -> Result<Self, NoZone> {
        if let Some((name, zone)) = Zone::of_database(text) {
            return Ok(Self { name: name.into(), zone, posix: None });
        }
        let name = text.to_ascii_uppercase();
        let (zone, posix) = Zone::of_posix(&name).ok_or(NoZone::Unknown)?;
        Ok(Self { name: name.into(), zone, posix: Some(posix) })
    }

    /// Returns the name, as SHOW displays it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the rules.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Returns whether all texts and conversions are those of UTC.
    pub fn is_utc(&self) -> bool {
        self.zone.is_always_utc() && self.abbreviation_at(0) == "UTC"
    }

    /// Returns the abbreviation that `to_char` shows at a timestamp of UTC.
    pub fn abbreviation_at(&self, us: i64) -> Cow<'_, str> {
        match &self.posix {
            Some(names) => names.at(&self.zone, us).into(),
            None => self.zone.abbreviation_at(us).into(),
        }
    }
}

/// Returns the seconds that a session's zone is east of UTC at a timestamp of UTC.
pub fn east_at(zone: Option<&SessionZone>, us: i64) -> i64 {
    zone.map_or(0, |own| own.zone.east_at(us))
}

/// Returns the local time in a session's zone at a timestamp of UTC.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
#[inline]
pub fn local_of(zone: Option<&SessionZone>, us: i64) -> Result<i64, TemporalError> {
    match zone {
        None => Ok(us),
        Some(own) => own.zone.local_of(us),
    }
}

/// Returns the timestamp of UTC at a local time in a session's zone.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
#[inline]
pub fn utc_of(zone: Option<&SessionZone>, us: i64) -> Result<i64, TemporalError> {
    match zone {
        None => Ok(us),
        Some(own) => own.zone.utc_of(us),
    }
}

/// Returns a timestamp of UTC that is an interval later. Months and days are those of a session's zone.
/// Source: PostgreSQL 15, `timestamptz_pl_interval`.
///
/// # Errors
/// `Range`: the result is outside PostgreSQL's range.
pub fn later(zone: Option<&SessionZone>, us: i64, interval: Interval) -> Result<i64, TemporalError> {
    let Some(zone) = zone.filter(|_| is_finite_timestamp(us)) else { return interval.after(us) };
    let Interval { months, days, us: exact } = interval;
    let mut moved = us;
    for step in [Interval { months, ..Interval::default() }, Interval { days, ..Interval::default() }] {
        if step != Interval::default() {
            moved = zone.zone.utc_of(step.after(zone.zone.local_of(moved)?)?)?;
        }
    }
    super::timestamp_plus(moved, exact)
}
