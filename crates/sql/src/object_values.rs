//! Numbers of catalog objects where their names are values: casts to `regclass` and similar types, and
//! `to_regclass` and similar functions.
//!
//! Such an expression has the object's name as its value. Where it is compared with a number, or cast to one,
//! it has the object's number (`bind_object_number`).

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::system::path_text;
use crate::system_functions::looked_up_text;
use catalog::{ScalarType, Type};
use procedure::{ByValueCause, CastContext, CompareClass, CompareOperator, Expression, Function, ObjectKind};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// An expression whose value is an object of the catalog.
struct ObjectExpression {
    /// The type, such as `regclass`.
    ty: String,
    operand: ast::Expr,
    /// Whether a name that no object has is an error; otherwise it is NULL.
    is_cast: bool,
}

/// Returns the name of a type as it is written, without quotes and without `pg_catalog`.
pub(crate) fn written_type(ty: &ast::Type) -> String {
    let text = ty.syntax().text().to_string();
    let quoted = text.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let name = quoted.map_or_else(|| text.to_lowercase(), str::to_owned);
    name.strip_prefix("pg_catalog.").unwrap_or(&name).to_owned()
}

fn object_expression(expression: &ast::Expr) -> Option<ObjectExpression> {
    match expression {
        ast::Expr::ParenExpr(paren) => object_expression(&paren.expr()?),
        ast::Expr::CastExpr(cast) => {
            let ty = written_type(&cast.ty()?);
            let operand = cast.expr().or_else(|| cast.literal().map(ast::Expr::Literal))?;
            ty.starts_with("reg").then_some(ObjectExpression { ty, operand, is_cast: true })
        }
        ast::Expr::CallExpr(call) => {
            let name = call.expr()?.syntax().text().to_string().to_lowercase();
            let ty = name.strip_prefix("pg_catalog.").unwrap_or(&name).strip_prefix("to_reg")?.to_owned();
            let operand = call.arg_list()?.args().next()?.expr()?;
            Some(ObjectExpression { ty: format!("reg{ty}"), operand, is_cast: false })
        }
        _ => None,
    }
}

/// Returns whether a value is the number of an object, or can be compared with one.
fn is_number(typed: &Typed) -> bool {
    typed.known_type().is_some_and(|ty| match ty {
        Type::Scalar(ty) => ty == ScalarType::Oid || ty.is_integer(),
        Type::Array(_) => false,
    })
}

