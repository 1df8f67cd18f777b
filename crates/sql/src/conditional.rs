//! Operands that are evaluated only sometimes: of AND, OR, CASE and COALESCE. Their calls and
//! subqueries are evaluated before the expression, but only if the operand is: in a statement of a routine as
//! statements, in a query for the rows that a guard lets through.
//!
//! In a query, what can neither fail nor have effects is evaluated for each row: it keeps its place in joins.

use crate::binder::{Binder, Typed};
use crate::conversions::fold;
use crate::error::StatementError;
use crate::operators::boolean;
use crate::path::is_true;
use crate::plan::Applied;
use catalog::ScalarType;
use procedure::{CompareOperator, Expression, Register, Statement};
use squawk_syntax::ast::{self, AstNode};

/// What is evaluated before an expression that uses it.
#[derive(Default)]
struct Ahead {
    /// In a statement of a routine.
    statements: Vec<Statement>,
    /// In a query.
    applied: Vec<Applied>,
}

impl Ahead {
    /// Returns whether it may be evaluated only where its operand is.
    fn is_conditional(&self) -> bool {
        !self.statements.is_empty() || self.applied.iter().any(Applied::needs_guard)
    }

    /// Adds a value.
    fn add_value(&mut self, value: Expression, target: Register, is_query: bool) {
        match is_query {
            true => self.applied.push(Applied::Value { value, target }),
            false => self.statements.push(Statement::Assign { target, value }),
        }
    }

    /// Adds what is evaluated if a condition is true, and what is evaluated if it is not.
    fn add_branches(&mut self, condition: Expression, then: Self, otherwise: Self) {
        if !then.applied.is_empty() {
            self.applied.push(Applied::Guarded { condition: condition.clone(), inner: then.applied });
        }
        if !otherwise.applied.is_empty() {
            let (yes, no) = (Expression::boolean(true), Expression::boolean(false));
            let branches = vec![(condition.clone(), no)];
            let is_not_true = Expression::Case { branches, otherwise: Box::new(yes) };
            self.applied.push(Applied::Guarded { condition: is_not_true, inner: otherwise.applied });
        }
        let (then, otherwise) = (then.statements, otherwise.statements);
        if !then.is_empty() || !otherwise.is_empty() {
            self.statements.push(Statement::If { condition, then, otherwise });
        }
    }
}

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

    /// Runs a binding. Returns its result, and what is evaluated before its expression.
    fn ahead_of<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<(T, Ahead), StatementError> {
        let before = self.queries.applied.as_ref().map_or(0, Vec::len);
        let (bound, statements) = self.apart(bind)?;
        let applied = match &mut self.queries.applied {
            // As in PostgreSQL, set-returning functions run for each row.
            Some(applied) if !applied.iter().any(|own| matches!(own, Applied::Rows(_))) => {
                applied.split_off(before)
            }
            _ => Vec::new(),
        };
        Ok((bound, Ahead { statements, applied }))
    }

    fn lift(&mut self, ahead: Ahead) {
        if let Some(lifted) = &mut self.lifted {
            lifted.extend(ahead.statements);
        }
        if let Some(applied) = &mut self.queries.applied {
            applied.extend(ahead.applied);
        }
    }

    fn is_in_query(&self) -> bool {
        self.queries.applied.is_some()
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
            let (value, ahead) = self.ahead_of(|binder| binder.bind_condition(operand))?;
            if ahead.is_conditional() && !bound.is_empty() {
                let target = self.new_register(ScalarType::Boolean);
                let mut guarded = Ahead::default();
                guarded.add_value(joined(std::mem::take(&mut bound)), target, self.is_in_query());
                let known = Expression::Register(target);
                bound.push(known.clone());
                // An unknown condition decides neither.
                let condition = if is_and { Expression::Not(Box::new(known)) } else { known };
                guarded.add_branches(condition, Ahead::default(), ahead);
                self.lift(guarded);
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
            conditions.push(self.ahead_of(|binder| match &subject {
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
            values.push(self.ahead_of(|binder| binder.bind(&value))?);
        }
        values.push(match case.else_clause().and_then(|clause| clause.expr()) {
            Some(value) => self.ahead_of(|binder| binder.bind(&value))?,
            None => (Typed::Null, Ahead::default()),
        });
        let lifts = conditions.iter().any(|(_, ahead)| ahead.is_conditional())
            || values.iter().any(|(_, ahead)| ahead.is_conditional());
        let (mut values, mut ahead): (Vec<Typed>, Vec<Ahead>) = values.into_iter().unzip();
        if lifts {
            let mut otherwise = ahead.pop().unwrap_or_default();
            for ((condition, before), then) in conditions.iter_mut().zip(ahead).rev() {
                let target = self.new_register(ScalarType::Boolean);
                let value = std::mem::replace(condition, Expression::Register(target));
                let mut all = std::mem::take(before);
                all.add_value(value, target, self.is_in_query());
                all.add_branches(condition.clone(), then, otherwise);
                otherwise = all;
            }
            self.lift(otherwise);
        } else {
            let of_conditions = conditions.iter_mut().map(|(_, before)| std::mem::take(before));
            of_conditions.chain(ahead).for_each(|ahead| self.lift(ahead));
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
            let (typed, ahead) = self.ahead_of(|binder| binder.bind(argument))?;
            if ahead.is_conditional() {
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
                    let mut guarded = Ahead::default();
                    guarded.add_branches(Expression::all(nulls), ahead, Ahead::default());
                    self.lift(guarded);
                }
            } else {
                self.lift(ahead);
            }
            bound.push(typed);
        }
        Ok(bound)
    }
}
