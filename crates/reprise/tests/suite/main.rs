//! The promises of the database, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acknowledged_commits_survive_kill;
mod adaptive;
mod altered_files;
mod answers_are_durable;
mod backups;
mod bulk_load;
mod checkpoints;
mod common;
mod constraints;
mod crash_consistency;
mod definitions;
mod definitions_in_checkpoints;
mod definitions_in_transactions;
mod definitions_that_count;
mod devices;
mod golden_folders;
mod histories;
mod holding;
mod interleaved;
mod large_transactions;
mod losers;
mod nesting;
mod parallel_replay;
mod queries;
mod read_only;
mod recovery_survives_kill;
mod savepoints;
mod sequences;
mod sequencings;
mod serializability;
mod shadow_logs;
mod snapshots;
mod steps;
mod waiting;
