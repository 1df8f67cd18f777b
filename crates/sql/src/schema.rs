//! All definitions of a database, procedures included, and how a statement changes them.
//!
//! A schema is a value: applying a statement makes a new one or fails and leaves the old one as it is. Definitions are
//! logged and checkpointed as their statements, so recovery arrives at the same schema by applying them again.
//! Invariant: procedures hold the tables as they are now; a change of a table's indexes compiles them anew.

use crate::StatementError;
use crate::definition::{index_definition, table_definition};
use crate::routine::Routine;
use crate::source::Source;
use catalog::{Catalog, CatalogError, ProcedureId, Table};
use procedure::{Procedure, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tables and procedures.
#[derive(Clone, Default, Debug)]
pub struct Schema {
    catalog: Catalog,
    procedures: BTreeMap<String, Arc<Procedure>>,
    /// Numbers and last versions of all procedures that ever were, so that neither is used twice.
    history: BTreeMap<String, (ProcedureId, u32)>,
}

/// What a statement asks to be done to the data.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Nothing: only procedures changed, or nothing at all.
    None,
    /// Make an empty table.
    CreateTable(Arc<Table>),
    /// Make or drop indexes, so that the table has those of its definition.
    ChangeIndexes(Arc<Table>),
    /// Drop a table.
    DropTable(Arc<Table>),
    /// Run a statement as a transaction.
    Run(Arc<Procedure>),
}

impl Schema {
    /// Tables.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// A procedure by name, as it is now.
    pub fn procedure(&self, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures.get(name)
    }

    /// All procedures, by name.
    pub fn procedures(&self) -> impl Iterator<Item = &Arc<Procedure>> {
        self.procedures.values()
    }

