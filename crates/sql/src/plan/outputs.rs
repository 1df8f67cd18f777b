//! Binds the SELECT list with the clauses that refer to it: GROUP BY, HAVING, DISTINCT, ORDER BY.

use super::grouping::{Grouping, text_of};
use super::list_positions::bare;
use super::select::{Clauses, Distinct, Sort, Tail};
use super::windows::{WindowScope, Windows};
use super::{Applied, Binder, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::json::compared_form;
use catalog::Type;
use procedure::{Aggregate, Expression, Register, SortKey, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;

impl Binder<'_> {
    pub(super) fn bind_outputs(
        &mut self,
        select: &ast::Select,
        tail: &Tail,
        wanted: &[Option<Type>],
    ) -> Result<Clauses, StatementError> {
        let node = select.syntax();
        let clause = self.part(select.select_clause(), node)?;
        let list: Vec<ast::Target> =
            clause.target_list().into_iter().flat_map(|list| list.targets()).collect();
        // Group keys are bound while `aggregates` is `None`, because they must not contain aggregates.
        let mut grouping = self.bind_grouping(select.group_by_clause(), &list)?;
        let mut written = std::mem::take(&mut grouping.written);
        self.aggregates = Some(Vec::new());
        let outer_keys = self.queries.group_keys.len();
        self.queries.group_keys.append(&mut written);
        let (mut literals, mut nodes) = (HashMap::new(), Vec::new());
        self.queries.windows = WindowScope::Open(Windows::default());
        self.queries.grouping = grouping;
        let bind = |binder: &mut Self| {
            binder.bind_window_clause(select.window_clause())?;
            let items = binder.bind_targets(clause.target_list(), node)?;
            let mut outputs = Vec::new();
            for (index, (name, item, item_node)) in items.into_iter().enumerate() {
                let item = match (item, wanted.get(index)) {
                    (Typed::Parameter(position), Some(Some(ty))) => binder.parameter_as(position, *ty),
                    (item, _) => item,
                };
                if matches!(item, Typed::Null | Typed::Literal(_)) {
                    literals.insert(index, item.clone());
                }
                let (value, ty) = binder.settle(item, None, &item_node)?;
                outputs.push((name, value, ty));
                nodes.push(item_node);
            }
            let having = select.having_clause().and_then(|clause| clause.expr());
            let outside = WindowScope::closed("window functions are not allowed in HAVING");
            let bind =
                |inner: &mut Self| having.map(|condition| inner.bind_condition(&condition)).transpose();
            let having = binder.without_windows(outside, bind)?;
            let order = binder.bind_order(&tail.sorts, &outputs, &nodes)?;
            let distinct = binder.bind_distinct(&clause, &outputs, &order, &tail.sorts)?;
            Ok((outputs, having, order, distinct))
        };
        let bound = self.applying(bind);
        self.queries.group_keys.truncate(outer_keys);
        let windows = std::mem::take(&mut self.queries.windows);
        let grouping = std::mem::take(&mut self.queries.grouping);
        let (has_groups, sets) = (grouping.is_written(), grouping.plan_sets());
        let Grouping { mut keys, mut before, .. } = grouping;
        let ((mut outputs, mut having, mut order, mut distinct), after) = bound?;
        let WindowScope::Open(mut windows) = windows else { unreachable!("the outputs are bound") };
        let (after, last) = before_windows(after, &mut windows);
        let aggregates = self.aggregates.take().unwrap_or_default();
        before.append(&mut self.queries.before_group);
        let grouped = has_groups || !aggregates.is_empty() || having.is_some();
        if grouped {
            if sets.is_empty() {
                self.add_dependent_keys(&mut keys);
            }
            let mut all: Vec<&mut Expression> = outputs.iter_mut().map(|(_, value, _)| value).collect();
            all.extend(&mut having);
            all.extend(order.iter_mut().map(|key| &mut key.value));
            all.extend(windows.expressions_mut());
            if let Distinct::On(values) = &mut distinct {
                all.extend(values);
            }
            for expression in all {
                replace_keys(expression, &keys);
                let mut uses = Vec::new();
                expression.walk(&mut |part| uses.extend(Self::register_of(part)));
                self.refuse_ungrouped(&uses, &keys, &aggregates, node)?;
            }
            for applied in after.iter().chain(&last) {
                self.refuse_ungrouped(&applied.uses(), &keys, &aggregates, node)?;
            }
        }
        if matches!(distinct, Distinct::Rows) {
            for ((.., ty), node) in outputs.iter().zip(&nodes) {
                self.check_compared(*ty, "equality", node)?;
            }
            let is_output = |key: &SortKey| outputs.iter().any(|(_, value, _)| *value == key.value);
            if !order.iter().all(is_output) {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(self.error(node, SqlError::new("42P10", message)));
            }
        }
        let mut windows = windows.orders;
        // As in PostgreSQL, the window with the most keys is computed first.
        windows.sort_by_key(|window| std::cmp::Reverse(window.keys.len()));
        Ok(Clauses {
            outputs,
            nodes,
            literals,
            grouped,
            keys,
            sets,
            aggregates,
            having,
            order,
            distinct,
            before,
            after,
            windows,
            last,
        })
    }

    /// Returns the register of the group key of the current level that has the same text as an expression.
    pub(crate) fn group_key(&self, node: &SyntaxNode) -> Option<Typed> {
        if self.queries.group_keys.is_empty() {
            return None;
        }
        let (depth, text) = (self.queries.levels.len(), text_of(node));
        let found =
            self.queries.group_keys.iter().find(|(level, key, ..)| *level == depth && *key == text)?;
        Some(Typed::Known(Expression::Register(found.2), found.3))
    }

    /// Calls `bind`, whose expressions are evaluated before rows are grouped, without the group keys in
    /// scope.
    pub(crate) fn without_group_keys<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let keys = std::mem::take(&mut self.queries.group_keys);
        let bound = bind(self);
        self.queries.group_keys = keys;
        bound
    }

    /// Returns the expression that an item of GROUP BY denotes: a position in the SELECT list, a column, or a
    /// name in the list.
    pub(super) fn meant_by_group(
        &mut self,
        expression: ast::Expr,
        list: &[ast::Target],
    ) -> Result<ast::Expr, StatementError> {
        let node = expression.syntax().clone();
        if let Some(position) = self.position_in_list(&expression, "GROUP BY")? {
            let meant = position.of(list).and_then(|target| target.expr());
            return meant.ok_or_else(|| self.no_position(position, "GROUP BY", &node));
        }
        let ast::Expr::NameRef(name) = &expression else { return Ok(expression) };
        let name = name.text();
        let is_column = self
            .level()
            .relations
            .iter()
            .any(|relation| relation.is_plain && relation.column_index(&name).is_some());
        let named = |target: &&ast::Target| {
            let alias = target.as_name().and_then(|name| name.name()).map(|name| name.text());
            alias.as_deref() == Some(&name)
        };
        match list.iter().find(named).and_then(|target| target.expr()) {
            Some(meant) if !is_column => Ok(meant),
            _ => Ok(expression),
        }
    }

    /// Binds ORDER BY, whose items are positions or names of outputs, or expressions.
    fn bind_order(
        &mut self,
        sorts: &[Sort],
        outputs: &[(String, Expression, Type)],
        nodes: &[SyntaxNode],
    ) -> Result<Vec<SortKey>, StatementError> {
        let mut keys = Vec::new();
        for sort in sorts {
            let node = sort.expression.syntax();
            let output = match (&sort.expression, self.position_in_list(&sort.expression, "ORDER BY")?) {
                (_, Some(position)) => match position.of(outputs) {
                    Some(output) => Some(output),
                    None => return Err(self.no_position(position, "ORDER BY", node)),
                },
                (ast::Expr::NameRef(name), _) => {
                    let name = name.text();
                    let mut found = outputs.iter().filter(|(known, ..)| *known == name);
                    let first = found.next();
                    if let (Some((_, value, _)), true) = (first, first.is_some())
                        && found.any(|(_, other, _)| other != value)
                    {
                        let message = format!("ORDER BY \"{name}\" is ambiguous");
                        return Err(self.error(node, SqlError::new("42702", message)));
                    }
                    first
                }
                // As in PostgreSQL, a call or subquery that is an output, too, is evaluated once.
                (expression, _) if self.is_evaluated_ahead(expression) => {
                    let text = text_of(node);
                    let mut written = outputs.iter().zip(nodes);
                    written.find(|(_, output)| text_of(output) == text).map(|(output, _)| output)
                }
                _ => None,
            };
            let (value, ty) = match output {
                Some((_, value, ty)) => (value.clone(), *ty),
                None => {
                    let typed = self.bind(&sort.expression)?;
                    self.settle(typed, None, node)?
                }
            };
            self.check_compared(ty, "ordering", node)?;
            keys.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        Ok(keys)
    }

    /// Returns whether an expression has a subquery or a call of a function of the schema.
    fn is_evaluated_ahead(&self, expression: &ast::Expr) -> bool {
        expression.syntax().descendants().any(|node| {
            let call = ast::CallExpr::cast(node.clone()).and_then(|call| self.callee(&call).ok());
            ast::SelectVariant::can_cast(node.kind())
                || call.is_some_and(|name| self.schema.procedure(&name).is_some())
        })
    }

    fn bind_distinct(
        &mut self,
        clause: &ast::SelectClause,
        outputs: &[(String, Expression, Type)],
        order: &[SortKey],
        sorts: &[Sort],
    ) -> Result<Distinct, StatementError> {
        let Some(ast::SelectQuantifier::DistinctClause(distinct)) = clause.select_quantifier() else {
            return Ok(Distinct::No);
        };
        if outputs.is_empty() {
            return Err(self.syntax(clause.syntax(), "SELECT DISTINCT must have at least one column"));
        }
        let Some(on) = distinct.distinct_on() else { return Ok(Distinct::Rows) };
        let (mut values, mut forms, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for expression in on.exprs().map(bare) {
            let named = match &expression {
                ast::Expr::NameRef(name) => {
                    let name = name.text();
                    outputs.iter().find(|(known, ..)| *known == name)
                }
                _ => match self.position_in_list(&expression, "DISTINCT ON")? {
                    None => None,
                    Some(position) => match position.of(outputs) {
                        Some(output) => Some(output),
                        None => return Err(self.no_position(position, "DISTINCT ON", expression.syntax())),
                    },
                },
            };
            let (value, ty) = match named {
                Some((_, value, ty)) => (value.clone(), *ty),
                None => {
                    let typed = self.bind(&expression)?;
                    self.settle(typed, None, expression.syntax())?
                }
            };
            self.check_compared(ty, "equality", expression.syntax())?;
            nodes.push(expression.syntax().clone());
            forms.push(compared_form(value.clone(), ty));
            values.push(value);
        }
        let matched = order.iter().zip(sorts).map(|(key, sort)| {
            let text = text_of(sort.expression.syntax());
            let mut items = values.iter().zip(&nodes);
            items.position(|(value, node)| *value == key.value || text_of(node) == text)
        });
        if let Some(index) = unmatched_by_order(values.len(), &matched.collect::<Vec<_>>()) {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(self.error(&nodes[index], SqlError::new("42P10", message)));
        }
        Ok(Distinct::On(forms))
    }

    /// Adds all columns of each table whose primary key is part of the group keys, because they depend on it.
    fn add_dependent_keys(&mut self, keys: &mut Vec<(Register, Expression)>) {
        let Some(level) = self.queries.levels.last() else { return };
        for relation in &level.relations {
            let Rows::Table { table, registers, used, .. } = &relation.rows else { continue };
            let register = |offset: usize| Register(registers.0 + offset as u32);
            let is_key = |column: &usize| {
                let offset = used.iter().position(|used| used == column);
                offset.is_some_and(|offset| keys.iter().any(|(key, _)| *key == register(offset)))
            };
            if !table.primary().columns.iter().all(is_key) {
                continue;
            }
            for offset in 0..used.len() {
                if !keys.iter().any(|(key, _)| *key == register(offset)) {
                    self.queries.grouped_by.push(table.primary().id);
                    keys.push((register(offset), Expression::Register(register(offset))));
                }
            }
        }
    }

    /// Refuses a column of the level that is neither a group key nor the argument of an aggregate.
    ///
    /// # Errors
    /// `42803`: a register of `uses` has such a column.
    fn refuse_ungrouped(
        &self,
        uses: &[Register],
        keys: &[(Register, Expression)],
        aggregates: &[Aggregate],
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some(level) = self.queries.levels.last() else { return Ok(()) };
        let mut ungrouped = None;
        for register in uses {
            let known = keys.iter().any(|(key, _)| key == register)
                || aggregates.iter().any(|aggregate| aggregate.target == *register);
            if known {
                continue;
            }
            for relation in &level.relations {
                let column = match &relation.rows {
                    Rows::Table { registers, used, .. } => {
                        let offset = register.0.checked_sub(registers.0).map(|offset| offset as usize);
                        offset.and_then(|offset| used.get(offset).copied())
                    }
                    Rows::Plan { registers, .. } => registers.iter().position(|column| column == register),
                    Rows::Row { .. } | Rows::View { .. } => None,
                };
                if let Some(column) = column {
                    ungrouped = Some(format!("{}.{}", relation.alias, relation.columns[column].0));
                }
            }
        }
        match ungrouped {
            None => Ok(()),
            Some(column) => {
                let message = format!(
                    "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate \
                     function"
                );
                Err(self.error(node, SqlError::new("42803", message)))
            }
        }
    }
}

/// Returns the index of an item of DISTINCT ON with which ORDER BY should begin; `None` if ORDER BY begins
/// with the items, in any order, or ends before all of them came. `matched` has, for each item of ORDER BY,
/// the index of the equal item of DISTINCT ON.
fn unmatched_by_order(items: usize, matched: &[Option<usize>]) -> Option<usize> {
    let skipped = matched.iter().position(Option::is_none)?;
    let is_sorted = |item: &usize| matched[..skipped].contains(&Some(*item));
    let late = matched[skipped..].iter().flatten().copied().find(|item| !is_sorted(item));
    late.or_else(|| (0..items).find(|item| !is_sorted(item)))
}

/// Splits subqueries and calls into those evaluated before windows and those evaluated after: set-returning
/// functions that no window uses, as in PostgreSQL, and those that use the result of a window, directly or
/// indirectly.
fn before_windows(applied: Vec<Applied>, windows: &mut Windows) -> (Vec<Applied>, Vec<Applied>) {
    let mut late: Vec<Register> = windows.targets().collect();
    if late.is_empty() {
        return (applied, Vec::new());
    }
    let mut used = Vec::new();
    for expression in windows.expressions_mut() {
        expression.walk(&mut |part| used.extend(Binder::register_of(part)));
    }
    let is_after = |item: &Applied| {
        matches!(item, Applied::Rows(_)) && !item.targets().iter().any(|target| used.contains(target))
    };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for item in applied {
        if is_after(&item) || item.uses().iter().any(|register| late.contains(register)) {
            late.extend(item.targets());
            after.push(item);
        } else {
            before.push(item);
        }
    }
    (before, after)
}

/// Replaces the expressions of group keys by the registers of the keys.
fn replace_keys(expression: &mut Expression, keys: &[(Register, Expression)]) {
    if let Some((register, _)) = keys.iter().find(|(_, key)| key == expression) {
        *expression = Expression::Register(*register);
        return;
    }
    expression.operands_mut().into_iter().for_each(|operand| replace_keys(operand, keys));
}
