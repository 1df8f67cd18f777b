//! The values of a connection's settings. A connection stores only those that differ from the server's first
//! values.

use super::identity::Identity;
use super::known::all_known;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The settings that `pg_settings` does not list, or whose value at the begin of a connection differs from
/// PostgreSQL's.
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

/// The first values of all settings, by name in lower case. `transaction_read_only` has none.
static FIRST: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let known = all_known().map(|(name, setting)| (name.to_owned(), setting.first_shown()));
    let initial = INITIAL.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut values: BTreeMap<_, _> = known.chain(initial).collect();
    values.remove(TRANSACTION_READ_ONLY);
    values
});

/// The changed values by name, in lower case, copied on the first change; and the roles, which some settings
/// name.
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

    /// Removes a setting that has no first value.
    pub(super) fn remove(&mut self, name: &str) -> Option<String> {
        match self.changed.contains_key(name) {
            true => Arc::make_mut(&mut self.changed).remove(name),
            false => None,
        }
    }
}
