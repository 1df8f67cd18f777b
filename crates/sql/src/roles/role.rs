//! The roles of a database: attributes and memberships.
//!
//! Objects and privileges refer to a role by its number, so RENAME changes only the role. Each database has
//! the bootstrap superuser, which has the number 10 and owns every object that no other role owns.
//! Not here: owners and privileges of objects (`rights`).

use super::acl::{Inheritance, RoleId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The bootstrap superuser, which each database has.
pub(crate) const BOOTSTRAP: RoleId = 10;
/// The role whose only member is the owner of the database.
pub(crate) const DATABASE_OWNER: RoleId = 6171;
const READ_ALL_DATA: RoleId = 6181;
const WRITE_ALL_DATA: RoleId = 6182;

/// The number of the first role that a statement creates.
const FIRST: RoleId = 16_384;

/// PostgreSQL's predefined roles.
const PREDEFINED: [(RoleId, &str); 12] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (3373, "pg_monitor"),
    (3374, "pg_read_all_settings"),
    (3375, "pg_read_all_stats"),
    (3377, "pg_stat_scan_tables"),
    (4569, "pg_read_server_files"),
    (4570, "pg_write_server_files"),
    (4571, "pg_execute_server_program"),
    (4200, "pg_signal_backend"),
    (4544, "pg_checkpoint"),
];

/// A role. Checkpoints contain the names of the fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The name, which is unique among roles.
    pub name: String,
    /// SUPERUSER: whether it bypasses all checks of privileges.
    pub is_superuser: bool,
    /// INHERIT: whether it has the privileges of the roles of which it is a member.
    pub inherits: bool,
    /// CREATEROLE: whether it may create, alter and drop roles.
    pub creates_roles: bool,
    /// CREATEDB; without effect, because CREATE DATABASE is not supported.
    pub creates_databases: bool,
    /// LOGIN: whether a client may log in as the role.
    pub logs_in: bool,
    /// REPLICATION; without effect.
    pub replicates: bool,
    /// BYPASSRLS; without effect.
    pub bypasses_rls: bool,
    /// CONNECTION LIMIT: maximum number of connections; -1 is no limit.
    pub connections: i64,
    /// The verifier of its password; `None` if it has none.
    pub password: Option<String>,
    /// VALID UNTIL: the time until which the password is valid, in microseconds since 1970, and its text.
    pub valid_until: Option<(i64, String)>,
}

impl Role {
    /// Returns a role with the attributes of CREATE ROLE without options.
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            is_superuser: false,
            inherits: true,
            creates_roles: false,
            creates_databases: false,
            logs_in: false,
            replicates: false,
            bypasses_rls: false,
            connections: -1,
            password: None,
            valid_until: None,
        }
    }
}

/// A membership: `member` has been granted `role`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Membership {
    pub(crate) role: RoleId,
    pub(crate) member: RoleId,
    pub(crate) grantor: RoleId,
    /// Whether the member may grant the role.
    pub(crate) admin: bool,
}

/// All roles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Roles {
    pub(crate) all: BTreeMap<RoleId, Role>,
    pub(crate) memberships: Vec<Membership>,
    next: RoleId,
}

impl Default for Roles {
    fn default() -> Self {
        let superuser = Role {
            is_superuser: true,
            creates_roles: true,
            creates_databases: true,
            logs_in: true,
            replicates: true,
            bypasses_rls: true,
            ..Role::new("postgres".into())
        };
        let predefined = PREDEFINED.iter();
        let mut all: BTreeMap<_, _> = predefined.map(|(id, name)| (*id, Role::new((*name).into()))).collect();
        all.insert(BOOTSTRAP, superuser);
        let member = |role, member| Membership { role, member, grantor: BOOTSTRAP, admin: false };
        let memberships = [3374, 3375, 3377].map(|role| member(role, 3373)).to_vec();
        Self { all, memberships, next: FIRST }
    }
}

impl Roles {
    /// Returns a role by its name.
    pub(crate) fn named(&self, name: &str) -> Option<RoleId> {
        self.all.iter().find(|(_, role)| role.name == name).map(|(id, _)| *id)
    }

    /// Returns the name of a role.
    pub(crate) fn name(&self, id: RoleId) -> &str {
        self.all.get(&id).map_or("", |role| role.name.as_str())
    }

    /// Returns whether a role is a superuser.
    pub(crate) fn is_superuser(&self, id: RoleId) -> bool {
        self.all.get(&id).is_some_and(|role| role.is_superuser)
    }

    /// Returns whether no statement has changed the predefined roles.
    pub(crate) fn are_only_predefined(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a role. Returns its number.
    pub(crate) fn add(&mut self, role: Role) -> RoleId {
        let id = self.next;
        self.next += 1;
        self.all.insert(id, role);
        id
    }

    /// Removes a role with its memberships.
    pub(crate) fn remove(&mut self, id: RoleId) {
        self.all.remove(&id);
        self.memberships.retain(|membership| membership.role != id && membership.member != id);
    }

    /// Returns a role and the roles of which it is a member, directly or indirectly. If `inherited` is set,
    /// only the roles whose privileges it has.
    pub(crate) fn roles_of(&self, id: RoleId, inherited: bool) -> Vec<RoleId> {
        let (mut found, mut seen) = (vec![id], BTreeSet::from([id]));
        let mut next = 0;
        while let Some(member) = found.get(next).copied() {
            next += 1;
            if inherited && !self.all.get(&member).is_some_and(|role| role.inherits) {
                continue;
            }
            let granted = self
                .memberships
                .iter()
                .filter(|membership| membership.member == member)
                .map(|membership| membership.role);
            // The bootstrap superuser owns the database.
            let owner = (member == BOOTSTRAP).then_some(DATABASE_OWNER);
            found.extend(granted.chain(owner).filter(|role| seen.insert(*role)));
        }
        found
    }

    /// Returns whether two roles are the same, or `member` is a member of `role`. A superuser is a member of
    /// all roles.
    pub(crate) fn is_member(&self, member: RoleId, role: RoleId) -> bool {
        self.is_superuser(member) || self.is_true_member(member, role)
    }

    /// As `is_member`, but a superuser is a member only of the roles granted to it.
    pub(crate) fn is_true_member(&self, member: RoleId, role: RoleId) -> bool {
        member == role || self.roles_of(member, false).contains(&role)
    }

    /// Returns whether `member` may grant `role`.
    pub(crate) fn is_admin(&self, member: RoleId, role: RoleId) -> bool {
        let roles = self.roles_of(member, false);
        self.is_superuser(member)
            || self.memberships.iter().any(|membership| {
                membership.role == role && membership.admin && roles.contains(&membership.member)
            })
    }

    /// Returns whether a role has the privileges of `pg_read_all_data`, or with `writes` those of
    /// `pg_write_all_data`.
    pub(crate) fn reads_all(&self, id: RoleId, writes: bool) -> bool {
        let role = if writes { WRITE_ALL_DATA } else { READ_ALL_DATA };
        self.has_privileges_of(id, role)
    }
}

impl Inheritance for Roles {
    fn has_privileges_of(&self, member: RoleId, role: RoleId) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, true).contains(&role)
    }

    fn privileges_from(&self, role: RoleId) -> Vec<RoleId> {
        self.roles_of(role, true)
    }
}
