//! Binds the clauses of a SELECT and makes its plan.

use super::conjunct::Conjunct;
use super::from::Sources;
use super::list_positions::bare;
use super::windows::{WindowOrder, WindowScope};
use super::{Applied, Binder, Bound, Relation, Rows, apply_ahead, apply_all, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::json::compared_form;
use crate::path::WantedOrder;
use catalog::{ScalarType, Type};
use procedure::query::{GroupingSet, HeldRows, HeldTable, OutputColumn, Plan, Window};
use procedure::{
    Aggregate, AggregateFunction, CastContext, CompareClass, Expression, HoldStrength, Register, SortKey,
    SqlError,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::{HashMap, HashSet};

/// An item of a SELECT list.
pub(crate) type Item = (String, Typed, SyntaxNode);

/// ORDER BY, OFFSET and LIMIT.
pub(super) struct Tail {
    pub(super) sorts: Vec<Sort>,
    pub(super) offset: Option<Expression>,
    pub(super) limit: Option<Expression>,
    /// WITH TIES.
    pub(super) has_ties: bool,
    /// The subqueries and calls of OFFSET and LIMIT.
    pub(super) ahead: Vec<Applied>,
}

/// One item of ORDER BY.
pub(crate) struct Sort {
    pub(crate) expression: ast::Expr,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// The bound clauses of a SELECT, without FROM and WHERE.
pub(super) struct Clauses {
    pub(super) outputs: Vec<(String, Expression, Type)>,
    pub(super) nodes: Vec<SyntaxNode>,
    pub(super) literals: HashMap<usize, Typed>,
    /// Whether the rows are grouped, by GROUP BY, an aggregate or HAVING.
    pub(super) grouped: bool,
    pub(super) keys: Vec<(Register, Expression)>,
    pub(super) sets: Vec<GroupingSet>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) having: Option<Expression>,
    pub(super) order: Vec<SortKey>,
    pub(super) distinct: Distinct,
    /// Subqueries and calls that are evaluated before rows are grouped.
    pub(super) before: Vec<Applied>,
    /// Subqueries and calls that are evaluated for each group.
    pub(super) after: Vec<Applied>,
    /// The windows, in the order in which they are computed.
    pub(super) windows: Vec<WindowOrder>,
    /// Subqueries and calls that are evaluated after the windows.
    pub(super) last: Vec<Applied>,
}

/// The tables whose rows FOR UPDATE and FOR SHARE hold, and the reaction to a held row.
struct Held {
    tables: Vec<HeldTable>,
    rows: HeldRows,
}

/// Returns the keywords of a locking clause and the strength of its holds.
fn strength_of(clause: &ast::LockingClause) -> (&'static str, HoldStrength) {
    match clause.lock_strength() {
        Some(ast::LockStrength::ForNoKeyUpdate(_)) => ("FOR NO KEY UPDATE", HoldStrength::Exclusive),
        Some(ast::LockStrength::ForShare(_)) => ("FOR SHARE", HoldStrength::Shared),
        Some(ast::LockStrength::ForKeyShare(_)) => ("FOR KEY SHARE", HoldStrength::Shared),
        _ => ("FOR UPDATE", HoldStrength::Exclusive),
    }
}

/// DISTINCT of a SELECT.
pub(super) enum Distinct {
    No,
    /// Compares all columns.
    Rows,
    /// DISTINCT ON: compares these values.
    On(Vec<Expression>),
}

impl Binder<'_> {
    /// Binds ORDER BY, OFFSET and LIMIT. OFFSET and LIMIT are evaluated before the rows are read.
    pub(super) fn bind_tail(&mut self, query: &impl HasSelectTail) -> Result<Tail, StatementError> {
        let node = query.syntax();
        let sorts = self.bind_sort_list(query.order_by_clause())?;
        let has_level = ast::Select::can_cast(node.kind());
        let (mut ahead, mut has_ties) = (Vec::new(), false);
        let mut count = |binder: &mut Self, expression: Option<ast::Expr>, clause| match expression {
            Some(expression) if has_level => {
                let (value, refers) =
                    binder.referring(|binder| binder.bind_count(&expression, &mut ahead))?;
                match refers.relations {
                    0 => Ok(Some(value)),
                    _ => {
                        let message = format!("argument of {clause} must not contain variables");
                        Err(binder.error(expression.syntax(), SqlError::new("42P10", message)))
                    }
                }
            }
            Some(expression) => binder.bind_count(&expression, &mut ahead).map(Some),
            None => Ok(None),
        };
        let offset = count(self, query.offset_clause().and_then(|clause| clause.expr()), "OFFSET")?;
        let mut limit = match query.limit_clause().and_then(|clause| clause.limit_value()) {
            Some(ast::LimitValue::Expr(limit)) => count(self, Some(limit), "LIMIT")?,
            _ => None,
        };
        if let Some(fetch) = query.fetch_clause() {
            has_ties = matches!(fetch.fetch_quantity(), Some(ast::FetchQuantity::WithTies(_)));
            if has_ties && sorts.is_empty() {
                return Err(self.syntax(node, "WITH TIES cannot be specified without ORDER BY clause"));
            }
            limit = match fetch.expr() {
                Some(limit) => count(self, Some(limit), "LIMIT")?,
                None => Some(Expression::Constant(catalog::Datum::Int(1))),
            };
        }
        Ok(Tail { sorts, offset, limit, has_ties, ahead })
    }

    /// Binds a number of rows. Adds its subqueries and calls to `ahead`.
    fn bind_count(
        &mut self,
        expression: &ast::Expr,
        ahead: &mut Vec<Applied>,
    ) -> Result<Expression, StatementError> {
        let bind =
            |binder: &mut Self| binder.bind_as(expression, ScalarType::BigInt, CastContext::Assignment);
        let (value, mut applied) = self.applying(bind)?;
        ahead.append(&mut applied);
        Ok(value)
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
                let expression = bare(self.part(sort.expr(), sort.syntax())?);
                Ok(Sort { expression, descending, nulls_first })
            })
            .collect()
    }

    /// Returns the sort key of a value.
    pub(crate) fn sort_key(
        &self,
        value: Expression,
        ty: Type,
        (descending, nulls_first): (bool, bool),
    ) -> SortKey {
        SortKey { value, class: CompareClass::of_type(ty), descending, nulls_first }
    }

    /// Binds a SELECT as a new level.
    pub(super) fn bind_select_level(&mut self, select: &ast::Select) -> Result<Bound, StatementError> {
        let node = select.syntax();
        let wanted = std::mem::take(&mut self.queries.wanted);
        let names = self.queries.names();
        let named = self.bind_with(select.with_clause())?;
        self.push_level(node)?;
        let aggregates = self.aggregates.take();
        let before = std::mem::take(&mut self.queries.before_group);
        let windows = std::mem::take(&mut self.queries.windows);
        let grouping = std::mem::take(&mut self.queries.grouping);
        let bound = self.bind_clauses(select, &wanted);
        (self.aggregates, self.queries.before_group) = (aggregates, before);
        (self.queries.windows, self.queries.grouping) = (windows, grouping);
        self.queries.levels.pop();
        self.queries.forget_names(names);
        self.with(named, bound?, node)
    }

    fn bind_clauses(
        &mut self,
        select: &ast::Select,
        wanted: &[Option<Type>],
    ) -> Result<Bound, StatementError> {
        let items = select.from_clause().into_iter().flat_map(|from| from.items());
        let Sources { sources, mut conjuncts, .. } = self.bind_from_list(items)?;
        if let Some(condition) = select.where_clause().and_then(|clause| clause.expr()) {
            let outside = WindowScope::closed("window functions are not allowed in WHERE");
            self.without_windows(outside, |binder| binder.bind_conjuncts(condition, &mut conjuncts))?;
        }
        let tail = self.bind_tail(select)?;
        let mut clauses = self.bind_outputs(select, &tail, wanted)?;
        let grouped = clauses.grouped;
        let held = self.bind_locking(select, &clauses)?;
        let wanted = match &clauses.distinct {
            _ if sources.len() != 1 => None,
            _ if grouped => self.order_of_extreme(&clauses),
            // A window with keys sorts the rows by these keys, which loses the order of the index.
            Distinct::No if clauses.windows.iter().all(|window| window.keys.is_empty()) => {
                self.order_by_index(&clauses.order)
            }
            _ => None,
        };
        let (plan, ordered) = self.join_all(sources, conjuncts, wanted.as_ref())?;
        let is_sorted = ordered && wanted.is_some();
        if grouped && is_sorted {
            clauses.aggregates.iter_mut().for_each(|aggregate| aggregate.is_first = true);
        }
        let is_sorted = is_sorted && !grouped;
        Ok(self.finish_select(plan, clauses, is_sorted, tail, held))
    }

    /// Binds the locking clauses: FOR UPDATE, FOR SHARE and their weaker forms.
    fn bind_locking(&mut self, select: &ast::Select, clauses: &Clauses) -> Result<Held, StatementError> {
        let mut held = Held { tables: Vec::new(), rows: HeldRows::Wait };
        for clause in select.syntax().children().filter_map(ast::LockingClause::cast) {
            let node = clause.syntax();
            let reason = match clauses {
                Clauses { distinct: Distinct::Rows | Distinct::On(_), .. } => Some("DISTINCT clause"),
                Clauses { keys, .. } if !keys.is_empty() => Some("GROUP BY clause"),
                Clauses { aggregates, .. } if !aggregates.is_empty() => Some("aggregate functions"),
                Clauses { windows, .. } if !windows.is_empty() => Some("window functions"),
                _ => None,
            };
            if let Some(reason) = reason {
                let message = format!("{} is not allowed with {reason}", strength_of(&clause).0);
                return Err(self.error(node, SqlError::new("0A000", message)));
            }
            let (words, strength) = strength_of(&clause);
            let names = clause.locking_of().map(|of| {
                let names = of.exprs().map(|name| ast::normalize_name_node(name.syntax()));
                names.collect::<Vec<_>>()
            });
            for name in names.iter().flatten() {
                if !self.level().relations.iter().any(|relation| relation.alias == *name) {
                    let message = format!("relation \"{name}\" in {words} clause not found in FROM clause");
                    return Err(self.error(node, SqlError::new("42P01", message)));
                }
            }
            let reads = self.level().reads.clone();
            for (index, need) in reads {
                let alias = &self.level().relations[index].alias;
                if names.as_ref().is_none_or(|names| names.contains(alias)) {
                    self.need_hold(need);
                }
            }
            match clause.lock_wait() {
                Some(ast::LockWait::Nowait(_)) => held.rows = HeldRows::Fail,
                Some(ast::LockWait::SkipLocked(_)) if held.rows == HeldRows::Wait => {
                    held.rows = HeldRows::Skip { is_alone: false };
                }
                _ => {}
            }
            for index in 0..self.level().relations.len() {
                let fresh = self.new_register(ScalarType::BigInt);
                let relation = &mut self.level().relations[index];
                if names.as_ref().is_some_and(|names| !names.contains(&relation.alias)) {
                    continue;
                }
                if let Rows::Table { table, handle, .. } = &mut relation.rows {
                    let handle = *handle.get_or_insert(fresh);
                    held.tables.push(HeldTable { table: table.id, handle, strength });
                }
            }
        }
        let relations = self.level().relations.len();
        let queries = select.syntax().descendants().filter_map(ast::Select::cast).count();
        if let HeldRows::Skip { is_alone } = &mut held.rows {
            *is_alone = held.tables.len() == relations && queries == 1;
        }
        Ok(held)
    }

    /// Returns the order whose first value is the result of the only aggregate: `min` or `max` of a column.
    /// The column's type must not have equal values that differ, because the first of these would be
    /// arbitrary.
    fn order_of_extreme(&self, clauses: &Clauses) -> Option<WantedOrder> {
        let (true, [aggregate]) = (clauses.keys.is_empty(), clauses.aggregates.as_slice()) else {
            return None;
        };
        let descends = match aggregate.function {
            AggregateFunction::Min => false,
            AggregateFunction::Max => true,
            _ => return None,
        };
        let is_exact = matches!(aggregate.class, CompareClass::Int | CompareClass::Bytes);
        let (_, column) = self.table_column(aggregate.argument.as_ref()?)?;
        (is_exact && aggregate.filter.is_none()).then(|| vec![(column, descends)])
    }

    /// Returns the order as columns of the only table; `None` if no index can provide it.
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
            grouped,
            keys,
            sets,
            aggregates,
            having,
            mut order,
            distinct,
            before,
            after,
            windows,
            last,
        } = clauses;
        let mut set: Vec<Register> = keys.iter().map(|(register, _)| *register).collect();
        set.extend(aggregates.iter().map(|aggregate| aggregate.target));
        set.extend(before.iter().chain(&after).chain(&last).flat_map(Applied::targets));
        set.extend(sets.iter().flat_map(|set| &set.marks).map(|(register, _)| *register));
        set.extend(windows.iter().flat_map(|window| &window.calls).map(|call| call.target));
        // A node that keeps rows sets the registers of their columns again, so an output must not use the
        // register of a variable.
        let is_set =
            |binder: &mut Self, register: &Register| set.contains(register) || binder.level().sets(*register);
        let answers = |applied: &[Applied]| applied.iter().flat_map(Applied::targets).collect::<Vec<_>>();
        let mut kept = answers(&after);
        if !grouped {
            kept.extend(answers(&before));
            kept.extend(self.level().relations.iter().flat_map(Relation::set_registers));
        } else {
            kept.extend(sets.iter().flat_map(|set| &set.marks).map(|(register, _)| *register));
            kept.extend(keys.iter().map(|(register, _)| *register));
            kept.extend(aggregates.iter().map(|aggregate| aggregate.target));
        }
        let mut plan = apply_all(before, plan);
        if grouped {
            let form = |(index, (register, _)): (usize, &(Register, Expression))| {
                let (value, ty) = (Expression::Register(*register), self.registers[register.0 as usize]);
                let form = compared_form(value.clone(), ty);
                (form != value).then_some((index, form))
            };
            let forms = keys.iter().enumerate().filter_map(form).collect();
            plan = Plan::Group { input: Box::new(plan), keys, forms, aggregates, sets };
        }
        plan = apply_all(after, plan);
        if let Some(having) = having {
            plan = plan.filter(having);
        }
        plan = apply_all(last, windowed(plan, windows, kept));
        let mut columns: Vec<OutputColumn> = Vec::new();
        let mut values = Vec::new();
        for (name, value, ty) in outputs {
            let known = Self::register_of(&value).filter(|known| is_set(self, known));
            let register = match known.filter(|known| !columns.iter().any(|other| other.register == *known)) {
                Some(register) => register,
                None => {
                    let register = self.new_register(ty);
                    self.note_value(register, &value);
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
                // DISTINCT ON compares the values after the sort, so the sort must keep their registers.
                on.into_iter()
                    .map(|value| {
                        let known = Self::register_of(&value).filter(|known| is_set(self, known));
                        let register = known.unwrap_or_else(|| {
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
                let form =
                    |column: &OutputColumn| compared_form(Expression::Register(column.register), column.ty);
                let values = columns.iter().map(form).collect();
                plan = Plan::Distinct { input: Box::new(plan), values };
                Vec::new()
            }
            Distinct::No => Vec::new(),
        };
        let Tail { offset, limit, has_ties, ahead, .. } = tail;
        let mut ties = Vec::new();
        for key in order.iter_mut().filter(|_| has_ties) {
            // WITH TIES compares the keys after the sort, so the sort must keep their registers.
            let known = Self::register_of(&key.value).filter(|known| registers.contains(known));
            let register = known.unwrap_or_else(|| {
                let register = self.new_register(ScalarType::Text);
                values.push((register, key.value.clone()));
                registers.push(register);
                register
            });
            key.value = Expression::Register(register);
            ties.push(key.clone());
        }
        plan = compute(plan, values);
        registers.extend(held.tables.iter().map(|table| table.handle));
        if !order.is_empty() && !is_sorted {
            // If a later node removes rows, the sort cannot stop after the rows that LIMIT needs.
            let is_whole = !on.is_empty() || has_ties || matches!(held.rows, HeldRows::Skip { .. });
            let wanted = if is_whole { [None, None] } else { [offset.clone(), limit.clone()] };
            plan = Plan::Sort { input: Box::new(plan), keys: order, registers, wanted };
        }
        if !on.is_empty() {
            plan = Plan::Distinct { input: Box::new(plan), values: on };
        }
        if !held.tables.is_empty() {
            let Held { tables, rows } = held;
            plan = Plan::Hold { input: Box::new(plan), tables, held: rows };
        }
        let plan = apply_ahead(ahead, limited(plan, [offset, limit], ties));
        Bound { plan, columns, literals, nodes }
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

/// Returns a plan that computes windows, one after the other. `registers` are the registers that the input
/// sets for each row.
fn windowed(mut plan: Plan, windows: Vec<WindowOrder>, mut registers: Vec<Register>) -> Plan {
    let mut seen = HashSet::new();
    registers.retain(|register| seen.insert(*register));
    for WindowOrder { keys, partitions, calls } in windows {
        let kept = registers.clone();
        registers.extend(calls.iter().map(|call| call.target));
        plan = Plan::Window(Box::new(Window { input: plan, keys, partitions, calls, registers: kept }));
    }
    plan
}

/// Returns a plan that skips `offset` rows and returns at most `limit` rows. If `ties` are given, it also
/// returns the further rows with the same values of these keys as the last one.
pub(super) fn limited(plan: Plan, [offset, limit]: [Option<Expression>; 2], ties: Vec<SortKey>) -> Plan {
    if offset.is_none() && limit.is_none() {
        return plan;
    }
    Plan::Limit { input: Box::new(plan), offset, limit, ties }
}
