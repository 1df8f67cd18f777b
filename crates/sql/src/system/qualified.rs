//! Adds schemas to the names in the texts of definitions. A dump needs them, because it sets an empty
//! `search_path`, and the text of a definition has the names as the statement spelled them.
//! Source: PostgreSQL adds the schema to each name that `search_path` does not find.
//!
//! Held by: `dumps` in `crates/server/tests/suite`.

use crate::schema::Schema;
use crate::source::Source;
use crate::types::last_name;
use catalog::{ScalarType, Type};
use squawk_syntax::SyntaxToken;
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeMap, BTreeSet};

/// The prefix of names without a schema.
const PUBLIC: &str = "public.";

/// The cast that PostgreSQL adds to the name of a sequence.
const REGCLASS: &str = "::regclass";

/// A text of a definition, in two forms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// The form for a `search_path` that has `public`.
    pub(crate) plain: String,
    /// The form in which each name has its schema.
    pub(crate) qualified: String,
}

impl Named {
    /// Returns a text without names, which is the same in both forms.
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

/// Returns the name of an object as SQL text. With `is_qualified`, it has the schema even if that is
/// `public`.
pub(crate) fn path_text(name: &str, is_qualified: bool) -> String {
    let path = crate::quoted::quoted_path(name);
    if is_qualified && !name.contains('.') { format!("{PUBLIC}{path}") } else { path }
}

/// Returns the name of a type of a routine.
pub(super) fn type_text(ty: Type, is_qualified: bool) -> String {
    let scalar = match ty.element() {
        ScalarType::Enum(enumeration) => path_text(&enumeration.definition().name, is_qualified),
        ScalarType::Char(u32::MAX) => "character".into(),
        scalar => scalar.to_string(),
    };
    if matches!(ty, Type::Array(_)) { scalar + "[]" } else { scalar }
}

impl Schema {
    /// Returns an expression or a query with the schema before each name of an object of `public`. A
    /// malformed text stays unchanged.
    pub(super) fn qualified(&self, text: &str, is_query: bool) -> String {
        let before = if is_query { "" } else { "SELECT " };
        let Ok(source) = Source::parse(&format!("{before}{text}")) else { return text.into() };
        let tree = source.file.syntax();
        let named: BTreeSet<String> = tree
            .descendants()
            .filter_map(ast::WithTable::cast)
            .filter_map(|table| table.name())
            .map(|name| ast::normalize_name_node(name.syntax()))
            .collect();
        // By offset, so that each name gets one schema even if several nodes contain it.
        let mut insertions = BTreeMap::new();
        let mut add = |offset: usize, text: &'static str| insertions.insert(offset - before.len(), text);
        for node in tree.descendants() {
            let start = source.range_of(&node).start;
            if let Some(path) = ast::RelationNameRef::cast(node.clone()).and_then(|name| name.path_ref()) {
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
                    if literal.string_value().is_some_and(|name| !name.contains('.')) {
                        add(range.start + 1, PUBLIC);
                    }
                    if literal.syntax().parent().is_some_and(|parent| ast::Arg::can_cast(parent.kind())) {
                        add(range.end, REGCLASS);
                    }
                }
            } else if let Some(path) = ast::PathType::cast(node).and_then(|name| name.path_ref())
                && path.qualifier().is_none()
                && self.catalog().enumeration(&last_name(&path)).is_some()
            {
                add(source.range_of(path.syntax()).start, PUBLIC);
            }
        }
        let mut changed = text.to_owned();
        for (offset, schema) in insertions.into_iter().rev() {
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
/// malformed text stays unchanged.
fn unqualified(text: &str, is_query: bool) -> String {
    let before = if is_query { "" } else { "SELECT " };
    let Ok(source) = Source::parse(&format!("{before}{text}")) else { return text.into() };
    let tokens = source.file.syntax().descendants_with_tokens().filter_map(|element| element.into_token());
    let tokens: Vec<_> = tokens.collect();
    let mut offsets = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let start = source.written(token.text_range().start().into());
        let is_before_dot = tokens.get(index + 1).is_some_and(|next| next.text() == ".");
        let is_behind_dot = index > 0 && tokens[index - 1].text() == ".";
        if token.text() == "public" && is_before_dot && !is_behind_dot {
            offsets.push(start);
        } else if token.text().starts_with("'public.") && is_sequence_name(token) {
            offsets.push(start + 1);
        }
    }
    let calls = source.file.syntax().descendants().filter_map(ast::CallExpr::cast);
    let literals = calls.filter_map(|call| sequence_literal(&call));
    let bare = literals
        .filter(|literal| literal.syntax().parent().is_some_and(|parent| ast::Arg::can_cast(parent.kind())));
    let mut changes: Vec<_> = offsets.into_iter().map(|offset| (offset..offset + PUBLIC.len(), "")).collect();
    changes.extend(bare.map(|literal| source.range_of(literal.syntax()).end).map(|end| (end..end, REGCLASS)));
    changes.sort_by_key(|(range, _)| range.start);
    let mut changed = text.to_owned();
    for (range, new) in changes.into_iter().rev() {
        changed.replace_range(range.start - before.len()..range.end - before.len(), new);
    }
    changed
}

/// Returns the literal that names the sequence of a call of `nextval`, `currval` or `setval`.
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
