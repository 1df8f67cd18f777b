//! The system catalogs: `pg_catalog` and `information_schema`, as relations that follow from the definitions.
//! Source: PostgreSQL 15's documentation of the system catalogs. Columns that no known client reads are left
//! out.
//!
//! Each relation is a list of rows, generated when a query names it. `reprise_recovery` has values of the
//! moment at which the query runs. Numbers of objects (OIDs) follow from the numbers of the catalog, so an
//! object keeps its OID.

mod comments;
mod general;
mod information_schema;
mod objects;
mod relations;
mod routines;
mod triggers;
mod types;

use crate::schema::Schema;
use catalog::{ScalarType, Type};
use procedure::RecoveryColumn;

pub(crate) use comments::{PG_CLASS, class_oid};
pub use types::{SCALARS, type_length, type_modifier, type_oids};
pub(crate) use types::{TYPES, type_name, type_named};

/// A value of a system relation.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    /// A value that is asked for when the query runs.
    Recovery(RecoveryColumn),
}

/// A system relation: its columns, and its rows.
pub(crate) struct SystemRelation {
    pub(crate) columns: Vec<(&'static str, Type)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl SystemRelation {
    fn new(columns: &[(&'static str, Type)], rows: Vec<Vec<Cell>>) -> Self {
        Self { columns: columns.to_vec(), rows }
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

/// The owner of all objects: there are no roles yet.
pub(crate) const OWNER: &str = "postgres";
const PUBLIC: i64 = 2200;
const SYSTEM: i64 = 11;
const INFORMATION: i64 = 13_000;

const BOOL: Type = Type::Scalar(ScalarType::Boolean);
const INT: Type = Type::Scalar(ScalarType::Integer);
const TEXT: Type = Type::Scalar(ScalarType::Text);
const INTS: Type = Type::Array(ScalarType::Integer);
const TEXTS: Type = Type::Array(ScalarType::Text);

impl Schema {
    /// Returns a system relation by name. Relations of `pg_catalog` need no schema in the name.
    pub(crate) fn system_relation(&self, name: &str) -> Option<SystemRelation> {
        match name.strip_prefix("information_schema.") {
            Some(name) => self.information(name),
            None => {
                let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
                let described = self.relations_catalog(name).or_else(|| self.routines_catalog(name));
                described.or_else(|| self.other_catalog(name))
            }
        }
    }
}
