//! Routines that read the catalog: its relations, or names and numbers of its objects.
//!
//! Such a routine holds what it reads of the catalog as it was when the routine was compiled, so it is
//! compiled again with each change of definitions. A schema that is read from a checkpoint does the same, so
//! that its routines equal those of the schema that was written. Held by: `catalog_readers.rs` of `reprise`.

use crate::error::StatementError;
use crate::schema::{Member, Schema};
use crate::source::Source;
use procedure::Procedure;
use squawk_syntax::SyntaxNode;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Schema {
    /// Returns the names of the routines that read the catalog, or call a routine that does.
    fn catalog_readers(&self) -> BTreeSet<String> {
        let reading = self.procedures.values().filter(|routine| routine.reads_catalog);
        let mut readers: BTreeSet<String> = reading.map(|routine| routine.name.clone()).collect();
        loop {
            let calls = |routine: &&Arc<Procedure>| !routine.callees.is_disjoint(&readers);
            let callers: Vec<String> =
                self.procedures.values().filter(calls).map(|routine| routine.name.clone()).collect();
            let count = readers.len();
            readers.extend(callers);
            if readers.len() == count {
                return readers;
            }
        }
    }

    /// Compiles the routines again that read the catalog, and those that call them.
    ///
    /// # Errors
    /// As `recompile`.
    pub(crate) fn renew_catalog_readers(
        &mut self,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let readers = self.catalog_readers();
        let fired = |compiled: &Procedure| compiled.reads_catalog || !compiled.callees.is_disjoint(&readers);
        let fires = self.triggers.values().flatten().any(|(_, compiled)| fired(compiled));
        if readers.is_empty() && !fires {
            return Ok(());
        }
        // No routine was compiled before that is in a circle which cannot be ordered.
        let Ok(ordered) = self.callees_first() else { return Ok(()) };
        let circular =
            |member: &Member| matches!(member, Member::Circular(own) if readers.contains(&own.name));
        if ordered.iter().any(circular) {
            return self.recompile(source, node);
        }
        for member in ordered {
            match &member {
                Member::Routine(routine) if readers.contains(&routine.name) => {
                    let name = routine.name.clone();
                    let kept = Self::routines_of(std::slice::from_ref(&member)).remove(0);
                    self.compile_in_order(&kept, &name, None)?;
                }
                Member::Trigger(table, trigger) => {
                    let key = (table.name.clone(), trigger.name.clone());
                    let known = self.triggers.get(&key);
                    if known.is_some_and(|known| known.iter().any(|(_, compiled)| fired(compiled))) {
                        let compiled = self.compile_trigger_again(table, trigger, source, node)?;
                        self.triggers.insert(key, compiled);
                    }
                }
                Member::Routine(_) | Member::Circular(_) => {}
            }
        }
        Ok(())
    }
}
