//! The role that acts: which role makes a definition, and the routines that a role calls.
//!
//! Routines are compiled without checks, because most are called by roles that may do all that they do. For
//! a role that may not, a routine is compiled once more, with an error in the place of each statement that
//! is not allowed. So a call checks nothing. Such a variant is logged by value, because the record of a call
//! names the routine alone, and a recovery runs that without checks.
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
    /// Returns a definition's text for the log and for `apply`: behind SET ROLE, unless the first superuser
    /// makes the definition. SET ROLE has a line for itself.
    pub fn made_by(&self, role: u32, statement: &str) -> String {
        match role {
            BOOTSTRAP => statement.to_owned(),
            role => format!("SET ROLE {};\n{statement}", quoted(self.role_name(role))),
        }
    }

    /// Returns the number of the role that acts where no other one is known.
    pub fn first_superuser() -> u32 {
        BOOTSTRAP
    }

    /// Executes SET ROLE in the log: the next statement is made by the role. Returns whether it is one.
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

    /// Returns the definitions as a role uses them: with the variants of routines for it.
    #[must_use]
    pub fn acting_as(&self, role: u32) -> Self {
        let mut own = Self { acting: role, ..self.clone() };
        let follows = |own: &Arc<Procedure>| own.follows_role;
        let fired = self.triggers.values().flatten().map(|(_, own)| own);
        let is_plain = self.is_superuser(role)
            && !self.procedures.values().any(follows)
            && !fired.into_iter().any(follows);
        if role != self.acting && !is_plain {
            own.compile_variants();
        }
        own
    }

    /// Replaces the routines that do something else for the acting role.
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
                    let variant = made.filter(|own| compiled.is_ok() && self.is_variant(own, &base));
                    self.procedures.insert(known.name.clone(), variant.unwrap_or(known));
                }
                Member::Trigger(table, trigger) => {
                    let Ok(compiled) = self.compile_trigger(&table, &trigger, &source, node) else {
                        continue;
                    };
                    if compiled.iter().any(|(_, own)| self.is_variant(own, &base)) {
                        self.triggers.insert((table.name.clone(), trigger.name.clone()), compiled);
                    }
                }
            }
        }
    }

    /// Returns whether a routine that was compiled for the acting role differs from the one for all.
    fn is_variant(&self, own: &Procedure, base: &std::collections::BTreeMap<String, Arc<Procedure>>) -> bool {
        let differs = |name: &String| match (self.procedures.get(name), base.get(name)) {
            (Some(own), Some(base)) => !Arc::ptr_eq(own, base),
            _ => false,
        };
        own.follows_role || own.is_refused || own.callees.iter().any(differs) || self.fires_variants(own)
    }

    /// Returns whether a routine writes a table with triggers: their functions may have variants.
    fn fires_variants(&self, own: &Procedure) -> bool {
        let is_variant =
            |(_, fired): &(catalog::TriggerEvent, Arc<Procedure>)| fired.follows_role || fired.is_refused;
        let mut tables = own.tables().filter(|table| !table.triggers.is_empty());
        tables.any(|table| {
            let all = table.triggers.iter();
            let compiled = all.filter_map(|one| self.triggers.get(&(table.name.clone(), one.name.clone())));
            compiled.flatten().any(is_variant)
        })
    }

    /// Returns the role as which a routine runs, if that is its owner.
    pub(crate) fn definer_of(&self, routine: &str) -> RoleId {
        self.owner_of(&Subject::Routine(routine.into()))
    }

    /// Returns the error of a role that may not execute a routine.
    ///
    /// # Errors
    /// `42501`.
    pub fn check_execute(&self, role: u32, routine: &str) -> Result<(), SqlError> {
        let subject = Subject::Routine(routine.into());
        match self.privileges_on(role, &subject) & super::acl::EXECUTE {
            0 => Err(self.denied(&subject)),
            _ => Ok(()),
        }
    }
}
