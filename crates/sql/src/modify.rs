//! INSERT, UPDATE and DELETE.

use crate::binder::{Binder, RowScope, Typed};
use crate::error::StatementError;
use crate::plan::is_simple;
use crate::query::SelectRows;
use crate::schema::Schema;
use crate::source::Source;
use crate::types::object_name;
use catalog::{ScalarType, Table, Type};
use procedure::{Check, Expression, OperationKind, Register, SqlError, Statement, added_columns};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns whether a statement that writes consists of operations on one table, which the analysis supports.
pub(crate) fn is_simple_write(statement: &ast::Stmt, schema: &Schema) -> bool {
    let node = statement.syntax();
    let is_query = |node: SyntaxNode| ast::SelectVariant::can_cast(node.kind());
    let plain = |node: &SyntaxNode| !node.descendants().skip(1).any(is_query);
    match statement {
        ast::Stmt::Insert(insert) => {
            let source = insert.insert_source();
            let is_plain = match &source {
                Some(ast::InsertSource::DefaultValues(_)) => true,
                Some(ast::InsertSource::SelectVariant(ast::SelectVariant::Values(values))) => {
                    values.tail_clauses().next().is_none() && plain(values.syntax())
                }
                Some(ast::InsertSource::SelectVariant(ast::SelectVariant::Select(select))) => {
                    is_simple(select, schema)
                }
                _ => false,
            };
            let path = insert.relation_name_ref().and_then(|name| name.path_ref());
            let name = path.map(|path| object_name(&path)).unwrap_or_default();
            let table = schema.catalog().table(&name).ok();
            let references_itself = |table: &Arc<Table>| {
                table.foreign_keys.iter().any(|key| key.parent == table.name) || table.sequence.is_some()
            };
            is_plain
                && !table.is_some_and(references_itself)
                && insert.with_clause().is_none()
                && insert.on_conflict_clause().is_none()
                && insert.overriding_clause().is_none()
                && insert.alias().is_none()
                && insert.returning_clause().is_none_or(|clause| plain(clause.syntax()))
        }
        ast::Stmt::Update(update) => {
            let path = update.relation_name().and_then(|name| name.relation_name_ref());
            let name = path.and_then(|name| name.path_ref()).map(|path| object_name(&path));
            let table = name.and_then(|name| schema.catalog().table(&name).ok());
            let keys = table.and_then(|table| schema.foreign_keys_of(table));
            let columns = update.set_clause().and_then(|clause| clause.set_column_list());
            let is_plain_column = |column: ast::SetColumn| match column {
                ast::SetColumn::SetSingleColumn(single) => {
                    let name = single.column_target().and_then(|target| target.name());
                    let name = name.map(|name| ast::normalize_name_node(name.syntax())).unwrap_or_default();
                    let place = table.and_then(|table| table.column(&name));
                    !place.zip(table).is_some_and(|(place, table)| table.primary().columns.contains(&place))
                }
                ast::SetColumn::SetMultipleColumns(_) => false,
            };
            let mut columns = columns.into_iter().flat_map(|list| list.set_columns());
            columns.all(is_plain_column)
                && plain(node)
                && update.with_clause().is_none()
                && update.from_clause().is_none()
                && keys.is_none()
        }
        ast::Stmt::Delete(delete) => {
            let path = delete.relation_name().and_then(|name| name.relation_name_ref());
            let name = path.and_then(|name| name.path_ref()).map(|path| object_name(&path));
            let table = name.and_then(|name| schema.catalog().table(&name).ok());
            let is_referenced =
                |table: &Arc<Table>| schema.catalog().references_to(&table.name).next().is_some();
            plain(node)
                && delete.with_clause().is_none()
                && delete.using_clause().is_none()
                && !table.is_some_and(is_referenced)
        }
        _ => false,
    }
}

/// Targets of RETURNING … INTO.
pub(crate) type Targets = [(Register, Type)];

