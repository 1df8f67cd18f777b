//! Temporary relations: the schemas that have them, and the definitions as a session with some sees them.
//!
//! A temporary relation is an ordinary relation of the schema `pg_temp_N`, which belongs to one session and
//! is dropped at its end. Statements name it with its schema (`temporary_names`). A routine finds the
//! temporary relations of the session that calls it, as in PostgreSQL: where its body names one, the session
//! has a variant of the routine. Calls of a variant are logged by value, because the record of a call names
//! the routine alone. Replay uses the routine as it was created, which knows no temporary relation.
//! Invariant: nothing permanent depends on a temporary relation, so the schema can be dropped at any time.
//! Held by: `crates/reprise/tests/suite/temporary.rs`.

use crate::StatementError;
use crate::binder::Binder;
use crate::circles::KeptRoutine;
use crate::schema::{Member, Schema};
use crate::session_schema::{PREFIX, is_session_schema, is_temporary_name};
use crate::source::Source;
use catalog::{OnCommit, Table};
use procedure::{Procedure, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns PostgreSQL's tag of a DISCARD.
pub(crate) fn discard_tag(discard: &ast::Discard) -> &'static str {
    match discard.discard_target() {
        Some(ast::DiscardTarget::DiscardPlans(_)) => "DISCARD PLANS",
        Some(ast::DiscardTarget::DiscardSequences(_)) => "DISCARD SEQUENCES",
        Some(ast::DiscardTarget::DiscardTemp(_)) => "DISCARD TEMP",
        _ => "DISCARD ALL",
    }
}

