//! The views of `information_schema` about privileges.

use super::information_schema::DATABASE;
use super::{Cell, SystemRelation, SystemRows, TEXT};
use crate::full_names::short;
use crate::roles::acl::{Acl, AclItem, AclKind, PUBLIC, Privileges, RoleId, USAGE, WORDS};
use crate::schema::Schema;
use crate::session_schema::is_temporary_name;
use crate::subject::Subject;
use catalog::Table;
use procedure::Procedure;
use std::sync::Arc;

/// An object, the privileges on it, and its owner.
struct Granted {
    /// The columns that say which object it is.
    object: Vec<Cell>,
    acl: Acl,
    owner: RoleId,
}

impl Schema {
    /// Returns a view about privileges; `None` for any other name.
    pub(super) fn grants_view(&self, name: &str) -> Option<SystemRelation> {
        Some(match name {
            "table_privileges" | "role_table_grants" => self.table_privileges(name),
            "column_privileges" | "role_column_grants" => self.column_privileges(name),
            "routine_privileges" | "role_routine_grants" => self.routine_privileges(name),
            "usage_privileges" | "role_usage_grants" => self.usage_privileges(name),
            "enabled_roles" => {
                let all = self.role_names().into_iter();
                let enabled = all.filter(|(id, _)| self.has_privileges_of(self.acting, *id as u32));
                let rows = enabled.map(|(_, name)| vec![name.into()]).collect();
                SystemRelation::new(&[("role_name", TEXT)], rows)
            }
            "applicable_roles" | "administrable_role_authorizations" => self.applicable_roles(name),
            _ => return None,
        })
    }

