//! Schedules: transactions of any source run in parallel without concurrency control, as one serial run of
//! them in their order would.
//! Paper: PACMAN §§4.2–4.4.
//!
//! One run, under definitions that do not change:
//!
//! 1. `procedure::analysis` has cut each program into pieces, one a block at most, and ordered the blocks.
//! 2. `Programs::new` decides from a sample of the transactions which blocks fall into partitions (`sample`).
//! 3. A thread claims the next batch of the source, and sorts its transactions into units by block and
//!    partition (`plan`).
//!    Where keys follow from results, this waits for the blocks that send them (`assign`).
//! 4. A partition of a block runs once the blocks before it are done with the batch, and the same partition
//!    is done with the batch before (`readiness`). Its units run in commit order (`run`) on an `Access`.
//! 5. Pieces hand results to later pieces of the same transaction on tapes (`tape`).
//! 6. Once all partitions of a batch are done, the writes of each call are compared with its record
//!    (`written`), and the source is told.
//!
//! `closures` runs the transactions of a log in another way: those first whose rows are wanted.
//!
//! The source may be a log, a queue or a stream: the run ends when the source says so.
//!
//! Invariant: two units that touch the same row, one of them writing, run in commit order. Held by: the
//! digests of `crates/reprise/tests/suite/parallel_replay`.
//! Not here: where transactions come from (`recovery` reads logs); how rows are read and written (`Access`).

mod arguments;
mod assign;
pub mod closures;
mod definitions;
mod divergence;
pub mod graph;
mod measure;
mod plan;
mod programs;
mod readiness;
mod run;
mod sample;
mod settings;
mod source;
mod tape;
mod unit;
mod values;
mod workers;
mod written;

pub use definitions::Definitions;
pub use divergence::{Divergence, RecordedCall, in_words, malformed_writes, writes_diverged};
pub use measure::{BlockMeasures, Breakdown, Measured, ThreadTimes};
pub use programs::Programs;
pub use run::Access;
pub use sample::SAMPLED;
pub use settings::{Mode, Settings};
pub use source::{Batch, Body, Next, Source, Transaction};
pub use values::ValueWriter;
pub use workers::RunError;
