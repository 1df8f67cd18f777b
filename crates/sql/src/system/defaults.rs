//! Defaults of columns as the catalogs show them: a text has the type of its column.
//! Source: PostgreSQL 15, `get_const_expr` in ruleutils.c.

use crate::partition::{in_quotes, typed};
use crate::quoted::quoted_path;
use crate::schema::Schema;
use crate::source::Source;
use catalog::{ScalarType, Type};
use squawk_syntax::ast::{self, AstNode};

/// Returns whether a text is one literal in quotes.
fn is_literal(text: &str) -> bool {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inner.is_some_and(|inner| !inner.replace("''", "").contains('\''))
}

impl Schema {
    /// Returns the default of a column of a type as PostgreSQL shows it.
    pub(super) fn shown_default(&self, text: &str, ty: Type) -> String {
        let base = ty.base();
        if !is_literal(text) {
            return text.to_owned();
        }
        if base.scalar().is_some_and(ScalarType::is_text) {
            return format!("{text}::{base}");
        }
        let value = || {
            let source = Source::parse(&format!("SELECT {text}")).ok()?;
            let target = source.file.syntax().descendants().find_map(ast::Target::cast)?;
            self.value_of_bound(&target.expr()?, base, &source).ok()?
        };
        match (value(), base.element().enumeration()) {
            (None, _) => text.to_owned(),
            (Some(value), None) => typed(&value, base),
            // The name of an enumeration has its schema, so that a dump can be read.
            (Some(value), Some(enumeration)) => {
                let array = if base.is_array() { "[]" } else { "" };
                format!("{}::{}{array}", in_quotes(&value), quoted_path(&enumeration.name))
            }
        }
    }
}
