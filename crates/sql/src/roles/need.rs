//! A privilege that a statement needs.
//!
//! Not here: the binder's list of needs, and its checks (`needs`).

use super::acl::{Privileges, RoleId};
use crate::subject::Subject;
use catalog::Table;
use std::collections::BTreeSet;

/// A privilege that a statement needs on a relation or on some of its columns.
#[derive(Clone, Debug)]
pub(crate) struct RelationNeed {
    pub(crate) relation: String,
    /// The role that needs the privilege: the acting role, or the owner of a view.
    pub(crate) role: RoleId,
    pub(crate) privilege: Privileges,
    /// The names of the relation's columns.
    pub(crate) names: Vec<String>,
    /// The columns that the statement refers to.
    pub(crate) columns: BTreeSet<usize>,
    /// Whether the statement needs the privilege even if it refers to no column.
    pub(crate) always: bool,
}

/// A privilege that a statement needs.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    Relation(RelationNeed),
    /// One of some privileges on an object.
    Object(Subject, RoleId, Privileges),
    /// The attribute SUPERUSER, for the system relation with this name.
    Superuser(String),
}

/// Returns the names of a table's visible columns.
pub(crate) fn names_of(table: &Table) -> Vec<String> {
    table.visible().iter().map(|column| column.name.clone()).collect()
}
