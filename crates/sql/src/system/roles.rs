//! The relations of `pg_catalog` about roles, and the texts and rows of ACLs.

use super::{BOOL, Cell, INT, SystemRelation, TEXT, TEXTS};
use crate::roles::acl::{Acl, AclKind, PUBLIC, RoleId, letters};
use crate::roles::role::{BOOTSTRAP, Role};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{ScalarType, Type};

const TIME: Type = Type::Scalar(ScalarType::Timestamptz);

/// Returns the letter of a kind of object in `pg_default_acl`.
fn kind_letter(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Table | AclKind::Column => "r",
        AclKind::Sequence => "S",
        AclKind::Routine => "f",
        AclKind::Namespace | AclKind::Database => "n",
        AclKind::Type => "T",
    }
}

/// Returns VALID UNTIL of a role, which may be infinite.
fn time_of(role: &Role) -> Cell {
    role.valid_until.as_ref().map_or(Cell::Null, |(until, _)| Cell::Int(*until))
}

impl Schema {
    /// Returns a role's name in the text of an ACL, in quotes if it needs them; empty for PUBLIC.
    fn name_in_acl(&self, role: RoleId) -> String {
        let name = self.role_name(role);
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
        match role {
            PUBLIC => String::new(),
            _ if is_plain => name.to_owned(),
            _ => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// Returns the items of an ACL as texts.
    pub(crate) fn acl_texts(&self, acl: &Acl) -> Vec<String> {
        let text = |item: &crate::roles::acl::AclItem| {
            let (grantee, grantor) = (self.name_in_acl(item.grantee), self.name_in_acl(item.grantor));
            format!("{grantee}={}/{grantor}", letters(item.privileges, item.options))
        };
        acl.0.iter().map(text).collect()
    }

    /// Returns the ACL of an object; NULL if no statement has changed it.
    pub(super) fn acl_cell(&self, subject: &Subject) -> Cell {
        let is_public = matches!(subject, Subject::Namespace(name) if name == "public");
        match self.given_acl(subject) {
            Some(acl) => Cell::Texts(self.acl_texts(acl)),
            None if is_public => Cell::Texts(self.acl_texts(&self.acl_of(subject))),
            None => Cell::Null,
        }
    }

    /// Returns the OID of an object's owner.
    pub(super) fn owner_cell(&self, subject: &Subject) -> Cell {
        Cell::Int(self.owner_of(subject).into())
    }

    /// Returns the name of a relation's owner.
    pub(super) fn owner_name(&self, relation: &str) -> Cell {
        self.role_name(self.owner_of(&Subject::Relation(relation.into()))).into()
    }

    /// Returns a relation about roles; `None` for any other name.
    pub(super) fn roles_catalog(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "pg_roles" => self.pg_roles(),
            "pg_authid" => self.pg_authid(),
            "pg_user" => self.pg_user(false),
            "pg_shadow" => self.pg_user(true),
            "pg_auth_members" => self.pg_auth_members(),
            "pg_default_acl" => self.pg_default_acl(),
            _ => return None,
        })
    }

    fn pg_roles(&self) -> SystemRelation {
        let columns = [
            ("rolname", TEXT),
            ("rolsuper", BOOL),
            ("rolinherit", BOOL),
            ("rolcreaterole", BOOL),
            ("rolcreatedb", BOOL),
            ("rolcanlogin", BOOL),
            ("rolreplication", BOOL),
            ("rolconnlimit", INT),
            ("rolpassword", TEXT),
            ("rolvaliduntil", TIME),
            ("rolbypassrls", BOOL),
            ("rolconfig", TEXTS),
            ("oid", INT),
        ];
        let row = |(id, role): (&RoleId, &Role)| {
            vec![
                role.name.as_str().into(),
                role.is_superuser.into(),
                role.inherits.into(),
                role.creates_roles.into(),
                role.creates_databases.into(),
                role.logs_in.into(),
                role.replicates.into(),
                role.connections.into(),
                "********".into(),
                time_of(role),
                role.bypasses_rls.into(),
                Cell::Null,
                i64::from(*id).into(),
            ]
        };
        SystemRelation::new(&columns, self.roles().all.iter().map(row).collect())
    }

