//! Rows that transactions of clients are about to write, so that others wait instead of losing a race.
//!
//! A transaction that waits for its client between statements would lose most races for a row that many want. So it says which
//! rows it is going to write, and another one that wants the same waits for a while before it reads them. Nothing depends on it:
//! validation decides, as ever, and whoever has waited too long goes on without.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use storage::{Handle, Slot};

const SHARDS: usize = 64;

#[derive(Debug)]
struct Reserved {
    owner: Slot,
    /// Who waits for it, longest first.
    waiting: VecDeque<(Slot, Waker)>,
}

/// Who is about to write which rows.
#[derive(Debug)]
pub struct Reservations {
    shards: Vec<Mutex<HashMap<u64, Reserved>>>,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Reservations {
    fn shard(&self, address: u64) -> MutexGuard<'_, HashMap<u64, Reserved>> {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.shards[hash as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a row; false when it is another one's.
    pub(crate) fn reserve(&self, record: Handle, owner: Slot) -> bool {
        let new = || Reserved { owner, waiting: VecDeque::new() };
        self.shard(record.address()).entry(record.address()).or_insert_with(new).owner == owner
    }

    /// Gives a row back, or waits for it no longer. Whoever has waited longest has it next.
    pub(crate) fn release(&self, address: u64, owner: Slot) {
        let mut shard = self.shard(address);
        let Some(reserved) = shard.get_mut(&address) else { return };
        if reserved.owner != owner {
            reserved.waiting.retain(|(slot, _)| *slot != owner);
            return;
        }
        match reserved.waiting.pop_front() {
            Some((next, waker)) => {
                reserved.owner = next;
                drop(shard);
                waker.wake();
            }
            None => {
                shard.remove(&address);
            }
        }
    }

    /// Has a task woken once a row is its own; false when it is already, or is free.
    pub fn wake_later(&self, address: u64, owner: Slot, waker: &Waker) -> bool {
        match self.shard(address).get_mut(&address) {
            Some(reserved) if reserved.owner != owner => {
                match reserved.waiting.iter_mut().find(|(slot, _)| *slot == owner) {
                    Some((_, own)) => own.clone_from(waker),
                    None => reserved.waiting.push_back((owner, waker.clone())),
                }
                true
            }
            _ => false,
        }
    }
}
