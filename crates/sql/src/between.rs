//! BETWEEN.
//!
//! The grammar reads it as if it bound stronger than every operator before it, and OR stronger than its AND:
//! `a + b BETWEEN 1 AND 2 OR c` as `a + (b BETWEEN 1 AND (2 OR c))`. Here the parts are put together again.

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

/// Returns the BETWEEN that an expression is: it stands last in operands of stronger operators.
pub(crate) fn between_in(expression: &ast::Expr) -> Option<ast::BetweenExpr> {
    match expression {
        ast::Expr::BetweenExpr(between) => Some(between.clone()),
        expression => between_in(stronger(expression)?.1.last()?),
    }
}

impl Binder<'_> {
    /// Returns the end of a BETWEEN, and the operands of OR that the grammar has parsed into it.
    ///
    /// # Errors
    /// `0A000`: it has parsed another operator into it that binds weaker than BETWEEN, or one that binds
    /// stronger than OR stands before the BETWEEN, or AND stands behind.
    pub(crate) fn end_of_between(
        &self,
        between: &ast::BetweenExpr,
    ) -> Result<(ast::Expr, Vec<ast::Expr>), StatementError> {
        let node = between.syntax();
        let (mut end, mut further) = (self.part(between.end(), node)?, Vec::new());
        while let ast::Expr::BinExpr(own) = &end
            && matches!(own.op(), Some(ast::BinOp::Or(_)))
        {
            further.push(self.part(own.rhs(), node)?);
            end = self.part(own.lhs(), node)?;
        }
        further.reverse();
        if binds_weaker(&end) || !further.is_empty() && !begins_or(node) {
            let message = "BETWEEN beside an operator that binds weaker is not supported";
            let error = SqlError::new("0A000", message).with_hint("Put the BETWEEN in parentheses.");
            return Err(self.error(node, error));
        }
        Ok((end, further))
    }

    /// Binds what a BETWEEN tests: its target, with the operators before it.
    pub(crate) fn target_of_between(&mut self, expression: &ast::Expr) -> Result<Typed, StatementError> {
        let node = expression.syntax();
        if let ast::Expr::BetweenExpr(between) = expression {
            let target = self.part(between.target(), node)?;
            return self.bind(&target);
        }
        let (symbol, mut operands) = self.part(stronger(expression), node)?;
        let last = self.part(operands.pop(), node)?;
        let mut bound = operands.iter().map(|own| self.bind(own)).collect::<Result<Vec<_>, _>>()?;
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
        if between.between_symmetry().is_some() {
            return Err(self.unsupported(node, "BETWEEN SYMMETRIC"));
        }
        let (end, further) = self.end_of_between(between)?;
        let start = self.part(between.start(), node)?;
        let value = self.target_of_between(expression)?;
        let (start, end) = (self.bind(&start)?, self.bind(&end)?);
        let (class, operands) = self.comparable(value.clone(), start, node)?;
        let above = Expression::Compare { operator: CompareOperator::GreaterOrEqual, class, operands };
        let (class, operands) = self.comparable(value, end, node)?;
        let below = Expression::Compare { operator: CompareOperator::LessOrEqual, class, operands };
        let inside = Expression::And(Box::new([above, below]));
        let negated = between.not_token().is_some();
        let mut any = vec![if negated { Expression::Not(Box::new(inside)) } else { inside }];
        for operand in further {
            any.push(self.bind_condition(&operand)?);
        }
        Ok(boolean(Expression::any(any)))
    }
}

/// Returns whether an expression is that of an operator which binds weaker than BETWEEN.
fn binds_weaker(expression: &ast::Expr) -> bool {
    use ast::BinOp;
    let ast::Expr::BinExpr(own) = expression else { return false };
    own.op().is_some_and(|operator| {
        comparison_operator(&operator).is_some()
            || matches!(operator, BinOp::And(_) | BinOp::Or(_) | BinOp::Is(_) | BinOp::IsNot(_))
    })
}

/// Returns whether no operator that binds stronger than OR, and weaker than BETWEEN, stands before an
/// expression.
fn begins_or(node: &SyntaxNode) -> bool {
    match node.parent().and_then(ast::Expr::cast) {
        None | Some(ast::Expr::ParenExpr(_)) => true,
        Some(own) if stronger(&own).is_some() => begins_or(own.syntax()),
        Some(ast::Expr::BinExpr(own)) => matches!(own.op(), Some(ast::BinOp::Or(_))),
        Some(_) => false,
    }
}
