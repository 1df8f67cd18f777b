//! Conditions that a table keeps as text (CHECK). They are bound again when the table changes.

use crate::called_names::{called_name, in_catalog};
use crate::quoted::quoted;
use crate::source::Source;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Returns the text of a condition without the table's name before columns, so that it stays valid if the
/// table is renamed.
pub(crate) fn unqualified(condition: &ast::Expr, table: &str, source: &Source) -> String {
    let mut text = source.text_of(condition.syntax()).to_owned();
    let start = source.range_of(condition.syntax()).start;
    let fields = condition.syntax().descendants().filter_map(ast::FieldExpr::cast);
    let qualifiers = fields.filter_map(|field| match (field.base()?, field.field()?) {
        (ast::Expr::NameRef(base), column) if base.text() == table => {
            let start_of = |node: &SyntaxNode| source.range_of(node).start - start;
            Some(start_of(base.syntax())..start_of(column.syntax()))
        }
        _ => None,
    });
    // From the end, so that earlier offsets stay valid.
    let mut qualifiers: Vec<_> = qualifiers.collect();
    qualifiers.sort_by_key(|range| Reverse(range.start));
    qualifiers.into_iter().for_each(|range| text.replace_range(range, ""));
    text
}

/// Returns the names in an expression that is kept as text, each with its range of bytes.
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
    let position = |name: ast::NameRef| {
        let range = source.range_of(name.syntax());
        (range.start - BEFORE.len()..range.end - BEFORE.len(), name.text())
    };
    names.map(position).collect()
}

/// Returns the columns that an expression names, each once.
pub(crate) fn columns_in(text: &str) -> Vec<String> {
    let names: BTreeSet<_> = names_in(text).into_iter().map(|(_, name)| name).collect();
    names.into_iter().collect()
}

/// Returns whether an expression names a column.
pub(crate) fn mentions(text: &str, column: &str) -> bool {
    names_in(text).iter().any(|(_, name)| name == column)
}

/// Returns the name of the function that an expression is a call of; `None` for any other expression.
pub(crate) fn called(text: &str) -> Option<String> {
    let source = Source::parse(&format!("SELECT {text}")).ok()?;
    match source.file.syntax().descendants().find_map(ast::Target::cast)?.expr()? {
        ast::Expr::CallExpr(call) => match call.expr()? {
            ast::Expr::NameRef(name) => Some(name.text()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether an expression calls a function.
pub(crate) fn calls(text: &str, function: &str) -> bool {
    let Ok(source) = Source::parse(&format!("SELECT {text}")) else { return false };
    let mut calls = source.file.syntax().descendants().filter_map(ast::CallExpr::cast);
    calls.any(|call| called_name(&call).is_some_and(|name| in_catalog(&name) == function))
}

/// Returns an expression with a new name for a column.
pub(crate) fn renamed(text: &str, old: &str, new: &str) -> String {
    let mut changed = text.to_owned();
    for (range, name) in names_in(text).into_iter().rev() {
        if name == old {
            changed.replace_range(range, &quoted(new));
        }
    }
    changed
}