    /// Returns a view about privileges: a row for each privilege on an object that the acting role sees. The
    /// columns `names` say which object it is.
    fn granted(&self, view: &str, names: &[&'static str], objects: Vec<Granted>) -> SystemRelation {
        let text = |name: &&'static str| (*name, TEXT);
        let mut columns = vec![("grantor", TEXT), ("grantee", TEXT)];
        columns.extend(names.iter().map(text));
        columns.extend([("privilege_type", TEXT), ("is_grantable", TEXT)]);
        let is_enabled = |role: RoleId| role != PUBLIC && self.has_privileges_of(self.acting, role);
        let is_shown = |item: &AclItem| {
            let is_public = item.grantee == PUBLIC && !view.starts_with("role_");
            is_public || is_enabled(item.grantee) || is_enabled(item.grantor)
        };
        let name = |role: RoleId| match role {
            PUBLIC => Cell::from("PUBLIC"),
            role => self.role_name(role).into(),
        };
        let mut rows = Vec::new();
        for Granted { object, acl, owner } in objects {
            for item in acl.0.iter().filter(|item| is_shown(item)) {
                let is_owner = item.grantee != PUBLIC && self.has_privileges_of(item.grantee, owner);
                for (privilege, _, word) in WORDS.into_iter().filter(|own| item.privileges & own.0 != 0) {
                    let is_grantable = is_owner || item.options & privilege != 0;
                    let mut row = vec![name(item.grantor), name(item.grantee)];
                    row.extend(object.iter().cloned());
                    row.extend([word.into(), if is_grantable { "YES" } else { "NO" }.into()]);
                    rows.push(row);
                }
            }
        }
        SystemRelation::new(&columns, rows)
    }

    /// Returns database, schema and name of an object, as three columns.
    fn place_of(&self, name: &str) -> Vec<Cell> {
        vec![DATABASE.into(), self.namespace_of(name).into(), short(name).into()]
    }

    /// Returns all tables and views, with the privileges on them.
    fn granted_relations(&self) -> impl Iterator<Item = (String, Granted)> {
        let all = self.owned_subjects().into_iter();
        all.filter_map(|subject| match (&subject, self.acl_kind(&subject)) {
            (Subject::Relation(name), Some(AclKind::Table)) => {
                let (acl, owner) = (self.acl_of(&subject), self.owner_of(&subject));
                Some((name.clone(), Granted { object: self.place_of(name), acl, owner }))
            }
            _ => None,
        })
    }

    fn table_privileges(&self, view: &str) -> SystemRelation {
        let names = ["table_catalog", "table_schema", "table_name"];
        let objects = self.granted_relations().map(|(_, granted)| granted).collect();
        let mut relation = self.granted(view, &names, objects);
        relation.columns.push(("with_hierarchy", TEXT));
        if let SystemRows::Known(rows) = &mut relation.rows {
            for row in rows {
                let is_select = matches!(&row[5], Cell::Text(word) if word == "SELECT");
                row.push(if is_select { "YES" } else { "NO" }.into());
            }
        }
        relation
    }

    /// Returns the privileges on columns, including those on the whole table.
    fn column_privileges(&self, view: &str) -> SystemRelation {
        let mut objects = Vec::new();
        for (name, Granted { object, acl, owner }) in self.granted_relations() {
            let names: Vec<String> = match (self.catalog.table(&name), self.view(&name)) {
                (Ok(table), _) => table.visible().iter().map(|column| column.name.clone()).collect(),
                (_, Some(view)) => self.view_columns(view).into_iter().map(|(name, _)| name).collect(),
                _ => Vec::new(),
            };
            for column in names {
                // As in PostgreSQL, a privilege with the grant option and one without it are separate rows.
                let on_column = self.acl_of(&Subject::Column(name.clone(), column.clone()));
                let mut all = Acl::default();
                for item in acl.0.iter().chain(&on_column.0) {
                    for (privilege, ..) in WORDS {
                        let (privileges, options) = (item.privileges & privilege, item.options & privilege);
                        let single = AclItem { privileges, options, ..*item };
                        if privileges & AclKind::Column.all() != 0 && !all.0.contains(&single) {
                            all.0.push(single);
                        }
                    }
                }
                let mut object = object.clone();
                object.push(column.into());
                objects.push(Granted { object, acl: all, owner });
            }
        }
        self.granted(view, &["table_catalog", "table_schema", "table_name", "column_name"], objects)
    }

    fn routine_privileges(&self, view: &str) -> SystemRelation {
        let names = [
            "specific_catalog",
            "specific_schema",
            "specific_name",
            "routine_catalog",
            "routine_schema",
            "routine_name",
        ];
        let granted = |own: &Arc<Procedure>| {
            let subject = Subject::Routine(own.name.clone());
            let specific = format!("{}_{}", short(&own.name), crate::oids::routine_oid(own));
            let mut object = vec![DATABASE.into(), self.namespace_of(&own.name).into(), specific.into()];
            object.extend(self.place_of(&own.name));
            Granted { object, acl: self.acl_of(&subject), owner: self.owner_of(&subject) }
        };
        self.granted(view, &names, self.procedures().map(granted).collect())
    }

    /// The privilege USAGE on sequences and domains.
    fn usage_privileges(&self, view: &str) -> SystemRelation {
        // As in PostgreSQL, a sequence of which no privileges were granted is not there.
        let is_listed = |own: &&Arc<Table>| {
            own.sequence.is_some() && self.given_acl(&Subject::Relation(own.name.clone())).is_some()
        };
        let sequences = self.catalog.tables().filter(is_listed);
        let sequences = sequences.map(|own| (Subject::Relation(own.name.clone()), &own.name, "SEQUENCE"));
        let domains =
            self.catalog.domains().map(|own| (Subject::Type(own.name.clone()), &own.name, "DOMAIN"));
        let granted = |(subject, name, kind): (Subject, &String, &str)| {
            let mut object = self.place_of(name);
            object.push(kind.into());
            let mut acl = self.acl_of(&subject);
            acl.0.iter_mut().for_each(|item| item.privileges &= USAGE);
            Granted { object, acl, owner: self.owner_of(&subject) }
        };
        let names = ["object_catalog", "object_schema", "object_name", "object_type"];
        self.granted(view, &names, sequences.chain(domains).map(granted).collect())
    }

    /// Returns whether `information_schema` shows a relation to the acting role: it owns the relation, or has
    /// one of some privileges on it or on a column.
    pub(super) fn shows_relation(&self, relation: &str, privileges: Privileges) -> bool {
        if is_temporary_name(relation) && !self.is_on_path(relation) {
            return false;
        }
        let subject = Subject::Relation(relation.into());
        self.owns(self.acting, &subject)
            || self.privileges_on(self.acting, &subject) & privileges != 0
            || self.may_use_columns(self.acting, relation, privileges & AclKind::Column.all(), &[])
    }

    /// Returns whether `information_schema` shows a column to the acting role.
    pub(super) fn shows_column(&self, relation: &str, column: &str) -> bool {
        if is_temporary_name(relation) && !self.is_on_path(relation) {
            return false;
        }
        let subject = Subject::Relation(relation.into());
        self.owns(self.acting, &subject)
            || self.may_use_columns(self.acting, relation, AclKind::Column.all(), &[column.to_owned()])
    }

    fn applicable_roles(&self, view: &str) -> SystemRelation {
        let columns = [("grantee", TEXT), ("role_name", TEXT), ("is_grantable", TEXT)];
        let mut rows = Vec::new();
        for membership in &self.roles().memberships {
            let is_its = self.has_privileges_of(self.acting, membership.member);
            if is_its && (membership.admin || view == "applicable_roles") {
                let is_grantable = if membership.admin { "YES" } else { "NO" };
                let [member, role] = [membership.member, membership.role].map(|id| self.role_name(id));
                rows.push(vec![member.into(), role.into(), is_grantable.into()]);
            }
        }
        SystemRelation::new(&columns, rows)
    }
}
