//! ON COMMIT of temporary tables.

use serde::{Deserialize, Serialize};

/// What the end of each transaction of the session does to a temporary table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum OnCommit {
    /// Its rows stay.
    #[default]
    Preserve,
    /// Its rows are deleted.
    Delete,
    /// It is dropped.
    Drop,
}

impl OnCommit {
    /// Returns whether the rows stay.
    pub fn is_preserve(&self) -> bool {
        *self == Self::Preserve
    }
}
