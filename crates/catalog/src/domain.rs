//! Domains: types with constraints on the values of another type, which holds the values.

use crate::Type;
use serde::{Deserialize, Serialize};

/// The definition of a domain. A checkpoint holds it, so no field is renamed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// The name, preceded by its schema and a dot unless the schema is `public`.
    pub name: String,
    /// The number in `pg_type`.
    pub oid: u32,
    /// The type of the values.
    pub ty: Type,
    /// The full name of the domain over whose values it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether NULL is a value.
    pub nullable: bool,
    /// The default of columns without their own, as SQL text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// CHECK constraints, by name: name and condition over `VALUE` as SQL text.
    pub checks: Vec<(String, String)>,
}