impl Binder<'_> {
    /// Refuses a temporary relation whose name lacks the schema of a session.
    pub(crate) fn refuse_outside_of_session(
        &self,
        persistence: Option<ast::Persistence>,
        name: &str,
    ) -> Result<(), StatementError> {
        match persistence {
            Some(clause @ ast::Persistence::Temp(_)) if !is_temporary_name(name) => {
                Err(self.unsupported(clause.syntax(), "a temporary relation in a script"))
            }
            _ => Ok(()),
        }
    }

    /// Returns what ON COMMIT says.
    ///
    /// # Errors
    /// `42P16`: the table is not temporary.
    pub(crate) fn on_commit(
        &self,
        clause: Option<ast::OnCommit>,
        table: &str,
    ) -> Result<OnCommit, StatementError> {
        let Some(clause) = clause else { return Ok(OnCommit::Preserve) };
        if !is_temporary_name(table) {
            let error = SqlError::new("42P16", "ON COMMIT can only be used on temporary tables");
            return Err(self.error(clause.syntax(), error));
        }
        Ok(match clause.on_commit_action() {
            Some(ast::OnCommitAction::DeleteRows(_)) => OnCommit::Delete,
            Some(ast::OnCommitAction::Drop(_)) => OnCommit::Drop,
            _ => OnCommit::Preserve,
        })
    }

    /// Checks that a foreign key is between two permanent or two temporary tables.
    ///
    /// # Errors
    /// `42P16`: it is not. `0A000`: the end of a transaction deletes the rows of the referenced table.
    pub(crate) fn check_key_between(
        &self,
        table: &str,
        parent: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let kinds = [table, parent].map(is_temporary_name);
        let kind = if kinds[0] { "temporary" } else { "permanent" };
        if kinds[0] != kinds[1] && self.schema.catalog.table(parent).is_ok() {
            let message = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(self.error(node, SqlError::new("42P16", message)));
        }
        match self.schema.catalog.table(parent) {
            Ok(parent) if parent.on_commit == OnCommit::Delete => {
                Err(self.unsupported(node, "a reference to a table with ON COMMIT DELETE ROWS"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a permanent table whose expressions name temporary relations.
    pub(crate) fn refuse_temporary_sequences(&self, table: &Table) -> Result<(), StatementError> {
        let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
        let mut texts = defaults.chain(table.checks.iter().map(|(_, check)| check));
        if !is_temporary_name(&table.name) && texts.any(|text| text.contains(PREFIX)) {
            let what = "a temporary relation in an expression of a permanent table";
            return Err(self.unsupported(self.source.file.syntax(), what));
        }
        Ok(())
    }
}

impl Schema {
    /// Returns the name of the temporary schema of a session, by the session's number.
    pub fn temporary_schema(session: u32) -> String {
        format!("{PREFIX}{session}")
    }

    /// Returns the numbers of the sessions that have temporary schemas.
    pub fn temporary_schemas(&self) -> impl Iterator<Item = u32> {
        self.namespaces.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok())
    }

    /// Returns the temporary tables of a session with an ON COMMIT, by their full names as SQL text.
    pub fn ending_with_transactions(&self, namespace: &str) -> Vec<(Arc<Table>, String, OnCommit)> {
        let is_its = |table: &&Arc<Table>| {
            !table.on_commit.is_preserve()
                && table.name.split_once('.').is_some_and(|(schema, _)| schema == namespace)
        };
        let tables = self.catalog.tables().filter(is_its);
        let named = |table: &Arc<Table>| {
            (Arc::clone(table), crate::quoted::quoted_path(&table.name), table.on_commit)
        };
        tables.map(named).collect()
    }

    /// Adds the schema of a temporary relation that is created.
    pub(crate) fn open_temporary_schema(&mut self, relation: &str) {
        if let Some((schema, _)) = relation.split_once('.')
            && is_session_schema(schema)
        {
            self.namespaces.insert(schema.to_owned());
        }
    }

    /// Returns the names of the relations of a session's temporary schema, without the schema.
    fn temporary_relations(&self, namespace: &str) -> BTreeSet<String> {
        let tables = self.catalog.tables().map(|table| &table.name);
        let names = tables.chain(self.views.keys());
        let its = names.filter_map(|name| name.strip_prefix(namespace)?.strip_prefix('.'));
        its.map(str::to_lowercase).collect()
    }

    /// Returns the definitions as a session sees them, by its temporary schema.
    #[must_use]
    pub fn for_session(&self, namespace: &str) -> Self {
        let mut schema = Self { temporary: Some(namespace.into()), ..self.clone() };
        let names = self.temporary_relations(namespace);
        let is_concerned = |routine: &Arc<Procedure>| {
            let text = routine.source.to_lowercase();
            names.iter().any(|name| text.contains(name))
        };
        if !names.is_empty() && self.procedures.values().any(is_concerned) {
            schema.compile_for_session(namespace);
        }
        schema
    }

    /// Replaces the routines and trigger functions that find temporary relations by their variants.
    fn compile_for_session(&mut self, namespace: &str) {
        let Ok(ordered) = self.callees_first() else { return };
        let (Ok(nothing), base) = (Source::parse(""), self.procedures.clone()) else { return };
        let mut fired = BTreeSet::new();
        let mut later = Self::routines_of(&ordered);
        for member in ordered {
            let is_circular = matches!(member, Member::Circular(_));
            match member {
                Member::Routine(known) | Member::Circular(known) => {
                    let kept = later.remove(0);
                    let resolved = self.resolved_routine(&kept.source, namespace);
                    let is_resolved = resolved.is_some();
                    if !is_resolved && !self.uses_variants(&known, &base, &fired) {
                        continue;
                    }
                    let kept = match resolved {
                        Some(text) => KeptRoutine { source: text.into(), ..kept },
                        None => kept,
                    };
                    if is_resolved {
                        self.unbound.remove(&known.name);
                    }
                    let pending = is_circular.then_some(&*later);
                    if let Err(error) = self.compile_in_order(&kept, &known.name, pending) {
                        // As in PostgreSQL, a call raises the error.
                        let number = (kept.id, kept.version);
                        let _ = self.compile_again(number, &kept.source, Some(&error));
                    }
                }
                Member::Trigger(table, trigger) => {
                    let is_same = match (self.procedures.get(&trigger.function), base.get(&trigger.function))
                    {
                        (Some(own), Some(base)) => Arc::ptr_eq(own, base),
                        _ => true,
                    };
                    let name = (table.name.clone(), trigger.name.clone());
                    let compiled = self.triggers.get(&name).into_iter().flatten();
                    let calls =
                        compiled.into_iter().any(|(_, routine)| self.uses_variants(routine, &base, &fired));
                    if is_same && !calls {
                        continue;
                    }
                    let node = nothing.file.syntax();
                    let compiled = self.compile_trigger(&table, &trigger, &nothing, node);
                    // As in PostgreSQL, the trigger raises the error when it fires.
                    let compiled = compiled
                        .or_else(|error| self.compile_failing_trigger(&table, &trigger, &error.error));
                    if let Ok(compiled) = compiled {
                        self.triggers.insert(name.clone(), compiled);
                        fired.insert(name);
                    }
                }
            }
        }
    }

    /// Returns whether a routine calls variants, or writes tables with triggers that have variants.
    fn uses_variants(
        &self,
        routine: &Procedure,
        base: &std::collections::BTreeMap<String, Arc<Procedure>>,
        fired: &BTreeSet<(String, String)>,
    ) -> bool {
        let differs = |name: &String| match (self.procedures.get(name), base.get(name)) {
            (Some(callee), Some(base)) => !Arc::ptr_eq(callee, base),
            _ => false,
        };
        routine.callees.iter().any(differs)
            || routine.tables().any(|table| {
                let mut triggers = table.triggers.iter();
                triggers.any(|trigger| fired.contains(&(table.name.clone(), trigger.name.clone())))
            })
    }

    /// Returns whether the session finds a relation by its name alone.
    pub(crate) fn is_on_path(&self, name: &str) -> bool {
        let shadows = |own: &Arc<str>| self.relation_exists(&format!("{own}.{name}"));
        match name.split_once('.') {
            None => !self.temporary.as_ref().is_some_and(shadows),
            Some((schema, _)) => self.temporary.as_deref() == Some(schema),
        }
    }

    /// Returns the session's temporary schema, if it exists.
    pub(crate) fn own_temporary_schema(&self) -> Option<&str> {
        self.temporary.as_deref().filter(|own| self.has_namespace(own))
    }

    /// Returns the numbers of the temporary schemas of other sessions.
    pub(crate) fn other_temporary_schemas(&self) -> Vec<i64> {
        let is_other = |name: &str| is_session_schema(name) && self.temporary.as_deref() != Some(name);
        let all = self.namespace_names().into_iter();
        all.filter(|(_, name)| is_other(name)).map(|(oid, _)| oid).collect()
    }
}
