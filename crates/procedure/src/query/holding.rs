//! Rows of a query that are held until the transaction ends: FOR UPDATE, FOR SHARE.

use crate::{HoldStrength, Register};
use catalog::TableId;

/// A table whose rows are held.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HeldTable {
    /// The table.
    pub table: TableId,
    /// The register of its row's handle; NULL if an outer join found no row.
    pub handle: Register,
    /// Which other transactions may hold the rows, too.
    pub strength: HoldStrength,
}

/// The treatment of a row that another transaction holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldRows {
    /// The statement waits for that transaction.
    Wait,
    /// The statement fails: NOWAIT.
    Fail,
    /// The row is left out: SKIP LOCKED.
    Skip {
        /// Whether the query reads nothing but the tables whose rows are held.
        is_alone: bool,
    },
}
