//! What the units of transactions have sent, and what they have written so far.

use crate::tape::Tape;
use catalog::{Arena, Datum, Written};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The units of a transaction that have run.
#[derive(Debug)]
struct Progress {
    /// Number of units that have not.
    left: AtomicU32,
    /// The writes of those that have.
    rows: AtomicU32,
    checksum: AtomicU32,
    /// What they have sent, until no unit is left.
    sent: Mutex<Option<Box<Sent>>>,
}

/// What the units of a transaction have sent.
#[derive(Debug, Default)]
struct Sent {
    values: Vec<SentValue>,
    arena: Arena,
}

#[derive(Clone, Copy, Debug)]
struct SentValue {
    block: u32,
    /// The first round of the unit.
    round: u32,
    /// The number of the tape of its block.
    tape: u32,
    value: Datum,
}

/// The results of all transactions, by number.
#[derive(Debug)]
pub(super) struct Results(Vec<Progress>);

impl Results {
    /// Takes the number of units of each transaction.
    pub(super) fn new(units: impl Iterator<Item = u32>) -> Self {
        let progress = |left| Progress {
            left: AtomicU32::new(left),
            rows: AtomicU32::new(0),
            checksum: AtomicU32::new(0),
            sent: Mutex::new(None),
        };
        Self(units.map(progress).collect())
    }

    /// Copies the results on a tape that a transaction's piece of a block has sent, round after round.
    pub(super) fn receive(&self, transaction: u32, block: usize, tape: usize, into: &mut Tape) {
        let sent = self.0[transaction as usize].sent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Sent { values, arena }) = sent.as_deref() else { return };
        let is_of = |sent: &&SentValue| sent.block == block as u32 && sent.tape == tape as u32;
        let own = || values.iter().filter(is_of);
        if own().is_sorted_by_key(|sent| sent.round) {
            own().for_each(|sent| into.push(sent.value, arena));
        } else {
            let mut own: Vec<_> = own().collect();
            own.sort_by_key(|sent| sent.round);
            own.into_iter().for_each(|sent| into.push(sent.value, arena));
        }
    }

    /// Keeps what a unit, or a whole piece, has sent on the tapes of its block.
    pub(super) fn send(&self, transaction: u32, block: usize, round: u32, tapes: &[Tape]) {
        let mut sent = self.0[transaction as usize].sent.lock().unwrap_or_else(PoisonError::into_inner);
        let Sent { values, arena } = &mut **sent.get_or_insert_default();
        for (number, tape) in tapes.iter().enumerate() {
            let (block, tape_number) = (block as u32, number as u32);
            let value = |value: Datum| SentValue { block, round, tape: tape_number, value };
            values.extend(tape.values().map(|(own, of)| value(arena.adopt(own, of))));
        }
    }

    /// Notes that some units have run. Returns the writes of their transaction if no unit is left.
    pub(super) fn ran(&self, transaction: u32, units: u32, written: Written) -> Option<Written> {
        let Progress { left, rows, checksum, sent } = &self.0[transaction as usize];
        if written != Written::default() {
            rows.fetch_add(written.rows, Ordering::Relaxed);
            checksum.fetch_add(written.checksum.into(), Ordering::Relaxed);
        }
        // ORDERING: Release and Acquire: the last thread sees the writes that the earlier ones have noted.
        if left.fetch_sub(units, Ordering::AcqRel) > units {
            return None;
        }
        sent.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut written = Written::default();
        written +=
            Written { rows: rows.load(Ordering::Relaxed), checksum: checksum.load(Ordering::Relaxed) as u16 };
        Some(written)
    }
}
