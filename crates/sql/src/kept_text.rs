//! Conditions that a table keeps as text (CHECK), which are read again whenever the table changes.

use crate::source::Source;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The text of a condition without the table's name before columns: it goes on to hold under another name.
pub(crate) fn unqualified(condition: &ast::Expr, table: &str, source: &Source) -> String {
    let mut text = source.text_of(condition.syntax()).to_owned();
    let start = usize::from(condition.syntax().text_range().start());
    let fields = condition.syntax().descendants().filter_map(ast::FieldExpr::cast);
    let qualifiers = fields.filter_map(|field| match (field.base()?, field.field()?) {
        (ast::Expr::NameRef(base), column) if base.text() == table => {
            let start_of = |node: &SyntaxNode| usize::from(node.text_range().start()) - start;
            Some(start_of(base.syntax())..start_of(column.syntax()))
        }
        _ => None,
    });
    // From the end, so that the places before stay.
    let mut qualifiers: Vec<_> = qualifiers.collect();
    qualifiers.sort_by_key(|range| Reverse(range.start));
    qualifiers.into_iter().for_each(|range| text.replace_range(range, ""));
    text
}

/// The names in an expression that is kept as text: where each stands, and what it is.
fn names_in(text: &str) -> Vec<(std::ops::Range<usize>, String)> {
    const BEFORE: &str = "SELECT ";
    let Ok(source) = Source::parse(&format!("{BEFORE}{text}")) else { return Vec::new() };
    let names = source.file.syntax().descendants().filter_map(ast::NameRef::cast);
    let is_called = |name: &ast::NameRef| {
        let parent = name.syntax().parent();
        parent.and_then(ast::CallExpr::cast).is_some_and(
            |call| matches!(call.expr(), Some(ast::Expr::NameRef(own)) if own.syntax() == name.syntax()),
        )
    };
    let names = names.filter(|name| !is_called(name));
    let place = |name: ast::NameRef| {
        let range = name.syntax().text_range();
        let (start, end) = (usize::from(range.start()), usize::from(range.end()));
        (start - BEFORE.len()..end - BEFORE.len(), name.text())
    };
    names.map(place).collect()
}

/// The columns that an expression names, each once.
pub(crate) fn columns_in(text: &str) -> Vec<String> {
    let names: BTreeSet<_> = names_in(text).into_iter().map(|(_, name)| name).collect();
    names.into_iter().collect()
}

/// Whether an expression names a column.
pub(crate) fn mentions(text: &str, column: &str) -> bool {
    names_in(text).iter().any(|(_, name)| name == column)
}

/// An expression after a column has got another name.
pub(crate) fn renamed(text: &str, old: &str, new: &str) -> String {
    let mut changed = text.to_owned();
    for (range, name) in names_in(text).into_iter().rev() {
        if name == old {
            changed.replace_range(range, &format!("\"{}\"", new.replace('"', "\"\"")));
        }
    }
    changed
}
