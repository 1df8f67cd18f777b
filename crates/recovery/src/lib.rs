//! Recovery: the newest checkpoint, the log of all devices up to the cut, and replay.
//!
//! | what the log holds | what recovery does |
//! |---|---|
//! | a checkpoint before it | its definitions are applied, its rows are loaded in parallel |
//! | logs of earlier incarnations | records count up to the cut that the pepoch file gives |
//! | the log of the last incarnation | records count up to the number to which all its loggers are complete, or were vouched for, and those of its companions (shadow logs); past that, those that count alone |
//! | a fuzzy checkpoint | its rows have their own numbers: `poplar`, `llr` and `plr` let the last writer win |
//! | commands and writes by value | `clr` and `clr-p` run the procedures again; writes alone `llr`, `llr-p` and `poplar` replay too |
//! | physical records | `plr` writes slots |
//! | operations and outcomes | `aries` redoes what counts, and undoes what had not committed |
//! | records that the method asked for does not replay | an error that names the one that does |
//!
//! What is found at the start, with missing, older and foreign files, is a table in docs/recovery.md.
//!
//! Recovery only reads. Recovering twice gives the same state; a crash during recovery changes nothing.
//! Not here: making the cut durable before new transactions run (`reprise`).

mod completeness;
mod error;
mod log;
mod progress;
mod recover;
mod replay;

pub use error::RecoveryError;
pub use log::LogContents;
pub use progress::{Progress, Stage};
pub use recover::{REPLAY_BATCH, Recovered, RecoveryConfig, RecoveryReport, recover};
pub use replay::{Latches, Method};
pub use schedule::{BlockMeasures, Breakdown as ReplayBreakdown, Mode as ReplayMode, ThreadTimes};
