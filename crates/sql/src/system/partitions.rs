//! The relations of `pg_catalog` about partitions.

use super::{BOOL, Cell, INT, INTS, SystemRelation, TEXT};
use crate::oids::table_oid;
use crate::schema::Schema;

impl Schema {
    /// Returns whether a name is that of an index of a partition.
    pub(super) fn is_index_of_partition(&self, name: &str) -> bool {
        self.partitions.tables().flat_map(|(_, table)| &table.indexes).any(|index| index.name == name)
    }

    pub(super) fn pg_inherits(&self) -> SystemRelation {
        let columns = [("inhrelid", INT), ("inhparent", INT), ("inhseqno", INT), ("inhdetachpending", BOOL)];
        let rows = self.inherited().into_iter();
        let rows = rows.map(|own| vec![own.child.into(), own.parent.into(), 1.into(), false.into()]);
        SystemRelation::new(&columns, rows.collect())
    }

    pub(super) fn pg_partitioned_table(&self) -> SystemRelation {
        let columns = [
            ("partrelid", INT),
            ("partstrat", TEXT),
            ("partnatts", INT),
            ("partdefid", INT),
            ("partattrs", INTS),
            ("partcollation", INTS),
            ("partexprs", TEXT),
        ];
        let rows = self.divided_tables().into_iter().map(|own| {
            let collation = |column: &usize| {
                if own.table.columns[*column].ty.element().is_text() { 100 } else { 0 }
            };
            vec![
                table_oid(own.table).into(),
                own.strategy.name()[..1].into(),
                (own.columns.len() as i64).into(),
                own.default.into(),
                Cell::Ints(own.columns.iter().map(|column| *column as i64 + 1).collect()),
                Cell::Ints(own.columns.iter().map(collation).collect()),
                Cell::Null,
            ]
        });
        SystemRelation::new(&columns, rows.collect())
    }
}
