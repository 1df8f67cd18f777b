//! LIKE in CREATE TABLE: copies the columns of another table, and the properties after INCLUDING.
//! Source: PostgreSQL 15's documentation, "CREATE TABLE"; `parse_utilcmd.c`, `transformTableLikeClause`.
//! Differs: comments are not copied.

use super::TableBuilder;
use super::keys::NewKey;
use crate::error::StatementError;
use crate::generated_names::GeneratedName;
use crate::types::{check_width, object_name};
use catalog::{Column, NewIndex, Table};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The properties that LIKE copies besides columns, types and NOT NULL.
#[derive(Clone, Copy, Default)]
struct CopiedProperties {
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

impl CopiedProperties {
    fn of(like: &ast::LikeClause) -> Self {
        let mut copied = Self::default();
        for option in like.like_options() {
            let text = option.syntax().text().to_string().to_lowercase();
            let mut words = text.split_whitespace();
            let is_included = words.next() == Some("including");
            let property = words.next().unwrap_or_default();
            for (name, flag) in [
                ("constraints", &mut copied.constraints),
                ("defaults", &mut copied.defaults),
                ("generated", &mut copied.generated),
                ("identity", &mut copied.identity),
                ("indexes", &mut copied.indexes),
            ] {
                if property == "all" || property == name {
                    *flag = is_included;
                }
            }
        }
        copied
    }
}

impl TableBuilder<'_> {
    /// Adds the columns of LIKE.
    pub(super) fn like(&mut self, like: &ast::LikeClause) -> Result<(), StatementError> {
        let node = like.syntax();
        let path = self.binder.part(like.relation_name_ref().and_then(|name| name.path_ref()), node)?;
        let table = self.binder.table(&object_name(&path), path.syntax())?;
        let included = CopiedProperties::of(like);
        let first = self.table.visible_count();
        check_width(&self.binder, first + table.visible().len(), node)?;
        for column in table.visible() {
            self.like_column(column, &table, included, node)?;
        }
        if included.constraints {
            self.table.checks.extend(table.checks.iter().cloned());
        }
        if included.indexes {
            self.like_indexes(&table, first, node)?;
        }
        Ok(())
    }

    fn like_column(
        &mut self,
        column: &Column,
        table: &Table,
        included: CopiedProperties,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let name = &column.name;
        if self.position(name).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(self.binder.error(node, SqlError::new("42701", message)));
        }
        let is_kept = match (column.generated, column.identity) {
            (true, _) => included.generated,
            (false, Some(_)) => false,
            (false, None) => included.defaults,
        };
        let default = column.default.clone().filter(|_| is_kept);
        let generated = column.generated && is_kept;
        let position = self.table.visible_count();
        self.table.insert_column(position, Column { default, generated, identity: None, ..column.clone() });
        if let (Some(identity), true) = (column.identity, included.identity) {
            let owner = Some((table.name.clone(), name.clone()));
            let mut sequences =
                self.binder.schema.catalog().tables().filter_map(|table| table.sequence.as_ref());
            let sequence = sequences.find(|sequence| sequence.owner == owner).cloned();
            let sequence = self.binder.part(sequence, node)?;
            self.count_by(position, sequence, None);
            self.table.columns[position].identity = Some(identity);
        }
        Ok(())
    }

    /// Copies the indexes, with generated names.
    fn like_indexes(&mut self, table: &Table, first: usize, node: &SyntaxNode) -> Result<(), StatementError> {
        for (position, index) in table.indexes.iter().enumerate() {
            if position == 0 && table.hidden_key {
                continue;
            }
            let mut new = NewIndex::from(index);
            if new.columns.iter().any(|column| table.columns[*column].hidden) {
                return Err(self
                    .binder
                    .unsupported(node, "LIKE of an index on an expression or on some rows"));
            }
            new.columns.iter_mut().for_each(|column| *column += first);
            new.details.included.iter_mut().for_each(|column| *column += first);
            match (table.is_primary_key(position), index.is_constraint) {
                (true, _) => self.primary = Some(NewKey::like(new)),
                (_, true) => self.uniques.push(NewKey::like(new)),
                (_, false) => {
                    let columns = new.columns.iter().chain(&new.details.included);
                    let names = columns.map(|column| self.table.columns[*column].name.as_str());
                    let made = GeneratedName::new(&self.table.name, &names.collect::<Vec<_>>(), "idx");
                    let is_taken = |name: &str| {
                        self.binder.schema.relation_exists(name)
                            || self.copied.iter().any(|index| index.name == name)
                    };
                    new.name = made.first_free_in_schema(is_taken);
                    self.copied.push(new);
                }
            }
        }
        Ok(())
    }
}
