//! Optimistic latches: readers take a version, read, and validate that it did not change.
//! Source: optimistic lock coupling (Leis et al., "The ART of practical synchronization").
//!
//! The version word: bit 0 locked, bit 1 obsolete (the node left its tree), the rest counts changes.
//! Invariant: words guarded by a latch change only between `try_lock` and `unlock`, so an unchanged version
//! means that everything read under it belongs together. Held by: `a_validated_read_is_consistent` (loom).

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const STEP: u64 = 4;

/// The state that a reader saw: unlocked, with this count of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

/// A version word.
#[derive(Debug)]
pub struct Latch(AtomicU64);

impl Latch {
    /// Returns an unlocked latch.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until the latch is unlocked and returns its version; `None` when the node has left its tree.
    #[inline]
    pub fn read(&self) -> Option<Version> {
        loop {
            // ORDERING: Acquire pairs with the Release in `unlock`: what the last holder wrote is visible.
            let word = self.0.load(Ordering::Acquire);
            if word & OBSOLETE != 0 {
                return None;
            }
            if word & LOCKED == 0 {
                return Some(Version(word));
            }
            spin_loop();
        }
    }

    /// Returns whether the node is unchanged since `version` was read.
    #[inline]
    pub fn validate(&self, version: Version) -> bool {
        // ORDERING: the fence keeps the reads before it from moving below the load; it pairs with the one in
        // `try_lock`.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == version.0
    }

    /// Locks the latch if the node is unchanged since `version` was read.
    #[inline]
    pub fn try_lock(&self, version: Version) -> bool {
        let locked = self
            .0
            .compare_exchange(version.0, version.0 | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        // ORDERING: the writes that follow stay below the locked word; pairs with the fence in `validate`.
        fence(Ordering::Release);
        locked
    }

    /// Unlocks after a change and returns the new version.
    pub fn unlock(&self) -> Version {
        let word = (self.0.load(Ordering::Relaxed) & !LOCKED) + STEP;
        self.0.store(word, Ordering::Release);
        Version(word)
    }

    /// Unlocks without a change.
    pub fn unlock_unchanged(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }

    /// Unlocks a node that has left its tree.
    pub fn unlock_obsolete(&self) {
        self.0.store(((self.0.load(Ordering::Relaxed) & !LOCKED) + STEP) | OBSOLETE, Ordering::Release);
    }
}

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::{sync::Arc, thread};

    #[test]
    fn a_validated_read_is_consistent() {
        loom::model(|| {
            let shared = Arc::new((Latch::new(), AtomicU64::new(0), AtomicU64::new(0)));
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let (latch, a, b) = &*shared;
                        if let Some(version) = latch.read()
                            && latch.try_lock(version)
                        {
                            let next = a.load(Ordering::Relaxed) + 1;
                            a.store(next, Ordering::Relaxed);
                            b.store(next, Ordering::Relaxed);
                            latch.unlock();
                        }
                    })
                })
                .collect();
            let (latch, a, b) = &*shared;
            if let Some(version) = latch.read() {
                let read = (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
                if latch.validate(version) {
                    assert_eq!(read.0, read.1, "a validated read saw half of a change");
                }
            }
            for writer in writers {
                writer.join().expect("a writer");
            }
            assert_eq!(a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
        });
    }
}
