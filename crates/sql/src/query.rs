//! Statements that read or write tables: the entry points of binding, their rows, and the lists of columns
//! that they name.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::expression::calls_expandarray;
use crate::plan::Bound;
use crate::source::mentions;
use crate::trigger::Triggered;
use catalog::ScalarType;
use procedure::query::{OutputColumn, Plan, Query};
use procedure::{
    ByValueCause, CastContext, Expression, Label, OperationKind, QueryTarget, Raise, Register, Select,
    SqlError, Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

/// Maximum number of columns of a result, as in PostgreSQL.
const MOST_TARGETS: usize = 1664;

/// How a bound statement is executed.
pub(crate) enum Work {
    /// One row of expressions, without an operation.
    Values,
    /// An operation, still without outputs.
    Operation(OperationKind),
    /// Inserts without outputs.
    Inserts(Vec<OperationKind>),
    /// A read, and the insert for each of its rows.
    Repeat(Box<[OperationKind; 2]>),
    /// A row that is written by its key, with the triggers that this fires.
    Triggered(Box<Triggered>),
    /// A query with a plan.
    Query(Query),
}

/// A bound statement: its columns by name, and how it is executed.
pub(crate) struct BoundRows {
    pub(crate) items: Vec<(String, Typed, SyntaxNode)>,
    pub(crate) work: Work,
}

impl Work {
    /// Returns whether it is a read that may find several rows.
    fn reads_range(&self) -> bool {
        match self {
            Self::Operation(OperationKind::Select(select)) => {
                !select.access.is_point() && select.aggregates.is_empty()
            }
            _ => false,
        }
    }

    /// Returns its operations.
    pub(crate) fn kinds(&mut self) -> Vec<&mut OperationKind> {
        match self {
            Self::Values | Self::Query(_) => Vec::new(),
            Self::Operation(kind) => vec![kind],
            Self::Inserts(kinds) => kinds.iter_mut().collect(),
            Self::Repeat(kinds) => kinds.iter_mut().collect(),
            Self::Triggered(triggered) => triggered.kinds().collect(),
        }
    }
}

impl Binder<'_> {
    /// Binds a plan apart from the queries that are being bound. Returns it with the number of its slots.
    pub(crate) fn bind_plan(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<(Bound, u32), StatementError> {
        let outer = std::mem::take(&mut self.queries);
        let lifted = self.lifted.take();
        let aggregates = self.aggregates.take();
        let bound = bind(self);
        let slots = self.queries.slots();
        let mut grouped_by = std::mem::take(&mut self.queries.grouped_by);
        (self.queries, self.lifted, self.aggregates) = (outer, lifted, aggregates);
        self.queries.grouped_by.append(&mut grouped_by);
        Ok((bound?, slots))
    }

    /// Returns a plan as a query.
    pub(crate) fn query_of_plan(&mut self, bound: Bound, slots: u32) -> Query {
        self.log_by_value(ByValueCause::Query);
        let mut query = Query { plan: bound.plan, columns: bound.columns, slots };
        query.watch();
        query
    }

    /// Binds a query.
    pub(crate) fn bind_query(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<Query, StatementError> {
        let (bound, slots) = self.bind_plan(bind)?;
        Ok(self.query_of_plan(bound, slots))
    }

    /// Binds a query or a statement that writes.
    pub(crate) fn bind_accessing(&mut self, statement: &ast::Stmt) -> Result<Bound, StatementError> {
        match statement {
            ast::Stmt::Insert(insert) => self.bind_insert_plan(insert),
            ast::Stmt::Update(update) => self.bind_update_plan(update),
            ast::Stmt::Delete(delete) => self.bind_delete_plan(delete),
            ast::Stmt::Merge(merge) => self.bind_merge_plan(merge),
            ast::Stmt::Notify(notify) => self.bind_notify(notify),
            _ => match ast::SelectVariant::cast(statement.syntax().clone()) {
                Some(query) => self.bind_variant(&query),
                None => Err(self.unsupported(statement.syntax(), "this statement")),
            },
        }
    }

    /// Returns the channel and the payload of a NOTIFY.
    pub(crate) fn notified(&self, notify: &ast::Notify) -> Result<(String, String), StatementError> {
        let channel = self.part(notify.channel_ref(), notify.syntax())?;
        let payload = notify.literal().map(|literal| self.string_of(&literal)).transpose()?.flatten();
        Ok((ast::normalize_name_node(channel.syntax()), payload.unwrap_or_default()))
    }

    /// Binds a NOTIFY of a routine as a query that calls `pg_notify`.
    fn bind_notify(&mut self, notify: &ast::Notify) -> Result<Bound, StatementError> {
        let node = notify.syntax();
        let (channel, payload) = self.notified(notify)?;
        let arguments = vec![Typed::Literal(channel), Typed::Literal(payload)];
        let told = self.call_built_in("pg_notify", arguments, node)?;
        let told = self.coerce(told, ScalarType::Text.into(), CastContext::Implicit, node)?;
        let register = self.new_register(ScalarType::Text);
        let plan = Plan::Compute { input: Box::new(Plan::One), values: vec![(register, told)] };
        let column = OutputColumn { name: "pg_notify".into(), ty: ScalarType::Text.into(), register };
        Ok(Bound { plan, columns: vec![column], literals: HashMap::new(), nodes: Vec::new() })
    }

    /// Binds a statement whose rows go to the client.
    pub(crate) fn bind_for_client(
        &mut self,
        statement: &ast::Stmt,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = statement.syntax();
        let first = self.registers.len();
        let (bound, slots) = self.bind_plan(|binder| binder.bind_accessing(statement))?;
        if bound.columns.is_empty()
            && bound.plan.writes()
            && let Some(rows) = self.lower(&bound, first, node)
        {
            out.append(&mut self.execute(rows.work, Vec::new(), false, node));
            return Ok(());
        }
        let query = self.query_of_plan(bound, slots);
        let query = self.query(query, QueryTarget::Client, node);
        out.push(Statement::Query(query));
        Ok(())
    }

    /// Adds the operations or the query of a statement. Their first row is assigned to outputs.
    pub(crate) fn execute(
        &mut self,
        work: Work,
        mut outputs: Vec<(Register, Expression)>,
        strict: bool,
        node: &SyntaxNode,
    ) -> Vec<Statement> {
        let mut later = self.assigned_later(&mut outputs);
        let mut statements = match work {
            Work::Values => {
                if mentions(node, "found") {
                    later.push(Statement::Assign { target: self.found(), value: Expression::boolean(true) });
                }
                outputs.into_iter().map(|(target, value)| Statement::Assign { target, value }).collect()
            }
            Work::Operation(kind) => {
                let is_select = matches!(kind, OperationKind::Select(_));
                let operation = self.operation(with_outputs(kind, outputs, strict), node);
                let mut statements = vec![Statement::Execute(operation)];
                if strict && !is_select {
                    statements.push(self.require_found());
                }
                statements
            }
            Work::Inserts(all) => {
                all.into_iter().map(|kind| Statement::Execute(self.operation(kind, node))).collect()
            }
            Work::Repeat(kinds) => {
                let [select, insert] = *kinds;
                let (operation, label) = (self.operation(select, node), self.new_label());
                let body = vec![Statement::Execute(self.operation(insert, node))];
                vec![Statement::ForRows { label, operation, body }]
            }
            Work::Triggered(triggered) => triggered.statements(self, node),
            Work::Query(query) => {
                let target = QueryTarget::Statement { outputs, strict };
                vec![Statement::Query(self.query(query, target, node))]
            }
        };
        statements.append(&mut later);
        statements
    }

    /// Executes a statement whose rows are not read. A SELECT is executed to its last row, and the values of
    /// all its rows are evaluated, because this locks rows, calls functions and may fail.
    pub(crate) fn discard(
        &mut self,
        bound: BoundRows,
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        let (is_select, is_loop) = match &bound.work {
            Work::Values => (true, false),
            Work::Operation(OperationKind::Select(_)) => (true, bound.work.reads_range()),
            Work::Query(query) => (!query.plan.writes(), !query.plan.writes()),
            _ => (false, false),
        };
        let mut outputs = Vec::new();
        if is_select {
            for (_, item, item_node) in bound.items {
                let (value, ty) = self.settle(item, None, &item_node)?;
                outputs.push((self.new_register(ty), value));
            }
        }
        if is_loop {
            let repeated =
                self.repeat(bound.work, outputs, node, |binder| Ok((binder.new_label(), Vec::new())))?;
            return Ok(repeated.into_iter().collect());
        }
        Ok(self.execute(bound.work, outputs, false, node))
    }

    /// Binds the query of a PERFORM. If the routine reads ROW_COUNT, a query counts the rows: an operation
    /// that reads a range does not.
    pub(crate) fn bind_performed(&mut self, query: &ast::SelectVariant) -> Result<BoundRows, StatementError> {
        let node = query.syntax();
        let is_counted = mentions(node, "row_count");
        let fits = |work: &Work| !is_counted || !work.reads_range();
        self.bind_fitting(node, fits, |binder| binder.bind_variant(query))
    }

    /// Assigns an output to a new register if a later output reads its target, because all outputs are
    /// evaluated before the first target is set. Returns the assignments of these targets.
    fn assigned_later(&mut self, outputs: &mut [(Register, Expression)]) -> Vec<Statement> {
        let mut later = Vec::new();
        for position in 0..outputs.len() {
            let target = outputs[position].0;
            let mut is_read = false;
            for (_, value) in &outputs[position + 1..] {
                value.walk(&mut |part| is_read |= *part == Expression::Register(target));
            }
            if is_read {
                outputs[position].0 = self.new_register(self.registers[target.0 as usize]);
                later.push(Statement::Assign { target, value: Expression::Register(outputs[position].0) });
            }
        }
        later
    }

    /// Returns the statement that fails if the statement before it has found no row.
    fn require_found(&mut self) -> Statement {
        let raise = Raise::error("P0002", "query returned no rows");
        let (then, otherwise) = (Vec::new(), vec![Statement::Raise(Box::new(raise))]);
        Statement::If { condition: Expression::Register(self.found()), then, otherwise }
    }

    /// Adds the operation or query of a SELECT, and returns the loop over its rows. `None` for one row of
    /// expressions.
    pub(crate) fn repeat(
        &mut self,
        work: Work,
        mut outputs: Vec<(Register, Expression)>,
        node: &SyntaxNode,
        bind_body: impl FnOnce(&mut Self) -> Result<(Label, Vec<Statement>), StatementError>,
    ) -> Result<Option<Statement>, StatementError> {
        let mut body = self.assigned_later(&mut outputs);
        Ok(match work {
            Work::Operation(kind @ OperationKind::Select(_)) => {
                let operation = self.operation(with_outputs(kind, outputs, false), node);
                let (label, mut inner) = bind_body(self)?;
                body.append(&mut inner);
                Some(Statement::ForRows { label, operation, body })
            }
            Work::Query(query) => {
                let target = QueryTarget::Statement { outputs, strict: false };
                let query = self.query(query, target, node);
                let (label, mut inner) = bind_body(self)?;
                body.append(&mut inner);
                Some(Statement::ForQuery { label, query, body })
            }
            _ => None,
        })
    }

    /// Binds any query of a procedure.
    pub(crate) fn bind_rows_of(&mut self, query: &ast::SelectVariant) -> Result<BoundRows, StatementError> {
        let node = query.syntax();
        self.bind_rows(node, |binder| binder.bind_variant(query))
    }

    /// Binds a statement as operations, or as a query if its plan cannot be lowered.
    pub(crate) fn bind_rows(
        &mut self,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<BoundRows, StatementError> {
        self.bind_fitting(node, |_| true, bind)
    }

    /// Binds a statement as operations, or as a query if its plan cannot be lowered, or the operations do not
    /// fit.
    fn bind_fitting(
        &mut self,
        node: &SyntaxNode,
        fits: impl FnOnce(&Work) -> bool,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<BoundRows, StatementError> {
        let first = self.registers.len();
        let (bound, slots) = self.bind_plan(bind)?;
        match self.lower(&bound, first, node) {
            Some(rows) if fits(&rows.work) => Ok(rows),
            _ => {
                let query = self.query_of_plan(bound, slots);
                Ok(Self::rows_of_query(query, node))
            }
        }
    }

    pub(crate) fn rows_of_query(query: Query, node: &SyntaxNode) -> BoundRows {
        let item = |column: &OutputColumn| {
            let typed = Typed::Known(Expression::Register(column.register), column.ty);
            (column.name.clone(), typed, node.clone())
        };
        BoundRows { items: query.columns.iter().map(item).collect(), work: Work::Query(query) }
    }

    /// Binds the items of a SELECT list or RETURNING.
    pub(crate) fn bind_targets(
        &mut self,
        list: Option<ast::TargetList>,
        node: &SyntaxNode,
    ) -> Result<Vec<(String, Typed, SyntaxNode)>, StatementError> {
        let mut items = Vec::new();
        for target in list.into_iter().flat_map(|list| list.targets()) {
            self.check_targets(items.len(), node)?;
            let expression = match target.expr() {
                None => {
                    items.append(&mut self.star_of(None, target.syntax())?);
                    continue;
                }
                Some(ast::Expr::FieldExpr(field)) if field.star_token().is_some() => {
                    let base = match field.base() {
                        Some(ast::Expr::ParenExpr(paren)) => paren.expr(),
                        base => base,
                    };
                    if let Some(ast::Expr::CallExpr(call)) = &base
                        && let Some(fields) = self.fields_of_call(call)?
                    {
                        let node = target.syntax();
                        items.extend(fields.into_iter().map(|(name, value)| (name, value, node.clone())));
                        continue;
                    }
                    let Some(ast::Expr::NameRef(base)) = base else {
                        return Err(self.unsupported(target.syntax(), "this kind of reference"));
                    };
                    items.append(&mut self.star_of(Some(&base.text()), target.syntax())?);
                    continue;
                }
                Some(expression) => expression,
            };
            let alias = target.as_name().and_then(|name| name.name()).map(|name| name.text());
            let name = alias.unwrap_or_else(|| self.column_name(&expression));
            if let ast::Expr::CallExpr(call) = &expression
                && calls_expandarray(call)
                && let Some(columns) = self.rows_in_list("_pg_expandarray", call)?
            {
                for ((register, ty), part) in columns.into_iter().zip(["x", "n"]) {
                    let typed = Typed::Known(Expression::Register(register), ty);
                    items.push((format!("{name}.{part}"), typed, expression.syntax().clone()));
                }
                continue;
            }
            // The parts of a set operation may have numbers of objects beside this value.
            let is_part = target.syntax().ancestors().any(|node| ast::CompoundSelect::can_cast(node.kind()));
            let is_shown = self.queries.levels.len() == 1 && !is_part;
            let bound = if is_shown { self.bind_shown(&expression)? } else { self.bind(&expression)? };
            items.push((name, bound, expression.syntax().clone()));
        }
        self.check_targets(items.len(), node)?;
        Ok(items)
    }

    /// Refuses a result with too many columns.
    ///
    /// # Errors
    /// `54011`: it has more than 1,664 columns.
    pub(crate) fn check_targets(&self, columns: usize, node: &SyntaxNode) -> Result<(), StatementError> {
        if columns <= MOST_TARGETS {
            return Ok(());
        }
        let message = format!("target lists can have at most {MOST_TARGETS} entries");
        Err(self.error(node, SqlError::new("54011", message)))
    }

    /// Assigns the items of a SELECT or RETURNING to targets, converted to their types. As in PostgreSQL, a
    /// target without an item is NULL, and an item without a target is evaluated only.
    pub(crate) fn outputs(
        &mut self,
        items: Vec<(String, Typed, SyntaxNode)>,
        targets: &[(Register, catalog::Type)],
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Expression)>, StatementError> {
        let mut targets = targets.to_vec();
        for (_, item, _) in items.iter().skip(targets.len()) {
            let ty = item.known_type().unwrap_or(ScalarType::Text.into());
            targets.push((self.new_register(ty), ty));
        }
        let missing = targets.len() - items.len();
        let missing = std::iter::repeat_n((String::new(), Typed::Null, node.clone()), missing);
        let pairs = items.into_iter().chain(missing).zip(targets);
        pairs
            .map(|((_, item, node), (target, ty))| {
                let value = self.coerce(item, ty, CastContext::Variable, &node)?;
                Ok((target, self.checked_for(target, value, &node)?))
            })
            .collect()
    }
}

/// Returns an operation with outputs.
fn with_outputs(
    mut kind: OperationKind,
    values: Vec<(Register, Expression)>,
    is_strict: bool,
) -> OperationKind {
    match &mut kind {
        OperationKind::Select(Select { outputs, strict, .. }) => (*outputs, *strict) = (values, is_strict),
        OperationKind::Insert { returning, .. }
        | OperationKind::Update { returning, .. }
        | OperationKind::Delete { returning, .. } => *returning = values,
    }
    kind
}
