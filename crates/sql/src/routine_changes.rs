//! ALTER and DROP of functions and procedures.
//!
//! A routine is kept as its CREATE statement, so a change of a name or of an option is a change of this text.
//! Invariant: a routine keeps its number under a new name, because records of calls have the number.
//! Held by: `routine_schemas.slt` in `crates/workload/tests/sql`,
//! `definitions::routines_of_schemas_come_back`.

use crate::StatementError;
use crate::binder::Binder;
use crate::cascade::cascades;
use crate::circles::has_text;
use crate::dependents::TablePart;
use crate::full_names::{in_schema_of, short};
use crate::kept_text;
use crate::quoted::quoted_path;
use crate::schema::{Schema, unsupported};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::types::object_name;
use catalog::Table;
use procedure::{Effect, Procedure, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// The routine of an ALTER or DROP: its name, and the types of its parameters if they are given.
struct Signature {
    path: ast::PathRef,
    parameters: Option<ast::ParamList>,
}

/// Returns the signatures in an ALTER or DROP.
fn signatures(node: &SyntaxNode) -> Vec<Signature> {
    let signature = |own: SyntaxNode| {
        let (path, parameters) = if let Some(own) = ast::FunctionSig::cast(own.clone()) {
            (own.function_name_ref()?.path_ref()?, own.param_list())
        } else if let Some(own) = ast::ProcedureSig::cast(own.clone()) {
            (own.procedure_name_ref()?.path_ref()?, own.param_list())
        } else {
            let own = ast::RoutineSig::cast(own)?;
            (own.routine_name_ref()?.path_ref()?, own.param_list())
        };
        Some(Signature { path, parameters })
    };
    node.descendants().filter_map(signature).collect()
}

/// Returns the names of the routines of a DROP.
pub(crate) fn routines_dropped(node: &SyntaxNode) -> impl Iterator<Item = ast::PathRef> {
    signatures(node).into_iter().map(|own| own.path)
}

/// Returns the routine's name with the types of its arguments, as error messages have it.
/// Returns a routine as messages name it: its kind, its name and the types of its parameters.
pub(crate) fn shown_routine(own: &Procedure) -> String {
    let word = if own.is_function || own.is_trigger { "function" } else { "procedure" };
    format!("{word} {}", signature_text(&own.name, own.inputs().map(|(_, own)| own.type_name())))
}

fn signature_text(name: &str, types: impl Iterator<Item = String>) -> String {
    format!("{name}({})", types.collect::<Vec<_>>().join(", "))
}

/// Returns the group of an option, of which a routine has one; `None` if ALTER cannot change it.
fn group_of(option: &ast::FuncOption) -> Option<&'static str> {
    use ast::FuncOption as Option;
    Some(match option {
        Option::CalledOnNullInputFuncOption(_)
        | Option::ReturnsNullOnNullInputFuncOption(_)
        | Option::StrictFuncOption(_) => "null input",
        Option::SecurityDefinerFuncOption(_) | Option::SecurityInvokerFuncOption(_) => "security",
        Option::LeakproofFuncOption(_) | Option::NotLeakproofFuncOption(_) => "leakproof",
        Option::VolatilityFuncOption(_) => "volatility",
        Option::ParallelFuncOption(_) => "parallel",
        Option::CostFuncOption(_) => "cost",
        Option::RowsFuncOption(_) => "rows",
        Option::SetFuncOption(_) | Option::ResetFuncOption(_) => "settings",
        _ => return None,
    })
}

/// Returns a CREATE statement of a routine with another name.
pub(crate) fn with_name(text: &str, name: &str) -> Result<String, StatementError> {
    let source = Source::parse(text)?;
    let path = source.file.syntax().descendants().find_map(ast::Path::cast);
    let Some(path) = path else { return Ok(text.to_owned()) };
    let mut changed = text.to_owned();
    changed.replace_range(source.range_of(path.syntax()), &quoted_path(name));
    Ok(changed)
}

