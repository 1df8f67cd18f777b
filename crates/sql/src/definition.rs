//! CREATE TABLE and CREATE INDEX.

use crate::binder::{Binder, RowScope};
use crate::error::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use catalog::{Column, Table, TableId, Type};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::HashMap;
use std::sync::Arc;

/// A table as written: what `Catalog::create_table` takes.
pub(crate) struct TableDefinition {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<(String, Vec<usize>, bool)>,
    pub(crate) checks: Vec<(String, String)>,
}

struct TableBuilder<'a> {
    binder: Binder<'a>,
    table: TableDefinition,
    primary: Option<(Option<String>, Vec<usize>)>,
    uniques: Vec<(Option<String>, Vec<usize>)>,
}

fn constraint_name(clause: Option<ast::ConstraintNameClause>) -> Option<String> {
    let name = clause.and_then(|clause| clause.constraint_name());
    name.map(|name| ast::normalize_name_node(name.syntax()))
}

/// Reads CREATE TABLE and checks everything in it.
pub(crate) fn table_definition(
    create: &ast::CreateTable,
    schema: &Schema,
    source: &Source,
) -> Result<TableDefinition, StatementError> {
    let binder = Binder::new(schema, source);
    let node = create.syntax();
    for (present, what) in [
        (create.persistence().is_some(), "a temporary or unlogged table"),
        (create.inherits().is_some(), "INHERITS"),
        (create.partition_by().is_some() || create.partition_of().is_some(), "partitioning"),
        (create.of_type().is_some(), "a typed table"),
    ] {
        if present {
            return Err(binder.unsupported(node, what));
        }
    }
    let path = binder.part(create.table_name().and_then(|name| name.path()), node)?;
    let name = path.segment().map(|segment| segment.text()).unwrap_or_default();
    let table = TableDefinition { name, columns: Vec::new(), indexes: Vec::new(), checks: Vec::new() };
    let mut builder = TableBuilder { binder, table, primary: None, uniques: Vec::new() };
    let arguments: Vec<_> = create.table_arg_list().into_iter().flat_map(|list| list.args()).collect();
    for argument in &arguments {
        if let ast::TableArg::Column(column) = argument {
            builder.column(column)?;
        }
    }
    for argument in &arguments {
        match argument {
            ast::TableArg::Column(_) => {}
            ast::TableArg::TableConstraint(constraint) => builder.table_constraint(constraint)?,
            ast::TableArg::LikeClause(like) => {
                return Err(builder.binder.unsupported(like.syntax(), "LIKE"));
            }
        }
    }
    builder.finish(node)
}

