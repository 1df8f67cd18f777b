//! Counts the memory of the process, and limits that of databases and statements.
//!
//! A program that installs `Metered` as its allocator counts every byte: rows and indexes, memory of
//! statements, results that wait for clients. A database has one `Account` with its limit. A statement has a
//! `Grant`, which it asks before it grows. Statements ask once in `CREDIT` bytes, and threads report their
//! bytes once in `UNREPORTED` bytes, so no counter is contended.
//!
//! Not here: the arenas of rows and indexes (`storage::memory`), the limits of one statement's values
//! (`procedure::Machine`).

mod account;
mod give_back;
mod meter;

pub use account::{Account, CREDIT, Grant, Refused, Reserved};
pub use give_back::{give_back, give_back_by, give_back_here, times_freed};
pub use meter::{Metered, apart, is_metered, process_bytes, thread_bytes, thread_ends};
