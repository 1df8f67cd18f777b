//! When each client does something: one after the other on one thread, as a seed says, or all at once on
//! threads.

use super::client::{Client, Step};
use rand::Rng;
use rand::rngs::SmallRng;
use reprise::{Busy, Database};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// After this long a client on a thread gives up a statement that waits.
const PATIENCE: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Begins to wait. Returns whether the wait is over already: the blocker has ended, or the statement was part
/// of a deadlock, which the client has broken.
fn begins_to_wait(client: &mut Client, busy: &Busy, waker: &Waker) -> bool {
    loop {
        let released = std::pin::pin!(busy.released());
        match released.poll(&mut Context::from_waker(waker)) {
            Poll::Pending => return false,
            Poll::Ready(Ok(())) => return true,
            Poll::Ready(Err(refusal)) => {
                if client.session.break_deadlock(refusal).is_err() {
                    client.gives_up();
                    return true;
                }
            }
        }
    }
}

/// A client that does nothing just now, with what it waits for.
type Idle = (Client, Option<Arc<Flag>>);

/// One client at a time.
pub struct Schedule {
    /// The clients, without those that are doing something.
    clients: Vec<Mutex<Option<Idle>>>,
    random: Mutex<SmallRng>,
    steps: AtomicUsize,
    is_broken: AtomicBool,
}

impl Schedule {
    pub fn new(clients: Vec<Client>, random: SmallRng) -> Arc<Self> {
        Arc::new_cyclic(|own: &std::sync::Weak<Self>| {
            let clients = clients.into_iter().map(|mut client| {
                let own = own.clone();
                // While the rows of a slow client wait, the other clients go on.
                client.meanwhile = Arc::new(move || {
                    let own = own.upgrade().expect("its client runs");
                    let steps = own.random.lock().unwrap().random_range(0..4);
                    (0..steps).for_each(|_| own.step());
                });
                Mutex::new(Some((client, None)))
            });
            let (steps, is_broken) = (AtomicUsize::new(0), AtomicBool::new(false));
            Self { clients: clients.collect(), random: Mutex::new(random), steps, is_broken }
        })
    }

    /// Lets one of the clients do one thing.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let (place, gives_up) = {
            let mut random = self.random.lock().unwrap();
            (random.random_range(0..self.clients.len()), random.random_range(0..200) == 0)
        };
        let all = (0..self.clients.len()).map(|n| (place + n) % self.clients.len());
        let can_go_on = |place: &usize| match &*self.clients[*place].lock().unwrap() {
            Some((_, None)) => true,
            Some((_, Some(flag))) => flag.0.load(Ordering::SeqCst),
            None => false,
        };
        let waits = |place: &usize| self.clients[*place].lock().unwrap().is_some();
        let chosen = all.clone().find(can_go_on).filter(|_| !gives_up);
        // One has waited for long, and gives up.
        let Some(chosen) = chosen.or_else(|| all.clone().find(waits)) else { return };
        let Some((mut client, waited)) = self.clients[chosen].lock().unwrap().take() else { return };
        if waited.is_some_and(|flag| !flag.0.load(Ordering::SeqCst)) {
            client.gives_up();
        }
        let mut waits = None;
        match client.step() {
            Step::Done => {}
            Step::Waits(busy) => {
                let flag = Arc::new(Flag::default());
                waits =
                    (!begins_to_wait(&mut client, &busy, &Waker::from(Arc::clone(&flag)))).then_some(flag);
            }
            Step::Broken => self.is_broken.store(true, Ordering::SeqCst),
        }
        *self.clients[chosen].lock().unwrap() = Some((client, waits));
    }

    /// Runs until there are enough transactions and all have ended, or the log has failed; returns the
    /// clients.
    pub fn run(self: Arc<Self>, db: &Database, transactions: usize) -> Vec<Client> {
        loop {
            self.step();
            let is_broken = self.is_broken.load(Ordering::SeqCst);
            let mut all_idle = true;
            for client in &self.clients {
                let client = client.lock().unwrap_or_else(PoisonError::into_inner);
                let (client, _) = client.as_ref().expect("no client is at work just now");
                let ends = client.world.history.lock().unwrap().len() >= transactions;
                client.world.ends.fetch_or(ends, Ordering::SeqCst);
                all_idle &= ends && client.is_idle();
            }
            assert!(self.steps.load(Ordering::Relaxed) < transactions * 1_000, "it comes to no end");
            if is_broken || all_idle || db.check_log().is_err() {
                break;
            }
        }
        let clients = self.clients.iter().filter_map(|client| client.lock().unwrap().take());
        clients.map(|(client, _)| client).collect()
    }
}

/// Runs a client on a thread of its own.
pub fn run_on_thread(client: &mut Client, transactions: usize) {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut waits_since = None;
    loop {
        let ends = client.world.history.lock().unwrap().len() >= transactions;
        client.world.ends.fetch_or(ends, Ordering::SeqCst);
        if ends && client.is_idle() {
            return;
        }
        match client.step() {
            Step::Done => waits_since = None,
            Step::Broken => return,
            Step::Waits(busy) => {
                let since = *waits_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    client.gives_up();
                } else if !begins_to_wait(client, &busy, &waker) {
                    std::thread::park_timeout(PATIENCE);
                }
            }
        }
        if client.random.random_range(0..4) == 0 {
            std::thread::yield_now();
        }
    }
}
