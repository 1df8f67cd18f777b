//! Concurrency control: one file a scheme.

mod access;
mod describe;
mod expected;
mod occ;

pub use describe::Description;
pub use expected::Expectations;
pub use occ::{Committed, Occ};
