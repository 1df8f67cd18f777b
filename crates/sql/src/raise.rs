//! RAISE: its format, its SQLSTATE, its options.

use crate::binder::Binder;
use crate::error::StatementError;
use catalog::ScalarType;
use procedure::{CastContext, Expression, Raise, RaiseOption, Severity, SqlError, sqlstates_of};
use squawk_syntax::SyntaxNode;
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

/// Returns the kind of an option of USING; `None` for ERRCODE.
fn kind_of(option: &ast::PlpgsqlRaiseOption) -> Option<RaiseOption> {
    use ast::PlpgsqlRaiseOption as Option;
    match option {
        Option::PlpgsqlRaiseOptionErrcode(_) => None,
        Option::PlpgsqlRaiseOptionMessage(_) => Some(RaiseOption::Message),
        Option::PlpgsqlRaiseOptionDetail(_) => Some(RaiseOption::Detail),
        Option::PlpgsqlRaiseOptionHint(_) => Some(RaiseOption::Hint),
        Option::PlpgsqlRaiseOptionSchema(_) => Some(RaiseOption::Schema),
        Option::PlpgsqlRaiseOptionTable(_) => Some(RaiseOption::Table),
        Option::PlpgsqlRaiseOptionColumn(_) => Some(RaiseOption::Column),
        Option::PlpgsqlRaiseOptionDatatype(_) => Some(RaiseOption::Datatype),
        Option::PlpgsqlRaiseOptionConstraint(_) => Some(RaiseOption::Constraint),
    }
}

/// Returns the text between the values of a format.
fn parts_of(format: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = format.chars().peekable();
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
    parts
}

impl Binder<'_> {
    pub(crate) fn bind_raise(&mut self, raise: &ast::PlpgsqlRaiseStmt) -> Result<Raise, StatementError> {
        let node = raise.syntax();
        let (severity, default) = severity_of(raise);
        let format = match raise.message() {
            Some(message) => {
                let literal = message.syntax().children().find_map(ast::Literal::cast);
                Some(self.part(literal.and_then(|literal| literal.string_value()), node)?)
            }
            None => None,
        };
        let parts = parts_of(format.as_deref().unwrap_or_default());
        let values = self.raised_values(raise, parts.len(), node)?;
        let mut bound =
            Raise { severity, parts, values, sqlstate: Expression::text(default), options: Vec::new() };
        let condition = raise.condition_name();
        // The text of an error without a message: the name of the condition, or its code.
        let mut shown = if default == "P0001" { default.to_owned() } else { "00000".into() };
        if let Some(condition) = &condition {
            let text = condition.syntax().text().to_string();
            let Some(state) = sqlstates_of(&text).into_iter().next() else {
                let message = format!("unrecognized exception condition \"{}\"", text.trim());
                return Err(self.error(condition.syntax(), SqlError::new("42704", message)));
            };
            let is_code = text.trim().to_lowercase().starts_with("sqlstate");
            shown = if is_code { state.clone() } else { text.trim().to_lowercase() };
            bound.sqlstate = Expression::text(&state);
        }
        let mut has_code = condition.is_some();
        let mut message = format.is_none().then(|| Expression::text(&shown));
        let options = raise.using_clause();
        for option in options.into_iter().flat_map(|clause| clause.plpgsql_raise_options()) {
            let value = option.syntax().children().find_map(ast::PlpgsqlExpr::cast);
            let value = self.single_expression(value, option.syntax())?;
            let value = self.bind_text(&value)?;
            let kind = kind_of(&option);
            let is_repeated = match kind {
                None => has_code,
                Some(RaiseOption::Message) if format.is_some() => true,
                Some(kind) => bound.options.iter().any(|(known, _)| *known == kind),
            };
            if is_repeated {
                let text = option.syntax().text().to_string();
                let name = text.split(|character: char| !character.is_alphabetic()).next();
                let message =
                    format!("RAISE option already specified: {}", name.unwrap_or_default().to_uppercase());
                return Ok(Raise::error("42601", &message));
            }
            match kind {
                None => {
                    has_code = true;
                    message = message.map(|_| value.clone());
                    bound.sqlstate = value;
                }
                Some(kind) => bound.options.push((kind, value)),
            }
        }
        let has_message = bound.options.iter().any(|(kind, _)| *kind == RaiseOption::Message);
        if let (Some(message), false) = (message, has_message) {
            bound.options.push((RaiseOption::Message, message));
        }
        Ok(bound)
    }

    /// Binds the values of a RAISE, one less than the parts of its format.
    fn raised_values(
        &mut self,
        raise: &ast::PlpgsqlRaiseStmt,
        parts: usize,
        node: &SyntaxNode,
    ) -> Result<Vec<Expression>, StatementError> {
        let mut values = Vec::new();
        for value in raise.params() {
            let value = self.single_expression(Some(value), node)?;
            let bound = self.bind(&value)?;
            values.push(self.as_printed(bound, value.syntax())?);
        }
        match values.len() + 1 {
            count if count < parts => Err(self.syntax(node, "too few parameters specified for RAISE")),
            count if count > parts => Err(self.syntax(node, "too many parameters specified for RAISE")),
            _ => Ok(values),
        }
    }

    fn bind_text(&mut self, value: &ast::Expr) -> Result<Expression, StatementError> {
        let bound = self.bind(value)?;
        self.coerce(bound, ScalarType::Text.into(), CastContext::Explicit, value.syntax())
    }
}
