//! Tables, columns, indexes and constraints by number and by name.
//!
//! Expressions (DEFAULT, CHECK) are kept as SQL text; `sql` binds them into the operations that need them.
//! Every change of a definition is logged as its statement. A checkpoint holds an image of the catalog, so
//! the field names below are a file format: a new field needs a default, and no field is renamed.

use crate::deferral::Deferral;
use crate::index::{Index, NewIndex};
use crate::{Arena, Datum};
use crate::{Domain, EnumType, OnCommit};
use crate::{
    IndexId, RowLayout, ScalarType, Sequence, TableId, Trigger, Type, encode_datum, write_canonical,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Why a definition was refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The name is in use.
    #[error("{kind} \"{name}\" already exists")]
    Duplicate {
        /// The kind of object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// No object has the name.
    #[error("{kind} \"{name}\" does not exist")]
    Missing {
        /// The kind of object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The definition uses a feature that Reprise does not support.
    #[error("{0}")]
    Unsupported(String),
}

/// How an IDENTITY column treats a value that a statement gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Identity {
    /// The value is refused, unless the statement overrides the sequence.
    Always,
    /// The value replaces the sequence's next number.
    ByDefault,
}

/// A column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name, folded to lower case unless it was quoted.
    pub name: String,
    /// Its type; the type under its domain.
    pub ty: Type,
    /// The full name of its domain, whose constraints its values meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// DEFAULT, or the expression that generates the column's values, as SQL text.
    pub default: Option<String>,
    /// Whether it is GENERATED ALWAYS AS (…) STORED: every write of a row computes its value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
    /// Whether it is a generated column that an index on an expression, or a unique index of some rows, is
    /// of. Its name is then the SQL text that stands in the index's definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Whether it is an IDENTITY.
    pub identity: Option<Identity>,
}

impl Default for Column {
    /// Returns a TEXT NOT NULL column without a name.
    fn default() -> Self {
        let (name, ty) = (String::new(), ScalarType::Text.into());
        let (nullable, default, identity) = (false, None, None);
        let (domain, generated, hidden) = (None, false, false);
        Self { name, ty, domain, nullable, default, generated, hidden, identity }
    }
}

/// What happens to a referencing row when the referenced row is deleted or its key changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ReferenceAction {
    /// The statement is refused, or, if the constraint is deferred, the transaction: NO ACTION.
    #[default]
    Refuse,
    /// The referencing row is deleted, or its columns take the new key.
    Cascade,
    /// The referencing columns become NULL.
    SetNull,
    /// The referencing columns take their defaults.
    SetDefault,
    /// The statement is refused at once: RESTRICT.
    Restrict,
}

impl ReferenceAction {
    /// Returns whether it refuses the deletion or change of a referenced row.
    pub fn refuses(self) -> bool {
        matches!(self, Self::Refuse | Self::Restrict)
    }
}

/// FOREIGN KEY.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Its name.
    pub name: String,
    /// The referencing columns, by index in the table.
    pub columns: Vec<usize>,
    /// The referenced table, by name.
    pub parent: String,
    /// The referenced columns, by index in that table.
    pub parent_columns: Vec<usize>,
    /// The action when a referenced row is deleted.
    pub on_delete: ReferenceAction,
    /// The action when a referenced row's key changes.
    pub on_update: ReferenceAction,
    /// When rows are checked. Images of earlier releases have none.
    #[serde(default)]
    pub deferral: Deferral,
}

/// A table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "TableImage")]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name, preceded by its schema and a dot unless the schema is `public`.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its indexes; the first is the primary key.
    pub indexes: Vec<Index>,
    /// CHECK constraints: name and SQL text.
    pub checks: Vec<(String, String)>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<ForeignKey>,
    /// Whether no key was declared. The last column, which has no name, is then the key; every row gets a
    /// value for it.
    pub hidden_key: bool,
    /// The sequence's definition; `None` for a plain table.
    pub sequence: Option<Sequence>,
    /// Its triggers, in the order of their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// ON COMMIT of a temporary table.
    #[serde(skip_serializing_if = "OnCommit::is_preserve")]
    pub on_commit: OnCommit,
    /// The layout of its rows.
    #[serde(skip)]
    pub layout: RowLayout,
}

