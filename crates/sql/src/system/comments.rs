//! `pg_description`: the comments on objects.

use super::{INT, PUBLIC, SystemRelation, TEXT};
use crate::oids::{routine_oid, table_oid};
use crate::schema::Schema;
use crate::subject::Subject;

/// The OID of `pg_class`, whose rows are relations.
pub(crate) const PG_CLASS: i64 = 1259;
const PG_PROC: i64 = 1255;
const PG_CONSTRAINT: i64 = 2606;
const PG_NAMESPACE: i64 = 2615;
const PG_TRIGGER: i64 = 2620;
const PG_TYPE: i64 = 1247;

/// A row of `pg_description`.
pub(crate) struct Described {
    /// The OID of the object.
    pub(crate) object: i64,
    /// The OID of the system table that has the object.
    pub(crate) class: i64,
    /// The position of the column, from 1; 0 for the object itself.
    pub(crate) column: i64,
    pub(crate) text: String,
}

impl Schema {
    /// Returns all comments, and PostgreSQL's comment on the schema `public` unless a statement has changed
    /// it.
    pub(crate) fn descriptions(&self) -> Vec<Described> {
        let described = |(subject, text): (&Subject, &String)| {
            let (class, object, column) = self.number_of(subject)?;
            Some(Described { object, class, column, text: text.clone() })
        };
        let comments: Vec<_> = self.comments.iter().filter_map(described).collect();
        let public = (PUBLIC, PG_NAMESPACE);
        let has_public = comments.iter().any(|comment| (comment.object, comment.class) == public);
        let standard = (!has_public).then(|| Described {
            object: PUBLIC,
            class: PG_NAMESPACE,
            column: 0,
            text: "standard public schema".into(),
        });
        comments.into_iter().chain(standard).collect()
    }

    /// Returns the OID of the system table that has an object, the object's OID, and the column's position,
    /// from 1; `None` if the object does not exist.
    fn number_of(&self, subject: &Subject) -> Option<(i64, i64, i64)> {
        let relation = |name: &str| self.relation_oid(name);
        Some(match subject {
            Subject::Relation(name) => (PG_CLASS, relation(name)?, 0),
            Subject::Column(owner, name) => match self.view(owner) {
                Some(view) => {
                    let position = self.view_columns(view).iter().position(|(column, _)| column == name)?;
                    (PG_CLASS, self.view_oid(view), position as i64 + 1)
                }
                None => {
                    let table = self.catalog().table(owner).ok()?;
                    (PG_CLASS, table_oid(table), table.column(name)? as i64 + 1)
                }
            },
            Subject::Constraint(owner, name) => {
                let of = self
                    .constraints()
                    .into_iter()
                    .find(|constraint| constraint.table.name == *owner && constraint.name == name)?;
                (PG_CONSTRAINT, of.oid, 0)
            }
            Subject::Trigger(owner, name) => {
                let mut all = self.all_triggers();
                let (oid, ..) =
                    all.find(|(_, table, trigger)| table.name == *owner && trigger.name == *name)?;
                (PG_TRIGGER, oid, 0)
            }
            Subject::Routine(name) => (PG_PROC, routine_oid(self.procedure(name)?), 0),
            Subject::Type(name) => (PG_TYPE, self.catalog().type_number(name)?.into(), 0),
            Subject::Database => return None,
            Subject::Namespace(name) => {
                let (oid, _) = self.namespace_names().into_iter().find(|(_, known)| known == name)?;
                (PG_NAMESPACE, oid, 0)
            }
        })
    }

    pub(super) fn pg_description(&self) -> SystemRelation {
        let columns = [("objoid", INT), ("classoid", INT), ("objsubid", INT), ("description", TEXT)];
        let row =
            |row: Described| vec![row.object.into(), row.class.into(), row.column.into(), row.text.into()];
        SystemRelation::new(&columns, self.descriptions().into_iter().map(row).collect())
    }
}
