//! Concurrency control: one file a scheme.

mod access;
mod occ;

pub use occ::{Committed, Occ};
