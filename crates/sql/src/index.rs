//! CREATE INDEX and ALTER INDEX.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::kept_text;
use crate::schema::{Schema, refused, unsupported};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::{first_free, in_schema_of, made_name, object_name, short};
use catalog::{IndexDetails, NewIndex, Table};
use procedure::{Effect, SqlError};
use squawk_syntax::ast::{self, AstNode};

/// Reads CREATE INDEX. Returns its table, and the index.
pub(crate) fn index_definition(
    create: &ast::CreateIndex,
    schema: &Schema,
    source: &Source,
) -> Result<(String, NewIndex), StatementError> {
    let binder = Binder::new(schema, source);
    let node = create.syntax();
    if let Some(option) = create.nulls_distinct_option() {
        return Err(binder.unsupported(option.syntax(), "NULLS [NOT] DISTINCT"));
    }
    if let Some(method) = create.using_method()
        && !method.syntax().text().to_string().to_lowercase().ends_with("btree")
    {
        return Err(binder.unsupported(method.syntax(), "an index method other than btree"));
    }
    let path = create.table_relation_name().and_then(|name| name.table_name_ref());
    let path = binder.part(path.and_then(|name| name.path_ref()), node)?;
    let table = binder.table(&object_name(&path), path.syntax())?;
    binder.refuse_sequence(&table, path.syntax())?;
    let mut details = IndexDetails::default();
    let columns = indexed_columns(&binder, create.partition_item_list(), &table, &mut details.orders)?;
    if let Some(list) = create.index_include_clause().and_then(|clause| clause.partition_item_list()) {
        details.included = indexed_columns(&binder, Some(list), &table, &mut Vec::new())?;
    }
    let unique = create.unique_token().is_some();
    if let Some(clause) = create.where_clause() {
        if unique {
            return Err(binder.unsupported(clause.syntax(), "a unique partial index"));
        }
        let mut condition = binder.part(clause.expr(), clause.syntax())?;
        while let ast::Expr::ParenExpr(inner) = &condition {
            condition = binder.part(inner.expr(), clause.syntax())?;
        }
        let bind = |binder: &mut Binder<'_>| binder.bind_condition(&condition).map(|_| ());
        if binder.depends_on_call(&table, condition.syntax(), "index predicate", bind)? {
            let error = SqlError::new("42P17", "functions in index predicate must be marked IMMUTABLE");
            return Err(binder.error(condition.syntax(), error));
        }
        details.condition = Some(kept_text::unqualified(&condition, short(&table.name), source));
    }
    let path = create.index().and_then(|index| index.path());
    let name = path.and_then(|path| path.segment()).map(|segment| segment.text());
    let name = name.map(|name| in_schema_of(&table.name, name)).unwrap_or_else(|| {
        let names: Vec<_> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
        let base = format!("{}_{}_idx", short(&table.name), names.join("_"));
        first_free(in_schema_of(&table.name, base), |name| schema.relation_exists(name))
    });
    Ok((table.name.clone(), NewIndex { name, columns, unique, is_constraint: false, details }))
}

/// Reads a list of an index's columns. Adds what stands behind each, if something stands behind one of them.
fn indexed_columns(
    binder: &Binder<'_>,
    list: Option<ast::PartitionItemList>,
    table: &Table,
    orders: &mut Vec<String>,
) -> Result<Vec<usize>, StatementError> {
    let mut columns = Vec::new();
    for item in list.into_iter().flat_map(|list| list.partition_items()) {
        let Some(ast::Expr::NameRef(name)) = item.expr() else {
            return Err(binder.unsupported(item.syntax(), "an index on an expression"));
        };
        let column = name.text();
        columns.push(table.column(&column).ok_or_else(|| {
            let message = format!("column \"{column}\" does not exist");
            binder.error(name.syntax(), SqlError::new("42703", message))
        })?);
        let descends = match item.sort_order() {
            None | Some(ast::SortOrder::SortAsc(_)) => false,
            Some(ast::SortOrder::SortDesc(_)) => true,
            Some(other) => return Err(binder.unsupported(other.syntax(), "this order of an index")),
        };
        // PostgreSQL shows what differs from the default: NULLs are the greatest values.
        let nulls = match item.nulls_order() {
            Some(ast::NullsOrder::NullsFirst(_)) if !descends => Some("NULLS FIRST"),
            Some(ast::NullsOrder::NullsLast(_)) if descends => Some("NULLS LAST"),
            _ => None,
        };
        let order: Vec<_> = descends.then_some("DESC").into_iter().chain(nulls).collect();
        orders.push(order.join(" "));
    }
    if orders.iter().all(String::is_empty) {
        orders.clear();
    }
    Ok(columns)
}

impl Schema {
    /// Executes ALTER INDEX … RENAME.
    pub(crate) fn alter_index(
        &mut self,
        alter: &ast::AlterIndex,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = alter.syntax();
        let Some(ast::AlterIndexAction::IndexRenameTo(rename)) = alter.action() else {
            return Err(unsupported(source, node, "this form of ALTER INDEX"));
        };
        let path = alter.index_ref().and_then(|name| name.path_ref());
        let name = path.map(|path| object_name(&path)).unwrap_or_default();
        let (table, place) = match self.catalog.index(&name) {
            Err(_) if alter.if_exists().is_some() => return Ok(Effect::None),
            found => found.map_err(|error| refused(source, node, &error))?,
        };
        let new = rename.index().and_then(|name| name.path());
        let Some(new) = new else { return Err(unsupported(source, node, "this name")) };
        let mut changed = Table::clone(table);
        let new = made_name(&Binder::new(self, source), &new)?;
        changed.indexes[place].name = in_schema_of(&name, new);
        let own = changed.name.clone();
        let changed = self.catalog.redefine(&own, changed).map_err(|error| refused(source, node, &error))?;
        let after = Subject::Relation(changed.indexes[place].name.clone());
        self.rename_subject(&Subject::Relation(name), after);
        self.recompile(source, node)?;
        Ok(Effect::Redefine(changed))
    }
}
