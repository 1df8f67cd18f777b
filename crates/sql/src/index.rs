//! CREATE INDEX and ALTER INDEX.
//!
//! An index on an expression indexes a hidden generated column that computes the expression. In a partial
//! index, this column is NULL in the rows that do not satisfy the condition. The first column of a unique
//! partial index is always such a hidden column: NULLs are never equal, so these rows never conflict.

use crate::binder::Binder;
use crate::computed::Computed;
use crate::error::StatementError;
use crate::full_names::{in_schema_of, short};
use crate::generated_names::GeneratedName;
use crate::kept_text;
use crate::quoted::quoted;
use crate::schema::{Schema, refused, unsupported};
use crate::source::{At, Source};
use crate::subject::Subject;
use crate::types::{last_name, made_name, object_name};
use catalog::{Column, IndexDetails, KeyRules, NewIndex, NewTable, Table, Type};
use procedure::{Effect, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// An index to create.
pub(crate) struct IndexDefinition {
    pub(crate) table: Arc<Table>,
    /// The hidden columns to add to the table, behind the existing columns.
    pub(crate) hidden: Vec<Column>,
    pub(crate) index: NewIndex,
}

/// Removes the hidden columns that no index uses. Returns their positions in descending order, which is the
/// order of the removals.
pub(crate) fn remove_unused(table: &mut NewTable) -> Vec<usize> {
    let mut removed = Vec::new();
    for position in (0..table.columns.len()).rev().filter(|position| table.columns[*position].hidden) {
        if !table.indexes.iter().any(|index| index.columns.contains(&position)) {
            removed.push(position);
        }
    }
    removed.iter().for_each(|position| table.remove_column(*position));
    removed
}

/// Returns the name that an expression has as a column of an index.
pub(crate) fn name_of_expression(text: &str) -> String {
    kept_text::called(text).unwrap_or_else(|| "expr".into())
}

/// Checks the access method of an index. An index with method `hash` or `brin` becomes a B+-tree, which
/// serves the same queries.
///
/// # Errors
/// `42704`: the method does not exist. `0A000`: it is not supported, or does not support unique indexes.
fn check_method(binder: &Binder<'_>, create: &ast::CreateIndex) -> Result<(), StatementError> {
    let Some(method) = create.using_method() else { return Ok(()) };
    let node = method.syntax();
    let text = node.text().to_string().to_lowercase();
    let name = text.split_whitespace().last().unwrap_or_default();
    match name {
        "btree" => Ok(()),
        "hash" | "brin" if create.unique_token().is_some() => {
            let message = format!("access method \"{name}\" does not support unique indexes");
            Err(binder.error(node, SqlError::new("0A000", message)))
        }
        "hash" | "brin" => Ok(()),
        "gin" | "gist" | "spgist" => Err(binder.unsupported(node, &format!("an index of method {name}"))),
        _ => {
            let message = format!("access method \"{name}\" does not exist");
            Err(binder.error(node, SqlError::new("42704", message)))
        }
    }
}

/// Reads CREATE INDEX.
pub(crate) fn index_definition(
    create: &ast::CreateIndex,
    schema: &Schema,
    source: &Source,
) -> Result<IndexDefinition, StatementError> {
    let binder = Binder::new(schema, source);
    let node = create.syntax();
    let nulls_equal =
        matches!(create.nulls_distinct_option(), Some(ast::NullsDistinctOption::NullsNotDistinct(_)));
    if let Some(clause) = create.where_clause().filter(|_| nulls_equal) {
        return Err(binder.unsupported(clause.syntax(), "NULLS NOT DISTINCT of an index of some rows"));
    }
    let rules = KeyRules { nulls_equal, ..KeyRules::default() };
    check_method(&binder, create)?;
    let path = create.table_relation_name().and_then(|name| name.table_name_ref());
    let path = binder.part(path.and_then(|name| name.path_ref()), node)?;
    if schema.view(&object_name(&path)).is_some() {
        let message = format!("cannot create index on relation \"{}\"", last_name(&path));
        let error = SqlError::new("42809", message);
        return Err(binder.error(node, error.with_detail("This operation is not supported for views.")));
    }
    let table = binder.table(&object_name(&path), path.syntax())?;
    binder.refuse_sequence(&table, path.syntax())?;
    let unique = create.unique_token().is_some();
    let mut reader = Reader { binder, table, unique, hidden: Vec::new(), details: IndexDetails::default() };
    if let Some(clause) = create.where_clause() {
        let condition = reader.binder.part(clause.expr(), clause.syntax())?;
        reader.condition(condition)?;
    }
    let items = create.partition_item_list();
    let items: Vec<_> = items.into_iter().flat_map(|list| list.partition_items()).collect();
    let (mut columns, mut names) = (Vec::new(), Vec::new());
    for item in &items {
        let first = columns.is_empty();
        let (column, name) = reader.item(item, first)?;
        columns.push(column);
        names.push(name);
    }
    let included = create.index_include_clause().and_then(|clause| clause.partition_item_list());
    for item in included.into_iter().flat_map(|list| list.partition_items()) {
        let Some(ast::Expr::NameRef(name)) = item.expr() else {
            return Err(reader.binder.unsupported(item.syntax(), "an expression in INCLUDE"));
        };
        let column = reader.column(&name)?;
        names.push(name.text());
        reader.details.included.push(column);
    }
    let Reader { table, hidden, mut details, .. } = reader;
    if details.orders.iter().all(String::is_empty) {
        details.orders.clear();
    }
    let path = create.index().and_then(|index| index.path());
    let name = path.and_then(|path| path.segment()).map(|segment| segment.text());
    let name = name.map(|name| in_schema_of(&table.name, name)).unwrap_or_else(|| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let made = GeneratedName::new(&table.name, &names, "idx");
        made.first_free_in_schema(|name| schema.relation_exists(name))
    });
    let index = NewIndex { name, columns, unique, is_constraint: false, rules, details };
    Ok(IndexDefinition { table, hidden, index })
}

