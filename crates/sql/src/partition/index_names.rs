//! Names of the indexes of partitions.
//! Source: PostgreSQL 15, `DefineIndex` of a partitioned table, and `ChooseIndexName`.

use crate::full_names::short;
use crate::generated_names::GeneratedName;
use crate::schema::Schema;
use catalog::{Index, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the name of a root's index with the name of a partition in place of the root's.
pub(super) fn partition_index<'a>(partition: &'a str, root: &Table, index: &'a Index) -> GeneratedName<'a> {
    let own = short(&index.name);
    let columns: Vec<&str> = index
        .columns
        .iter()
        .chain(&index.details.included)
        .map(|column| root.columns[*column].name.as_str())
        .collect();
    for (columns, label) in [(&[][..], "pkey"), (&columns, "key"), (&columns, "idx")] {
        let made = GeneratedName::new(&root.name, columns, label);
        if made.base() == own {
            return GeneratedName::new(partition, columns, label);
        }
    }
    let tail = own.strip_prefix(root.short_name()).and_then(|tail| tail.strip_prefix('_')).unwrap_or(own);
    GeneratedName::new(partition, &[], tail)
}

impl Schema {
    /// Gives partitions numbered names for indexes whose generated names are cut, so that another relation
    /// may have the same name.
    pub(super) fn number_cut_indexes(&mut self, partitions: &[String]) {
        let mut taken = BTreeSet::new();
        for partition in partitions {
            let Some(member) = self.partitions.members.get(partition) else { continue };
            let Ok(root) = self.catalog.table(&member.root) else { continue };
            let shown = self.partitions.table(partition);
            let mut numbered = Vec::new();
            for index in root.indexes.iter().skip(usize::from(root.hidden_key)) {
                if member.indexes.values().any(|of_root| *of_root == index.name) {
                    continue;
                }
                let made = partition_index(partition, root, index);
                if !made.is_cut() {
                    continue;
                }
                let is_own = |name: &str| {
                    shown.is_some_and(|table| table.indexes.iter().any(|index| index.name == name))
                };
                let is_taken =
                    |name: &str| taken.contains(name) || self.relation_exists(name) && !is_own(name);
                let name = made.first_free_in_schema(is_taken);
                taken.insert(name.clone());
                if name != made.base_in_schema() {
                    numbered.push((name, index.name.clone()));
                }
            }
            if let Some(member) = self.partitions.members.get_mut(partition).filter(|_| !numbered.is_empty())
            {
                Arc::make_mut(member).indexes.extend(numbered);
            }
        }
    }
}
