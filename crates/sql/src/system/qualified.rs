//! The texts of definitions with the schema before each name, as a dump needs them: it sets an empty
//! `search_path`, and the names in the text of a definition are those that its author wrote.
//! Source: PostgreSQL writes a definition with the schema before every name that the path does not find.
//!
//! Held by: `dumps` in `crates/server/tests/suite`.

use crate::schema::Schema;
use crate::source::Source;
use crate::types::last_name;
use catalog::{ScalarType, Type};
use squawk_syntax::SyntaxToken;
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeMap, BTreeSet};

/// The schema of names without one.
const PUBLIC: &str = "public.";

/// PostgreSQL shows the name of a sequence as a number that is written as a name.
const REGCLASS: &str = "::regclass";

/// A text of a definition, in two forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// As it is shown where the path has `public`.
    pub(crate) plain: String,
    /// With the schema before each name.
    pub(crate) qualified: String,
}

impl Named {
    /// Returns a text that has no names.
    pub(crate) fn same(text: String) -> Self {
        Self { qualified: text.clone(), plain: text }
    }

    /// Returns one of the forms.
    pub(crate) fn form(&self, is_qualified: bool) -> String {
        if is_qualified { self.qualified.clone() } else { self.plain.clone() }
    }

    /// Returns a text in both forms.
    pub(crate) fn of(write: impl Fn(bool) -> String) -> Self {
        Self { plain: write(false), qualified: write(true) }
    }
}

/// Returns the name of an object as SQL text; `is_qualified`: with the schema, also where that is `public`.
pub(crate) fn path_text(name: &str, is_qualified: bool) -> String {
    let path = crate::quoted::quoted_path(name);
    if is_qualified && !name.contains('.') { format!("{PUBLIC}{path}") } else { path }
}

/// Returns the name of a type.
pub(super) fn type_text(ty: Type, is_qualified: bool) -> String {
    let scalar = match ty.element() {
        ScalarType::Enum(own) => path_text(&own.definition().name, is_qualified),
        scalar => scalar.to_string(),
    };
    if matches!(ty, Type::Array(_)) { scalar + "[]" } else { scalar }
}

impl Schema {
    /// Returns an expression or a query with the schema before each name of an object of `public`. A text
    /// that
    /// cannot be read stays.
    pub(super) fn qualified(&self, text: &str, is_query: bool) -> String {
        let before = if is_query { "" } else { "SELECT " };
        let Ok(source) = Source::parse(&format!("{before}{text}")) else { return text.into() };
        let tree = source.file.syntax();
        let named: BTreeSet<String> = tree
            .descendants()
            .filter_map(ast::WithTable::cast)
            .filter_map(|own| own.name())
            .map(|name| ast::normalize_name_node(name.syntax()))
            .collect();
        // By offset, so that a place gets one schema.
        let mut places = BTreeMap::new();
        let mut add = |offset: usize, text: &'static str| places.insert(offset - before.len(), text);
        for node in tree.descendants() {
            let start = source.range_of(&node).start;
            if let Some(path) = ast::RelationNameRef::cast(node.clone()).and_then(|own| own.path_ref()) {
                let name = last_name(&path);
                let is_stored = self.catalog().table(&name).is_ok() || self.view(&name).is_some();
                if path.qualifier().is_none() && is_stored && !named.contains(&name) {
                    add(start, PUBLIC);
                }
            } else if let Some(call) = ast::CallExpr::cast(node.clone()) {
                let Some(ast::Expr::NameRef(name)) = call.expr() else { continue };
                if self.procedure(&name.text()).is_some() {
                    add(start, PUBLIC);
                } else if let Some(literal) = sequence_literal(&call) {
                    let range = source.range_of(literal.syntax());
                    if literal.string_value().is_some_and(|own| !own.contains('.')) {
                        add(range.start + 1, PUBLIC);
                    }
                    if literal.syntax().parent().is_some_and(|own| ast::Arg::can_cast(own.kind())) {
                        add(range.end, REGCLASS);
                    }
                }
            } else if let Some(path) = ast::PathType::cast(node).and_then(|own| own.path_ref())
                && path.qualifier().is_none()
                && self.catalog().enumeration(&last_name(&path)).is_some()
            {
                add(source.range_of(path.syntax()).start, PUBLIC);
            }
        }
        let mut changed = text.to_owned();
        for (offset, schema) in places.into_iter().rev() {
            changed.insert_str(offset, schema);
        }
        changed
    }

    /// Returns an expression or a query in both forms.
    pub(super) fn named(&self, text: &str, is_query: bool) -> Named {
        Named { plain: unqualified(text, is_query), qualified: self.qualified(text, is_query) }
    }
}

/// Returns an expression or a query without `public` before names, and with the casts of sequences' names. A
/// text that cannot be read stays.
fn unqualified(text: &str, is_query: bool) -> String {
    let before = if is_query { "" } else { "SELECT " };
    let Ok(source) = Source::parse(&format!("{before}{text}")) else { return text.into() };
    let tokens = source.file.syntax().descendants_with_tokens().filter_map(|own| own.into_token());
    let tokens: Vec<_> = tokens.collect();
    let mut places = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let start = source.written(token.text_range().start().into());
        let is_before_dot = tokens.get(place + 1).is_some_and(|next| next.text() == ".");
        let is_behind_dot = place > 0 && tokens[place - 1].text() == ".";
        if token.text() == "public" && is_before_dot && !is_behind_dot {
            places.push(start);
        } else if token.text().starts_with("'public.") && is_sequence_name(token) {
            places.push(start + 1);
        }
    }
    let calls = source.file.syntax().descendants().filter_map(ast::CallExpr::cast);
    let literals = calls.filter_map(|call| sequence_literal(&call));
    let bare = literals.filter(|own| own.syntax().parent().is_some_and(|own| ast::Arg::can_cast(own.kind())));
    let mut changes: Vec<_> = places.into_iter().map(|offset| (offset..offset + PUBLIC.len(), "")).collect();
    changes.extend(bare.map(|own| source.range_of(own.syntax()).end).map(|end| (end..end, REGCLASS)));
    changes.sort_by_key(|(range, _)| range.start);
    let mut changed = text.to_owned();
    for (range, new) in changes.into_iter().rev() {
        changed.replace_range(range.start - before.len()..range.end - before.len(), new);
    }
    changed
}

/// Returns the literal that names the sequence of a call of `nextval` and its relatives.
fn sequence_literal(call: &ast::CallExpr) -> Option<ast::Literal> {
    let Some(ast::Expr::NameRef(name)) = call.expr() else { return None };
    if !matches!(name.text().as_str(), "nextval" | "currval" | "setval") {
        return None;
    }
    let first = call.arg_list()?.args().next()?.expr()?;
    first.syntax().descendants().find_map(ast::Literal::cast)
}

/// Returns whether a literal names a sequence, as the argument of a function or in a cast to `regclass`.
fn is_sequence_name(token: &SyntaxToken) -> bool {
    let mut around = token.parent_ancestors().take(4);
    around.any(|node| {
        let text = node.text().to_string();
        text.ends_with("::regclass") || text.starts_with("nextval(") || text.starts_with("currval(")
    })
}
