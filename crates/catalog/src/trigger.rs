//! The triggers of a table.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The statements that fire a trigger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TriggerEvent {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

impl TriggerEvent {
    /// All events.
    pub const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];
}

impl fmt::Display for TriggerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        })
    }
}

/// When a trigger fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TriggerTiming {
    /// Before the row or the statement.
    Before,
    /// At the end of the statement.
    After,
}

impl fmt::Display for TriggerTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        })
    }
}

/// A trigger. The field names are a format, as those of `Table` are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// When it fires.
    pub timing: TriggerTiming,
    /// The statements that fire it.
    pub events: Vec<TriggerEvent>,
    /// UPDATE OF: an UPDATE that sets none of these columns does not fire it. Empty for every UPDATE.
    pub columns: Vec<String>,
    /// Whether it fires for each row, and not once for a statement.
    pub for_each_row: bool,
    /// WHEN, as SQL text.
    pub condition: Option<String>,
    /// The name of the function that it calls.
    pub function: String,
    /// The arguments of the function, TG_ARGV.
    pub arguments: Vec<String>,
    /// Whether it fires at all.
    pub enabled: bool,
}
