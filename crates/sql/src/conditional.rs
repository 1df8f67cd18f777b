//! Operands that are evaluated only sometimes: of AND, OR, CASE and COALESCE. Their calls and
//! subqueries become statements before the expression, which run only if the operand is evaluated.
//!
//! Not here: the calls of queries (`plan`), which run for every row.

use crate::binder::{Binder, Typed};
use crate::conversions::fold;
use crate::error::StatementError;
use crate::operators::boolean;
use crate::path::is_true;
use catalog::ScalarType;
use procedure::{CompareOperator, Expression, Register, Statement};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Runs a binding. Returns its result, and the statements that it has lifted.
    pub(crate) fn apart<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<(T, Vec<Statement>), StatementError> {
        let outer = self.lifted.as_mut().map(std::mem::take);
        let bound = bind(self);
        let statements = std::mem::replace(&mut self.lifted, outer).unwrap_or_default();
        Ok((bound?, statements))
    }

    fn lift(&mut self, statements: impl IntoIterator<Item = Statement>) {
        if let Some(lifted) = &mut self.lifted {
            lifted.extend(statements);
        }
    }

    /// Returns a register for a condition, and the statement that sets it.
    fn known(&mut self, value: Expression) -> (Register, Statement) {
        let target = self.new_register(ScalarType::Boolean);
        (target, Statement::Assign { target, value })
    }

    /// Binds a chain of ANDs, or of ORs.
    pub(crate) fn bind_chain(
        &mut self,
        binary: &ast::BinExpr,
        is_and: bool,
    ) -> Result<Typed, StatementError> {
        let continues = |operator: &ast::BinOp| match is_and {
            true => matches!(operator, ast::BinOp::And(_)),
            false => matches!(operator, ast::BinOp::Or(_)),
        };
        let (mut operands, mut chain) = (Vec::new(), binary.clone());
        loop {
            operands.push(self.part(chain.rhs(), chain.syntax())?);
            match self.part(chain.lhs(), chain.syntax())? {
                ast::Expr::BinExpr(left) if left.op().is_some_and(|operator| continues(&operator)) => {
                    chain = left
                }
                first => {
                    operands.push(first);
                    break;
                }
            }
        }
        if is_and {
            let first = operands.pop();
            operands.retain(|operand| !is_true(operand));
            operands.extend(first);
        }
        let joined = |all: Vec<Expression>| if is_and { Expression::all(all) } else { Expression::any(all) };
        let mut bound = Vec::new();
        for operand in operands.iter().rev() {
            let (value, ahead) = self.apart(|binder| binder.bind_condition(operand))?;
            if !ahead.is_empty() && !bound.is_empty() {
                let (known, assign) = self.known(joined(std::mem::take(&mut bound)));
                let known = Expression::Register(known);
                bound.push(known.clone());
                // An unknown condition decides neither.
                let condition = if is_and { Expression::Not(Box::new(known)) } else { known };
                self.lift([assign, Statement::If { condition, then: Vec::new(), otherwise: ahead }]);
            } else {
                self.lift(ahead);
            }
            bound.push(value);
        }
        Ok(boolean(fold(joined(bound))))
    }

    pub(crate) fn bind_case(&mut self, case: &ast::CaseExpr) -> Result<Typed, StatementError> {
        let node = case.syntax();
        let subject = match case.expr() {
            Some(subject) => Some(self.bind(&subject)?),
            None => None,
        };
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for when in case.when_clause_list().into_iter().flat_map(|list| list.when_clauses()) {
            let condition = self.part(when.condition(), node)?;
            conditions.push(self.apart(|binder| match &subject {
                None => binder.bind_condition(&condition),
                Some(subject) => {
                    let candidate = binder.bind(&condition)?;
                    let (class, operands) = binder.comparable(subject.clone(), candidate, node)?;
                    Ok(Expression::Compare { operator: CompareOperator::Equal, class, operands })
                }
            })?);
        }
        for when in case.when_clause_list().into_iter().flat_map(|list| list.when_clauses()) {
            let value = self.part(when.then(), node)?;
            values.push(self.apart(|binder| binder.bind(&value))?);
        }
        values.push(match case.else_clause().and_then(|clause| clause.expr()) {
            Some(value) => self.apart(|binder| binder.bind(&value))?,
            None => (Typed::Null, Vec::new()),
        });
        let lifts = conditions.iter().any(|(_, ahead)| !ahead.is_empty())
            || values.iter().any(|(_, ahead)| !ahead.is_empty());
        let (mut values, mut ahead): (Vec<Typed>, Vec<Vec<Statement>>) = values.into_iter().unzip();
        if lifts {
            let mut statements = ahead.pop().unwrap_or_default();
            for ((condition, before), then) in conditions.iter_mut().zip(ahead).rev() {
                let (known, assign) = self.known(std::mem::replace(condition, Expression::NULL));
                *condition = Expression::Register(known);
                let branch = Statement::If { condition: condition.clone(), then, otherwise: statements };
                statements = std::mem::take(before);
                statements.extend([assign, branch]);
            }
            self.lift(statements);
        }
        // As in PostgreSQL, the type of ELSE counts first.
        values.rotate_right(1);
        let (mut results, ty) = self.unify("CASE", values, node)?;
        let otherwise = Box::new(results.remove(0));
        let branches = conditions.into_iter().map(|(condition, _)| condition).zip(results).collect();
        Ok(Typed::Known(Expression::Case { branches, otherwise }, ty))
    }

    /// Binds the arguments of COALESCE.
    pub(crate) fn bind_alternatives(
        &mut self,
        arguments: &[ast::Expr],
    ) -> Result<Vec<Typed>, StatementError> {
        let mut bound: Vec<Typed> = Vec::new();
        for argument in arguments {
            let (typed, ahead) = self.apart(|binder| binder.bind(argument))?;
            if !ahead.is_empty() {
                let is_null = |typed: &Typed| match typed {
                    Typed::Known(value, _) => Some(Expression::IsNull(Box::new(value.clone()))),
                    Typed::Literal(_) => Some(Expression::boolean(false)),
                    Typed::Parameter(position) => {
                        let value = Expression::Register(Register(*position as u32));
                        Some(Expression::IsNull(Box::new(value)))
                    }
                    Typed::Null => None,
                };
                let nulls: Vec<Expression> = bound.iter().filter_map(is_null).collect();
                if nulls.is_empty() {
                    self.lift(ahead);
                } else {
                    let (condition, otherwise) = (Expression::all(nulls), Vec::new());
                    self.lift([Statement::If { condition, then: ahead, otherwise }]);
                }
            }
            bound.push(typed);
        }
        Ok(bound)
    }
}
