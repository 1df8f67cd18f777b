//! Selects the atomics: those of std, or those of loom and shuttle in the models.

pub(crate) use latch::{Latch, LatchGuard};
#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};

/// A latch that is held for a few instructions.
#[cfg(not(any(loom, shuttle)))]
mod latch {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Number of looks at the latch before the waiting thread yields its core.
    const PATIENCE: u32 = 64;

    #[derive(Default)]
    pub(crate) struct Latch(AtomicBool);

    #[derive(Debug)]
    pub(crate) struct LatchGuard<'a>(&'a AtomicBool);

    impl Latch {
        #[inline]
        pub(crate) fn hold(&self) -> LatchGuard<'_> {
            let mut looks = 0u32;
            // ORDERING: Acquire pairs with the Release in `drop`: changes made under the latch are visible.
            while self.0.swap(true, Ordering::Acquire) {
                looks += 1;
                if looks.is_multiple_of(PATIENCE) {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
            LatchGuard(&self.0)
        }
    }

    impl Drop for LatchGuard<'_> {
        #[inline]
        fn drop(&mut self) {
            self.0.store(false, Ordering::Release);
        }
    }
}

/// Loom gives up on threads that spin, so a mutex replaces the latch.
#[cfg(any(loom, shuttle))]
mod latch {
    #[cfg(loom)]
    use loom::sync::{Mutex, MutexGuard};
    #[cfg(shuttle)]
    use shuttle::sync::{Mutex, MutexGuard};

    pub(crate) struct Latch(Mutex<()>);

    pub(crate) type LatchGuard<'a> = MutexGuard<'a, ()>;

    impl Default for Latch {
        fn default() -> Self {
            Self(Mutex::new(()))
        }
    }

    impl Latch {
        pub(crate) fn hold(&self) -> LatchGuard<'_> {
            self.0.lock().expect("its holders do not panic")
        }
    }
}

/// The tools of the models.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) mod model {
    #[cfg(loom)]
    pub(crate) use loom::{
        sync::{Arc, Mutex},
        thread,
    };
    #[cfg(shuttle)]
    pub(crate) use shuttle::{
        sync::{Arc, Mutex},
        thread,
    };

    /// Runs a model in every interleaving with at most three preemptions.
    #[cfg(loom)]
    pub(crate) fn check(run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(run);
    }

    /// Runs a model in random interleavings, each with few preemptions, most of them far apart.
    #[cfg(shuttle)]
    pub(crate) fn check(run: impl Fn() + Sync + Send + 'static) {
        shuttle::check_pct(run, 20_000, 3);
    }
}
