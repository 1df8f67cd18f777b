//! LISTEN, UNLISTEN, NOTIFY of a client, and what the client is told.

use super::Client;
use crate::notifications::Change;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::response::NotificationResponse;
use reprise::{CommitPoint, Error, Notification, Notifications, TransactionState};

impl Client {
    /// LISTEN and UNLISTEN: outside of a transaction at once, in one at its commit.
    pub(super) fn change_channels(&mut self, change: Change) -> Result<(), Error> {
        if let Change::Listen(channel) = &change {
            Notifications::default().notify(channel, "")?;
        }
        self.channels.change(change, self.transaction_state() == TransactionState::None);
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
        Ok(self.channels.tell(told)?)
    }

    /// Takes what a statement tells that has ended; of one that has failed, what a procedure has committed
    /// before.
    pub(super) fn tell_of(&mut self, told: Vec<Notification>, has_failed: bool) -> Result<(), Error> {
        if has_failed {
            self.deliver(told, self.answered);
            return Ok(());
        }
        self.tell(told, self.answered)
    }

    fn deliver(&self, told: Vec<Notification>, commit: CommitPoint) {
        if !told.is_empty() {
            self.server.channels.deliver(self.registered.pid(), told, commit);
        }
    }

    /// The transaction has ended: if it has committed, its changes count, and what it tells is delivered.
    pub(super) fn channels_ended(&mut self, has_committed: bool) {
        if let Some(told) = self.channels.transaction_ended(has_committed) {
            self.deliver(told, self.answered);
        }
    }

    /// Waits until there is something to tell the client; for ever while its transaction is open.
    pub(crate) fn arrival(&self) -> impl Future<Output = ()> + use<> {
        let mailbox = self.channels.mailbox();
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
        if !self.channels.has_listened() || self.transaction_state() != TransactionState::None {
            return;
        }
        for arrival in self.channels.arrivals() {
            self.output.shows(arrival.commit);
            let Notification { channel, payload } = &*arrival.notification;
            let told = NotificationResponse::new(arrival.from, channel.clone(), payload.clone());
            self.output.put(Message::NotificationResponse(told));
        }
    }
}
