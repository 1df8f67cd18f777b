//! Sessions of the database: a connection has one while it runs a transaction.

use crate::hold;
use reprise::{Database, Error, Session};
use std::sync::Mutex;

/// Sessions that nobody uses now, the last used first.
pub(crate) struct Pool {
    database: Database,
    idle: Mutex<Vec<Session>>,
}

impl Pool {
    pub(crate) fn new(database: Database) -> Self {
        Self { database, idle: Mutex::default() }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// # Errors
    /// All worker slots are taken.
    pub(crate) fn take(&self) -> Result<Session, Error> {
        let idle = hold(&self.idle).pop();
        idle.map_or_else(|| self.database.session(), Ok)
    }

    /// Gives a session back that is in no transaction.
    pub(crate) fn give_back(&self, session: Session) {
        hold(&self.idle).push(session);
    }
}