impl TableBuilder<'_> {
    fn column(&mut self, column: &ast::Column) -> Result<(), StatementError> {
        let node = column.syntax();
        let name = self.binder.part(column.name(), node)?.text();
        if self.place(&name).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(self.binder.error(node, SqlError::new("42701", message)));
        }
        let ty = self.binder.part(column.ty(), node)?;
        let Type::Scalar(ty) = self.binder.bind_type(&ty)? else {
            return Err(self.binder.unsupported(ty.syntax(), "a column of an array type"));
        };
        let place = self.table.columns.len();
        self.table.columns.push(Column { name, ty, nullable: true, default: None });
        for clause in column.clauses() {
            match clause {
                ast::ColumnClause::ColumnConstraint(constraint) => {
                    self.column_constraint(place, &constraint)?;
                }
                ast::ColumnClause::Collate(collate) => {
                    let text = collate.syntax().text().to_string();
                    if !text.contains("\"C\"") && !text.contains("\"POSIX\"") {
                        return Err(self.binder.unsupported(collate.syntax(), "a collation but \"C\""));
                    }
                }
                other => return Err(self.binder.unsupported(other.syntax(), "this option of a column")),
            }
        }
        Ok(())
    }

    fn column_constraint(
        &mut self,
        place: usize,
        constraint: &ast::ColumnConstraint,
    ) -> Result<(), StatementError> {
        let node = constraint.syntax();
        match constraint {
            ast::ColumnConstraint::NotNullConstraint(_) => self.table.columns[place].nullable = false,
            ast::ColumnConstraint::NullConstraint(_) => {}
            ast::ColumnConstraint::DefaultConstraint(default) => {
                let expression = self.binder.part(default.expr(), node)?;
                let ty = self.table.columns[place].ty;
                self.binder.bind_as(&expression, ty)?;
                let text = self.binder.source.text_of(expression.syntax()).to_owned();
                self.table.columns[place].default = Some(text);
            }
            ast::ColumnConstraint::CheckConstraint(check) => {
                let own = self.table.columns[place].name.clone();
                let name = constraint_name(check.constraint_name_clause());
                self.check(check, name, &own)?;
            }
            ast::ColumnConstraint::PrimaryKeyConstraint(key) => {
                let name = constraint_name(key.constraint_name_clause());
                self.primary_key(name, vec![place], node)?;
            }
            ast::ColumnConstraint::UniqueConstraint(unique) => {
                self.uniques.push((constraint_name(unique.constraint_name_clause()), vec![place]));
            }
            ast::ColumnConstraint::ReferencesConstraint(_) => {
                return Err(self.binder.unsupported(node, "a foreign key"));
            }
            _ => return Err(self.binder.unsupported(node, "this constraint")),
        }
        Ok(())
    }

    fn table_constraint(&mut self, constraint: &ast::TableConstraint) -> Result<(), StatementError> {
        let node = constraint.syntax();
        match constraint {
            ast::TableConstraint::PrimaryKeyConstraint(key) => {
                let columns = self.columns(key.index_parameters(), node)?;
                self.primary_key(constraint_name(key.constraint_name_clause()), columns, node)
            }
            ast::TableConstraint::UniqueConstraint(unique) => {
                let columns = self.columns(unique.index_parameters(), node)?;
                self.uniques.push((constraint_name(unique.constraint_name_clause()), columns));
                Ok(())
            }
            ast::TableConstraint::CheckConstraint(check) => {
                self.check(check, constraint_name(check.constraint_name_clause()), "")
            }
            ast::TableConstraint::ForeignKeyConstraint(_) => {
                Err(self.binder.unsupported(node, "a foreign key"))
            }
            _ => Err(self.binder.unsupported(node, "this constraint")),
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.table.columns.iter().position(|column| column.name == name)
    }

    fn columns(
        &self,
        parameters: Option<ast::IndexParameters>,
        node: &SyntaxNode,
    ) -> Result<Vec<usize>, StatementError> {
        let list = parameters.and_then(|parameters| parameters.column_list());
        let list = self.binder.part(list, node)?;
        list.column_name_refs()
            .map(|column| {
                let name = ast::normalize_name_node(column.syntax());
                self.place(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" named in key does not exist");
                    self.binder.error(column.syntax(), SqlError::new("42703", message))
                })
            })
            .collect()
    }

    fn primary_key(
        &mut self,
        name: Option<String>,
        columns: Vec<usize>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if self.primary.is_some() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", self.table.name);
            return Err(self.binder.error(node, SqlError::new("42P16", message)));
        }
        for column in &columns {
            self.table.columns[*column].nullable = false;
        }
        self.primary = Some((name, columns));
        Ok(())
    }

    fn check(
        &mut self,
        check: &ast::CheckConstraint,
        name: Option<String>,
        column: &str,
    ) -> Result<(), StatementError> {
        let node = check.syntax();
        let expression = self.binder.part(check.expr(), node)?;
        let text = self.binder.source.text_of(expression.syntax()).to_owned();
        let middle = if column.is_empty() { String::new() } else { format!("{column}_") };
        let base = format!("{}_{middle}check", self.table.name);
        let taken = |name: &str| self.table.checks.iter().any(|(own, _)| own == name);
        let name = name.unwrap_or_else(|| {
            let numbered = |n: usize| if n == 0 { base.clone() } else { format!("{base}{n}") };
            (0..).map(numbered).find(|name| !taken(name)).unwrap_or_default()
        });
        self.table.checks.push((name, text));
        Ok(())
    }

    fn finish(mut self, node: &SyntaxNode) -> Result<TableDefinition, StatementError> {
        let name = self.table.name.clone();
        let Some((primary, columns)) = self.primary.take() else {
            let hint = "Declare which columns identify a row: PRIMARY KEY (…).";
            let error = SqlError::new("0A000", format!("table \"{name}\" has no primary key"));
            return Err(self.binder.error(node, error.with_hint(hint)));
        };
        self.table.indexes.push((primary.unwrap_or_else(|| format!("{name}_pkey")), columns, true));
        for (unique, columns) in std::mem::take(&mut self.uniques) {
            let names: Vec<_> = columns.iter().map(|c| self.table.columns[*c].name.as_str()).collect();
            let own = unique.unwrap_or_else(|| format!("{name}_{}_key", names.join("_")));
            self.table.indexes.push((own, columns, true));
        }
        self.check_expressions(node)?;
        Ok(self.table)
    }

    /// Binds every CHECK once, against the columns as they will be.
    fn check_expressions(&mut self, node: &SyntaxNode) -> Result<(), StatementError> {
        let table = Arc::new(Table {
            id: TableId(u32::MAX),
            name: self.table.name.clone(),
            layout: Table::layout_of(&self.table.columns),
            columns: self.table.columns.clone(),
            indexes: Vec::new(),
            checks: Vec::new(),
        });
        for check in node.descendants().filter_map(ast::CheckConstraint::cast) {
            let registers = self.binder.row_registers(&table);
            self.binder.row = Some(RowScope {
                table: Arc::clone(&table),
                alias: table.name.clone(),
                registers,
                used: Vec::new(),
                is_point: false,
                choices: Vec::new(),
                known: HashMap::new(),
            });
            let expression = self.binder.part(check.expr(), check.syntax())?;
            let before = (self.binder.uses_seed, self.binder.uses_timestamp);
            self.binder.bind_condition(&expression)?;
            self.binder.row = None;
            if (self.binder.uses_seed, self.binder.uses_timestamp) != before {
                return Err(self.binder.unsupported(check.syntax(), "a CHECK that depends on the call"));
            }
        }
        Ok(())
    }
}

/// CREATE INDEX as written: table, index name, columns, unique.
pub(crate) fn index_definition(
    create: &ast::CreateIndex,
    schema: &Schema,
    source: &Source,
) -> Result<(String, String, Vec<usize>, bool), StatementError> {
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
        return Err(binder.unsupported(method.syntax(), "an index method but btree"));
    }
    let path = create.table_relation_name().and_then(|name| name.table_name_ref());
    let path = binder.part(path.and_then(|name| name.path_ref()), node)?;
    let table = binder.table(&crate::types::last_name(&path), path.syntax())?;
    let mut columns = Vec::new();
    for item in create.partition_item_list().into_iter().flat_map(|list| list.partition_items()) {
        if matches!(item.sort_order(), Some(ast::SortOrder::SortDesc(_))) || item.nulls_order().is_some() {
            return Err(binder.unsupported(item.syntax(), "an index in another order than ascending"));
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
    let name = name.unwrap_or_else(|| {
        let names: Vec<_> = columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
        format!("{}_{}_idx", table.name, names.join("_"))
    });
    Ok((table.name.clone(), name, columns, create.unique_token().is_some()))
}
