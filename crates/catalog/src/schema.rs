//! Tables, columns, indexes and constraints by number and by name.
//!
//! Expressions (DEFAULT, CHECK) are kept as their SQL text: `sql` binds them into the operations that need them.
//! Every change of a definition is logged as its statement, so the catalog is rebuilt by running those again.

use crate::{Arena, Datum};
use crate::{IndexId, RowLayout, ScalarType, TableId, encode_datum};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Why a definition was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The name is taken.
    #[error("{kind} \"{name}\" already exists")]
    Duplicate {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// No such thing.
    #[error("{kind} \"{name}\" does not exist")]
    Missing {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// Something that Reprise does not support.
    #[error("{0}")]
    Unsupported(String),
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, folded to lower case unless it was quoted.
    pub name: String,
    /// Its type.
    pub ty: ScalarType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
}

/// An index. Entries of every index but the primary one end with the primary key, so that all are unique.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: String,
    /// Its columns, by place in the table.
    pub columns: Vec<usize>,
    /// Whether two rows with the same (non-NULL) columns are refused.
    pub unique: bool,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its indexes; the first is the primary key.
    pub indexes: Vec<Index>,
    /// CHECK constraints: name and SQL text.
    pub checks: Vec<(String, String)>,
    /// How its rows are laid out.
    pub layout: RowLayout,
}

impl Table {
    /// The place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The primary key.
    pub fn primary(&self) -> &Index {
        &self.indexes[0]
    }

    /// The columns that an index's keys are made of: its own, then those of the primary key that are not among them.
    pub fn key_columns(&self, index: &Index) -> Vec<usize> {
        let mut columns = index.columns.clone();
        if index.id != self.primary().id {
            columns.extend(self.primary().columns.iter().filter(|c| !index.columns.contains(c)));
        }
        columns
    }

    /// Bytes of an index's keys, when all have the same number of them.
    pub fn fixed_key_length(&self, index: &Index) -> Option<usize> {
        self.key_columns(index)
            .into_iter()
            .map(|column| match self.columns[column].ty {
                _ if self.columns[column].nullable => None,
                ScalarType::Boolean => Some(1),
                ScalarType::SmallInt => Some(2),
                ScalarType::Integer | ScalarType::Date => Some(4),
                ScalarType::Uuid => Some(16),
                ty if ty.is_bytes() => None,
                _ => Some(8),
            })
            .sum()
    }

    /// Appends one column of one of this table's keys.
    #[inline]
    pub fn encode_key_column(&self, column: usize, datum: Datum, arena: &Arena, key: &mut Vec<u8>) {
        let definition = &self.columns[column];
        encode_datum(datum, definition.ty, definition.nullable, arena, key);
    }

    /// The layout for a set of columns.
    pub fn layout_of(columns: &[Column]) -> RowLayout {
        let shapes: Vec<_> = columns.iter().map(|column| (column.ty, column.nullable)).collect();
        RowLayout::new(&shapes)
    }
}

/// All definitions of a database but its procedures.
#[derive(Clone, Default, Debug)]
pub struct Catalog {
    tables: BTreeMap<String, Arc<Table>>,
    next_table: u32,
    next_index: u32,
}

impl Catalog {
    /// A table by name.
    ///
    /// # Errors
    /// `Missing`.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>, CatalogError> {
        self.tables.get(name).ok_or_else(|| CatalogError::Missing { kind: "relation", name: name.into() })
    }

    /// All tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Adds a table; its first index is its primary key. Index numbers are given here.
    ///
    /// # Errors
    /// `Duplicate`; `Unsupported` key types.
    pub fn create_table(
        &mut self,
        name: &str,
        columns: Vec<Column>,
        indexes: Vec<(String, Vec<usize>, bool)>,
        checks: Vec<(String, String)>,
    ) -> Result<Arc<Table>, CatalogError> {
        if self.tables.contains_key(name) {
            return Err(CatalogError::Duplicate { kind: "relation", name: name.into() });
        }
        let mut table = Table {
            id: TableId(self.next_table),
            name: name.into(),
            layout: Table::layout_of(&columns),
            columns,
            indexes: Vec::new(),
            checks,
        };
        for (name, columns, unique) in indexes {
            let index = self.new_index(&table, name, columns, unique)?;
            table.indexes.push(index);
        }
        self.next_table += 1;
        let table = Arc::new(table);
        self.tables.insert(name.into(), Arc::clone(&table));
        Ok(table)
    }

    fn new_index(
        &mut self,
        table: &Table,
        name: String,
        columns: Vec<usize>,
        unique: bool,
    ) -> Result<Index, CatalogError> {
        let taken = |table: &Table| table.indexes.iter().any(|index| index.name == name);
        if taken(table) || self.tables.values().any(|other| taken(other)) {
            return Err(CatalogError::Duplicate { kind: "relation", name });
        }
        for column in &columns {
            let ty = table.columns[*column].ty;
            if ty.is_exact() && !ty.is_integer() && !ty.is_machine_numeric() {
                return Err(CatalogError::Unsupported(format!(
                    "type {ty} in an index: use NUMERIC of at most {} digits",
                    ScalarType::MACHINE_DIGITS
                )));
            }
        }
        let id = IndexId(self.next_index);
        self.next_index += 1;
        Ok(Index { id, name, columns, unique })
    }

    /// Adds an index to a table and returns the table as it is now.
    ///
    /// # Errors
    /// `Missing` table, `Duplicate` name, `Unsupported` key types.
    pub fn create_index(
        &mut self,
        table: &str,
        name: &str,
        columns: Vec<usize>,
        unique: bool,
    ) -> Result<Arc<Table>, CatalogError> {
        let mut changed = Table::clone(self.table(table)?);
        let index = self.new_index(&changed, name.into(), columns, unique)?;
        changed.indexes.push(index);
        let changed = Arc::new(changed);
        self.tables.insert(table.into(), Arc::clone(&changed));
        Ok(changed)
    }

    /// Removes a table.
    ///
    /// # Errors
    /// `Missing`.
    pub fn drop_table(&mut self, name: &str) -> Result<Arc<Table>, CatalogError> {
        self.tables.remove(name).ok_or_else(|| CatalogError::Missing { kind: "table", name: name.into() })
    }

    /// Removes an index that is no primary key.
    ///
    /// # Errors
    /// `Missing`; `Unsupported` for a primary key.
    pub fn drop_index(&mut self, name: &str) -> Result<Arc<Table>, CatalogError> {
        let missing = || CatalogError::Missing { kind: "index", name: name.into() };
        let holds = |table: &Table| table.indexes.iter().position(|index| index.name == name);
        let table = self.tables.values().find(|t| holds(t).is_some()).ok_or_else(missing)?;
        let mut changed = Table::clone(table);
        match holds(&changed) {
            Some(0) => {
                return Err(CatalogError::Unsupported(format!(
                    "cannot drop index {name}: it is the primary key of {}",
                    changed.name
                )));
            }
            Some(place) => changed.indexes.remove(place),
            None => return Err(missing()),
        };
        let changed = Arc::new(changed);
        self.tables.insert(changed.name.clone(), Arc::clone(&changed));
        Ok(changed)
    }
}
