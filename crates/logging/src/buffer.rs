//! A logger's buffer. Workers take numbers and room under its latch and copy their records in outside of it.
//! The logger closes a segment and writes it once all its bytes are there.
//! Paper: Poplar §4.2, Algorithm 1 (number and room under one latch); §4.3, Algorithm 2 (segments; allocated
//! and buffered bytes decide which bytes may be flushed). Differs: there are two segments, and the logger
//! closes the open one when the other is durable; the number of a segment is read under the latch that closes
//! it.
//!
//! Invariants: 1. number, open segment and allocated bytes change under the latch only. If numbers are taken
//! here, every record of a closed segment therefore has at most the segment's number, and every later one has
//! more. 2. bytes below `allocated` belong to the workers that took them until `filled` equals `allocated`,
//! and to the logger from then until it empties the segment.
//! Held by: `concurrent_records_all_arrive_whole`, and the models of `sequencing/model.rs` (loom, shuttle).
#![allow(unsafe_code)]

use crate::sync::{AtomicU64, AtomicUsize, Latch, LatchGuard, Ordering, spin_loop, yield_now};
use catalog::CommitOrder;
use crossbeam_utils::CachePadded;
use std::cell::UnsafeCell;

/// Maximum size of a segment, in bytes.
pub(crate) const SEGMENT: usize = 4 << 20;
/// Number of looks at a segment before the waiting thread yields its core.
const PATIENCE: u32 = 64;

struct Segment {
    /// Bytes that workers have taken.
    allocated: AtomicU64,
    /// Bytes that workers have filled.
    filled: AtomicU64,
    bytes: Box<[UnsafeCell<u8>]>,
}

impl Segment {
    fn new(capacity: usize) -> Self {
        let bytes = std::iter::repeat_with(|| UnsafeCell::new(0)).take(capacity).collect();
        Self { allocated: AtomicU64::new(0), filled: AtomicU64::new(0), bytes }
    }
}

/// The identity of the next buffer.
static NEXT_BUFFER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Two segments, of which one is open.
pub struct LogBuffer {
    latch: CachePadded<Latch>,
    /// The greatest number given here so far.
    number: AtomicU64,
    /// A number that was drawn here before its record took room; 0 when there is none.
    drawn: AtomicU64,
    current: AtomicUsize,
    /// 1 while a segment is being written.
    taking: AtomicUsize,
    /// The number at which the closed segment was closed, plus one, if writing it has failed; 0 otherwise.
    left: AtomicU64,
    segments: [Segment; 2],
    /// The buffer's number, unique in the process.
    identity: u64,
}

// SAFETY: only the current owner of bytes accesses them (invariant 2).
unsafe impl Sync for LogBuffer {}

impl std::fmt::Debug for LogBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogBuffer").field("number", &self.number()).finish_non_exhaustive()
    }
}

/// Room for a record in a buffer, to be filled once.
///
/// ```compile_fail,E0382
/// fn fill_twice(buffer: &logging::LogBuffer, room: logging::Room) {
///     buffer.fill(room, b"one");
///     buffer.fill(room, b"two");
/// }
/// ```
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a segment is written only once all its room is filled"]
pub struct Room {
    segment: usize,
    start: usize,
    bytes: usize,
    /// The identity of the buffer.
    buffer: u64,
}

impl Room {
    /// Returns the length of the record, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The buffer with its latch held.
#[derive(Debug)]
pub struct Latched<'a> {
    buffer: &'a LogBuffer,
    _guard: LatchGuard<'a>,
}

impl LogBuffer {
    /// Makes a buffer whose segments, and so batches, have at most this many bytes.
    pub(crate) fn new(largest_batch: usize, number: CommitOrder) -> Self {
        let capacity = SEGMENT.min(largest_batch);
        Self {
            latch: CachePadded::default(),
            number: AtomicU64::new(number.0),
            drawn: AtomicU64::new(0),
            current: AtomicUsize::new(0),
            taking: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            identity: NEXT_BUFFER.fetch_add(1, Ordering::Relaxed),
            segments: [Segment::new(capacity), Segment::new(capacity)],
        }
    }

