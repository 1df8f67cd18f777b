//! `SET search_path` of a routine: the schemas in which its body looks for names without a schema.
//! Source: PostgreSQL 15's documentation, "The Schema Search Path".
//!
//! Names without a schema are those of `public`. An object of another schema of the path has its name without
//! the schema, too, while the body is bound.
//! Not here: statements that a body executes as texts; a routine with such a path has none.
//! Held by: `bodies.slt` in `crates/workload/tests/sql`.

use crate::error::StatementError;
use crate::routine::Routine;
use crate::schema::{Schema, unsupported};
use crate::source::Source;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// What a body may not use if its routine has a path of its own, because it would see the session's path.
const OF_THE_SESSION: [&str; 3] = ["current_schema", "current_schemas", "search_path"];

/// Returns the schemas of a clause; `None` if it takes the path of the session.
fn schemas_in(clause: &str) -> Option<Vec<String>> {
    let start = clause.to_lowercase().find("search_path")? + "search_path".len();
    let list = clause[start..].trim_start();
    let list = list.strip_prefix('=').or_else(|| {
        let is_to = list.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("to"));
        is_to.then(|| &list[2..])
    })?;
    let mut schemas = Vec::new();
    for name in list.trim().trim_end_matches(';').split(',').map(str::trim) {
        match name.chars().next() {
            Some('\'' | '"') => schemas.push(name[1..].trim_end_matches(['\'', '"']).to_owned()),
            _ => schemas.push(name.to_lowercase()),
        }
    }
    Some(schemas)
}

/// Returns whether a text has a word.
fn has_word(text: &str, word: &str) -> bool {
    let mut words = text.split(|character: char| !(character.is_alphanumeric() || character == '_'));
    words.any(|own| own == word)
}

impl Routine {
    fn search_path(&self) -> Option<(SyntaxNode, String)> {
        let options = self.options.iter().flat_map(|list| list.options());
        let mut clauses = options.filter(|own| matches!(own, ast::FuncOption::SetFuncOption(_)));
        clauses.find_map(|own| {
            let text = own.syntax().text().to_string();
            text.to_lowercase().contains("search_path").then(|| (own.syntax().clone(), text))
        })
    }

    /// Returns the schemas that the body searches before the temporary one: it names that one in its path
    /// where it is not to come first.
    pub(crate) fn searched_before_temporary(&self) -> Vec<String> {
        let path = self.search_path().and_then(|(_, clause)| schemas_in(&clause)).unwrap_or_default();
        let position = path.iter().position(|own| own == "pg_temp").unwrap_or(0);
        path.into_iter().take(position).collect()
    }

    /// Returns the definitions as the body sees them; `None` if it sees them as any other statement does.
    ///
    /// # Errors
    /// `0A000`: the body asks for the path, or a name is that of several objects.
    pub(crate) fn in_search_path(
        &self,
        schema: &Schema,
        source: &Source,
    ) -> Result<Option<Schema>, StatementError> {
        let Some((node, clause)) = self.search_path() else { return Ok(None) };
        let Some(path) = schemas_in(&clause) else {
            return Err(unsupported(source, &node, "this path of schemas"));
        };
        let text = source.text_of(&self.node).to_lowercase();
        let body = text.replace(&clause.to_lowercase(), "");
        if let Some(name) = OF_THE_SESSION.iter().find(|name| has_word(&body, name)) {
            let what = format!("a path of schemas of a routine that uses {name}");
            return Err(unsupported(source, &node, &what));
        }
        let public = path.iter().position(|own| own == "public");
        let found: Vec<(usize, &String)> =
            path.iter().enumerate().filter(|(_, own)| schema.namespaces.contains(*own)).collect();
        if found.is_empty() {
            return Ok(None);
        }
        let mut seen = Schema::clone(schema);
        // The foreign keys are those of the tables, each of which counts once.
        schema.foreign_keys();
        seen.foreign_keys = schema.foreign_keys.clone();
        let mut is_changed = false;
        for (position, namespace) in found {
            for name in schema.names_in(namespace) {
                let bare = &name[namespace.len() + 1..];
                if !has_word(&body, &bare.to_lowercase()) {
                    continue;
                }
                let is_known = schema.has_object(bare);
                if is_known && public.is_none_or(|public| position < public) {
                    let what = format!("a path of schemas of which several have an object \"{bare}\"");
                    return Err(unsupported(source, &node, &what));
                }
                if !is_known && !seen.has_object(bare) {
                    seen.alias(bare, &name);
                    is_changed = true;
                }
            }
        }
        if is_changed && has_word(&body, "execute") {
            return Err(unsupported(source, &node, "a path of schemas of a routine with EXECUTE"));
        }
        Ok(is_changed.then_some(seen))
    }
}

impl Schema {
    /// Returns the names of the objects of an SQL schema.
    fn names_in(&self, namespace: &str) -> Vec<String> {
        let catalog = self.catalog();
        let tables = catalog.tables().map(|own| own.name.clone());
        let types = catalog.enumerations().map(|own| own.definition().name.clone());
        let domains = catalog.domains().map(|own| own.name.clone());
        let views = self.views.keys().cloned();
        let routines = self.procedures.keys().cloned();
        let mut all: Vec<String> = tables.chain(types).chain(domains).chain(views).chain(routines).collect();
        all.retain(|name| name.split_once('.').is_some_and(|(own, _)| own == namespace));
        all.dedup();
        all
    }

    fn has_object(&self, name: &str) -> bool {
        self.relation_exists(name)
            || self.procedures.contains_key(name)
            || self.catalog().type_number(name).is_some()
    }

    /// Gives the objects of a name a second name.
    fn alias(&mut self, alias: &str, name: &str) {
        self.catalog.alias(alias, name);
        if let Some(view) = self.views.get(name).cloned() {
            self.views.insert(alias.to_owned(), view);
        }
        if let Some(routine) = self.procedures.get(name).map(Arc::clone) {
            self.procedures.insert(alias.to_owned(), routine);
        }
    }
}
