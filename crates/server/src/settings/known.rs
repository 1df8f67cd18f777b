//! The settings that clients of PostgreSQL know, as `pg_settings` describes them.
//! Source: PostgreSQL 15's `pg_settings`, in `known.tsv`; without the settings of parts that Reprise lacks,
//! such as its files, its write-ahead log and its background processes.
//!
//! A setting without an effect on Reprise, such as one of PostgreSQL's planner, is stored and shown.

use super::values::{Unit, duration_of, memory_of};
use reprise::SqlError;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The description of a setting.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The name, as SHOW ALL displays it.
    pub(crate) name: &'static str,
    /// The unit of a number without one; empty for none.
    pub(crate) unit: &'static str,
    pub(crate) category: &'static str,
    pub(crate) description: &'static str,
    /// Who may change it when: `user`, `superuser`, `backend`, `sighup`, `postmaster`, `internal`.
    pub(crate) context: &'static str,
    /// `bool`, `integer`, `real`, `string` or `enum`.
    pub(crate) kind: &'static str,
    pub(crate) least: &'static str,
    pub(crate) most: &'static str,
    /// The values of an `enum`.
    pub(crate) values: Vec<&'static str>,
    /// The first value, as a number of units.
    pub(crate) first: &'static str,
}

/// The settings, by their names in lower case.
static KNOWN: LazyLock<BTreeMap<String, Definition>> = LazyLock::new(|| {
    let lines = include_str!("known.tsv").lines().filter(|line| !line.starts_with('#'));
    let known = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let mut setting = Definition {
            name: next(),
            unit: next(),
            category: next(),
            description: next(),
            context: next(),
            kind: next(),
            least: next(),
            most: next(),
            values: Vec::new(),
            first: "",
        };
        setting.values = next().split(',').filter(|value| !value.is_empty()).collect();
        setting.first = next();
        (setting.name.to_lowercase(), setting)
    };
    lines.map(known).collect()
});

/// Returns all settings, by their names in lower case.
pub(crate) fn all_known() -> impl Iterator<Item = (&'static str, &'static Definition)> {
    KNOWN.iter().map(|(name, setting)| (name.as_str(), setting))
}

/// Returns a setting by its name in lower case.
pub(crate) fn known(name: &str) -> Option<&'static Definition> {
    KNOWN.get(name)
}

/// Returns whether a client may invent a setting of this name: words with dots between them.
pub(crate) fn is_custom(name: &str) -> bool {
    let is_word = |word: &str| {
        let mut characters = word.chars();
        characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && characters.all(|character| character.is_alphanumeric() || character == '_' || character == '$')
    };
    name.contains('.') && name.split('.').all(is_word)
}

/// Reads a Boolean value of a setting. As in PostgreSQL, the beginning of a word suffices.
pub(crate) fn boolean_of(text: &str) -> Option<bool> {
    let text = text.to_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    match text.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins("on", 2) || begins("true", 1) || begins("yes", 1) => Some(true),
        _ if begins("off", 2) || begins("false", 1) || begins("no", 1) => Some(false),
        _ => None,
    }
}

impl Definition {
    fn malformed(&self, value: &str) -> SqlError {
        SqlError::new("22023", format!("invalid value for parameter \"{}\": \"{value}\"", self.name))
    }

    /// Returns the stored form of a value, which SHOW displays.
    ///
    /// # Errors
    /// `22023`: the value is malformed, or out of range.
    pub(crate) fn stored(&self, value: &str) -> Result<String, SqlError> {
        match self.kind {
            "bool" => match boolean_of(value) {
                Some(is_on) => Ok(if is_on { "on" } else { "off" }.into()),
                None => {
                    let message = format!("parameter \"{}\" requires a Boolean value", self.name);
                    Err(SqlError::new("22023", message))
                }
            },
            "enum" => {
                let found = self.values.iter().find(|allowed| allowed.eq_ignore_ascii_case(value));
                // PostgreSQL accepts these spellings of Boolean values, but does not list them.
                let spelled = boolean_of(value).map(|is_on| if is_on { "on" } else { "off" });
                let found = found.or_else(|| self.values.iter().find(|allowed| Some(**allowed) == spelled));
                found.map(|allowed| (*allowed).to_owned()).ok_or_else(|| {
                    let hint = format!("Available values: {}.", self.values.join(", "));
                    self.malformed(value).with_hint(hint)
                })
            }
            "integer" => self.number(value).map(|number| self.shown(number)),
            "real" => {
                let number: f64 = value.trim().parse().map_err(|_| self.malformed(value))?;
                let bound = |text: &str| text.parse::<f64>().ok();
                let is_below = bound(self.least).is_some_and(|least| number < least);
                if is_below || bound(self.most).is_some_and(|most| number > most) {
                    return Err(self.out_of_range(&number.to_string(), ""));
                }
                Ok(number.to_string())
            }
            _ => Ok(value.into()),
        }
    }

