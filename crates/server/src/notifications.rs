//! LISTEN and NOTIFY: which connections listen to which channels, and the notifications in their mailboxes.
//!
//! Example:
//! 1. A listens to a channel: once its transaction has committed, its mailbox stands under the channel.
//! 2. B notifies the channel in a transaction: B keeps the notification until COMMIT.
//! 3. B commits, and puts the notification into the mailbox of A, with the point of the log that must be
//!    durable before A's client sees it.
//! 4. A waits for its client, or comes to the end of its transaction: it sends its mailbox to the client.
//!
//! Invariants: 1. all listeners receive the notifications of transactions in one order. 2. a client receives
//! a notification only once its transaction is durable, and never while a transaction of its own is open.
//! After a crash: no client listens, and notifications that were not sent are lost, as on PostgreSQL.
//! Held by: `crates/server/tests/suite/notifications.rs`.

use crate::hold;
use reprise::{CommitPoint, Notification, Notifications, SqlError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// NOTIFY is refused while all mailboxes together hold this many bytes.
const MOST_BYTES: usize = 64 << 20;

/// A notification on its way to a client.
pub(crate) struct Arrival {
    /// The process number of the connection that has made it.
    pub(crate) from: i32,
    pub(crate) notification: Arc<Notification>,
    /// The point of the log that must be durable before the client receives it.
    pub(crate) commit: CommitPoint,
}

/// The notifications that a connection has not sent to its client yet.
#[derive(Default)]
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    arrived: Notify,
}

impl Mailbox {
    /// Waits until the mailbox holds a notification.
    pub(crate) async fn arrival(&self) {
        while hold(&self.arrivals).is_empty() {
            self.arrived.notified().await;
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
        if !listeners.iter().any(|listener| Arc::ptr_eq(listener, mailbox)) {
            listeners.push(Arc::clone(mailbox));
        }
    }

    /// Stops listening to a channel, or to all channels.
    pub(crate) fn unlisten(&self, channel: Option<&str>, mailbox: &Arc<Mailbox>) {
        let mut all = hold(&self.listeners);
        for (name, listeners) in all.iter_mut() {
            if channel.is_none_or(|channel| channel == name) {
                listeners.retain(|listener| !Arc::ptr_eq(listener, mailbox));
            }
        }
        all.retain(|_, listeners| !listeners.is_empty());
    }

    /// Checks that there is room for further notifications.
    ///
    /// # Errors
    /// `54000`: the mailboxes of the listeners are full.
    pub(crate) fn check_room(&self) -> Result<(), SqlError> {
        match self.bytes.load(Ordering::Relaxed) >= MOST_BYTES {
            true => Err(SqlError::new("54000", "too many notifications in the NOTIFY queue")),
            false => Ok(()),
        }
    }

    /// Delivers the notifications of a committed transaction.
    pub(crate) fn deliver(&self, from: i32, notifications: Vec<Notification>, commit: CommitPoint) {
        // One lock for all notifications, so that all listeners receive transactions in one order.
        let all = hold(&self.listeners);
        for notification in notifications {
            let Some(listeners) = all.get(&notification.channel) else { continue };
            let notification = Arc::new(notification);
            for mailbox in listeners {
                self.bytes.fetch_add(notification.bytes(), Ordering::Relaxed);
                let notification = Arc::clone(&notification);
                hold(&mailbox.arrivals).push(Arrival { from, notification, commit });
                mailbox.arrived.notify_one();
            }
        }
    }

    /// Empties a mailbox. Returns its notifications.
    pub(crate) fn take(&self, mailbox: &Mailbox) -> Vec<Arrival> {
        let arrivals = std::mem::take(&mut *hold(&mailbox.arrivals));
        let bytes = arrivals.iter().map(|arrival| arrival.notification.bytes()).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        arrivals
    }
}

/// A change of the channels that a client listens to.
#[derive(Clone)]
pub(crate) enum Change {
    Listen(String),
    /// `None`: all channels.
    Unlisten(Option<String>),
}

/// The channels of a client.
pub(crate) struct ClientChannels {
    all: Arc<Channels>,
    mailbox: Arc<Mailbox>,
    has_listened: bool,
    /// The changes that the open transaction applies at its commit.
    changes: Vec<Change>,
    /// The notifications that the open transaction delivers at its commit.
    notifications: Notifications,
}

/// The numbers of changes and notifications of the open transaction at a savepoint.
#[derive(Clone, Copy)]
pub(crate) struct ChannelsMark {
    changes: usize,
    notifications: usize,
}

impl ClientChannels {
    pub(crate) fn new(all: &Arc<Channels>) -> Self {
        let (changes, notifications) = (Vec::new(), Notifications::default());
        Self { all: Arc::clone(all), mailbox: Arc::default(), has_listened: false, changes, notifications }
    }

    pub(crate) fn mark(&self) -> ChannelsMark {
        ChannelsMark { changes: self.changes.len(), notifications: self.notifications.len() }
    }

    pub(crate) fn go_back_to(&mut self, mark: ChannelsMark) {
        self.changes.truncate(mark.changes);
        self.notifications.truncate(mark.notifications);
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    pub(crate) fn has_listened(&self) -> bool {
        self.has_listened
    }

    /// Empties the mailbox. Returns its notifications.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.all.take(&self.mailbox)
    }

    /// Changes the channels, at once or when the transaction commits.
    pub(crate) fn change(&mut self, change: Change, at_once: bool) {
        if at_once { self.apply(&change) } else { self.changes.push(change) }
    }

    /// Keeps notifications until the transaction commits.
    pub(crate) fn keep(&mut self, notifications: Vec<Notification>) -> Result<(), SqlError> {
        notifications.iter().try_for_each(|notification| {
            self.notifications.notify(&notification.channel, &notification.payload)
        })
    }

    /// Ends the transaction. If it has committed, applies its changes and returns its notifications.
    pub(crate) fn transaction_ended(&mut self, has_committed: bool) -> Option<Vec<Notification>> {
        let (changes, notifications) = (std::mem::take(&mut self.changes), self.notifications.take());
        if has_committed {
            changes.iter().for_each(|change| self.apply(change));
        }
        has_committed.then_some(notifications)
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Listen(channel) => {
                self.has_listened = true;
                self.all.listen(channel, &self.mailbox);
            }
            Change::Unlisten(channel) if self.has_listened => {
                self.all.unlisten(channel.as_deref(), &self.mailbox);
            }
            Change::Unlisten(_) => {}
        }
    }
}

impl Drop for ClientChannels {
    fn drop(&mut self) {
        self.apply(&Change::Unlisten(None));
        self.all.take(&self.mailbox);
    }
}
