//! What a transaction did to a row, as logs by value name it.

/// What happened to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// There was none with its key; all columns are given.
    Insert,
    /// Some columns changed; they and the primary key are given.
    Update,
    /// It is gone; the primary key is given.
    Delete,
}
