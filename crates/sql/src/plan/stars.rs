//! `*` and `qualifier.*`: their columns, and the text of their columns for views.

use super::Binder;
use super::select::Item;
use crate::binder::{ExpandedStar, Name, Typed, Variable};
use crate::error::StatementError;
use crate::quoted::quoted;
use procedure::{Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A column of `*`.
struct StarColumn {
    name: String,
    /// The index of its relation in the level, and its position there.
    column: (usize, usize),
    /// The index of the column of USING that takes its place.
    merged: Option<usize>,
}

impl Binder<'_> {
    /// Returns the columns of a `*` that is a target, and keeps their text for a view.
    pub(crate) fn star_of(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        if self.stars.is_some() {
            let columns = self.texts_of_star(qualifier);
            let star = ExpandedStar { range: self.source.range_of(node), columns, table: None };
            self.stars.iter_mut().for_each(|stars| stars.push(star.clone()));
        }
        self.star(qualifier, node)
    }

    /// Returns the columns of `TABLE t`, and keeps the text of a SELECT for a view.
    pub(super) fn star_of_table(&mut self, table: &ast::Table) -> Result<Vec<Item>, StatementError> {
        let node = table.syntax();
        if self.stars.is_some()
            && let (Some(word), Some(name)) = (table.table_token(), table.relation_name())
        {
            let columns = self.texts_of_star(None);
            let name = self.source.range_of(name.syntax());
            let begin = self.source.written(word.text_range().start().into());
            let relation = self.source.written_text(name.clone()).to_owned();
            let star = ExpandedStar { range: begin..name.end, columns, table: Some(relation) };
            self.stars.iter_mut().for_each(|stars| stars.push(star.clone()));
        }
        self.star(None, node)
    }

    /// Returns the texts of the columns of `*` or of `qualifier.*` as targets.
    fn texts_of_star(&self, qualifier: Option<&str>) -> Vec<String> {
        let Some(level) = self.queries.levels.get(self.level_of_star(qualifier)) else { return Vec::new() };
        let text = |column: StarColumn| {
            let alias = &level.relations[column.column.0].alias;
            match column.merged.is_some() || alias.is_empty() {
                true => quoted(&column.name),
                false => format!("{}.{}", quoted(alias), quoted(&column.name)),
            }
        };
        self.star_columns(qualifier).into_iter().map(text).collect()
    }

    /// Returns the columns of `*` or of `qualifier.*`.
    pub(crate) fn star(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        let columns = self.star_columns(qualifier);
        if columns.is_empty()
            && let Some(fields) = qualifier.and_then(|record| self.fields(record))
        {
            let item = |(name, field): &(String, Variable)| {
                let value = Typed::Known(Expression::Register(field.register), field.ty);
                (name.clone(), value, node.clone())
            };
            return Ok(fields.iter().map(item).collect());
        }
        let has_relation = match qualifier {
            Some(qualifier) => self.names_relation(qualifier),
            None => self.queries.levels.last().is_some_and(|level| !level.relations.is_empty()),
        };
        // A table may have no columns.
        if columns.is_empty() && !has_relation {
            return Err(match qualifier {
                Some(name) if matches!(self.name(name), Some(Name::UnclearRecord)) => {
                    self.unclear_record(node)
                }
                Some(name) => {
                    let message = format!("missing FROM-clause entry for table \"{name}\"");
                    self.error(node, SqlError::new("42P01", message))
                }
                None => self.syntax(node, "SELECT * with no tables specified is not valid"),
            });
        }
        let level_index = self.level_of_star(qualifier);
        let typed = |StarColumn { name, column, merged }: StarColumn| {
            let typed = match merged {
                None => self.column_of_relation(level_index, column.0, column.1, node)?,
                Some(merged) => self.merged_column(level_index, merged, node)?,
            };
            Ok((name, typed, node.clone()))
        };
        columns.into_iter().map(typed).collect()
    }

    /// Returns the index of the level whose relations `*` or `qualifier.*` has the columns of.
    fn level_of_star(&self, qualifier: Option<&str>) -> usize {
        let last = self.queries.levels.len().saturating_sub(1);
        qualifier.and_then(|qualifier| self.level_of(qualifier)).unwrap_or(last)
    }

    fn star_columns(&self, qualifier: Option<&str>) -> Vec<StarColumn> {
        let mut found = Vec::new();
        let Some(level) = self.queries.levels.get(self.level_of_star(qualifier)) else { return found };
        let of_column = |column: (usize, usize)| {
            let merged =
                level.merged.iter().position(|known| qualifier.is_none() && known.hides.contains(&column));
            StarColumn { name: level.relations[column.0].columns[column.1].0.clone(), column, merged }
        };
        let mut star = Some(&level.star).filter(|_| qualifier.is_none());
        for (index, relation) in level.relations.iter().enumerate() {
            let is_meant = match qualifier {
                Some(qualifier) => relation.alias == qualifier,
                None => relation.is_plain,
            };
            if qualifier.is_none() && level.from & 1 << index != 0 {
                // The first relation of FROM gets the columns of all of FROM, because USING may have merged
                // every column of a later relation.
                found.extend(star.take().into_iter().flatten().map(|column| of_column(*column)));
            } else if is_meant {
                found.extend((0..relation.shown()).map(|column| of_column((index, column))));
            }
        }
        found
    }
}
