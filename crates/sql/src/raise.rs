//! RAISE: its format, its SQLSTATE, its options.

use crate::binder::Binder;
use crate::conditions::sqlstate_of;
use crate::error::StatementError;
use catalog::ScalarType;
use procedure::{CastContext, Expression, Raise, Severity};
use squawk_syntax::ast::{self, AstNode};

/// Returns the severity of a RAISE, and its SQLSTATE unless it names another one.
fn severity_of(raise: &ast::PlpgsqlRaiseStmt) -> (Severity, &'static str) {
    let level = raise.level().map(|level| level.syntax().text().to_string().to_lowercase());
    match level.as_deref() {
        Some("debug") => (Severity::Debug, "00000"),
        Some("log") => (Severity::Log, "00000"),
        Some("info") => (Severity::Info, "00000"),
        Some("notice") => (Severity::Notice, "00000"),
        Some("warning") => (Severity::Warning, "01000"),
        _ => (Severity::Exception, "P0001"),
    }
}

impl Binder<'_> {
    pub(crate) fn bind_raise(&mut self, raise: &ast::PlpgsqlRaiseStmt) -> Result<Raise, StatementError> {
        let node = raise.syntax();
        let (severity, default) = severity_of(raise);
        let text = match raise.message() {
            Some(message) => {
                let literal = message.syntax().children().find_map(ast::Literal::cast);
                self.part(literal.and_then(|literal| literal.string_value()), node)?
            }
            None => String::new(),
        };
        let mut parts = vec![String::new()];
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('%', Some('%')) => {
                    characters.next();
                    parts.last_mut().expect("one part at least").push('%');
                }
                ('%', _) => parts.push(String::new()),
                _ => parts.last_mut().expect("one part at least").push(character),
            }
        }
        let mut values = Vec::new();
        for value in raise.params() {
            let value = self.single_expression(Some(value), node)?;
            let bound = self.bind(&value)?;
            values.push(self.as_printed(bound, value.syntax())?);
        }
        if values.len() + 1 != parts.len() {
            return Err(self.syntax(node, "RAISE has another number of parameters than of % in its format"));
        }
        let mut bound =
            Raise { severity, parts, values, sqlstate: Expression::text(default), detail: None, hint: None };
        if let Some(condition) = raise.condition_name() {
            let text = condition.syntax().text().to_string();
            let state = sqlstate_of(&text)
                .ok_or_else(|| self.unsupported(condition.syntax(), &format!("condition {text}")))?;
            bound.sqlstate = Expression::text(&state);
        }
        let options = raise.using_clause();
        for option in options.into_iter().flat_map(|clause| clause.plpgsql_raise_options()) {
            let value = option.syntax().children().find_map(ast::PlpgsqlExpr::cast);
            let value = self.single_expression(value, option.syntax())?;
            let value = self.bind_text(&value)?;
            match option {
                ast::PlpgsqlRaiseOption::PlpgsqlRaiseOptionErrcode(_) => {
                    bound.sqlstate = match &value {
                        Expression::Bytes(name) => {
                            let name = String::from_utf8_lossy(name);
                            Expression::text(&sqlstate_of(&name).unwrap_or(name.into_owned()))
                        }
                        _ => value,
                    };
                }
                ast::PlpgsqlRaiseOption::PlpgsqlRaiseOptionDetail(_) => bound.detail = Some(value),
                ast::PlpgsqlRaiseOption::PlpgsqlRaiseOptionHint(_) => bound.hint = Some(value),
                ast::PlpgsqlRaiseOption::PlpgsqlRaiseOptionMessage(_) => {
                    bound.parts = vec![String::new(), String::new()];
                    bound.values = vec![value];
                }
                _ => return Err(self.unsupported(option.syntax(), "this option of RAISE")),
            }
        }
        Ok(bound)
    }

    fn bind_text(&mut self, value: &ast::Expr) -> Result<Expression, StatementError> {
        let bound = self.bind(value)?;
        self.coerce(bound, ScalarType::Text.into(), CastContext::Explicit, value.syntax())
    }
}
