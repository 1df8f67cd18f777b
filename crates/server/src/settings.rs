//! SET and SHOW: a connection's settings. Most are kept and mean nothing here; those that would change an answer are refused.

use crate::Options;
use reprise::Access;
use reprise::rooms::procedure::SqlError;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings by name, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
    /// What they were when the open transaction began to change them, and those that it changed for itself.
    before: Option<(BTreeMap<String, String>, Vec<String>)>,
}

/// What a connection begins with.
const INITIAL: [(&str, &str); 28] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("bytea_output", "hex"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "on"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", crate::VERSION),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "serializable"),
];

/// A setting of the open transaction. It is kept with that.
const TRANSACTION_READ_ONLY: &str = "transaction_read_only";

/// A truth value as settings write it.
fn boolean_of(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

impl Default for Settings {
    fn default() -> Self {
        let values = INITIAL.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { values, before: None }
    }
}

/// A time as PostgreSQL's settings have it: milliseconds, or a number with a unit. 0 is no limit.
fn duration_of(text: &str) -> Option<Option<Duration>> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let milliseconds = match text[end..].trim() {
        "" | "ms" => number,
        "us" => number.div_ceil(1000),
        "s" => number.checked_mul(1000)?,
        "min" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    Some((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.into(),
    }
}

impl Settings {
    /// What a client begins with.
    pub(crate) fn new(user: &str, database: &str, options: &Options) -> Self {
        let mut settings = Self::default();
        let milliseconds = |limit: Option<Duration>| limit.map_or(0, |own| own.as_millis()).to_string();
        for (name, value) in [
            ("statement_timeout", milliseconds(options.statement_timeout)),
            ("idle_in_transaction_session_timeout", milliseconds(options.idle_in_transaction_timeout)),
            ("max_connections", options.max_connections.to_string()),
            ("session_authorization", user.into()),
            ("role", "none".into()),
            ("current_database", database.into()),
        ] {
            settings.values.insert(name.into(), value);
        }
        settings
    }

    /// A limit of time; nothing where there is none.
    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        self.values.get(name).and_then(|text| duration_of(text)).flatten()
    }

    /// Whether commits are acknowledged before they are durable.
    pub(crate) fn acknowledges_early(&self) -> bool {
        self.values.get("synchronous_commit").is_some_and(|own| own == "off")
    }

    /// What transactions may do that don't say it themselves.
    pub(crate) fn access(&self) -> Access {
        self.access_of("default_transaction_read_only")
    }

    fn access_of(&self, name: &str) -> Access {
        match self.values.get(name).is_some_and(|own| own == "on") {
            true => Access::ReadOnly,
            false => Access::ReadWrite,
        }
    }

    /// What the open transaction may do, if that was set.
    pub(crate) fn take_transaction_access(&mut self) -> Option<Access> {
        let access = self.access_of(TRANSACTION_READ_ONLY);
        self.values.remove(TRANSACTION_READ_ONLY).map(|_| access)
    }

    /// The open transaction has ended: what it changed for itself alone, or came to nothing, is as before.
    pub(crate) fn transaction_ended(&mut self, committed: bool) {
        let Some((before, local)) = self.before.take() else { return };
        if !committed {
            self.values = before;
            return;
        }
        for name in local {
            match before.get(&name) {
                Some(value) => self.values.insert(name, value.clone()),
                None => self.values.remove(&name),
            };
        }
    }

    /// What SHOW says.
    ///
    /// # Errors
    /// There is no such setting.
    pub(crate) fn show(&self, name: &str) -> Result<String, SqlError> {
        let name = match name {
            "time zone" => "timezone",
            "transaction isolation level" => "transaction_isolation",
            name => name,
        };
        self.values
            .get(name)
            .cloned()
            .ok_or_else(|| SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\"")))
    }

    /// SET, RESET and DISCARD, as written.
    ///
    /// # Errors
    /// A value that would change answers.
    pub(crate) fn change(&mut self, statement: &str, in_transaction: bool) -> Result<(), SqlError> {
        if in_transaction && self.before.is_none() {
            self.before = Some((self.values.clone(), Vec::new()));
        }
        let text = statement.trim().trim_end_matches(';').trim();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_lowercase();
        let rest = text[verb.len()..].trim();
        if verb == "discard" || verb == "reset" && rest.eq_ignore_ascii_case("all") {
            let kept = ["session_authorization", "current_database", "max_connections"];
            let initial = Self::default().values;
            self.values.retain(|name, _| kept.contains(&name.as_str()));
            self.values.extend(initial);
            return Ok(());
        }
        if verb == "reset" {
            let initial = INITIAL.iter().find(|(name, _)| rest.eq_ignore_ascii_case(name));
            if let Some((name, value)) = initial {
                self.values.insert((*name).into(), (*value).into());
            }
            return Ok(());
        }
        let lower = rest.to_lowercase();
        let is_local = lower.starts_with("local ");
        let rest = ["session ", "local "]
            .iter()
            .find(|word| lower.starts_with(**word))
            .map_or(rest, |word| rest[word.len()..].trim());
        if rest.to_lowercase().starts_with("time zone") {
            return self.set("timezone", &unquoted(&rest[9..]));
        }
        let split = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, value) = rest.split_at(split);
        let value = value.trim().trim_start_matches('=').trim();
        let value = match value.get(..3) {
            Some(word) if word.eq_ignore_ascii_case("to ") => &value[3..],
            _ => value,
        };
        let name = name.to_lowercase();
        if is_local {
            match &mut self.before {
                Some((_, local)) => local.push(name.clone()),
                // Outside of a transaction it lasts for no statement.
                None => return Ok(()),
            }
        }
        self.set(&name, &unquoted(value))
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// A value that would change answers.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let only = |wanted: &[&str], what: &str| {
            if wanted.iter().any(|own| own.eq_ignore_ascii_case(value)) {
                return Ok(());
            }
            let message = format!("{name} = {value} is not supported");
            Err(SqlError::new("0A000", message).with_hint(what))
        };
        match name {
            "client_encoding" | "names" => {
                only(&["utf8", "utf-8", "unicode", "default"], "The server speaks UTF8.")?
            }
            "timezone" => only(
                &["utc", "gmt", "etc/utc", "z", "default", "etc/gmt", "+00", "0"],
                "Times are shown in UTC.",
            )?,
            "datestyle" if !value.to_lowercase().contains("iso") => {
                only(&["default"], "Dates are written in ISO style.")?;
            }
            "standard_conforming_strings" => {
                only(&["on", "true", "default"], "Backslashes are plain characters.")?
            }
            "server_version" | "server_version_num" => {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(SqlError::new("55P02", message));
            }
            "statement_timeout" | "idle_in_transaction_session_timeout" | "lock_timeout"
                if value != "default" && duration_of(value).is_none() =>
            {
                let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
                return Err(SqlError::new("22023", message));
            }
            "synchronous_commit" => only(
                &["on", "off", "local", "remote_write", "remote_apply", "default", "true", "false"],
                "It is on or off.",
            )?,
            "transaction_isolation" | "default_transaction_isolation" => return Ok(()),
            "default_transaction_read_only" | TRANSACTION_READ_ONLY
                if !value.eq_ignore_ascii_case("default") =>
            {
                let message = || format!("parameter \"{name}\" requires a Boolean value");
                let is_on = boolean_of(value).ok_or_else(|| SqlError::new("22023", message()))?;
                self.values.insert(name.into(), if is_on { "on" } else { "off" }.into());
                return Ok(());
            }
            _ => {}
        }
        let value = match value {
            _ if value.eq_ignore_ascii_case("default") => {
                INITIAL.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value)
            }
            "false" if name == "synchronous_commit" => "off",
            value => value,
        };
        self.values.insert(name.into(), value.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_and_shown() {
        let mut settings = Settings::default();
        settings.change("SET application_name TO 'it''s me'", false).unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "it's me");
        settings.change("SET SESSION extra_float_digits = 3", false).unwrap();
        assert_eq!(settings.show("extra_float_digits").unwrap(), "3");
        assert_eq!(settings.show("transaction_isolation").unwrap(), "serializable");
        assert_eq!(settings.change("SET client_encoding = 'LATIN1'", false).unwrap_err().sqlstate, "0A000");
        assert_eq!(settings.show("nothing").unwrap_err().sqlstate, "42704");
        settings.change("RESET ALL", false).unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "");
    }
}
