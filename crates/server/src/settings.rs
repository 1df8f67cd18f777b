//! SET and SHOW: a connection's settings. Most are kept and mean nothing here; those that would change an answer are refused.

use reprise::rooms::procedure::SqlError;
use std::collections::BTreeMap;

/// Settings by name, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Settings(BTreeMap<String, String>);

/// What a connection begins with.
const INITIAL: [(&str, &str); 14] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "serializable"),
    ("extra_float_digits", "1"),
    ("intervalstyle", "postgres"),
    ("search_path", "\"$user\", public"),
    ("server_version", "15.0 (Reprise)"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "serializable"),
    ("transaction_read_only", "off"),
];

impl Default for Settings {
    fn default() -> Self {
        Self(INITIAL.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.into(),
    }
}

impl Settings {
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
        self.0
            .get(name)
            .cloned()
            .ok_or_else(|| SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\"")))
    }

    /// SET, RESET and DISCARD, as written.
    ///
    /// # Errors
    /// A value that would change answers.
    pub(crate) fn change(&mut self, statement: &str) -> Result<(), SqlError> {
        let text = statement.trim().trim_end_matches(';').trim();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_lowercase();
        let rest = text[verb.len()..].trim();
        if verb == "discard" || verb == "reset" && rest.eq_ignore_ascii_case("all") {
            *self = Self::default();
            return Ok(());
        }
        if verb == "reset" {
            let initial = INITIAL.iter().find(|(name, _)| rest.eq_ignore_ascii_case(name));
            if let Some((name, value)) = initial {
                self.0.insert((*name).into(), (*value).into());
            }
            return Ok(());
        }
        let lower = rest.to_lowercase();
        if lower.starts_with("transaction") || lower.starts_with("session characteristics") {
            // Whatever is asked for, a transaction is serializable, and may write.
            return Ok(());
        }
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
        self.set(&name.to_lowercase(), &unquoted(value))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
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
            "transaction_isolation" | "default_transaction_isolation" => return Ok(()),
            _ => {}
        }
        self.0.insert(name.into(), value.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept_and_shown() {
        let mut settings = Settings::default();
        settings.change("SET application_name TO 'it''s me'").unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "it's me");
        settings.change("SET SESSION extra_float_digits = 3").unwrap();
        assert_eq!(settings.show("extra_float_digits").unwrap(), "3");
        settings.change("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").unwrap();
        assert_eq!(settings.show("transaction_isolation").unwrap(), "serializable");
        assert_eq!(settings.change("SET client_encoding = 'LATIN1'").unwrap_err().sqlstate, "0A000");
        assert_eq!(settings.show("nothing").unwrap_err().sqlstate, "42704");
        settings.change("RESET ALL").unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "");
    }
}
