//! How a transaction changed a row, as records of value logs name it.

/// The kind of a row's change, and the columns that its log record carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowChange {
    /// The row is new; the record carries all columns.
    Insert,
    /// Some columns changed; the record carries them and the primary key.
    Update,
    /// The row was deleted; the record carries the primary key.
    Delete,
}
