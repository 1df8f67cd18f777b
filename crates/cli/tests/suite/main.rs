//! The promises of the `reprise` program, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backups;
mod commands;
mod common;
mod concurrency;
mod guide;
mod hostile;
mod memory;
mod report;
mod serve;
mod under_load;
