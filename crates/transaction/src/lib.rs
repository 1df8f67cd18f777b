//! Transactions at run time: what a call reads and writes, and the concurrency control that makes it serializable.
//!
//! Not here: what makes a commit durable (`logging`), how commits come back (`recovery`).

mod access_numbers;
mod changes;
mod concurrency;
mod digest;
mod garbage;
mod reservations;
mod tables;

pub use concurrency::{
    CommitLog, Committed, Described, Description, Expectations, Observed, Occ, Reader, Savepoint, Writing,
};
pub use reservations::Reservations;
pub use tables::{Applying, Counters, Tables, check_bounds, exhausted};
