//! SET and SHOW: the settings of a connection. Most settings have no effect and are only stored. A value that
//! would change answers in an unsupported way is refused.

use crate::Options;
use reprise::{Access, Severity, SqlError};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Values by name, in lower case; copied on the first change.
type Values = Arc<BTreeMap<String, String>>;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: Values,
    /// The values at the begin of the connection, which RESET restores.
    initial: Values,
    /// The values before the first change in the open transaction, and the names in its SET LOCAL.
    before: Option<(Values, Vec<String>)>,
    /// The settings that each statement needs, decoded.
    limits: Limits,
}

/// The settings at a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    values: Values,
    /// The number of names in SET LOCAL before the savepoint.
    local: usize,
}

/// The limits of a statement. `None` is no limit, unless a field says otherwise.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Limits {
    /// The longest execution (`statement_timeout`).
    pub(crate) timeout: Option<Duration>,
    /// The longest wait for rows and keys that other transactions hold.
    pub(crate) lock_timeout: Option<Duration>,
    /// Time between two checks whether the client is still connected; `None` is no check.
    pub(crate) check_interval: Option<Duration>,
    /// Most bytes of memory (`work_mem`); `None` is the limit of the database's configuration.
    pub(crate) bytes: Option<usize>,
    /// The longest idle time of an open transaction.
    pub(crate) idle: Option<Duration>,
    /// The access mode of transactions that name none.
    access: Access,
    /// Whether commits are acknowledged before they are durable.
    acknowledges_early: bool,
    /// Whether a new routine is refused whose body names what does not exist.
    checks_bodies: bool,
}

/// The range of `work_mem` in kilobytes, as in PostgreSQL.
const WORK_MEMORY: RangeInclusive<usize> = 64..=2_147_483_647;

/// The settings at the begin of a connection.
const INITIAL: [(&str, &str); 31] = [
    ("application_name", ""),
    (CHECK_BODIES, "on"),
    ("client_connection_check_interval", "1s"),
    ("client_encoding", "UTF8"),
    ("bytea_output", "hex"),
    (LEAST_SEVERITY, "notice"),
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
    ("work_mem", "4MB"),
];

/// The settings of which only some values have their meaning here: the values, and a hint for any other one.
const FIXED: [(&str, &[&str], &str); 10] = [
    ("client_encoding", &["utf8", "utf-8", "unicode"], "The only encoding is UTF8."),
    ("names", &["utf8", "utf-8", "unicode"], "The only encoding is UTF8."),
    ("timezone", &["utc", "gmt", "etc/utc", "z", "etc/gmt", "+00", "0"], "The only time zone is UTC."),
    ("standard_conforming_strings", &["on", "true"], "The only value is on."),
    ("bytea_output", &["hex"], "The only format is hex."),
    ("intervalstyle", &["postgres"], "The only style is postgres."),
    ("extra_float_digits", &["1", "2", "3"], "The shortest text that gives the same number is always shown."),
    ("session_replication_role", &["origin", "local"], "Triggers and foreign keys are always active."),
    ("transform_null_equals", &["off", "false"], "The only value is off."),
    (
        "synchronous_commit",
        &["on", "off", "local", "remote_write", "remote_apply", "true", "false"],
        "The values are on and off.",
    ),
];

/// A setting of the open transaction. The session holds its value.
const TRANSACTION_READ_ONLY: &str = "transaction_read_only";

/// The setting of whether bodies of routines are checked.
const CHECK_BODIES: &str = "check_function_bodies";

/// The setting of the least severity of notices.
const LEAST_SEVERITY: &str = "client_min_messages";

