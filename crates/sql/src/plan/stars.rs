//! `*` and `qualifier.*`: their columns, and the text of their columns for views.

use super::Binder;
use super::select::Item;
use crate::binder::ExpandedStar;
use crate::error::StatementError;
use crate::quoted::quoted;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A column of `*`.
struct StarColumn {
    name: String,
    /// The relation that has it, and its position there.
    at: (usize, usize),
    /// The column of USING that stands for it.
    merged: Option<usize>,
}

impl Binder<'_> {
    /// Returns the columns of a `*` that is a target, and keeps their text if it is wanted.
    pub(crate) fn star_of(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        if self.stars.is_some() {
            let columns = self.star_columns(qualifier, node)?;
            let columns = columns.iter().map(|column| self.text_of_column(column)).collect();
            let star = ExpandedStar { range: self.source.range_of(node), columns, table: None };
            self.stars.iter_mut().for_each(|stars| stars.push(star.clone()));
        }
        self.star(qualifier, node)
    }

    /// Returns the columns of `TABLE t`, and keeps the text of a SELECT if it is wanted.
    pub(super) fn star_of_table(&mut self, table: &ast::Table) -> Result<Vec<Item>, StatementError> {
        let node = table.syntax();
        if self.stars.is_some()
            && let (Some(word), Some(name)) = (table.table_token(), table.relation_name())
        {
            let columns = self.star_columns(None, node)?;
            let columns = columns.iter().map(|column| self.text_of_column(column)).collect();
            let name = self.source.range_of(name.syntax());
            let begin = self.source.written(word.text_range().start().into());
            let relation = self.source.written_text(name.clone()).to_owned();
            let star = ExpandedStar { range: begin..name.end, columns, table: Some(relation) };
            self.stars.iter_mut().for_each(|stars| stars.push(star.clone()));
        }
        self.star(None, node)
    }

    /// Returns the text of a column in the targets of the query.
    fn text_of_column(&mut self, column: &StarColumn) -> String {
        let alias = &self.level().relations[column.at.0].alias;
        match column.merged.is_some() || alias.is_empty() {
            true => quoted(&column.name),
            false => format!("{}.{}", quoted(alias), quoted(&column.name)),
        }
    }

    /// Returns the columns of `*`, or of `qualifier.*`.
    pub(crate) fn star(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<Item>, StatementError> {
        let place = self.queries.levels.len() - 1;
        let columns = self.star_columns(qualifier, node)?;
        let typed = |StarColumn { name, at, merged }: StarColumn| {
            let typed = match merged {
                None => self.column_of_relation(place, at.0, at.1, node)?,
                Some(merged) => self.merged_column(place, merged, node)?,
            };
            Ok((name, typed, node.clone()))
        };
        columns.into_iter().map(typed).collect()
    }

    fn star_columns(
        &self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Vec<StarColumn>, StatementError> {
        let mut found = Vec::new();
        let Some(level) = self.queries.levels.last() else { return Ok(found) };
        let of_column = |at: (usize, usize)| {
            let merged = level.merged.iter().position(|own| qualifier.is_none() && own.hides.contains(&at));
            StarColumn { name: level.relations[at.0].columns[at.1].0.clone(), at, merged }
        };
        let mut star = Some(&level.star).filter(|_| qualifier.is_none());
        for (relation, own) in level.relations.iter().enumerate() {
            let is_meant = match qualifier {
                Some(qualifier) => own.alias == qualifier,
                None => own.is_plain,
            };
            if qualifier.is_none() && level.from & 1 << relation != 0 {
                // The first relation of FROM gets the columns of all of FROM, because USING may have merged
                // every column of a later relation.
                found.extend(star.take().into_iter().flatten().map(|at| of_column(*at)));
            } else if is_meant {
                found.extend((0..own.shown()).map(|column| of_column((relation, column))));
            }
        }
        if found.is_empty() {
            return Err(match qualifier {
                Some(name) => {
                    let message = format!("missing FROM-clause entry for table \"{name}\"");
                    self.error(node, SqlError::new("42P01", message))
                }
                None => self.syntax(node, "SELECT * with no tables specified is not valid"),
            });
        }
        Ok(found)
    }
}
