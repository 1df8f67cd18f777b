//! The page at the HTTP address, for operators: one file of HTML, and the state of the server as JSON, which
//! it asks for each second.
//!
//! Invariants: 1. with a list of users, only their passwords show the page, its state and its graphs. 2. the
//! page puts texts of users into the document as text alone, never as HTML; its Content-Security-Policy
//! admits no script but its own. 3. no call takes a lock that the page holds, but the one of its connection's
//! presence, for the time of a copy.
//! Held by: `crates/server/tests/suite/page.rs`.

pub(crate) mod answers;
mod graphs;
mod guard;
mod history;
mod keeper;
mod state;

pub(crate) use history::Totals;

use graphs::Graphs;
use history::History;
use keeper::Keeper;
use std::sync::Mutex;

/// What the server keeps for its page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) history: Mutex<History>,
    keeper: Keeper,
    graphs: Mutex<Graphs>,
}
