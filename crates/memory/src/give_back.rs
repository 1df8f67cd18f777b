//! Memory goes back to the system: allocators keep what was freed, each thread what it had allocated itself,
//! whichever thread frees it.
//!
//! Whoever has freed much says so (`give_back`). Its own thread gives back at once, others when they next
//! have nothing to do (`give_back_here`).

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a thread gives back what it does not use.
static GIVE_BACK: OnceLock<fn()> = OnceLock::new();
/// How often much was freed.
static FREED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How often much had been freed when this thread gave back the last time.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// Says how a thread gives memory that it does not use back to the system. The first that say it decide.
pub fn give_back_by(give_back: fn()) {
    GIVE_BACK.get_or_init(|| give_back);
}

/// Gives back what the calling thread does not use, and has other threads do the same. To be called by a
/// thread that has freed much.
pub fn give_back() {
    FREED.fetch_add(1, Ordering::Relaxed);
    give_back_here();
}

/// Gives back what the calling thread does not use, if much was freed since it did so the last time.
pub fn give_back_here() {
    let freed = times_freed();
    if SEEN.replace(freed) != freed
        && let Some(give_back) = GIVE_BACK.get()
    {
        give_back();
    }
}

/// How often much was freed so far.
pub fn times_freed() -> u64 {
    FREED.load(Ordering::Relaxed)
}
