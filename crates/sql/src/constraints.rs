//! DEFAULT and CHECK, which are kept as text.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::plan::{Applied, apply_all};
use crate::source::Source;
use catalog::{ScalarType, Table};
use procedure::query::{Plan, RowChecks};
use procedure::{ByValueCause, CastContext, Check, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Binder<'_> {
    /// Checks a condition on the rows of a table that is kept as text. Returns whether its value depends on
    /// more than the row. `what` is the kind of the condition, for errors.
    pub(crate) fn depends_on_call(
        &self,
        table: &Arc<Table>,
        condition: &ast::Expr,
        what: &str,
    ) -> Result<bool, StatementError> {
        // A separate binder: what the statement depends on besides does not count.
        let mut binder = Binder::new(self.schema, self.source);
        let registers = binder.row_registers(table);
        let bind =
            |binder: &mut Binder<'_>| binder.over_row(table, registers, |own| own.bind_condition(condition));
        let (_, applied) = binder.applying(bind)?;
        binder.refuse_subqueries(&applied, what, condition.syntax())?;
        let draws = matches!(binder.by_value, Some(ByValueCause::Sequence | ByValueCause::Moment));
        Ok(binder.uses_seed || binder.uses_timestamp || binder.writes || draws)
    }

    /// Binds a column's DEFAULT.
    pub(crate) fn bind_default(
        &mut self,
        table: &Table,
        column: usize,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let definition = &table.columns[column];
        self.bind_default_text(definition.default.as_deref(), definition.ty, node)
    }

    /// Binds the text of a default for a column of a type; NULL without a text.
    pub(crate) fn bind_default_text(
        &mut self,
        text: Option<&str>,
        ty: ScalarType,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let Some(text) = text else { return Ok(Expression::NULL) };
        self.bind_definition(text, node, |binder, expression| {
            let bound = binder.bind(expression)?;
            binder.coerce(bound, ty.into(), CastContext::Assignment, expression.syntax())
        })
    }

    /// Binds an expression of a definition, which is kept as text. Its calls join those of the statement
    /// around it, if that may have some.
    pub(crate) fn bind_definition<T>(
        &mut self,
        text: &str,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Binder<'_>, &ast::Expr) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        let source = Source::parse(&format!("SELECT {text}"))?;
        let expression = source.file.syntax().descendants().find_map(ast::Target::cast);
        let expression = self.part(expression.and_then(|target| target.expr()), node)?;
        let mut inner = Binder::new(self.schema, &source);
        inner.registers = std::mem::take(&mut self.registers);
        inner.queries.applied = self.queries.applied.take();
        let bound = bind(&mut inner, &expression);
        self.registers = inner.registers;
        self.queries.applied = inner.queries.applied;
        self.uses_timestamp |= inner.uses_timestamp;
        self.uses_seed |= inner.uses_seed;
        self.writes |= inner.writes;
        inner.by_value.into_iter().for_each(|cause| self.log_by_value(cause));
        self.callees.append(&mut inner.callees);
        bound.map_err(|error| self.error(node, error.error))
    }

    /// Binds the CHECK constraints of a table, over a row in registers.
    pub(crate) fn bind_checks(
        &mut self,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<RowChecks, StatementError> {
        let (conditions, applied) = self.applying(|binder| {
            let mut checks = Vec::new();
            for (name, text) in &table.checks {
                let condition = binder.bind_definition(text, node, |binder, condition| {
                    binder.over_row(table, registers, |binder| binder.bind_condition(condition))
                })?;
                checks.push(Check { name: name.clone(), condition });
            }
            Ok(checks)
        })?;
        self.refuse_subqueries(&applied, "check constraint", node)?;
        let calls = (!applied.is_empty()).then(|| Box::new(apply_all(applied, Plan::One)));
        Ok(RowChecks { calls, conditions })
    }

    /// Binds the CHECK constraints of a table where no function can be called.
    pub(crate) fn bind_plain_checks(
        &mut self,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let checks = self.bind_checks(table, registers, node)?;
        match checks.calls {
            None => Ok(checks.conditions),
            Some(_) => Err(self.unsupported(node, "this change of rows whose CHECK calls a function")),
        }
    }

    /// Refuses a subquery in a definition.
    pub(crate) fn refuse_subqueries(
        &self,
        applied: &[Applied],
        place: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        match applied.iter().all(|own| matches!(own, Applied::Call { .. })) {
            true => Ok(()),
            false => Err(self.error(node, SqlError::new("0A000", format!("cannot use subquery in {place}")))),
        }
    }
}
