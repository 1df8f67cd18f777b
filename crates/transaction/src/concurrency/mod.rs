//! Concurrency control: one file a scheme.

mod access;
mod describe;
mod expected;
mod listen;
mod occ;

pub use describe::{Described, Description};
pub use expected::Expectations;
pub use listen::{CommitLog, Observed, Writing};
pub use occ::{Committed, Occ};
