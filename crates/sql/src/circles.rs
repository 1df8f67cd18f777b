//! Routines that call each other in a circle: the first one of a circle that is compiled calls the other ones
//! by their names, as a routine calls itself.
//!
//! Held by: `bodies.slt` in `crates/workload/tests/sql`, and
//! `kinds::calls_of_all_kinds_of_routines_come_back`.

use crate::StatementError;
use crate::schema::{Member, Schema, unsupported};
use crate::source::Source;
use crate::unbound::fails_at_call;
use catalog::ProcedureId;
use procedure::Procedure;
use squawk_syntax::ast::AstNode;
use std::sync::Arc;

/// Returns whether the body of a routine is a text, as its CREATE statement says.
pub(crate) fn has_text(statement: &str) -> bool {
    let Ok(source) = Source::parse(statement) else { return false };
    let routine = source.routine();
    routine.is_some_and(|routine| routine.has_text())
}

/// A routine as the definitions keep it.
#[derive(Clone)]
pub(crate) struct KeptRoutine {
    pub(crate) id: ProcedureId,
    pub(crate) version: u32,
    /// Its CREATE statement.
    pub(crate) source: Arc<str>,
}

impl KeptRoutine {
    pub(crate) fn of(routine: &Procedure) -> Self {
        Self { id: routine.id, version: routine.version, source: Arc::clone(&routine.source) }
    }
}

impl Schema {
    /// Returns the routines of an order of compilation.
    pub(crate) fn routines_of(ordered: &[Member]) -> Vec<KeptRoutine> {
        let routines = ordered.iter().filter_map(|member| match member {
            Member::Routine(own) | Member::Circular(own) => Some(KeptRoutine::of(own)),
            Member::Trigger(..) => None,
        });
        routines.collect()
    }

    /// Compiles a routine again, or, if `later` are given, a routine of a circle. As in PostgreSQL, a body
    /// that is a text may name an object that is gone, or may no longer have the result that a changed table
    /// demands; then a call raises the error.
    pub(crate) fn compile_in_order(
        &mut self,
        routine: &KeptRoutine,
        name: &str,
        later: Option<&[KeptRoutine]>,
    ) -> Result<(), StatementError> {
        let unbound = self.unbound.get(name).cloned();
        let number = (routine.id, routine.version);
        let compiled = match (later, &unbound) {
            (Some(later), None) => self.compile_circular(routine, later),
            (_, unbound) => self.compile_again(number, &routine.source, unbound.as_ref()),
        };
        match compiled {
            Err(error) if unbound.is_none() && fails_at_call(&error) && has_text(&routine.source) => {
                self.compile_again(number, &routine.source, Some(&error))?;
                self.unbound.insert(name.to_owned(), error);
                Ok(())
            }
            compiled => compiled,
        }
    }

    /// Compiles a routine of a circle. It calls the routines that are compiled later by their names.
    pub(crate) fn compile_circular(
        &mut self,
        routine: &KeptRoutine,
        later: &[KeptRoutine],
    ) -> Result<(), StatementError> {
        let mut replaced = Vec::new();
        let mut stood_in = Ok(());
        for other in later {
            match self.stand_in(other) {
                Ok((name, stand_in)) => {
                    let known = self.procedures.insert(name.clone(), Arc::new(stand_in));
                    replaced.push((name, known));
                }
                Err(error) => stood_in = Err(error),
            }
        }
        let number = (routine.id, routine.version);
        let compiled = self.compile_again(number, &routine.source, None);
        for (name, known) in replaced {
            match known {
                Some(known) => self.procedures.insert(name, known),
                None => self.procedures.remove(&name),
            };
        }
        // A stand-in that cannot be made is missed only if the routine calls it.
        compiled.map_err(|error| stood_in.err().unwrap_or(error))
    }

    /// Returns a procedure that calls a routine by its name, which may write and may depend on the call.
    fn stand_in(&self, routine: &KeptRoutine) -> Result<(String, Procedure), StatementError> {
        let source = self.trees.parse(&routine.source)?;
        let parsed = source.routine();
        let parsed = parsed.ok_or_else(|| unsupported(&source, source.file.syntax(), "this routine"))?;
        let stand_in = parsed.compile_recursion(routine.id, routine.version, self, &source)?;
        let (read_only, uses_timestamp, uses_seed) = (false, true, true);
        let stand_in = Procedure { read_only, uses_timestamp, uses_seed, ..stand_in };
        Ok((parsed.name, stand_in))
    }
}
