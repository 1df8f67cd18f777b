//! Rows that transactions of several statements have read, and could not write any more: another one had them
//! by then. The next such transactions hold these rows from the moment on at which they read them, so that
//! they wait instead of failing.
//!
//! A row is hot for the next `USES` reads; then one transaction tries without again. What is remembered is a
//! guess: two rows that share a place forget each other, and a row that has come to the place of another one
//! in memory is hot until it has cooled.
//! Held by: `what_is_read_and_then_written_seldom_fails` (crates/reprise/tests/suite/waiting.rs).

use std::sync::atomic::{AtomicU64, Ordering};

const BITS: u32 = 10;
/// Reads of a hot row.
const USES: u64 = 64;
/// Bits of a place that count the uses which are left; above them is the row's address.
const USES_BITS: u32 = 8;

/// The hot rows.
#[derive(Debug)]
pub(crate) struct Heat(Box<[AtomicU64]>);

impl Heat {
    pub(crate) fn new() -> Self {
        Self((0..1 << BITS).map(|_| AtomicU64::default()).collect())
    }

    fn place(&self, address: u64) -> &AtomicU64 {
        &self.0[crate::holds::hash(address, BITS)]
    }

    /// Makes the row at an address hot.
    pub(crate) fn raise(&self, address: u64) {
        self.place(address).store(address << USES_BITS | USES, Ordering::Relaxed);
    }

    /// Whether the row at an address, which is about to be read, is hot.
    #[inline]
    pub(crate) fn is_hot(&self, address: u64) -> bool {
        let place = self.place(address);
        let found = place.load(Ordering::Relaxed);
        let is_hot = found >> USES_BITS == address && found & ((1 << USES_BITS) - 1) > 0;
        if is_hot {
            // Where another read has counted just now, this one does not.
            let _ = place.compare_exchange(found, found - 1, Ordering::Relaxed, Ordering::Relaxed);
        }
        is_hot
    }
}
