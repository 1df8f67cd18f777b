//! Binds subqueries in expressions. The plan evaluates each before the expression, into a register.

use super::{Applied, Binder, Bound};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::operators::boolean;
use crate::row_values::row_of;
use catalog::{ScalarType, Type};
use procedure::query::{JoinKey, Plan, Question, Subquery};
use procedure::{CompareOperator, Expression, QueryTarget, Register, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::cmp::Ordering;

/// `= ANY`, which is IN.
const EQUALS_ANY: (CompareOperator, bool) = (CompareOperator::Equal, false);

impl Binder<'_> {
    /// Binds the arguments of an aggregate. Their subqueries are evaluated before rows are grouped.
    pub(crate) fn before_groups<T>(
        &mut self,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        if self.queries.applied.is_none() {
            return bind(self);
        }
        let ((bound, mut applied), refers) = self.referring(|binder| binder.applying(bind))?;
        if refers.relations == 0 && refers.outer {
            return Err(self.unsupported(node, "an aggregate of columns of an outer query"));
        }
        self.queries.before_group.append(&mut applied);
        Ok(bound)
    }

    /// Returns the query inside parentheses; `None` if they contain no query.
    pub(crate) fn query_of(paren: &ast::ParenExpr) -> Option<ast::SelectVariant> {
        paren.syntax().children().find_map(ast::SelectVariant::cast)
    }

    /// Binds a query inside an expression. Also returns whether it refers to an outer query.
    fn bind_inner_query(&mut self, query: &ast::SelectVariant) -> Result<(Bound, bool), StatementError> {
        let depth = self.queries.levels.len();
        let lowest = self.queries.lowest.take();
        let aggregates = self.aggregates.take();
        let bound = self.bind_variant(query);
        self.aggregates = aggregates;
        let outer = self.queries.lowest.is_some_and(|lowest| lowest < depth);
        self.queries.lowest = match (lowest, self.queries.lowest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok((bound?, outer))
    }

    /// Adds a subquery that is evaluated before the current expression.
    fn apply(
        &mut self,
        plan: Plan,
        question: Question,
        depends: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let kept = if depends { None } else { Some(self.new_slot()) };
        match &mut self.queries.applied {
            Some(applied) => applied.push(Applied::Subquery(Box::new(Subquery { plan, question, kept }))),
            None => return Err(self.unsupported(node, "a subquery in this context")),
        }
        Ok(())
    }

    /// Binds a subquery with `bind`, which returns its value. In a statement of a procedure that is no query,
    /// the subquery becomes a separate query before the statement.
    pub(crate) fn lifting(
        &mut self,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Self) -> Result<Typed, StatementError>,
    ) -> Result<Typed, StatementError> {
        let only = self.lifting_all(node, |binder| Ok(vec![bind(binder)?]))?.pop();
        Ok(only.expect("`bind` returns one value"))
    }

    /// Binds a subquery or a call with `bind`, which returns its values, as `lifting` does.
    pub(super) fn lifting_all(
        &mut self,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Self) -> Result<Vec<Typed>, StatementError>,
    ) -> Result<Vec<Typed>, StatementError> {
        if self.queries.applied.is_some() {
            return bind(self);
        }
        if self.lifted.is_none() {
            return Err(self.unsupported(node, "a subquery in this context"));
        }
        let mut answers = Vec::new();
        let query = self.bind_query(|binder| {
            let (typed, applied) = binder.applying(bind)?;
            answers = typed;
            Ok(Bound { plan: super::apply_all(applied, Plan::One), ..Bound::default() })
        })?;
        let (mut outputs, mut values) = (Vec::new(), Vec::new());
        for answer in answers {
            let Typed::Known(answer, ty) = answer else {
                unreachable!("the answer of a subquery has a type")
            };
            let target = self.new_register(ty);
            outputs.push((target, answer));
            values.push(Typed::Known(Expression::Register(target), ty));
        }
        let rows = QueryTarget::Statement { outputs, strict: false };
        let found = self.found;
        // A subquery must not set FOUND, which only statements set.
        let hidden = self.new_register(ScalarType::Boolean);
        self.found = Some(hidden);
        let query = self.query(query, rows, node);
        self.found = found;
        if let Some(lifted) = &mut self.lifted {
            lifted.push(Statement::Query(query));
        }
        Ok(values)
    }

    fn only_column(&self, bound: &Bound, node: &SyntaxNode) -> Result<(Register, Type), StatementError> {
        match bound.columns.as_slice() {
            [column] => Ok((column.register, column.ty)),
            _ => {
                let error = SqlError::new("42601", "subquery must return only one column");
                Err(self.error(node, error))
            }
        }
    }

    /// Returns a new register for what a subquery answers from one of its columns.
    fn answer_of(&mut self, column: Register, ty: Type) -> Register {
        let target = self.new_register(ty);
        if self.origins.has_computed(column) {
            self.origins.note_computed(target, ty);
        }
        target
    }

    /// Binds `(SELECT …)` as a value.
    pub(crate) fn bind_scalar_query(
        &mut self,
        query: &ast::SelectVariant,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.lifting(node, |binder| {
            let (bound, depends) = binder.bind_inner_query(query)?;
            let (from, ty) = binder.only_column(&bound, node)?;
            let target = binder.answer_of(from, ty);
            binder.apply(bound.plan, Question::Values { pairs: vec![(from, target)] }, depends, node)?;
            Ok(Typed::Known(Expression::Register(target), ty))
        })
    }

    /// Binds `(SELECT a, b …)` as values of several columns.
    pub(crate) fn bind_row_query(
        &mut self,
        query: &ast::SelectVariant,
        node: &SyntaxNode,
    ) -> Result<Vec<Typed>, StatementError> {
        let (bound, depends) = self.bind_inner_query(query)?;
        let (mut pairs, mut typed) = (Vec::new(), Vec::new());
        for column in &bound.columns {
            let target = self.answer_of(column.register, column.ty);
            pairs.push((column.register, target));
            typed.push(Typed::Known(Expression::Register(target), column.ty));
        }
        self.apply(bound.plan, Question::Values { pairs }, depends, node)?;
        Ok(typed)
    }

    /// Binds `EXISTS (SELECT …)`.
    pub(crate) fn bind_exists(
        &mut self,
        query: &ast::SelectVariant,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.lifting(node, |binder| {
            let (bound, depends) = binder.bind_inner_query(query)?;
            let target = binder.new_register(ScalarType::Boolean);
            binder.apply(bound.plan, Question::Exists { target }, depends, node)?;
            Ok(boolean(Expression::Register(target)))
        })
    }

    /// Binds `ARRAY(SELECT …)`.
    pub(crate) fn bind_array_query(
        &mut self,
        query: &ast::SelectVariant,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.lifting(node, |binder| {
            let (bound, depends) = binder.bind_inner_query(query)?;
            let (value, ty) = binder.only_column(&bound, node)?;
            let Type::Scalar(element) = ty else {
                return Err(binder.unsupported(node, "an array of arrays"));
            };
            let ty = Type::Array(element);
            let target = binder.answer_of(value, ty);
            binder.apply(bound.plan, Question::Array { value, target }, depends, node)?;
            Ok(Typed::Known(Expression::Register(target), ty))
        })
    }

    /// Checks that a subquery has as many columns as the value on its left.
    ///
    /// # Errors
    /// `42601`: it has fewer or more columns.
    pub(crate) fn check_columns(
        &self,
        columns: usize,
        values: usize,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let quantity = match columns.cmp(&values) {
            Ordering::Less => "few",
            Ordering::Equal => return Ok(()),
            Ordering::Greater => "many",
        };
        Err(self.error(node, SqlError::new("42601", format!("subquery has too {quantity} columns"))))
    }

    /// Binds `value operator ANY (SELECT …)` or `value operator ALL (SELECT …)`. The value may be a row.
    pub(crate) fn bind_quantified(
        &mut self,
        value: &ast::Expr,
        (operator, all): (CompareOperator, bool),
        query: &ast::SelectVariant,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.lifting(node, |binder| {
            let values = match row_of(value) {
                Some(row) => binder.bind_row(&row)?,
                None => vec![binder.bind(value)?],
            };
            let (bound, depends) = binder.bind_inner_query(query)?;
            binder.check_columns(bound.columns.len(), values.len(), node)?;
            let mut keys = Vec::new();
            for (value, column) in values.into_iter().zip(&bound.columns) {
                let column = Typed::Known(Expression::Register(column.register), column.ty);
                let (class, operands) = binder.comparable(value, column, node)?;
                let [probe, build] = *operands;
                keys.push(JoinKey { class, probe, build });
            }
            let target = binder.new_register(ScalarType::Boolean);
            let question = match keys.pop() {
                Some(JoinKey { class, probe, build }) if keys.is_empty() && (operator, all) != EQUALS_ANY => {
                    Question::Quantified { target, operator, class, value: probe, row: build, all }
                }
                Some(last) if (operator, all) == EQUALS_ANY => {
                    keys.push(last);
                    Question::In { target, keys }
                }
                _ => {
                    return Err(binder.unsupported(node, "this comparison of a row with all rows of a query"));
                }
            };
            binder.apply(bound.plan, question, depends, node)?;
            Ok(boolean(Expression::Register(target)))
        })
    }
}
