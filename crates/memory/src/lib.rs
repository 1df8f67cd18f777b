//! The account of memory: what the process has, and who may have more.
//!
//! A program that installs `Metered` as its allocator has every byte counted: rows and indexes, what
//! statements keep, results that wait for clients. A database has one `Account` with its limit; a statement
//! has a `Grant`, which it asks before it grows. Statements ask once in `CREDIT` bytes, and threads tell what
//! they have taken once in `UNTOLD` bytes, so no counter is contended.
//!
//! Not here: the arenas of rows and indexes (`storage::memory`), the limits of one statement's values
//! (`procedure::Machine`).

mod account;
mod give_back;
mod meter;

pub use account::{Account, CREDIT, Grant, Refused, Reserved};
pub use give_back::{give_back, give_back_by, give_back_here, times_freed};
pub use meter::{Metered, apart, is_metered, process_bytes, thread_bytes, thread_ends};
