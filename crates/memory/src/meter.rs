//! An allocator that counts allocated bytes, for each thread and for the process.
//!
//! Invariants: 1. `process_bytes` differs from the allocated bytes by at most `UNREPORTED` bytes a thread. 2.
//! counting never allocates.
//! Held by: `tests/suite/main.rs`.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// A thread reports its bytes when it has allocated or freed this many since its last report.
const UNREPORTED: isize = 64 << 10;

/// Bytes that threads have reported.
static REPORTED: AtomicIsize = AtomicIsize::new(0);
/// Whether a `Metered` has allocated anything.
static METERED: AtomicBool = AtomicBool::new(false);

/// Bytes that one thread has allocated, less those that it has freed.
struct OfThread {
    taken: Cell<isize>,
    unreported: Cell<isize>,
}

thread_local! {
    // Without a destructor and without a lazy initializer: an allocator may use no other kind.
    static OF_THREAD: OfThread = const { OfThread { taken: Cell::new(0), unreported: Cell::new(0) } };
}

/// An allocator whose bytes are counted. A program makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered<A>(A);

impl<A> Metered<A> {
    /// Wraps an allocator.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

/// Returns whether the program counts its allocations.
#[inline]
pub fn is_metered() -> bool {
    METERED.load(Ordering::Relaxed)
}

/// Returns the number of bytes that the process has allocated.
pub fn process_bytes() -> usize {
    usize::try_from(REPORTED.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Returns the number of bytes that the calling thread has allocated, less those that it has freed. Only
/// differences to earlier values are meaningful.
#[inline]
pub fn thread_bytes() -> isize {
    OF_THREAD.with(|thread| thread.taken.get())
}

/// Reports the calling thread's remaining bytes. For threads that end.
pub fn thread_ends() {
    OF_THREAD.with(|thread| REPORTED.fetch_add(thread.unreported.take(), Ordering::Relaxed));
}

/// Runs a function whose memory is not the running statement's: it counts for the process only.
pub fn apart<T>(act: impl FnOnce() -> T) -> T {
    let before = thread_bytes();
    let done = act();
    OF_THREAD.with(|thread| thread.taken.set(before));
    done
}

#[inline]
fn count(bytes: isize) {
    OF_THREAD.with(|thread| {
        thread.taken.set(thread.taken.get().wrapping_add(bytes));
        let unreported = thread.unreported.get() + bytes;
        if unreported.unsigned_abs() < UNREPORTED.unsigned_abs() {
            thread.unreported.set(unreported);
        } else {
            thread.unreported.set(0);
            METERED.store(true, Ordering::Relaxed);
            REPORTED.fetch_add(unreported, Ordering::Relaxed);
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
