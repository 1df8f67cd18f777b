//! The privileges that a statement needs, which the binder notes as it resolves names.
//!
//! As in PostgreSQL, a relation in a view is read with the rights of the view's owner, and a column needs no
//! privilege unless the statement refers to it. The privileges are checked when the statement is bound:
//! every change of privileges makes a new version of the definitions, for which all statements are bound
//! again.
//! Held by: `reprise_workload::roles` (the matrix beside PostgreSQL).

use super::acl::{EXECUTE, Privileges, RoleId, SELECT, UPDATE, USAGE};
use super::need::{Need, RelationNeed};
use super::rights::namespace_in;
use crate::binder::Binder;
use crate::subject::Subject;
use procedure::{Raise, SqlError, Statement};
use std::collections::BTreeSet;

impl Binder<'_> {
    /// Returns whether the privileges of a role are checked.
    fn is_checked(&self, role: RoleId) -> bool {
        !self.schema.is_superuser(role)
    }

    /// Notes a privilege on a relation. Returns the number of the need, to which columns are added.
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
        if let Some(Need::Relation(own)) = self.needs.get_mut(need) {
            own.columns.insert(column);
        }
    }

    /// Notes that FOR UPDATE holds the rows of a relation, which has a need already.
    pub(crate) fn need_hold(&mut self, need: usize) {
        if let Some(Need::Relation(own)) = self.needs.get(need) {
            let held =
                RelationNeed { privilege: UPDATE, columns: BTreeSet::new(), always: true, ..own.clone() };
            self.needs.push(Need::Relation(held));
        }
    }

    /// Notes SELECT on a relation of the level.
    pub(crate) fn need_read(&mut self, place: usize, relation: &str, names: Vec<String>, always: bool) {
        if let Some(need) = self.need_relation(relation, SELECT, names, always)
            && let Some(level) = self.queries.levels.last_mut()
        {
            level.reads.retain(|(own, _)| *own != place);
            level.reads.push((place, need));
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

    /// Notes one of some privileges on a sequence, or on a table as a whole.
    pub(crate) fn need_object(&mut self, relation: &str, privileges: Privileges) {
        let role = self.schema.acting;
        if self.is_checked(role) {
            self.need_namespace(namespace_in(relation));
            self.needs.push(Need::Object(Subject::Relation(relation.into()), role, privileges));
        }
    }

    /// Notes USAGE on the schema of an object that the statement names. What a view names was looked up when
    /// the view was made.
    fn need_namespace(&mut self, namespace: &str) {
        if self.views_within == 0 {
            let role = self.schema.acting;
            self.needs.push(Need::Object(Subject::Namespace(namespace.into()), role, USAGE));
        }
    }

    /// Notes that a relation of the system is for superusers.
    pub(crate) fn need_superuser(&mut self, relation: &str) {
        if self.is_checked(self.relations_as) {
            self.needs.push(Need::Superuser(relation.into()));
        }
    }

    /// Returns the error of the first need that is not met, and forgets the needs.
    pub(crate) fn refusal(&mut self) -> Option<SqlError> {
        let needs = std::mem::take(&mut self.needs);
        let (first, rest): (Vec<_>, Vec<_>) =
            needs.iter().partition(|own| matches!(own, Need::Object(Subject::Namespace(_), ..)));
        let (relations, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|own| !matches!(own, Need::Object(..)));
        [first, relations, rest].concat().into_iter().find_map(|need| self.unmet(need))
    }

    fn unmet(&self, need: &Need) -> Option<SqlError> {
        let schema = self.schema;
        match need {
            Need::Relation(own) => {
                if own.columns.is_empty() && !own.always {
                    return None;
                }
                let columns: Vec<String> =
                    own.columns.iter().filter_map(|place| own.names.get(*place).cloned()).collect();
                let is_met = schema.may_use_columns(own.role, &own.relation, own.privilege, &columns);
                (!is_met).then(|| schema.denied(&Subject::Relation(own.relation.clone())))
            }
            Need::Object(subject, role, privileges) => {
                let has_some = schema.privileges_on(*role, subject) & privileges != 0;
                (!has_some).then(|| schema.denied(subject))
            }
            Need::Superuser(relation) => {
                Some(SqlError::new("42501", format!("permission denied for table {relation}")))
            }
        }
    }

    /// Puts an error before the statements of a routine from a place on, if a need of them is not met.
    pub(crate) fn refuse_from(&mut self, place: usize, out: &mut Vec<Statement>) {
        if let Some(error) = self.refusal() {
            self.is_refused = true;
            let raise = Statement::Raise(Box::new(Raise::error(&error.sqlstate, &error.message)));
            // The calls in the statement's expressions come before it.
            match &mut self.lifted {
                Some(lifted) if !lifted.is_empty() => lifted.insert(0, raise),
                _ => out.insert(place, raise),
            }
        }
    }

    /// Takes over the needs of a binder of a part.
    pub(crate) fn take_needs(&mut self, inner: &mut Binder<'_>) {
        self.needs.append(&mut inner.needs);
        self.follows_role |= inner.follows_role;
        self.is_refused |= inner.is_refused;
    }
}
