//! SET and SHOW: the settings of a connection. Most settings have no effect and are only stored. A value that
//! would change answers in an unsupported way is refused.
//!
//! Not here: the list of PostgreSQL's settings (`known`), the settings that statements read (`surroundings`).

mod identity;
mod known;
mod layers;
mod roles;
mod shown;
mod values;
mod zone;

pub(crate) use self::identity::Identity;
use self::identity::KnownRoles;
use self::known::{boolean_of, is_custom, known};
use self::layers::{TRANSACTION_READ_ONLY, Values};
use self::values::{duration_of, memory_of, memory_text, time_text, unquoted};
use self::zone::{TIME_ZONE, written_zone, zone_name, zone_of};
use crate::Options;
use reprise::{Access, SessionZone, Severity, SqlError};
use std::sync::Arc;
use std::time::Duration;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: Values,
    /// The values at the begin of the connection, which RESET restores.
    initial: Values,
    /// The changes of the open transaction; `None` before the first.
    transaction: Option<TransactionChanges>,
    /// The settings that each statement needs, decoded.
    limits: Limits,
    /// The time zone, decoded; `None` is UTC.
    zone: Option<Arc<SessionZone>>,
    /// Counts the changes.
    changes: u64,
    /// The roles of the database.
    roles: KnownRoles,
}

/// The changes of settings by the open transaction.
#[derive(Clone, Debug)]
struct TransactionChanges {
    /// The values before the first change.
    before: Values,
    /// The values after a commit: without those of SET LOCAL.
    lasting: Values,
}

/// The settings at a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    values: Values,
    /// The values after a commit.
    lasting: Values,
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
    /// The default access mode of transactions (`default_transaction_read_only`).
    access: Access,
    /// Whether commits are acknowledged before they are durable.
    acknowledges_early: bool,
    /// Whether CREATE refuses a routine whose body names a missing object (`check_function_bodies`).
    checks_bodies: bool,
}

/// The settings whose changes are reported to the client (ParameterStatus), in the spelling of the protocol.
const REPORTED: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The settings of which only some values are supported: these values, and the hint when another one is
/// refused.
const FIXED: [(&str, &[&str], &str); 8] = [
    ("client_encoding", &["utf8", "utf-8", "unicode"], "The only encoding is UTF8."),
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

/// The name of the setting that checks bodies of routines.
const CHECK_BODIES: &str = "check_function_bodies";

/// The name of the setting of the least severity of notices.
const LEAST_SEVERITY: &str = "client_min_messages";

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self {
            initial: Values::default(),
            values: Values::default(),
            transaction: None,
            limits: Limits::default(),
            zone: None,
            changes: 0,
            roles: KnownRoles::default(),
        };
        settings.read_limits();
        settings
    }
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

fn unrecognized(name: &str) -> SqlError {
    SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))
}

/// Returns whether a `search_path` holds no schema but `public` and the system schemas.
fn is_public(path: &str) -> bool {
    // Temporary relations are always found first, and a name without a schema is made in `public`.
    let known = ["", "$user", "public", "pg_catalog"];
    path.split(',').all(|name| known.contains(&name.trim().trim_matches(['"', '\'']))) || path == "default"
}

impl Settings {
    /// Returns the settings of a new connection.
    pub(crate) fn new(user: &str, options: &Options, statement_bytes: usize) -> Self {
        let mut settings = Self::default();
        let milliseconds =
            |limit: Option<Duration>| time_text(limit.map_or(0, |limit| limit.as_micros() as u64));
        for (name, value) in [
            ("statement_timeout", milliseconds(options.statement_timeout)),
            ("idle_in_transaction_session_timeout", milliseconds(options.idle_in_transaction_timeout)),
            ("max_connections", options.max_connections.to_string()),
            ("session_authorization", user.into()),
            ("work_mem", memory_text(statement_bytes as u64)),
            ("ssl", if options.tls.is_some() { "on" } else { "off" }.into()),
        ] {
            settings.values.insert(name.into(), value);
        }
        settings.initial = settings.values.clone();
        settings.read_limits();
        settings
    }