/// A table as checkpoints store it, without the layout, which follows from the columns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableImage {
    id: TableId,
    name: String,
    columns: Vec<Column>,
    indexes: Vec<Index>,
    checks: Vec<(String, String)>,
    foreign_keys: Vec<ForeignKey>,
    hidden_key: bool,
    sequence: Option<Sequence>,
    #[serde(default)]
    triggers: Vec<Trigger>,
    #[serde(default)]
    on_commit: OnCommit,
}

impl From<TableImage> for Table {
    fn from(image: TableImage) -> Self {
        let TableImage { id, name, columns, indexes, checks, .. } = image;
        let TableImage { foreign_keys, hidden_key, sequence, triggers, on_commit, .. } = image;
        let layout = Self::layout_of(&columns);
        Self {
            id,
            name,
            columns,
            indexes,
            checks,
            foreign_keys,
            hidden_key,
            sequence,
            triggers,
            on_commit,
            layout,
        }
    }
}

/// The definition of a table to create.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its indexes, the primary key first. `create_table` gives them their numbers.
    pub indexes: Vec<NewIndex>,
    /// CHECK constraints: name and SQL text.
    pub checks: Vec<(String, String)>,
    /// FOREIGN KEY constraints.
    pub foreign_keys: Vec<ForeignKey>,
    /// Whether its key is a hidden last column without a name.
    pub hidden_key: bool,
    /// The sequence's definition; `None` for a plain table.
    pub sequence: Option<Sequence>,
    /// Its triggers, in the order of their names.
    pub triggers: Vec<Trigger>,
    /// ON COMMIT of a temporary table.
    pub on_commit: OnCommit,
}

impl From<&Table> for NewTable {
    fn from(table: &Table) -> Self {
        Self {
            name: table.name.clone(),
            columns: table.columns.clone(),
            indexes: table.indexes.iter().map(NewIndex::from).collect(),
            checks: table.checks.clone(),
            foreign_keys: table.foreign_keys.clone(),
            hidden_key: table.hidden_key,
            sequence: table.sequence.clone(),
            triggers: table.triggers.clone(),
            on_commit: table.on_commit,
        }
    }
}

