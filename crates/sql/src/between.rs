//! BETWEEN.
//!
//! The grammar reads it as if it bound stronger than every operator before it: `a + b BETWEEN 1 AND 2` as
//! `a + (b BETWEEN 1 AND 2)`. This module restores the precedence of
//! PostgreSQL. (`regrouped` corrects an OR behind it.)

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::operators::boolean;
use crate::symbols::{comparison_operator, symbol_of};
use procedure::{CompareOperator, Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns the operator of an expression, if it binds stronger than BETWEEN and LIKE, with its operands.
pub(crate) fn stronger(expression: &ast::Expr) -> Option<(String, Vec<ast::Expr>)> {
    use ast::{BinOp, PrefixOp};
    match expression {
        ast::Expr::BinExpr(binary) => {
            let operator = binary.op()?;
            let is_stronger = matches!(
                operator,
                BinOp::Plus(_)
                    | BinOp::Minus(_)
                    | BinOp::Star(_)
                    | BinOp::Slash(_)
                    | BinOp::Percent(_)
                    | BinOp::Caret(_)
                    | BinOp::CustomOp(_)
            );
            let symbol = symbol_of(&operator).filter(|_| is_stronger)?;
            Some((symbol, vec![binary.lhs()?, binary.rhs()?]))
        }
        ast::Expr::PrefixExpr(prefix) => {
            let operand = prefix.syntax().children().find_map(ast::Expr::cast)?;
            let symbol = match prefix.op()? {
                PrefixOp::Minus(_) => "-".into(),
                PrefixOp::Plus(_) => "+".into(),
                PrefixOp::CustomOp(custom) => custom.syntax().text().to_string(),
                _ => return None,
            };
            Some((symbol, vec![operand]))
        }
        _ => None,
    }
}

/// Returns the BETWEEN of an expression that is one, or that ends with one below stronger operators.
pub(crate) fn between_in(expression: &ast::Expr) -> Option<ast::BetweenExpr> {
    match expression {
        ast::Expr::BetweenExpr(between) => Some(between.clone()),
        expression => between_in(stronger(expression)?.1.last()?),
    }
}

/// Returns whether the ends of a BETWEEN may come in either order.
pub(crate) fn is_symmetric(between: &ast::BetweenExpr) -> bool {
    let symmetry = between.between_symmetry();
    symmetry.is_some_and(|symmetry_clause| {
        symmetry_clause.syntax().text().to_string().eq_ignore_ascii_case("symmetric")
    })
}

impl Binder<'_> {
    /// Returns the end of a BETWEEN.
    ///
    /// # Errors
    /// `0A000`: the grammar has parsed an operator into it that binds weaker than BETWEEN.
    pub(crate) fn end_of_between(&self, between: &ast::BetweenExpr) -> Result<ast::Expr, StatementError> {
        let node = between.syntax();
        let end = self.part(between.end(), node)?;
        if binds_weaker(&end) {
            let message = "BETWEEN beside an operator that binds weaker is not supported";
            let error = SqlError::new("0A000", message).with_hint("Put the BETWEEN in parentheses.");
            return Err(self.error(node, error));
        }
        Ok(end)
    }

    /// Binds the value that a BETWEEN tests: its target, with the operators before it.
    pub(crate) fn target_of_between(&mut self, expression: &ast::Expr) -> Result<Typed, StatementError> {
        let node = expression.syntax();
        if let ast::Expr::BetweenExpr(between) = expression {
            let target = self.part(between.target(), node)?;
            return self.bind(&target);
        }
        let (symbol, mut operands) = self.part(stronger(expression), node)?;
        let last = self.part(operands.pop(), node)?;
        let mut bound = operands.iter().map(|operand| self.bind(operand)).collect::<Result<Vec<_>, _>>()?;
        bound.push(self.target_of_between(&last)?);
        match (symbol.as_str(), bound.len()) {
            ("+", 1) => Ok(bound.remove(0)),
            _ => self.operator(&symbol, bound, node),
        }
    }

    /// Binds an expression that is a BETWEEN (`between_in`).
    pub(crate) fn bind_between(
        &mut self,
        expression: &ast::Expr,
        between: &ast::BetweenExpr,
    ) -> Result<Typed, StatementError> {
        let node = between.syntax();
        let end = self.end_of_between(between)?;
        let start = self.part(between.start(), node)?;
        let value = self.target_of_between(expression)?;
        let ends = [self.bind(&start)?, self.bind(&end)?];
        let [start, end] = &ends;
        let mut inside = self.inside(&value, start, end, node)?;
        if is_symmetric(between) {
            inside = Expression::any(vec![inside, self.inside(&value, end, start, node)?]);
        }
        let is_negated = between.not_token().is_some();
        Ok(boolean(if is_negated { Expression::Not(Box::new(inside)) } else { inside }))
    }

    /// Returns the condition that a value is at least `start` and at most `end`.
    fn inside(
        &mut self,
        value: &Typed,
        start: &Typed,
        end: &Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let (class, operands) = self.comparable(value.clone(), start.clone(), node)?;
        let above = Expression::Compare { operator: CompareOperator::GreaterOrEqual, class, operands };
        // A parameter has the type that the first comparison has given to it.
        let value = match *value {
            Typed::Parameter(position) => self.known_parameter(position),
            _ => value.clone(),
        };
        let (class, operands) = self.comparable(value, end.clone(), node)?;
        let below = Expression::Compare { operator: CompareOperator::LessOrEqual, class, operands };
        Ok(Expression::And(Box::new([above, below])))
    }
}

/// Returns whether an expression is an operator that binds weaker than BETWEEN.
fn binds_weaker(expression: &ast::Expr) -> bool {
    use ast::BinOp;
    let ast::Expr::BinExpr(binary) = expression else { return false };
    binary.op().is_some_and(|operator| {
        comparison_operator(&operator).is_some()
            || matches!(operator, BinOp::And(_) | BinOp::Or(_) | BinOp::Is(_) | BinOp::IsNot(_))
    })
}
