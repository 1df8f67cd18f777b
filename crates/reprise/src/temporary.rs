//! The schemas of temporary relations: which session has which number, and what sessions that are gone have
//! left.
//!
//! Invariants: 1. two sessions never have one number. 2. a schema whose number no session has is dropped: by
//! its session at the end; by the next session that ends, where that was not possible; and by the next
//! opening, before sessions begin, as an ordinary definition of the log.
//! Held by: `crates/reprise/tests/suite/temporary.rs`.

use crate::Session;
use crate::inner::Inner;
use sql::Schema;
use std::sync::{Arc, OnceLock};

/// The temporary schema of a client. It gets a number when the client first needs one.
///
/// A program whose clients share sessions has one for each client (`Session::use_temporary`).
pub struct TemporarySchema {
    inner: Arc<Inner>,
    opened: OnceLock<(u32, Arc<str>)>,
}

impl std::fmt::Debug for TemporarySchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TemporarySchema").field(&self.opened.get()).finish()
    }
}

impl TemporarySchema {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::clone(inner), opened: OnceLock::new() }
    }

    /// Returns the name of the schema; `None` if the client has not needed one.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.opened.get().map(|(_, name)| name)
    }

    /// Returns the name of the schema, which the client needs.
    pub(crate) fn open(&self) -> &Arc<str> {
        let open = || {
            let current = self.inner.definitions.current();
            let number = self.inner.session_numbers.take(&current.schema);
            (number, Schema::temporary_schema(number).into())
        };
        &self.opened.get_or_init(open).1
    }

    /// Returns the number of the session, if the client has needed a schema.
    pub fn number(&self) -> Option<u32> {
        self.opened.get().map(|(number, _)| *number)
    }
}

impl Drop for TemporarySchema {
    fn drop(&mut self) {
        if let Some((number, _)) = self.opened.get() {
            self.inner.session_numbers.give_back(*number);
        }
    }
}

/// Drops the temporary schemas of sessions that a crash, or the end of the program, has ended.
pub(crate) fn drop_left_behind(inner: &Arc<Inner>) {
    if inner.session_numbers.left_behind(&inner.definitions.current().schema).is_empty() {
        return;
    }
    let session = Session::new(Arc::clone(inner), None);
    if let Err(error) = session.and_then(|mut session| session.discard_temporary()) {
        tracing::warn!(%error, "temporary tables of an earlier run stay until a session ends: {error}");
    }
}
