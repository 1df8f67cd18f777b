//! Routines whose bodies name missing objects: `pg_dump` writes functions before the tables that they use,
//! and switches `check_function_bodies` off.
//!
//! Such a routine has its parameters and its result. A call raises the error of its body, and every later
//! definition tries to bind the body.
//! Invariant: which routines are unbound follows from the definitions and their order alone, so recovery
//! finds the same ones. Held by: `unbound::bodies_are_bound_when_what_they_name_exists`.

use crate::StatementError;
use crate::full_names::short;
use crate::routine::Routine;
use crate::schema::Schema;
use crate::source::Source;
use catalog::ProcedureId;
use procedure::{Procedure, built_ins_named};
use squawk_syntax::SyntaxNode;
use std::sync::Arc;

/// Returns whether an error is that of a missing relation, column, type or function.
pub(crate) fn is_missing_object(error: &StatementError) -> bool {
    ["42P01", "42703", "42704", "42883"].contains(&error.error.sqlstate.as_str())
}

/// Returns whether a routine whose body has an error since a change of a table is kept: a call raises the
/// error.
pub(crate) fn fails_at_call(error: &StatementError) -> bool {
    is_missing_object(error) || ["42804", "42P13"].contains(&error.error.sqlstate.as_str())
}

/// Returns whether an error is that of a relation or routine that nothing else explains. What a built-in
/// function does not support stays an error of CREATE.
fn may_exist_later(error: &StatementError) -> bool {
    let message = &error.error.message;
    let called = message.strip_prefix("function ").and_then(|own| own.split('(').next());
    match error.error.sqlstate.as_str() {
        "42P01" => message.starts_with("relation "),
        "42883" => {
            message.starts_with("procedure ")
                || called.is_some_and(|name| built_ins_named(short(name)).is_empty())
        }
        _ => false,
    }
}

/// Returns whether CREATE refuses a body that names missing objects: one in the language SQL, as in
/// PostgreSQL.
fn is_checked(statement: &str) -> bool {
    let Ok(source) = Source::parse(statement) else { return true };
    let routine = source.routine();
    routine.is_none_or(|routine| !routine.is_plpgsql())
}

impl Schema {
    /// Compiles a new routine. A routine whose body names a missing object is kept as unbound.
    pub(crate) fn compile_or_keep(
        &mut self,
        routine: &Routine,
        id: ProcedureId,
        version: u32,
        source: &Source,
    ) -> Result<Procedure, StatementError> {
        match routine.compile(id, version, self, source) {
            Ok(compiled) => {
                self.unbound.remove(&routine.name);
                Ok(compiled)
            }
            Err(error) if is_missing_object(&error) => {
                // This fails if the error is in the parameters or in the result.
                let kept = routine.compile_unbound(id, version, self, source, &error.error)?;
                self.unbound.insert(routine.name.clone(), error);
                Ok(kept)
            }
            Err(error) => Err(error),
        }
    }

    /// Binds the bodies of unbound routines as far as possible, and compiles their callers again.
    ///
    /// # Errors
    /// As `recompile`.
    pub(crate) fn bind_all_unbound(
        &mut self,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        loop {
            let before = self.unbound.len();
            if !self.bind_unbound() {
                return Ok(());
            }
            self.recompile(source, node)?;
            // A routine and a view that use each other: the routine is bound only while the view is not.
            if self.unbound.len() >= before {
                return Ok(());
            }
        }
    }

    /// Binds the bodies of unbound routines as far as possible. Returns whether any body has been bound;
    /// then the callers have to be compiled again.
    fn bind_unbound(&mut self) -> bool {
        let mut is_any_bound = false;
        for name in self.unbound.keys().cloned().collect::<Vec<_>>() {
            is_any_bound |= self.try_to_bind(&name) == Some(());
        }
        is_any_bound
    }

    /// Binds the body of an unbound routine; `None` if that is not possible yet.
    fn try_to_bind(&mut self, name: &str) -> Option<()> {
        let old = Arc::clone(self.procedures.get(name)?);
        let mut changed = self.clone();
        changed.unbound.remove(name);
        changed.compile_again((old.id, old.version), &old.source, None).ok()?;
        // Of triggers that fire each other, the second one stays unbound.
        changed.callees_first().ok()?;
        *self = changed;
        Some(())
    }

    /// Returns the error of a routine that a statement has created unbound. `before` are the definitions
    /// before the statement.
    pub(crate) fn unbound_since(&self, before: &Self) -> Option<&StatementError> {
        let is_new = |name: &str| before.history.get(name) != self.history.get(name);
        let checks_body = |name: &str| self.procedures.get(name).is_none_or(|own| is_checked(&own.source));
        let mut new = self.unbound.iter().filter(|(name, _)| is_new(name));
        new.find(|(name, error)| checks_body(name) || !may_exist_later(error)).map(|(_, error)| error)
    }

    /// Returns the names of the routines whose bodies name missing objects.
    pub fn unbound(&self) -> impl Iterator<Item = &str> {
        self.unbound.keys().map(String::as_str)
    }
}
