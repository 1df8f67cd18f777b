//! DEFAULT, generated columns and CHECK, which are kept as text.

use crate::binder::Binder;
use crate::computed::Computed;
use crate::error::StatementError;
use crate::plan::{Applied, apply_all};
use catalog::{Table, Type};
use procedure::query::{Plan, RowRules};
use procedure::{ByValueCause, CastContext, Check, CheckOwner, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// What the value of an expression over the rows of a table depends on besides the row.
struct Dependence {
    on_call: bool,
    /// The zone of the session.
    on_zone: bool,
}

impl Binder<'_> {
    /// Checks an expression over the rows of a table, which is kept as text; `bind` binds it. Returns whether
    /// its value depends on more than the row. `what` is the kind of the expression, for errors.
    pub(crate) fn depends_on_call(
        &self,
        table: &Arc<Table>,
        node: &SyntaxNode,
        what: &str,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<(), StatementError>,
    ) -> Result<bool, StatementError> {
        self.dependence(table, node, what, bind).map(|dependence| dependence.on_call)
    }

    fn dependence(
        &self,
        table: &Arc<Table>,
        node: &SyntaxNode,
        what: &str,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<(), StatementError>,
    ) -> Result<Dependence, StatementError> {
        // A separate binder, because other dependencies of the statement do not count.
        let mut binder = Binder::new(self.schema, self.source);
        let registers = binder.row_registers(table);
        let ((), applied) = binder.applying(|binder| binder.over_row(table, registers, bind))?;
        binder.refuse_subqueries(&applied, what, node)?;
        let draws = matches!(binder.by_value, Some(ByValueCause::Sequence | ByValueCause::Moment));
        let on_call = binder.uses_seed || binder.uses_timestamp || binder.writes || draws;
        Ok(Dependence { on_call, on_zone: binder.uses_zone.get() })
    }

    /// Returns whether the value of an expression over the rows of a table is not the same for each session.
    pub(crate) fn is_mutable(
        &self,
        table: &Arc<Table>,
        node: &SyntaxNode,
        what: &str,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<(), StatementError>,
    ) -> Result<bool, StatementError> {
        let Dependence { on_call, on_zone } = self.dependence(table, node, what, bind)?;
        Ok(on_call || on_zone)
    }

    /// Checks an expression that every write of a row computes: its value must follow from the row, by
    /// built-in functions.
    pub(crate) fn check_computed(
        &self,
        table: &Arc<Table>,
        node: &SyntaxNode,
        computed: Computed,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<(), StatementError>,
    ) -> Result<(), StatementError> {
        let (what, mutable) = computed.words();
        let mut calls = false;
        let bind = |binder: &mut Binder<'_>| {
            let ((), applied) = binder.applying(bind)?;
            calls = applied.iter().any(Applied::has_call);
            binder.refuse_subqueries(&applied, what, node)
        };
        if self.is_mutable(table, node, what, bind)? {
            return Err(self.error(node, SqlError::new("42P17", mutable)));
        }
        if calls {
            return Err(self.unsupported(node, &format!("a function of the schema in a {what}")));
        }
        Ok(())
    }

    /// Binds a column's DEFAULT; NULL for a generated column, whose value is computed afterwards.
    pub(crate) fn bind_default(
        &mut self,
        table: &Table,
        column: usize,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let definition = &table.columns[column];
        let schema = self.schema;
        let text = schema.catalog().default_of(definition).filter(|_| !definition.generated);
        let needs = self.needs.len();
        let bound = self.bind_default_text(text, definition.ty, node)?;
        if definition.identity.is_some() {
            // As in PostgreSQL, the sequence of an identity needs no privilege.
            self.needs.truncate(needs);
        }
        Ok(bound)
    }

    /// Binds the text of a default for a column of a type; NULL without a text.
    pub(crate) fn bind_default_text(
        &mut self,
        text: Option<&str>,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let Some(text) = text else { return Ok(Expression::NULL) };
        self.bind_definition(text, node, |binder, expression| {
            let bound = binder.bind(expression)?;
            binder.coerce_default(bound, ty, expression.syntax())
        })
    }

    /// Binds an expression of a definition, which is kept as text. The statement around it
    /// takes over its calls, if calls are allowed there.
    pub(crate) fn bind_definition<T>(
        &mut self,
        text: &str,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Binder<'_>, &ast::Expr) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        let source = self.schema.trees.parse(&format!("SELECT {text}"))?;
        let expression = source.file.syntax().descendants().find_map(ast::Target::cast);
        let expression = self.part(expression.and_then(|target| target.expr()), node)?;
        let mut inner = Binder::new(self.schema, &source);
        inner.is_kept_text = true;
        inner.registers = std::mem::take(&mut self.registers);
        inner.procedure_queries = std::mem::take(&mut self.procedure_queries);
        inner.queries.applied = self.queries.applied.take();
        let bound = bind(&mut inner, &expression);
        self.registers = std::mem::take(&mut inner.registers);
        self.procedure_queries = std::mem::take(&mut inner.procedure_queries);
        self.queries.applied = inner.queries.applied.take();
        self.uses_timestamp |= inner.uses_timestamp;
        self.uses_seed |= inner.uses_seed;
        self.writes |= inner.writes;
        self.note_zone(inner.uses_zone.get());
        inner.by_value.take().into_iter().for_each(|cause| self.log_by_value(cause));
        self.callees.append(&mut inner.callees);
        self.take_needs(&mut inner);
        bound.map_err(|error| self.error(node, error.error))
    }

    /// Binds the generated columns of a table, over a row in registers. If the statement sets only the
    /// columns `set`, binds only the generated columns that read or are one of them.
    pub(crate) fn bind_generated(
        &mut self,
        table: &Table,
        registers: Register,
        set: Option<&[usize]>,
        node: &SyntaxNode,
    ) -> Result<Vec<(usize, Expression)>, StatementError> {
        let mut generated = Vec::new();
        for (position, column) in table.columns.iter().enumerate() {
            let Some(text) = column.default.as_deref().filter(|_| column.generated) else { continue };
            let value = self.bind_definition(text, node, |binder, expression| {
                binder.over_row(table, registers, |binder| {
                    binder.bind_as(expression, column.ty, CastContext::Assignment)
                })
            })?;
            let mut follows = set.is_none_or(|set| set.contains(&position));
            value.walk(&mut |part| {
                let register = Self::register_of(part).and_then(|offset| offset.0.checked_sub(registers.0));
                follows |=
                    register.is_some_and(|column| set.is_some_and(|set| set.contains(&(column as usize))));
            });
            if follows {
                generated.push((position, value));
            }
        }
        Ok(generated)
    }

    /// Binds the generated columns and the CHECK constraints of a table, over a row in registers. `set` are
    /// the columns that the statement sets in an existing row; `None` for a new row.
    pub(crate) fn bind_rules(
        &mut self,
        table: &Table,
        registers: Register,
        set: Option<&[usize]>,
        node: &SyntaxNode,
    ) -> Result<RowRules, StatementError> {
        let generated = self.bind_generated(table, registers, set, node)?;
        let (conditions, applied) = self.applying(|binder| {
            let mut checks = binder.check_partitions(table, registers, set, node)?;
            checks.append(&mut binder.bind_domains(table, registers, node)?);
            for (name, text) in &table.checks {
                let condition = binder.bind_definition(text, node, |binder, condition| {
                    binder.over_row(table, registers, |binder| binder.bind_condition(condition))
                })?;
                checks.push(Check { name: name.clone(), owner: CheckOwner::Table, condition });
            }
            Ok(checks)
        })?;
        self.refuse_subqueries(&applied, "check constraint", node)?;
        let calls = (!applied.is_empty()).then(|| Box::new(apply_all(applied, Plan::One)));
        Ok(RowRules { generated, calls, conditions })
    }

    /// Binds the rules of a table for a statement whose rules cannot call functions.
    pub(crate) fn bind_plain_rules(
        &mut self,
        table: &Table,
        registers: Register,
        node: &SyntaxNode,
    ) -> Result<RowRules, StatementError> {
        let rules = self.bind_rules(table, registers, None, node)?;
        match rules.calls {
            None => Ok(rules),
            Some(_) => Err(self.unsupported(node, "this change of rows whose CHECK calls a function")),
        }
    }

    /// Refuses a subquery in a definition.
    pub(crate) fn refuse_subqueries(
        &self,
        applied: &[Applied],
        context: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        match applied.iter().all(Applied::only_calls) {
            true => Ok(()),
            false => {
                Err(self.error(node, SqlError::new("0A000", format!("cannot use subquery in {context}"))))
            }
        }
    }
}
