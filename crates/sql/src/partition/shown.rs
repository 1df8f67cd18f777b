//! Partitions in the system catalogs: each is shown as a table with the columns, CHECKs and keys of its root.

use super::bound::values_text;
use super::hash::Share;
use super::index_names::partition_index;
use super::literal::plain;
use super::{Bound, Partition, Strategy};
use crate::oids::{index_oid, number_of, table_oid};
use crate::quoted::quoted;
use crate::schema::Schema;
use catalog::{Index, IndexId, Table, TableId};
use std::sync::Arc;

/// The numbers of the first shown table and of its first index. Tables of the catalog have smaller ones.
const FIRST_TABLE: u32 = 300_000;
const FIRST_INDEX: u32 = 500_000;
/// Numbers of indexes that each shown table has.
const INDEXES_OF_A_TABLE: u32 = 64;

/// A relation that inherits another one, by their OIDs.
pub(crate) struct Inherited {
    pub(crate) child: i64,
    pub(crate) parent: i64,
}

/// A partitioned table, as `pg_partitioned_table` has it.
pub(crate) struct Divided<'a> {
    pub(crate) table: &'a Table,
    pub(crate) strategy: Strategy,
    pub(crate) columns: Vec<usize>,
    /// The OID of the default partition; 0 without one.
    pub(crate) default: i64,
}

impl Schema {
    /// Returns the table as which the catalogs show a partition of a root.
    pub(super) fn table_of_partition(&self, name: &str, partition: &Partition, root: &Table) -> Table {
        let mut table = Table::clone(root);
        table.id = TableId(FIRST_TABLE + partition.number);
        name.clone_into(&mut table.name);
        table.triggers.clear();
        table.foreign_keys.clear();
        for column in table.columns.iter_mut().filter(|column| column.identity.is_some()) {
            (column.identity, column.default) = (None, None);
        }
        partition.set_defaults(&mut table.columns);
        for (position, index) in table.indexes.iter_mut().enumerate() {
            let own = partition.indexes.iter().find(|(_, of_root)| **of_root == index.name);
            let own = own.map(|(own, _)| own.clone());
            index.name = own.unwrap_or_else(|| partition_index(name, root, index).base_in_schema());
            index.id = IndexId(FIRST_INDEX + partition.number * INDEXES_OF_A_TABLE + position as u32);
        }
        table
    }

