//! What a statement tells the clients that listen: NOTIFY, `pg_notify`.
//!
//! A transaction that commits delivers its notifications, each once, in the order in which it made them. What
//! is undone, a block with an EXCEPTION clause included, tells nothing.
//! Not here: who listens (`server`).

use crate::SqlError;
use std::collections::HashSet;

/// PostgreSQL's limits in bytes: names are shorter than this,
const LONGEST_NAME: usize = 64;
/// and so are payloads.
const LONGEST_PAYLOAD: usize = 8000;

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
    /// Those of the transaction that goes on.
    made: HashSet<Notification>,
    /// The bytes of those.
    bytes: usize,
    /// How many are of transactions that the statement has committed.
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
            (LONGEST_NAME.., _) => Some("channel name too long"),
            (_, LONGEST_PAYLOAD..) => Some("payload string too long"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(SqlError::new("22023", problem));
        }
        let own = Notification { channel: channel.into(), payload: payload.into() };
        if self.made.contains(&own) {
            return Ok(());
        }
        self.bytes += own.bytes();
        if self.bytes > MOST_BYTES {
            return Err(SqlError::new("54000", "too many notifications in the NOTIFY queue"));
        }
        self.made.insert(own.clone());
        self.all.push(own);
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

    /// Forgets those that were made since there were `length`. Those of committed transactions stay.
    pub fn truncate(&mut self, length: usize) {
        let length = length.max(self.committed);
        for own in self.all.drain(length.min(self.all.len())..) {
            self.bytes -= own.bytes();
            self.made.remove(&own);
        }
    }

    /// The transaction has ended, and the statement goes on in another one.
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
        let mut own = Notifications::default();
        for payload in ["a", "b", "a"] {
            assert_eq!(own.notify("x", payload), Ok(()));
        }
        assert_eq!(own.len(), 2);
        own.transaction_ended(true);
        assert_eq!(own.notify("x", "a"), Ok(()));
        own.transaction_ended(false);
        assert_eq!(own.take().len(), 2);
        for (channel, payload) in [("", ""), (&"x".repeat(64)[..], ""), ("x", &"y".repeat(8000)[..])] {
            assert_eq!(own.notify(channel, payload).map_err(|error| error.sqlstate), Err("22023".into()));
        }
    }
}
