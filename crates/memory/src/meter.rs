//! An allocator that counts what it gives out, by thread and altogether.
//!
//! Invariants: 1. `process_bytes` is what is allocated, give or take `UNTOLD` bytes a thread. 2. counting
//! never allocates.
//! Held by: `tests/suite/main.rs`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// A thread tells of this many bytes at a time.
const UNTOLD: isize = 64 << 10;

/// Bytes that threads have told of.
static TOLD: AtomicIsize = AtomicIsize::new(0);
/// Whether anything was allocated by a `Metered`.
static METERED: AtomicBool = AtomicBool::new(false);

/// What one thread has taken; freed bytes are subtracted, whichever thread had allocated them.
struct OfThread {
    taken: Cell<isize>,
    untold: Cell<isize>,
}

thread_local! {
    // Without a destructor and without a lazy initializer: an allocator may use no other kind.
    static OF_THREAD: OfThread = const { OfThread { taken: Cell::new(0), untold: Cell::new(0) } };
}

/// An allocator whose bytes are counted. A program makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered<A>(A);

impl<A> Metered<A> {
    /// Counts what an allocator gives out.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

/// Whether the program counts what it allocates.
#[inline]
pub fn is_metered() -> bool {
    METERED.load(Ordering::Relaxed)
}

/// Bytes that the process has allocated.
pub fn process_bytes() -> usize {
    usize::try_from(TOLD.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Bytes that the calling thread has allocated, less those that it has freed. Of use in comparisons with
/// earlier values.
#[inline]
pub fn thread_bytes() -> isize {
    OF_THREAD.with(|own| own.taken.get())
}

/// Tells what the calling thread has not told yet. To be called at the end of threads that come and go.
pub fn thread_ends() {
    OF_THREAD.with(|own| TOLD.fetch_add(own.untold.take(), Ordering::Relaxed));
}

/// Runs something whose memory is not the running statement's: what it takes and frees is counted for the
/// process alone.
pub fn apart<T>(act: impl FnOnce() -> T) -> T {
    let before = thread_bytes();
    let done = act();
    OF_THREAD.with(|own| own.taken.set(before));
    done
}

#[inline]
fn count(bytes: isize) {
    OF_THREAD.with(|own| {
        own.taken.set(own.taken.get().wrapping_add(bytes));
        let untold = own.untold.get() + bytes;
        if untold.unsigned_abs() < UNTOLD.unsigned_abs() {
            own.untold.set(untold);
        } else {
            own.untold.set(0);
            METERED.store(true, Ordering::Relaxed);
            TOLD.fetch_add(untold, Ordering::Relaxed);
        }
    });
}

// SAFETY: every call goes to the allocator inside with the caller's arguments, and its answer comes back as
// it is. Counting neither allocates nor unwinds: it touches two cells of the thread, which have no
// destructor, and an atomic.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Metered<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { self.0.alloc(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        if !block.is_null() {
            count(layout.size() as isize);
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { self.0.dealloc(block, layout) };
        count(-(layout.size() as isize));
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { self.0.realloc(block, layout, bytes) };
        if !moved.is_null() {
            count(bytes as isize - layout.size() as isize);
        }
        moved
    }
}