    fn out_of_range(&self, number: &str, unit: &str) -> SqlError {
        let (name, least, most) = (self.name, self.least, self.most);
        let message =
            format!("{number}{unit} is outside the valid range for parameter \"{name}\" ({least} .. {most})");
        SqlError::new("22023", message)
    }

    /// Reads a whole number of units.
    fn number(&self, value: &str) -> Result<i64, SqlError> {
        let text = value.trim();
        let number = match (Unit::of(self.unit), text.strip_prefix('-')) {
            (_, Some(digits)) => digits.parse::<i64>().ok().map(|number| -number),
            (Unit::None, None) => text.parse::<f64>().ok().map(|number| number.round() as i64),
            (Unit::Bytes(unit), None) => {
                memory_of(text, unit).map(|bytes| i64::try_from(bytes / unit).unwrap_or(i64::MAX))
            }
            (Unit::Microseconds(unit), None) => {
                let time = duration_of(text, unit);
                time.map(|time| i64::try_from((time + unit / 2) / unit).unwrap_or(i64::MAX))
            }
        };
        let Some(number) = number else {
            let error = self.malformed(value);
            let is_number = text.parse::<f64>().is_ok() || text.starts_with(|c: char| !c.is_ascii_digit());
            return Err(match Unit::of(self.unit) {
                Unit::Bytes(_) if !is_number => error.with_hint(
                    "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
                ),
                Unit::Microseconds(_) if !is_number => error.with_hint(
                    "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
                ),
                _ => error,
            });
        };
        let bound = |text: &str| text.parse::<i64>().ok();
        let is_below = bound(self.least).is_some_and(|least| number < least);
        if is_below || bound(self.most).is_some_and(|most| number > most) {
            let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
            return Err(self.out_of_range(&number.to_string(), &unit));
        }
        Ok(number)
    }

    /// Returns a number of units as SHOW displays it: in the largest unit in which it is a whole number.
    fn shown(&self, number: i64) -> String {
        match Unit::of(self.unit) {
            _ if number <= 0 => number.to_string(),
            Unit::None => number.to_string(),
            Unit::Bytes(unit) => super::values::memory_text(number as u64 * unit),
            Unit::Microseconds(unit) => super::values::time_text(number as u64 * unit),
        }
    }

    /// Returns the first value, as SHOW displays it.
    pub(crate) fn first_shown(&self) -> String {
        match (self.kind, self.first.parse()) {
            ("integer", Ok(number)) => self.shown(number),
            _ => self.first.into(),
        }
    }

    /// Returns a value that SHOW displays as `pg_settings` does: as a number of units.
    pub(crate) fn counted(&self, shown: &str) -> String {
        match self.kind {
            "integer" => self.number(shown).map_or_else(|_| shown.into(), |number| number.to_string()),
            _ => shown.into(),
        }
    }

    /// Checks that a client may change the setting.
    ///
    /// # Errors
    /// `55P02`: the client may not.
    pub(crate) fn check_changeable(&self, is_starting: bool) -> Result<(), SqlError> {
        let name = self.name;
        let message = match self.context {
            "user" | "superuser" => return Ok(()),
            "backend" | "superuser-backend" if is_starting => return Ok(()),
            "backend" | "superuser-backend" => {
                format!("parameter \"{name}\" cannot be set after connection start")
            }
            "sighup" => format!("parameter \"{name}\" cannot be changed now"),
            "postmaster" => format!("parameter \"{name}\" cannot be changed without restarting the server"),
            _ => format!("parameter \"{name}\" cannot be changed"),
        };
        Err(SqlError::new("55P02", message))
    }
}
