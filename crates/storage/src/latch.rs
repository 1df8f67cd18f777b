//! Optimistic latches: readers take a version, read, and validate that it did not change.
//! Source: optimistic lock coupling (Leis et al., "The ART of practical synchronization").
//!
//! The version word: bit 0 locked, bit 1 obsolete (the node left its tree), bits 2 to 31 count removals of
//! keys, bits 32 to 63 count all other changes.
//! Invariant: words guarded by a latch change only between `try_lock` and `unlock`, so an unchanged version
//! means that everything read under it belongs together. Held by: `a_validated_read_is_consistent` (loom).

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

const LOCKED: u64 = 1;
const OBSOLETE: u64 = 2;
const REMOVAL: u64 = 1 << 2;
const ADDITION: u64 = 1 << 32;
const REMOVALS: u64 = ADDITION - REMOVAL;

/// The state that a reader saw: unlocked, with these counts of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

impl Version {
    /// Returns whether nothing but removals lies between two versions of a node.
    pub fn has_the_additions_of(self, other: Self) -> bool {
        (self.0 ^ other.0) & !REMOVALS == 0
    }

    /// Returns the version as a word.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the version of a word that `word` has returned.
    pub fn of_word(word: u64) -> Self {
        Self(word)
    }
}

/// What has happened to a node since a version of it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// Nothing, or keys were removed.
    NothingAdded,
    /// Something was added.
    Added,
    /// Nothing was added until the node left its tree.
    LeftTree,
}

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

    /// Waits until the latch is unlocked, and returns what has happened to the node since `version` was read.
    #[inline]
    pub fn since(&self, version: Version) -> Since {
        // ORDERING: as in `validate`. Acquire pairs with the Release in `unlock_obsolete`: what the last
        // holder wrote is visible.
        fence(Ordering::Acquire);
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & LOCKED != 0 {
                spin_loop();
                continue;
            }
            let is_added_to = !Version(word & !OBSOLETE).has_the_additions_of(version);
            return match word & OBSOLETE {
                _ if is_added_to => Since::Added,
                0 => Since::NothingAdded,
                _ => Since::LeftTree,
            };
        }
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
        self.unlock_with((self.0.load(Ordering::Relaxed) & !LOCKED).wrapping_add(ADDITION))
    }

    /// Unlocks after a change that only removed keys, and returns the new version.
    pub fn unlock_after_removal(&self) -> Version {
        let word = self.0.load(Ordering::Relaxed) & !LOCKED;
        self.unlock_with(word & !REMOVALS | (word + REMOVAL) & REMOVALS)
    }

    fn unlock_with(&self, word: u64) -> Version {
        self.0.store(word, Ordering::Release);
        Version(word)
    }

    /// Unlocks without a change.
    pub fn unlock_unchanged(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }

    /// Unlocks a node that has left its tree.
    pub fn unlock_obsolete(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !LOCKED | OBSOLETE, Ordering::Release);
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

    /// A reader of a key's absence beside a thread that takes another key away and adds this one.
    #[test]
    fn an_observer_sees_additions_only() {
        loom::model(|| {
            let shared = Arc::new((Latch::new(), AtomicU64::new(1), AtomicU64::new(0)));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (latch, other, own) = &*shared;
                    assert!(latch.try_lock(latch.read().expect("the node stays")));
                    other.store(0, Ordering::Relaxed);
                    let version = latch.unlock_after_removal();
                    assert!(latch.try_lock(version));
                    own.store(1, Ordering::Relaxed);
                    latch.unlock();
                })
            };
            let (latch, _, own) = &*shared;
            let version = latch.read().expect("the node stays");
            let before = own.load(Ordering::Relaxed);
            let is_observed = latch.validate(version);
            if is_observed && latch.since(version) == Since::Added {
                assert_ne!(own.load(Ordering::Relaxed), before, "a removal counts as an addition");
            }
            writer.join().expect("the writer");
            if is_observed {
                let is_known = latch.since(version) == Since::NothingAdded;
                assert_eq!(is_known, before == 1, "an addition was missed");
            }
        });
    }

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