    /// Cuts a script into its statements: text, and the line and column where each begins.
    ///
    /// # Errors
    /// A syntax error.
    pub fn split(script: &str) -> Result<Vec<(String, u32, u32)>, StatementError> {
        let source = Source::parse(script)?;
        Ok(source
            .file
            .stmts()
            .filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)))
            .map(|statement| {
                let node = statement.syntax();
                let (line, column) = source.position(node.text_range().start().into());
                (source.text_of(node).to_owned(), line, column)
            })
            .collect())
    }

    /// Applies one statement.
    ///
    /// # Errors
    /// Anything wrong with it, with line and column in its text.
    pub fn apply(&self, statement: &str) -> Result<(Self, Effect), StatementError> {
        let source = Source::parse(statement)?;
        let mut statements =
            source.file.stmts().filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
        let Some(first) = statements.next() else { return Ok((self.clone(), Effect::None)) };
        if let Some(second) = statements.next() {
            let offset = second.syntax().text_range().start().into();
            return Err(source.error_at(offset, SqlError::new("42601", "one statement at a time")));
        }
        let mut changed = self.clone();
        let effect = changed.change(&first, &source)?;
        Ok((changed, effect))
    }

    fn change(&mut self, statement: &ast::Stmt, source: &Source) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        if let Some(routine) = Routine::of(statement) {
            self.create_routine(&routine, source)?;
            return Ok(Effect::None);
        }
        match statement {
            ast::Stmt::CreateTable(create) => {
                let definition = table_definition(create, self, source)?;
                if create.if_not_exists().is_some() && self.catalog.table(&definition.name).is_ok() {
                    return Ok(Effect::None);
                }
                let table = self
                    .catalog
                    .create_table(&definition.name, definition.columns, definition.indexes, definition.checks)
                    .map_err(|error| refused(source, node, &error))?;
                Ok(Effect::CreateTable(table))
            }
            ast::Stmt::CreateIndex(create) => {
                let (table, name, columns, unique) = index_definition(create, self, source)?;
                let exists = |table: &Arc<Table>| table.indexes.iter().any(|index| index.name == name);
                if create.if_not_exists().is_some() && self.catalog.tables().any(exists) {
                    return Ok(Effect::None);
                }
                let table = self
                    .catalog
                    .create_index(&table, &name, columns, unique)
                    .map_err(|error| refused(source, node, &error))?;
                self.recompile(source, node)?;
                Ok(Effect::ChangeIndexes(table))
            }
            ast::Stmt::DropTable(drop) => {
                let mut names = drop.table_name_refs().filter_map(|name| name.path_ref());
                let (Some(path), None) = (names.next(), names.next()) else {
                    return Err(unsupported(source, node, "DROP TABLE of several tables"));
                };
                let name = crate::types::last_name(&path);
                if drop.if_exists().is_some() && self.catalog.table(&name).is_err() {
                    return Ok(Effect::None);
                }
                let table = self.catalog.drop_table(&name).map_err(|e| refused(source, node, &e))?;
                self.refuse_users(&table, source, node)?;
                Ok(Effect::DropTable(table))
            }
            ast::Stmt::DropIndex(drop) => {
                let mut names = drop.index_refs().filter_map(|name| name.path_ref());
                let (Some(path), None) = (names.next(), names.next()) else {
                    return Err(unsupported(source, node, "DROP INDEX of several indexes"));
                };
                let name = crate::types::last_name(&path);
                let table = self.catalog.drop_index(&name).map_err(|e| refused(source, node, &e))?;
                self.recompile(source, node)?;
                Ok(Effect::ChangeIndexes(table))
            }
            ast::Stmt::DropProcedure(_) | ast::Stmt::DropFunction(_) => {
                self.drop_routine(statement, source)?;
                Ok(Effect::None)
            }
            ast::Stmt::Insert(_) | ast::Stmt::Update(_) | ast::Stmt::Delete(_) | ast::Stmt::Call(_) => {
                Ok(Effect::Run(self.script_statement(statement, source)?))
            }
            _ if ast::SelectVariant::can_cast(node.kind()) => {
                Ok(Effect::Run(self.script_statement(statement, source)?))
            }
            _ => Err(unsupported(source, node, "this statement")),
        }
    }

    fn create_routine(&mut self, routine: &Routine, source: &Source) -> Result<(), StatementError> {
        if self.procedures.contains_key(&routine.name) && !routine.replace {
            let message = format!("function \"{}\" already exists", routine.name);
            let hint = "Use CREATE OR REPLACE; several routines of one name are not supported.";
            let error = SqlError::new("42723", message).with_hint(hint);
            return Err(source.error_at(routine.node.text_range().start().into(), error));
        }
        let next = ProcedureId(self.history.len() as u32);
        let (id, last) = self.history.get(&routine.name).copied().unwrap_or((next, 0));
        let compiled = routine.compile(id, last + 1, self, source)?;
        self.history.insert(routine.name.clone(), (id, last + 1));
        self.procedures.insert(routine.name.clone(), Arc::new(compiled));
        if last > 0 {
            // Callers hold the version that they were compiled with.
            self.recompile(source, &routine.node)?;
        }
        Ok(())
    }

    /// Compiles all procedures anew, callees first, after a change that they may depend on.
    fn recompile(&mut self, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        let mut pending: Vec<Arc<Procedure>> = self.procedures.values().cloned().collect();
        let mut done: BTreeMap<String, Arc<Procedure>> = BTreeMap::new();
        while !pending.is_empty() {
            let before = pending.len();
            let mut waiting = Vec::new();
            for procedure in pending {
                let ready = callees(&procedure.body).iter().all(|name| {
                    *name == procedure.name || done.contains_key(name) || !self.procedures.contains_key(name)
                });
                if !ready {
                    waiting.push(procedure);
                    continue;
                }
                let mut schema = self.clone();
                schema.procedures.clone_from(&done);
                let own = Source::parse(&procedure.source)?;
                let routine = own.file.stmts().find_map(|statement| Routine::of(&statement));
                let compiled = match routine {
                    Some(routine) => routine.compile(procedure.id, procedure.version, &schema, &own),
                    None => continue,
                };
                let compiled = compiled.map_err(|error| {
                    let message = format!("function {} depends on it: {}", procedure.name, error.error);
                    source.error_at(node.text_range().start().into(), SqlError::new("2BP01", message))
                })?;
                done.insert(procedure.name.clone(), Arc::new(compiled));
            }
            pending = waiting;
            if pending.len() == before {
                break;
            }
        }
        for procedure in pending {
            done.entry(procedure.name.clone()).or_insert(procedure);
        }
        self.procedures = done;
        Ok(())
    }

    fn refuse_users(&self, table: &Table, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        let uses = |procedure: &&Arc<Procedure>| {
            let mut tables = procedure.operations.iter().flat_map(|operation| operation.tables());
            tables.any(|own| own.id == table.id)
        };
        match self.procedures.values().find(uses) {
            None => Ok(()),
            Some(user) => {
                let message =
                    format!("cannot drop table {}: function {} depends on it", table.name, user.name);
                let error = SqlError::new("2BP01", message).with_hint("Drop the function first.");
                Err(source.error_at(node.text_range().start().into(), error))
            }
        }
    }

    fn drop_routine(&mut self, statement: &ast::Stmt, source: &Source) -> Result<(), StatementError> {
        let node = statement.syntax();
        let mut names = node.descendants().filter_map(|child| {
            let name = ast::ProcedureNameRef::cast(child.clone()).and_then(|name| name.path_ref());
            name.or_else(|| ast::FunctionNameRef::cast(child).and_then(|name| name.path_ref()))
        });
        let (Some(path), None) = (names.next(), names.next()) else {
            return Err(unsupported(source, node, "DROP of several routines"));
        };
        let name = crate::types::last_name(&path);
        let if_exists = node.children().any(|child| ast::IfExists::cast(child).is_some());
        if self.procedures.remove(&name).is_none() && !if_exists {
            let error = SqlError::new("42883", format!("function {name} does not exist"));
            return Err(source.error_at(node.text_range().start().into(), error));
        }
        if let Some(user) = self.procedures.values().find(|user| callees(&user.body).contains(&name)) {
            let message = format!("cannot drop function {name}: function {} depends on it", user.name);
            return Err(source.error_at(node.text_range().start().into(), SqlError::new("2BP01", message)));
        }
        Ok(())
    }
}

/// The routines that statements call.
fn callees(statements: &[Statement]) -> Vec<String> {
    let mut names = Vec::new();
    for statement in statements {
        match statement {
            Statement::Call { procedure, .. } => names.push(procedure.name.clone()),
            Statement::If { then, otherwise, .. } => {
                names.extend(callees(then));
                names.extend(callees(otherwise));
            }
            Statement::ForRange { body, .. }
            | Statement::ForEach { body, .. }
            | Statement::ForRows { body, .. }
            | Statement::While { body, .. }
            | Statement::Block { body, .. } => names.extend(callees(body)),
            _ => {}
        }
    }
    names
}

fn refused(source: &Source, node: &SyntaxNode, error: &CatalogError) -> StatementError {
    let code = match error {
        CatalogError::Duplicate { .. } => "42P07",
        CatalogError::Missing { .. } => "42P01",
        _ => "0A000",
    };
    source.error_at(node.text_range().start().into(), SqlError::new(code, error.to_string()))
}

fn unsupported(source: &Source, node: &SyntaxNode, what: &str) -> StatementError {
    let error = SqlError::new("0A000", format!("{what} is not supported"));
    source.error_at(node.text_range().start().into(), error)
}
