//! Concurrency control: one file a scheme.

mod access;
mod expected;
mod occ;

pub use expected::Expectations;
pub use occ::{Committed, Occ};
