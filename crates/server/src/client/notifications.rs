//! LISTEN, UNLISTEN, NOTIFY: what a client's transaction changes and tells, until it ends; and what the client
//! is told.

use super::Client;
use crate::Server;
use crate::notifications::Mailbox;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::response::NotificationResponse;
use reprise::{CommitPoint, Error, Notification, Notifications, TransactionState};
use std::sync::Arc;

/// A change of the channels that a client listens to.
#[derive(Clone)]
pub(super) enum Change {
    Listen(String),
    /// `None`: all channels.
    Unlisten(Option<String>),
}

/// The channels of a client.
pub(super) struct OwnChannels {
    server: Arc<Server>,
    mailbox: Arc<Mailbox>,
    has_listened: bool,
    /// What the open transaction changes.
    changes: Vec<Change>,
    /// What it tells.
    told: Notifications,
}

/// A moment of a transaction.
#[derive(Clone, Copy)]
pub(super) struct ChannelsMark {
    changes: usize,
    told: usize,
}

impl OwnChannels {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        let (changes, told) = (Vec::new(), Notifications::default());
        Self { server: Arc::clone(server), mailbox: Arc::default(), has_listened: false, changes, told }
    }

    pub(super) fn mark(&self) -> ChannelsMark {
        ChannelsMark { changes: self.changes.len(), told: self.told.len() }
    }

    pub(super) fn go_back_to(&mut self, mark: ChannelsMark) {
        self.changes.truncate(mark.changes);
        self.told.truncate(mark.told);
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Listen(channel) => {
                self.has_listened = true;
                self.server.channels.listen(channel, &self.mailbox);
            }
            Change::Unlisten(channel) if self.has_listened => {
                self.server.channels.unlisten(channel.as_deref(), &self.mailbox);
            }
            Change::Unlisten(_) => {}
        }
    }
}

impl Drop for OwnChannels {
    fn drop(&mut self) {
        self.apply(&Change::Unlisten(None));
        self.server.channels.take(&self.mailbox);
    }
}

impl Client {
    /// LISTEN and UNLISTEN: outside of a transaction at once, in one at its commit.
    pub(super) fn change_channels(&mut self, change: Change) -> Result<(), Error> {
        if let Change::Listen(channel) = &change {
            Notifications::default().notify(channel, "")?;
        }
        match self.transaction_state() {
            TransactionState::None => self.channels.apply(&change),
            _ => self.channels.changes.push(change),
        }
        Ok(())
    }

    /// NOTIFY.
    ///
    /// # Errors
    /// `54000`: clients that listen have not taken what waits for them. `22023`: the texts are too long.
    pub(super) fn notify(&mut self, channel: String, payload: String) -> Result<(), Error> {
        self.server.channels.check_room()?;
        let mut own = Notifications::default();
        own.notify(&channel, &payload)?;
        let nothing = CommitPoint::of_all(reprise::CommitOrder(0));
        self.tell(own.take(), nothing)
    }

    /// Takes what a statement that has succeeded tells: its transaction delivers that when it commits.
    pub(super) fn tell(&mut self, told: Vec<Notification>, commit: CommitPoint) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::None {
            self.deliver(told, commit);
            return Ok(());
        }
        for Notification { channel, payload } in told {
            self.channels.told.notify(&channel, &payload)?;
        }
        Ok(())
    }

    pub(super) fn deliver(&self, told: Vec<Notification>, commit: CommitPoint) {
        if !told.is_empty() {
            self.server.channels.deliver(self.registered.pid(), told, commit);
        }
    }

    /// The transaction has ended: if it has committed, its changes count, and what it tells is delivered.
    pub(super) fn channels_ended(&mut self, has_committed: bool) {
        let (changes, told) = (std::mem::take(&mut self.channels.changes), self.channels.told.take());
        if has_committed {
            changes.iter().for_each(|change| self.channels.apply(change));
            self.deliver(told, self.answered);
        }
    }

    /// Waits until there is something to tell the client; for ever while its transaction is open.
    pub(crate) fn arrival(&self) -> impl Future<Output = ()> + use<> {
        let mailbox = Arc::clone(&self.channels.mailbox);
        let is_open = self.transaction_state() != TransactionState::None;
        async move {
            match is_open {
                true => std::future::pending().await,
                false => mailbox.arrival().await,
            }
        }
    }

    /// Tells the client what has arrived, unless its transaction is open.
    pub(crate) fn put_arrivals(&mut self) {
        if !self.channels.has_listened || self.transaction_state() != TransactionState::None {
            return;
        }
        for arrival in self.server.channels.take(&self.channels.mailbox) {
            self.output.shows(arrival.commit);
            let Notification { channel, payload } = &*arrival.notification;
            let told = NotificationResponse::new(arrival.from, channel.clone(), payload.clone());
            self.output.put(Message::NotificationResponse(told));
        }
    }
}
