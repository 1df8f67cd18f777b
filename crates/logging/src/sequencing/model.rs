//! Models of Algorithms 1 and 2 with the commit queues: workers take numbers and room, loggers close
//! segments, and a client polls for its acknowledgement. Loom explores every memory order; shuttle runs
//! thousands of random schedules (PCT), also those that loom's reduction omits. The models check at any
//! moment:
//!
//! 1. no transaction is acknowledged that a recovery from the durable bytes would leave out;
//! 2. a recovered state is closed under reads-from: it has the reader of a write only together with the
//!    writer;
//! 3. of two transactions that wrote the same tuple, the later one has the greater number.
//!
//! Each rule, broken by hand, makes the test fail that names it.

use super::durability::{Bounds, Durability, DurableBuffer};
use super::{Commit, CommitQueue, LoggerTag};
use crate::buffer::LogBuffer;
use crate::logger::BatchEnds;
use crate::sync::model::{Arc, Mutex, check, thread};
use crate::sync::{AtomicU64, Ordering};
use catalog::CommitOrder;
use storage::Slot;

const RECORD: usize = 9;

/// A record: its number, and whether it counts alone.
fn record(number: CommitOrder, alone: bool) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&number.0.to_le_bytes());
    bytes[8] = alone.into();
    bytes
}

/// What a device holds: batches, each whole.
#[derive(Default)]
struct Device {
    batches: Vec<(BatchEnds, Vec<(CommitOrder, bool)>)>,
}

/// Loggers with their devices, and one tuple that all transactions use.
struct World {
    /// Whether numbers carry their loggers.
    is_tagged: bool,
    lanes: Vec<DurableBuffer>,
    devices: Vec<Mutex<Device>>,
    durability: Durability,
    /// The tuple's latch and the number of its last writer.
    tuple: Mutex<CommitOrder>,
    /// The greatest number of a transaction that has read the tuple.
    readers: AtomicU64,
}

/// A committed transaction, and its read set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Committed {
    commit: Commit,
    read_from: CommitOrder,
}

impl World {
    fn new(loggers: usize) -> Arc<Self> {
        Self::with(loggers, true)
    }

    fn with(loggers: usize, is_tagged: bool) -> Arc<Self> {
        let lane = |_| DurableBuffer::new(LogBuffer::new(4 * RECORD, CommitOrder(0)));
        Arc::new(Self {
            is_tagged,
            lanes: (0..loggers).map(lane).collect(),
            devices: (0..loggers).map(|_| Mutex::new(Device::default())).collect(),
            durability: Durability::from(CommitOrder(0)),
            tuple: Mutex::new(CommitOrder(0)),
            readers: AtomicU64::new(0),
        })
    }

    /// A transaction that reads and writes the tuple, or only something of its own. Paper: Poplar Algorithm
    /// 1.
    fn run(&self, logger: usize, uses_tuple: bool) -> Committed {
        let mut tuple = self.tuple.lock().unwrap();
        let observed = if uses_tuple { *tuple } else { CommitOrder(0) };
        let tag = LoggerTag::of(logger).filter(|_| self.is_tagged);
        let alone =
            self.durability.number().covers(observed) || tag.is_some_and(|tag| tag.has_alone(observed));
        let buffer = &self.lanes[logger].buffer;
        let latched = buffer.latch();
        let above = latched.number().max(observed);
        let number = tag.map_or(CommitOrder(above.0 + 1), |tag| tag.above(above, alone));
        let number = latched.raise(number);
        let room = latched.take_room(RECORD).expect("room for a few records");
        drop(latched);
        if uses_tuple {
            assert!(*tuple < number, "the write order of a tuple is the order of numbers");
            *tuple = number;
        }
        // Early lock release: other transactions may read a version whose record is not in the buffer yet.
        drop(tuple);
        buffer.fill(room, &record(number, alone));
        Committed { commit: Commit { number, worker: Slot(logger), alone }, read_from: observed }
    }

