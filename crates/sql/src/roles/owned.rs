//! The statements OWNER TO, REASSIGN OWNED and DROP OWNED.

use super::acl::{Acl, Inheritance, RoleId};
use super::clause::Clause;
use super::role::{BOOTSTRAP, DATABASE_OWNER};
use crate::error::StatementError;
use crate::schema::Schema;
use crate::subject::Subject;
use procedure::SqlError;
use std::collections::BTreeSet;

impl Schema {
    /// Changes the owner of an object, if the acting role may do so.
    ///
    /// # Errors
    /// `42501`: the acting role does not own the object, it is no member of the new owner's role, or the new
    /// owner may not create objects in the schema. `0A000`: the object is the sequence of a column.
    pub(crate) fn change_owner(&mut self, subject: &Subject, new: RoleId) -> Result<(), SqlError> {
        if self.owner_of(subject) == new {
            return Ok(());
        }
        if let Some(error) = self.linked_sequence(subject) {
            return Err(error);
        }
        if !self.is_superuser(self.maker) {
            if !self.owns(self.maker, subject) {
                return Err(self.not_owner(subject));
            }
            if !self.roles().is_member(self.maker, new) {
                let message = format!("must be member of role \"{}\"", self.role_name(new));
                return Err(SqlError::new("42501", message));
            }
            let namespace = match subject {
                Subject::Relation(name) | Subject::Type(name) | Subject::Routine(name) => {
                    Some(super::rights::namespace_in(name))
                }
                _ => None,
            };
            if let Some(name) = namespace.filter(|name| !self.may_create_in(new, name)) {
                return Err(self.denied(&Subject::Namespace(name.into())));
            }
            let is_namespace = matches!(subject, Subject::Namespace(_));
            if is_namespace && !self.creates_on_database(self.maker) {
                return Err(self.denied(&Subject::Database));
            }
        }
        self.give_to(subject, new);
        Ok(())
    }

    /// Returns the error for a sequence that a column owns, which belongs to the owner of the table.
    fn linked_sequence(&self, subject: &Subject) -> Option<SqlError> {
        let Subject::Relation(name) = subject else { return None };
        let table = self.catalog.table(name).ok()?;
        let (owner, _) = table.sequence.as_ref()?.owner.as_ref()?;
        let detail = format!("Sequence \"{}\" is linked to table \"{owner}\".", table.short_name());
        let message = format!("cannot change owner of sequence \"{}\"", table.short_name());
        Some(SqlError::new("0A000", message).with_detail(detail))
    }

    /// Executes REASSIGN OWNED BY, from the word after these keywords on.
    pub(crate) fn reassign_owned(&mut self, clause: &mut Clause<'_>) -> Result<(), StatementError> {
        let old = clause.roles()?;
        let old = self.roles_meant(&old, clause)?;
        clause.require("TO")?;
        let new = clause.role()?;
        let new = self.role_meant(&new, clause)?;
        for role in old.iter().chain([&new]) {
            self.check_acts_for(*role, "reassign objects", clause)?;
        }
        for role in old {
            self.refuse_system_role(role, "reassign ownership of", clause)?;
            for subject in self.owned_by(role) {
                self.give_to(&subject, new);
            }
        }
        Ok(())
    }

    /// Returns the objects that a role owns, without the sequences of columns.
    fn owned_by(&self, role: RoleId) -> Vec<Subject> {
        let all = self.owned_subjects().into_iter();
        all.filter(|subject| self.owner_of(subject) == role && self.linked_sequence(subject).is_none())
            .collect()
    }

    fn check_acts_for(&self, role: RoleId, what: &str, clause: &Clause<'_>) -> Result<(), StatementError> {
        if self.roles().has_privileges_of(self.maker, role) {
            return Ok(());
        }
        Err(clause.refuse(SqlError::new("42501", format!("permission denied to {what}"))))
    }

    fn refuse_system_role(
        &self,
        role: RoleId,
        what: &str,
        clause: &Clause<'_>,
    ) -> Result<(), StatementError> {
        if role != BOOTSTRAP && role != DATABASE_OWNER {
            return Ok(());
        }
        let name = self.role_name(role);
        let message = format!(
            "cannot {what} objects owned by role {name} because they are required by the database system"
        );
        Err(clause.refuse(SqlError::new("2BP01", message)))
    }

