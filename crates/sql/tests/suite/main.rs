//! The promises of the binder and the analysis, a module each.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analysis;
mod comments;
mod definitions;
mod document;
mod plans;
mod unbound;
mod walks;
