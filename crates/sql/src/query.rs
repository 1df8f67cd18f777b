//! SELECT from one table.

use crate::binder::{Binder, RowScope, Typed};
use crate::error::StatementError;
use crate::expression::calls_expandarray;
use crate::path::WantedOrder;
use crate::plan::is_simple;
use crate::plan::select::Sort;
use crate::types::object_name;
use catalog::ScalarType;
use procedure::query::{OutputColumn, Query};
use procedure::{
    Expression, Label, OperationId, OperationKind, QueryId, QueryTarget, Register, Select, SortKey, SqlError,
    Statement,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode, HasSelectTail};
use std::collections::HashMap;

/// Maximum number of columns of a result, as in PostgreSQL.
const MOST_TARGETS: usize = 1664;

/// The source of the rows of a SELECT.
pub(crate) enum SelectRows {
    /// One row of expressions, without an operation.
    One,
    /// One table.
    Table(Select),
    /// A query with a plan.
    Query(Query),
}

/// A bound SELECT: its columns by name, and the source of its rows.
pub(crate) struct BoundSelect {
    pub(crate) items: Vec<(String, Typed, SyntaxNode)>,
    pub(crate) rows: SelectRows,
}

/// The operation or query that reads the rows of a SELECT.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    Operation(OperationId),
    Query(QueryId),
}

impl Read {
    /// Returns the statement that runs it for its effect or for its first row.
    pub(crate) fn execute(self) -> Statement {
        match self {
            Self::Operation(operation) => Statement::Execute(operation),
            Self::Query(query) => Statement::Query(query),
        }
    }

    /// Returns the loop over its rows.
    pub(crate) fn repeat(self, label: Label, body: Vec<Statement>) -> Statement {
        match self {
            Self::Operation(operation) => Statement::ForRows { label, operation, body },
            Self::Query(query) => Statement::ForQuery { label, query, body },
        }
    }
}

impl Binder<'_> {
    /// Adds the operation or query that reads rows into outputs; `None` for one row of expressions.
    pub(crate) fn read(
        &mut self,
        rows: SelectRows,
        outputs: Vec<(Register, Expression)>,
        strict: bool,
        node: &SyntaxNode,
    ) -> Option<Read> {
        match rows {
            SelectRows::One => None,
            SelectRows::Table(select) => {
                let kind = OperationKind::Select(Select { outputs, strict, ..select });
                Some(Read::Operation(self.operation(kind, node)))
            }
            SelectRows::Query(query) => {
                let target = QueryTarget::Statement { outputs, strict };
                Some(Read::Query(self.query(query, target, node)))
            }
        }
    }

    /// Returns the table of a reference in FROM, with its alias.
    pub(crate) fn enter_row(
        &mut self,
        path: Option<ast::PathRef>,
        alias: Option<String>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let path = self.part(path, node)?;
        let name = object_name(&path);
        let table = self.table(&name, path.syntax())?;
        let own = table.short_name().to_owned();
        let registers = self.row_registers(&table);
        self.row = Some(RowScope {
            table,
            alias: alias.unwrap_or(own),
            registers,
            used: Vec::new(),
            is_point: false,
            choices: Vec::new(),
            known: HashMap::new(),
        });
        Ok(())
    }

    /// Refuses SKIP LOCKED, which is not supported. The remaining clauses need no code here, because every
    /// row that is read is validated or locked anyway.
    pub(crate) fn check_locking(&self, node: &SyntaxNode) -> Result<(), StatementError> {
        for clause in node.descendants().filter_map(ast::LockingClause::cast) {
            let wait = clause.lock_wait().map(|wait| wait.syntax().text().to_string().to_lowercase());
            if wait.is_some_and(|wait| wait.starts_with("skip")) {
                return Err(self.unsupported(clause.syntax(), "SKIP LOCKED"));
            }
        }
        Ok(())
    }

    /// Binds any query of a procedure.
    pub(crate) fn bind_rows_of(&mut self, query: &ast::SelectVariant) -> Result<BoundSelect, StatementError> {
        self.check_locking(query.syntax())?;
        if let ast::SelectVariant::Select(select) = query
            && is_simple(select, self.schema)
        {
            return self.bind_select(select);
        }
        let bound = self.bind_query(|binder| binder.bind_variant(query))?;
        Ok(Self::rows_of_query(bound, query.syntax()))
    }

    pub(crate) fn rows_of_query(query: Query, node: &SyntaxNode) -> BoundSelect {
        let item = |column: &OutputColumn| {
            let typed = Typed::Known(Expression::Register(column.register), column.ty);
            (column.name.clone(), typed, node.clone())
        };
        BoundSelect { items: query.columns.iter().map(item).collect(), rows: SelectRows::Query(query) }
    }

    /// Binds a SELECT that is one operation on one table.
    fn bind_select(&mut self, select: &ast::Select) -> Result<BoundSelect, StatementError> {
        let node = select.syntax();
        let clause = self.part(select.select_clause(), node)?;
        let distinct = matches!(clause.select_quantifier(), Some(ast::SelectQuantifier::DistinctClause(_)));
        let Some(from) = select.from_clause() else {
            let items = self.bind_targets(clause.target_list(), node)?;
            return Ok(BoundSelect { items, rows: SelectRows::One });
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
        let sorts = self.bind_sort_list(select.order_by_clause())?;
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
        self.finish_access(&mut access);
        let rows =
            Select { access, aggregates, outputs: Vec::new(), distinct, order, offset, limit, strict: false };
        Ok(BoundSelect { items, rows: SelectRows::Table(rows) })
    }

    /// Refuses columns outside of aggregates in a SELECT with aggregates and without GROUP BY.
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

    /// Binds the items of a SELECT list or RETURNING.
    pub(crate) fn bind_targets(
        &mut self,
        list: Option<ast::TargetList>,
        node: &SyntaxNode,
    ) -> Result<Vec<(String, Typed, SyntaxNode)>, StatementError> {
        let mut items = Vec::new();
        for target in list.into_iter().flat_map(|list| list.targets()) {
            self.check_targets(items.len(), node)?;
            if self.row.is_none() && !self.queries.levels.is_empty() {
                let star = match target.expr() {
                    None => Some(None),
                    Some(ast::Expr::FieldExpr(field)) if field.star_token().is_some() => match field.base() {
                        Some(ast::Expr::NameRef(base)) => Some(Some(base.text())),
                        _ => return Err(self.unsupported(target.syntax(), "this kind of reference")),
                    },
                    _ => None,
                };
                if let Some(qualifier) = star {
                    items.append(&mut self.star(qualifier.as_deref(), target.syntax())?);
                    continue;
                }
            }
            let Some(expression) = target.expr() else {
                let Some(table) = self.row.as_ref().map(|row| std::sync::Arc::clone(&row.table)) else {
                    return Err(self.syntax(target.syntax(), "SELECT * needs a FROM"));
                };
                for (place, column) in table.visible().iter().enumerate() {
                    let register = self.column_register(place);
                    let typed = Typed::Known(Expression::Register(register), column.ty.into());
                    items.push((column.name.clone(), typed, node.clone()));
                }
                continue;
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
            let bound = self.bind(&expression)?;
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

    /// Returns the order as columns, if an index could provide it.
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
            keys.push(self.sort_key(value, ty, (sort.descending, sort.nulls_first)));
        }
        Ok(keys)
    }

    /// Assigns the items of a SELECT or RETURNING to targets, converted to their types.
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
