//! USAGE of the types and domains that a definition uses: those of columns, parameters and results, and the
//! type under a domain.
//!
//! As in PostgreSQL, a type in an expression needs no privilege.
//! Held by: `crates/workload/tests/sql/creators.slt`.

use super::acl::{Acl, AclItem, PUBLIC, RoleId, USAGE};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{Table, Type};
use procedure::SqlError;
use squawk_syntax::ast;
use std::sync::Arc;

/// Adds the name of an enumeration to a list.
fn add(used: &mut Vec<String>, ty: Type) {
    used.extend(ty.element().enumeration().map(|enumeration| enumeration.name.clone()));
}

/// Returns the types of a table's columns, one for each column of an enumeration or a domain.
fn types_of_columns(table: &Table) -> Vec<String> {
    let mut used = Vec::new();
    for column in &table.columns {
        match &column.domain {
            Some(domain) => used.push(domain.clone()),
            None => add(&mut used, column.ty),
        }
    }
    used
}

impl Schema {
    /// Checks that a role may use the types of what a statement has defined.
    ///
    /// # Errors
    /// `42501`: it lacks USAGE of a type.
    pub(super) fn check_types(
        &self,
        role: RoleId,
        statement: &ast::Stmt,
        text: &str,
    ) -> Result<(), SqlError> {
        let is_restricted = |(subject, acl): (&Subject, &Acl)| {
            let is_for_all = |item: &AclItem| item.grantee == PUBLIC && item.privileges & USAGE != 0;
            matches!(subject, Subject::Type(_)) && !acl.0.iter().any(is_for_all)
        };
        if !self.rights.acls.iter().any(is_restricted) {
            return Ok(());
        }
        // The execution reports the error of a statement that cannot be applied.
        let Ok((after, _)) = self.apply_unchecked(text) else { return Ok(()) };
        let used = match statement {
            ast::Stmt::CreateTable(_) | ast::Stmt::CreateTableAs(_) | ast::Stmt::AlterTable(_) => {
                self.types_of_tables(&after)
            }
            ast::Stmt::CreateView(_) => self.types_of_views(&after),
            ast::Stmt::CreateFunction(_) | ast::Stmt::CreateProcedure(_) => self.types_of_routines(&after),
            ast::Stmt::CreateDomain(_) => self.types_of_domains(&after),
            _ => Vec::new(),
        };
        for name in used {
            let subject = Subject::Type(name);
            if self.privileges_on(role, &subject) & USAGE == 0 {
                return Err(self.denied(&subject));
            }
        }
        Ok(())
    }

    /// Returns the types of new columns.
    fn types_of_tables(&self, after: &Self) -> Vec<String> {
        let mut used = Vec::new();
        for table in after.catalog.tables().filter(|table| table.sequence.is_none()) {
            let is_it = |known: &&Arc<Table>| known.id == table.id || known.name == table.name;
            let mut before =
                self.catalog.tables().find(is_it).map_or_else(Vec::new, |known| types_of_columns(known));
            for name in types_of_columns(table) {
                match before.iter().position(|known| *known == name) {
                    Some(place) => drop(before.swap_remove(place)),
                    None => used.push(name),
                }
            }
        }
        used
    }

    /// Returns the types of the columns of a new or replaced view.
    fn types_of_views(&self, after: &Self) -> Vec<String> {
        let mut used = Vec::new();
        for view in after.views.values() {
            if self.view(&view.name) != Some(view) {
                after.view_columns(view).into_iter().for_each(|(_, ty)| add(&mut used, ty));
            }
        }
        used
    }

    /// Returns the types of the parameters and results of a new or replaced routine.
    fn types_of_routines(&self, after: &Self) -> Vec<String> {
        let mut used = Vec::new();
        for routine in after.procedures() {
            if self.procedure(&routine.name).is_some_and(|known| known.version == routine.version) {
                continue;
            }
            routine.parameters.iter().for_each(|parameter| match parameter.domain() {
                Some(domain) => used.push(domain.to_owned()),
                None => add(&mut used, parameter.ty),
            });
            used.extend(routine.domains.iter().flatten().cloned());
            routine.result.iter().for_each(|(_, ty)| add(&mut used, *ty));
            routine.rows.iter().flatten().for_each(|(_, ty)| add(&mut used, *ty));
        }
        used
    }

    /// Returns the types under new domains.
    fn types_of_domains(&self, after: &Self) -> Vec<String> {
        let mut used = Vec::new();
        let is_new = |name: &str| self.catalog.domain(name).is_none();
        after.catalog.domains().filter(|own| is_new(&own.name)).for_each(|own| add(&mut used, own.ty));
        used
    }
}
