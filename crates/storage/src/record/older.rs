//! The older versions of a record: a list, the newest first, which grows while snapshots are open and shrinks
//! afterwards.
//!
//! Readers go along it at any time. A worker that changes it has the record's lock, and marks the word as
//! well (`LISTING`), so that two that change it without the lock still free nothing twice.
//! Invariant: a version that has left the list leads to the rest of it as long as anybody can be at it. Held
//! by: `every_snapshot_finds_its_version`, `writers_without_the_lock_free_nothing_twice`.
#![allow(unsafe_code)]

use super::{LISTING, OLDER, OLDER_HEADER, OlderVersion, Record, RecordState, RowWords};
use catalog::CommitOrder;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

impl<'g> Record<'g> {
    /// The older versions that are kept, the newest first.
    pub(crate) fn older(self) -> impl Iterator<Item = OlderVersion<'g>> {
        // ORDERING: Acquire pairs with the Release in `keep_older`: what stands in the block is visible.
        let mut next = self.word(1).load(Ordering::Acquire) & OLDER;
        std::iter::from_fn(move || {
            let address = std::mem::take(&mut next);
            if address == 0 {
                return None;
            }
            let pointer = std::ptr::with_exposed_provenance::<AtomicU64>(address as usize);
            // SAFETY: written by `keep_older`: a state, a link and a row buffer. It was in the list during
            // the guard's stay, as a worker that takes one out of it leaves the links of those before it
            // right.
            let (state, row) = unsafe {
                next = (*pointer.add(1)).load(Ordering::Acquire);
                let state = RecordState((*pointer).load(Ordering::Relaxed));
                (state, self.buffer_at(address + OLDER_HEADER * 8))
            };
            Some(OlderVersion { state, row })
        })
    }

    /// Keeps other workers from changing the list of older versions. Those that change it hold the record's
    /// lock, so none waits.
    fn begin_listing(self) {
        while self.word(1).fetch_or(LISTING, Ordering::AcqRel) & LISTING != 0 {
            std::hint::spin_loop();
        }
    }

    /// Ends the change, with this as the newest older version.
    fn end_listing(self, newest: u64) {
        assert!(newest & !OLDER == 0, "addresses have 48 bits");
        let change = |word: u64| Some(word & !(OLDER | LISTING) | newest);
        // ORDERING: Release: what stands in the block is visible to a reader that finds it.
        let _ = self.word(1).fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
    }

    /// Keeps the current version for snapshots that end before `newest`, if it belongs to one of them. The
    /// lock is held; memory for it is taken beyond the limit, as a commit can't fail any more.
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

    /// Whether an older version is kept.
    #[inline]
    pub fn has_older(self) -> bool {
        self.word(1).load(Ordering::Relaxed) & OLDER != 0
    }

    /// Forgets the older versions that no snapshot needs, as `is_needed` says of a version's number and that
    /// of the one that took its place; `dropped` sees those of them that are rows. The lock is held.
    pub fn drop_older(
        self,
        is_needed: impl Fn(CommitOrder, CommitOrder) -> bool,
        mut dropped: impl FnMut(RowWords<'_>),
    ) {
        let mut gone = Vec::new();
        self.begin_listing();
        let mut newest = self.word(1).load(Ordering::Acquire) & OLDER;
        let (mut address, mut successor) = (newest, self.locked_state().order());
        // The link of the last one that stays; none while none does.
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
                    // ORDERING: Release: a reader that comes along finds what `next` leads to.
                    Some(link) => link.store(next, Ordering::Release),
                    None => newest = next,
                }
                gone.push((address, state));
            }
            (address, successor) = (next, state.order());
        }
        self.end_listing(newest);
        for (address, state) in gone {
            // SAFETY: as in `older`; taken out of the list above, by this caller alone.
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
