//! Transactions at run time: what a call reads and writes, and the concurrency control that makes it
//! serializable.
//!
//! Not here: what makes a commit durable (`logging`), how commits come back (`recovery`).

mod aborts;
mod census;
mod commit;
mod concurrency;
mod digest;
mod garbage;
mod gate;
mod heat;
mod holds;
mod on_demand;
mod record;
mod tables;
#[cfg(test)]
mod testing;
mod workspace;

pub use aborts::{AbortCounters, AbortReason, Aborts};
pub use census::TableCensus;
pub use commit::{CommitError, CommitPipeline, Committed, LoggedBy, Outcome};
pub use concurrency::{Concurrency, Optimistic, Reader, Scheme, TwoPhase};
pub use gate::{BlocksBy, Gate, Passed};
pub use holds::{AwaitsAll, Blocker, DeadlockPolicy, Holds, Mode, Refusal};
pub use on_demand::{Intent, Place, RowsOnDemand};
pub use record::{Adaptive, EndedBatch, FIRST_COMMIT_OF_REPLAY, Recovered, RecoveryTargets};
pub use tables::{Applying, CounterPlaces, Counters, SequenceRow, Tables, check_bounds, exhausted};
pub use workspace::{
    Described, Description, Expectations, Holding, RowWordCount, Savepoint, WaitInPlace, Workspace,
};
