//! LISTEN and NOTIFY: which connections listen to which channels, and what has arrived for them.
//!
//! Example:
//! 1. A listens to a channel: once its transaction has committed, its mailbox stands under the channel.
//! 2. B notifies the channel in a transaction: B keeps that until COMMIT.
//! 3. B commits, and puts what it has kept into the mailbox of A, with the point of the log that must be
//!    durable before A's client sees it.
//! 4. A waits for its client, or comes to the end of its transaction: it sends what has arrived.
//!
//! Invariants: 1. all listeners are told of transactions in one order. 2. a client is told of nothing that a
//! crash takes back, and of nothing while its transaction is open.
//! After a crash: no client listens, and notifications that were not sent are lost, as on PostgreSQL.
//! Held by: `crates/server/tests/suite/notifications.rs`.

use crate::hold;
use reprise::{CommitPoint, Notification, SqlError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// From this many bytes on in all mailboxes, a transaction that notifies is refused.
const MOST_BYTES: usize = 64 << 20;

/// A notification on its way to a client.
pub(crate) struct Arrival {
    /// The process number of the connection that has made it.
    pub(crate) from: i32,
    pub(crate) notification: Arc<Notification>,
    /// What must be durable before the client sees it.
    pub(crate) commit: CommitPoint,
}

/// What has arrived for a connection.
#[derive(Default)]
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    has_mail: Notify,
}

impl Mailbox {
    /// Waits until something has arrived.
    pub(crate) async fn arrival(&self) {
        while hold(&self.arrivals).is_empty() {
            self.has_mail.notified().await;
        }
    }
}

/// The listeners of all channels.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, Vec<Arc<Mailbox>>>>,
    /// The bytes in all mailboxes.
    bytes: AtomicUsize,
}

impl Channels {
    pub(crate) fn listen(&self, channel: &str, mailbox: &Arc<Mailbox>) {
        let mut all = hold(&self.listeners);
        let listeners = all.entry(channel.to_owned()).or_default();
        if !listeners.iter().any(|own| Arc::ptr_eq(own, mailbox)) {
            listeners.push(Arc::clone(mailbox));
        }
    }

    /// Stops listening to a channel, or to all channels.
    pub(crate) fn unlisten(&self, channel: Option<&str>, mailbox: &Arc<Mailbox>) {
        let mut all = hold(&self.listeners);
        for (name, listeners) in all.iter_mut() {
            if channel.is_none_or(|channel| channel == name) {
                listeners.retain(|own| !Arc::ptr_eq(own, mailbox));
            }
        }
        all.retain(|_, listeners| !listeners.is_empty());
    }

    /// Checks that there is room for further notifications.
    ///
    /// # Errors
    /// `54000`: clients that listen have not taken what waits for them.
    pub(crate) fn check_room(&self) -> Result<(), SqlError> {
        match self.bytes.load(Ordering::Relaxed) >= MOST_BYTES {
            true => Err(SqlError::new("54000", "too many notifications in the NOTIFY queue")),
            false => Ok(()),
        }
    }

    /// Delivers the notifications of a committed transaction.
    pub(crate) fn deliver(&self, from: i32, notifications: Vec<Notification>, commit: CommitPoint) {
        // The mutex is held for all of them, so that all listeners see transactions in one order.
        let all = hold(&self.listeners);
        for notification in notifications {
            let Some(listeners) = all.get(&notification.channel) else { continue };
            let notification = Arc::new(notification);
            for mailbox in listeners {
                self.bytes.fetch_add(notification.bytes(), Ordering::Relaxed);
                let notification = Arc::clone(&notification);
                hold(&mailbox.arrivals).push(Arrival { from, notification, commit });
                mailbox.has_mail.notify_one();
            }
        }
    }

    /// Takes what has arrived.
    pub(crate) fn take(&self, mailbox: &Mailbox) -> Vec<Arrival> {
        let arrivals = std::mem::take(&mut *hold(&mailbox.arrivals));
        let bytes = arrivals.iter().map(|own| own.notification.bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        arrivals
    }
}
