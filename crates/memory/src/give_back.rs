//! Returns freed memory to the system. An allocator keeps freed memory for the thread that allocated it, even
//! when another thread frees it.
//!
//! A thread that has freed much memory calls `give_back`. It returns its memory at once; every other thread
//! returns its memory when it is idle (`give_back_here`).

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the calling thread's unused memory to the system.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();
/// Number of calls of `give_back`.
static FREED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The value of `FREED` when this thread returned its memory last.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// Sets the function by which a thread returns unused memory to the system. Only the first call counts.
pub fn give_back_by(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// Returns the calling thread's unused memory to the system, and makes every other thread do so when it is
/// idle. For a thread that has freed much memory.
pub fn give_back() {
    FREED.fetch_add(1, Ordering::Relaxed);
    give_back_here();
}

/// Returns the calling thread's unused memory to the system, if `give_back` was called since the last time.
pub fn give_back_here() {
    let freed = times_freed();
    if SEEN.replace(freed) != freed
        && let Some(give_back) = GIVE_BACK.get()
    {
        give_back();
    }
}

/// Returns the number of calls of `give_back`.
pub fn times_freed() -> u64 {
    FREED.load(Ordering::Relaxed)
}