    /// Returns the limits of the next statement.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the time zone; `None` is UTC.
    pub(crate) fn zone(&self) -> Option<&Arc<SessionZone>> {
        self.zone.as_ref()
    }

    /// Returns a number that each change raises.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes over the settings that a statement has changed.
    pub(crate) fn take_over(&mut self, changed: Self) {
        let changes = self.changes;
        *self = changed;
        self.changes = changes + 1;
    }

    /// Decodes the limits after a setting has changed.
    fn read_limits(&mut self) {
        self.changes += 1;
        let name = self.values.get(TIME_ZONE).map(String::as_str).unwrap_or_default();
        self.zone = zone_of(name, self.zone.as_ref());
        self.limits = Limits {
            timeout: self.duration("statement_timeout"),
            lock_timeout: self.duration("lock_timeout"),
            check_interval: self.duration("client_connection_check_interval"),
            bytes: self
                .values
                .get("work_mem")
                .and_then(|text| memory_of(text, 1 << 10))
                .map(|bytes| bytes as usize),
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
        let time = self.values.get(name).and_then(|text| duration_of(text, 1_000));
        time.filter(|time| *time > 0).map(Duration::from_micros)
    }

    /// Returns whether commits are acknowledged before they are durable.
    pub(crate) fn acknowledges_early(&self) -> bool {
        self.limits.acknowledges_early
    }

    /// Returns whether CREATE refuses a routine whose body names a missing object.
    pub(crate) fn checks_bodies(&self) -> bool {
        self.limits.checks_bodies
    }

    /// Returns the default access mode of transactions.
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
        if let Some(changes) = &mut self.transaction {
            changes.lasting.remove(TRANSACTION_READ_ONLY);
        }
        self.values.remove(TRANSACTION_READ_ONLY).map(|_| access)
    }

    /// Returns the settings for a savepoint that is set now.
    pub(crate) fn mark(&self) -> Mark {
        let lasting = self.transaction.as_ref().map_or(&self.values, |changes| &changes.lasting);
        Mark { values: self.values.clone(), lasting: lasting.clone() }
    }

    /// Restores the settings of a savepoint.
    pub(crate) fn go_back_to(&mut self, mark: &Mark) {
        self.values = mark.values.clone();
        if let Some(changes) = &mut self.transaction {
            changes.lasting = mark.lasting.clone();
        }
        self.read_limits();
    }

    /// Ends the open transaction. Restores the settings of SET LOCAL, and all settings after a rollback.
    pub(crate) fn transaction_ended(&mut self, committed: bool) {
        let Some(TransactionChanges { before, lasting }) = self.transaction.take() else { return };
        self.values = if committed { lasting } else { before };
        self.read_limits();
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
        self.values.get(name).cloned().ok_or_else(|| unrecognized(name))
    }

    /// Keeps the values before the first change in a transaction.
    fn begin_change(&mut self, in_transaction: bool) {
        if in_transaction && self.transaction.is_none() {
            let (before, lasting) = (self.values.clone(), self.values.clone());
            self.transaction = Some(TransactionChanges { before, lasting });
        }
    }

    /// Executes the text of a SET, RESET or DISCARD. Returns false for a SET LOCAL outside of a transaction,
    /// which has no effect.
    ///
    /// # Errors
    /// As `set`.
    pub(crate) fn change(&mut self, statement: &str, in_transaction: bool) -> Result<bool, SqlError> {
        self.begin_change(in_transaction);
        let text = statement.trim().trim_end_matches(';').trim();
        let is_local = text.split_whitespace().nth(1).is_some_and(|word| word.eq_ignore_ascii_case("local"));
        match is_local && text.get(..3).is_some_and(|verb| verb.eq_ignore_ascii_case("set")) {
            true if self.transaction.is_none() => Ok(false),
            true => self.apply(text).map(|()| true),
            false => self.apply_lasting(|settings| settings.apply(text)).map(|()| true),
        }
    }

