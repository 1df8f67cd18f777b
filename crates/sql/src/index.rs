//! CREATE INDEX and ALTER INDEX.

use crate::binder::Binder;
use crate::error::StatementError;
use crate::schema::{Schema, refused, unsupported};
use crate::source::Source;
use crate::types::{first_free, in_schema_of, made_name, object_name, short};
use catalog::{NewIndex, Table};
use procedure::Effect;
use squawk_syntax::ast::{self, AstNode};

/// Reads CREATE INDEX. Returns its table, and the index.
pub(crate) fn index_definition(
    create: &ast::CreateIndex,
    schema: &Schema,
    source: &Source,
) -> Result<(String, NewIndex), StatementError> {
    let binder = Binder::new(schema, source);
    let node = create.syntax();
    for (present, what) in [
        (create.where_clause().is_some(), "a partial index"),
        (create.index_include_clause().is_some(), "INCLUDE"),
        (create.nulls_distinct_option().is_some(), "NULLS [NOT] DISTINCT"),
    ] {
        if present {
            return Err(binder.unsupported(node, what));
        }
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
    let mut columns = Vec::new();
    for item in create.partition_item_list().into_iter().flat_map(|list| list.partition_items()) {
        if matches!(item.sort_order(), Some(ast::SortOrder::SortDesc(_))) || item.nulls_order().is_some() {
            return Err(binder.unsupported(item.syntax(), "an index order other than ascending"));
        }
        match item.expr() {
            Some(ast::Expr::NameRef(name)) => {
                columns.push(binder.column_of(&table, &name.text(), name.syntax())?);
            }
            _ => return Err(binder.unsupported(item.syntax(), "an index on an expression")),
        }
    }
    let path = create.index().and_then(|index| index.path());
    let name = path.and_then(|path| path.segment()).map(|segment| segment.text());
    let name = name.map(|name| in_schema_of(&table.name, name)).unwrap_or_else(|| {
        let names: Vec<_> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
        let base = format!("{}_{}_idx", short(&table.name), names.join("_"));
        first_free(in_schema_of(&table.name, base), |name| schema.relation_exists(name))
    });
    let unique = create.unique_token().is_some();
    Ok((table.name.clone(), NewIndex { name, columns, unique, is_constraint: false }))
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
        self.recompile(source, node)?;
        Ok(Effect::Redefine(changed))
    }
}