/// The parts of a CREATE INDEX that have been read so far.
struct Reader<'a> {
    binder: Binder<'a>,
    table: Arc<Table>,
    unique: bool,
    hidden: Vec<Column>,
    details: IndexDetails,
}

impl Reader<'_> {
    fn column(&self, name: &ast::NameRef) -> Result<usize, StatementError> {
        let column = name.text();
        let position = self.table.visible().iter().position(|known| known.name == column);
        position.ok_or_else(|| {
            let message = format!("column \"{column}\" does not exist");
            self.binder.error(name.syntax(), SqlError::new("42703", message))
        })
    }

    /// Reads WHERE.
    fn condition(&mut self, mut condition: ast::Expr) -> Result<(), StatementError> {
        while let ast::Expr::ParenExpr(inner) = &condition {
            condition = self.binder.part(inner.expr(), inner.syntax())?;
        }
        let bind = |binder: &mut Binder<'_>| binder.bind_condition(&condition).map(|_| ());
        if self.unique {
            self.binder.check_computed(&self.table, condition.syntax(), Computed::IndexPredicate, bind)?;
        } else if self.binder.is_mutable(
            &self.table,
            condition.syntax(),
            Computed::IndexPredicate.words().0,
            bind,
        )? {
            return Err(self
                .binder
                .error(condition.syntax(), SqlError::new("42P17", Computed::IndexPredicate.words().1)));
        }
        let text = kept_text::unqualified(&condition, short(&self.table.name), self.binder.source);
        self.details.condition = Some(text);
        Ok(())
    }

    /// Reads a column of the index. Returns its position in the table, and its part of the index's name.
    ///
    /// In rows that do not satisfy the condition of a unique index, the first column is NULL, so they equal
    /// no other row. An expression is evaluated only for rows that satisfy the condition.
    fn item(&mut self, item: &ast::PartitionItem, first: bool) -> Result<(usize, String), StatementError> {
        // The first parentheses around an expression belong to the list. PostgreSQL prints a second pair
        // around operators, which belongs to the expression.
        let mut expression = self.binder.part(item.expr(), item.syntax())?;
        if let ast::Expr::ParenExpr(inner) = &expression {
            expression = self.binder.part(inner.expr(), inner.syntax())?;
        }
        let mut innermost = expression.clone();
        while let ast::Expr::ParenExpr(inner) = &innermost {
            innermost = self.binder.part(inner.expr(), inner.syntax())?;
        }
        if matches!(innermost, ast::Expr::NameRef(_)) {
            expression = innermost;
        }
        let condition = self.details.condition.clone();
        let in_some_rows = |condition: String, text: &str| format!("CASE WHEN {condition} THEN {text} END");
        let (column, name) = match &expression {
            ast::Expr::NameRef(name_ref) => {
                let (position, name) = (self.column(name_ref)?, name_ref.text());
                let column = match condition.filter(|_| first && self.unique) {
                    Some(condition) => {
                        let (text, ty) = (quoted(&name), self.table.columns[position].ty);
                        self.hide(text.clone(), in_some_rows(condition, &text), ty)
                    }
                    None => position,
                };
                (column, name)
            }
            _ => {
                let text = kept_text::unqualified(&expression, short(&self.table.name), self.binder.source);
                let ty = self.type_of(&expression)?;
                let name = name_of_expression(&text);
                let value =
                    condition.map_or_else(|| text.clone(), |condition| in_some_rows(condition, &text));
                (self.hide(text, value, ty), name)
            }
        };
        self.order(item)?;
        Ok((column, name))
    }

    /// Returns the type of an expression over the rows of the table.
    fn type_of(&self, expression: &ast::Expr) -> Result<Type, StatementError> {
        let mut ty = None;
        let bind = |binder: &mut Binder<'_>| {
            ty = binder.bind(expression)?.known_type();
            Ok(())
        };
        let node = expression.syntax();
        self.binder.check_computed(&self.table, node, Computed::IndexExpression, bind)?;
        ty.ok_or_else(|| self.binder.unsupported(node, "an index on this expression"))
    }

    /// Returns the position of the hidden column with an expression, which is added if the table has none.
    fn hide(&mut self, name: String, text: String, ty: Type) -> usize {
        let is_meant =
            |column: &Column| column.hidden && column.default.as_ref() == Some(&text) && column.name == name;
        if let Some(known) = self.table.columns.iter().position(is_meant) {
            return known;
        }
        let end = self.table.columns.len() - usize::from(self.table.hidden_key);
        if let Some(known) = self.hidden.iter().position(is_meant) {
            return end + known;
        }
        let (nullable, default) = (true, Some(text));
        let (generated, hidden) = (true, true);
        self.hidden.push(Column { name, ty, nullable, default, generated, hidden, ..Column::default() });
        end + self.hidden.len() - 1
    }

    /// Reads the order of a column: ASC or DESC, NULLS FIRST or LAST.
    fn order(&mut self, item: &ast::PartitionItem) -> Result<(), StatementError> {
        let descends = match item.sort_order() {
            None | Some(ast::SortOrder::SortAsc(_)) => false,
            Some(ast::SortOrder::SortDesc(_)) => true,
            Some(other) => return Err(self.binder.unsupported(other.syntax(), "this order of an index")),
        };
        // Only a deviation from the default is shown, as in PostgreSQL: NULLs are the greatest values.
        let nulls = match item.nulls_order() {
            Some(ast::NullsOrder::NullsFirst(_)) if !descends => Some("NULLS FIRST"),
            Some(ast::NullsOrder::NullsLast(_)) if descends => Some("NULLS LAST"),
            _ => None,
        };
        let order: Vec<_> = descends.then_some("DESC").into_iter().chain(nulls).collect();
        self.details.orders.push(order.join(" "));
        Ok(())
    }
}

