//! The part of the definitions that has roles, owners and privileges.
//!
//! Invariant: an object without an entry belongs to the bootstrap superuser, and has the privileges of a new
//! object. So the definitions of a database whose statements change no rights have no such part.
//! Held by: `roles::a_database_without_roles_keeps_nothing`.

use super::acl::{Acl, AclKind, RoleId};
use super::role::Roles;
use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The default privileges on new objects of a role.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultAcl {
    pub(crate) role: RoleId,
    /// The schema of the objects; `None` for all schemas.
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

/// `Rights` in an image of the definitions. Checkpoints contain the names of the fields.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RightsImage {
    roles: Roles,
    owners: Vec<(Subject, RoleId)>,
    acls: Vec<(Subject, Acl)>,
    defaults: Vec<DefaultAcl>,
}

impl Rights {
    /// Returns an image; `None` if no statement has changed roles, owners or privileges.
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

    /// Removes the owner and the privileges of an object.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.owners.remove(subject);
        self.acls.remove(subject);
    }

    /// Returns whether an object has an entry.
    pub(crate) fn mentions(&self, subject: &Subject) -> bool {
        self.owners.contains_key(subject) || self.acls.contains_key(subject)
    }

    /// Returns the objects that have entries.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.owners.keys().chain(self.acls.keys())
    }
}

/// Returns the schema of a name, by default `public`.
pub(crate) fn namespace_in(name: &str) -> &str {
    name.rsplit_once('.').map_or("public", |(schema, _)| schema)
}
