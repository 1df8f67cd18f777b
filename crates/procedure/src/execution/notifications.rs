//! The notifications of a statement: NOTIFY, `pg_notify`.
//!
//! A transaction that commits delivers its notifications, each once, in the order in which it made them.
//! Undoing statements drops their notifications, also in a block with an EXCEPTION clause.
//! Not here: who listens (`server`).

use crate::SqlError;
use std::collections::HashSet;

/// Names of channels have fewer bytes than this, as in PostgreSQL.
const NAME_LIMIT: usize = 64;
/// Payloads have fewer bytes than this, as in PostgreSQL.
const PAYLOAD_LIMIT: usize = 8000;

/// The most bytes of the notifications of one transaction.
const MOST_BYTES: usize = 16 << 20;

/// One notification.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// The text for its listeners.
    pub payload: String,
}

impl Notification {
    /// Returns the bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }
}

/// The notifications of a statement or transaction, in their order.
#[derive(Default, Debug)]
pub struct Notifications {
    all: Vec<Notification>,
    /// The notifications of the current transaction.
    made: HashSet<Notification>,
    /// The bytes of the notifications of the current transaction.
    bytes: usize,
    /// The number of notifications of transactions that the statement has committed.
    committed: usize,
}

impl Notifications {
    /// Adds a notification, unless its transaction has made the same one.
    ///
    /// # Errors
    /// `22023`: the channel or the payload is too long, or the channel is empty. `54000`: there are too many.
    pub fn notify(&mut self, channel: &str, payload: &str) -> Result<(), SqlError> {
        let problem = match (channel.len(), payload.len()) {
            (0, _) => Some("channel name cannot be empty"),
            (NAME_LIMIT.., _) => Some("channel name too long"),
            (_, PAYLOAD_LIMIT..) => Some("payload string too long"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(SqlError::new("22023", problem));
        }
        let notification = Notification { channel: channel.into(), payload: payload.into() };
        if self.made.contains(&notification) {
            return Ok(());
        }
        self.bytes += notification.bytes();
        if self.bytes > MOST_BYTES {
            return Err(SqlError::new("54000", "too many notifications in the NOTIFY queue"));
        }
        self.made.insert(notification.clone());
        self.all.push(notification);
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.committed = 0;
        self.truncate(0);
    }

    /// Returns the number of notifications.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Shortens the list to a length; the notifications of committed transactions stay.
    pub fn truncate(&mut self, length: usize) {
        let length = length.max(self.committed);
        for notification in self.all.drain(length.min(self.all.len())..) {
            self.bytes -= notification.bytes();
            self.made.remove(&notification);
        }
    }

    /// Ends the current transaction, and begins the next one of the same statement.
    pub(crate) fn transaction_ended(&mut self, commits: bool) {
        self.truncate(if commits { usize::MAX } else { 0 });
        self.committed = self.all.len();
        self.made.clear();
        self.bytes = 0;
    }

    /// Takes all of them.
    pub fn take(&mut self) -> Vec<Notification> {
        (self.committed, self.bytes) = (0, 0);
        self.made.clear();
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_made_once_and_checked() {
        let mut notifications = Notifications::default();
        for payload in ["a", "b", "a"] {
            assert_eq!(notifications.notify("x", payload), Ok(()));
        }
        assert_eq!(notifications.len(), 2);
        notifications.transaction_ended(true);
        assert_eq!(notifications.notify("x", "a"), Ok(()));
        notifications.transaction_ended(false);
        assert_eq!(notifications.take().len(), 2);
        for (channel, payload) in [("", ""), (&"x".repeat(64)[..], ""), ("x", &"y".repeat(8000)[..])] {
            assert_eq!(
                notifications.notify(channel, payload).map_err(|error| error.sqlstate),
                Err("22023".into())
            );
        }
    }
}
