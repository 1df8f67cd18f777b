//! Roles, owners and privileges as a part of all definitions.
//!
//! Invariant: an object without an entry belongs to the superuser from the beginning, and has the privileges
//! of a new object. So a database without roles keeps nothing.
//! Held by: `roles::a_database_without_roles_keeps_nothing`.

use super::acl::{Acl, AclKind, RoleId};
use super::role::Roles;
use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The privileges that new objects of a role get.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultAcl {
    pub(crate) role: RoleId,
    /// The schema of the objects; `None`: all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) kind: AclKind,
    pub(crate) acl: Acl,
}

/// Roles, owners and privileges.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Rights {
    pub(crate) roles: Roles,
    pub(crate) owners: BTreeMap<Subject, RoleId>,
    pub(crate) acls: BTreeMap<Subject, Acl>,
    pub(crate) defaults: Vec<DefaultAcl>,
}

/// As `Rights`, in an image of the definitions. The names of the fields are a format.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RightsImage {
    roles: Roles,
    owners: Vec<(Subject, RoleId)>,
    acls: Vec<(Subject, Acl)>,
    defaults: Vec<DefaultAcl>,
}

impl Rights {
    /// Returns an image; `None` if no statement has changed anything.
    pub(crate) fn image(&self) -> Option<RightsImage> {
        let Self { roles, owners, acls, defaults } = self.clone();
        let is_new =
            roles.are_only_predefined() && owners.is_empty() && acls.is_empty() && defaults.is_empty();
        let (owners, acls) = (owners.into_iter().collect(), acls.into_iter().collect());
        (!is_new).then_some(RightsImage { roles, owners, acls, defaults })
    }

    pub(crate) fn of_image(image: Option<RightsImage>) -> Self {
        let Some(RightsImage { roles, owners, acls, defaults }) = image else { return Self::default() };
        let (owners, acls) = (owners.into_iter().collect(), acls.into_iter().collect());
        Self { roles, owners, acls, defaults }
    }

    /// Moves the owner and the privileges of an object to its new name.
    pub(crate) fn rename(&mut self, old: &Subject, new: &Subject) {
        if let Some(owner) = self.owners.remove(old) {
            self.owners.insert(new.clone(), owner);
        }
        if let Some(acl) = self.acls.remove(old) {
            self.acls.insert(new.clone(), acl);
        }
    }

    /// Forgets an object.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.owners.remove(subject);
        self.acls.remove(subject);
    }

    /// Returns whether owners or privileges of an object are kept.
    pub(crate) fn mentions(&self, subject: &Subject) -> bool {
        self.owners.contains_key(subject) || self.acls.contains_key(subject)
    }

    /// Returns the objects of which owners or privileges are kept.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.owners.keys().chain(self.acls.keys())
    }
}

/// Returns the schema that a name has before a dot.
pub(crate) fn namespace_in(name: &str) -> &str {
    name.rsplit_once('.').map_or("public", |(schema, _)| schema)
}
