//! Whether clients are still there while their statements run: a statement whose client has gone is
//! cancelled, as with PostgreSQL's `client_connection_check_interval`.
//!
//! A thread looks at the sockets of connections whose statement has run for the interval that the client has
//! set, or by default for a second. It looks at copies of their file descriptors, so it needs nothing of the
//! connections themselves.
//! Held by: `cli/tests/suite/memory.rs`.

use crate::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// How often it is looked which statements run.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// When this many bytes less are allocated than before, what was freed goes back to the system.
const MUCH: usize = 16 << 20;

/// No statement runs.
const IDLE: u64 = 0;
/// A statement runs, which the thread has not seen yet.
const BEGUN: u64 = 1;

/// One connection, as far as those need to know it who cancel its statements.
pub(crate) struct Attended {
    /// Ends the statement that runs.
    pub(crate) cancel: Cancel,
    /// A copy of the connection's socket; `None` where the system had no descriptor left.
    socket: Option<OwnedFd>,
    /// When the client is looked after next, in milliseconds since `origin`; `IDLE` while no statement runs,
    /// `BEGUN` before the thread has seen one.
    due: AtomicU64,
    /// Milliseconds from one look to the next.
    interval: AtomicU64,
    origin: Instant,
}

/// A request to end the statement in progress.
#[derive(Default)]
pub(crate) struct Cancel {
    flag: Arc<AtomicBool>,
    changed: Notify,
}

impl Cancel {
    /// What is raised.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    pub(crate) fn raise(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// A statement begins: earlier requests do not concern it.
    pub(crate) fn lower(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// Returns once there is a request.
    pub(crate) async fn raised(&self) {
        while !self.flag.load(Ordering::SeqCst) {
            self.changed.notified().await;
        }
    }
}

/// Says that a statement runs, until it is dropped.
pub(crate) struct Running(Arc<Attended>);

impl Attended {
    pub(crate) fn new(socket: Option<OwnedFd>) -> Self {
        let (due, interval) = (AtomicU64::new(IDLE), AtomicU64::new(0));
        Self { cancel: Cancel::default(), socket, due, interval, origin: Instant::now() }
    }

    /// Lets no message come any more: the connection finds the end of what its client sends.
    pub(crate) fn hang_up(&self) {
        // Where this fails, the connection has ended already.
        let _ = self.socket.as_ref().map(|socket| shutdown(socket, Shutdown::Read));
    }

    /// A statement begins, during which the client is looked after that often; never without an interval.
    pub(crate) fn run(self: &Arc<Self>, interval: Option<Duration>) -> Option<Running> {
        let interval = interval?.as_millis() as u64;
        self.interval.store(interval, Ordering::Relaxed);
        self.due.store(BEGUN, Ordering::Relaxed);
        Some(Running(Arc::clone(self)))
    }

    /// Cancels the statement if its client has gone and it is time to look.
    fn look(&self) {
        let due = self.due.load(Ordering::Relaxed);
        let Some(socket) = self.socket.as_ref().filter(|_| due != IDLE) else { return };
        let now = self.origin.elapsed().as_millis() as u64;
        if due > now {
            return;
        }
        let next = (now + self.interval.load(Ordering::Relaxed)).max(BEGUN + 1);
        let is_same = self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if due == BEGUN || !is_same {
            return;
        }
        let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
        let polled = poll(&mut watched, Some(&Timespec::default()));
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        if polled.is_ok() && watched[0].revents().intersects(gone) {
            self.cancel.raise();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.due.store(IDLE, Ordering::Relaxed);
    }
}

/// Wakes the threads of a runtime, so that those that have nothing to do give memory back before they sleep
/// again.
fn wake_all(runtime: &Handle) {
    for _ in 0..runtime.metrics().num_workers() {
        // While one sleeps here, others are woken for the rest.
        runtime.spawn(async { std::thread::sleep(Duration::from_millis(1)) });
    }
}

/// Looks after the clients and the idle sessions of a server for as long as that is there.
pub(crate) fn begin(server: &Arc<Server>) {
    let server = Arc::downgrade(server);
    let runtime = Handle::current();
    let look = move || {
        let (mut most, mut freed) = (0, 0);
        while let Some(server) = Weak::upgrade(&server) {
            server.connections.all().iter().for_each(|own| own.look());
            server.pool.get().inspect(|pool| pool.tidy());
            drop(server);
            let allocated = memory::process_bytes();
            most = allocated.max(most);
            if most - allocated > MUCH {
                most = allocated;
                memory::give_back();
            }
            if std::mem::replace(&mut freed, memory::times_freed()) != memory::times_freed() {
                wake_all(&runtime);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    };
    // Without the thread, a client that has gone is noticed when its answer cannot be sent.
    let _ = std::thread::Builder::new().name("attendance".into()).spawn(look);
}
