//! Binds the clauses of SELECT one after the other, and makes its plan.

use super::from::Sources;
use super::join::Conjunct;
use super::{Applied, Binder, Bound, Rows, apply_all, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::path::WantedOrder;
use catalog::{ScalarType, TableId, Type};
use procedure::query::{OutputColumn, Plan};
use procedure::{Aggregate, CastContext, CompareClass, Expression, Register, SortKey, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::HashMap;

/// An item of a SELECT list.
pub(super) type Item = (String, Typed, SyntaxNode);

/// ORDER BY, OFFSET and LIMIT.
pub(super) struct Tail {
    pub(super) sorts: Vec<Sort>,
    pub(super) offset: Option<Expression>,
    pub(super) limit: Option<Expression>,
}

/// One item of ORDER BY.
pub(crate) struct Sort {
    pub(crate) expression: ast::Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// The bound clauses of a SELECT, without FROM and WHERE.
struct Clauses {
    outputs: Vec<(String, Expression, Type)>,
    nodes: Vec<SyntaxNode>,
    literals: HashMap<usize, Typed>,
    keys: Vec<(Register, Expression)>,
    aggregates: Vec<Aggregate>,
    having: Option<Expression>,
    order: Vec<SortKey>,
    distinct: Distinct,
    /// Subqueries and calls that are evaluated before rows are grouped.
    before: Vec<Applied>,
    /// Subqueries and calls that are evaluated for each group.
    after: Vec<Applied>,
}

/// The rows that FOR UPDATE holds.
#[derive(Default)]
struct Held {
    /// The tables, each with the register of its row's handle.
    handles: Vec<(TableId, Register)>,
    nowait: bool,
}

enum Distinct {
    No,
    Rows,
    On(Vec<Expression>),
}

fn place_of(expression: &ast::Expr) -> Option<usize> {
    let ast::Expr::Literal(literal) = expression else { return None };
    match literal.kind()? {
        ast::LitKind::IntNumber(token) => token.text().parse().ok(),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds ORDER BY, OFFSET and LIMIT. OFFSET and LIMIT are evaluated before the rows are read.
    pub(super) fn bind_tail(&mut self, query: &impl HasSelectTail) -> Result<Tail, StatementError> {
        let node = query.syntax();
        let sorts = self.bind_sort_list(query.order_by_clause())?;
        let count = |binder: &mut Self, expression: Option<ast::Expr>| match expression {
            Some(expression) => {
                binder.bind_as(&expression, ScalarType::BigInt, CastContext::Assignment).map(Some)
            }
            None => Ok(None),
        };
        let offset = count(self, query.offset_clause().and_then(|clause| clause.expr()))?;
        let mut limit = match query.limit_clause().and_then(|clause| clause.limit_value()) {
            Some(ast::LimitValue::Expr(limit)) => count(self, Some(limit))?,
            _ => None,
        };
        if let Some(fetch) = query.fetch_clause() {
            if fetch.syntax().text().to_string().to_lowercase().contains("ties") {
                return Err(self.unsupported(node, "FETCH … WITH TIES"));
            }
            limit = match fetch.expr() {
                Some(limit) => count(self, Some(limit))?,
                None => Some(Expression::Constant(catalog::Datum::Int(1))),
            };
        }
        Ok(Tail { sorts, offset, limit })
    }

    pub(crate) fn bind_sort_list(
        &mut self,
        clause: Option<ast::OrderByClause>,
    ) -> Result<Vec<Sort>, StatementError> {
        let list = clause.and_then(|clause| clause.sort_by_list());
        list.into_iter()
            .flat_map(|list| list.sort_bys())
            .map(|sort| {
                let descending = match sort.sort_order() {
                    Some(ast::SortOrder::SortUsing(using)) => {
                        return Err(self.unsupported(using.syntax(), "ORDER BY … USING"));
                    }
                    Some(ast::SortOrder::SortDesc(_)) => true,
                    _ => false,
                };
                let nulls_first = match sort.nulls_order() {
                    Some(ast::NullsOrder::NullsFirst(_)) => true,
                    Some(ast::NullsOrder::NullsLast(_)) => false,
                    None => descending,
                };
                let expression = self.part(sort.expr(), sort.syntax())?;
                Ok(Sort { expression, descending, nulls_first })
            })
            .collect()
    }

    /// Returns a sort key for a value.
    pub(crate) fn sort_key(
        &self,
        value: Expression,
        ty: Type,
        (descending, nulls_first): (bool, bool),
    ) -> SortKey {
        SortKey { value, class: CompareClass::of(ty.element()), descending, nulls_first }
    }

    /// Binds a SELECT as a new level.
    pub(super) fn bind_select_level(&mut self, select: &ast::Select) -> Result<Bound, StatementError> {
        let node = select.syntax();
        if let Some(window) = select.window_clause() {
            return Err(self.unsupported(window.syntax(), "WINDOW"));
        }
        let names = self.queries.names();
        let named = self.bind_with(select.with_clause())?;
        self.push_level(node)?;
        let aggregates = self.aggregates.take();
        let before = std::mem::take(&mut self.queries.before_group);
        let bound = self.bind_clauses(select);
        (self.aggregates, self.queries.before_group) = (aggregates, before);
        self.queries.levels.pop();
        self.queries.forget_names(names);
        self.with(named, bound?, node)
    }

    fn bind_clauses(&mut self, select: &ast::Select) -> Result<Bound, StatementError> {
        let items = select.from_clause().into_iter().flat_map(|from| from.items());
        let Sources { sources, mut conjuncts, .. } = self.bind_from_list(items)?;
        if let Some(condition) = select.where_clause().and_then(|clause| clause.expr()) {
            self.bind_conjuncts(condition, &mut conjuncts)?;
        }
        let tail = self.bind_tail(select)?;
        let clauses = self.bind_outputs(select, &tail)?;
        let grouped = !clauses.keys.is_empty() || !clauses.aggregates.is_empty();
        let held = self.bind_locking(select, &clauses)?;
        let wanted = match &clauses.distinct {
            Distinct::No if !grouped && sources.len() == 1 => self.order_by_index(&clauses.order),
            _ => None,
        };
        let (plan, ordered) = self.join_all(sources, conjuncts, wanted.as_ref())?;
        let is_sorted = ordered && wanted.is_some();
        Ok(self.finish_select(plan, clauses, is_sorted, tail, held))
    }

    /// Binds FOR UPDATE: returns the tables whose rows are held. FOR SHARE needs no hold, because every row
    /// that is read is validated or locked anyway.
    fn bind_locking(&mut self, select: &ast::Select, clauses: &Clauses) -> Result<Held, StatementError> {
        let mut held = Held::default();
        for clause in select.syntax().children().filter_map(ast::LockingClause::cast) {
            let node = clause.syntax();
            let reason = match clauses {
                Clauses { distinct: Distinct::Rows | Distinct::On(_), .. } => Some("DISTINCT clause"),
                Clauses { keys, .. } if !keys.is_empty() => Some("GROUP BY clause"),
                Clauses { aggregates, .. } if !aggregates.is_empty() => Some("aggregate functions"),
                _ => None,
            };
            if let Some(reason) = reason {
                let message = format!("FOR UPDATE is not allowed with {reason}");
                return Err(self.error(node, SqlError::new("0A000", message)));
            }
            let updates = matches!(
                clause.lock_strength(),
                Some(ast::LockStrength::ForUpdate(_) | ast::LockStrength::ForNoKeyUpdate(_))
            );
            let names = clause.locking_of().map(|of| {
                let names = of.exprs().map(|own| ast::normalize_name_node(own.syntax()));
                names.collect::<Vec<_>>()
            });
            for name in names.iter().flatten() {
                if !self.level().relations.iter().any(|own| own.alias == *name) {
                    let message =
                        format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
                    return Err(self.error(node, SqlError::new("42P01", message)));
                }
            }
            if !updates {
                continue;
            }
            held.nowait |= clause
                .lock_wait()
                .is_some_and(|wait| wait.syntax().text().to_string().eq_ignore_ascii_case("nowait"));
            for place in 0..self.level().relations.len() {
                let fresh = self.new_register(ScalarType::BigInt);
                let relation = &mut self.level().relations[place];
                if names.as_ref().is_some_and(|names| !names.contains(&relation.alias)) {
                    continue;
                }
                if let Rows::Table { table, handle, .. } = &mut relation.rows {
                    held.handles.push((table.id, *handle.get_or_insert(fresh)));
                }
            }
        }
        Ok(held)
    }

    fn bind_outputs(&mut self, select: &ast::Select, tail: &Tail) -> Result<Clauses, StatementError> {
        let node = select.syntax();
        let clause = self.part(select.select_clause(), node)?;
        let list: Vec<ast::Target> =
            clause.target_list().into_iter().flat_map(|list| list.targets()).collect();
        // Group keys are bound first, because they must not contain aggregates.
        let mut keys = Vec::new();
        let mut before = Vec::new();
        let mut written = Vec::new();
        for group in select
            .group_by_clause()
            .and_then(|own| own.group_by_list())
            .into_iter()
            .flat_map(|l| l.group_bys())
        {
            let ast::GroupBy::GroupingExpr(group) = &group else {
                return Err(self.unsupported(group.syntax(), "GROUPING SETS, CUBE or ROLLUP"));
            };
            let expression = self.part(group.expr(), group.syntax())?;
            let expression = self.meant_by_group(expression, &list)?;
            let bind = |binder: &mut Self| binder.bind(&expression);
            let (typed, mut applied) = self.applying(bind)?;
            before.append(&mut applied);
            let (value, ty) = self.settle(typed, None, expression.syntax())?;
            let own = Self::register_of(&value).filter(|own| self.level().sets(*own));
            let register = own.unwrap_or_else(|| self.new_register(ty));
            written.push((self.queries.levels.len(), text_of(expression.syntax()), register, ty));
            if !keys.iter().any(|(known, _)| *known == register) {
                keys.push((register, value));
            }
        }
        self.aggregates = Some(Vec::new());
        let outer_keys = self.queries.group_keys.len();
        self.queries.group_keys.append(&mut written);
        let (mut literals, mut nodes) = (HashMap::new(), Vec::new());
        let bind = |binder: &mut Self| {
            let items = binder.bind_targets(clause.target_list(), node)?;
            let mut outputs = Vec::new();
            for (place, (name, item, item_node)) in items.into_iter().enumerate() {
                if matches!(item, Typed::Null | Typed::Literal(_)) {
                    literals.insert(place, item.clone());
                }
                let (value, ty) = binder.settle(item, None, &item_node)?;
                outputs.push((name, value, ty));
                nodes.push(item_node);
            }
            let having = select.having_clause().and_then(|clause| clause.expr());
            let having = having.map(|condition| binder.bind_condition(&condition)).transpose()?;
            let order = binder.bind_order(&tail.sorts, &outputs)?;
            let distinct = binder.bind_distinct(&clause, &outputs)?;
            Ok((outputs, having, order, distinct))
        };
        let bound = self.applying(bind);
        self.queries.group_keys.truncate(outer_keys);
        let ((mut outputs, mut having, mut order, mut distinct), after) = bound?;
        let aggregates = self.aggregates.take().unwrap_or_default();
        before.append(&mut self.queries.before_group);
        let grouped = !keys.is_empty() || !aggregates.is_empty() || having.is_some();
        if grouped {
            self.add_dependent_keys(&mut keys);
            let mut all: Vec<&mut Expression> = outputs.iter_mut().map(|(_, value, _)| value).collect();
            all.extend(&mut having);
            all.extend(order.iter_mut().map(|key| &mut key.value));
            if let Distinct::On(values) = &mut distinct {
                all.extend(values);
            }
            for expression in all {
                replace_keys(expression, &keys);
                let mut uses = Vec::new();
                expression.walk(&mut |part| uses.extend(Self::register_of(part)));
                self.refuse_ungrouped(&uses, &keys, &aggregates, node)?;
            }
            for applied in &after {
                self.refuse_ungrouped(&applied.uses(), &keys, &aggregates, node)?;
            }
        }
        if matches!(distinct, Distinct::Rows) {
            let is_output = |key: &SortKey| outputs.iter().any(|(_, value, _)| *value == key.value);
            if !order.iter().all(is_output) {
                let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                return Err(self.error(node, SqlError::new("42P10", message)));
            }
        }
        if grouped && keys.is_empty() && aggregates.is_empty() {
            return Err(self.unsupported(node, "HAVING without aggregates or GROUP BY"));
        }
        Ok(Clauses { outputs, nodes, literals, keys, aggregates, having, order, distinct, before, after })
    }

    /// Returns the register of an expression that is written like a group key of the current level.
    pub(crate) fn group_key(&self, node: &SyntaxNode) -> Option<Typed> {
        if self.queries.group_keys.is_empty() {
            return None;
        }
        let (depth, text) = (self.queries.levels.len(), text_of(node));
        let found = self.queries.group_keys.iter().find(|(own, key, ..)| *own == depth && *key == text)?;
        Some(Typed::Known(Expression::Register(found.2), found.3))
    }

    /// Runs a binding of expressions that are evaluated before rows are grouped.
    pub(crate) fn without_group_keys<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let keys = std::mem::take(&mut self.queries.group_keys);
        let bound = bind(self);
        self.queries.group_keys = keys;
        bound
    }

    /// Returns the expression that an item of GROUP BY denotes: a position in the SELECT list, a column, or a
    /// name in the list.
    fn meant_by_group(
        &mut self,
        expression: ast::Expr,
        list: &[ast::Target],
    ) -> Result<ast::Expr, StatementError> {
        let node = expression.syntax().clone();
        if let Some(place) = place_of(&expression) {
            return match list.get(place.wrapping_sub(1)).and_then(|target| target.expr()) {
                Some(meant) => Ok(meant),
                None => {
                    let message = format!("GROUP BY position {place} is not in select list");
                    Err(self.error(&node, SqlError::new("42P10", message)))
                }
            };
        }
        let ast::Expr::NameRef(name) = &expression else { return Ok(expression) };
        let name = name.text();
        let is_column =
            self.level().relations.iter().any(|own| own.is_plain && own.place_of(&name).is_some());
        let named = |target: &&ast::Target| {
            let own = target.as_name().and_then(|name| name.name()).map(|name| name.text());
            own.as_deref() == Some(&name)
        };
        match list.iter().find(named).and_then(|target| target.expr()) {
            Some(meant) if !is_column => Ok(meant),
            _ => Ok(expression),
        }
    }

    /// Binds ORDER BY: positions and names of outputs, or expressions.
    fn bind_order(
        &mut self,
        sorts: &[Sort],
        outputs: &[(String, Expression, Type)],
    ) -> Result<Vec<SortKey>, StatementError> {
        let mut keys = Vec::new();
        for sort in sorts {
            let node = sort.expression.syntax();
            let output = match (&sort.expression, place_of(&sort.expression)) {
                (_, Some(place)) => match outputs.get(place.wrapping_sub(1)) {
                    Some(output) => Some(output),
                    None => {
                        let message = format!("ORDER BY position {place} is not in select list");
                        return Err(self.error(node, SqlError::new("42P10", message)));
                    }
                },
                (ast::Expr::NameRef(name), _) => {
                    let name = name.text();
                    let mut found = outputs.iter().filter(|(own, ..)| *own == name);
                    let first = found.next();
                    if let (Some((_, value, _)), true) = (first, first.is_some())
                        && found.any(|(_, other, _)| other != value)
                    {
                        let message = format!("ORDER BY \"{name}\" is ambiguous");
                        return Err(self.error(node, SqlError::new("42702", message)));
                    }
                    first
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
            keys.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        Ok(keys)
    }

    fn bind_distinct(
        &mut self,
        clause: &ast::SelectClause,
        outputs: &[(String, Expression, Type)],
    ) -> Result<Distinct, StatementError> {
        let Some(ast::SelectQuantifier::DistinctClause(distinct)) = clause.select_quantifier() else {
            return Ok(Distinct::No);
        };
        let Some(on) = distinct.distinct_on() else { return Ok(Distinct::Rows) };
        let mut values = Vec::new();
        for expression in on.exprs() {
            let named = match &expression {
                ast::Expr::NameRef(name) => {
                    let name = name.text();
                    outputs.iter().find(|(own, ..)| *own == name)
                }
                _ => place_of(&expression).and_then(|place| outputs.get(place.wrapping_sub(1))),
            };
            values.push(match named {
                Some((_, value, _)) => value.clone(),
                None => {
                    let typed = self.bind(&expression)?;
                    self.settle(typed, None, expression.syntax())?.0
                }
            });
        }
        Ok(Distinct::On(values))
    }

    /// Adds the columns of a table whose primary key is part of the group keys, because they depend on it.
    fn add_dependent_keys(&mut self, keys: &mut Vec<(Register, Expression)>) {
        for relation in &self.level().relations {
            let Rows::Table { table, registers, used, .. } = &relation.rows else { continue };
            let register = |place: usize| Register(registers.0 + place as u32);
            let is_key = |column: &usize| {
                let place = used.iter().position(|used| used == column);
                place.is_some_and(|place| keys.iter().any(|(own, _)| *own == register(place)))
            };
            if !table.primary().columns.iter().all(is_key) {
                continue;
            }
            for place in 0..used.len() {
                if !keys.iter().any(|(own, _)| *own == register(place)) {
                    keys.push((register(place), Expression::Register(register(place))));
                }
            }
        }
    }

    /// Refuses a column of the level that is neither a group key nor in an aggregate.
    fn refuse_ungrouped(
        &self,
        uses: &[Register],
        keys: &[(Register, Expression)],
        aggregates: &[Aggregate],
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let Some(level) = self.queries.levels.last() else { return Ok(()) };
        let mut stray = None;
        for register in uses {
            let known = keys.iter().any(|(own, _)| own == register)
                || aggregates.iter().any(|own| own.target == *register);
            if known {
                continue;
            }
            for relation in &level.relations {
                let column = match &relation.rows {
                    Rows::Table { registers, used, .. } => {
                        let place = register.0.checked_sub(registers.0).map(|place| place as usize);
                        place.and_then(|place| used.get(place).copied())
                    }
                    Rows::Plan { registers, .. } => registers.iter().position(|own| own == register),
                    Rows::Row { .. } => None,
                };
                if let Some(column) = column {
                    stray = Some(format!("{}.{}", relation.alias, relation.columns[column].0));
                }
            }
        }
        match stray {
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

    /// Returns the order as columns of the only table, if an index could provide it.
    fn order_by_index(&self, order: &[SortKey]) -> Option<WantedOrder> {
        let level = self.queries.levels.last()?;
        let [relation] = level.relations.as_slice() else { return None };
        let Rows::Table { table, .. } = &relation.rows else { return None };
        if order.is_empty() {
            return None;
        }
        order
            .iter()
            .map(|key| {
                let (_, column) = self.table_column(&key.value)?;
                let natural = !table.columns[column].nullable || key.nulls_first == key.descending;
                natural.then_some((column, key.descending))
            })
            .collect()
    }

    fn finish_select(
        &mut self,
        plan: Plan,
        clauses: Clauses,
        is_sorted: bool,
        tail: Tail,
        held: Held,
    ) -> Bound {
        let Clauses {
            outputs,
            nodes,
            literals,
            keys,
            aggregates,
            having,
            mut order,
            distinct,
            before,
            after,
        } = clauses;
        let mut set: Vec<Register> = keys.iter().map(|(register, _)| *register).collect();
        set.extend(aggregates.iter().map(|aggregate| aggregate.target));
        set.extend(before.iter().chain(&after).flat_map(Applied::targets));
        // Nodes that keep rows set the registers of their columns again, so a variable's register is none.
        let is_set =
            |binder: &mut Self, register: &Register| set.contains(register) || binder.level().sets(*register);
        let mut plan = apply_all(before, plan);
        if !keys.is_empty() || !aggregates.is_empty() {
            plan = Plan::Group { input: Box::new(plan), keys, aggregates };
        }
        plan = apply_all(after, plan);
        if let Some(having) = having {
            plan = plan.filter(having);
        }
        let mut columns: Vec<OutputColumn> = Vec::new();
        let mut values = Vec::new();
        for (name, value, ty) in outputs {
            let own = Self::register_of(&value).filter(|own| is_set(self, own));
            let register = match own.filter(|own| !columns.iter().any(|other| other.register == *own)) {
                Some(register) => register,
                None => {
                    let register = self.new_register(ty);
                    self.origins.note_value(register, &value);
                    order.iter_mut().filter(|key| key.value == value).for_each(|key| {
                        key.value = Expression::Register(register);
                    });
                    values.push((register, value));
                    register
                }
            };
            columns.push(OutputColumn { name, ty, register });
        }
        let mut registers: Vec<Register> = columns.iter().map(|column| column.register).collect();
        let on = match distinct {
            Distinct::On(on) => {
                // The values are compared after rows are sorted.
                on.into_iter()
                    .map(|value| {
                        let own = Self::register_of(&value).filter(|own| is_set(self, own));
                        let register = own.unwrap_or_else(|| {
                            let register = self.new_register(ScalarType::Text);
                            values.push((register, value));
                            register
                        });
                        if !registers.contains(&register) {
                            registers.push(register);
                        }
                        Expression::Register(register)
                    })
                    .collect()
            }
            Distinct::Rows => {
                plan = compute(plan, std::mem::take(&mut values));
                let values = registers.iter().map(|register| Expression::Register(*register)).collect();
                plan = Plan::Distinct { input: Box::new(plan), values };
                Vec::new()
            }
            Distinct::No => Vec::new(),
        };
        plan = compute(plan, values);
        let Tail { offset, limit, .. } = tail;
        registers.extend(held.handles.iter().map(|(_, handle)| *handle));
        if !order.is_empty() && !is_sorted {
            let wanted = if on.is_empty() { [offset.clone(), limit.clone()] } else { [None, None] };
            plan = Plan::Sort { input: Box::new(plan), keys: order, registers, wanted };
        }
        if !on.is_empty() {
            plan = Plan::Distinct { input: Box::new(plan), values: on };
        }
        if !held.handles.is_empty() {
            let Held { handles, nowait } = held;
            plan = Plan::Hold { input: Box::new(plan), handles, nowait };
        }
        Bound { plan: limited(plan, offset, limit), columns, literals, nodes }
    }

    /// Returns the columns of `*`, or of `qualifier.*`.
    pub(crate) fn star(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        let place = self.queries.levels.len() - 1;
        let mut found = Vec::new();
        let level = &self.queries.levels[place];
        let of_column = |at: (usize, usize)| {
            let merged = level.merged.iter().position(|own| qualifier.is_none() && own.hides.contains(&at));
            (level.relations[at.0].columns[at.1].0.clone(), merged.map_or(Ok(at), Err))
        };
        let mut star = Some(&level.star).filter(|_| qualifier.is_none());
        for (relation, own) in level.relations.iter().enumerate() {
            let is_meant = match qualifier {
                Some(qualifier) => own.alias == qualifier,
                None => own.is_plain,
            };
            if qualifier.is_none() && level.from & 1 << relation != 0 {
                // The first relation of FROM gets the columns of all of FROM, because USING may have merged
                // every column of a later relation.
                found.extend(star.take().into_iter().flatten().map(|at| of_column(*at)));
            } else if is_meant {
                found.extend((0..own.columns.len()).map(|column| of_column((relation, column))));
            }
        }
        if found.is_empty() {
            return Err(match qualifier {
                Some(name) => {
                    let message = format!("missing FROM-clause entry for table \"{name}\"");
                    self.error(node, SqlError::new("42P01", message))
                }
                None => self.syntax(node, "SELECT * with no tables specified is not valid"),
            });
        }
        let typed = |(name, at): (String, Result<(usize, usize), usize>)| {
            let typed = match at {
                Ok((relation, column)) => self.column_of_relation(place, relation, column),
                Err(merged) => self.merged_column(place, merged),
            };
            (name, typed, node.clone())
        };
        Ok(found.into_iter().map(typed).collect())
    }

    /// Binds the WHERE clause of a statement that writes.
    pub(super) fn bind_where(
        &mut self,
        condition: Option<ast::Expr>,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        match condition {
            Some(condition) => self.bind_conjuncts(condition, conjuncts),
            None => Ok(()),
        }
    }
}

/// Returns a plan that skips `offset` rows and returns at most `limit` rows.
pub(super) fn limited(plan: Plan, offset: Option<Expression>, limit: Option<Expression>) -> Plan {
    if offset.is_none() && limit.is_none() {
        return plan;
    }
    Plan::Limit { input: Box::new(plan), offset, limit }
}

/// Returns the text of an expression, with one space between tokens and without comments.
fn text_of(node: &SyntaxNode) -> String {
    let tokens = node.descendants_with_tokens().filter_map(|part| part.into_token());
    let words = tokens.filter(|token| !token.kind().is_trivia()).map(|token| token.text().to_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// Replaces the expressions of group keys by the registers of the keys.
fn replace_keys(expression: &mut Expression, keys: &[(Register, Expression)]) {
    if let Some((register, _)) = keys.iter().find(|(_, key)| key == expression) {
        *expression = Expression::Register(*register);
        return;
    }
    expression.operands_mut().into_iter().for_each(|operand| replace_keys(operand, keys));
}
