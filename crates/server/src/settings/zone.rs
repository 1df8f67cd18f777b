//! The setting `TimeZone`, and SET TIME ZONE.
//! Source: PostgreSQL 15, `zone_value` in `gram.y` and `check_timezone`.

use super::{Settings, unquoted};
use reprise::{Interval, NoZone, SessionZone, SqlError};
use std::sync::Arc;

/// The name of the setting in lower case.
pub(super) const TIME_ZONE: &str = "timezone";

/// The first value of the setting.
const UTC: &str = "UTC";

/// Returns the name of the zone that a value of the setting denotes.
///
/// # Errors
/// `22023`: it denotes none.
pub(super) fn zone_name(value: &str) -> Result<String, SqlError> {
    SessionZone::of_setting(value).map(|zone| zone.name().to_owned()).map_err(|refused| {
        let invalid =
            || SqlError::new("22023", format!("invalid value for parameter \"TimeZone\": \"{value}\""));
        match refused {
            NoZone::Unknown => invalid(),
            NoZone::Offset(detail) => invalid().with_detail(detail),
            NoZone::LeapSeconds => {
                let message = format!("time zone \"{value}\" appears to use leap seconds");
                SqlError::new("22023", message).with_detail("PostgreSQL does not support leap seconds.")
            }
        }
    })
}

/// Returns the value of the setting that `SET TIME ZONE` writes.
///
/// # Errors
/// `42601`: an interval has other fields than hours and minutes.
pub(super) fn written_zone(text: &str) -> Result<String, SqlError> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("local") {
        return Ok("default".into());
    }
    let Some(interval) = text.get(..8).filter(|head| head.eq_ignore_ascii_case("interval")) else {
        return Ok(unquoted(text.trim_matches('"')));
    };
    let parts: Vec<&str> = text[interval.len()..].split('\'').collect();
    let [_, amount, fields] = parts[..] else { return Ok(text.into()) };
    let fields = fields.to_lowercase();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let amount = match fields[..] {
        [] | ["hour", "to", "minute"] => amount.to_owned(),
        ["hour"] => format!("{amount} hour"),
        _ => return Err(SqlError::new("42601", "time zone interval must be HOUR or HOUR TO MINUTE")),
    };
    // The value is shown as PostgreSQL writes the interval.
    let shown = Interval::parse(&amount).map_or(amount, |interval| interval.to_string());
    Ok(format!("INTERVAL '{shown}'"))
}

impl Settings {
    /// Returns the time zone; `None` is UTC.
    pub(crate) fn zone(&self) -> Option<&Arc<SessionZone>> {
        self.zone.as_ref()
    }

    /// Decodes the time zone after a setting has changed.
    pub(super) fn read_zone(&mut self) {
        let name = self.values.get(TIME_ZONE).map(String::as_str).unwrap_or_default();
        if self.zone.as_ref().is_some_and(|zone| zone.name() == name) {
            return;
        }
        let read = || SessionZone::of_setting(name).ok().filter(|zone| !zone.is_utc());
        let zone = if name == UTC { None } else { read() };
        self.zone = zone.map(Arc::new);
    }
}
