//! A privilege that a statement needs.
//!
//! Not here: how the binder notes and checks them (`needs`).

use super::acl::{Privileges, RoleId};
use crate::subject::Subject;
use catalog::Table;
use std::collections::BTreeSet;

/// What a statement needs on one relation.
#[derive(Clone, Debug)]
pub(crate) struct RelationNeed {
    pub(crate) relation: String,
    /// The role whose privileges count.
    pub(crate) role: RoleId,
    pub(crate) privilege: Privileges,
    /// The names of the relation's columns.
    pub(crate) names: Vec<String>,
    /// The columns that the statement refers to.
    pub(crate) columns: BTreeSet<usize>,
    /// Whether the privilege is needed without a column.
    pub(crate) always: bool,
}

/// A privilege that a statement needs.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    Relation(RelationNeed),
    /// One of some privileges on an object.
    Object(Subject, RoleId, Privileges),
    /// To be a superuser, for a relation of the system.
    Superuser(String),
}

/// Returns the names of a table's visible columns.
pub(crate) fn names_of(table: &Table) -> Vec<String> {
    table.visible().iter().map(|own| own.name.clone()).collect()
}
