//! The owners of objects, and the privileges on objects.

use super::acl::{Acl, AclItem, AclKind, Inheritance, PUBLIC, Privileges, RoleId, USAGE};
use super::acl::{CREATE, DELETE, INSERT, SELECT, TEMPORARY, UPDATE};
use super::rights::{DefaultAcl, Rights, namespace_in};
use super::role::{BOOTSTRAP, DATABASE_OWNER, Role, Roles};
use crate::schema::Schema;
use crate::session_schema::is_session_schema;
use crate::subject::Subject;
use catalog::Table;
use std::sync::Arc;

impl Schema {
    pub(crate) fn rights_mut(&mut self) -> &mut Rights {
        Arc::make_mut(&mut self.rights)
    }

    pub(crate) fn roles(&self) -> &Roles {
        &self.rights.roles
    }

    /// Returns the number and the attributes of the role with a name.
    pub fn role(&self, name: &str) -> Option<(u32, &Role)> {
        let id = self.roles().named(name)?;
        self.roles().all.get(&id).map(|role| (id, role))
    }

    /// Returns the name of a role; empty if no role has this number.
    pub fn role_name(&self, id: u32) -> &str {
        self.roles().name(id)
    }

    /// Returns whether a role is a superuser.
    pub fn is_superuser(&self, id: u32) -> bool {
        self.roles().is_superuser(id)
    }

    /// Returns whether a role is a member of another one; a superuser is a member of all.
    pub fn is_member_of(&self, member: u32, role: u32) -> bool {
        self.roles().is_member(member, role)
    }

    /// Returns whether a role has the privileges of another one.
    pub fn has_privileges_of(&self, member: u32, role: u32) -> bool {
        self.roles().has_privileges_of(member, role)
    }

    /// Returns whether a role has the privileges of a predefined role, by its name.
    pub fn has_predefined(&self, member: u32, name: &str) -> bool {
        self.roles().named(name).is_some_and(|role| self.has_privileges_of(member, role))
    }

    /// Returns the kind of an object for privileges; `None` if it has none.
    pub(crate) fn acl_kind(&self, subject: &Subject) -> Option<AclKind> {
        Some(match subject {
            Subject::Relation(name) => match self.catalog.table(name) {
                Ok(table) if table.sequence.is_some() => AclKind::Sequence,
                Ok(_) => AclKind::Table,
                Err(_) => self.view(name).map(|_| AclKind::Table)?,
            },
            Subject::Column(..) => AclKind::Column,
            Subject::Routine(_) => AclKind::Routine,
            Subject::Namespace(_) => AclKind::Namespace,
            Subject::Type(_) => AclKind::Type,
            Subject::Database => AclKind::Database,
            Subject::Constraint(..) | Subject::Trigger(..) => return None,
        })
    }

    /// Returns the owner of an object. Columns, indexes, constraints and triggers belong to their table's
    /// owner.
    pub(crate) fn owner_of(&self, subject: &Subject) -> RoleId {
        let of = |subject: &Subject| self.rights.owners.get(subject).copied();
        match subject {
            Subject::Column(table, _) | Subject::Constraint(table, _) | Subject::Trigger(table, _) => {
                of(&Subject::Relation(table.clone())).unwrap_or(BOOTSTRAP)
            }
            Subject::Relation(name) => match self.catalog.index(name) {
                Ok((table, _)) => of(&Subject::Relation(table.name.clone())).unwrap_or(BOOTSTRAP),
                Err(_) => of(subject).unwrap_or(BOOTSTRAP),
            },
            Subject::Namespace(name) if name == "public" => of(subject).unwrap_or(DATABASE_OWNER),
            _ => of(subject).unwrap_or(BOOTSTRAP),
        }
    }

    /// Returns the ACL of an object; `None` if no statement has changed its privileges.
    pub(crate) fn given_acl(&self, subject: &Subject) -> Option<&Acl> {
        self.rights.acls.get(subject)
    }

    /// Returns the ACL of an object, by default that of a new object.
    pub(crate) fn acl_of(&self, subject: &Subject) -> Acl {
        if let Some(acl) = self.given_acl(subject) {
            return acl.clone();
        }
        match subject {
            Subject::Namespace(name) if name == "public" => public_acl(self.owner_of(subject)),
            _ => self.acl_kind(subject).map(|kind| kind.default(self.owner_of(subject))).unwrap_or_default(),
        }
    }

    /// Returns the privileges that a role has on an object.
    pub(crate) fn privileges_on(&self, role: RoleId, subject: &Subject) -> Privileges {
        if self.is_superuser(role) {
            return Privileges::MAX;
        }
        let roles = self.roles();
        let mut all = self.acl_of(subject).privileges_of(role, roles);
        match subject {
            Subject::Relation(_) => {
                all |= if roles.reads_all(role, false) { SELECT } else { 0 };
                all |= if roles.reads_all(role, true) { INSERT | UPDATE | DELETE } else { 0 };
            }
            // The schema belongs to the session, whatever its role.
            Subject::Namespace(name) if is_session_schema(name) => {
                let creates = self.privileges_on(role, &Subject::Database) & TEMPORARY != 0;
                all |= USAGE | if creates { CREATE } else { 0 };
            }
            Subject::Namespace(_) if roles.reads_all(role, false) || roles.reads_all(role, true) => {
                all |= USAGE;
            }
            _ => {}
        }
        all
    }

    /// Returns whether a role owns an object or has the privileges of its owner.
    pub(crate) fn owns(&self, role: RoleId, subject: &Subject) -> bool {
        self.roles().has_privileges_of(role, self.owner_of(subject))
    }

    /// Returns whether a role may create objects in a schema.
    pub(crate) fn may_create_in(&self, role: RoleId, namespace: &str) -> bool {
        self.privileges_on(role, &Subject::Namespace(namespace.into())) & CREATE != 0
    }

