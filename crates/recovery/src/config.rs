//! The settings of a recovery.

use crate::{Latches, Method, ReplayMode};
use logging::disk::DeviceOptions;
use native::Compile;
use std::path::PathBuf;

/// Default number of transactions that a parallel replay plans at a time.
pub const REPLAY_BATCH: usize = 2048;

/// The settings of a recovery.
#[derive(Clone, Debug)]
pub struct RecoveryConfig {
    /// The method that replays the log.
    pub method: Method,
    /// What `clr-p` may run at the same time.
    pub mode: ReplayMode,
    /// Number of threads that load the checkpoint, and that replay the log where the method uses several.
    pub threads: usize,
    /// Number of transactions that a parallel replay plans at a time.
    pub batch: usize,
    /// Whether `llr` and `plr` latch rows. `Off` only measures the cost of latches: the recovered state may
    /// be wrong.
    pub latches: Latches,
    /// Whether the rows of the checkpoint are compared with the digest in its manifest.
    pub verify: bool,
    /// Whether rows are brought back when they are first looked for, where the method allows it and nothing
    /// asks for the digest of the checkpoint. Up to `threads` workers then execute commands of the log.
    pub on_demand: bool,
    /// When procedures and pieces are compiled to machine code.
    pub compile: Compile,
    /// The kind of the log devices.
    pub device: DeviceOptions,
    /// The devices of a folder that does not exist yet. Files on them, without a pepoch file in the folder,
    /// are refused.
    pub new_devices: Vec<PathBuf>,
    /// Whether to leave out missing files and all later transactions, where that leaves an earlier state.
    pub accept_data_loss: bool,
    /// Number of worker slots of the database.
    pub workers: usize,
    /// Maximum size of rows and indexes, in bytes.
    pub memory_bytes: usize,
    /// Least size of the memory that is faulted in ahead of use, from the beginning of recovery on, in bytes;
    /// 0: none.
    pub memory_ahead_bytes: usize,
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self {
            method: Method::default(),
            mode: ReplayMode::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            batch: REPLAY_BATCH,
            latches: Latches::On,
            verify: false,
            on_demand: false,
            compile: Compile::default(),
            device: DeviceOptions::default(),
            new_devices: Vec::new(),
            accept_data_loss: false,
            workers: 256,
            memory_bytes: 64 << 30,
            memory_ahead_bytes: 256 << 20,
        }
    }
}