impl Schema {
    /// Executes CREATE INDEX.
    pub(crate) fn make_index(
        &mut self,
        create: &ast::CreateIndex,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        if let Some(effect) = self.index_of_partition(create, source)? {
            return Ok(effect);
        }
        let before = self.clone();
        let definition = index_definition(create, &before, source)?;
        let name = &definition.index.name;
        if create.if_not_exists().is_some() && self.catalog.index(name).is_ok() {
            self.notices.skip_existing("42P07", &format!("relation \"{}\"", short(name)));
            return Ok(Effect::None);
        }
        self.add_index(definition, At { source, node: create.syntax() })
    }

    /// Executes ALTER INDEX … RENAME and ALTER INDEX … ATTACH PARTITION.
    pub(crate) fn alter_index(
        &mut self,
        alter: &ast::AlterIndex,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        if let Some(effect) = self.attach_index(alter, source)? {
            return Ok(effect);
        }
        let Some(ast::AlterIndexAction::IndexRenameTo(rename)) = alter.action() else {
            return Err(unsupported(source, node, "this form of ALTER INDEX"));
        };
        let path = alter.index_ref().and_then(|name| name.path_ref());
        let name = path.map(|path| object_name(&path)).unwrap_or_default();
        if self.catalog.index(&name).is_err() && alter.if_exists().is_some() {
            self.notices.skip_missing(&format!("relation \"{name}\""));
            return Ok(Effect::None);
        }
        let new = rename.index().and_then(|name| name.path());
        let Some(new) = new else { return Err(unsupported(source, node, "this name")) };
        let new = made_name(&Binder::new(self, source), &new)?;
        self.rename_index(name, new, source, node)
    }

    /// Applies ALTER TABLE … RENAME CONSTRAINT of a key, which renames its index; `None` for any other ALTER
    /// TABLE.
    pub(crate) fn rename_key(
        &mut self,
        alter: &ast::AlterTable,
        table: &Table,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let Some(ast::AlterTableAction::RenameConstraint(rename)) = alter.actions().next() else {
            return Ok(None);
        };
        let old = rename.constraint_name_ref().and_then(|name| name.path_ref());
        let old = old.map(|path| object_name(&path)).unwrap_or_default();
        let mut keys = table.indexes.iter().filter(|index| index.is_constraint);
        let Some(key) = keys.find(|index| short(&index.name) == old) else { return Ok(None) };
        let node = alter.syntax();
        let new = Binder::new(self, source).part(rename.constraint_name(), node)?;
        let new = ast::normalize_name_node(new.syntax());
        self.rename_index(key.name.clone(), new, source, node).map(Some)
    }

    /// Renames an index, within its schema.
    fn rename_index(
        &mut self,
        name: String,
        new: String,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        let found = self.catalog.index(&name).map_err(|error| refused(source, node, &error))?;
        let (mut changed, position) = (Table::clone(found.0), found.1);
        let new = in_schema_of(&name, new);
        self.refuse_taken_relation(&new, source, node)?;
        changed.indexes[position].name = new;
        let table_name = changed.name.clone();
        let changed =
            self.catalog.redefine(&table_name, changed).map_err(|error| refused(source, node, &error))?;
        let after = Subject::Relation(changed.indexes[position].name.clone());
        self.partitions.rename_index(&name, &changed.indexes[position].name);
        self.rename_subject(&Subject::Relation(name), after);
        self.recompile(source, node)?;
        Ok(Effect::Redefine(changed))
    }
}
