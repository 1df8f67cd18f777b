//! Cancels statements whose clients have disconnected, as PostgreSQL does with
//! `client_connection_check_interval`.
//!
//! A thread polls the socket of each connection whose statement has run for the interval that the client has
//! set (1 second by default). It polls copies of the file descriptors, so it does not lock connections. The
//! thread also collects the garbage of idle sessions, and returns freed memory to the system.
//! Held by: `cli/tests/suite/memory.rs`.

use crate::Server;
use crate::presence::Presence;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Time between two rounds of the thread.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Freed memory returns to the system when the allocated bytes have fallen by more than this.
const RETURN_THRESHOLD: usize = 16 << 20;

/// A value of `ConnectionControl::due`: no statement runs.
const IDLE: u64 = 0;
/// A value of `ConnectionControl::due`: a statement runs that the thread has not seen yet.
const BEGUN: u64 = 1;

/// The part of a connection by which other threads watch it, cancel its statements, and end it.
pub(crate) struct ConnectionControl {
    /// Ends the statement that runs.
    pub(crate) cancel: Cancel,
    /// The row of `pg_stat_activity`.
    pub(crate) presence: Presence,
    /// Whether another connection ends this one.
    is_ended: AtomicBool,
    /// A copy of the connection's socket; `None` if the system had no free descriptor.
    socket: Option<OwnedFd>,
    /// The time of the next poll, in milliseconds since `origin`; or `IDLE`; or `BEGUN`.
    due: AtomicU64,
    /// Milliseconds from one poll to the next.
    interval: AtomicU64,
    origin: Instant,
}

/// A request to cancel the running statement.
#[derive(Default)]
pub(crate) struct Cancel {
    flag: Arc<AtomicBool>,
    changed: Notify,
}

impl Cancel {
    /// Returns the flag that `raise` sets.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    pub(crate) fn raise(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Drops earlier requests, because a new statement begins.
    pub(crate) fn lower(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// Waits until there is a request.
    pub(crate) async fn raised(&self) {
        while !self.flag.load(Ordering::SeqCst) {
            self.changed.notified().await;
        }
    }
}

/// Marks a statement as running until it is dropped.
pub(crate) struct RunningStatement(Arc<ConnectionControl>);

impl ConnectionControl {
    pub(crate) fn new(socket: Option<OwnedFd>, presence: Presence) -> Self {
        let (due, interval) = (AtomicU64::new(IDLE), AtomicU64::new(0));
        let (cancel, is_ended) = (Cancel::default(), AtomicBool::new(false));
        Self { cancel, presence, is_ended, socket, due, interval, origin: Instant::now() }
    }

    /// Ends the connection: after its statement, it finds the end of its input.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
        self.shut_down_input();
    }

    /// Returns whether another connection ends this one.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Shuts the socket down for reading: the connection finds the end of its input.
    pub(crate) fn shut_down_input(&self) {
        // On failure the connection has ended already.
        let _ = self.socket.as_ref().map(|socket| shutdown(socket, Shutdown::Read));
    }

    /// Begins a statement during which the socket is polled at this interval; `None` polls never.
    pub(crate) fn run(self: &Arc<Self>, interval: Option<Duration>) -> Option<RunningStatement> {
        let interval = interval?.as_millis() as u64;
        self.interval.store(interval, Ordering::Relaxed);
        self.due.store(BEGUN, Ordering::Relaxed);
        Some(RunningStatement(Arc::clone(self)))
    }

    /// Polls the socket if it is due, and cancels the statement if the client has disconnected.
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

impl Drop for RunningStatement {
    fn drop(&mut self) {
        self.0.due.store(IDLE, Ordering::Relaxed);
    }
}

/// Wakes all threads of a runtime, so that idle ones return memory to the system before they sleep again.
fn wake_all(runtime: &Handle) {
    for _ in 0..runtime.metrics().num_workers() {
        // Each task occupies its thread, so the runtime wakes another thread for the next task.
        runtime.spawn(async { std::thread::sleep(Duration::from_millis(1)) });
    }
}

/// Starts the thread. It ends when the server is dropped.
pub(crate) fn begin(server: &Arc<Server>) {
    let server = Arc::downgrade(server);
    let runtime = Handle::current();
    let look = move || {
        let (mut peak, mut freed) = (0, 0);
        while let Some(server) = Weak::upgrade(&server) {
            server.connections.all().iter().for_each(|attended| attended.look());
            server.pool.get().inspect(|pool| pool.collect_garbage());
            drop(server);
            let allocated = memory::process_bytes();
            peak = allocated.max(peak);
            if peak - allocated > RETURN_THRESHOLD {
                peak = allocated;
                memory::give_back();
            }
            if std::mem::replace(&mut freed, memory::times_freed()) != memory::times_freed() {
                wake_all(&runtime);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    };
    // Without the thread, a disconnect is noticed only when an answer cannot be sent.
    let _ = std::thread::Builder::new().name("attendance".into()).spawn(look);
}
