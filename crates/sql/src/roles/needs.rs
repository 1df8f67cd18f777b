//! The privileges that a statement needs, which the binder notes as it resolves names.
//!
//! As in PostgreSQL, a view reads its relations with the privileges of its owner, and a statement needs
//! privileges only on the columns that it refers to. The binder checks the privileges. Each change of
//! privileges makes a new version of the definitions, for which sessions bind all statements again.
//! Held by: `reprise_workload::roles` (the matrix beside PostgreSQL).

use super::acl::{EXECUTE, Privileges, RoleId, SELECT, UPDATE, USAGE};
use super::need::{Need, RelationNeed};
use super::rights::namespace_in;
use crate::binder::Binder;
use crate::subject::Subject;
use procedure::{Raise, SqlError, Statement};
use std::collections::BTreeSet;

impl Binder<'_> {
    /// Returns whether the binder checks the privileges of a role. It checks none of a superuser.
    fn is_checked(&self, role: RoleId) -> bool {
        !self.schema.is_superuser(role)
    }

    /// Notes a privilege on a relation. Returns the index of the need, for `need_column`.
    pub(crate) fn need_relation(
        &mut self,
        relation: &str,
        privilege: Privileges,
        names: Vec<String>,
        always: bool,
    ) -> Option<usize> {
        let role = self.relations_as;
        if !self.is_checked(role) {
            return None;
        }
        self.need_namespace(namespace_in(relation));
        let (relation, columns) = (relation.to_owned(), BTreeSet::new());
        self.needs.push(Need::Relation(RelationNeed { relation, role, privilege, names, columns, always }));
        Some(self.needs.len() - 1)
    }

    /// Adds a column to a need.
    pub(crate) fn need_column(&mut self, need: usize, column: usize) {
        if let Some(Need::Relation(relation)) = self.needs.get_mut(need) {
            relation.columns.insert(column);
        }
    }

    /// Notes UPDATE on a relation with the need of index `need`, because FOR UPDATE holds its rows.
    pub(crate) fn need_hold(&mut self, need: usize) {
        if let Some(Need::Relation(read)) = self.needs.get(need) {
            let held =
                RelationNeed { privilege: UPDATE, columns: BTreeSet::new(), always: true, ..read.clone() };
            self.needs.push(Need::Relation(held));
        }
    }

    /// Notes SELECT on a relation of the level.
    pub(crate) fn need_read(
        &mut self,
        relation_index: usize,
        relation: &str,
        names: Vec<String>,
        always: bool,
    ) {
        if let Some(need) = self.need_relation(relation, SELECT, names, always)
            && let Some(level) = self.queries.levels.last_mut()
        {
            level.reads.retain(|(index, _)| *index != relation_index);
            level.reads.push((relation_index, need));
        }
    }

    /// Notes EXECUTE on a routine.
    pub(crate) fn need_execute(&mut self, routine: &str) {
        let role = self.schema.acting;
        if self.is_checked(role) {
            self.need_namespace(namespace_in(routine));
            self.needs.push(Need::Object(Subject::Routine(routine.into()), role, EXECUTE));
        }
    }

    /// Notes one of some privileges on a sequence or a table.
    pub(crate) fn need_object(&mut self, relation: &str, privileges: Privileges) {
        let role = self.schema.acting;
        if self.is_checked(role) {
            self.need_namespace(namespace_in(relation));
            self.needs.push(Need::Object(Subject::Relation(relation.into()), role, privileges));
        }
    }

    /// Notes USAGE on the schema of an object that the statement names. A view needs none for the objects
    /// that it names, because CREATE VIEW has looked them up.
    fn need_namespace(&mut self, namespace: &str) {
        if self.views_within == 0 {
            let role = self.schema.acting;
            self.needs.push(Need::Object(Subject::Namespace(namespace.into()), role, USAGE));
        }
    }

    /// Notes that only superusers may read a system relation.
    pub(crate) fn need_superuser(&mut self, relation: &str) {
        if self.is_checked(self.relations_as) {
            self.needs.push(Need::Superuser(relation.into()));
        }
    }

    /// Returns the error of the first need that the role does not meet: of schemas first, then of relations,
    /// then of other objects. Clears the needs.
    pub(crate) fn refusal(&mut self) -> Option<SqlError> {
        let needs = std::mem::take(&mut self.needs);
        let (schemas, remaining): (Vec<_>, Vec<_>) =
            needs.iter().partition(|need| matches!(need, Need::Object(Subject::Namespace(_), ..)));
        let (relations, objects): (Vec<_>, Vec<_>) =
            remaining.into_iter().partition(|need| !matches!(need, Need::Object(..)));
        [schemas, relations, objects].concat().into_iter().find_map(|need| self.unmet(need))
    }

    fn unmet(&self, need: &Need) -> Option<SqlError> {
        let schema = self.schema;
        match need {
            Need::Relation(need) => {
                if need.columns.is_empty() && !need.always {
                    return None;
                }
                let columns: Vec<String> =
                    need.columns.iter().filter_map(|column| need.names.get(*column).cloned()).collect();
                let is_met = schema.may_use_columns(need.role, &need.relation, need.privilege, &columns);
                (!is_met).then(|| schema.denied(&Subject::Relation(need.relation.clone())))
            }
            Need::Object(subject, role, privileges) => {
                let has_some = schema.privileges_on(*role, subject) & privileges != 0;
                (!has_some).then(|| schema.denied(subject))
            }
            Need::Superuser(relation) => {
                let kind = if relation == "pg_shadow" { "view" } else { "table" };
                Some(SqlError::new("42501", format!("permission denied for {kind} {relation}")))
            }
        }
    }

    /// Inserts an error before the statements of a routine from `index` on, if the role does not meet a need
    /// of these.
    pub(crate) fn refuse_from(&mut self, index: usize, out: &mut Vec<Statement>) {
        if let Some(error) = self.refusal() {
            self.is_refused = true;
            let raise = Statement::Raise(Box::new(Raise::error(&error.sqlstate, &error.message)));
            // The calls in the statement's expressions run before the statement.
            match &mut self.lifted {
                Some(lifted) if !lifted.is_empty() => lifted.insert(0, raise),
                _ => out.insert(index, raise),
            }
        }
    }

    /// Adds the needs of a nested binder.
    pub(crate) fn take_needs(&mut self, inner: &mut Binder<'_>) {
        self.needs.append(&mut inner.needs);
        self.follows_role |= inner.follows_role;
        self.reads_catalog |= inner.reads_catalog;
        self.is_refused |= inner.is_refused;
    }
}
