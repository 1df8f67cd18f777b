//! Transactions at run time: what a call reads and writes, and the concurrency control that makes it serializable.
//!
//! Not here: what makes a commit durable (`logging`), how commits come back (`recovery`).

mod access_numbers;
mod changes;
mod concurrency;
mod digest;
mod garbage;
mod heat;
mod holds;
mod tables;

pub use concurrency::{
    CommitLog, Committed, Described, Description, Expectations, Holding, Occ, Reader, Savepoint, WaitInPlace,
    Writing,
};
pub use holds::{AwaitsAll, Blocker, Deadlock, Holds};
pub use tables::{Applying, Counters, Tables, check_bounds, exhausted};