/// Returns a CREATE statement of a routine with other options: the given ones, each with its group, replace
/// those of the same group.
fn with_options(text: &str, options: &[(&'static str, String)]) -> Result<String, StatementError> {
    let source = Source::parse(text)?;
    let tree = source.file.syntax();
    let list = tree.descendants().find_map(ast::FuncOptionList::cast);
    let body = || tree.descendants().find_map(ast::RoutineBody::cast).map(|own| own.syntax().clone());
    let Some(before) = list.as_ref().map(|own| own.syntax().clone()).or_else(body) else {
        return Ok(text.to_owned());
    };
    let is_replaced = |own: &ast::FuncOption| {
        group_of(own).is_some_and(|group| options.iter().any(|(given, _)| *given == group))
    };
    let replaced = list.iter().flat_map(|list| list.options()).filter(is_replaced);
    let ranges: Vec<_> = replaced.map(|own| source.range_of(own.syntax())).collect();
    let start = source.range_of(&before).start;
    let mut changed = text.to_owned();
    for range in ranges.into_iter().rev() {
        changed.replace_range(range, "");
    }
    for (_, option) in options.iter().filter(|(_, text)| !text.is_empty()) {
        changed.insert_str(start, &format!("{option} "));
    }
    Ok(changed)
}

/// Returns the kind of routine that an ALTER or DROP names.
fn word_of(statement: &ast::Stmt) -> &'static str {
    match statement {
        ast::Stmt::DropProcedure(_) | ast::Stmt::AlterProcedure(_) => "procedure",
        ast::Stmt::DropFunction(_) | ast::Stmt::AlterFunction(_) => "function",
        _ => "routine",
    }
}

impl Schema {
    /// Finds the routine of an ALTER or DROP.
    ///
    /// # Errors
    /// `42883`: there is none with the name and the parameters. `42809`: it is of the other kind.
    fn routine_meant(
        &self,
        signature: &Signature,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Arc<Procedure>, StatementError> {
        let name = object_name(&signature.path);
        let at = signature.path.syntax();
        let refused = |error| source.error_at(at.text_range().start().into(), error);
        let word = word_of(statement);
        let wanted = match word {
            "procedure" => Some(false),
            "function" => Some(true),
            _ => None,
        };
        let missing = |shown: &str| {
            let shown = if signature.parameters.is_none() {
                format!("could not find a {word} named \"{name}\"")
            } else {
                format!("{word} {shown} does not exist")
            };
            refused(SqlError::new("42883", shown))
        };
        let binder = Binder::new(self, source);
        let given = signature.parameters.iter().flat_map(|list| list.params());
        let given = given.filter(|own| !matches!(own.mode(), Some(ast::ParamMode::ParamOut(_))));
        let mut types = Vec::new();
        for parameter in given {
            let ty = binder.part(parameter.func_type(), parameter.syntax())?;
            let (ty, row_of) = binder.parameter_type(&ty)?;
            types.push(row_of.unwrap_or_else(|| ty.to_string()));
        }
        let shown = format!("{name}({})", types.join(", "));
        let Some(own) = self.procedure(&name) else { return Err(missing(&shown)) };
        if signature.parameters.is_some() && !own.inputs().map(|(_, own)| own.type_name()).eq(types) {
            return Err(missing(&shown));
        }
        if wanted.is_some_and(|is_function| is_function != (own.is_function || own.is_trigger)) {
            if signature.parameters.is_none() {
                return Err(missing(&shown));
            }
            let shown = signature_text(&name, own.inputs().map(|(_, own)| own.type_name()));
            return Err(refused(SqlError::new("42809", format!("{shown} is not a {word}"))));
        }
        Ok(Arc::clone(own))
    }

    /// Executes DROP FUNCTION, DROP PROCEDURE and DROP ROUTINE.
    pub(crate) fn drop_routine(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        let if_exists = node.children().any(|child| ast::IfExists::can_cast(child.kind()));
        let mut dropped = Vec::new();
        for signature in signatures(node) {
            match self.routine_meant(&signature, statement, source) {
                Err(error) if error.error.sqlstate == "42883" && if_exists => {
                    let name = object_name(&signature.path);
                    match signature.parameters {
                        Some(_) => self.notices.skip_missing_of(&error.error),
                        None => self.notices.skip_missing(&format!("{} {name}()", word_of(statement))),
                    }
                }
                found => dropped.push(found?),
            }
        }
        let mut effects = Vec::new();
        if cascades(node) {
            for own in &dropped {
                effects.push(self.drop_callers(&own.name, At { source, node })?);
            }
        }
        self.remove_routines(&dropped, source, node)?;
        if cascades(node) {
            self.drop_broken_views();
        }
        self.recompile(source, node)?;
        Ok(Effect::All(effects))
    }

    /// Removes routines that no table and no other routine uses.
    pub(crate) fn remove_routines(
        &mut self,
        dropped: &[Arc<Procedure>],
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        for own in dropped {
            self.procedures.remove(&own.name);
            self.unbound.remove(&own.name);
        }
        let refused = |error| Err(source.error_at(node.text_range().start().into(), error));
        for own in dropped {
            let name = &own.name;
            let shown = shown_routine(own);
            if let Some((table, part)) =
                self.catalog.tables().find_map(|table| Some((table, TablePart::that_calls(table, name)?)))
            {
                let message = format!("cannot drop {shown} because other objects depend on it");
                let detail = format!("{} depends on {shown}", part.of_table(table));
                let error = SqlError::new("2BP01", message).with_detail(detail);
                return refused(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            if let Some(user) =
                self.procedures.values().find(|user| user.callees.contains(name) && !has_text(&user.source))
            {
                let message = format!("cannot drop function {name}: function {} depends on it", user.name);
                return refused(SqlError::new("2BP01", message));
            }
        }
        Ok(())
    }

    /// Executes ALTER FUNCTION, ALTER PROCEDURE and ALTER ROUTINE. The owner is changed by `alter_owner`.
    pub(crate) fn alter_routine(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        let Some(signature) = signatures(node).into_iter().next() else {
            return Err(unsupported(source, node, "this form of ALTER"));
        };
        let own = self.routine_meant(&signature, statement, source)?;
        let is_renaming = |own: &SyntaxNode| {
            ast::FunctionRenameTo::can_cast(own.kind())
                || ast::ProcedureRenameTo::can_cast(own.kind())
                || ast::RoutineRenameTo::can_cast(own.kind())
        };
        if let Some(rename) = node.children().find(is_renaming) {
            let path = rename.descendants().find_map(ast::Path::cast);
            let new = path.and_then(|path| path.segment()).map(|own| own.text()).unwrap_or_default();
            return self.rename_routine(&own, in_schema_of(&own.name, new), source, node);
        }
        if let Some(set) = node.children().find_map(ast::SetSchema::cast) {
            let schema = set.schema_ref().map(|own| ast::normalize_name_node(own.syntax()));
            let schema = schema.unwrap_or_default();
            if !self.has_namespace(&schema) {
                let error = SqlError::new("3F000", format!("schema \"{schema}\" does not exist"));
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            if crate::session_schema::is_session_schema(&schema) {
                let message = "cannot move objects into or out of temporary schemas";
                let error = SqlError::new("0A000", message);
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            let name = short(&own.name).to_owned();
            let new = if schema == "public" { name } else { format!("{schema}.{name}") };
            return self.rename_routine(&own, new, source, node);
        }
        if node.children().any(|own| ast::OwnerTo::can_cast(own.kind())) {
            return Ok(Effect::None);
        }
        match node.children().find_map(ast::FuncOptionList::cast) {
            Some(list) => self.change_options(&own, &list, source, node),
            None => Err(unsupported(source, node, "this form of ALTER")),
        }
    }

    fn rename_routine(
        &mut self,
        own: &Arc<Procedure>,
        new: String,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        let refused = |error| source.error_at(node.text_range().start().into(), error);
        let old = own.name.clone();
        if short(&new).contains('.') {
            return Err(unsupported(source, node, "a name with a dot in it"));
        }
        if self.procedure(&new).is_some() {
            let shown = signature_text(short(&new), own.inputs().map(|(_, own)| own.type_name()));
            let schema = crate::roles::rights::namespace_in(&new);
            let message = format!("function {shown} already exists in schema \"{schema}\"");
            return Err(refused(SqlError::new("42723", message)));
        }
        let calls = |text: &str| kept_text::calls(text, &old);
        // A routine that only fires a trigger of the function does not name it.
        let names = |user: &Procedure| user.source.to_lowercase().contains(&short(&old).to_lowercase());
        let mut users = self.procedures.values().filter(|user| user.callees.contains(&old) && names(user));
        let is_called = users.any(|user| !has_text(&user.source))
            || self.catalog.tables().any(|table| TablePart::whose_text_calls(table, &old).is_some())
            || self.views.values().any(|view| calls(&format!("({})", view.query.trim_end_matches(';'))));
        if is_called {
            return Err(unsupported(source, node, "a new name of a routine that other objects call"));
        }
        let text = with_name(&own.source, &new).map_err(|error| refused(error.error))?;
        self.procedures.remove(&old);
        // The numbers of all routines stay a sequence without gaps.
        let number = self.history.remove(&old);
        if let Some(other) = self.history.remove(&new) {
            self.history.insert(old.clone(), other);
        }
        self.history.extend(number.map(|number| (new.clone(), number)));
        let unbound = self.unbound.remove(&old);
        self.unbound.extend(unbound.clone().map(|error| (new.clone(), error)));
        self.rename_subject(&Subject::Routine(old.clone()), Subject::Routine(new.clone()));
        self.compile_again((own.id, own.version), &text, unbound.as_ref())
            .map_err(|error| refused(error.error))?;
        let effects = self.rename_function_of_triggers(&old, &new, source, node)?;
        self.recompile(source, node)?;
        Ok(Effect::All(effects))
    }

    fn rename_function_of_triggers(
        &mut self,
        old: &str,
        new: &str,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Vec<Effect>, StatementError> {
        let fires = |table: &&Arc<Table>| table.triggers.iter().any(|own| own.function == old);
        let tables: Vec<Arc<Table>> = self.catalog.tables().filter(fires).cloned().collect();
        let mut effects = Vec::new();
        for table in tables {
            let mut changed = Table::clone(&table);
            for trigger in changed.triggers.iter_mut().filter(|own| own.function == old) {
                trigger.function = new.to_owned();
            }
            let changed = self.catalog.redefine(&table.name, changed);
            let changed = changed.map_err(|error| crate::schema::refused(source, node, &error))?;
            effects.push(Effect::Redefine(changed));
        }
        Ok(effects)
    }

    fn change_options(
        &mut self,
        own: &Arc<Procedure>,
        list: &ast::FuncOptionList,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        let mut options: Vec<(&'static str, String)> = Vec::new();
        for option in list.options() {
            let node = option.syntax();
            let Some(group) = group_of(&option) else {
                return Err(unsupported(source, node, "this option of a routine"));
            };
            if options.iter().any(|(known, _)| *known == group) {
                let error = SqlError::new("42601", "conflicting or redundant options");
                return Err(source.error_at(node.text_range().start().into(), error));
            }
            let text = source.text_of(node).to_owned();
            let is_reset = matches!(option, ast::FuncOption::ResetFuncOption(_));
            // `search_path` is the only setting that a routine can have.
            let words = text.to_lowercase();
            if is_reset && !(words.contains("search_path") || words.ends_with("all")) {
                continue;
            }
            options.push((group, if is_reset { String::new() } else { text }));
        }
        let refused = |error: StatementError| source.error_at(node.text_range().start().into(), error.error);
        let text = with_options(&own.source, &options).map_err(refused)?;
        let changed = Source::parse(&text).map_err(refused)?;
        let routine = changed.routine();
        let Some(routine) = routine else { return Err(unsupported(source, node, "this form of ALTER")) };
        self.replace_routine(&routine, &changed).map_err(refused)?;
        Ok(Effect::None)
    }
}
