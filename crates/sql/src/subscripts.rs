//! Assignments to elements and slices of arrays, in SET and in PL/pgSQL.
//! Source: PostgreSQL 15, `transformAssignmentSubscripts`.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::{CastContext, Expression, Function, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{SyntaxKind, SyntaxToken};

/// The target of an assignment: a column or variable.
pub(crate) struct Subscripted<'a> {
    pub(crate) name: &'a str,
    /// Its value before the assignment.
    pub(crate) old: Expression,
    pub(crate) ty: Type,
}

impl Binder<'_> {
    /// Returns the array in which an element or a slice has another value. `value` is `None` for DEFAULT.
    pub(crate) fn bind_subscripted(
        &mut self,
        target: Subscripted<'_>,
        accessors: impl Iterator<Item = ast::Accessor>,
        value: Option<Typed>,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let accessors: Vec<_> = accessors.collect();
        let [accessor] = accessors.as_slice() else {
            return Err(self.unsupported(node, "an assignment to an array of arrays"));
        };
        let Type::Array(element) = target.ty else {
            let ty = target.ty;
            if ty == ScalarType::Jsonb.into() || matches!(accessor, ast::Accessor::FieldAccessor(_)) {
                return Err(self.unsupported(accessor.syntax(), "an assignment to a part of a value"));
            }
            let message = format!("cannot subscript type {ty} because it does not support subscripting");
            return Err(self.error(node, SqlError::new("42804", message)));
        };
        let Some(value) = value else {
            return Err(self.unsupported(node, "setting an array element to DEFAULT"));
        };
        match accessor {
            ast::Accessor::IndexAccessor(index) => {
                let position = self.part(index.index(), node)?;
                let position = self.bind_as(&position, ScalarType::Integer, CastContext::Assignment)?;
                let value = self.coerce_to_part(target.name, value, element.into(), node)?;
                let arguments = vec![target.old, position, value];
                Ok(Expression::Function { function: Function::WithElement, arguments })
            }
            ast::Accessor::SliceAccessor(slice) => {
                let [from, to] = ends_of_slice(slice.syntax());
                let function = Function::WithSlice { has_from: from.is_some(), has_to: to.is_some() };
                let mut arguments = vec![target.old];
                for end in [from, to].into_iter().flatten() {
                    arguments.push(self.bind_as(&end, ScalarType::Integer, CastContext::Assignment)?);
                }
                arguments.push(self.coerce_to_part(target.name, value, target.ty, node)?);
                Ok(Expression::Function { function, arguments })
            }
            ast::Accessor::FieldAccessor(_) => Err(self.unsupported(node, "an array of rows")),
        }
    }

    fn coerce_to_part(
        &self,
        name: &str,
        value: Typed,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let from = value.known_type();
        let is_allowed = match (from, ty) {
            (None, _) => true,
            (Some(Type::Scalar(from)), Type::Scalar(to)) | (Some(Type::Array(from)), Type::Array(to)) => {
                CastContext::Assignment.allows(from, to)
            }
            (Some(Type::Array(_)), Type::Scalar(to)) => to.is_text(),
            (Some(Type::Scalar(_)), Type::Array(_)) => false,
        };
        if is_allowed {
            return self.coerce(value, ty, CastContext::Assignment, node);
        }
        let found = value.shown_type();
        let message = format!(
            "subscripted assignment to \"{name}\" requires type {} but expression is of type {found}",
            ty.base()
        );
        let error = SqlError::new("42804", message);
        Err(self.error(node, error.with_hint("You will need to rewrite or cast the expression.")))
    }
}

/// Returns the expressions before and behind the colon of a slice.
fn ends_of_slice(slice: &SyntaxNode) -> [Option<ast::Expr>; 2] {
    let colons = slice.children_with_tokens().filter_map(|element| element.into_token());
    let mut colons = colons.filter(|token: &SyntaxToken| token.kind() == SyntaxKind::COLON);
    let colon = colons.next().map(|token| token.text_range().start());
    let mut ends = [None, None];
    for end in slice.children().filter_map(ast::Expr::cast) {
        let is_behind = colon.is_some_and(|colon| end.syntax().text_range().start() > colon);
        ends[usize::from(is_behind)] = Some(end);
    }
    ends
}
