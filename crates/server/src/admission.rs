//! The limits of connections: of authenticated clients, and of strangers, which are not authenticated yet.
//!
//! The limits are separate, so that silent sockets do not keep clients away. At the limit of strangers the
//! oldest stranger is disconnected: a client authenticates within milliseconds. Together the limits leave
//! file descriptors for the database.
//! Held by: `crates/server/tests/suite/strangers.rs`.

use crate::hold;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Most strangers; a limit of descriptors may allow fewer.
const MOST_STRANGERS: usize = 128;

/// File descriptors of one connection: its socket, and the copy that `attendance` polls.
const PER_CONNECTION: usize = 2;

/// Most connections of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    strangers: usize,
    clients: usize,
}

impl Limits {
    /// Returns the limits; 0 is no limit in both parameters.
    fn new(max_connections: usize, descriptors: usize) -> Self {
        let or_none = |limit: usize| if limit > 0 { limit } else { usize::MAX };
        let descriptors = match descriptors {
            0 => usize::MAX,
            some => (some / PER_CONNECTION).max(1),
        };
        let strangers = MOST_STRANGERS.min(descriptors / 4).max(1);
        Self {
            strangers,
            clients: or_none(max_connections).min(descriptors - strangers.min(descriptors)).max(1),
        }
    }
}

#[derive(Default)]
struct State {
    clients: usize,
    /// Oldest first.
    strangers: VecDeque<Arc<Notify>>,
}

/// The connections of a server.
pub(crate) struct Admission {
    limits: Limits,
    state: Mutex<State>,
    /// One permit for each stranger that the limit admits.
    sockets: Arc<Semaphore>,
}

/// A counted connection of a client that is not authenticated yet; its drop ends the count.
pub(crate) struct Stranger {
    admission: Arc<Admission>,
    must_go: Arc<Notify>,
    /// Returned once the client is admitted, or with the drop.
    socket: Mutex<Option<OwnedSemaphorePermit>>,
}

/// A counted connection of an authenticated client; its drop ends the count.
pub(crate) struct CountedClient(Arc<Admission>);

impl Admission {
    pub(crate) fn new(max_connections: usize, descriptors: usize) -> Arc<Self> {
        let limits = Limits::new(max_connections, descriptors);
        let sockets = Arc::new(Semaphore::new(limits.strangers));
        Arc::new(Self { limits, state: Mutex::default(), sockets })
    }

    /// Counts a new connection. At the limit of strangers, disconnects the oldest stranger and waits until
    /// its socket is closed: sockets that are still to be closed would take the descriptors of clients.
    pub(crate) async fn meet(self: &Arc<Self>) -> Stranger {
        let must_go = Arc::new(Notify::new());
        {
            let mut state = hold(&self.state);
            if state.strangers.len() >= self.limits.strangers {
                state.strangers.pop_front().inspect(|oldest| oldest.notify_one());
            }
            state.strangers.push_back(Arc::clone(&must_go));
        }
        let socket = Arc::clone(&self.sockets).acquire_owned().await.ok();
        Stranger { admission: Arc::clone(self), must_go, socket: Mutex::new(socket) }
    }

    /// Returns the number of authenticated clients.
    pub(crate) fn clients(&self) -> usize {
        hold(&self.state).clients
    }

    /// Returns the limit of authenticated clients if it is reached.
    pub(crate) fn is_full(&self) -> Option<usize> {
        (self.clients() >= self.limits.clients).then_some(self.limits.clients)
    }
}

impl Stranger {
    /// Waits until the connection must make room for a newer one.
    pub(crate) async fn must_go(&self) {
        self.must_go.notified().await;
    }

    /// Counts the connection as one of an authenticated client.
    ///
    /// # Errors
    /// The limit of authenticated clients, if it is reached.
    pub(crate) fn admit(&self) -> Result<CountedClient, usize> {
        let mut state = hold(&self.admission.state);
        if state.clients >= self.admission.limits.clients {
            return Err(self.admission.limits.clients);
        }
        state.clients += 1;
        state.strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.must_go));
        hold(&self.socket).take();
        Ok(CountedClient(Arc::clone(&self.admission)))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        hold(&self.admission.state).strangers.retain(|stranger| !Arc::ptr_eq(stranger, &self.must_go));
    }
}

impl Drop for CountedClient {
    fn drop(&mut self) {
        hold(&self.0.state).clients -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_leave_descriptors() {
        let limits = |strangers, clients| Limits { strangers, clients };
        assert_eq!(Limits::new(0, 0), limits(MOST_STRANGERS, usize::MAX - MOST_STRANGERS));
        assert_eq!(Limits::new(5, 0), limits(MOST_STRANGERS, 5));
        assert_eq!(Limits::new(0, 400), limits(50, 150));
        assert_eq!(Limits::new(1000, 400), limits(50, 150));
        assert_eq!(Limits::new(0, 1), limits(1, 1));
    }

    #[tokio::test]
    async fn strangers_do_not_count_as_clients() {
        let admission = Admission::new(1, 0);
        let mut strangers = Vec::new();
        for _ in 0..MOST_STRANGERS {
            strangers.push(admission.meet().await);
        }
        assert_eq!((admission.clients(), admission.is_full()), (0, None));
        let last = strangers.last().expect("there are some");
        let admitted = last.admit();
        assert!(admitted.is_ok());
        assert_eq!(admission.is_full(), Some(1));
        assert_eq!(strangers[0].admit().err(), Some(1));
        drop(admitted);
        assert_eq!(admission.clients(), 0);
    }

    #[tokio::test]
    async fn a_stranger_too_many_waits_until_the_oldest_has_closed_its_socket() {
        let admission = Admission::new(0, 8);
        let oldest = admission.meet().await;
        let next = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.meet().await }
        });
        oldest.must_go().await;
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(oldest);
        let next = next.await.expect("the task does not panic");
        // A client that is admitted is no stranger.
        let _client = next.admit();
        admission.meet().await;
    }
}
