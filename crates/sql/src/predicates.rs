//! Conditions on values: IS NULL, IN, ANY and ALL, IS DISTINCT FROM.

use crate::binder::{Binder, Typed, Variable};
use crate::error::StatementError;
use crate::operators::boolean;
use crate::row_values::row_of;
use crate::symbols::{comparison_operator, symbol_of};
use crate::whole_rows::RowFields;
use catalog::{ScalarType, Type};
use procedure::{
    CastContext, CompareOperator, ElementTest, Expression, Function, Quantifier, Register, SqlError,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    pub(crate) fn is_null(&mut self, operand: &ast::Expr, negated: bool) -> Result<Typed, StatementError> {
        if let Some(fields) = self.row_fields(operand)? {
            return self.row_is_null(fields, negated, operand.syntax());
        }
        if let ast::Expr::CallExpr(call) = operand
            && let Some(row) = self.row_of_call(call)?
        {
            return self.row_is_null(RowFields::Present(row.fields), negated, operand.syntax());
        }
        let bound = self.bind(operand)?;
        let (expression, ty) = self.settle(bound, None, operand.syntax())?;
        if ty == ScalarType::Record.into() {
            // Whether a row is NULL depends on its fields, which its text does not have.
            return Err(self.unsupported(operand.syntax(), "IS NULL of a row that a subquery returns"));
        }
        let is_null = Expression::IsNull(Box::new(expression));
        Ok(boolean(if negated { Expression::Not(Box::new(is_null)) } else { is_null }))
    }

    pub(crate) fn distinct(
        &mut self,
        left: Typed,
        right: Typed,
        equal: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let distinct = match (&left, &right) {
            (Typed::Known(_, Type::Array(_)), _) | (_, Typed::Known(_, Type::Array(_))) => {
                self.distinct_arrays(left, right, node)?
            }
            _ => {
                let (class, operands) = self.comparable(left, right, node)?;
                Expression::Distinct { class, operands }
            }
        };
        Ok(boolean(if equal { Expression::Not(Box::new(distinct)) } else { distinct }))
    }

    fn distinct_arrays(
        &mut self,
        left: Typed,
        right: Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let is_null = |binder: &Self, operand: &Typed| {
            let (value, _) = binder.settle(operand.clone(), None, node)?;
            Ok::<_, StatementError>(Expression::IsNull(Box::new(value)))
        };
        let (no_left, no_right) = (is_null(self, &left)?, is_null(self, &right)?);
        let Typed::Known(differs, _) = self.operator("<>", vec![left, right], node)? else {
            unreachable!("a comparison has a type")
        };
        let has_right = Expression::Not(Box::new(no_right.clone()));
        let branches = vec![(no_left, has_right), (no_right, Expression::boolean(true))];
        Ok(Expression::Case { branches, otherwise: Box::new(differs) })
    }

    /// Returns the fields of a record that an expression names: `NEW` or `NEW.*`.
    pub(crate) fn record_of(&self, expression: &ast::Expr) -> Option<Vec<(String, Variable)>> {
        let text = expression.syntax().text().to_string();
        let name = text.trim().trim_end_matches(".*").to_lowercase();
        self.fields(&name).map(<[_]>::to_vec)
    }

    /// Binds an operator whose right operand is ANY or ALL; `None` if it is not.
    pub(crate) fn bind_quantifier(
        &mut self,
        operator: &ast::BinOp,
        left: &ast::Expr,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let ast::Expr::CallExpr(call) = right else { return Ok(None) };
        let any = call.any_fn().map(|any| (any.expr(), any.select_variant(), false));
        let any = any.or_else(|| call.some_fn().map(|any| (any.expr(), any.select_variant(), false)));
        let any = any.or_else(|| call.all_fn().map(|all| (all.expr(), all.select_variant(), true)));
        let Some((array, query, is_all)) = any else { return Ok(None) };
        let comparison = comparison_operator(operator);
        match (query, comparison) {
            (None, _) => {
                let array = self.part(array, node)?;
                let symbol =
                    comparison.map(|operator| operator.symbol().to_owned()).or_else(|| symbol_of(operator));
                let symbol = self.part(symbol, node)?;
                self.bind_any((&symbol, is_all), left, &array, node).map(Some)
            }
            // `<> ALL` is NOT `= ANY`, which may use a hash set.
            (Some(query), Some(CompareOperator::NotEqual)) if is_all => {
                let any = self.bind_quantified(left, (CompareOperator::Equal, false), &query, node)?;
                let any = self.bind_condition_of(any, node)?;
                Ok(Some(boolean(Expression::Not(Box::new(any)))))
            }
            (Some(query), Some(comparison)) => {
                self.bind_quantified(left, (comparison, is_all), &query, node).map(Some)
            }
            (Some(_), None) => Err(self.unsupported(node, "this operator with ANY or ALL of a query")),
        }
    }

    /// Binds `value operator ANY (array)`, or ALL.
    fn bind_any(
        &mut self,
        (symbol, is_all): (&str, bool),
        left: &ast::Expr,
        array: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let value = self.bind(left)?;
        let array = match (self.bind(array)?, &value) {
            // An array of unknown type has elements of the type of the value.
            (literal @ (Typed::Parameter(_) | Typed::Literal(_)), Typed::Known(_, ty)) => {
                let ty = Type::Array(ty.element().unlimited());
                Typed::Known(self.coerce(literal, ty, CastContext::Implicit, node)?, ty)
            }
            (open @ (Typed::Parameter(_) | Typed::Literal(_)), _) => {
                let ty = Type::Array(ScalarType::Text);
                Typed::Known(self.coerce(open, ty, CastContext::Implicit, node)?, ty)
            }
            (array, _) => array,
        };
        let Typed::Known(array, Type::Array(element)) = array else {
            return Err(self.unsupported(node, "ANY of a value that is not an array"));
        };
        // The conversion of a register in place of a single element applies to all elements.
        let one = Expression::Register(Register(u32::MAX));
        // A comparison with NULL would be NULL, so the value is another register meanwhile.
        let stand_in = |ty| Typed::Known(Expression::Register(Register(u32::MAX - 1)), ty);
        let (value, is_null) = match value {
            Typed::Null => (stand_in(element.into()), true),
            Typed::Known(value, ty) if value == Expression::NULL => (stand_in(ty), true),
            value => (value, false),
        };
        let compared = self.operator(symbol, vec![value, Typed::Known(one.clone(), element.into())], node)?;
        let (test, [mut value, converted]) = match compared {
            Typed::Known(Expression::Compare { operator, class, operands }, _) => {
                (ElementTest::Compare { operator, class }, *operands)
            }
            Typed::Known(Expression::Function { function, arguments }, Type::Scalar(ScalarType::Boolean))
                if arguments.len() == 2 =>
            {
                let operands =
                    <[Expression; 2]>::try_from(arguments).expect("the guard checks the number of arguments");
                (ElementTest::Function(function), operands)
            }
            Typed::Known(_, Type::Scalar(ScalarType::Boolean)) => {
                return Err(self.unsupported(node, "this operator with ANY or ALL of an array"));
            }
            _ => {
                let message = "op ANY/ALL (array) requires operator to yield boolean";
                return Err(self.error(node, SqlError::new("42809", message)));
            }
        };
        let array = match converted {
            operand if operand == one => array,
            Expression::Cast { cast, operand } if *operand == one => {
                Expression::Function { function: Function::CastElements(cast), arguments: vec![array] }
            }
            _ => return Err(self.unsupported(node, "ANY of elements of another type")),
        };
        if is_null {
            value = Expression::NULL;
        }
        let quantifier = Quantifier { test, is_all };
        Ok(boolean(Expression::Quantified { quantifier, operands: Box::new([value, array]) }))
    }

    pub(crate) fn bind_in(
        &mut self,
        left: &ast::Expr,
        list: &ast::Expr,
        negated: bool,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        if let ast::Expr::ParenExpr(paren) = list
            && let Some(query) = Self::query_of(paren)
        {
            let any = self.bind_quantified(left, (CompareOperator::Equal, false), &query, node)?;
            let any = self.bind_condition_of(any, node)?;
            return Ok(boolean(if negated { Expression::Not(Box::new(any)) } else { any }));
        }
        let items: Vec<ast::Expr> = match list {
            ast::Expr::ParenExpr(paren) => paren.expr().into_iter().collect(),
            ast::Expr::TupleExpr(tuple) => tuple.exprs().collect(),
            _ => Vec::new(),
        };
        if items.is_empty() {
            return Err(self.unsupported(node, "this kind of IN"));
        }
        if let Some(row) = row_of(left) {
            let any = self.bind_row_in(&row, &items, node)?;
            return Ok(boolean(if negated { Expression::Not(Box::new(any)) } else { any }));
        }
        let value = self.bind(left)?;
        let mut any = Vec::new();
        for item in items {
            let item = self.bind(&item)?;
            let (class, operands) = self.comparable(value.clone(), item, node)?;
            any.push(Expression::Compare { operator: CompareOperator::Equal, class, operands });
        }
        let any = Expression::any(any);
        Ok(boolean(if negated { Expression::Not(Box::new(any)) } else { any }))
    }
}
