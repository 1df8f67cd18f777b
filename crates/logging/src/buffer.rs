//! A logger's buffer: workers copy records into the open segment while the logger writes the other one.
//! Paper: Poplar §4.3 (allocated and buffered bytes of a segment decide what may be flushed).
//!
//! Invariants: 1. a segment is open only while it is the current one, so a worker that looks late never puts a record
//! where the logger does not expect it. 2. bytes below `allocated` belong to the workers that allocated them until
//! `filled` has caught up, and to the logger from then until it opens the segment again.
//! Held by: `concurrent_records_all_arrive_whole`.
#![allow(unsafe_code)]

use catalog::Epoch;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const CLOSED: u64 = 1 << 63;

/// Most bytes of a segment.
pub(crate) const SEGMENT: usize = 4 << 20;

struct Segment {
    /// Allocated bytes, and whether the segment is closed.
    state: AtomicU64,
    filled: AtomicU64,
    /// The last epoch of any record in it.
    last_epoch: AtomicU64,
    bytes: Box<[UnsafeCell<u8>]>,
}

/// Two segments, one of them open.
pub(crate) struct LogBuffer {
    segments: [Segment; 2],
    current: AtomicUsize,
}

// SAFETY: bytes are only touched by their owner of the moment (invariant 2).
unsafe impl Sync for LogBuffer {}

impl Segment {
    fn new(capacity: usize, state: u64) -> Self {
        let bytes = std::iter::repeat_with(|| UnsafeCell::new(0)).take(capacity).collect();
        Self { state: AtomicU64::new(state), filled: AtomicU64::new(0), last_epoch: AtomicU64::new(0), bytes }
    }
}

impl LogBuffer {
    /// A buffer whose segments, and so batches, are at most a number of bytes.
    pub(crate) fn new(largest_batch: usize) -> Self {
        let capacity = SEGMENT.min(largest_batch);
        let segments = [Segment::new(capacity, 0), Segment::new(capacity, CLOSED)];
        Self { segments, current: AtomicUsize::new(0) }
    }

    /// Bytes of the largest record.
    pub(crate) fn capacity(&self) -> usize {
        self.segments[0].bytes.len()
    }

    /// Copies a record in; false while the segment is full or being changed, and the caller should try again.
    #[inline]
    pub(crate) fn try_append(&self, record: &[u8], epoch: Epoch) -> bool {
        let segment = &self.segments[self.current.load(Ordering::Acquire)];
        let mut state = segment.state.load(Ordering::Relaxed);
        loop {
            if state & CLOSED != 0 || state as usize + record.len() > segment.bytes.len() {
                return false;
            }
            // ORDERING: Acquire pairs with the Release that opened the segment: the logger is done with its bytes.
            let next = state + record.len() as u64;
            match segment.state.compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(changed) => state = changed,
            }
        }
        let start = state as usize;
        let target = segment.bytes[start..start + record.len()].as_ptr();
        // SAFETY: the exchange gave this range to this worker alone, and it lies inside the segment.
        unsafe {
            std::ptr::copy_nonoverlapping(record.as_ptr(), UnsafeCell::raw_get(target), record.len());
        }
        if segment.last_epoch.load(Ordering::Relaxed) < epoch.0 {
            segment.last_epoch.fetch_max(epoch.0, Ordering::Relaxed);
        }
        // ORDERING: Release pairs with the Acquire in `take`: the logger sees the bytes and the epoch.
        segment.filled.fetch_add(record.len() as u64, Ordering::Release);
        true
    }

    /// Whether a record would find room now, or the segment is just being changed.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let segment = &self.segments[self.current.load(Ordering::Relaxed)];
        let state = segment.state.load(Ordering::Relaxed);
        state & CLOSED != 0 || state as usize + bytes <= segment.bytes.len()
    }

    /// Whether there is anything to write.
    pub(crate) fn is_empty(&self) -> bool {
        let segment = &self.segments[self.current.load(Ordering::Relaxed)];
        segment.state.load(Ordering::Relaxed) & !CLOSED == 0
    }

    /// Opens the other segment, waits until the records of this one are in, and runs `write` on them
    /// and the last epoch among them. By the logger only.
    pub(crate) fn take<R>(&self, write: impl FnOnce(&[u8], Epoch) -> R) -> R {
        let current = self.current.load(Ordering::Relaxed);
        let (full, empty) = (&self.segments[current], &self.segments[1 - current]);
        empty.state.store(0, Ordering::Release);
        self.current.store(1 - current, Ordering::Release);
        let allocated = full.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0u32;
        while full.filled.load(Ordering::Acquire) != allocated {
            spins += 1;
            if spins.is_multiple_of(64) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let bytes = full.bytes[..allocated as usize].as_ptr();
        // SAFETY: the segment is closed and all its allocated bytes are filled: they are the logger's now.
        let bytes = unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(bytes), allocated as usize) };
        let result = write(bytes, Epoch(full.last_epoch.swap(0, Ordering::Relaxed)));
        full.filled.store(0, Ordering::Relaxed);
        full.state.store(CLOSED, Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn concurrent_records_all_arrive_whole() {
        const RECORDS: u64 = 20_000;
        let buffer = LogBuffer::new(SEGMENT);
        let done = AtomicBool::new(false);
        let mut seen = vec![0u64; 3];
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3u64)
                .map(|worker| {
                    let buffer = &buffer;
                    scope.spawn(move || {
                        for number in 0..RECORDS {
                            let length = 16 + (number % 50) as usize * 8;
                            let mut record = vec![worker as u8; length];
                            record[..8].copy_from_slice(&(length as u64).to_le_bytes());
                            while !buffer.try_append(&record, Epoch(1)) {
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let (buffer, done, seen) = (&buffer, &done, &mut seen);
            let logger = scope.spawn(move || {
                loop {
                    let last = done.load(Ordering::Acquire);
                    buffer.take(|mut bytes, _| {
                        while !bytes.is_empty() {
                            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
                            let worker = bytes[8];
                            assert!(bytes[8..length].iter().all(|byte| *byte == worker));
                            seen[worker as usize] += 1;
                            bytes = &bytes[length..];
                        }
                    });
                    if last {
                        break;
                    }
                }
            });
            for worker in workers {
                worker.join().unwrap();
            }
            done.store(true, Ordering::Release);
            logger.join().unwrap();
        });
        assert_eq!(seen, [RECORDS; 3]);
    }
}
