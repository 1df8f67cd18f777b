//! The names of called functions, as a statement writes them and as the catalog has them.

use squawk_syntax::ast;

/// Returns the name of a call's function, with the schema before a dot if the call has one.
pub(crate) fn called_name(call: &ast::CallExpr) -> Option<String> {
    match call.expr()? {
        ast::Expr::NameRef(name) => Some(name.text()),
        ast::Expr::FieldExpr(field) => match field.base()? {
            ast::Expr::NameRef(schema) => Some(format!("{}.{}", schema.text(), field.field()?.text())),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a name without the schema `public`, as the catalog has it.
pub(crate) fn in_catalog(name: &str) -> &str {
    name.strip_prefix("public.").unwrap_or(name)
}