impl Binder<'_> {
    /// Returns the number of the object that a value names: a text with its name, or its number.
    ///
    /// # Errors
    /// A literal in a cast names no object: the error of `object_number`.
    pub(crate) fn number_of_object(
        &mut self,
        ty: &str,
        operand: Typed,
        is_cast: bool,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let operand = match operand {
            Typed::Literal(name) => {
                let number = match is_cast {
                    true => Some(self.object_number(ty, &name, node)?),
                    false => self.schema.object_named(ty, &name),
                };
                let constant = |number| Expression::Constant(catalog::Datum::Int(number));
                return Ok(number.map_or(Expression::NULL, constant));
            }
            operand => operand,
        };
        if is_number(&operand) || matches!(operand, Typed::Null) {
            return self.coerce(operand, ScalarType::BigInt.into(), CastContext::Explicit, node);
        }
        self.reads_catalog = true;
        self.log_by_value(ByValueCause::Moment);
        let name = self.coerce(operand, ScalarType::Text.into(), CastContext::Explicit, node)?;
        let otherwise = match is_cast {
            true => {
                let function = Function::NumberOf(ObjectKind::of_type(ty));
                Expression::Function { function, arguments: vec![name.clone()] }
            }
            false => Expression::NULL,
        };
        Ok(looked_up_text(name, self.schema.object_spellings(ty), otherwise))
    }

    /// Binds an expression with the number of an object as its value; `None` for any other expression.
    pub(crate) fn bind_object_number(
        &mut self,
        expression: &ast::Expr,
    ) -> Result<Option<Typed>, StatementError> {
        let Some(object) = object_expression(expression) else { return Ok(None) };
        if self.schema.object_names(&object.ty).is_none() {
            return Ok(None);
        }
        let operand = self.bind(&object.operand)?;
        let number = self.number_of_object(&object.ty, operand, object.is_cast, object.operand.syntax())?;
        Ok(Some(Typed::Known(number, ScalarType::Oid.into())))
    }

    /// Binds an expression that is shown or cast to a text: an object of the catalog is shown by its name.
    pub(crate) fn bind_shown(&mut self, expression: &ast::Expr) -> Result<Typed, StatementError> {
        let object = object_expression(expression).filter(|own| own.is_cast);
        let object = object.filter(|own| matches!(own.operand, ast::Expr::Literal(_)));
        match (object, self.bind(expression)?) {
            (Some(object), Typed::Known(number, Type::Scalar(ScalarType::Oid))) => {
                Ok(self.object_name(&object.ty, number))
            }
            (_, bound) => Ok(bound),
        }
    }

    /// Binds the right operand of a comparison. An object is compared with a number by its number.
    pub(crate) fn bind_beside(&mut self, left: &Typed, right: &ast::Expr) -> Result<Typed, StatementError> {
        let bound = self.bind(right)?;
        match is_number(left) && !is_number(&bound) {
            true => Ok(self.bind_object_number(right)?.unwrap_or(bound)),
            false => Ok(bound),
        }
    }

    /// Binds the operands of a comparison. An object is compared with a number by its number.
    pub(crate) fn bind_compared(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<[Typed; 2], StatementError> {
        let mut first = self.bind(left)?;
        let second = self.bind_beside(&first, right)?;
        if is_number(&second) && !is_number(&first) {
            first = self.bind_object_number(left)?.unwrap_or(first);
        }
        Ok([first, second])
    }

    /// Binds `pg_get_serial_sequence`: the sequence that a column of a table owns.
    pub(crate) fn serial_sequence(
        &self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if let [Typed::Literal(table), Typed::Literal(column), ..] = arguments {
            // The result is a literal, because functions of sequences require one.
            let table = table.trim_start_matches("public.").replace('"', "");
            let is_owned = |relation: &&Arc<catalog::Table>| {
                let owner = relation.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
                owner.is_some_and(|(owning, name)| *owning == table && name == column)
            };
            let sequence = self.schema.catalog().tables().find(is_owned);
            let path = sequence.map(|sequence| path_text(&sequence.name, true));
            return Ok(path.map_or(Typed::Null, Typed::Literal));
        }
        let text = Type::from(ScalarType::Text);
        let value = |position: usize| {
            let argument = arguments.get(position).cloned().unwrap_or(Typed::Null);
            self.coerce(argument, text, CastContext::Explicit, node)
        };
        let (table, column) = (value(0)?, value(1)?);
        let is = |value: &Expression, text: &str| {
            let operands = Box::new([value.clone(), Expression::text(text)]);
            let (operator, class) = (CompareOperator::Equal, CompareClass::Bytes);
            Expression::Compare { operator, class, operands }
        };
        let mut branches = Vec::new();
        for relation in self.schema.catalog().tables() {
            let owner = relation.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
            let Some((of, name)) = owner else { continue };
            let names = [path_text(of, false), path_text(of, true)];
            let is_table = Expression::any(names.iter().map(|name| is(&table, name)).collect());
            let condition = Expression::And(Box::new([is_table, is(&column, name)]));
            branches.push((condition, Expression::text(&path_text(&relation.name, true))));
        }
        let sequence = match branches.is_empty() {
            true => Expression::NULL,
            false => Expression::Case { branches, otherwise: Box::new(Expression::NULL) },
        };
        Ok(Typed::Known(sequence, text))
    }
}
