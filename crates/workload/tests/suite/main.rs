//! The workloads and the answers of SQL, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod bodies;
mod constraints;
mod document;
mod every_recovery;
mod expressions;
mod postgresql;
mod queries;
mod reservations;
mod roles;
mod server;
mod sums;
mod values;
