//! Views that are automatically updatable: those of one table or view whose rows are rows of it.
//!
//! Source: PostgreSQL, `view_query_is_auto_updatable` in rewriteHandler.c.
//! Not here: how a statement writes through such a view (`plan/target.rs`).

use crate::aggregates::is_aggregate;
use crate::called_names::{called_name, in_catalog};
use crate::oids::table_oid;
use crate::plan::returns_set;
use crate::schema::{Schema, View};
use crate::simple_view::{DELETED, INSERTED, Shown, ShownValue, SimpleView, UPDATED};
use crate::types::{last_name, object_name};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::BTreeSet;

/// Maximum number of views over each other.
const MOST_VIEWS: usize = 64;

const NOT_SINGLE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Returns the calls of an expression, without those of its subqueries.
fn calls_in(node: &SyntaxNode) -> Vec<ast::CallExpr> {
    if ast::SelectVariant::can_cast(node.kind()) {
        return Vec::new();
    }
    let call = ast::CallExpr::cast(node.clone());
    call.into_iter().chain(node.children().flat_map(|child| calls_in(&child))).collect()
}

impl Schema {
    /// Returns the kind of function in the targets of a query that makes its rows different from those of
    /// the relation; `None` if there is none.
    fn reason_of_calls(&self, select: &ast::Select) -> Option<&'static str> {
        let targets = select.select_clause().and_then(|clause| clause.target_list());
        let calls = targets.iter().flat_map(|list| calls_in(list.syntax()));
        let calls: Vec<_> = calls.map(|call| (called_name(&call).unwrap_or_default(), call)).collect();
        let has_window = calls.iter().any(|(_, call)| call.over_clause().is_some());
        let aggregates = |(name, call): &(String, ast::CallExpr)| {
            call.over_clause().is_none() && is_aggregate(in_catalog(name))
        };
        let returns_rows = |name: &str| match self.procedure(name) {
            Some(routine) => routine.rows.is_some(),
            None => returns_set(name),
        };
        if calls.iter().any(aggregates) {
            Some("Views that return aggregate functions are not automatically updatable.")
        } else if has_window {
            Some("Views that return window functions are not automatically updatable.")
        } else if calls.iter().any(|(name, _)| returns_rows(in_catalog(name))) {
            Some("Views that return set-returning functions are not automatically updatable.")
        } else {
            None
        }
    }

    /// Returns the only relation of a query whose rows are rows of it, or the reason why it has none.
    fn base_of(&self, select: &ast::Select) -> Result<ast::RelationFromItem, &'static str> {
        let quantifier = select.select_clause().and_then(|clause| clause.select_quantifier());
        if matches!(quantifier, Some(ast::SelectQuantifier::DistinctClause(_))) {
            return Err("Views containing DISTINCT are not automatically updatable.");
        }
        if select.group_by_clause().is_some() {
            return Err("Views containing GROUP BY are not automatically updatable.");
        }
        if select.having_clause().is_some() {
            return Err("Views containing HAVING are not automatically updatable.");
        }
        if select.with_clause().is_some() {
            return Err("Views containing WITH are not automatically updatable.");
        }
        let is_limited = select.limit_clause().is_some() || select.fetch_clause().is_some();
        if is_limited || select.offset_clause().is_some() {
            return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
        }
        if let Some(reason) = self.reason_of_calls(select) {
            return Err(reason);
        }
        let items: Vec<_> = select.from_clause().into_iter().flat_map(|from| from.items()).collect();
        let [ast::FromListItem::FromItem(ast::FromItem::RelationFromItem(relation))] = items.as_slice()
        else {
            return Err(NOT_SINGLE);
        };
        match relation.tablesample_clause() {
            Some(_) => Err("Views containing TABLESAMPLE are not automatically updatable."),
            None => Ok(relation.clone()),
        }
    }

    /// Returns the names of the columns of a table or view; `None` for any other relation.
    fn columns_of(&self, relation: &str) -> Option<Vec<String>> {
        if let Some(view) = self.view(relation) {
            return Some(self.view_columns(view).into_iter().map(|(name, _)| name).collect());
        }
        let table = self.catalog().table(relation).ok().filter(|table| table.sequence.is_none())?;
        Some(table.visible().iter().map(|column| column.name.clone()).collect())
    }

    /// Returns a view as one whose rows are rows of a table or view below it, or the reason why it is not
    /// such a view.
    pub(crate) fn simple_view(&self, view: &View) -> Result<SimpleView, &'static str> {
        let source = self.trees.parse(&view.query).map_err(|_| NOT_SINGLE)?;
        let mut query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast);
        while let Some(ast::SelectVariant::ParenSelect(paren)) = &query
            && paren.with_clause().is_none()
            && paren.tail_clauses().next().is_none()
        {
            query = paren.select();
        }
        let select = match query {
            Some(ast::SelectVariant::Select(select)) => select,
            Some(ast::SelectVariant::CompoundSelect(_)) => {
                return Err("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
            }
            _ => return Err(NOT_SINGLE),
        };
        let relation = self.base_of(&select)?;
        let path = relation.relation_name_ref().and_then(|name| name.path_ref()).ok_or(NOT_SINGLE)?;
        let base = object_name(&path);
        let mut below = self.columns_of(&base).ok_or(NOT_SINGLE)?;
        let alias = relation.alias().and_then(|alias| alias.name());
        let alias = alias.map_or_else(|| last_name(&path), |name| ast::normalize_name_node(name.syntax()));
        let names = match relation.alias().and_then(|alias| alias.columns()) {
            Some(ast::FromAliasColumns::ColumnList(list)) => {
                list.column_names().map(|name| name.text()).collect()
            }
            _ => Vec::new(),
        };
        below.iter_mut().zip(&names).for_each(|(column, name)| column.clone_from(name));
        let targets = select.select_clause().and_then(|clause| clause.target_list());
        let values = targets.iter().flat_map(|list| list.targets()).flat_map(|target| {
            let is_star = |field: &ast::FieldExpr| field.star_token().is_some();
            match target.expr() {
                None => (0..below.len()).map(ShownValue::Column).collect(),
                Some(ast::Expr::FieldExpr(field)) if is_star(&field) => {
                    (0..below.len()).map(ShownValue::Column).collect()
                }
                Some(expression) => vec![shown(expression, &alias, &below)],
            }
        });
        let columns = self.view_columns(view).into_iter().zip(values);
        let columns = columns.map(|((name, ty), value)| Shown { name, ty, value }).collect();
        let condition = select.where_clause().and_then(|clause| clause.expr());
        let (name, check, reads_as_invoker) = (view.name.clone(), view.check, view.reads_as_invoker());
        Ok(SimpleView { name, source, base, alias, names, columns, condition, check, reads_as_invoker })
    }

    /// Returns the events that can write some columns of a relation; `None`: any columns.
    pub(crate) fn events_of(&self, relation: &str, columns: Option<&BTreeSet<usize>>) -> i64 {
        self.events_within(relation, columns, 0)
    }

    /// Returns whether a column of a relation can be written.
    pub(crate) fn is_column_updatable(&self, relation: &str, column: usize) -> bool {
        let wanted = UPDATED | DELETED;
        self.events_of(relation, Some(&BTreeSet::from([column]))) & wanted == wanted
    }

    /// Returns the names of all tables and views, with their numbers.
    fn writable_relations(&self) -> impl Iterator<Item = (i64, &str)> {
        let tables = self.shown_tables().filter(|table| table.sequence.is_none());
        let tables = tables.map(|table| (table_oid(table), table.name.as_str()));
        tables.chain(self.views().map(|view| (self.view_oid(view), view.name.as_str())))
    }

    /// Returns the events that can write each relation, by its number: the result of
    /// `pg_relation_is_updatable`.
    pub(crate) fn updatable_relations(&self) -> Vec<(i64, String)> {
        let events = |(oid, name): (i64, &str)| (oid, self.events_of(name, None).to_string());
        self.writable_relations().map(events).collect()
    }

    /// Returns the numbers and positions, from 1, of the columns that can be written.
    pub(crate) fn updatable_columns(&self) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        for (oid, name) in self.writable_relations() {
            let width = self.columns_of(name).map_or(0, |columns| columns.len());
            let columns = (0..width).filter(|column| self.is_column_updatable(name, *column));
            all.extend(columns.map(|column| (oid, column as i64 + 1)));
        }
        all
    }

    fn events_within(&self, relation: &str, wanted: Option<&BTreeSet<usize>>, depth: usize) -> i64 {
        let Some(view) = self.view(relation) else {
            let is_table = self.catalog().table(relation).is_ok_and(|table| table.sequence.is_none());
            return if is_table { INSERTED | UPDATED | DELETED } else { 0 };
        };
        let Ok(simple) = self.simple_view(view) else { return 0 };
        if depth >= MOST_VIEWS {
            return 0;
        }
        let all =
            (0..simple.columns.len()).filter(|column| wanted.is_none_or(|wanted| wanted.contains(column)));
        let below: BTreeSet<usize> = all.filter_map(|column| simple.below(column)).collect();
        let events = if below.is_empty() { DELETED } else { INSERTED | UPDATED | DELETED };
        events & self.events_within(&simple.base, Some(&below), depth + 1)
    }
}

/// Returns what a target of a view shows of the relation `alias` with some columns.
fn shown(expression: ast::Expr, alias: &str, columns: &[String]) -> ShownValue {
    let mut inner = Some(expression.clone());
    while let Some(ast::Expr::ParenExpr(paren)) = &inner {
        inner = paren.expr();
    }
    let name = match inner {
        Some(ast::Expr::NameRef(name)) => Some(name.text()),
        Some(ast::Expr::FieldExpr(field)) => match field.base() {
            Some(ast::Expr::NameRef(base)) if base.text() == alias => field.field().map(|name| name.text()),
            _ => None,
        },
        _ => None,
    };
    let index = name.and_then(|name| columns.iter().position(|column| *column == name));
    index.map_or(ShownValue::Computed(expression), ShownValue::Column)
}