    /// Makes a change that stays after a commit: of the present values, and of those after a commit.
    fn apply_lasting(&mut self, change: impl Fn(&mut Self) -> Result<(), SqlError>) -> Result<(), SqlError> {
        if self.transaction.is_some() {
            self.swap_lasting();
            let changed = change(self);
            self.swap_lasting();
            changed?;
        }
        change(self)
    }

    fn swap_lasting(&mut self) {
        if let Some(changes) = &mut self.transaction {
            std::mem::swap(&mut changes.lasting, &mut self.values);
        }
    }

    /// Executes the text of a SET, RESET or DISCARD on the present values.
    fn apply(&mut self, text: &str) -> Result<(), SqlError> {
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_lowercase();
        let body = text[verb.len()..].trim();
        if verb == "discard" || verb == "reset" && body.eq_ignore_ascii_case("all") {
            let before = std::mem::replace(&mut self.values, self.initial.clone());
            if verb == "reset" {
                // As in PostgreSQL, RESET ALL keeps the roles.
                self.values.identity = before.identity;
                for name in ["role", "session_authorization", "is_superuser"] {
                    self.values.insert(name.into(), before.get(name).cloned().unwrap_or_default());
                }
            }
            self.read_limits();
            return Ok(());
        }
        if verb == "reset" {
            let name = match body.to_lowercase().as_str() {
                "time zone" => "timezone".to_owned(),
                name => name.to_owned(),
            };
            return self.set(&name, "default");
        }
        let lower = body.to_lowercase();
        let body = ["session ", "local "]
            .iter()
            .find(|word| lower.starts_with(**word))
            .map_or(body, |word| body[word.len()..].trim());
        if let Some(value) = time_zone_in(body) {
            return self.set(TIME_ZONE, &written_zone(value)?);
        }
        let words: Vec<&str> = lower.split_whitespace().collect();
        if let ["session", "authorization", ..] | ["authorization", ..] = words.as_slice() {
            let user = body.get(end_of_word(body, "authorization")..).unwrap_or_default().trim();
            return self.set("session authorization", user);
        }
        let split = body.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(body.len());
        let (name, value) = body.split_at(split);
        let value = value.trim().trim_start_matches('=').trim();
        let value = match value.get(..3) {
            Some(word) if word.eq_ignore_ascii_case("to ") => &value[3..],
            _ => value,
        };
        let name = name.to_lowercase();
        if name == "role" {
            return self.set(&name, value);
        }
        // As in PostgreSQL, a list of one empty name is shown with its quotes.
        let value = if name == "search_path" && value == "''" { "\"\"".into() } else { unquoted(value) };
        self.set(&name, &value)
    }

