//! Concurrency control: one file a scheme.

mod access;
mod commit;
mod describe;
mod expected;
mod holding;
mod leaves;
mod occ;
mod reader;
mod savepoint;
mod scans;

pub use describe::{Described, Description};
pub use expected::Expectations;
pub use holding::{Holding, WaitInPlace};
pub use occ::Occ;
pub use reader::Reader;
pub use savepoint::Savepoint;
