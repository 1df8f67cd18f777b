//! What the units of transactions have sent, and what they have written so far.

use crate::tape::{Received, Tape};
use catalog::Written;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shards of what units have sent.
const SHARDS: usize = 64;

/// The units of a transaction that have run.
#[derive(Debug)]
struct Progress {
    /// Number of units that have not.
    left: AtomicU32,
    /// The writes of those that have.
    rows: AtomicU32,
    checksum: AtomicU32,
}

/// The tapes of a unit, or of a whole piece.
#[derive(Debug)]
struct Sent {
    block: usize,
    /// The first round.
    round: u32,
    tapes: Arc<Vec<Tape>>,
}

/// The results of all transactions.
#[derive(Debug)]
pub(super) struct Results {
    /// By transaction.
    progress: Vec<Progress>,
    /// By transaction, until all its units have run.
    sent: Vec<Mutex<HashMap<u32, Vec<Sent>>>>,
}

impl Results {
    /// Takes the number of units of each transaction.
    pub(super) fn new(units: impl Iterator<Item = u32>) -> Self {
        let progress = |left| Progress {
            left: AtomicU32::new(left),
            rows: AtomicU32::new(0),
            checksum: AtomicU32::new(0),
        };
        Self {
            progress: units.map(progress).collect(),
            sent: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, transaction: u32) -> MutexGuard<'_, HashMap<u32, Vec<Sent>>> {
        self.sent[transaction as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to receive the results on a tape that a transaction's piece of a block has sent.
    pub(super) fn received(&self, transaction: u32, block: usize, tape: usize) -> Received<'static> {
        let shard = self.shard(transaction);
        let mut of_block: Vec<&Sent> =
            shard.get(&transaction).into_iter().flatten().filter(|sent| sent.block == block).collect();
        of_block.sort_by_key(|sent| sent.round);
        Received::from_units(of_block.into_iter().map(|sent| Arc::clone(&sent.tapes)).collect(), tape)
    }

    /// Keeps the tapes of a unit, or of a whole piece.
    pub(super) fn send(&self, transaction: u32, block: usize, round: u32, tapes: Vec<Tape>) {
        let sent = Sent { block, round, tapes: Arc::new(tapes) };
        self.shard(transaction).entry(transaction).or_default().push(sent);
    }

    /// Notes that some units have run. Returns the writes of their transaction if no unit is left;
    /// `has_tapes` says whether units of the transaction send anything.
    pub(super) fn ran(
        &self,
        transaction: u32,
        units: u32,
        written: Written,
        has_tapes: bool,
    ) -> Option<Written> {
        let Progress { left, rows, checksum } = &self.progress[transaction as usize];
        if written != Written::default() {
            rows.fetch_add(written.rows, Ordering::Relaxed);
            checksum.fetch_add(written.checksum.into(), Ordering::Relaxed);
        }
        // ORDERING: Release and Acquire: the last thread sees the writes that the earlier ones have noted.
        if left.fetch_sub(units, Ordering::AcqRel) > units {
            return None;
        }
        if has_tapes {
            self.shard(transaction).remove(&transaction);
        }
        let mut written = Written::default();
        written +=
            Written { rows: rows.load(Ordering::Relaxed), checksum: checksum.load(Ordering::Relaxed) as u16 };
        Some(written)
    }
}
