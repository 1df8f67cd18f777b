//! The roles of a connection, and those of the database.
//!
//! Roles are kept by their numbers, so that a role with a new name keeps its connections. A transaction that
//! rolls back restores them, as any setting.
//! Not here: SET ROLE and SET SESSION AUTHORIZATION (`roles`).

use crate::Server;
use sql::Schema;
use std::fmt;
use std::sync::{Arc, Weak};

/// The numbers of a connection's roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// The role that logged in.
    pub(super) authenticated: u32,
    /// The role of SET SESSION AUTHORIZATION.
    pub(super) session: u32,
    /// The role of SET ROLE; `None` is the session's.
    pub(super) current: Option<u32>,
}

impl Default for Identity {
    fn default() -> Self {
        Self::of(Schema::first_superuser())
    }
}

impl Identity {
    pub(crate) fn of(role: u32) -> Self {
        Self { authenticated: role, session: role, current: None }
    }

    /// Returns the role of SET SESSION AUTHORIZATION.
    pub(crate) fn session(self) -> u32 {
        self.session
    }

    /// Returns the role that acts.
    pub(crate) fn role(self) -> u32 {
        self.current.unwrap_or(self.session)
    }
}

/// The roles that SET ROLE can name.
#[derive(Clone, Default)]
pub(crate) struct KnownRoles(Weak<Server>);

impl fmt::Debug for KnownRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KnownRoles")
    }
}

impl KnownRoles {
    pub(super) fn of(server: &Arc<Server>) -> Self {
        Self(Arc::downgrade(server))
    }

    /// Calls a function with the current definitions; `None` while the server stops.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Schema) -> T) -> Option<T> {
        self.0.upgrade().map(|server| server.pool().database().with_definitions(act))
    }
}