    /// Returns the tables and sequences of the catalog, and those as which partitions are shown.
    pub(crate) fn shown_tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.catalog.tables().chain(self.partitions.tables().map(|(_, table)| table))
    }

    /// Returns the table as which the catalogs show a table or partition.
    pub(crate) fn shown_table(&self, name: &str) -> Option<&Arc<Table>> {
        self.catalog.table(name).ok().or_else(|| self.partitions.table(name))
    }

    /// Returns the OID of a table or partition; 0 if there is none.
    pub(super) fn number_of_relation(&self, name: &str) -> i64 {
        match self.partitions.members.get(name) {
            Some(partition) => number_of(TableId(FIRST_TABLE + partition.number)),
            None => self.catalog.table(name).map_or(0, |table| table_oid(table)),
        }
    }

    /// Returns the leaf partitions within a relation, with their OIDs.
    pub(crate) fn leaves_of(&self, name: &str) -> Vec<(i64, String)> {
        let within = self.partitions.within(name).into_iter().filter(|own| !self.is_partitioned(own));
        within.map(|own| (self.number_of_relation(&own), own)).collect()
    }

    /// Returns FOR VALUES of a partition.
    pub(crate) fn bound_text(&self, name: &str) -> Option<String> {
        let partition = self.partitions.members.get(name)?;
        let key = self.partitions.keys.get(&partition.parent)?;
        let types = self.types_of_key(key, &partition.root);
        Some(match &partition.bound {
            Bound::Default => "DEFAULT".into(),
            Bound::Hash(Share { modulus, remainder }) => {
                format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
            }
            Bound::Range { from, to } => {
                let (from, to) = (values_text(from, &types), values_text(to, &types));
                format!("FOR VALUES FROM ({from}) TO ({to})")
            }
            Bound::List(values) => {
                let text = |value: &Option<String>| {
                    value.as_ref().map_or_else(|| "NULL".to_owned(), |text| plain(text, types[0]))
                };
                let values: Vec<String> = values.iter().map(text).collect();
                format!("FOR VALUES IN ({})", values.join(", "))
            }
        })
    }

    /// Returns PARTITION BY of each partitioned table, by its OID.
    pub(crate) fn partition_keys(&self) -> Vec<(i64, String)> {
        let text = |(name, key): (&String, &super::PartitionKey)| {
            let columns: Vec<String> = key.columns.iter().map(|column| quoted(column)).collect();
            let strategy = key.strategy.name().to_uppercase();
            Some((table_oid(self.shown_table(name)?), format!("{strategy} ({})", columns.join(", "))))
        };
        self.partitions.keys.iter().filter_map(text).collect()
    }

    /// Returns the condition of each partition, by its OID.
    pub(crate) fn partition_conditions(&self) -> Vec<(i64, String)> {
        let text = |(name, table): (&String, &Arc<Table>)| {
            let condition = self.partition_condition(name).filter(|condition| condition != "true")?;
            Some((table_oid(table), condition))
        };
        self.partitions.tables().filter_map(text).collect()
    }

    /// Returns the partitioned tables.
    pub(crate) fn divided_tables(&self) -> Vec<Divided<'_>> {
        let divided = |(name, key): (&String, &super::PartitionKey)| {
            let table = self.shown_table(name)?;
            let columns = key.columns.iter().filter_map(|column| table.column(column)).collect();
            let default = self.partitions.default_of(name).and_then(|name| self.shown_table(name));
            let default = default.map_or(0, |table| table_oid(table));
            Some(Divided { table, strategy: key.strategy, columns, default })
        };
        self.partitions.keys.iter().filter_map(divided).collect()
    }

    /// Returns the rows of `pg_partition_tree`, or else of `pg_partition_ancestors`, by the OID of the
    /// relation.
    pub(crate) fn partition_trees(&self, is_tree: bool) -> Vec<(i64, Vec<[String; 4]>)> {
        let oid = |name: &str| self.shown_table(name).map_or(0, |table| table_oid(table));
        let row = |name: &String, level: usize| {
            let parent = self.partitions.members.get(name).map(|partition| oid(&partition.parent));
            let is_leaf = if self.is_partitioned(name) { "f" } else { "t" };
            let parent = parent.map_or_else(|| "NULL".to_owned(), |parent| parent.to_string());
            [oid(name).to_string(), parent, is_leaf.into(), level.to_string()]
        };
        let ancestors = |name: &String| {
            let parent = |name: &&String| Some(&self.partitions.members.get(*name)?.parent);
            std::iter::successors(Some(name), parent).cloned().collect::<Vec<_>>()
        };
        let divided = self.partitions.keys.keys().filter(|name| !self.is_partition(name));
        let all = divided.chain(self.partitions.members.keys());
        let rows = all.map(|name| {
            let top = ancestors(name).len();
            let rows: Vec<_> = match is_tree {
                true => {
                    let within = self.partitions.within(name);
                    within.iter().map(|own| row(own, ancestors(own).len() - top)).collect()
                }
                false => ancestors(name).iter().map(|own| row(own, 0)).collect(),
            };
            (oid(name), rows)
        });
        rows.collect()
    }

    /// Returns the partitions and their indexes, with those of their parents.
    pub(crate) fn inherited(&self) -> Vec<Inherited> {
        let mut all = Vec::new();
        for (name, partition) in &self.partitions.members {
            let tables = (self.shown_table(name), self.shown_table(&partition.parent));
            let (Some(own), Some(parent)) = tables else { continue };
            all.push(Inherited { child: table_oid(own), parent: table_oid(parent) });
            let indexes = own.indexes.iter().zip(&parent.indexes).skip(usize::from(own.hidden_key));
            let inherited = |(own, parent): (&Index, &Index)| Inherited {
                child: index_oid(own),
                parent: index_oid(parent),
            };
            all.extend(indexes.map(inherited));
        }
        all
    }
}