    /// Runs a transaction under `gsn` that reads the tuple and writes it if `writes`. Its number is drawn
    /// before its outcome is known, and orders overwrites after the reads.
    fn run_with_early_number(&self, logger: usize, writes: bool) -> Committed {
        let mut tuple = self.tuple.lock().unwrap();
        let (observed, readers) = (*tuple, CommitOrder(self.readers.load(Ordering::SeqCst)));
        let above = if writes { observed.max(readers) } else { observed };
        let buffer = &self.lanes[logger].buffer;
        let latched = buffer.latch();
        let number = latched.raise(CommitOrder(latched.number().max(above).0 + 1));
        latched.begin_draw(number);
        drop(latched);
        if writes {
            *tuple = number;
        } else {
            self.readers.fetch_max(number.0, Ordering::SeqCst);
        }
        drop(tuple);
        assert!(buffer.try_append(&record(number, false), number), "room for a few records");
        Committed { commit: Commit { number, worker: Slot(logger), alone: false }, read_from: observed }
    }

    /// A logger writes a batch. Paper: Poplar Algorithm 2.
    fn flush(&self, logger: usize) {
        let raise = self.lanes.iter().map(|lane| lane.buffer.number()).max().unwrap_or_default();
        let write = |bytes: &[u8], ends| {
            let records = bytes.chunks(RECORD).map(|bytes| {
                let number = bytes[..8].try_into().expect("eight bytes");
                (CommitOrder(u64::from_le_bytes(number)), bytes[8] != 0)
            });
            self.devices[logger].lock().unwrap().batches.push((ends, records.collect()));
            Ok(())
        };
        let bounds = Bounds { raise, complete: None };
        self.lanes[logger]
            .flush(|| self.lanes.iter(), bounds, &self.durability, write)
            .expect("it is written");
    }

    fn is_durable(&self, commit: Commit) -> bool {
        let own = self.lanes[commit.worker.0].durable();
        self.durability.number().covers(commit.number) || commit.alone && own.covers(commit.number)
    }

    /// Returns the numbers that a recovery would take now, by device. Paper: Poplar §5.
    fn recovered(&self) -> Vec<Vec<CommitOrder>> {
        let devices: Vec<_> = self.devices.iter().map(|device| device.lock().unwrap()).collect();
        let last = |device: &Device| device.batches.last().map_or(CommitOrder(0), |(ends, _)| ends.completed);
        let completed = devices.iter().map(|device| last(device)).min().unwrap_or_default();
        let batches = devices.iter().flat_map(|device| &device.batches);
        let vouched = batches.map(|(ends, _)| ends.vouched).max().unwrap_or_default();
        let cut = completed.max(vouched);
        let counts = |(number, alone): &(CommitOrder, bool)| (*number <= cut || *alone).then_some(*number);
        let of = |device: &Device| {
            device.batches.iter().flat_map(|(_, records)| records.iter().filter_map(counts)).collect()
        };
        devices.iter().map(|device| of(device)).collect()
    }

    /// Acknowledges all commits that may be. Each must be recovered, together with the transactions that it
    /// read from.
    fn check(&self, all: &[Committed]) {
        let mut queue = CommitQueue::default();
        all.iter().for_each(|own| queue.push(own.commit, *own));
        let mut acknowledged = Vec::new();
        while let Some(done) = queue.pop_durable(|commit| self.is_durable(commit)) {
            acknowledged.push(done);
        }
        let recovered = self.recovered();
        let is_there = |commit: Commit| recovered[commit.worker.0].contains(&commit.number);
        for Committed { commit, .. } in acknowledged {
            assert!(is_there(commit), "{commit:?} was acknowledged and is lost");
        }
        for Committed { commit, read_from } in all {
            let is_closed =
                *read_from == CommitOrder(0) || recovered.iter().flatten().any(|own| own == read_from);
            assert!(
                !is_there(*commit) || is_closed,
                "{commit:?} is there, and not {read_from:?}, which it had read"
            );
        }
    }
}

/// Trap 2: a segment's number is read under the latch that closes it.
#[test]
fn a_durable_number_claims_no_bytes_that_are_not_flushed() {
    check(|| {
        let world = World::new(1);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || [world.run(0, false), world.run(0, false)])
        };
        world.flush(0);
        let (durable, device) = (world.lanes[0].durable().order(), world.recovered());
        for Committed { commit, .. } in worker.join().unwrap() {
            assert!(
                commit.number > durable || device[0].contains(&commit.number),
                "{commit:?} is called durable, as {durable:?} is"
            );
        }
    });
}

