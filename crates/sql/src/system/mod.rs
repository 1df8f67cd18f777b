//! The system catalogs `pg_catalog` and `information_schema`: relations whose rows the definitions determine.
//! Source: PostgreSQL 15's documentation of the system catalogs.
//!
//! The binder generates the rows of a relation when a query names it. The rows of a live relation are read
//! when the query runs. Tables, indexes and routines have OIDs that follow from their numbers in the catalog,
//! so they keep them. Other objects, such as views, may get another OID with each change of the definitions.

mod absent;
mod catalogs;
mod comments;
mod defaults;
mod dependencies;
mod domains;
mod general;
mod grants;
mod information_schema;
mod information_views;
mod keywords;
mod numbered;
mod objects;
mod partitions;
mod qualified;
mod relations;
mod roles;
mod routine_text;
mod routines;
mod triggers;
mod types;
mod views;

use crate::schema::Schema;
use catalog::{ScalarType, Type};
use procedure::LiveRelation;

pub(crate) use absent::is_absent;
pub use catalogs::{CHAR, NAME, VECTORS, VOID, catalog_type};
pub(crate) use catalogs::{catalog_names, catalog_oid};
pub(crate) use comments::PG_CLASS;
pub use information_schema::DATABASE;
pub(crate) use keywords::keywords;
pub(crate) use qualified::{Named, path_text};
pub use types::{SCALARS, type_length, type_modifier, type_oids};
pub(crate) use types::{TYPES, type_name, type_named};
pub(crate) use views::system_view;

/// A value of a system relation.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    /// A text whose names of objects have a schema unless `search_path` has `public`.
    Named(Named),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

/// A system relation: its columns, and its rows.
pub(crate) struct SystemRelation {
    pub(crate) columns: Vec<(&'static str, Type)>,
    pub(crate) rows: SystemRows,
    /// The OID of the table; `None` for a view.
    pub(crate) oid: Option<i64>,
}

/// The rows of a system relation.
pub(crate) enum SystemRows {
    /// Rows that the definitions determine.
    Known(Vec<Vec<Cell>>),
    /// Rows that the query reads when it runs.
    Live(LiveRelation),
}

impl SystemRelation {
    fn new(columns: &[(&'static str, Type)], rows: Vec<Vec<Cell>>) -> Self {
        Self { columns: columns.to_vec(), rows: SystemRows::Known(rows), oid: None }
    }

    fn live(relation: LiveRelation) -> Self {
        Self { columns: relation.columns().to_vec(), rows: SystemRows::Live(relation), oid: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Named> for Cell {
    fn from(text: Named) -> Self {
        Self::Named(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// The OIDs of the schemas `public`, `pg_catalog` and `information_schema`.
const PUBLIC: i64 = 2200;
const SYSTEM: i64 = 11;
const INFORMATION: i64 = 13_000;

const BOOL: Type = Type::Scalar(ScalarType::Boolean);
const INT: Type = Type::Scalar(ScalarType::Integer);
const OID: Type = Type::Scalar(ScalarType::Oid);
const TEXT: Type = Type::Scalar(ScalarType::Text);
const INTS: Type = Type::Array(ScalarType::Integer);
const SMALL_INTS: Type = Type::Array(ScalarType::SmallInt);
const OIDS: Type = Type::Array(ScalarType::Oid);
const TEXTS: Type = Type::Array(ScalarType::Text);

impl Schema {
    /// Returns a system relation by name. Relations of `pg_catalog` need no schema in the name.
    pub(crate) fn system_relation(&self, name: &str) -> Option<SystemRelation> {
        match name.strip_prefix("information_schema.") {
            Some(name) => information_views::completed(name, self.information(name)),
            None => {
                let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
                let described = self.relations_catalog(name).or_else(|| self.routines_catalog(name));
                let known =
                    described.or_else(|| self.roles_catalog(name)).or_else(|| self.other_catalog(name));
                let known = known.or_else(|| views::empty(name));
                catalogs::completed(name, known)
            }
        }
    }
}
