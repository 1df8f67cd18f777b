//! When a constraint is checked: DEFERRABLE and INITIALLY DEFERRED.

use serde::{Deserialize, Serialize};

/// When a constraint is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Deferral {
    /// At the end of each statement: NOT DEFERRABLE.
    #[default]
    Never,
    /// At the end of each statement, unless the transaction defers it: DEFERRABLE.
    Immediate,
    /// At the end of the transaction, unless it asks for a check before: DEFERRABLE INITIALLY DEFERRED.
    Deferred,
}

impl Deferral {
    /// Returns the clause of the constraint's definition, with a space before it; empty if there is none.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Never => "",
            Self::Immediate => " DEFERRABLE",
            Self::Deferred => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}
