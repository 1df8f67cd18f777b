//! Recovery: the newest checkpoint, the log of all devices up to the cut, and replay.
//!
//! 1. `find` reads the pepoch file, the manifest and the logs, proves that they are complete, and cuts the
//!    log.
//! 2. `prepare` applies the definitions of the checkpoint and loads its rows.
//! 3. `replay` runs one method over them; `replay::Method` has the table of the methods.
//!
//! | in the folder | recovery |
//! |---|---|
//! | a checkpoint | its definitions are applied, its rows are loaded in parallel |
//! | logs of earlier incarnations | records count up to the cut in the pepoch file |
//! | the log of the last incarnation | records count up to its durable number, or alone |
//! | a fuzzy checkpoint | rows have their own numbers: `poplar`, `llr` and `plr` let the last writer win |
//! | commands, with writes by value | `clr` and `clr-p` run the procedures again |
//! | writes by value alone | `llr`, `llr-p` and `poplar` replay them too |
//! | physical records | `plr` writes slots |
//! | operations and outcomes | `aries` redoes committed operations, and undoes those without an outcome |
//! | records that the method does not replay | an error names a method that does |
//!
//! The durable number of an incarnation is the number up to which all its loggers are complete or vouched
//! for, and so are the loggers of its companions (shadow logs). `logging::content::Stamp` says which records
//! count alone.
//!
//! docs/recovery.md has a table of all startup cases, with missing, older and foreign files.
//!
//! Invariant: recovery only reads. Recovering twice gives the same state; a crash during recovery changes
//! nothing. Held by: `crates/reprise/tests/suite/recovery_survives_kill.rs`.
//! Not here: making the cut durable before new transactions run (`reprise`).

mod completeness;
mod config;
mod error;
mod find;
mod log;
mod on_demand;
mod prepare;
mod progress;
mod recover;
mod replay;
mod report;

pub use config::{REPLAY_BATCH, RecoveryConfig};
pub use error::RecoveryError;
pub use log::LogContents;
pub use on_demand::Pending;
pub use progress::{Progress, Stage};
pub use recover::{Recovered, recover};
pub use replay::{Latches, Method};
pub use report::RecoveryReport;
pub use schedule::{BlockMeasures, Breakdown as ReplayBreakdown, Mode as ReplayMode, ThreadTimes};
