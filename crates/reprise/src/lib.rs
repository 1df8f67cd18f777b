//! Reprise: a main-memory database whose transactions are stored procedures.
//!
//! Its command log holds calls instead of changed rows; recovery runs the calls again.
//!
//! ```
//! use reprise::{Config, Database, params};
//!
//! # fn main() -> Result<(), reprise::Error> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let folder = folder.path();
//! let db = Database::open(folder, Config::default())?;
//! let mut session = db.session()?;
//! session.execute_script(
//!     "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
//!      INSERT INTO counters VALUES ('visits', 0);
//!      CREATE PROCEDURE visit(OUT total BIGINT) LANGUAGE plpgsql AS $$
//!      BEGIN
//!          UPDATE counters SET value = value + 1 WHERE name = 'visits' RETURNING value INTO total;
//!      END $$;",
//! )?;
//! let done = session.call("visit", params![])?; // executed now
//! done.commit.wait()?; // durable now; `done.commit.await?` blocks no thread
//! assert_eq!(done.rows[0][0].to_string(), "1");
//! # Ok(()) }
//! ```
//!
//! This crate connects the crates of the engine, which ARCHITECTURE.md describes.

mod backup;
mod batches;
mod commit;
mod config;
mod database;
mod definitions;
mod drain;
mod error;
mod inner;
mod load;
mod maintenance;
mod moment;
mod opening;
mod overview;
mod password;
mod recovering;
mod rows;
mod sequences;
mod session;
mod session_numbers;
mod temporary;
mod worker;

pub use backup::{Backup, copy_database};
pub use catalog::{
    Arena, CommitOrder, Datum, Decimal, Epoch, Interval, NoZone, Numeric, ScalarType, SessionZone, Type,
    Value,
};
pub use checkpoint::CheckpointSummary;
pub use commit::{Commit, Executed};
pub use config::Config;
pub use database::{Database, Statistics};
pub use error::Error;
pub use load::Loader;
pub use logging::Commit as CommitPoint;
pub use logging::content::Images;
pub use logging::disk::{DeviceOptions, LogIo};
pub use logging::{CommitQueue, Content, LogStatistics, Sequencing, disk};
pub use memory::{Account, Reserved};
pub use native::Compile;
pub use opening::{Lock, read_alone};
pub use overview::{LastCheckpoint, LogDevice, Overview};
pub use password::verifier;
pub use procedure::{
    Conflict, CurrentNumbers, ErrorObject, Notice, Notification, Notifications, Nowhere, RecoveryProgress,
    RowSink, Severity, SqlError,
};
pub use recovery::{Method, Progress, RecoveryReport, ReplayMode, Stage};
pub use rows::{Column, Row};
pub use session::{
    Access, Attempt, Completion, Parameters, Session, StartedCall, Statement, ToStatement, TransactionState,
};
pub use sql::{ColumnOrigin, Prepared};
pub use storage::{Digest, TableDigest};
pub use temporary::TemporarySchema;
pub use transaction::{AbortReason, Aborts, BlocksBy, Refusal, Scheme};
pub use worker::Busy;

/// The arguments of a call: `params![1, "text", None::<i32>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::Value::from($value)),*][..] as &[$crate::Value]
    };
}
