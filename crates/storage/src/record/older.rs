//! The older versions of a record: a list, newest first, that grows while snapshots are open and shrinks
//! afterwards.
//!
//! Readers follow the list at any time. A worker that changes it holds the record's lock and also sets
//! `LISTING`. Two workers that changed it without the lock would therefore still free no version twice.
//! Invariant: a version that has left the list keeps its link to the next one until no reader can be at it.
//! Held by: `every_snapshot_finds_its_version`, `writers_without_the_lock_free_nothing_twice`.
#![allow(unsafe_code)]

use super::{LISTING, OLDER, OLDER_HEADER, OlderVersion, Record, RecordState, RowWords};
use catalog::CommitOrder;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

impl<'g> Record<'g> {
    /// Returns the older versions that are kept, newest first.
    pub(crate) fn older(self) -> impl Iterator<Item = OlderVersion<'g>> {
        // ORDERING: Acquire pairs with the Release in `keep_older`: the block's contents are visible.
        let mut next = self.word(1).load(Ordering::Acquire) & OLDER;
        std::iter::from_fn(move || {
            let address = std::mem::take(&mut next);
            if address == 0 {
                return None;
            }
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
            // SAFETY: written by `keep_older`: a state, a link and a row buffer. The version was in the list
            // during the guard's stay, because a worker that removes a version relinks the one before it.
            let (state, row) = unsafe {
                next = (*pointer.add(1)).load(Ordering::Acquire);
                let state = RecordState((*pointer).load(Ordering::Relaxed));
                (state, self.buffer_at(address + OLDER_HEADER * 8))
            };
            Some(OlderVersion { state, row })
        })
    }

    /// Excludes other workers from changing the list of older versions. They hold the record's lock, so none
    /// waits.
    fn begin_listing(self) {
        while self.word(1).fetch_or(LISTING, Ordering::AcqRel) & LISTING != 0 {
            std::hint::spin_loop();
        }
    }

    /// Ends the change; `newest` is the newest older version from now on.
    fn end_listing(self, newest: u64) {
        assert!(newest & !OLDER == 0, "addresses have 48 bits");
        let change = |word: u64| Some(word & !(OLDER | LISTING) | newest);
        // ORDERING: Release: the block's contents are visible to a reader that finds it.
        let _ = self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
    }

    /// Keeps the current version for snapshots up to `newest`, if one of them needs it. The caller holds the
    /// lock. The memory is taken beyond the limit, because a commit can no longer fail here.
    pub fn keep_older(self, newest: CommitOrder) {
        let state = self.locked_state();
        if state.order() >= newest {
            return;
        }
        let row = self.row();
        let words = if state.is_absent() { 0 } else { row.capacity() };
        let block = self.guard.allocate_beyond_limit((OLDER_HEADER as usize + 1 + words) * 8).as_ptr();
        self.begin_listing();
        // SAFETY: the block has room for header, capacity and words, and no other thread has it.
        unsafe {
            block.write(state.0);
            block.add(1).write(self.word(1).load(Ordering::Relaxed) & OLDER);
            block.add(2).write(words as u64);
            for word in 0..words {
                block.add(3 + word).write(row.load(word));
            }
        }
        self.end_listing(block.expose_provenance() as u64);
    }

    /// Returns whether the record has an older version.
    #[inline]
    pub fn has_older(self) -> bool {
        self.word(1).load(Ordering::Relaxed) & OLDER != 0
    }

    /// Drops the older versions that no snapshot needs. `is_needed` gets a version's number and its
    /// successor's; `dropped` gets the dropped rows. The caller holds the lock.
    pub fn drop_older(
        self,
        is_needed: impl Fn(CommitOrder, CommitOrder) -> bool,
        mut dropped: impl FnMut(RowWords<'_>),
    ) {
        let mut gone = Vec::new();
        self.begin_listing();
        let mut newest = self.word(1).load(Ordering::Acquire) & OLDER;
        let (mut address, mut successor) = (newest, self.locked_state().order());
        // The link of the last version kept so far; `None` while there is none.
        let mut last: Option<&AtomicU64> = None;
        while address != 0 {
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
            // SAFETY: as in `older`.
            let (state, link) =
                unsafe { (RecordState((*pointer).load(Ordering::Relaxed)), &*pointer.add(1)) };
            let next = link.load(Ordering::Relaxed);
            if is_needed(state.order(), successor) {
                last = Some(link);
            } else {
                match last {
                    // ORDERING: Release: a reader that follows the link sees the contents of `next`.
                    Some(link) => link.store(next, Ordering::Release),
                    None => newest = next,
                }
                gone.push((address, state));
            }
            (address, successor) = (next, state.order());
        }
        self.end_listing(newest);
        for (address, state) in gone {
            // SAFETY: as in `older`; this caller alone removed it from the list above.
            let row = unsafe { self.buffer_at(address + OLDER_HEADER * 8) };
            if !state.is_absent() {
                dropped(row);
            }
            let bytes = (OLDER_HEADER as usize + 1 + row.capacity()) * 8;
            let block = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: allocated by `keep_older` with this size, unlinked above.
            unsafe { self.guard.retire(NonNull::new_unchecked(block), bytes) };
        }
    }
}
