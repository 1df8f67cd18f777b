//! Binds INSERT, UPDATE and DELETE as plans, with WITH, FROM, ON CONFLICT, RETURNING and source queries.

use super::from::{Source, Sources};
use super::select::Item;
use super::target::Target;
use super::{Applied, Binder, Bound, Relation, Rows, apply_all, compute};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::oids::table_oid;
use crate::roles::acl;
use crate::simple_view::WriteKind;
use crate::subscripts::Subscripted;
use crate::trigger::WrittenRow;
use catalog::{Column, Identity, ScalarType, Table, TriggerEvent};
use procedure::query::{Delete, Insert, OutputColumn, Plan, Update};
use procedure::{Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Columns with their new values.
type Assignments = Vec<(usize, Expression)>;

/// The columns of an INSERT.
pub(super) struct InsertColumns {
    pub(super) all: Vec<usize>,
    /// Whether the statement lists the columns; otherwise they are all visible columns of the table.
    pub(super) are_named: bool,
    /// The error of a value for the next column, which a view computes.
    pub(super) refused: Option<StatementError>,
}

/// Adds to an error the detail that a column is generated.
fn of_generated(error: SqlError, column: &str) -> SqlError {
    error.with_detail(format!("Column \"{column}\" is a generated column."))
}

/// Returns the error of an UPDATE that sets a column to a value, if it may only be set to DEFAULT: a
/// generated column, or GENERATED ALWAYS AS IDENTITY.
fn not_updated(column: &Column) -> Option<SqlError> {
    let Column { name, generated, identity, .. } = column;
    let error = SqlError::new("428C9", format!("column \"{name}\" can only be updated to DEFAULT"));
    let detail = format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.");
    match identity {
        _ if *generated => Some(of_generated(error, name)),
        Some(Identity::Always) => Some(error.with_detail(detail)),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds a statement that writes as a new level, with the queries of its WITH in scope.
    pub(super) fn writing(
        &mut self,
        with: Option<ast::WithClause>,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Self) -> Result<Bound, StatementError>,
    ) -> Result<Bound, StatementError> {
        let names = self.queries.names();
        let named = self.bind_with(with)?;
        self.push_level(node)?;
        let bound = bind(self);
        self.queries.levels.pop();
        self.queries.forget_names(names);
        self.with(named, bound?, node)
    }

    /// Binds RETURNING over the relations of the level, of which the first is the written row in registers.
    fn returning(
        &mut self,
        plan: Plan,
        clause: Option<ast::ReturningClause>,
    ) -> Result<Bound, StatementError> {
        let Some(clause) = clause else { return Ok(Bound { plan, ..Bound::default() }) };
        let node = clause.syntax();
        let bind = |binder: &mut Self| binder.bind_targets(clause.target_list(), node);
        let (items, applied): (Vec<Item>, _) = self.applying(bind)?;
        if let (true, Some(list)) = (items.is_empty(), clause.target_list()) {
            return Err(self.syntax(list.syntax(), "RETURNING must have at least one column"));
        }
        let (mut bound, mut values) = (Bound::default(), Vec::new());
        for (name, item, item_node) in items {
            let (value, ty) = self.settle(item, None, &item_node)?;
            let register = self.new_register(ty);
            self.note_value(register, &value);
            values.push((register, value));
            bound.columns.push(OutputColumn { name, ty, register });
            bound.nodes.push(item_node);
        }
        bound.plan = compute(apply_all(applied, plan), values);
        Ok(bound)
    }

    pub(crate) fn bind_insert_plan(&mut self, insert: &ast::Insert) -> Result<Bound, StatementError> {
        self.writing(insert.with_clause(), insert.syntax(), |binder| binder.bind_insert_level(insert))
    }

    fn bind_insert_level(&mut self, insert: &ast::Insert) -> Result<Bound, StatementError> {
        let node = insert.syntax();
        let path = insert.relation_name_ref().and_then(|name| name.path_ref());
        let target = self.relation_to_write(path, WriteKind::Insert, node)?;
        let table = Arc::clone(&target.table);
        let columns = self.insert_columns(insert.column_target_list(), &target, node)?;
        let (input, given) = self.bind_source(insert, &table, &columns)?;
        let bind =
            |binder: &mut Self| binder.new_row(&target, columns, given, insert.overriding_clause(), node);
        let (complete, applied) = self.applying(bind)?;
        let input = apply_all(applied, input);
        let registers = self.row_registers(&table);
        let rules = self.bind_target_rules(&target, registers, None, node)?;
        let alias = insert.alias().and_then(|alias| alias.name());
        let alias =
            alias.map_or_else(|| target.short_name().into(), |name| ast::normalize_name_node(name.syntax()));
        let conflict = insert.on_conflict_clause();
        let conflict =
            conflict.map(|clause| self.bind_conflict(&clause, (&target, &alias), registers)).transpose()?;
        self.origins.note_row(registers, table_oid(&table), table.visible());
        self.level().relations = target.over_row(registers, &alias, 0);
        self.need_target_read(&target, 0);
        let (input, values) = (Box::new(input), complete);
        let keys = self.schema.foreign_keys_of(&table);
        let row = WrittenRow { old: registers, new: registers };
        let triggers = self.bind_triggers(&table, TriggerEvent::Insert, &[], row, node)?;
        let plan = Plan::Insert(Insert { input, table, values, registers, rules, conflict, keys, triggers });
        self.returning(plan, insert.returning_clause())
    }

    /// Returns the target columns of an INSERT.
    pub(super) fn insert_columns(
        &mut self,
        list: Option<ast::ColumnTargetList>,
        target: &Target,
        node: &SyntaxNode,
    ) -> Result<InsertColumns, StatementError> {
        let (mut columns, mut names, mut refused) = (Vec::new(), Vec::new(), None);
        for part in list.into_iter().flat_map(|list| list.column_targets()) {
            let name_node = self.part(part.name(), part.syntax())?;
            let (name, node) = (ast::normalize_name_node(name_node.syntax()), name_node.syntax());
            let column = self.column_of_target(target, &name, node)?;
            if names.contains(&name) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(self.error(node, SqlError::new("42701", message)));
            }
            if let Some(accessor) = part.accessors().next() {
                return Err(self.unsupported(accessor.syntax(), "an INSERT into an element of an array"));
            }
            self.refuse_twice(&target.table, column, &columns, node)?;
            names.push(name);
            columns.push(column);
        }
        let are_named = !columns.is_empty();
        for index in (0..target.width()).take_while(|_| !are_named) {
            let stored = target.stored(index).map_err(|error| self.error(node, error));
            let fresh = stored.and_then(|column| {
                self.refuse_twice(&target.table, column, &columns, node)?;
                Ok(column)
            });
            match fresh {
                Ok(column) => columns.push(column),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        Ok(InsertColumns { all: columns, are_named, refused })
    }

    /// Refuses a second value for a column, which several columns of a view may be.
    fn refuse_twice(
        &self,
        table: &Table,
        column: usize,
        assigned: &[usize],
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if !assigned.contains(&column) {
            return Ok(());
        }
        let message = format!("multiple assignments to same column \"{}\"", table.columns[column].name);
        Err(self.error(node, SqlError::new("42601", message)))
    }

    /// Returns the error of an INSERT with more values than columns.
    pub(super) fn too_many_values(&self, columns: &InsertColumns, node: &SyntaxNode) -> StatementError {
        let too_many = || self.syntax(node, "INSERT has more expressions than target columns");
        columns.refused.clone().unwrap_or_else(too_many)
    }

    /// Returns the values of a new row: the given values, and the defaults of all other columns.
    pub(super) fn new_row(
        &mut self,
        target: &Target,
        columns: InsertColumns,
        given: Vec<Option<Expression>>,
        overriding: Option<ast::OverridingClause>,
        node: &SyntaxNode,
    ) -> Result<Vec<Expression>, StatementError> {
        let (table, width) = (&target.table, given.len());
        self.need_target(target, acl::INSERT, &columns.all[..width.min(columns.all.len())]);
        if width > columns.all.len() {
            return Err(self.too_many_values(&columns, node));
        }
        let InsertColumns { all: columns, are_named, .. } = columns;
        if width < columns.len() && are_named {
            return Err(self.syntax(node, "INSERT has more target columns than expressions"));
        }
        let mut values: Vec<Option<Expression>> = vec![None; table.columns.len()];
        let is_user = overriding
            .as_ref()
            .is_some_and(|clause| clause.syntax().text().to_string().to_lowercase().contains("user"));
        for (column, given) in columns.into_iter().zip(given) {
            self.refuse_given(table, column, given.is_some(), overriding.as_ref(), node)?;
            values[column] = given.filter(|_| !(is_user && table.columns[column].identity.is_some()));
        }
        let complete = values.into_iter().enumerate().map(|(column, value)| {
            let value = match value {
                Some(value) => value,
                None => self.bind_default(table, column, node)?,
            };
            self.before_triggers(table, column, value, node)
        });
        complete.collect()
    }

    /// Refuses a value for a generated column, and without OVERRIDING for a column GENERATED ALWAYS AS
    /// IDENTITY.
    fn refuse_given(
        &self,
        table: &Table,
        column: usize,
        is_given: bool,
        overriding: Option<&ast::OverridingClause>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let definition = &table.columns[column];
        if is_given && definition.generated {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", definition.name);
            return Err(self.error(node, of_generated(SqlError::new("428C9", message), &definition.name)));
        }
        if !is_given || definition.identity != Some(Identity::Always) || overriding.is_some() {
            return Ok(());
        }
        let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", definition.name);
        let error = SqlError::new("428C9", message)
            .with_detail(format!(
                "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                definition.name
            ))
            .with_hint("Use OVERRIDING SYSTEM VALUE to override.");
        Err(self.error(node, error))
    }

    /// Binds the source of an INSERT. Returns its plan and the value of each column; `None` is the default.
    fn bind_source(
        &mut self,
        insert: &ast::Insert,
        table: &Table,
        columns: &InsertColumns,
    ) -> Result<(Plan, Vec<Option<Expression>>), StatementError> {
        let node = insert.syntax();
        let variant = match self.part(insert.insert_source(), node)? {
            ast::InsertSource::DefaultValues(_) => return Ok((Plan::One, Vec::new())),
            ast::InsertSource::SelectVariant(variant) => variant,
        };
        if let ast::SelectVariant::Values(list) = &variant
            && list.tail_clauses().next().is_none()
            && list.with_clause().is_none()
        {
            let rows: Vec<_> = list.row_list().into_iter().flat_map(|list| list.rows()).collect();
            return self.bind_value_rows(&rows, (table, columns), node);
        }
        if let ast::SelectVariant::Select(_) = &variant {
            let types = columns.all.iter().map(|column| Some(table.columns[*column].ty));
            self.queries.wanted = types.collect();
        }
        let bound = self.bind_variant(&variant)?;
        let mut given = Vec::new();
        for index in 0..bound.columns.len() {
            let Some(column) = columns.all.get(index) else {
                return Err(self.too_many_values(columns, node));
            };
            given.push(Some(self.coerce_to_column(bound.typed(index), &table.columns[*column], node)?));
        }
        Ok((bound.plan, given))
    }

    /// Binds an item of SET. Returns its columns and a value for each; `None` is the default.
    fn bind_set_column(
        &mut self,
        column: ast::SetColumn,
    ) -> Result<(Vec<ast::ColumnTarget>, Vec<Option<Typed>>), StatementError> {
        let node = column.syntax().clone();
        match column {
            ast::SetColumn::SetSingleColumn(single) => {
                let target = self.part(single.column_target(), &node)?;
                let value = self.part(single.set_expr(), &node)?.expr();
                let value = value.map(|value| self.bind(&value)).transpose()?;
                Ok((vec![target], vec![value]))
            }
            ast::SetColumn::SetMultipleColumns(several) => {
                let targets = several.column_target_list();
                let targets = targets.into_iter().flat_map(|list| list.column_targets()).collect();
                let values = match several.paren_select().and_then(|paren| paren.select()) {
                    Some(query) => self.bind_row_query(&query, &node)?.into_iter().map(Some).collect(),
                    None => {
                        let list = self.part(several.set_expr_list(), &node)?;
                        let mut values = Vec::new();
                        for value in list.set_exprs() {
                            match value.expr() {
                                None => values.push(None),
                                Some(value) => {
                                    for item in self.row_items(std::iter::once(value)) {
                                        values.push(Some(self.bind_row_item(item)?));
                                    }
                                }
                            }
                        }
                        values
                    }
                };
                Ok((targets, values))
            }
        }
    }

    /// Binds SET. Returns the assigned columns with their new values.
    pub(super) fn bind_assignments(
        &mut self,
        clause: Option<ast::SetClause>,
        target_relation: &Target,
        node: &SyntaxNode,
    ) -> Result<Assignments, StatementError> {
        let mut assignments: Assignments = Vec::new();
        let table = &target_relation.table;
        // The columns with assignments to elements or slices, of which there may be several.
        let mut subscripted = Vec::new();
        let list = clause.and_then(|clause| clause.set_column_list());
        for column in list.into_iter().flat_map(|list| list.set_columns()) {
            let set_node = column.syntax().clone();
            let (targets, values) = self.bind_set_column(column)?;
            if targets.len() != values.len() {
                return Err(self.syntax(&set_node, "number of columns does not match number of values"));
            }
            for (target, value) in targets.into_iter().zip(values) {
                let name = self.part(target.name(), &set_node)?;
                let name = ast::normalize_name_node(name.syntax());
                let target_node = target.syntax();
                let position = self.column_of_target(target_relation, &name, target_node)?;
                let mut accessors = target.accessors().peekable();
                let has_subscripts = accessors.peek().is_some();
                let earlier = assignments.iter().position(|(assigned, _)| *assigned == position);
                if earlier.is_some_and(|_| !has_subscripts || !subscripted.contains(&position)) {
                    let name = &table.columns[position].name;
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(self.error(target_node, SqlError::new("42601", message)));
                }
                let definition = &table.columns[position];
                let is_given = value.is_some() || target_relation.view().is_some();
                if let Some(error) = not_updated(definition).filter(|_| is_given) {
                    return Err(self.error(target_node, error));
                }
                let value = match value {
                    value if has_subscripts => {
                        subscripted.push(position);
                        let old = match earlier {
                            Some(earlier) => assignments.remove(earlier).1,
                            None => self.target_column(position, target_node)?,
                        };
                        let target = Subscripted { name: &name, old, ty: definition.ty };
                        self.bind_subscripted(target, accessors, value, target_node)?
                    }
                    Some(value) => self.coerce_to_column(value, definition, &set_node)?,
                    // As in PostgreSQL, a view has defaults of its own.
                    None if target_relation.has_defaults_of_view(self.schema) => Expression::NULL,
                    None => self.bind_default(table, position, node)?,
                };
                let value = self.before_triggers(table, position, value, target_node)?;
                assignments.push((position, value));
            }
        }
        Ok(assignments)
    }

    /// Returns a column of the row that a statement changes, with its old value.
    fn target_column(&mut self, column: usize, node: &SyntaxNode) -> Result<Expression, StatementError> {
        let level = self.queries.levels.len() - 1;
        match self.column_of_relation(level, 0, column, node)? {
            Typed::Known(value, _) => Ok(value),
            _ => unreachable!("a column has a type"),
        }
    }

    /// Binds the target table of a statement, the relations that it is joined with, and the condition.
    /// Returns them with the register of the target's row handles.
    pub(super) fn bind_target(
        &mut self,
        (relation, alias): (&Target, Option<ast::OptionalAsAlias>),
        items: impl Iterator<Item = ast::FromListItem>,
        condition: Option<ast::WhereClauseOrCurrentOf>,
        node: &SyntaxNode,
    ) -> Result<(Sources, Register), StatementError> {
        let alias = alias.and_then(|alias| alias.name()).map(|name| ast::normalize_name_node(name.syntax()));
        let alias = alias.unwrap_or_else(|| relation.short_name().into());
        let target = self.add_target(relation, alias, node)?;
        self.need_target_read(relation, target);
        let handle = self.new_register(ScalarType::BigInt);
        if let Rows::Table { handle: target_handle, .. } = &mut self.level().relations[target].rows {
            *target_handle = Some(handle);
        }
        let mut sources = self.bind_from_list(items)?;
        sources.sources.insert(0, Source::Relation(target));
        match condition {
            Some(ast::WhereClauseOrCurrentOf::WhereClause(clause)) => {
                self.bind_where(clause.expr(), &mut sources.conjuncts)?;
            }
            Some(other) => return Err(self.unsupported(other.syntax(), "WHERE CURRENT OF")),
            None => {}
        }
        self.bind_conditions_of(relation, target, &mut sources.conjuncts, node)?;
        Ok((sources, handle))
    }

    /// Returns registers for the old row of triggers; `any` if the table has no triggers.
    fn old_row(&mut self, table: &Table, any: Register) -> Register {
        if table.triggers.is_empty() { any } else { self.row_registers(table) }
    }

    /// Returns the registers of the input rows that a statement must keep, without the handle.
    pub(super) fn kept_registers(&self, handle: Register) -> Vec<Register> {
        let level = self.queries.levels.last().expect("a statement is being bound");
        let all = level.relations.iter().flat_map(Relation::set_registers);
        all.filter(|register| *register != handle).collect()
    }

    pub(crate) fn bind_update_plan(&mut self, update: &ast::Update) -> Result<Bound, StatementError> {
        self.writing(update.with_clause(), update.syntax(), |binder| binder.bind_update_level(update))
    }

    fn bind_update_level(&mut self, update: &ast::Update) -> Result<Bound, StatementError> {
        let node = update.syntax();
        let path = update.relation_name().and_then(|name| name.relation_name_ref());
        let target =
            self.relation_to_write(path.and_then(|name| name.path_ref()), WriteKind::Update, node)?;
        let table = Arc::clone(&target.table);
        let items = update.from_clause().into_iter().flat_map(|from| from.items());
        let condition = update.where_clause_or_current_of();
        let (sources, handle) = self.bind_target((&target, update.alias()), items, condition, node)?;
        let bind = |binder: &mut Self| binder.bind_assignments(update.set_clause(), &target, node);
        let (assignments, applied) = self.applying(bind)?;
        let answers: Vec<Register> = applied.iter().flat_map(Applied::targets).collect();
        let registers = self.row_registers(&table);
        let mut set: Vec<usize> = assignments.iter().map(|(column, _)| *column).collect();
        self.need_target(&target, acl::UPDATE, &set);
        let rules = self.bind_target_rules(
            &target,
            registers,
            Some(&set).filter(|_| table.triggers.is_empty()).map(Vec::as_slice),
            node,
        )?;
        set.extend(rules.generated.iter().map(|(column, _)| *column));
        // In RETURNING, the table's columns are those of the written row.
        self.origins.note_row(registers, table_oid(&table), table.visible());
        let row = Rows::Row { table: target.table.name.clone(), registers };
        let rows = std::mem::replace(&mut self.level().relations[0].rows, row);
        let returned = self.returning(Plan::One, update.returning_clause());
        self.level().relations[0].rows = rows;
        let returned = returned?;
        let (input, _) = self.join_all(sources.sources, sources.conjuncts, None)?;
        let input = Box::new(apply_all(applied, input));
        let mut keep = self.kept_registers(handle);
        keep.extend(answers);
        let keys = self.schema.foreign_keys_of(&table);
        let row = WrittenRow { old: self.old_row(&table, registers), new: registers };
        let triggers = self.bind_triggers(&table, TriggerEvent::Update, &set, row, node)?;
        let update = Update { input, table, handle, keep, assignments, registers, rules, keys, triggers };
        let plan = Plan::Update(update);
        Ok(Bound { plan: upon(returned.plan, plan), ..returned })
    }

    pub(crate) fn bind_delete_plan(&mut self, delete: &ast::Delete) -> Result<Bound, StatementError> {
        self.writing(delete.with_clause(), delete.syntax(), |binder| binder.bind_delete_level(delete))
    }

    fn bind_delete_level(&mut self, delete: &ast::Delete) -> Result<Bound, StatementError> {
        let node = delete.syntax();
        let path = delete.relation_name().and_then(|name| name.relation_name_ref());
        let target =
            self.relation_to_write(path.and_then(|name| name.path_ref()), WriteKind::Delete, node)?;
        let table = Arc::clone(&target.table);
        let items = delete.using_clause().into_iter().flat_map(|using| using.items());
        let condition = delete.where_clause_or_current_of();
        self.need_target(&target, acl::DELETE, &[]);
        let (sources, handle) = self.bind_target((&target, delete.alias()), items, condition, node)?;
        let returned = self.returning(Plan::One, delete.returning_clause())?;
        let (input, _) = self.join_all(sources.sources, sources.conjuncts, None)?;
        let keep = self.kept_registers(handle);
        let keys = self.schema.foreign_keys_of(&table);
        let old = self.old_row(&table, Register(0));
        let row = WrittenRow { old, new: old };
        let triggers = self.bind_triggers(&table, TriggerEvent::Delete, &[], row, node)?;
        let plan = Plan::Delete(Delete { input: Box::new(input), table, handle, keep, keys, triggers });
        Ok(Bound { plan: upon(returned.plan, plan), ..returned })
    }
}

/// Replaces the leaf of a plan, which is `Plan::One`, by another plan.
fn upon(mut plan: Plan, rows: Plan) -> Plan {
    let mut bottom = &mut plan;
    while !matches!(bottom, Plan::One) {
        let first = bottom.inputs_mut().into_iter().next();
        bottom = first.expect("the leaf of a RETURNING plan is Plan::One");
    }
    *bottom = rows;
    plan
}
