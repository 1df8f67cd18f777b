//! EXTRACT, AT TIME ZONE and ages.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{Datum, ScalarType};
use procedure::{CastContext, Expression};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Binds `timestamp AT TIME ZONE zone`, which is the function `timezone`.
    pub(crate) fn in_zone(
        &mut self,
        time: &ast::Expr,
        zone: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let (time, zone) = (self.bind(time)?, self.bind(zone)?);
        if time.known_type() == Some(ScalarType::Time.into()) {
            return Err(self.unsupported(node, "a time of day in a time zone"));
        }
        self.call_built_in("timezone", vec![zone, time], node)
    }

    /// Returns the text of `interval '5' day`: a whole number of one field.
    ///
    /// # Errors
    /// `0A000`: any other text or fields, of which PostgreSQL would leave something out.
    pub(crate) fn interval_of_field(
        &self,
        literal: Option<ast::Literal>,
        fields: &ast::IntervalQualifier,
    ) -> Result<Typed, StatementError> {
        let node = fields.syntax();
        let text = literal.and_then(|own| own.string_value()).unwrap_or_default();
        let digits = text.trim().trim_start_matches(['+', '-']);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let field = node.text().to_string().to_lowercase();
        let is_one = field.bytes().all(|byte| byte.is_ascii_lowercase());
        match is_whole && is_one {
            true => Ok(Typed::Literal(format!("{} {field}", text.trim()))),
            false => Err(self.unsupported(node, "an interval of these fields")),
        }
    }

    /// Binds `make_interval(years => 1, …)`. A field may be named, and is 0 if there is no argument for it.
    pub(crate) fn bind_make_interval(
        &mut self,
        list: &ast::ArgList,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        const FIELDS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
        let mut fields = [const { None }; FIELDS.len()];
        let mut shown = Vec::new();
        let mut is_named = false;
        for (position, argument) in list.args().enumerate() {
            let argument_node = argument.syntax();
            let (field_index, value, prefix) = match self.part(argument.func_arg_expr(), argument_node)? {
                ast::FuncArgExpr::Expr(_) if is_named => {
                    return Err(
                        self.syntax(argument_node, "positional argument cannot follow named argument")
                    );
                }
                ast::FuncArgExpr::Expr(value) => (Some(position), value, String::new()),
                ast::FuncArgExpr::NamedArg(named) => {
                    is_named = true;
                    let name = self.part(named.name(), argument_node)?;
                    let name = ast::normalize_name_node(name.syntax());
                    let value = self.part(named.expr(), argument_node)?;
                    (FIELDS.iter().position(|field| *field == name), value, format!("{name} => "))
                }
            };
            let value = self.bind(&value)?;
            shown.push(format!("{prefix}{}", value.shown_type()));
            match field_index.and_then(|field_index| fields.get_mut(field_index)) {
                Some(field @ None) => *field = Some(value),
                _ => {
                    let shown = format!("make_interval({})", shown.join(", "));
                    return Err(self.no_function_of(&shown, node));
                }
            }
        }
        let absent = || Typed::Known(Expression::Constant(Datum::Int(0)), ScalarType::Integer.into());
        let fields = fields.into_iter().map(|argument| argument.unwrap_or_else(absent)).collect();
        self.call_built_in("make_interval", fields, node)
    }

    /// Binds `EXTRACT (field FROM value)`.
    pub(crate) fn bind_extract(&mut self, extract: &ast::ExtractFn) -> Result<Typed, StatementError> {
        let node = extract.syntax();
        let field = self.part(extract.extract_field(), node)?.syntax().text().to_string();
        let field = field.trim().trim_matches(['\'', '"']).to_owned();
        let value = self.part(extract.expr(), node)?;
        let arguments = vec![Typed::Literal(field), self.bind(&value)?];
        self.call_built_in("extract", arguments, node)
    }

    /// Binds `age(moment)`: the time from a moment to the beginning of the day.
    pub(crate) fn bind_age(&mut self, moment: Typed, node: &SyntaxNode) -> Result<Typed, StatementError> {
        let now = self.now(ScalarType::Timestamptz);
        let date = ScalarType::Date.into();
        let today = Typed::Known(self.coerce(now, date, CastContext::Explicit, node)?, date);
        let is_local =
            moment.known_type().is_some_and(|ty| ty.element().unlimited() == ScalarType::Timestamp);
        let ty = if is_local { ScalarType::Timestamp } else { ScalarType::Timestamptz };
        let today = Typed::Known(self.coerce(today, ty.into(), CastContext::Implicit, node)?, ty.into());
        self.call_built_in("age", vec![today, moment], node)
    }
}
