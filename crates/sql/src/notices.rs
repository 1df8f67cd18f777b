//! The notices of definitions: they name what a statement has skipped because it is there, or is not there.

use crate::schema::Schema;
use procedure::{Notice, Severity, SqlError};

/// Returns a notice.
pub(crate) fn notice(severity: Severity, sqlstate: &str, message: String) -> Notice {
    Notice { severity, content: SqlError::new(sqlstate, message) }
}

/// Returns the notice of a statement that goes on without an object.
pub(crate) fn skipping(sqlstate: &str, fact: &str) -> Notice {
    notice(Severity::Notice, sqlstate, format!("{fact}, skipping"))
}

impl Schema {
    /// Takes the notices of the statement that has made this version.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Tells that IF NOT EXISTS has found an object. `sqlstate` is that of the error without it.
    pub(crate) fn skip_existing(&mut self, sqlstate: &str, object: &str) {
        self.notices.push(skipping(sqlstate, &format!("{object} already exists")));
    }

    /// Tells that IF EXISTS has found no object.
    pub(crate) fn skip_missing(&mut self, object: &str) {
        self.notices.push(skipping("00000", &format!("{object} does not exist")));
    }

    /// Tells that IF EXISTS has found no object. `error` is that of the statement without it.
    pub(crate) fn skip_missing_of(&mut self, error: &SqlError) {
        self.notices.push(skipping("00000", &error.message));
    }
}
