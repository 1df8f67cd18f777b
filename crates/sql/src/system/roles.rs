//! The relations of `pg_catalog` about roles, and the texts and rows of ACLs.

use super::{BOOL, Cell, INT, SystemRelation, TEXT, TEXTS};
use crate::roles::acl::{Acl, AclKind, PUBLIC, RoleId, letters};
use crate::roles::role::Role;
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

/// Returns the verifier of a role's password, or stars in its place.
fn password_cell(role: &Role, is_shown: bool) -> Cell {
    match is_shown {
        true => role.password.as_ref().map_or(Cell::Null, |verifier| verifier.as_str().into()),
        false => "********".into(),
    }
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
            "pg_roles" => self.pg_roles(false),
            "pg_authid" => self.pg_roles(true),
            "pg_user" => self.pg_user(false),
            "pg_shadow" => self.pg_user(true),
            "pg_auth_members" => self.pg_auth_members(),
            "pg_default_acl" => self.pg_default_acl(),
            _ => return None,
        })
    }

    /// Returns a relation with a row for each role, whose columns have the names and values of a function.
    fn listed_roles(
        &self,
        is_listed: impl Fn(&Role) -> bool,
        row: impl Fn(RoleId, &Role) -> Vec<(&'static str, Type, Cell)>,
    ) -> SystemRelation {
        let (mut columns, mut rows) = (Vec::new(), Vec::new());
        for (id, role) in self.roles().all.iter().filter(|(_, role)| is_listed(role)) {
            let cells = row(*id, role);
            columns = cells.iter().map(|(name, ty, _)| (*name, *ty)).collect();
            rows.push(cells.into_iter().map(|(_, _, cell)| cell).collect());
        }
        SystemRelation::new(&columns, rows)
    }

    /// `pg_roles`, and `pg_authid`, which shows verifiers of passwords.
    fn pg_roles(&self, shows_passwords: bool) -> SystemRelation {
        let row = |id: RoleId, role: &Role| {
            let mut row = vec![
                ("oid", INT, i64::from(id).into()),
                ("rolname", TEXT, role.name.as_str().into()),
                ("rolsuper", BOOL, role.is_superuser.into()),
                ("rolinherit", BOOL, role.inherits.into()),
                ("rolcreaterole", BOOL, role.creates_roles.into()),
                ("rolcreatedb", BOOL, role.creates_databases.into()),
                ("rolcanlogin", BOOL, role.logs_in.into()),
                ("rolreplication", BOOL, role.replicates.into()),
                ("rolbypassrls", BOOL, role.bypasses_rls.into()),
                ("rolconnlimit", INT, role.connections.into()),
                ("rolpassword", TEXT, password_cell(role, shows_passwords)),
                ("rolvaliduntil", TIME, time_of(role)),
            ];
            if !shows_passwords {
                row.push(("rolconfig", TEXTS, Cell::Null));
            }
            row
        };
        self.listed_roles(|_| true, row)
    }

    /// Returns `pg_user`, or with `shows_passwords` `pg_shadow`, which has the verifiers of passwords.
    fn pg_user(&self, shows_passwords: bool) -> SystemRelation {
        let row = |id: RoleId, role: &Role| {
            vec![
                ("usename", TEXT, role.name.as_str().into()),
                ("usesysid", INT, i64::from(id).into()),
                ("usecreatedb", BOOL, role.creates_databases.into()),
                ("usesuper", BOOL, role.is_superuser.into()),
                ("userepl", BOOL, role.replicates.into()),
                ("usebypassrls", BOOL, role.bypasses_rls.into()),
                ("passwd", TEXT, password_cell(role, shows_passwords)),
                ("valuntil", TIME, time_of(role)),
                ("useconfig", TEXTS, Cell::Null),
            ]
        };
        self.listed_roles(|role| role.logs_in, row)
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
}
