//! SELECT from one table.

use crate::binder::{Binder, RowScope, Typed};
use crate::error::StatementError;
use crate::operators::compare_class;
use crate::path::WantedOrder;
use crate::types::last_name;
use catalog::ScalarType;
use procedure::{Expression, Register, Select, SortKey, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::HashMap;

/// A bound SELECT: its columns by name, and the rows they come from, if any.
pub(crate) struct BoundSelect {
    pub(crate) items: Vec<(String, Typed, SyntaxNode)>,
    /// Without FROM there is one row of expressions and no operation.
    pub(crate) rows: Option<Select>,
}

struct Sort {
    expression: ast::Expr,
    descending: bool,
    nulls_first: bool,
}

impl Binder<'_> {
    /// The table behind a reference in FROM and the name that it goes by there.
    pub(crate) fn enter_row(
        &mut self,
        path: Option<ast::PathRef>,
        alias: Option<String>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let path = self.part(path, node)?;
        let name = last_name(&path);
        let table = self.table(&name, path.syntax())?;
        let registers = self.row_registers(&table);
        self.row = Some(RowScope {
            table,
            alias: alias.unwrap_or(name),
            registers,
            used: Vec::new(),
            is_point: false,
            choices: Vec::new(),
            known: HashMap::new(),
        });
        Ok(())
    }

    pub(crate) fn bind_select(&mut self, select: &ast::Select) -> Result<BoundSelect, StatementError> {
        let node = select.syntax();
        for (present, what) in [
            (select.with_clause().is_some(), "WITH"),
            (select.group_by_clause().is_some(), "GROUP BY"),
            (select.having_clause().is_some(), "HAVING"),
            (select.window_clause().is_some(), "WINDOW"),
            (select.fetch_clause().is_some(), "FETCH FIRST (use LIMIT)"),
        ] {
            if present {
                return Err(self.unsupported(node, what));
            }
        }
        let clause = self.part(select.select_clause(), node)?;
        let distinct = match clause.select_quantifier() {
            Some(ast::SelectQuantifier::DistinctClause(distinct)) if distinct.distinct_on().is_some() => {
                return Err(self.unsupported(distinct.syntax(), "DISTINCT ON"));
            }
            Some(ast::SelectQuantifier::DistinctClause(_)) => true,
            _ => false,
        };
        let Some(from) = select.from_clause() else {
            let items = self.bind_targets(clause.target_list(), node)?;
            return Ok(BoundSelect { items, rows: None });
        };
        let offset = select.offset_clause().and_then(|clause| clause.expr());
        let limit = select.limit_clause().and_then(|clause| match clause.limit_value() {
            Some(ast::LimitValue::Expr(count)) => Some(count),
            _ => None,
        });
        let offset = offset.map(|count| self.bind_as(&count, ScalarType::BigInt)).transpose()?;
        let limit = limit.map(|count| self.bind_as(&count, ScalarType::BigInt)).transpose()?;
        self.enter_from(&from)?;
        let lifted = self.lifted.take();
        let bound = self.bind_rows(select, &clause, distinct, offset, limit);
        self.lifted = lifted;
        self.row = None;
        bound
    }

    fn enter_from(&mut self, from: &ast::FromClause) -> Result<(), StatementError> {
        let mut items = from.items();
        match (items.next(), items.next()) {
            (Some(ast::FromListItem::FromItem(ast::FromItem::RelationFromItem(relation))), None) => {
                let alias = relation.alias().and_then(|alias| alias.name());
                let alias = alias.map(|name| ast::normalize_name_node(name.syntax()));
                let path = relation.relation_name_ref().and_then(|name| name.path_ref());
                self.enter_row(path, alias, relation.syntax())
            }
            (_, Some(second)) => Err(self.unsupported(second.syntax(), "a join")),
            (Some(ast::FromListItem::JoinExpr(join)), None) => Err(self.unsupported(join.syntax(), "a join")),
            _ => Err(self.unsupported(from.syntax(), "this kind of FROM")),
        }
    }

    fn bind_rows(
        &mut self,
        select: &ast::Select,
        clause: &ast::SelectClause,
        distinct: bool,
        offset: Option<Expression>,
        limit: Option<Expression>,
    ) -> Result<BoundSelect, StatementError> {
        let node = select.syntax();
        let sorts = self.sorts(select)?;
        let wanted = self.wanted_order(&sorts);
        let condition = select.where_clause().and_then(|clause| clause.expr());
        let (mut access, ordered) = self.bind_access(condition, wanted.as_ref())?;
        self.aggregates = Some(Vec::new());
        let items = self.bind_targets(clause.target_list(), node);
        let aggregates = self.aggregates.take().unwrap_or_default();
        let items = items?;
        let mut order = Vec::new();
        if aggregates.is_empty() {
            if !(ordered && wanted.is_some()) {
                order = self.bind_sorts(&sorts, &items)?;
            }
        } else {
            self.refuse_plain_columns(&items)?;
        }
        if distinct && !order.is_empty() {
            return Err(self.unsupported(node, "DISTINCT with an ORDER BY that no index gives"));
        }
        self.finish_access(&mut access);
        let rows =
            Select { access, aggregates, outputs: Vec::new(), distinct, order, offset, limit, strict: false };
        Ok(BoundSelect { items, rows: Some(rows) })
    }

    /// Beside aggregates only what they give may stand, as there is no GROUP BY.
    fn refuse_plain_columns(&self, items: &[(String, Typed, SyntaxNode)]) -> Result<(), StatementError> {
        let Some(row) = &self.row else { return Ok(()) };
        let columns = row.registers.0..row.registers.0 + row.table.columns.len() as u32;
        for (_, item, node) in items {
            let Typed::Known(expression, _) = item else { continue };
            let mut plain = false;
            expression.walk(&mut |part| {
                plain |= Self::register_of(part).is_some_and(|register| columns.contains(&register.0));
            });
            if plain {
                let message = "a column must appear in an aggregate function here";
                return Err(self.error(node, SqlError::new("42803", message)));
            }
        }
        Ok(())
    }

    /// The items of a SELECT list or RETURNING.
    pub(crate) fn bind_targets(
        &mut self,
        list: Option<ast::TargetList>,
        node: &SyntaxNode,
    ) -> Result<Vec<(String, Typed, SyntaxNode)>, StatementError> {
        let mut items = Vec::new();
        for target in list.into_iter().flat_map(|list| list.targets()) {
            let Some(expression) = target.expr() else {
                let Some(table) = self.row.as_ref().map(|row| std::sync::Arc::clone(&row.table)) else {
                    return Err(self.syntax(target.syntax(), "SELECT * needs a FROM"));
                };
                for (place, column) in table.columns.iter().enumerate() {
                    let register = self.column_register(place);
                    let typed = Typed::Known(Expression::Register(register), column.ty.into());
                    items.push((column.name.clone(), typed, node.clone()));
                }
                continue;
            };
            let alias = target.as_name().and_then(|name| name.name()).map(|name| name.text());
            let name = alias.unwrap_or_else(|| match &expression {
                ast::Expr::NameRef(name) => name.text(),
                ast::Expr::FieldExpr(field) => field.field().map(|name| name.text()).unwrap_or_default(),
                ast::Expr::CallExpr(call) => match call.expr() {
                    Some(ast::Expr::NameRef(name)) => name.text(),
                    _ => "?column?".into(),
                },
                _ => "?column?".into(),
            });
            let bound = self.bind(&expression)?;
            items.push((name, bound, expression.syntax().clone()));
        }
        Ok(items)
    }

    fn sorts(&self, select: &ast::Select) -> Result<Vec<Sort>, StatementError> {
        let list = select.order_by_clause().and_then(|clause| clause.sort_by_list());
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

    /// The order as columns, when it is one that an index could give.
    fn wanted_order(&self, sorts: &[Sort]) -> Option<WantedOrder> {
        let table = &self.row.as_ref()?.table;
        if sorts.is_empty() {
            return None;
        }
        sorts
            .iter()
            .map(|sort| {
                let column = self.plain_column(&sort.expression, table)?;
                let natural = !table.columns[column].nullable || sort.nulls_first == sort.descending;
                natural.then_some((column, sort.descending))
            })
            .collect()
    }

    fn bind_sorts(
        &mut self,
        sorts: &[Sort],
        items: &[(String, Typed, SyntaxNode)],
    ) -> Result<Vec<SortKey>, StatementError> {
        let mut keys = Vec::new();
        for sort in sorts {
            let node = sort.expression.syntax();
            let item = match &sort.expression {
                ast::Expr::Literal(literal) => {
                    let place = literal.syntax().text().to_string().parse::<usize>().ok();
                    match place.and_then(|place| items.get(place.wrapping_sub(1))) {
                        Some((_, item, _)) => Some(item.clone()),
                        None => return Err(self.unsupported(node, "ORDER BY of a constant")),
                    }
                }
                ast::Expr::NameRef(name) => {
                    let name = name.text();
                    items.iter().find(|(item, ..)| *item == name).map(|(_, item, _)| item.clone())
                }
                _ => None,
            };
            let item = match item {
                Some(item) => item,
                None => self.bind(&sort.expression)?,
            };
            let (value, ty) = self.settle(item, None, node)?;
            let class = compare_class(ty.element());
            keys.push(SortKey { value, class, descending: sort.descending, nulls_first: sort.nulls_first });
        }
        Ok(keys)
    }

    /// Sends the items of a SELECT or RETURNING to targets, converted to their types.
    pub(crate) fn outputs(
        &self,
        items: Vec<(String, Typed, SyntaxNode)>,
        targets: &[(Register, catalog::Type)],
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Expression)>, StatementError> {
        if items.len() != targets.len() {
            let message =
                format!("INTO has {} targets, but there are {} columns", targets.len(), items.len());
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        items
            .into_iter()
            .zip(targets)
            .map(|((_, item, node), (target, ty))| Ok((*target, self.coerce(item, *ty, false, &node)?)))
            .collect()
    }
}
