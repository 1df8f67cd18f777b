//! WITH, VALUES, and the set operations UNION, INTERSECT and EXCEPT.

use super::select::{Tail, limited};
use super::{Binder, Bound, Level, Named, Queries, Relation, Rows, apply_ahead, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::json::compared_form;
use catalog::{TableId, Type};
use procedure::query::{Combination, OutputColumn, Plan, SlotId};
use procedure::{Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::HashMap;

/// The plans of WITH, with the slots and registers of their rows. They run before the statement's plan.
pub(super) type NamedPlans = Vec<(SlotId, Plan, Vec<Register>)>;

impl Queries {
    /// Returns the number of named queries in scope.
    pub(super) fn names(&self) -> usize {
        self.named.len()
    }

    pub(super) fn forget_names(&mut self, names: usize) {
        self.named.truncate(names);
    }
}

impl Binder<'_> {
    pub(crate) fn bind_variant(&mut self, query: &ast::SelectVariant) -> Result<Bound, StatementError> {
        match query {
            ast::SelectVariant::Select(select) => self.bind_select_level(select),
            ast::SelectVariant::ParenSelect(paren) => {
                let inner = self.part(paren.select(), paren.syntax())?;
                let names = self.queries.names();
                let named = self.bind_with(paren.with_clause())?;
                let bound = self.bind_variant(&inner);
                let bound = bound.and_then(|bound| self.bind_tail_of(bound, paren));
                self.queries.forget_names(names);
                self.with(named, bound?, paren.syntax())
            }
            ast::SelectVariant::CompoundSelect(compound) => self.bind_compound(compound),
            ast::SelectVariant::Values(values) => self.bind_values(values),
            ast::SelectVariant::Table(table) => {
                let path = table.relation_name().and_then(|name| name.relation_name_ref());
                let path = self.part(path.and_then(|name| name.path_ref()), table.syntax())?;
                let node = table.syntax();
                let name = crate::types::object_name(&path);
                let alias = crate::types::last_name(&path);
                self.push_level(node)?;
                let relation = self.add_stored(&name, (alias, Vec::new()), node);
                let bound = relation.and_then(|relation| {
                    let items = self.star_of_table(table)?;
                    let sources = vec![super::from::Source::Relation(relation)];
                    let (plan, _) = self.join_all(sources, Vec::new(), None)?;
                    let column = |(name, item, _): (String, Typed, SyntaxNode)| match item {
                        Typed::Known(Expression::Register(register), ty) => {
                            OutputColumn { name, ty, register }
                        }
                        _ => unreachable!("a column stands in a register"),
                    };
                    Ok(Bound { plan, columns: items.into_iter().map(column).collect(), ..Bound::default() })
                });
                self.queries.levels.pop();
                self.bind_tail_of(bound?, table)
            }
            ast::SelectVariant::SelectInto(select) => {
                Err(self.unsupported(select.syntax(), "SELECT INTO a table"))
            }
        }
    }

    /// Binds the queries of WITH. Their names are in scope until `forget_names`.
    pub(super) fn bind_with(
        &mut self,
        clause: Option<ast::WithClause>,
    ) -> Result<NamedPlans, StatementError> {
        let Some(clause) = clause else { return Ok(Vec::new()) };
        if self.queries.bound_with == Some(self.offset(clause.syntax())) {
            return Ok(Vec::new());
        }
        let mut plans = Vec::new();
        for table in clause.with_tables() {
            let node = table.syntax();
            let name = self.part(table.name(), node)?;
            let name = ast::normalize_name_node(name.syntax());
            let search = table.search_clause().map(|clause| clause.syntax().clone());
            if let Some(option) = search.or(table.cycle_clause().map(|clause| clause.syntax().clone())) {
                return Err(self.unsupported(&option, "SEARCH and CYCLE of WITH"));
            }
            let query = self.part(table.query(), node)?;
            let names = Self::column_names(table.column_list());
            let is_recursive = clause.recursive_token().is_some();
            let parts = if is_recursive { self.recursive_parts(&query, &name)? } else { None };
            let (bound, lowest) = self.referred(|binder| match parts {
                Some(parts) => binder.bind_recursive(&parts, &name, names.clone()),
                None => binder.bind_named(query, node),
            })?;
            let mut columns: Vec<(String, Type)> =
                bound.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
            self.rename(&mut columns, names, &name, node)?;
            let slot = self.new_slot();
            let registers: Vec<_> = bound.columns.iter().map(|column| column.register).collect();
            let origins = registers.iter().map(|register| self.origins.of(*register)).collect();
            plans.push((slot, bound.plan, registers));
            self.queries.named.push(Named { name, slot, columns, origins, lowest });
        }
        Ok(plans)
    }

    /// Binds a query of WITH.
    fn bind_named(&mut self, query: ast::WithQuery, node: &SyntaxNode) -> Result<Bound, StatementError> {
        match query {
            ast::WithQuery::Insert(insert) => self.bind_insert_plan(&insert),
            ast::WithQuery::Update(update) => self.bind_update_plan(&update),
            ast::WithQuery::Delete(delete) => self.bind_delete_plan(&delete),
            ast::WithQuery::Merge(merge) => Err(self.unsupported(merge.syntax(), "MERGE")),
            other => match ast::SelectVariant::cast(other.syntax().clone()) {
                Some(variant) => self.bind_variant(&variant),
                None => Err(self.unsupported(node, "this kind of WITH")),
            },
        }
    }

    /// Binds a query. Returns it with the lowest outer level that it refers to.
    fn referred(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<(Bound, Option<usize>), StatementError> {
        let depth = self.queries.levels.len();
        let before = self.queries.lowest.take();
        let bound = bind(self)?;
        let lowest = self.queries.lowest.take().filter(|lowest| *lowest < depth);
        self.queries.lowest = before;
        if let Some(level) = lowest {
            self.refer_to(level);
        }
        Ok((bound, lowest))
    }

    /// Returns a plan that runs named plans first. In PostgreSQL all parts of a statement see the same rows.
    /// So this refuses a statement that reads a table which an earlier named plan writes.
    pub(super) fn with(
        &self,
        named: NamedPlans,
        bound: Bound,
        node: &SyntaxNode,
    ) -> Result<Bound, StatementError> {
        if named.is_empty() {
            return Ok(bound);
        }
        for (index, (_, plan, _)) in named.iter().enumerate() {
            let written = tables_of(plan, true);
            let later = named.iter().enumerate().filter(|(other, _)| *other > index);
            let mut later = later.map(|(_, (_, other, _))| other).chain([&bound.plan]);
            if later.any(|other| tables_of(other, false).iter().any(|table| written.contains(table))) {
                return Err(self.unsupported(node, "reading a table that a query of WITH writes"));
            }
        }
        Ok(Bound { plan: with_named(named, bound.plan), ..bound })
    }

    /// Binds ORDER BY, OFFSET and LIMIT of a bound query. ORDER BY may name its columns.
    pub(super) fn bind_tail_of(
        &mut self,
        bound: Bound,
        query: &impl HasSelectTail,
    ) -> Result<Bound, StatementError> {
        let Tail { sorts, offset, limit, has_ties, ahead } = self.bind_tail(query)?;
        let mut ties = Vec::new();
        let Bound { mut plan, columns, literals, nodes } = bound;
        if !sorts.is_empty() {
            let names = columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
            let registers: Vec<_> = columns.iter().map(|column| column.register).collect();
            let rows = Rows::Plan { plan: None, registers: registers.clone(), lateral: 0, outer: false };
            let relation = Relation { alias: String::new(), columns: names, rows, is_plain: true, hidden: 0 };
            self.queries.levels.push(Level { relations: vec![relation], ..Level::default() });
            let keys: Result<Vec<_>, StatementError> = sorts
                .iter()
                .map(|sort| {
                    let node = sort.expression.syntax();
                    let position = self.position_in_list(&sort.expression, "ORDER BY")?;
                    let (value, ty) = match position {
                        Some(position) => match position.of(&columns) {
                            Some(column) => (Expression::Register(column.register), column.ty),
                            None => return Err(self.no_position(position, "ORDER BY", node)),
                        },
                        None => {
                            let typed = self.bind(&sort.expression)?;
                            self.settle(typed, None, node)?
                        }
                    };
                    self.check_compared(ty, "ordering", node)?;
                    Ok(self.sort_key(value, ty, (sort.descending, sort.nulls_first)))
                })
                .collect();
            self.queries.levels.pop();
            let keys = keys?;
            let wanted = if has_ties { [None, None] } else { [offset.clone(), limit.clone()] };
            ties = if has_ties { keys.clone() } else { Vec::new() };
            plan = Plan::Sort { input: Box::new(plan), keys, registers, wanted };
        }
        let plan = apply_ahead(ahead, limited(plan, [offset, limit], ties));
        Ok(Bound { plan, columns, literals, nodes })
    }

    fn bind_compound(&mut self, compound: &ast::CompoundSelect) -> Result<Bound, StatementError> {
        let node = compound.syntax();
        // WITH belongs to the first SELECT in the grammar, but its names are in scope for all of them.
        let names = self.queries.names();
        let bound = self.bind_combined(compound, node);
        self.queries.forget_names(names);
        self.bind_tail_of(bound?, compound)
    }

    fn bind_combined(
        &mut self,
        compound: &ast::CompoundSelect,
        node: &SyntaxNode,
    ) -> Result<Bound, StatementError> {
        let (left, right) = (self.part(compound.lhs(), node)?, self.part(compound.rhs(), node)?);
        let operator = self.part(compound.op(), node)?;
        let with = first_with(&left);
        let offset = with.as_ref().map(|clause| self.offset(clause.syntax()));
        let named = self.bind_with(with)?;
        let (left, right) = self.bind_operands(&left, &right, offset)?;
        let text = operator.syntax().text().to_string().to_uppercase();
        let construct = text.split_whitespace().next().unwrap_or_default();
        if left.columns.len() != right.columns.len() {
            let message = format!("each {construct} query must have the same number of columns");
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        let (mut columns, mut values) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut literals = HashMap::new();
        for (column, a) in left.columns.iter().enumerate() {
            let pair = vec![left.typed(column), right.typed(column)];
            if let [Typed::Null, Typed::Null] = pair.as_slice() {
                literals.insert(column, Typed::Null);
            }
            let has_null = pair.iter().any(|item| matches!(item, Typed::Null));
            let (items, ty) = self.unify(construct, pair, node)?;
            let register = self.new_register(ty);
            if has_null || items.iter().any(|item| self.origins.is_computed(item, ty)) {
                self.origins.note_computed(register, ty);
            }
            for (side, item) in values.iter_mut().zip(items) {
                side.push((register, item));
            }
            columns.push(OutputColumn { name: a.name.clone(), ty, register });
        }
        let [left_values, right_values] = values;
        let inputs = [compute(left.plan, left_values), compute(right.plan, right_values)];
        let all = text.ends_with("ALL");
        for column in &columns {
            match construct {
                "UNION" if all => {}
                "UNION" => self.check_compared(column.ty, "equality", node)?,
                _ => self.check_grouped(column.ty, node)?,
            }
        }
        let registers: Vec<Register> = columns.iter().map(|column| column.register).collect();
        let plan = if construct == "UNION" {
            let union = Plan::Union { inputs: inputs.into() };
            let form =
                |column: &OutputColumn| compared_form(Expression::Register(column.register), column.ty);
            let values = columns.iter().map(form).collect();
            if all { union } else { Plan::Distinct { input: Box::new(union), values } }
        } else {
            let combination =
                if construct == "INTERSECT" { Combination::Intersect } else { Combination::Except };
            Plan::Combine { combination, all, inputs: Box::new(inputs), registers }
        };
        self.with(named, Bound { plan, columns, literals, nodes: Vec::new() }, node)
    }

    /// Binds the operands of a set operation. A parameter without a type in the list of one has the type of
    /// the other's column. `with` is the offset of the WITH clause that belongs to both.
    fn bind_operands(
        &mut self,
        left: &ast::SelectVariant,
        right: &ast::SelectVariant,
        with: Option<usize>,
    ) -> Result<(Bound, Bound), StatementError> {
        let bind_left = |binder: &mut Self| {
            let outer = std::mem::replace(&mut binder.queries.bound_with, with);
            let left = binder.bind_variant(left);
            binder.queries.bound_with = outer;
            left
        };
        let is_select = |operand| matches!(operand, &ast::SelectVariant::Select(_));
        if is_select(left) && self.lists_open_parameter(left) {
            let right = self.bind_variant(right)?;
            self.queries.wanted = right.types();
            return Ok((bind_left(self)?, right));
        }
        let left = bind_left(self)?;
        if is_select(right) {
            self.queries.wanted = left.types();
        }
        Ok((left, self.bind_variant(right)?))
    }

    /// Returns whether the list of a SELECT has a parameter without a type.
    fn lists_open_parameter(&self, operand: &ast::SelectVariant) -> bool {
        let ast::SelectVariant::Select(select) = operand else { return false };
        let list = select.select_clause().and_then(|clause| clause.target_list());
        list.into_iter().flat_map(|list| list.targets()).any(|target| match target.expr() {
            Some(ast::Expr::Literal(literal)) => {
                let name = literal.syntax().text().to_string();
                let position = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
                let position = position.and_then(|number| number.checked_sub(1));
                let parameters = self.parameters.borrow();
                position.is_some_and(|position| matches!(parameters.get(position), Some(None)))
            }
            _ => false,
        })
    }

    fn bind_values(&mut self, values: &ast::Values) -> Result<Bound, StatementError> {
        let node = values.syntax();
        let names = self.queries.names();
        let named = self.bind_with(values.with_clause())?;
        let list: Vec<_> = values.row_list().into_iter().flat_map(|list| list.rows()).collect();
        let mut columns: Vec<Vec<Typed>> = Vec::new();
        let bind = |binder: &mut Self| {
            for (row_index, row) in list.iter().enumerate() {
                let mut width = 0;
                for (column, item) in binder.row_items(row.exprs()).into_iter().enumerate() {
                    let bound = binder.bind_row_item(item)?;
                    if row_index == 0 {
                        columns.push(Vec::new());
                    }
                    match columns.get_mut(column) {
                        Some(column) => column.push(bound),
                        None => return Err(binder.syntax(node, "VALUES lists must all be the same length")),
                    }
                    width += 1;
                }
                if width != columns.len() {
                    return Err(binder.syntax(node, "VALUES lists must all be the same length"));
                }
            }
            Ok(())
        };
        let width = list.first().map_or(0, |row| row.exprs().count());
        self.check_targets(width, node)?;
        let ((), applied) = self.applying(bind)?;
        let (mut rows, mut outputs) = (vec![Vec::new(); list.len()], Vec::new());
        for (index, column) in columns.into_iter().enumerate() {
            let (values, ty) = self.unify("VALUES", column, node)?;
            let is_computed = values.iter().any(|value| self.origins.is_computed(value, ty));
            rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
            let register = self.new_register(ty);
            if is_computed {
                self.origins.note_computed(register, ty);
            }
            outputs.push(OutputColumn { name: format!("column{}", index + 1), ty, register });
        }
        let registers = outputs.iter().map(|column| column.register).collect();
        let plan = apply_ahead(applied, Plan::Values { registers, rows });
        let bound = self.bind_tail_of(Bound { plan, columns: outputs, ..Bound::default() }, values);
        self.queries.forget_names(names);
        self.with(named, bound?, node)
    }
}

/// Returns a plan that runs named plans first. If the plan reads each row of a recursive query once, the
/// recursive plan replaces the node that reads them, so that a LIMIT ends the recursion.
fn with_named(mut named: NamedPlans, mut plan: Plan) -> Plan {
    if let [(slot, recursive @ Plan::Recursive(_), registers)] = named.as_mut_slice()
        && let Some(node) = only_reader(&mut plan, *slot)
        && let Plan::Named { registers: outputs, .. } = node
    {
        let values = registers.iter().map(|register| Expression::Register(*register));
        let values = outputs.iter().copied().zip(values).collect();
        *node = compute(std::mem::take(recursive), values);
        return plan;
    }
    Plan::With { named, input: Box::new(plan) }
}

/// Returns the node that reads the rows of a slot, if all nodes above it read each row once.
fn only_reader(plan: &mut Plan, slot: SlotId) -> Option<&mut Plan> {
    match plan {
        Plan::Named { slot: read, .. } if *read == slot => Some(plan),
        Plan::Compute { input, .. }
        | Plan::Filter { input, .. }
        | Plan::Limit { input, .. }
        | Plan::Distinct { input, .. } => only_reader(input, slot),
        _ => None,
    }
}

/// Returns the tables that a plan writes, or those that it reads.
fn tables_of(plan: &Plan, writes: bool) -> Vec<TableId> {
    let mut tables = Vec::new();
    plan.walk(&mut |node| {
        tables.extend(
            node.own_table().filter(|(_, is_written)| *is_written == writes).map(|(table, _)| table.id),
        );
    });
    tables
}

/// Returns the WITH clause at the beginning of a query.
fn first_with(query: &ast::SelectVariant) -> Option<ast::WithClause> {
    match query {
        ast::SelectVariant::Select(select) => select.with_clause(),
        ast::SelectVariant::CompoundSelect(compound) => first_with(&compound.lhs()?),
        ast::SelectVariant::Values(values) => values.with_clause(),
        _ => None,
    }
}