    /// Returns the size of the largest record, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.segments[0].bytes.len()
    }

    /// Returns the greatest number given here so far.
    pub fn number(&self) -> CommitOrder {
        CommitOrder(self.number.load(Ordering::SeqCst))
    }

    /// Takes the latch.
    #[inline]
    pub fn latch(&self) -> Latched<'_> {
        Latched { buffer: self, _guard: self.latch.hold() }
    }

    /// Copies a record into its room.
    #[inline]
    pub fn fill(&self, room: Room, record: &[u8]) {
        assert_eq!(room.bytes, record.len(), "a record is as long as the room that was taken for it");
        assert_eq!(
            room.buffer, self.identity,
            "a record goes into the buffer in which room was taken for it"
        );
        let segment = &self.segments[room.segment];
        let target = segment.bytes[room.start..room.start + room.bytes].as_ptr();
        // SAFETY: the latch gave this range of this buffer to the room's owner alone, and `fill` consumes the
        // room. The range lies inside the segment, and the logger does not read it before it is filled.
        unsafe { std::ptr::copy_nonoverlapping(record.as_ptr(), UnsafeCell::raw_get(target), room.bytes) };
        // ORDERING: Release pairs with the Acquire in `take`: the logger sees the bytes.
        segment.filled.fetch_add(room.bytes as u64, Ordering::Release);
    }

    /// Appends a record whose number was drawn elsewhere; returns false when there is no room.
    #[inline]
    pub(crate) fn try_append(&self, record: &[u8], number: CommitOrder) -> bool {
        let latched = self.latch();
        let Some(room) = latched.take_room(record.len()) else { return false };
        latched.raise(number);
        latched.end_draw();
        drop(latched);
        self.fill(room, record);
        true
    }

    /// Returns whether a record would find room now.
    #[inline]
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let segment = &self.segments[self.current.load(Ordering::Relaxed)];
        bytes <= segment.bytes.len() - segment.allocated.load(Ordering::Relaxed) as usize
    }

    /// Returns whether the buffer has no bytes to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments[self.current.load(Ordering::Relaxed)].allocated.load(Ordering::Relaxed) == 0
            && self.left.load(Ordering::Relaxed) == 0
    }

    /// Closes the open segment, waits until its records are filled, and runs `write` on them and the number
    /// at which the segment was closed. That number is at least `raise`, unless a drawn number still waits
    /// for its record. One thread at a time calls this. After `write` fails, the next call runs it on the
    /// same records.
    ///
    /// # Panics
    /// Another thread is in this function.
    pub(crate) fn take<E>(
        &self,
        raise: CommitOrder,
        write: impl FnOnce(&[u8], CommitOrder) -> Result<(), E>,
    ) -> Result<CommitOrder, E> {
        assert_eq!(self.taking.swap(1, Ordering::Acquire), 0, "one logger at a time empties a buffer");
        let latched = self.latch();
        latched.raise(raise);
        let current = self.current.load(Ordering::Relaxed);
        let (closed, number) = match (self.left.load(Ordering::Relaxed), self.drawn.load(Ordering::Relaxed)) {
            (0, drawn) => {
                self.current.store(1 - current, Ordering::Relaxed);
                (current, if drawn == 0 { self.number() } else { CommitOrder(drawn - 1) })
            }
            (left, _) => (1 - current, CommitOrder(left - 1)),
        };
        drop(latched);
        let full = &self.segments[closed];
        let allocated = full.allocated.load(Ordering::Relaxed);
        let mut looks = 0u32;
        while full.filled.load(Ordering::Acquire) != allocated {
            looks += 1;
            if looks.is_multiple_of(PATIENCE) {
                yield_now();
            }
            spin_loop();
        }
        let bytes = full.bytes[..allocated as usize].as_ptr();
        // SAFETY: the segment is closed and all its allocated bytes are filled, so they belong to the logger.
        // No worker opens the segment again before the other one is closed, and that waits until this one is
        // empty (`left`).
        let bytes = unsafe { std::slice::from_raw_parts(UnsafeCell::raw_get(bytes), allocated as usize) };
        let written = write(bytes, number);
        if written.is_ok() {
            self.left.store(0, Ordering::Relaxed);
            full.filled.store(0, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `is_settled`: the bytes written before are durable.
            full.allocated.store(0, Ordering::Release);
        } else {
            self.left.store(number.0 + 1, Ordering::Relaxed);
        }
        self.taking.store(0, Ordering::Release);
        written.map(|()| number)
    }
}

