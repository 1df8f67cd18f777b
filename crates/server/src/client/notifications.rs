//! LISTEN, UNLISTEN and NOTIFY of a client, and the notifications that it receives.

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
    /// `54000`: the mailboxes of the listeners are full. `22023`: the texts are too long.
    pub(super) fn notify(&mut self, channel: &str, payload: &str) -> Result<(), Error> {
        self.server.channels.check_room()?;
        let mut notifications = Notifications::default();
        notifications.notify(channel, payload)?;
        let always_durable = CommitPoint::of_all(reprise::CommitOrder(0));
        self.notify_all(notifications.take(), always_durable)
    }

    /// Keeps the notifications of a statement that has succeeded until its transaction commits; delivers them
    /// now if no transaction is open.
    pub(super) fn notify_all(
        &mut self,
        notifications: Vec<Notification>,
        commit: CommitPoint,
    ) -> Result<(), Error> {
        if self.transaction_state() == TransactionState::None {
            self.deliver(notifications, commit);
            return Ok(());
        }
        Ok(self.channels.keep(notifications)?)
    }

    /// Takes the notifications of a statement that has ended. A statement that has failed has only those of
    /// transactions that its procedure had committed before.
    pub(super) fn notify_after(
        &mut self,
        notifications: Vec<Notification>,
        has_failed: bool,
    ) -> Result<(), Error> {
        if has_failed {
            self.deliver(notifications, self.answered);
            return Ok(());
        }
        self.notify_all(notifications, self.answered)
    }

    fn deliver(&self, notifications: Vec<Notification>, commit: CommitPoint) {
        if !notifications.is_empty() {
            self.server.channels.deliver(self.registered.pid(), notifications, commit);
        }
    }

    /// Ends the transaction: if it has committed, applies its changes of channels, and delivers its
    /// notifications.
    pub(super) fn channels_ended(&mut self, has_committed: bool) {
        if let Some(notifications) = self.channels.transaction_ended(has_committed) {
            self.deliver(notifications, self.answered);
        }
    }

    /// Waits until a notification has arrived; while a transaction is open, the future never ends.
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

    /// Sends the client the notifications that have arrived, unless its transaction is open.
    pub(crate) fn put_arrivals(&mut self) {
        if !self.channels.has_listened() || self.transaction_state() != TransactionState::None {
            return;
        }
        for arrival in self.channels.arrivals() {
            self.output.shows(arrival.commit);
            let Notification { channel, payload } = &*arrival.notification;
            let response = NotificationResponse::new(arrival.from, channel.clone(), payload.clone());
            self.output.put(Message::NotificationResponse(response));
        }
    }
}