/// Reads a truth value of a setting.
fn boolean_of(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

impl Default for Settings {
    fn default() -> Self {
        let values: Arc<BTreeMap<_, _>> =
            Arc::new(INITIAL.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
        let mut settings =
            Self { initial: Arc::clone(&values), values, before: None, limits: Limits::default() };
        settings.read_limits();
        settings
    }
}

/// Reads a time in the form of PostgreSQL's settings: milliseconds, or a number with a unit. 0 is no limit.
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

/// Reads a value of `client_min_messages`; after `error` the client wants no notices.
fn severity_of(text: &str) -> Option<Severity> {
    Some(match text.to_lowercase().as_str() {
        "debug" | "debug1" | "debug2" | "debug3" | "debug4" | "debug5" => Severity::Debug,
        "log" => Severity::Log,
        "info" => Severity::Info,
        "notice" | "default" => Severity::Notice,
        "warning" => Severity::Warning,
        "error" => Severity::Exception,
        _ => return None,
    })
}

/// Reads an amount of memory in the form of PostgreSQL's settings: kilobytes, or a number with a unit.
/// Returns bytes.
fn memory_of(text: &str) -> Option<usize> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..end].parse().ok()?;
    let shift = match text[end..].trim() {
        "B" => 0,
        "" | "kB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Returns an amount of memory in the form of SHOW: in the largest unit in which it is a whole number.
fn memory_text(bytes: usize) -> String {
    let kilobytes = bytes >> 10;
    let units = [(30, "TB"), (20, "GB"), (10, "MB")];
    match units.iter().find(|(shift, _)| kilobytes > 0 && kilobytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{}{unit}", kilobytes >> shift),
        None => format!("{kilobytes}kB"),
    }
}

/// Returns the stored form of a value of `work_mem`.
///
/// # Errors
/// `22023`: the value is no amount of memory, or out of range.
fn work_memory(value: &str) -> Result<String, SqlError> {
    let Some(bytes) = memory_of(value) else {
        let message = format!("invalid value for parameter \"work_mem\": \"{value}\"");
        let hint = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
        return Err(SqlError::new("22023", message).with_hint(hint));
    };
    let kilobytes = bytes >> 10;
    if !WORK_MEMORY.contains(&kilobytes) {
        let (least, most) = (WORK_MEMORY.start(), WORK_MEMORY.end());
        let message = format!(
            "{kilobytes} kB is outside the valid range for parameter \"work_mem\" ({least} .. {most})"
        );
        return Err(SqlError::new("22023", message));
    }
    Ok(memory_text(bytes))
}

/// Returns whether a path of schemas finds the names of `public`, or none.
fn is_public(path: &str) -> bool {
    let known = ["", "$user", "public", "pg_catalog", "pg_temp"];
    path.split(',').all(|name| known.contains(&name.trim().trim_matches(['"', '\'']))) || path == "default"
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.into(),
    }
}

impl Settings {
    /// Returns the settings of a new connection.
    pub(crate) fn new(user: &str, database: &str, options: &Options, statement_bytes: usize) -> Self {
        let mut settings = Self::default();
        let milliseconds = |limit: Option<Duration>| limit.map_or(0, |limit| limit.as_millis()).to_string();
        for (name, value) in [
            ("statement_timeout", milliseconds(options.statement_timeout)),
            ("idle_in_transaction_session_timeout", milliseconds(options.idle_in_transaction_timeout)),
            ("max_connections", options.max_connections.to_string()),
            ("session_authorization", user.into()),
            ("role", "none".into()),
            ("work_mem", memory_text(statement_bytes)),
            ("current_database", database.into()),
        ] {
            settings.values_mut().insert(name.into(), value);
        }
        settings.initial = Arc::clone(&settings.values);
        settings.read_limits();
        settings
    }

    /// Returns the limits of the next statement.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Decodes the limits after a setting has changed.
    fn read_limits(&mut self) {
        self.limits = Limits {
            timeout: self.duration("statement_timeout"),
            lock_timeout: self.duration("lock_timeout"),
            check_interval: self.duration("client_connection_check_interval"),
            bytes: self.values.get("work_mem").and_then(|text| memory_of(text)),
            idle: self.duration("idle_in_transaction_session_timeout"),
            access: self.access_of("default_transaction_read_only"),
            acknowledges_early: self.values.get("synchronous_commit").is_some_and(|value| value == "off"),
            checks_bodies: self.values.get(CHECK_BODIES).and_then(|value| boolean_of(value)) != Some(false),
        };
    }

    /// Returns whether the client wants notices of a severity.
    pub(crate) fn wants(&self, severity: Severity) -> bool {
        let least = self.values.get(LEAST_SEVERITY).and_then(|text| severity_of(text));
        severity == Severity::Info || least.is_none_or(|least| severity >= least)
    }

    /// Reads a limit of time; `None` is no limit.
    fn duration(&self, name: &str) -> Option<Duration> {
        self.values.get(name).and_then(|text| duration_of(text)).flatten()
    }

    /// Returns whether commits are acknowledged before they are durable.
    pub(crate) fn acknowledges_early(&self) -> bool {
        self.limits.acknowledges_early
    }

    /// Returns whether a new routine is refused whose body names what does not exist.
    pub(crate) fn checks_bodies(&self) -> bool {
        self.limits.checks_bodies
    }

    /// Returns the access mode of transactions that name none.
    pub(crate) fn access(&self) -> Access {
        self.limits.access
    }

    fn access_of(&self, name: &str) -> Access {
        match self.values.get(name).is_some_and(|value| value == "on") {
            true => Access::ReadOnly,
            false => Access::ReadWrite,
        }
    }

    /// Takes the access mode that SET gave to the open transaction; `None` if it gave none.
    pub(crate) fn take_transaction_access(&mut self) -> Option<Access> {
        let access = self.access_of(TRANSACTION_READ_ONLY);
        self.values_mut().remove(TRANSACTION_READ_ONLY).map(|_| access)
    }

    fn values_mut(&mut self) -> &mut BTreeMap<String, String> {
        Arc::make_mut(&mut self.values)
    }

    /// Returns the settings for a savepoint that is set now.
    pub(crate) fn mark(&self) -> Mark {
        let local = self.before.as_ref().map_or(0, |(_, local)| local.len());
        Mark { values: Arc::clone(&self.values), local }
    }

    /// Restores the settings of a savepoint.
    pub(crate) fn go_back_to(&mut self, mark: &Mark) {
        self.values = Arc::clone(&mark.values);
        if let Some((_, local)) = &mut self.before {
            local.truncate(mark.local);
        }
        self.read_limits();
    }

    /// Ends the open transaction. Restores the settings of SET LOCAL, and all settings after a rollback.
    pub(crate) fn transaction_ended(&mut self, committed: bool) {
        let Some((before, local)) = self.before.take() else { return };
        if !committed {
            self.values = before;
            self.read_limits();
            return;
        }
        for name in local {
            match before.get(&name) {
                Some(value) => self.values_mut().insert(name, value.clone()),
                None => self.values_mut().remove(&name),
            };
        }
        self.read_limits();
    }

    fn is_user(&self, name: &str) -> bool {
        let user = self.values.get("session_authorization");
        user.is_some_and(|user| user == name.trim_matches(['"', '\'']))
    }

    /// Returns the value that SHOW displays.
    ///
    /// # Errors
    /// `42704`: there is no such setting.
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

    /// Executes the text of a SET, RESET or DISCARD. Returns false for a SET LOCAL outside of a transaction,
    /// which has no effect.
    ///
    /// # Errors
    /// As `set`.
    pub(crate) fn change(&mut self, statement: &str, in_transaction: bool) -> Result<bool, SqlError> {
        if in_transaction && self.before.is_none() {
            self.before = Some((Arc::clone(&self.values), Vec::new()));
        }
        let text = statement.trim().trim_end_matches(';').trim();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_lowercase();
        let body = text[verb.len()..].trim();
        if verb == "discard" || verb == "reset" && body.eq_ignore_ascii_case("all") {
            self.values = Arc::clone(&self.initial);
            self.read_limits();
            return Ok(true);
        }
        if verb == "reset" {
            let name = body.to_lowercase();
            if let Some(value) = self.initial.get(&name) {
                let value = value.clone();
                self.values_mut().insert(name, value);
                self.read_limits();
            }
            return Ok(true);
        }
        let lower = body.to_lowercase();
        let is_local = lower.starts_with("local ");
        let body = ["session ", "local "]
            .iter()
            .find(|word| lower.starts_with(**word))
            .map_or(body, |word| body[word.len()..].trim());
        if body.to_lowercase().starts_with("time zone") {
            return self.set("timezone", &unquoted(&body[9..])).map(|()| true);
        }
        if let Some(user) = lower.strip_prefix("session authorization") {
            return self.set("session authorization", &unquoted(user)).map(|()| true);
        }
        let split = body.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(body.len());
        let (name, value) = body.split_at(split);
        let value = value.trim().trim_start_matches('=').trim();
        let value = match value.get(..3) {
            Some(word) if word.eq_ignore_ascii_case("to ") => &value[3..],
            _ => value,
        };
        let name = name.to_lowercase();
        if is_local {
            match &mut self.before {
                Some((_, local)) => local.push(name.clone()),
                None => return Ok(false),
            }
        }
        self.set(&name, &unquoted(value)).map(|()| true)
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// `0A000`: the value would change answers in an unsupported way. `22023`: the value is malformed.
    /// `55P02`: the setting cannot be changed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let refused = |hint: &str| {
            let message = format!("value \"{value}\" of parameter \"{name}\" is not supported");
            Err(SqlError::new("0A000", message).with_hint(hint))
        };
        if let Some((_, values, hint)) = FIXED.iter().find(|(own, ..)| *own == name)
            && !value.eq_ignore_ascii_case("default")
            && !values.iter().any(|own| own.eq_ignore_ascii_case(value))
        {
            return refused(hint);
        }
        match name {
            "datestyle" if !value.to_lowercase().contains("iso") && value != "default" => {
                return refused("The only style of dates is ISO.");
            }
            "search_path" if !is_public(value) => {
                return refused(
                    "Names without a schema are those of public. Write the schema before the name.",
                );
            }
            "role" | "session authorization"
                if !["none", "default"].contains(&value.to_lowercase().as_str()) && !self.is_user(value) =>
            {
                return refused("A session keeps the user of its connection.");
            }
            "server_version" | "server_version_num" => {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(SqlError::new("55P02", message));
            }
            LEAST_SEVERITY if severity_of(value).is_none() => {
                let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
                let hint =
                    "Available values: debug5, debug4, debug3, debug2, debug1, log, notice, warning, error.";
                return Err(SqlError::new("22023", message).with_hint(hint));
            }
            "statement_timeout"
            | "idle_in_transaction_session_timeout"
            | "lock_timeout"
            | "client_connection_check_interval"
                if value != "default" && duration_of(value).is_none() =>
            {
                let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
                return Err(SqlError::new("22023", message));
            }
            "transaction_isolation" | "default_transaction_isolation" => return Ok(()),
            "default_transaction_read_only" | TRANSACTION_READ_ONLY
                if !value.eq_ignore_ascii_case("default") =>
            {
                let message = || format!("parameter \"{name}\" requires a Boolean value");
                let is_on = boolean_of(value).ok_or_else(|| SqlError::new("22023", message()))?;
                self.values_mut().insert(name.into(), if is_on { "on" } else { "off" }.into());
                self.read_limits();
                return Ok(());
            }
            _ => {}
        }
        let value = match value {
            _ if value.eq_ignore_ascii_case("default") => self.initial.get(name).cloned().unwrap_or_default(),
            "false" if name == "synchronous_commit" => "off".into(),
            value if name == "work_mem" => work_memory(value)?,
            value => value.into(),
        };
        self.values_mut().insert(name.into(), value);
        self.read_limits();
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
        settings.change("SET work_mem = '64MB'", false).unwrap();
        assert_eq!(settings.limits().bytes, Some(64 << 20));
        for (value, shown) in [("2048", "2MB"), ("'2 GB'", "2GB"), ("100000", "100000kB"), ("DEFAULT", "4MB")]
        {
            settings.change(&format!("SET work_mem TO {value}"), false).unwrap();
            assert_eq!(settings.show("work_mem").unwrap(), shown);
        }
        for wrong in ["1", "x", "'1 XB'", "-1", "2147483648"] {
            let error = settings.change(&format!("SET work_mem = {wrong}"), false).unwrap_err();
            assert_eq!(error.sqlstate, "22023", "{wrong}");
        }
        for fixed in [
            "search_path TO elsewhere, public",
            "session_replication_role = replica",
            "bytea_output = 'escape'",
            "extra_float_digits = 0",
            "ROLE ada",
            "SESSION AUTHORIZATION ada",
        ] {
            let error = settings.change(&format!("SET {fixed}"), false).unwrap_err();
            assert_eq!(error.sqlstate, "0A000", "{fixed}");
        }
        for same in [
            "search_path = ''",
            "search_path TO \"$user\", public",
            "ROLE NONE",
            "SESSION AUTHORIZATION DEFAULT",
        ] {
            settings.change(&format!("SET {same}"), false).unwrap();
        }
        settings.change("RESET ALL", false).unwrap();
        assert_eq!(settings.show("application_name").unwrap(), "");
    }
}
