//! The page at the HTTP address, for operators: one file of HTML, and the state of the server as JSON, which
//! it asks for each second.
//!
//! Invariants: 1. with a list of users, only their passwords show the page, its state and its graphs. 2. the
//! page puts texts of users into the document as text alone, never as HTML; its Content-Security-Policy
//! admits no script but its own. 3. the only lock that both a call and the page take is the one of the
//! connection's `Presence`, which the page holds while it copies the state.
//! Held by: `crates/server/tests/suite/page.rs`.

pub(crate) mod answers;
mod graphs;
mod guard;
mod history;
mod passwords;
mod state;

pub(crate) use history::Totals;

use graphs::Graphs;
use history::History;
use passwords::PasswordChecker;
use std::sync::Mutex;

/// The state of the server for its page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) history: Mutex<History>,
    passwords: PasswordChecker,
    graphs: Mutex<Graphs>,
}
