//! The values of a connection's settings. Those that differ from the first ones take memory of their own.

use super::identity::Identity;
use super::known::all_known;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The settings that `pg_settings` does not list, or that have another value here at the begin of a
/// connection.
const INITIAL: [(&str, &str); 7] = [
    ("client_connection_check_interval", "1s"),
    ("is_superuser", "on"),
    ("role", "none"),
    ("server_version", crate::VERSION),
    ("server_version_num", "150000"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
];

/// A setting of the open transaction. The session holds its value.
pub(super) const TRANSACTION_READ_ONLY: &str = "transaction_read_only";

/// The values of all settings at first, by name in lower case. A setting of the open transaction has none.
static FIRST: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let known = all_known().map(|(name, own)| (name.to_owned(), own.first_shown()));
    let initial = INITIAL.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut values: BTreeMap<_, _> = known.chain(initial).collect();
    values.remove(TRANSACTION_READ_ONLY);
    values
});

/// Values by name, in lower case; copied on the first change. And what is set with some of them.
#[derive(Clone, Default, Debug)]
pub(super) struct Values {
    changed: Arc<BTreeMap<String, String>>,
    /// The roles of the connection.
    pub(super) identity: Identity,
}

impl Values {
    pub(super) fn get(&self, name: &str) -> Option<&String> {
        self.changed.get(name).or_else(|| FIRST.get(name))
    }

    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        FIRST.keys().chain(self.changed.keys().filter(|name| !FIRST.contains_key(*name)))
    }

    pub(super) fn insert(&mut self, name: String, value: String) {
        Arc::make_mut(&mut self.changed).insert(name, value);
    }

    /// Removes a setting that has no value at first.
    pub(super) fn remove(&mut self, name: &str) -> Option<String> {
        match self.changed.contains_key(name) {
            true => Arc::make_mut(&mut self.changed).remove(name),
            false => None,
        }
    }
}
