//! The numbers of objects in the system catalogs (OIDs). They follow from the numbers of the catalog.

use catalog::{Index, IndexId, Table, TableId};
use procedure::Procedure;

/// The number of the table 0.
pub(crate) const FIRST_TABLE: i64 = 16_384;

/// Returns the number of a table in `pg_class`.
pub fn number_of(table: TableId) -> i64 {
    FIRST_TABLE + i64::from(table.0)
}

/// Returns the table with a number in `pg_class`.
pub fn table_of(number: i64) -> Option<TableId> {
    u32::try_from(number - FIRST_TABLE).ok().map(TableId)
}

pub(crate) fn table_oid(table: &Table) -> i64 {
    number_of(table.id)
}

pub(crate) fn index_oid(index: &Index) -> i64 {
    key_oid(index.id)
}

pub(crate) fn key_oid(index: IndexId) -> i64 {
    1_000_000 + i64::from(index.0)
}

pub(crate) fn routine_oid(procedure: &Procedure) -> i64 {
    3_000_000 + i64::from(procedure.id.0)
}