/// A segment is written once all its records are filled.
#[test]
fn no_record_is_written_before_it_is_whole() {
    check(|| {
        let world = World::new(1);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.run(0, false))
        };
        world.flush(0);
        world.flush(0);
        let own = worker.join().unwrap();
        world.flush(0);
        assert_eq!(world.recovered(), [[own.commit.number]]);
    });
}

/// Reads-from across buffers: the reader's record may be durable before its writer's.
#[test]
fn what_is_recovered_is_closed_under_reads_from() {
    check(|| {
        let world = World::new(2);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.run(0, true))
        };
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let own = world.run(1, true);
                world.flush(1);
                world.check(&[own]);
                own
            })
        };
        world.flush(0);
        let all = [writer.join().unwrap(), reader.join().unwrap()];
        world.check(&all);
        world.flush(1);
        world.check(&all);
    });
}

/// Trap 1: an idle buffer counts only once the log states durably that it will add no lower number.
#[test]
fn an_idle_buffer_does_not_hold_up_and_does_not_lie() {
    check(|| {
        let world = World::with(2, false);
        // The second one depends on an undurable version, so it waits for all buffers.
        let (first, second) = (world.run(0, true), world.run(0, true));
        let late = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let own = world.run(1, false);
                world.check(&[own]);
                own
            })
        };
        world.flush(0);
        world.check(&[first, second]);
        let all = [first, second, late.join().unwrap()];
        world.check(&all);
        world.flush(1);
        world.flush(0);
        world.check(&all);
        let held_up = all.iter().find(|own| !world.is_durable(own.commit));
        assert_eq!(held_up, None, "everything is written, and yet it is held up");
    });
}

/// A vouched number is durable with its batch: a crash may come before the idle logger writes a batch.
#[test]
fn what_was_vouched_for_is_recovered() {
    check(|| {
        let world = World::with(2, false);
        let (first, second) = (world.run(0, true), world.run(0, true));
        let logger = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.flush(0))
        };
        world.check(&[first, second]);
        logger.join().unwrap();
        assert!(world.is_durable(second.commit), "the other logger has nothing to write");
        world.check(&[first, second]);
    });
}

/// Trap 3: a transaction that has read a version counts alone only if that version is durable.
#[test]
fn only_what_has_read_nothing_undurable_counts_alone() {
    check(|| {
        let world = World::new(2);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let own = world.run(0, true);
                world.flush(0);
                world.check(&[own]);
                own
            })
        };
        let second = world.run(1, true);
        world.flush(1);
        world.check(&[second]);
        world.check(&[writer.join().unwrap(), second]);
    });
}

/// A transaction counts alone if each version that it read is durable, or counts alone in the same log. Any
/// other read version excludes that, even in the same log.
#[test]
fn what_depends_on_its_own_log_counts_alone_if_that_does() {
    check(|| {
        let world = World::new(2);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.run(0, true))
        };
        let (first, second) = (world.run(1, true), world.run(1, true));
        world.flush(1);
        world.check(&[first, second]);
        if first.commit.alone {
            assert!(second.commit.alone || second.read_from != first.commit.number);
        }
        let all = [writer.join().unwrap(), first, second];
        world.check(&all);
        world.flush(0);
        world.check(&all);
    });
}

/// `gsn`: between the draw of a number and its record, no logger may call the buffer complete, not even its
/// own.
#[test]
fn a_number_that_is_drawn_is_vouched_for_by_nobody() {
    check(|| {
        let world = World::new(2);
        let worker = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let own = world.run_with_early_number(1, true);
                world.check(&[own]);
                own
            })
        };
        let own = world.run_with_early_number(0, false);
        world.flush(0);
        world.check(&[own]);
        world.flush(1);
        let other = worker.join().unwrap();
        world.check(&[own, other]);
    });
}

/// `gsn`: numbers are a serial order, overwriting after reading included.
#[test]
fn a_writer_over_what_was_read_has_the_greater_number() {
    check(|| {
        let world = World::new(2);
        // Puts the reader's buffer ahead.
        world.run(0, false);
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.run_with_early_number(1, true))
        };
        let reader = world.run_with_early_number(0, false);
        let writer = writer.join().unwrap();
        let saw_it = reader.read_from == writer.commit.number;
        assert_eq!(saw_it, reader.commit.number > writer.commit.number);
    });
}