    fn pg_authid(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("rolname", TEXT),
            ("rolsuper", BOOL),
            ("rolinherit", BOOL),
            ("rolcreaterole", BOOL),
            ("rolcreatedb", BOOL),
            ("rolcanlogin", BOOL),
            ("rolreplication", BOOL),
            ("rolbypassrls", BOOL),
            ("rolconnlimit", INT),
            ("rolpassword", TEXT),
            ("rolvaliduntil", TIME),
        ];
        let row = |(id, role): (&RoleId, &Role)| {
            vec![
                i64::from(*id).into(),
                role.name.as_str().into(),
                role.is_superuser.into(),
                role.inherits.into(),
                role.creates_roles.into(),
                role.creates_databases.into(),
                role.logs_in.into(),
                role.replicates.into(),
                role.bypasses_rls.into(),
                role.connections.into(),
                role.password.as_ref().map_or(Cell::Null, |verifier| verifier.as_str().into()),
                time_of(role),
            ]
        };
        SystemRelation::new(&columns, self.roles().all.iter().map(row).collect())
    }

    /// Returns `pg_user`, or with `shows_passwords` `pg_shadow`, which has the verifiers of passwords.
    fn pg_user(&self, shows_passwords: bool) -> SystemRelation {
        let columns = [
            ("usename", TEXT),
            ("usesysid", INT),
            ("usecreatedb", BOOL),
            ("usesuper", BOOL),
            ("userepl", BOOL),
            ("usebypassrls", BOOL),
            ("passwd", TEXT),
            ("valuntil", TIME),
            ("useconfig", TEXTS),
        ];
        let row = |(id, role): (&RoleId, &Role)| {
            let password = match shows_passwords {
                true => role.password.as_ref().map_or(Cell::Null, |verifier| verifier.as_str().into()),
                false => "********".into(),
            };
            vec![
                role.name.as_str().into(),
                i64::from(*id).into(),
                role.creates_databases.into(),
                role.is_superuser.into(),
                role.replicates.into(),
                role.bypasses_rls.into(),
                password,
                time_of(role),
                Cell::Null,
            ]
        };
        let users = self.roles().all.iter().filter(|(_, role)| role.logs_in);
        SystemRelation::new(&columns, users.map(row).collect())
    }

    fn pg_auth_members(&self) -> SystemRelation {
        let columns = [("roleid", INT), ("member", INT), ("grantor", INT), ("admin_option", BOOL)];
        let rows = self.roles().memberships.iter().map(|membership| {
            let [role, member, grantor] =
                [membership.role, membership.member, membership.grantor].map(i64::from);
            vec![role.into(), member.into(), grantor.into(), membership.admin.into()]
        });
        SystemRelation::new(&columns, rows.collect())
    }

    fn pg_default_acl(&self) -> SystemRelation {
        let columns = [
            ("oid", INT),
            ("defaclrole", INT),
            ("defaclnamespace", INT),
            ("defaclobjtype", TEXT),
            ("defaclacl", TEXTS),
        ];
        let names = self.namespace_names();
        let rows = self.rights.defaults.iter().enumerate().map(|(index, default)| {
            let namespace = default
                .namespace
                .as_ref()
                .and_then(|name| names.iter().find(|(_, known)| known == name).map(|(oid, _)| *oid));
            vec![
                (7_000_000 + index as i64).into(),
                i64::from(default.role).into(),
                namespace.unwrap_or(0).into(),
                kind_letter(default.kind).into(),
                Cell::Texts(self.acl_texts(&default.acl)),
            ]
        });
        SystemRelation::new(&columns, rows.collect())
    }

    /// Returns the ACLs of new objects of an owner, by the letters of their kinds for `acldefault`.
    pub(crate) fn acl_defaults(&self, owner: RoleId) -> Vec<(&'static str, Vec<String>)> {
        let of = |kind: AclKind| self.acl_texts(&kind.default(owner));
        let name = self.name_in_acl(owner);
        let only_owner = |letters: &str| vec![format!("{name}={letters}/{name}")];
        vec![
            ("r", of(AclKind::Table)),
            ("s", of(AclKind::Sequence)),
            ("d", of(AclKind::Database)),
            ("f", of(AclKind::Routine)),
            ("l", vec![format!("=U/{name}"), format!("{name}=U/{name}")]),
            ("T", of(AclKind::Type)),
            ("L", only_owner("rw")),
            ("n", of(AclKind::Namespace)),
            ("t", only_owner("C")),
            ("F", only_owner("U")),
            ("S", only_owner("U")),
            ("c", Vec::new()),
            ("p", only_owner("sA")),
        ]
    }

    /// Returns the OIDs and names of the roles.
    pub(crate) fn role_names(&self) -> Vec<(i64, String)> {
        self.roles().all.iter().map(|(id, role)| (i64::from(*id), role.name.clone())).collect()
    }

    /// Returns the privileges of an ACL as rows: grantor, grantee, privilege, and whether it has the grant
    /// option.
    pub(super) fn exploded(&self, acl: &Acl, owner: RoleId) -> Vec<[Cell; 4]> {
        let mut rows = Vec::new();
        for item in &acl.0 {
            for (privilege, _, word) in crate::roles::acl::WORDS {
                if item.privileges & privilege == 0 {
                    continue;
                }
                let grantee: Cell = match item.grantee {
                    PUBLIC => "PUBLIC".into(),
                    role => self.role_name(role).into(),
                };
                let is_owner = item.grantee != PUBLIC && self.has_privileges_of(item.grantee, owner);
                let is_grantable = is_owner || item.options & privilege != 0;
                let is_grantable = if is_grantable { "YES" } else { "NO" };
                rows.push([self.role_name(item.grantor).into(), grantee, word.into(), is_grantable.into()]);
            }
        }
        rows
    }

    /// Returns whether the acting role may see a row of `exploded`: it has the privileges of the grantor or
    /// of the grantee.
    pub(super) fn sees_grants_of(&self, item: &[Cell; 4]) -> bool {
        let is_enabled = |cell: &Cell| match cell {
            Cell::Text(name) if name == "PUBLIC" => true,
            Cell::Text(name) => {
                self.roles().named(name).is_some_and(|role| self.has_privileges_of(self.acting, role))
            }
            _ => false,
        };
        self.acting == BOOTSTRAP || is_enabled(&item[0]) || is_enabled(&item[1])
    }
}