    /// Returns the statements that drop the objects of roles, and revokes the privileges of the roles.
    pub(crate) fn drop_owned(&mut self, clause: &mut Clause<'_>) -> Result<Vec<String>, StatementError> {
        let roles = clause.roles()?;
        let roles = self.roles_meant(&roles, clause)?;
        let cascades = clause.skip_any(&["CASCADE", "RESTRICT"]) == Some("CASCADE");
        if !clause.is_at_end() {
            return Err(clause.syntax());
        }
        let mut drops = Vec::new();
        for role in roles {
            self.check_acts_for(role, "drop objects", clause)?;
            self.refuse_system_role(role, "drop", clause)?;
            let owned = self.owned_by(role);
            if owned.iter().any(|subject| self.is_partition_alone(subject, &owned)) {
                let message = "DROP OWNED of a partition whose table another role owns is not supported";
                return Err(clause.refuse(SqlError::new("0A000", message)));
            }
            let is_view = |name: &String| self.view(name).is_some() && !self.is_partition(name);
            let mut list = |word: &str, is_it: &dyn Fn(&Subject) -> bool| {
                let all: Vec<_> = owned.iter().filter(|subject| is_it(subject)).map(quoted_name).collect();
                if !all.is_empty() {
                    let tail = if cascades { " CASCADE" } else { "" };
                    drops.push(format!("DROP {word} IF EXISTS {}{tail}", all.join(", ")));
                }
            };
            let is_table = |subject: &Subject, is_sequence: bool| match subject {
                Subject::Relation(name) => {
                    self.catalog.table(name).is_ok_and(|table| table.sequence.is_some() == is_sequence)
                }
                _ => false,
            };
            list("VIEW", &|subject| matches!(subject, Subject::Relation(name) if is_view(name)));
            // Each routine has a statement, which precedes those of the tables that it uses.
            let routines = owned.iter().filter(|subject| matches!(subject, Subject::Routine(_)));
            for (routine, word) in
                routines.filter_map(|subject| Some((subject, self.word_of_routine(subject)?)))
            {
                list(word, &|subject| subject == routine);
            }
            list("TABLE", &|one| is_table(one, false));
            list("SEQUENCE", &|one| is_table(one, true));
            let is_domain =
                |one: &Subject| matches!(one, Subject::Type(name) if self.catalog.domain(name).is_some());
            list("DOMAIN", &is_domain);
            list("TYPE", &|one| matches!(one, Subject::Type(_)) && !is_domain(one));
            list("SCHEMA", &|one| matches!(one, Subject::Namespace(_)));
            self.revoke_from(role, clause)?;
        }
        Ok(drops)
    }

    /// Returns whether an object is a partition of a table that is not among some objects.
    fn is_partition_alone(&self, subject: &Subject, objects: &[Subject]) -> bool {
        let Subject::Relation(name) = subject else { return false };
        let root = Subject::Relation(self.partitions.root_of(name).to_owned());
        self.is_partition(name) && !objects.contains(&root)
    }

    /// Revokes the privileges of a role on objects that it does not own, and its default privileges.
    fn revoke_from(&mut self, role: RoleId, clause: &Clause<'_>) -> Result<(), StatementError> {
        let names = |acl: &Acl| acl.0.iter().any(|item| item.grantee == role || item.grantor == role);
        let concerned =
            self.rights.acls.iter().filter(|(subject, acl)| self.owner_of(subject) != role && names(acl));
        let whole = |subject: &Subject| match subject {
            Subject::Column(table, _) => Subject::Relation(table.clone()),
            subject => subject.clone(),
        };
        let concerned: BTreeSet<Subject> = concerned.map(|(subject, _)| whole(subject)).collect();
        for subject in concerned {
            self.revoke_all(&subject, role, clause)?;
        }
        self.revoke_defaults(role).map_err(|error| clause.refuse(error))?;
        self.rights_mut().defaults.retain(|default| default.role != role);
        Ok(())
    }

    fn word_of_routine(&self, subject: &Subject) -> Option<&'static str> {
        let Subject::Routine(name) = subject else { return None };
        Some(if self.procedure(name)?.is_function { "FUNCTION" } else { "PROCEDURE" })
    }
}

/// Returns the quoted name of an object for a statement.
fn quoted_name(subject: &Subject) -> String {
    let name = match subject {
        Subject::Relation(name) | Subject::Type(name) | Subject::Namespace(name) | Subject::Routine(name) => {
            name
        }
        _ => return String::new(),
    };
    crate::quoted::quoted_path(name)
}
