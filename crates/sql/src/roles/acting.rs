//! The acting role: the role that makes a definition, and the variants of routines for a role that calls
//! them.
//!
//! A call checks no privileges. Routines are compiled without checks, because most callers have all
//! privileges that a routine needs. For a role without them the routine is compiled again, as a variant that
//! raises an error instead of each statement without privilege. Calls of a variant are logged by value,
//! because the record of a call names only the routine, and recovery executes the routine without checks.
//! Invariant: a routine with SECURITY DEFINER is the same for every caller: it is compiled for its owner.
//! Held by: `roles::routines_run_with_the_rights_of_their_invoker_or_definer`.

use super::acl::RoleId;
use super::role::BOOTSTRAP;
use crate::error::StatementError;
use crate::quoted::quoted;
use crate::schema::{Member, Schema};
use crate::source::Source;
use crate::subject::Subject;
use procedure::{Procedure, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Schema {
    /// Returns the text of a definition for the log and for `apply`. Unless the bootstrap superuser makes the
    /// definition, a line with SET ROLE precedes it.
    pub fn made_by(&self, role: u32, statement: &str) -> String {
        match role {
            BOOTSTRAP => statement.to_owned(),
            role => format!("SET ROLE {};\n{statement}", quoted(self.role_name(role))),
        }
    }

    /// Returns the number of the bootstrap superuser, which acts if no other role is known.
    pub fn first_superuser() -> u32 {
        BOOTSTRAP
    }

    /// Returns whether routines are compiled as variants, and not as the bootstrap superuser calls them.
    pub(crate) fn compiles_variants(&self) -> bool {
        self.acting != BOOTSTRAP || self.temporary.is_some()
    }

    /// Executes SET ROLE in the log: the role makes the next statement. Returns whether `statement` is SET
    /// ROLE.
    pub(crate) fn set_acting(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<bool, StatementError> {
        let ast::Stmt::SetRole(set) = statement else { return Ok(false) };
        let clause = &mut super::clause::Clause::new(source, set.syntax());
        clause.require("SET")?;
        clause.require("ROLE")?;
        let name = clause.role()?;
        self.maker = self.role_meant(&name, clause)?;
        Ok(true)
    }

    /// Returns the definitions for an acting role, with its variants of routines.
    #[must_use]
    pub fn acting_as(&self, role: u32) -> Self {
        let mut schema = Self { acting: role, ..self.clone() };
        let follows = |routine: &Arc<Procedure>| routine.follows_role;
        let fired = self.triggers.values().flatten().map(|(_, routine)| routine);
        let is_plain = self.is_superuser(role)
            && !self.procedures.values().any(follows)
            && !fired.into_iter().any(follows);
        if role != self.acting && !is_plain {
            schema.compile_variants();
        }
        schema
    }

    /// Replaces the routines and trigger functions that differ for the acting role by their variants.
    fn compile_variants(&mut self) {
        let Ok(ordered) = self.callees_first() else { return };
        let (Ok(source), base) = (Source::parse(""), self.procedures.clone()) else { return };
        let node = source.file.syntax();
        let mut later = Self::routines_of(&ordered);
        for member in ordered {
            let is_circular = matches!(member, Member::Circular(_));
            match member {
                Member::Routine(known) | Member::Circular(known) if known.is_definer => {
                    later.remove(0);
                }
                Member::Routine(known) | Member::Circular(known) => {
                    let kept = later.remove(0);
                    let pending = is_circular.then_some(&*later);
                    let compiled = self.compile_in_order(&kept, &known.name, pending);
                    let made = self.procedures.get(&known.name).cloned();
                    let variant = made.filter(|routine| compiled.is_ok() && self.is_variant(routine, &base));
                    self.procedures.insert(known.name.clone(), variant.unwrap_or(known));
                }
                Member::Trigger(table, trigger) => {
                    let Ok(compiled) = self.compile_trigger(&table, &trigger, &source, node) else {
                        continue;
                    };
                    if compiled.iter().any(|(_, routine)| self.is_variant(routine, &base)) {
                        self.triggers.insert((table.name.clone(), trigger.name.clone()), compiled);
                    }
                }
            }
        }
    }

    /// Returns whether a routine that was compiled for the acting role differs from the routine without
    /// checks.
    fn is_variant(
        &self,
        compiled: &Procedure,
        base: &std::collections::BTreeMap<String, Arc<Procedure>>,
    ) -> bool {
        let differs = |name: &String| match (self.procedures.get(name), base.get(name)) {
            (Some(callee), Some(base)) => !Arc::ptr_eq(callee, base),
            _ => false,
        };
        compiled.follows_role
            || compiled.is_refused
            || compiled.callees.iter().any(differs)
            || self.fires_variants(compiled)
    }

    /// Returns whether a routine writes a table with triggers whose functions have variants.
    fn fires_variants(&self, routine: &Procedure) -> bool {
        let is_variant =
            |(_, fired): &(catalog::TriggerEvent, Arc<Procedure>)| fired.follows_role || fired.is_refused;
        let mut tables = routine.tables().filter(|table| !table.triggers.is_empty());
        tables.any(|table| {
            let all = table.triggers.iter();
            let compiled =
                all.filter_map(|trigger| self.triggers.get(&(table.name.clone(), trigger.name.clone())));
            compiled.flatten().any(is_variant)
        })
    }

    /// Returns the role with whose privileges a SECURITY DEFINER routine runs: its owner.
    pub(crate) fn definer_of(&self, routine: &str) -> RoleId {
        self.owner_of(&Subject::Routine(routine.into()))
    }

    /// Checks that a role may execute a routine.
    ///
    /// # Errors
    /// `42501`: it has no EXECUTE privilege.
    pub fn check_execute(&self, role: u32, routine: &str) -> Result<(), SqlError> {
        let subject = Subject::Routine(routine.into());
        match self.privileges_on(role, &subject) & super::acl::EXECUTE {
            0 => Err(self.denied(&subject)),
            _ => Ok(()),
        }
    }

    /// Returns the error of a role that may not connect to the database.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_connect(&self, role: u32) -> Result<(), SqlError> {
        match self.privileges_on(role, &Subject::Database) & super::acl::CONNECT {
            0 => {
                let message = format!("permission denied for database \"{}\"", crate::system::DATABASE);
                Err(SqlError::new("42501", message).with_detail("User does not have CONNECT privilege."))
            }
            _ => Ok(()),
        }
    }
}
