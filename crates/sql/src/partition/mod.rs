//! Partitioned tables: one stored table, the root, whose rows each fit the bounds of one leaf partition.
//!
//! A partition is kept as a view of the rows of the root that meet its bound and those of the partitions
//! around it. Logs, checkpoints and the static analysis know the root alone.
//! Invariant: every row of the root fits one leaf. The rules of each write check it (`checks`), and a change
//! of partitions moves or checks rows in its transaction (`moved`).
//! Held by: `crates/workload/tests/sql/partitions.slt`, `crates/reprise/tests/suite/partitions.rs`.
//! Not here: PARTITION BY and FOR VALUES (`bound`), the statements (`define`, `attach`).

mod altered;
mod attach;
mod bound;
mod checks;
mod condition;
mod define;
mod hash;
mod index_names;
mod literal;
mod moved;
mod shown;

pub(crate) use bound::Bound;
pub(crate) use literal::{in_quotes, typed};
pub use moved::Move;

use catalog::{Column, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a table is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Strategy {
    /// By ranges of values.
    Range,
    /// By lists of values.
    List,
    /// By remainders of a hash of the values.
    Hash,
}

impl Strategy {
    /// Returns its name in lower case.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::List => "list",
            Self::Hash => "hash",
        }
    }
}

/// PARTITION BY.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PartitionKey {
    pub(crate) strategy: Strategy,
    /// The names of the columns.
    pub(crate) columns: Vec<String>,
}

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Partition {
    /// Its number among all partitions, from which its OIDs follow; 0 until `renew_partitions`.
    #[serde(default)]
    pub(crate) number: u32,
    /// The stored table.
    pub(crate) root: String,
    /// The root, or the partition that this one divides.
    pub(crate) parent: String,
    pub(crate) bound: Bound,
    /// The names that the partition has for indexes of the root, with the names there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) indexes: BTreeMap<String, String>,
    /// The defaults of columns that differ from those of the root; `None` for no default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) defaults: BTreeMap<String, Option<String>>,
    /// Whether the primary key of the root has been created for ONLY the root, so that the partition may
    /// still name its own one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lacks_primary_key: bool,
}

impl Partition {
    /// Returns a partition that names nothing of its own.
    pub(super) fn new(root: String, parent: String, bound: Bound) -> Self {
        let (indexes, defaults) = (BTreeMap::new(), BTreeMap::new());
        Self { number: 0, root, parent, bound, indexes, defaults, lacks_primary_key: false }
    }

    /// Gives a table the defaults of the partition.
    pub(super) fn set_defaults(&self, columns: &mut [Column]) {
        for column in columns.iter_mut().filter(|column| !column.generated) {
            if let Some(own) = self.defaults.get(&column.name) {
                column.default.clone_from(own);
            }
        }
    }
}

/// All partitioned tables. Images store the names of the fields.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Partitions {
    /// The keys of roots and of partitions that are divided again, by name.
    pub(crate) keys: BTreeMap<String, PartitionKey>,
    /// Partitions by name.
    pub(crate) members: BTreeMap<String, Arc<Partition>>,
    /// What `renew_partitions` has made of each partition.
    #[serde(skip)]
    renewed: BTreeMap<String, Renewed>,
}

/// What follows from the definition of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Renewed {
    /// The table as which the catalogs show the partition.
    table: Arc<Table>,
    /// The root and partition from which it was made.
    root: Arc<Table>,
    partition: Arc<Partition>,
}

impl Partitions {
    /// Returns the tables as which the catalogs show the partitions.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&String, &Arc<Table>)> {
        self.renewed.iter().map(|(name, renewed)| (name, &renewed.table))
    }

    /// Returns the table as which the catalogs show a partition.
    pub(crate) fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.renewed.get(name).map(|renewed| &renewed.table)
    }

    /// Returns the partitions of a root, to change them.
    fn members_of(&mut self, root: &str) -> impl Iterator<Item = &mut Partition> {
        self.members.values_mut().filter(move |partition| partition.root == root).map(Arc::make_mut)
    }

    /// Returns whether there is no partitioned table.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the partitions of a relation, in the order of their names.
    pub(crate) fn children<'a>(
        &'a self,
        parent: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Partition>)> {
        self.members.iter().filter(move |(_, partition)| partition.parent == parent)
    }

    /// Returns the default partition of a relation.
    pub(crate) fn default_of<'a>(&'a self, parent: &'a str) -> Option<&'a String> {
        let mut children = self.children(parent);
        children.find(|(_, partition)| partition.bound == Bound::Default).map(|(name, _)| name)
    }

    /// Returns the stored table of a partitioned relation or of a partition.
    pub(crate) fn root_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.members.get(name).map_or(name, |partition| &partition.root)
    }

    /// Returns a relation and the divided partitions within it, in the order in which rows pass them.
    pub(crate) fn divided_within(&self, name: &str) -> Vec<String> {
        let mut all: Vec<String> =
            self.keys.contains_key(name).then(|| name.to_owned()).into_iter().collect();
        let mut position = 0;
        while position < all.len() {
            let children = self.children(&all[position]).filter(|(child, _)| self.keys.contains_key(*child));
            let children: Vec<String> = children.map(|(child, _)| child.clone()).collect();
            all.extend(children);
            position += 1;
        }
        all
    }

    /// Returns the names of a partition and of all partitions within it.
    pub(crate) fn within(&self, name: &str) -> Vec<String> {
        let mut all = vec![name.to_owned()];
        let mut position = 0;
        while position < all.len() {
            let children: Vec<String> =
                self.children(&all[position]).map(|(child, _)| child.clone()).collect();
            all.extend(children);
            position += 1;
        }
        all
    }

    /// Forgets a relation and all partitions within it.
    pub(crate) fn remove(&mut self, name: &str) -> Vec<String> {
        let all = self.within(name);
        for name in &all {
            self.keys.remove(name);
            self.members.remove(name);
        }
        all
    }

    /// Returns the divided relations of a root whose keys have a column.
    pub(crate) fn keyed_by(&self, root: &str, column: &str) -> Option<String> {
        let has = |name: &String| self.keys[name].columns.iter().any(|known| known == column);
        self.divided_within(root).into_iter().find(has)
    }

    /// Follows a root or column with a new name. `column` returns the new name of a column.
    pub(crate) fn follow(&mut self, old: &str, new: &str, column: impl Fn(&str) -> Option<String>) {
        for name in self.divided_within(old) {
            let key = self.keys.get_mut(&name).expect("a divided relation has a key");
            for known in &mut key.columns {
                if let Some(new) = column(known) {
                    *known = new;
                }
            }
        }
        for partition in self.members_of(old) {
            let defaults = std::mem::take(&mut partition.defaults).into_iter();
            partition.defaults = defaults.filter_map(|(name, own)| Some((column(&name)?, own))).collect();
        }
        if old == new {
            return;
        }
        if let Some(key) = self.keys.remove(old) {
            self.keys.insert(new.to_owned(), key);
        }
        let of_it = |own: &&mut Arc<Partition>| own.root == old || own.parent == old;
        for partition in self.members.values_mut().filter(of_it).map(Arc::make_mut) {
            for name in [&mut partition.root, &mut partition.parent] {
                if name == old {
                    new.clone_into(name);
                }
            }
        }
    }
}