    /// Changes one setting; `default` restores it.
    ///
    /// # Errors
    /// `0A000`: the value would change answers in an unsupported way. `22023`: the value is malformed.
    /// `42704`: there is no such setting. `55P02`: the setting cannot be changed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.set_at(name, value, false)
    }

    /// Changes one setting that the client gives when it connects.
    ///
    /// # Errors
    /// As `set`.
    pub(crate) fn begin_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        self.set_at(name, value, true)?;
        self.initial = self.values.clone();
        Ok(())
    }

    fn set_at(&mut self, name: &str, value: &str, is_starting: bool) -> Result<(), SqlError> {
        let name = if name == "names" { "client_encoding" } else { name };
        let is_default = value.eq_ignore_ascii_case("default");
        self.check_supported(name, value, is_default)?;
        match name {
            "role" => return self.set_role(value, is_default),
            "session authorization" | "session_authorization" => {
                return self.set_session_authorization(value, is_default);
            }
            _ => {}
        }
        let setting = known(name);
        let is_special = self.initial.contains_key(name);
        match setting {
            Some(setting) => setting.check_changeable(is_starting)?,
            None if name == "is_superuser" => {
                return Err(SqlError::new("55P02", format!("parameter \"{name}\" cannot be changed")));
            }
            None if !is_special && !is_custom(name) => return Err(unrecognized(name)),
            None => {}
        }
        let value = match (self.initial.get(name), setting) {
            // Every transaction is serializable.
            _ if matches!(name, "transaction_isolation" | "default_transaction_isolation") => return Ok(()),
            (Some(initial), _) if is_default => initial.clone(),
            (None, _) if is_default => {
                // As in PostgreSQL, a custom setting stays, with an empty value.
                if !self.values.contains_key(name) {
                    return Ok(());
                }
                String::new()
            }
            _ if name == "datestyle" => style_of(value),
            _ if name == TIME_ZONE => zone_name(value)?,
            _ if name == LEAST_SEVERITY && severity_of(value).is_some() => value.to_lowercase(),
            (_, Some(setting)) => setting.stored(value)?,
            (_, None) => value.into(),
        };
        self.values.insert(name.into(), value);
        self.read_limits();
        Ok(())
    }

    /// Refuses a value that would change answers in an unsupported way.
    fn check_supported(&self, name: &str, value: &str, is_default: bool) -> Result<(), SqlError> {
        let refused = |hint: &str| {
            let message = format!("value \"{value}\" of parameter \"{name}\" is not supported");
            Err(SqlError::new("0A000", message).with_hint(hint))
        };
        if is_default {
            return Ok(());
        }
        if let Some((_, values, hint)) = FIXED.iter().find(|(fixed, ..)| *fixed == name)
            && !values.iter().any(|accepted| accepted.eq_ignore_ascii_case(value))
        {
            return refused(hint);
        }
        match name {
            "datestyle" if !value.to_lowercase().contains("iso") => {
                refused("The only style of dates is ISO.")
            }
            "datestyle"
                if ["dmy", "ymd", "euro"].iter().any(|order| value.to_lowercase().contains(order)) =>
            {
                refused("The only order of the parts of a date is MDY.")
            }
            "search_path" if !is_public(value) => {
                refused("Names without a schema are those of public. Write the schema before the name.")
            }
            _ => Ok(()),
        }
    }

    /// Executes `set_config` in a transaction, which is that of a single statement outside of a longer one.
    /// Returns the new value.
    ///
    /// # Errors
    /// As `set`.
    pub(crate) fn set_config(
        &mut self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
    ) -> Result<String, SqlError> {
        let name = name.to_lowercase();
        self.begin_change(true);
        let value = value.unwrap_or("default");
        match is_local {
            true => self.set(&name, value)?,
            false => self.apply_lasting(|settings| settings.set(&name, value))?,
        }
        Ok(self.values.get(&name).cloned().unwrap_or_default())
    }

    /// Returns whether `search_path` lacks `public`.
    pub(crate) fn hides_public(&self) -> bool {
        let path = self.values.get("search_path").map(String::as_str).unwrap_or_default();
        !path.split(',').any(|name| name.trim().trim_matches(['"', '\'']) == "public")
    }

    /// Returns the settings that are reported to the client, with their values.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of = |name: &'static str| Some((name, self.values.get(&name.to_lowercase())?.as_str()));
        REPORTED.into_iter().filter_map(of)
    }
}

/// Returns the text behind the words TIME ZONE.
fn time_zone_in(body: &str) -> Option<&str> {
    let behind = |text: &str, word: &str| {
        let head = text.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word))?;
        Some(head.len())
    };
    let zone = &body[behind(body, "time")?..];
    let zone = Some(zone.trim_start()).filter(|trimmed| trimmed.len() < zone.len())?;
    behind(zone, "zone").map(|end| &zone[end..])
}

/// Returns the offset of the end of a word in a text, without regard to case.
fn end_of_word(text: &str, word: &str) -> usize {
    text.to_ascii_lowercase().find(word).map_or(text.len(), |offset| offset + word.len())
}

/// Returns the stored form of a style of dates. The order of day and month has no effect: the year comes
/// first in all dates.
fn style_of(style: &str) -> String {
    let order = if style.to_lowercase().contains("dmy") { "DMY" } else { "MDY" };
    format!("ISO, {order}")
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
            "search_path TO public, pg_temp",
            "session_replication_role = replica",
            "bytea_output = 'escape'",
            "extra_float_digits = 0",
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
