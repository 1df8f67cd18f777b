//! Memory that is faulted in ahead of use, by a thread of its own: the first touch of a page costs more than
//! a transaction's own work.
//!
//! The thread keeps as much ready as workers took in the last seconds, so a database that loads rows or grows
//! under load finds memory ready for the same time ahead, and one that does not grow keeps only the least
//! amount.

use super::{CHUNK, Memory, fault_in};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval at which the thread checks whether enough memory is ready.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Number of seconds whose growth is kept ready.
const SECONDS: usize = 10;

/// How much memory workers took in each of the last seconds.
struct Growth {
    /// The running second first.
    bytes: [usize; SECONDS],
    /// The beginning of the running second.
    began: Instant,
    /// Bytes taken before it.
    before: usize,
}

impl Growth {
    fn new(now: Instant) -> Self {
        Self { bytes: [0; SECONDS], began: now, before: 0 }
    }

    /// Returns the bytes that were taken in the last seconds, when `taken` bytes were taken in all.
    fn until(&mut self, now: Instant, taken: usize) -> usize {
        self.bytes[0] = taken - self.before;
        let passed = now.saturating_duration_since(self.began).as_secs();
        if passed > 0 {
            let shift = usize::try_from(passed).unwrap_or(SECONDS).min(SECONDS);
            self.bytes.rotate_right(shift);
            self.bytes[..shift].fill(0);
            self.began += Duration::from_secs(passed);
            self.before = taken;
        }
        self.bytes.iter().sum()
    }
}

impl Memory {
    /// Keeps memory faulted in until the memory is dropped: `least` bytes, and up to a quarter of the limit
    /// where it grows.
    pub fn keep_ready(self: &Arc<Self>, least: usize) {
        self.wanted_bytes.store(least, Ordering::Relaxed);
        let memory = Arc::downgrade(self);
        let run = move || {
            give_way();
            let mut growth = Growth::new(Instant::now());
            while let Some(memory) = memory.upgrade() {
                let grown = growth.until(Instant::now(), memory.taken_bytes.load(Ordering::Relaxed));
                let wanted = grown.min(memory.limit_bytes / 4).max(least);
                memory.wanted_bytes.store(wanted, Ordering::Relaxed);
                if !memory.fault_ahead(wanted) {
                    drop(memory);
                    std::thread::sleep(LOOK_EVERY);
                }
            }
        };
        // Without the thread, workers fault chunks in themselves.
        let _ = std::thread::Builder::new().name("memory-ahead".into()).spawn(run);
    }

    /// Returns whether all memory is faulted in that is to be ready, as far as the limit allows.
    pub fn is_ready(&self) -> bool {
        self.ready_bytes() >= self.wanted_bytes.load(Ordering::Relaxed) || self.is_exhausted()
    }

    /// Faults one chunk in, unless `bytes` are ready or the limit is near. Returns whether it did.
    fn fault_ahead(&self, bytes: usize) -> bool {
        if self.ready_bytes() >= bytes || self.is_exhausted() {
            return false;
        }
        let Ok(chunk) = self.take_cold_chunk() else { return false };
        // SAFETY: taken just above.
        unsafe { fault_in(chunk) };
        self.shared().ready_chunks.push(chunk);
        true
    }

    /// Returns the bytes that are faulted in and not used yet.
    pub(super) fn ready_bytes(&self) -> usize {
        self.shared().ready_chunks.len() * CHUNK
    }

    /// Returns whether taking more from the system would exceed the limit.
    fn is_exhausted(&self) -> bool {
        self.used_bytes() + super::REGION > self.limit_bytes && self.shared().free_chunks.is_empty()
    }
}

/// Gives the calling thread the lowest priority, so that it runs only on an idle core.
fn give_way() {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call on the calling thread's own priority; a refusal only costs speed.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_of_the_last_seconds() {
        let start = Instant::now();
        let mut growth = Growth::new(start);
        let mut at = |tenths: u64, taken| growth.until(start + Duration::from_millis(100 * tenths), taken);
        for tenths in 0..=50 {
            assert_eq!(at(tenths, tenths as usize), tenths as usize);
        }
        let later: Vec<usize> = (51..=200).map(|tenths| at(tenths, 50)).collect();
        assert_eq!(later[..40], [50; 40], "all of it is of the last ten seconds");
        assert!(later.is_sorted_by(|before, after| before >= after));
        assert_eq!((later[80], later[149]), (10, 0));
        assert_eq!(at(10_000, 70), 0, "what is seen very late is of long ago");
    }

    #[cfg(not(miri))]
    #[test]
    fn memory_that_grows_is_ready_ahead() {
        const LEAST: usize = 8 * CHUNK;
        let memory = Arc::new(Memory::new(2 << 30));
        memory.keep_ready(LEAST);
        let until = Instant::now() + Duration::from_secs(60);
        let wait_for = |bytes| {
            while memory.ready_bytes() < bytes {
                assert!(Instant::now() < until, "{} bytes of {bytes} are ready", memory.ready_bytes());
                std::thread::sleep(LOOK_EVERY);
            }
        };
        wait_for(LEAST);
        assert!(memory.ready_bytes() < 3 * LEAST);
        for _ in 0..6 * LEAST / CHUNK {
            memory.take_chunk().unwrap();
        }
        wait_for(5 * LEAST);
    }
}