impl Latched<'_> {
    /// Returns the greatest number given here so far.
    #[inline]
    pub fn number(&self) -> CommitOrder {
        self.buffer.number()
    }

    /// Makes all later numbers greater than `number`. Returns the greatest number so far.
    #[inline]
    pub fn raise(&self, number: CommitOrder) -> CommitOrder {
        let raised = self.number().max(number);
        self.buffer.number.store(raised.0, Ordering::SeqCst);
        raised
    }

    /// Returns whether there is room for a record.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.buffer.has_room(bytes)
    }

    /// Takes room for a record; `None` while the segment is full.
    #[inline]
    pub fn take_room(&self, bytes: usize) -> Option<Room> {
        let place = self.buffer.current.load(Ordering::Relaxed);
        let segment = &self.buffer.segments[place];
        let start = segment.allocated.load(Ordering::Relaxed) as usize;
        if bytes > segment.bytes.len() - start {
            return None;
        }
        segment.allocated.store((start + bytes) as u64, Ordering::Relaxed);
        Some(Room { segment: place, start, bytes, buffer: self.buffer.identity })
    }

    /// Declares that a number was drawn here and that its record takes room later. At most one such number
    /// exists, because its worker owns the buffer.
    pub fn begin_draw(&self, number: CommitOrder) {
        debug_assert_eq!(self.buffer.drawn.load(Ordering::Relaxed), 0);
        self.buffer.drawn.store(number.0, Ordering::Relaxed);
    }

    /// Declares that the drawn number's record has its room, or will never come.
    pub fn end_draw(&self) {
        self.buffer.drawn.store(0, Ordering::Relaxed);
    }

    /// Returns whether all records numbered here are durable.
    pub(crate) fn is_settled(&self) -> bool {
        let allocated = |segment: &Segment| segment.allocated.load(Ordering::Acquire);
        self.buffer.drawn.load(Ordering::Relaxed) == 0
            && self.buffer.segments.iter().all(|own| allocated(own) == 0)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    #[should_panic(expected = "the buffer in which room was taken")]
    fn room_is_of_one_buffer() {
        let buffers = [0, 0].map(|number| LogBuffer::new(SEGMENT, CommitOrder(number)));
        let room = buffers[0].latch().take_room(3).unwrap();
        buffers[1].fill(room, b"one");
    }

    #[test]
    #[should_panic(expected = "one logger at a time")]
    fn one_logger_empties_a_buffer() {
        let buffer = LogBuffer::new(SEGMENT, CommitOrder(0));
        let nothing = |_: &[u8], _| Ok::<(), ()>(());
        let _ = buffer.take(CommitOrder(0), |_, _| buffer.take(CommitOrder(0), nothing).map(|_| ()));
    }

    #[test]
    fn what_could_not_be_written_comes_again() {
        let buffer = LogBuffer::new(SEGMENT, CommitOrder(0));
        let mut seen = Vec::new();
        let mut take = |works: bool| {
            buffer.take(CommitOrder(0), |bytes, number| {
                seen.push((bytes.to_vec(), number.0));
                if works { Ok(()) } else { Err(()) }
            })
        };
        assert!(buffer.try_append(b"one", CommitOrder(1)));
        assert!(take(false).is_err());
        assert!(buffer.try_append(b"two", CommitOrder(2)));
        assert!(take(false).is_err());
        assert_eq!([take(true), take(true)], [Ok(CommitOrder(1)), Ok(CommitOrder(2))]);
        let one = || (b"one".to_vec(), 1);
        assert_eq!(seen, [one(), one(), one(), (b"two".to_vec(), 2)]);
        assert!(buffer.is_empty());
    }

    #[test]
    fn concurrent_records_all_arrive_whole() {
        const RECORDS: u64 = 20_000;
        let buffer = LogBuffer::new(SEGMENT, CommitOrder(0));
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
                            while !buffer.try_append(&record, CommitOrder(number)) {
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
                    let write = |mut bytes: &[u8], _| {
                        while !bytes.is_empty() {
                            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
                            let worker = bytes[8];
                            assert!(bytes[8..length].iter().all(|byte| *byte == worker));
                            seen[worker as usize] += 1;
                            bytes = &bytes[length..];
                        }
                        Ok::<(), ()>(())
                    };
                    buffer.take(CommitOrder(0), write).unwrap();
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