impl Binder<'_> {
    pub(crate) fn bind_insert(
        &mut self,
        insert: &ast::Insert,
        into: Option<&Targets>,
        statements: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = insert.syntax();
        let path = insert.relation_name_ref().and_then(|name| name.path_ref());
        let path = self.part(path, node)?;
        let table = self.table(&object_name(&path), path.syntax())?;
        self.refuse_sequence(&table, path.syntax())?;
        let mut columns = Vec::new();
        for target in insert.column_target_list().into_iter().flat_map(|list| list.column_targets()) {
            let name = self.part(target.name(), target.syntax())?;
            let column = self.column_of(&table, &ast::normalize_name_node(name.syntax()), name.syntax())?;
            if columns.contains(&column) {
                let message = format!("column \"{}\" specified more than once", table.columns[column].name);
                return Err(self.error(name.syntax(), SqlError::new("42701", message)));
            }
            columns.push(column);
        }
        if columns.is_empty() {
            columns = (0..table.visible().len()).collect();
        }
        match self.part(insert.insert_source(), node)? {
            ast::InsertSource::DefaultValues(_) => {
                self.insert_row(insert, &table, &[], &[], into, statements)
            }
            ast::InsertSource::SelectVariant(ast::SelectVariant::Values(values)) => {
                let rows: Vec<_> = values.row_list().into_iter().flat_map(|list| list.rows()).collect();
                if rows.len() > 1 && into.is_some() {
                    return Err(self.unsupported(node, "RETURNING of several rows into variables"));
                }
                for row in rows {
                    let mut items = Vec::new();
                    for value in row.exprs() {
                        let is_default = matches!(&value, ast::Expr::Literal(literal)
                            if matches!(literal.kind(), Some(ast::LitKind::Default(_))));
                        let bound = if is_default { None } else { Some(self.bind(&value)?) };
                        items.push((bound, value.syntax().clone()));
                    }
                    self.insert_row(insert, &table, &columns, &items, into, statements)?;
                }
                Ok(())
            }
            ast::InsertSource::SelectVariant(ast::SelectVariant::Select(select)) => {
                let bound = self.bind_rows_of(&ast::SelectVariant::Select(select))?;
                if let SelectRows::One = bound.rows {
                    let items: Vec<_> =
                        bound.items.into_iter().map(|(_, item, node)| (Some(item), node)).collect();
                    return self.insert_row(insert, &table, &columns, &items, into, statements);
                }
                let (mut items, mut outputs) = (Vec::new(), Vec::new());
                for (_, item, item_node) in bound.items {
                    let (value, ty) = self.settle(item, None, &item_node)?;
                    let register = self.new_register(ty);
                    outputs.push((register, value));
                    items.push((Some(Typed::Known(Expression::Register(register), ty)), item_node));
                }
                let Some(read) = self.read(bound.rows, outputs, false, node) else { return Ok(()) };
                let mut body = Vec::new();
                self.insert_row(insert, &table, &columns, &items, into, &mut body)?;
                let label = self.new_label();
                statements.push(read.repeat(label, body));
                Ok(())
            }
            other => Err(self.unsupported(other.syntax(), "this source of rows")),
        }
    }

    fn insert_row(
        &mut self,
        insert: &ast::Insert,
        table: &Arc<Table>,
        columns: &[usize],
        items: &[(Option<Typed>, SyntaxNode)],
        into: Option<&Targets>,
        statements: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = insert.syntax();
        if items.len() > columns.len() {
            return Err(self.syntax(node, "INSERT has more expressions than target columns"));
        }
        if items.len() < columns.len() && insert.column_target_list().is_some() {
            return Err(self.syntax(node, "INSERT has more target columns than expressions"));
        }
        let mut values: Vec<Option<Expression>> = vec![None; table.columns.len()];
        for (column, (item, item_node)) in columns.iter().zip(items) {
            self.refuse_identity(table, *column, item.is_some(), None, node)?;
            if let Some(item) = item {
                let ty = table.columns[*column].ty.into();
                values[*column] = Some(self.coerce(item.clone(), ty, false, item_node)?);
            }
        }
        let mut complete = Vec::new();
        for (column, value) in values.into_iter().enumerate() {
            complete.push(match value {
                Some(value) => value,
                None => self.bind_default(table, column, node)?,
            });
        }
        let registers = self.row_registers(table);
        self.row = Some(RowScope::of_row(table, registers));
        let checks = self.bind_checks(table, |_| true, node);
        let returning = self.bind_returning(insert.returning_clause(), into, node);
        self.row = None;
        let kind = OperationKind::Insert {
            table: Arc::clone(table),
            values: complete,
            registers,
            checks: checks?,
            references: self
                .schema
                .foreign_keys()
                .map(|own| own.references_of(table.id).to_vec())
                .unwrap_or_default(),
            returning: returning?,
        };
        let operation = self.operation(kind, node);
        statements.push(Statement::Execute(operation));
        Ok(())
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
            binder.coerce(bound, ty.into(), false, expression.syntax())
        })
    }

    /// Binds an expression of a definition, which is kept as text.
    fn bind_definition<T>(
        &mut self,
        text: &str,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Binder<'_>, &ast::Expr) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        let source = Source::parse(&format!("SELECT {text}"))?;
        let expression = source.file.syntax().descendants().find_map(ast::Target::cast);
        let expression = self.part(expression.and_then(|target| target.expr()), node)?;
        let mut inner = Binder::new(self.schema, &source);
        inner.row = self.row.take();
        inner.row_references = self.row_references;
        let bound = bind(&mut inner, &expression);
        self.row = inner.row.take();
        self.uses_timestamp |= inner.uses_timestamp;
        self.uses_seed |= inner.uses_seed;
        inner.by_value.into_iter().for_each(|cause| self.log_by_value(cause));
        self.callees.append(&mut inner.callees);
        bound.map_err(|error| self.error(node, error.error))
    }

    /// Binds the CHECK constraints on changed columns, and those that name no column.
    pub(crate) fn bind_checks(
        &mut self,
        table: &Table,
        changed: impl Fn(usize) -> bool,
        node: &SyntaxNode,
    ) -> Result<Vec<Check>, StatementError> {
        let mut checks = Vec::new();
        for (name, text) in &table.checks {
            let before = self.row.as_ref().map_or(0, |row| row.used.len());
            let condition = self.bind_definition(text, node, |binder, e| binder.bind_condition(e))?;
            let Some(row) = &mut self.row else { continue };
            let mut columns = Vec::new();
            condition.walk(&mut |part| {
                if let Some(register) = Self::register_of(part) {
                    columns.extend(row.known.iter().filter(|own| *own.1 == register).map(|own| *own.0));
                }
            });
            if columns.is_empty() || columns.into_iter().any(&changed) {
                checks.push(Check { name: name.clone(), condition });
            } else {
                row.used.truncate(before);
            }
        }
        Ok(checks)
    }

    fn bind_returning(
        &mut self,
        clause: Option<ast::ReturningClause>,
        into: Option<&Targets>,
        node: &SyntaxNode,
    ) -> Result<Vec<(Register, Expression)>, StatementError> {
        match (clause, into) {
            (None, None) => Ok(Vec::new()),
            (None, Some(_)) => Err(self.syntax(node, "INTO requires a RETURNING clause")),
            (Some(clause), None) => Err(self.syntax(clause.syntax(), "RETURNING requires an INTO clause")),
            (Some(clause), Some(targets)) => {
                let items = self.bind_targets(clause.target_list(), clause.syntax())?;
                self.outputs(items, targets, clause.syntax())
            }
        }
    }

    pub(crate) fn bind_update(
        &mut self,
        update: &ast::Update,
        into: Option<&Targets>,
        statements: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = update.syntax();
        let path = update.relation_name().and_then(|name| name.relation_name_ref());
        let alias = update.alias().and_then(|alias| alias.name());
        let alias = alias.map(|name| ast::normalize_name_node(name.syntax()));
        self.enter_row(path.and_then(|name| name.path_ref()), alias, node)?;
        self.refuse_sequence(&self.row.as_ref().expect("entered").table, node)?;
        let lifted = self.lifted.take();
        let bound = self.bind_update_rows(update, into);
        self.lifted = lifted;
        self.row = None;
        let operation = self.operation(bound?, node);
        statements.push(Statement::Execute(operation));
        Ok(())
    }

    fn bind_update_rows(
        &mut self,
        update: &ast::Update,
        into: Option<&Targets>,
    ) -> Result<OperationKind, StatementError> {
        let node = update.syntax();
        let table = Arc::clone(&self.row.as_ref().expect("entered").table);
        let (mut access, _) = self.bind_access(self.condition(update.where_clause_or_current_of())?, None)?;
        let mut assignments: Vec<(usize, Register, Expression)> = Vec::new();
        let columns = update.set_clause().and_then(|clause| clause.set_column_list());
        for column in columns.into_iter().flat_map(|list| list.set_columns()) {
            let ast::SetColumn::SetSingleColumn(single) = column else {
                return Err(self.unsupported(column.syntax(), "SET of several columns at once"));
            };
            let target = self.part(single.column_target().and_then(|t| t.name()), single.syntax())?;
            let name = ast::normalize_name_node(target.syntax());
            let place = self.column_of(&table, &name, target.syntax())?;
            if assignments.iter().any(|(assigned, ..)| *assigned == place) {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(self.error(target.syntax(), SqlError::new("42601", message)));
            }
            if table.primary().columns.contains(&place) {
                return Err(self.unsupported(target.syntax(), "UPDATE of a primary key column"));
            }
            let value = self.part(single.set_expr(), single.syntax())?;
            let ty: Type = table.columns[place].ty.into();
            let value = match value.expr() {
                Some(value) => self.bind_as(&value, ty)?,
                None => self.bind_default(&table, place, single.syntax())?,
            };
            let register = self.new_register(ty);
            assignments.push((place, register, value));
        }
        // From here on, names of changed columns mean their new values: in constraints and in RETURNING.
        let new: HashMap<usize, Register> = assignments.iter().map(|(c, r, _)| (*c, *r)).collect();
        if let Some(row) = &mut self.row {
            row.known = new.clone();
        }
        let checks = self.bind_checks(&table, |column| new.contains_key(&column), node)?;
        let returning = self.bind_returning(update.returning_clause(), into, node)?;
        self.finish_access(&mut access);
        let added = added_columns(&access, &assignments, &checks, &returning);
        Ok(OperationKind::Update { access, assignments, checks, returning, added })
    }

    fn condition(
        &self,
        clause: Option<ast::WhereClauseOrCurrentOf>,
    ) -> Result<Option<ast::Expr>, StatementError> {
        match clause {
            Some(ast::WhereClauseOrCurrentOf::WhereClause(clause)) => Ok(clause.expr()),
            Some(other) => Err(self.unsupported(other.syntax(), "WHERE CURRENT OF")),
            None => Ok(None),
        }
    }

    pub(crate) fn bind_delete(
        &mut self,
        delete: &ast::Delete,
        into: Option<&Targets>,
        statements: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let node = delete.syntax();
        let path = delete.relation_name().and_then(|name| name.relation_name_ref());
        let alias = delete.alias().and_then(|alias| alias.name());
        let alias = alias.map(|name| ast::normalize_name_node(name.syntax()));
        self.enter_row(path.and_then(|name| name.path_ref()), alias, node)?;
        self.refuse_sequence(&self.row.as_ref().expect("entered").table, node)?;
        let lifted = self.lifted.take();
        let bound = self.bind_delete_rows(delete, into);
        self.lifted = lifted;
        self.row = None;
        let operation = self.operation(bound?, node);
        statements.push(Statement::Execute(operation));
        Ok(())
    }

    fn bind_delete_rows(
        &mut self,
        delete: &ast::Delete,
        into: Option<&Targets>,
    ) -> Result<OperationKind, StatementError> {
        let (mut access, _) = self.bind_access(self.condition(delete.where_clause_or_current_of())?, None)?;
        let returning = self.bind_returning(delete.returning_clause(), into, delete.syntax())?;
        self.finish_access(&mut access);
        Ok(OperationKind::Delete { access, returning })
    }
}
