//! Records, indexes, epochs and memory reclamation, snapshots, digests: the state in main memory.
//!
//! This crate holds the unsafe code of the engine, in named modules: `memory` (arenas), `record` (row words),
//! `index` (tree nodes, keys) and `worker` (reclamation). All shared words are atomics, so optimistic readers
//! race with writers without undefined behaviour and validate afterwards. A reader has a `Guard` (`worker`),
//! which keeps its pointers valid; memory is reclaimed by epochs (`epoch`).
//!
//! Not here: the choice of the versions that a transaction reads or writes (`transaction`).

mod epoch;
mod latch;
mod sync;

#[cfg(not(loom))]
mod digest;
#[cfg(not(loom))]
mod index;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod retired;
#[cfg(not(loom))]
mod slots;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod worker;

pub use epoch::{Epochs, Slot};
pub use latch::{Latch, Version};

#[cfg(not(loom))]
pub use self::{
    digest::{Digest, TableDigest},
    index::{
        Added, Cursor, Direction, Fingers, Index, KeyRange, LeafChange, LeafObservation, Linked, Search,
        ShortKey,
    },
    memory::{Memory, OutOfMemory},
    record::{Change, Handle, Held, NewState, Record, RecordState, RowWords, SlotArray, look_again},
    slots::{SlotCells, Slots},
    snapshot::{Snapshot, Snapshots, is_needed},
    table::{DuplicateKey, Linker, TableStore},
    worker::{ActiveGuard, Guard, Worker},
};
