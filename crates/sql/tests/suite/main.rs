//! The promises of the binder and the analysis, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analysis;
mod definitions;
mod document;
mod plans;
mod walks;
