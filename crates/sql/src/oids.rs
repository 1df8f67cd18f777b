//! The numbers of objects in the system catalogs (OIDs). They follow from the numbers of the catalog.

use catalog::{Index, Table};
use procedure::Procedure;

pub(crate) fn table_oid(table: &Table) -> i64 {
    16_384 + i64::from(table.id.0)
}

pub(crate) fn index_oid(index: &Index) -> i64 {
    1_000_000 + i64::from(index.id.0)
}

pub(crate) fn routine_oid(procedure: &Procedure) -> i64 {
    3_000_000 + i64::from(procedure.id.0)
}