    /// Returns whether a role may create schemas and extensions.
    pub(crate) fn creates_on_database(&self, role: RoleId) -> bool {
        self.privileges_on(role, &Subject::Database) & CREATE != 0
    }

    /// Returns whether a role has a privilege on some columns: on the relation, or on each of them. With no
    /// columns, one of any column is enough.
    pub(crate) fn may_use_columns(
        &self,
        role: RoleId,
        relation: &str,
        privilege: Privileges,
        columns: &[String],
    ) -> bool {
        if self.privileges_on(role, &Subject::Relation(relation.into())) & privilege != 0 {
            return true;
        }
        let has = |column: &String| {
            let acl = self.given_acl(&Subject::Column(relation.into(), column.clone()));
            acl.is_some_and(|acl| acl.privileges_of(role, self.roles()) & privilege != 0)
        };
        if columns.is_empty() {
            let mut all = self.rights.acls.keys().filter_map(|subject| match subject {
                Subject::Column(owner, name) if owner == relation => Some(name),
                _ => None,
            });
            return all.any(has);
        }
        columns.iter().all(has)
    }

    /// Makes a role the owner of an object and of its sequences. The new owner replaces the old one in the
    /// ACL.
    pub(crate) fn give_to(&mut self, subject: &Subject, role: RoleId) {
        let old = self.owner_of(subject);
        let concerned: Vec<Subject> = match subject {
            Subject::Relation(name) => {
                let columns = self.rights.acls.keys().filter(|column| column.owner() == Some(name));
                columns.cloned().chain([subject.clone()]).collect()
            }
            _ => vec![subject.clone()],
        };
        let default = matches!(subject, Subject::Namespace(name) if name == "public");
        if default && self.given_acl(subject).is_none() {
            let acl = self.acl_of(subject);
            self.rights_mut().acls.insert(subject.clone(), acl);
        }
        let rights = self.rights_mut();
        for subject in concerned {
            if let Some(acl) = rights.acls.get_mut(&subject) {
                acl.change_owner(old, role);
            }
        }
        match (role, default) {
            (BOOTSTRAP, false) | (DATABASE_OWNER, true) => drop(rights.owners.remove(subject)),
            _ => _ = rights.owners.insert(subject.clone(), role),
        }
        for sequence in self.sequences_of(subject) {
            self.give_to(&sequence, role);
        }
    }

    /// Returns the sequences that columns of a table own.
    pub(crate) fn sequences_of(&self, subject: &Subject) -> Vec<Subject> {
        let Subject::Relation(name) = subject else { return Vec::new() };
        let is_its = |table: &&Arc<Table>| {
            table
                .sequence
                .as_ref()
                .and_then(|sequence| sequence.owner.as_ref())
                .is_some_and(|(owner, _)| owner == name)
        };
        let sequences = self.catalog.tables().filter(is_its);
        sequences.map(|table| Subject::Relation(table.name.clone())).collect()
    }

    /// Returns all objects that can have owners.
    pub(crate) fn owned_subjects(&self) -> Vec<Subject> {
        let mut all: Vec<Subject> =
            self.catalog.tables().map(|table| Subject::Relation(table.name.clone())).collect();
        all.extend(self.views.keys().map(|name| Subject::Relation(name.clone())));
        all.extend(self.procedures.keys().map(|name| Subject::Routine(name.clone())));
        all.extend(self.namespaces.iter().map(|name| Subject::Namespace(name.clone())));
        all.push(Subject::Namespace("public".into()));
        let types = self.catalog.enumerations().map(|enumeration| enumeration.definition().name.clone());
        let types = types.chain(self.catalog.domains().map(|domain| domain.name.clone()));
        all.extend(types.map(Subject::Type));
        all
    }

    /// Makes a role the owner of an object that it has created, with its default privileges.
    pub(crate) fn adopt(&mut self, subject: &Subject, role: RoleId) {
        if role != BOOTSTRAP {
            self.rights_mut().owners.insert(subject.clone(), role);
        }
        let Some(kind) = self.acl_kind(subject) else { return };
        let namespace = match subject {
            Subject::Relation(name) | Subject::Type(name) | Subject::Routine(name) => {
                Some(namespace_in(name))
            }
            _ => None,
        };
        let wanted = |of: Option<&str>| {
            let is_it = |default: &&DefaultAcl| {
                default.role == role && default.kind == kind && default.namespace.as_deref() == of
            };
            self.rights.defaults.iter().find(is_it).map(|default| default.acl.clone())
        };
        let (global, special) = (wanted(None), namespace.and_then(|name| wanted(Some(name))));
        if global.is_none() && special.is_none() {
            return;
        }
        let default = kind.default(role);
        let mut acl = global.unwrap_or_else(|| default.clone());
        for item in special.into_iter().flat_map(|acl| acl.0) {
            let is_its =
                |known: &&mut AclItem| (known.grantee, known.grantor) == (item.grantee, item.grantor);
            match acl.0.iter_mut().find(is_its) {
                Some(known) => {
                    known.privileges |= item.privileges;
                    known.options |= item.options;
                }
                None => acl.0.push(item),
            }
        }
        acl.sort();
        let mut sorted = default;
        sorted.sort();
        // As in PostgreSQL, an object that no role would have privileges on gets those of a new object.
        if acl != sorted && !acl.0.is_empty() {
            self.rights_mut().acls.insert(subject.clone(), acl);
        }
    }
}

/// Returns the ACL of the schema `public` in a new database.
fn public_acl(owner: RoleId) -> Acl {
    let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, options: 0 };
    Acl(vec![item(owner, USAGE | CREATE), item(PUBLIC, USAGE)])
}