impl Table {
    /// Returns the index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the name without its schema.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the name of one of its indexes or constraints without the table's schema.
    pub fn short_constraint<'n>(&self, name: &'n str) -> &'n str {
        let schema = self.name.rsplit_once('.').map(|(schema, _)| schema);
        let bare = schema.and_then(|schema| name.strip_prefix(schema)?.strip_prefix('.'));
        bare.unwrap_or(name)
    }

    /// Returns the unique index over a set of columns, in any order, by its index in the table.
    pub fn unique_index_of(&self, columns: &[usize]) -> Option<usize> {
        let is_meant = |index: &Index| {
            index.unique
                && index.columns.len() == columns.len()
                && columns.iter().all(|column| index.columns.contains(column))
        };
        self.indexes.iter().position(is_meant)
    }

    /// Returns whether an index is the declared primary key.
    pub fn is_primary_key(&self, index: usize) -> bool {
        self.indexes[index].rules.is_primary || index == 0 && !self.hidden_key
    }

    /// Returns the declared primary key.
    pub fn primary_key(&self) -> Option<&Index> {
        (0..self.indexes.len()).find(|index| self.is_primary_key(*index)).map(|index| &self.indexes[index])
    }

    /// Returns the index that orders the rows: the primary key, or the hidden key.
    pub fn primary(&self) -> &Index {
        &self.indexes[0]
    }

    /// Returns whether an index of the table has this name.
    fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.name == name)
    }

    /// Returns the columns of an index's keys: the index's columns, then the primary key's columns that are
    /// not among them.
    pub fn key_columns(&self, index: &Index) -> Vec<usize> {
        let mut columns = index.columns.clone();
        if index.id != self.primary().id {
            columns.extend(self.primary().columns.iter().filter(|c| !index.columns.contains(c)));
        }
        columns
    }

    /// Returns the length of an index's keys in bytes; `None` when they differ in length.
    pub fn fixed_key_length(&self, index: &Index) -> Option<usize> {
        self.key_columns(index)
            .into_iter()
            .map(|column| match self.columns[column].ty.scalar()? {
                _ if self.columns[column].nullable => None,
                ScalarType::Boolean => Some(1),
                ScalarType::SmallInt => Some(2),
                ScalarType::Integer | ScalarType::Date => Some(4),
                ScalarType::Uuid => Some(16),
                ty if ty.is_bytes() || ty.is_wide_numeric() => None,
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

    /// Returns how many bytes a column takes at the beginning of a key's bytes; `None` when they end within
    /// it.
    pub fn key_column_length(&self, column: usize, key: &[u8]) -> Option<usize> {
        let definition = &self.columns[column];
        crate::key::datum_length(definition.ty, definition.nullable, key)
    }

    /// Returns whether a column is NULL at the beginning of a key's bytes.
    pub fn is_key_column_null(&self, column: usize, key: &[u8]) -> bool {
        crate::key::is_null(self.columns[column].nullable, key)
    }

    /// Appends the canonical form of a column's value, if its type has a family.
    #[inline]
    pub fn write_canonical_column(&self, column: usize, datum: Datum, arena: &Arena, out: &mut Vec<u8>) {
        write_canonical(datum, self.columns[column].ty.fixed_scale().unwrap_or(0), arena, out);
    }

    /// Takes the column at the beginning of a key's bytes, and appends its canonical form. Returns false, and
    /// takes nothing, if its type has no family, or if the bytes end within the column.
    pub fn take_canonical_column(
        &self,
        column: usize,
        key: &mut &[u8],
        arena: &mut Arena,
        out: &mut Vec<u8>,
    ) -> bool {
        let Column { ty, nullable, .. } = self.columns[column];
        let length = ty.family().and_then(|_| crate::key::datum_length(ty, nullable, key));
        let Some(length) = length else { return false };
        let value = crate::key::decode_datum(ty, nullable, key, arena);
        self.write_canonical_column(column, value, arena, out);
        *key = &key[length..];
        true
    }

    /// Returns the row layout for a set of columns.
    pub fn layout_of(columns: &[Column]) -> RowLayout {
        let shapes: Vec<_> = columns.iter().map(|column| (column.ty, column.nullable)).collect();
        RowLayout::new(&shapes)
    }
}

/// All definitions of a database except its procedures.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Catalog {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    next_table: u32,
    next_index: u32,
    /// Enumerations, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) enumerations: BTreeMap<String, EnumType>,
    /// Number of enumerations and domains that were ever created.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) next_enumeration: u32,
    /// Domains, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) domains: BTreeMap<String, Domain>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Catalog {
    /// Returns a table by name.
    ///
    /// # Errors
    /// `Missing`.
    pub fn table(&self, name: &str) -> Result<&Arc<Table>, CatalogError> {
        self.tables.get(name).ok_or_else(|| CatalogError::Missing { kind: "relation", name: name.into() })
    }

    /// Returns all tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// Gives a table and a type of a schema a second name, under which names without a schema find them.
    pub fn alias(&mut self, alias: &str, name: &str) {
        if let Some(table) = self.tables.get(name).cloned() {
            self.tables.insert(alias.to_owned(), table);
        }
        if let Some(own) = self.enumerations.get(name).cloned() {
            self.enumerations.insert(alias.to_owned(), own);
        }
        if let Some(own) = self.domains.get(name).cloned() {
            self.domains.insert(alias.to_owned(), own);
        }
    }

    /// Adds a table, whose first index is its primary key, and assigns its numbers.
    ///
    /// # Errors
    /// `Duplicate` name; `Unsupported` key type.
    pub fn create_table(&mut self, new: NewTable) -> Result<Arc<Table>, CatalogError> {
        if self.tables.contains_key(&new.name) {
            return Err(CatalogError::Duplicate { kind: "relation", name: new.name });
        }
        let mut table = Table {
            id: TableId(self.next_table),
            name: new.name,
            layout: Table::layout_of(&new.columns),
            columns: new.columns,
            indexes: Vec::new(),
            checks: new.checks,
            foreign_keys: new.foreign_keys,
            hidden_key: new.hidden_key,
            sequence: new.sequence,
            triggers: new.triggers,
            on_commit: new.on_commit,
        };
        for index in new.indexes {
            let index = self.new_index(&table, index)?;
            table.indexes.push(index);
        }
        self.next_table += 1;
        let table = Arc::new(table);
        self.tables.insert(table.name.clone(), Arc::clone(&table));
        Ok(table)
    }

    /// Replaces a table by another one with a new number. The caller moves the rows.
    ///
    /// # Errors
    /// As `create_table`, and `Missing`.
    pub fn replace_table(&mut self, old: &str, new: NewTable) -> Result<Arc<Table>, CatalogError> {
        self.drop_table(old)?;
        self.create_table(new)
    }

    /// Changes a definition without touching rows or indexes: names, defaults, constraints. Foreign keys that
    /// reference the table follow its new name.
    ///
    /// # Errors
    /// `Duplicate` name; `Missing`.
    pub fn redefine(&mut self, old: &str, table: Table) -> Result<Arc<Table>, CatalogError> {
        let before = self.drop_table(old)?;
        let is_taken = |name: &str| {
            self.tables.contains_key(name) || self.tables.values().any(|own| own.has_index(name))
        };
        let renamed = table.indexes.iter().filter(|own| !before.has_index(&own.name)).map(|own| &own.name);
        let mut names = renamed.chain((table.name != old).then_some(&table.name));
        let of_two = |own: &&Index| table.indexes.iter().filter(|index| index.name == own.name).count() > 1;
        let twice = table.indexes.iter().find(of_two).map(|own| &own.name);
        if let Some(name) = twice.or_else(|| names.find(|name| is_taken(name))) {
            return Err(CatalogError::Duplicate { kind: "relation", name: name.clone() });
        }
        for other in self.tables.values_mut() {
            if other.foreign_keys.iter().any(|key| key.parent == old) {
                let keys = &mut Arc::make_mut(other).foreign_keys;
                keys.iter_mut()
                    .filter(|key| key.parent == old)
                    .for_each(|key| key.parent.clone_from(&table.name));
            }
        }
        let table = Arc::new(table);
        self.tables.insert(table.name.clone(), Arc::clone(&table));
        Ok(table)
    }

    fn new_index(&mut self, table: &Table, new: NewIndex) -> Result<Index, CatalogError> {
        let NewIndex { name, columns, unique, is_constraint, rules, details } = new;
        if table.has_index(&name)
            || table.name == name
            || self.tables.contains_key(&name)
            || self.tables.values().any(|other| other.has_index(&name))
        {
            return Err(CatalogError::Duplicate { kind: "relation", name });
        }
        for column in &columns {
            let ty = table.columns[*column].ty;
            if !ty.element().is_key() {
                return Err(CatalogError::Unsupported(format!("type {ty} in an index")));
            }
        }
        let id = IndexId(self.next_index);
        self.next_index += 1;
        Ok(Index { id, name, columns, unique, is_constraint, rules, details })
    }

    /// Adds an index to a table and returns the changed table.
    ///
    /// # Errors
    /// `Missing` table; `Duplicate` name; `Unsupported` key type.
    pub fn create_index(&mut self, table: &str, new: NewIndex) -> Result<Arc<Table>, CatalogError> {
        let mut changed = Table::clone(self.table(table)?);
        let index = self.new_index(&changed, new)?;
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

    /// Returns the table that has an index, and the index's position in it.
    ///
    /// # Errors
    /// `Missing`.
    pub fn index(&self, name: &str) -> Result<(&Arc<Table>, usize), CatalogError> {
        let holds = |table: &Table| table.indexes.iter().position(|index| index.name == name);
        let found = self.tables.values().find_map(|table| Some((table, holds(table)?)));
        found.ok_or_else(|| CatalogError::Missing { kind: "index", name: name.into() })
    }

    /// Removes an index other than a primary key and returns the changed table.
    ///
    /// # Errors
    /// `Missing`; `Unsupported` for a primary key.
    pub fn drop_index(&mut self, name: &str) -> Result<Arc<Table>, CatalogError> {
        let (table, place) = self.index(name)?;
        if place == 0 {
            return Err(CatalogError::Unsupported(format!(
                "cannot drop index {name}: it is the primary key of {}",
                table.name
            )));
        }
        let mut changed = Table::clone(table);
        changed.indexes.remove(place);
        let changed = Arc::new(changed);
        self.tables.insert(changed.name.clone(), Arc::clone(&changed));
        Ok(changed)
    }

    /// Returns the foreign keys that reference a table, each with its table.
    pub fn references_to(&self, parent: &str) -> impl Iterator<Item = (&Arc<Table>, &ForeignKey)> {
        self.tables.values().flat_map(move |table| {
            let keys = table.foreign_keys.iter().filter(move |key| key.parent == parent);
            keys.map(move |key| (table, key))
        })
    }
}
