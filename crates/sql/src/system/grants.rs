//! The views of `information_schema` about privileges.

use super::information_schema::DATABASE;
use super::{Cell, SystemRelation, TEXT};
use crate::roles::acl::{Acl, AclItem, AclKind, RoleId, WORDS};
use crate::schema::Schema;
use crate::subject::Subject;
use crate::types::short;

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

    /// Returns whether a view shows an item: the acting role must have granted it, or have it. The `role_…`
    /// views leave out the grants to PUBLIC.
    fn shows(&self, view: &str, item: &[Cell; 4]) -> bool {
        let is_public = matches!(&item[1], Cell::Text(name) if name == "PUBLIC");
        !(view.starts_with("role_") && is_public) && self.sees_grants_of(item)
    }

    fn relations_with_acls(&self) -> impl Iterator<Item = (String, Acl, RoleId)> {
        let all = self.owned_subjects().into_iter();
        all.filter_map(|subject| match (&subject, self.acl_kind(&subject)) {
            (Subject::Relation(name), Some(AclKind::Table)) => {
                Some((name.clone(), self.acl_of(&subject), self.owner_of(&subject)))
            }
            _ => None,
        })
    }

    fn table_privileges(&self, view: &str) -> SystemRelation {
        let columns = [
            ("grantor", TEXT),
            ("grantee", TEXT),
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("privilege_type", TEXT),
            ("is_grantable", TEXT),
            ("with_hierarchy", TEXT),
        ];
        let mut rows = Vec::new();
        for (name, acl, owner) in self.relations_with_acls() {
            for item in self.exploded(&acl, owner).into_iter().filter(|item| self.shows(view, item)) {
                let is_select = matches!(&item[2], Cell::Text(word) if word == "SELECT");
                let [grantor, grantee, word, is_grantable] = item;
                rows.push(vec![
                    grantor,
                    grantee,
                    DATABASE.into(),
                    self.namespace_of(&name).into(),
                    short(&name).into(),
                    word,
                    is_grantable,
                    if is_select { "YES" } else { "NO" }.into(),
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }

    /// Returns the privileges on columns, including those on the whole table.
    fn column_privileges(&self, view: &str) -> SystemRelation {
        let columns = [
            ("grantor", TEXT),
            ("grantee", TEXT),
            ("table_catalog", TEXT),
            ("table_schema", TEXT),
            ("table_name", TEXT),
            ("column_name", TEXT),
            ("privilege_type", TEXT),
            ("is_grantable", TEXT),
        ];
        let mut rows = Vec::new();
        for (name, acl, owner) in self.relations_with_acls() {
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
                for item in self.exploded(&all, owner).into_iter().filter(|item| self.shows(view, item)) {
                    let [grantor, grantee, word, is_grantable] = item;
                    rows.push(vec![
                        grantor,
                        grantee,
                        DATABASE.into(),
                        self.namespace_of(&name).into(),
                        short(&name).into(),
                        column.as_str().into(),
                        word,
                        is_grantable,
                    ]);
                }
            }
        }
        SystemRelation::new(&columns, rows)
    }

    fn routine_privileges(&self, view: &str) -> SystemRelation {
        let columns = [
            ("grantor", TEXT),
            ("grantee", TEXT),
            ("specific_catalog", TEXT),
            ("specific_schema", TEXT),
            ("specific_name", TEXT),
            ("routine_catalog", TEXT),
            ("routine_schema", TEXT),
            ("routine_name", TEXT),
            ("privilege_type", TEXT),
            ("is_grantable", TEXT),
        ];
        let mut rows = Vec::new();
        for routine in self.procedures() {
            let subject = Subject::Routine(routine.name.clone());
            let (acl, owner) = (self.acl_of(&subject), self.owner_of(&subject));
            for item in self.exploded(&acl, owner).into_iter().filter(|item| self.shows(view, item)) {
                let [grantor, grantee, word, is_grantable] = item;
                rows.push(vec![
                    grantor,
                    grantee,
                    DATABASE.into(),
                    self.namespace_of(&routine.name).into(),
                    format!("{}_{}", short(&routine.name), crate::oids::routine_oid(routine)).into(),
                    DATABASE.into(),
                    self.namespace_of(&routine.name).into(),
                    short(&routine.name).into(),
                    word,
                    is_grantable,
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
    }

    /// Returns the privileges USAGE on sequences.
    fn usage_privileges(&self, view: &str) -> SystemRelation {
        let columns = [
            ("grantor", TEXT),
            ("grantee", TEXT),
            ("object_catalog", TEXT),
            ("object_schema", TEXT),
            ("object_name", TEXT),
            ("object_type", TEXT),
            ("privilege_type", TEXT),
            ("is_grantable", TEXT),
        ];
        let mut rows = Vec::new();
        for sequence in self.catalog.tables().filter(|sequence| sequence.sequence.is_some()) {
            let subject = Subject::Relation(sequence.name.clone());
            let (acl, owner) = (self.acl_of(&subject), self.owner_of(&subject));
            let is_usage = |item: &[Cell; 4]| matches!(&item[2], Cell::Text(word) if word == "USAGE");
            let all = self.exploded(&acl, owner).into_iter().filter(is_usage);
            for item in all.filter(|item| self.shows(view, item)) {
                let [grantor, grantee, word, is_grantable] = item;
                rows.push(vec![
                    grantor,
                    grantee,
                    DATABASE.into(),
                    self.namespace_of(&sequence.name).into(),
                    sequence.short_name().into(),
                    "SEQUENCE".into(),
                    word,
                    is_grantable,
                ]);
            }
        }
        SystemRelation::new(&columns, rows)
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
