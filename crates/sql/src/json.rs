//! JSON in expressions: arguments that are taken as JSON, whole rows, subscripts; and the types that have no
//! equality or order.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::plan::{CalledRow, if_present};
use crate::whole_rows::RowFields;
use catalog::{Datum, ScalarType, Type};
use procedure::{CastContext, Expression, Function, Kind, SqlError, built_ins_named};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns whether a function takes rows as JSON.
fn takes_rows(name: &str) -> bool {
    matches!(name, "row_to_json" | "to_json" | "to_jsonb")
        || built_ins_named(name).iter().any(|built_in| built_in.arguments.contains(&Kind::AnyAsJson))
}

impl Binder<'_> {
    /// Binds the arguments of a call. A whole row becomes JSON if the function takes rows as JSON.
    pub(crate) fn bind_arguments(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
    ) -> Result<Vec<Typed>, StatementError> {
        let takes_rows = takes_rows(name);
        let bind = |argument| match takes_rows {
            true => match self.whole_row(argument)? {
                Some(row) => Ok(row),
                None => {
                    let bound = self.bind(argument)?;
                    self.refuse_row(&bound, argument.syntax())?;
                    Ok(bound)
                }
            },
            false => self.bind(argument),
        };
        arguments.iter().map(bind).collect()
    }

    /// Returns a whole row as JSON, if an expression is one.
    fn whole_row(&mut self, expression: &ast::Expr) -> Result<Option<Typed>, StatementError> {
        if let ast::Expr::CallExpr(call) = expression
            && let Some(CalledRow { fields, is_present }) = self.row_of_call(call)?
        {
            let row = if_present(is_present, self.row_as_json(fields, expression.syntax())?);
            return Ok(Some(Typed::Known(row, ScalarType::Json.into())));
        }
        match self.row_fields(expression)? {
            Some(RowFields::Absent) => Ok(Some(Typed::Known(Expression::NULL, ScalarType::Json.into()))),
            Some(RowFields::Present(fields)) => {
                let row = self.row_as_json(fields, expression.syntax())?;
                Ok(Some(Typed::Known(row, ScalarType::Json.into())))
            }
            None => Ok(None),
        }
    }

    fn row_as_json(
        &self,
        members: Vec<(String, Typed)>,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let mut arguments = Vec::new();
        for (name, value) in members {
            arguments.push(Expression::text(&name));
            arguments.push(self.as_json(value, node)?);
        }
        Ok(Expression::Function { function: Function::RowJson, arguments })
    }

    /// Returns a value as JSON. NULL stays NULL.
    ///
    /// # Errors
    /// `0A000`: it is a row whose fields are not known.
    pub(crate) fn as_json(&self, value: Typed, node: &SyntaxNode) -> Result<Expression, StatementError> {
        self.refuse_row(&value, node)?;
        let value = match value {
            Typed::Null => return Ok(Expression::NULL),
            Typed::Known(value, Type::Scalar(ty)) if ty.is_json() => return Ok(value),
            known @ Typed::Known(..) => known,
            open => {
                let text = ScalarType::Text.into();
                Typed::Known(self.coerce(open, text, CastContext::Implicit, node)?, text)
            }
        };
        let arguments = vec![value];
        let entry = self.chosen("to_json", built_ins_named("to_json"), &arguments, node)?;
        match self.call_values(entry, entry.arguments, arguments, node)? {
            Typed::Known(json, _) => Ok(json),
            _ => unreachable!("a call has a type"),
        }
    }

    /// Refuses a row whose fields are not known as JSON: its text has neither their names nor their types.
    fn refuse_row(&self, value: &Typed, node: &SyntaxNode) -> Result<(), StatementError> {
        match value.known_type() == Some(ScalarType::Record.into()) {
            true => Err(self.unsupported(node, "this kind of row as JSON")),
            false => Ok(()),
        }
    }

    /// Binds an element of an array or of a JSONB, or an argument of a trigger.
    pub(crate) fn bind_subscript(&mut self, index: &ast::IndexExpr) -> Result<Typed, StatementError> {
        let node = index.syntax();
        if let Some(argument) = self.trigger_argument(index) {
            return Ok(argument);
        }
        let base = self.part(index.base(), node)?;
        if matches!(base, ast::Expr::SliceExpr(_)) {
            return Err(self.unsupported(node, "an array of arrays"));
        }
        let subscript = self.part(index.index(), node)?;
        let bound = self.bind(&base)?;
        if bound.known_type() == Some(ScalarType::Jsonb.into()) {
            return self.json_subscript(bound, &subscript);
        }
        if let Typed::Known(Expression::Register(register), _) = &bound
            && self.queries.catalog_names.contains(register)
        {
            return self.character_of_name(bound, &subscript);
        }
        let Typed::Known(array, Type::Array(element)) = bound else {
            let error = SqlError::new("42804", "only an array has elements");
            return Err(self.error(base.syntax(), error));
        };
        let mut subscript = self.bind_as(&subscript, ScalarType::Integer, CastContext::Assignment)?;
        let is_vector = matches!(array, Expression::Register(register) if self.origins.is_vector(register));
        if is_vector || self.is_trigger_arguments(&base) {
            let one = Typed::Known(Expression::Constant(Datum::Int(1)), ScalarType::Integer.into());
            let index_value = Typed::Known(subscript, ScalarType::Integer.into());
            subscript = match self.operator("+", vec![index_value, one], node)? {
                Typed::Known(next, _) => next,
                _ => unreachable!("a sum has a type"),
            };
        }
        Ok(Typed::Known(Expression::Element(Box::new([array, subscript])), element.into()))
    }

    /// Binds `name[n]` of a catalog name: a character, counted from 0.
    fn character_of_name(&mut self, name: Typed, subscript: &ast::Expr) -> Result<Typed, StatementError> {
        let node = subscript.syntax();
        let integer =
            |value| Typed::Known(Expression::Constant(Datum::Int(value)), ScalarType::Integer.into());
        let subscript = self.bind(subscript)?;
        let subscript = self.operator("+", vec![subscript, integer(1)], node)?;
        self.call_built_in("substr", vec![name, subscript, integer(1)], node)
    }

    /// Binds `value['key']` and `value[0]` of a JSONB.
    fn json_subscript(&mut self, json: Typed, subscript: &ast::Expr) -> Result<Typed, StatementError> {
        let node = subscript.syntax();
        let step = self.bind(subscript)?;
        let is_usable = step.known_type().is_none_or(|ty| {
            ty.scalar().is_some_and(|scalar| {
                scalar.is_text() || matches!(scalar, ScalarType::Integer | ScalarType::SmallInt)
            })
        });
        if !is_usable {
            let message = format!("subscript type {} is not supported", step.shown_type());
            let hint = "jsonb subscript must be coercible to either integer or text.";
            return Err(self.error(node, SqlError::new("42804", message).with_hint(hint)));
        }
        let text = ScalarType::Text;
        let step = self.coerce(step, text.into(), CastContext::Explicit, node)?;
        let path = Typed::Known(Expression::Array(vec![step]), Type::Array(text));
        self.operator("#>", vec![json, path], node)
    }

    /// Refuses a type that lacks the operators for a purpose, which is `ordering` or `equality`.
    ///
    /// # Errors
    /// `42883`: the type is JSON. `0A000`: DISTINCT of this type is not supported.
    pub(crate) fn check_compared(
        &self,
        ty: Type,
        purpose: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let has_forms = matches!(ty, Type::Array(ScalarType::Jsonb | ScalarType::Interval));
        if has_forms && purpose == "equality" {
            return Err(self.unsupported(node, &format!("DISTINCT of values of type {ty}")));
        }
        if ty.element() == ScalarType::Record {
            return Err(self.unsupported(node, &format!("an {purpose} of whole rows")));
        }
        if ty.element() != ScalarType::Json {
            return Ok(());
        }
        let message = format!("could not identify an {purpose} operator for type {}", ty.element());
        let error = SqlError::new("42883", message);
        Err(self.error(
            node,
            match purpose {
                "ordering" => error.with_hint("Use an explicit ordering operator or modify the query."),
                _ => error,
            },
        ))
    }

    /// Refuses a partition, INTERSECT or EXCEPT by a type whose equal values have several forms.
    pub(crate) fn check_grouped(&self, ty: Type, node: &SyntaxNode) -> Result<(), StatementError> {
        self.check_compared(ty, "equality", node)?;
        match ty.element() {
            ScalarType::Jsonb => Err(self.unsupported(node, "a partition, INTERSECT or EXCEPT by a JSONB")),
            ScalarType::Interval => {
                Err(self.unsupported(node, "a partition, INTERSECT or EXCEPT by an INTERVAL"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the expression to compare in place of a value: it has one form for all equal values.
pub(crate) fn compared_form(value: Expression, ty: Type) -> Expression {
    match ty {
        Type::Scalar(ScalarType::Jsonb) => {
            Expression::Function { function: Function::CanonicalJson, arguments: vec![value] }
        }
        Type::Scalar(ScalarType::Interval) => {
            Expression::Function { function: Function::TotalOfInterval, arguments: vec![value] }
        }
        _ => value,
    }
}
