//! SHOW ALL and `pg_settings`: all settings with their values and descriptions.

use super::Settings;
use super::known::{Definition, all_known, is_custom, known};
use procedure::LiveValue;

/// The settings whose values at the begin of a connection are those of the server's configuration.
const CONFIGURED: [&str; 5] =
    ["idle_in_transaction_session_timeout", "max_connections", "ssl", "statement_timeout", "work_mem"];

impl Settings {
    /// Returns the lines of SHOW ALL: name, value and description.
    pub(crate) fn all(&self) -> Vec<[String; 3]> {
        let line = |(name, setting): (&str, &'static Definition)| {
            let value = self.values.get(name).cloned().unwrap_or_else(|| setting.first_shown());
            [setting.name.into(), value, setting.description.into()]
        };
        all_known().map(line).collect()
    }

    /// Returns the rows of `pg_settings`.
    pub(crate) fn rows(&self) -> Vec<Vec<LiveValue>> {
        let described = all_known().map(|(name, setting)| self.row(name, setting));
        let is_invented = |name: &&String| known(name).is_none() && is_custom(name);
        let invented = self.values.keys().filter(is_invented).map(|name| {
            let value = || self.values.get(name).cloned().unwrap_or_default();
            let category = "Customized Options";
            let mut row: Vec<LiveValue> = vec![name.as_str().into(), value().into(), LiveValue::Null];
            row.extend([category.into(), "".into(), LiveValue::Null, "user".into(), "string".into()]);
            row.extend(["session".into(), LiveValue::Null, LiveValue::Null, LiveValue::Null]);
            row.extend([LiveValue::Null, LiveValue::Null, LiveValue::Null, LiveValue::Null, false.into()]);
            row
        });
        described.chain(invented).collect()
    }

    fn row(&self, name: &str, setting: &'static Definition) -> Vec<LiveValue> {
        let optional = |text: &'static str| Some(text).filter(|text| !text.is_empty()).into();
        let (value, initial) = (self.values.get(name), self.initial.get(name));
        let counted = |value: Option<&String>| {
            value.map_or_else(|| setting.first.into(), |value| setting.counted(value))
        };
        let source = match () {
            () if value != initial => "session",
            () if initial.is_none_or(|value| *value == setting.first_shown()) => "default",
            () if CONFIGURED.contains(&name) => "configuration file",
            () => "client",
        };
        let values = setting.values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        vec![
            setting.name.into(),
            counted(value).into(),
            optional(setting.unit),
            setting.category.into(),
            setting.description.into(),
            LiveValue::Null,
            setting.context.into(),
            setting.kind.into(),
            source.into(),
            optional(setting.least),
            optional(setting.most),
            if values.is_empty() { LiveValue::Null } else { LiveValue::Texts(values) },
            setting.first.into(),
            counted(initial).into(),
            LiveValue::Null,
            LiveValue::Null,
            false.into(),
        ]
    }
}
