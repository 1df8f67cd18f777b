//! Expressions that a table has an index on, and the conditions of its partial indexes.
//!
//! An index on an expression, and a unique index of some rows, is one of a hidden generated column
//! (`crate::index`). An expression of a statement that is the one of such a column is that column for the
//! choice of a path: conditions, orders, lists of values.

use super::Binder;
use super::conjunct::Conjunct;
use crate::binder::Typed;
use crate::error::StatementError;
use crate::path::Candidate;
use crate::quoted::quoted;
use catalog::Table;
use procedure::{CastContext, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// What a table has indexes on beside its visible columns.
#[derive(Debug)]
pub(crate) struct Indexed {
    /// The first register of the row over which the expressions are bound.
    row: Register,
    /// Hidden columns, with their expressions.
    expressions: Vec<(usize, Expression)>,
    parts: Vec<Part>,
}

/// A hidden column that has the values of another one in rows that fulfil conditions, and NULL in all other
/// rows.
#[derive(Debug)]
struct Part {
    hidden: usize,
    column: usize,
    conditions: Vec<Expression>,
}

/// The columns of a row that registers hold, from a first one on.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'a> {
    pub(super) first: Register,
    pub(super) columns: &'a [usize],
}

/// Returns an expression over a row of which some columns are loaded, as one over a whole row.
fn over_whole_row(expression: &Expression, loaded: Loaded<'_>, row: Register) -> Expression {
    let mut own = expression.clone();
    own.visit_registers(&mut |_, register| {
        let place =
            register.0.checked_sub(loaded.first.0).and_then(|place| loaded.columns.get(place as usize));
        if let Some(column) = place {
            *register = Register(row.0 + *column as u32);
        }
    });
    own
}

/// Returns the column whose values a hidden column of a partial index has in some rows: a visible one, or a
/// hidden one of an expression.
fn base_of(table: &Table, hidden: usize) -> Option<usize> {
    let name = &table.columns[hidden].name;
    let visible = table.visible().iter().position(|column| quoted(&column.name) == *name);
    visible
        .or_else(|| (0..hidden).find(|own| table.columns[*own].hidden && table.columns[*own].name == *name))
}

impl Indexed {
    /// Returns the hidden column whose expression an expression is.
    pub(super) fn column_of(&self, expression: &Expression, loaded: Loaded<'_>) -> Option<usize> {
        if matches!(expression, Expression::Register(_) | Expression::Constant(_)) {
            return None;
        }
        let own = over_whole_row(expression, loaded, self.row);
        self.expressions.iter().find(|(_, known)| *known == own).map(|(column, _)| *column)
    }

    /// Adds the candidates for hidden columns to those for the columns whose values they have, if the
    /// conjuncts let only rows through in which they do.
    pub(super) fn add_parts(
        &self,
        candidates: &mut Vec<Candidate>,
        conjuncts: &[Conjunct],
        loaded: Loaded<'_>,
    ) {
        for (hidden, column) in self.parts_in(conjuncts, loaded) {
            let of_column = candidates.iter().filter(|own| own.column == column);
            let hidden: Vec<_> = of_column.map(|own| Candidate { column: hidden, ..own.clone() }).collect();
            candidates.extend(hidden);
        }
    }

    /// Returns the hidden columns that have the values of another column in all rows that conjuncts let
    /// through, each with that column.
    fn parts_in(&self, conjuncts: &[Conjunct], loaded: Loaded<'_>) -> Vec<(usize, usize)> {
        let plain = conjuncts.iter().filter(|own| own.applied.is_empty());
        let known: Vec<_> = plain.map(|own| over_whole_row(&own.condition, loaded, self.row)).collect();
        let holds = |part: &&Part| part.conditions.iter().all(|condition| known.contains(condition));
        self.parts.iter().filter(holds).map(|part| (part.hidden, part.column)).collect()
    }
}

impl Binder<'_> {
    /// Returns what a table has indexes on beside its visible columns; `None` if there is nothing.
    pub(super) fn indexed(
        &mut self,
        table: &Table,
        node: &SyntaxNode,
    ) -> Result<Option<Box<Indexed>>, StatementError> {
        if !table.columns.iter().any(|column| column.hidden) {
            return Ok(None);
        }
        let row = self.row_registers(table);
        let (mut expressions, mut parts) = (Vec::new(), Vec::new());
        for (place, column) in table.columns.iter().enumerate().filter(|(_, column)| column.hidden) {
            let Some(text) = column.default.as_deref() else { continue };
            let value = self.bind_definition(text, node, |binder, expression| {
                binder.over_row(table, row, |binder| {
                    binder.bind_as(expression, column.ty, CastContext::Assignment)
                })
            })?;
            expressions.push((place, value));
            let index =
                table.indexes.iter().find(|index| index.unique && index.columns.first() == Some(&place));
            let condition = index.and_then(|index| index.details.condition.as_deref());
            let of = base_of(table, place);
            if let (Some(condition), Some(of)) = (condition, of) {
                let conditions = self.bind_definition(condition, node, |binder, condition| {
                    binder.over_row(table, row, |binder| {
                        let mut conjuncts = Vec::new();
                        binder.bind_conjuncts(condition.clone(), &mut conjuncts)?;
                        Ok(conjuncts.into_iter().map(|own| own.condition).collect())
                    })
                })?;
                parts.push(Part { hidden: place, column: of, conditions });
            }
        }
        Ok(Some(Box::new(Indexed { row, expressions, parts })))
    }

    /// Returns the unique index that ON CONFLICT names by its columns, and by the condition of its rows if it
    /// is partial.
    pub(super) fn bind_conflict_target(
        &mut self,
        target: &ast::ConflictOnIndex,
        table: &Table,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let row = self.row_registers(table);
        let indexed = self.indexed(table, node)?;
        let columns_of_row: Vec<usize> = (0..table.columns.len()).collect();
        let whole = Loaded { first: row, columns: &columns_of_row };
        let mut columns = Vec::new();
        let list = self.part(target.conflict_index_item_list(), node)?;
        for item in list.conflict_index_items() {
            let mut expression = self.part(item.expr(), item.syntax())?;
            while let ast::Expr::ParenExpr(inner) = &expression {
                expression = self.part(inner.expr(), inner.syntax())?;
            }
            columns.push(match &expression {
                ast::Expr::NameRef(name) => Some(self.column_of(table, &name.text(), item.syntax())?),
                expression => match self.over_row(table, row, |binder| binder.bind(expression))? {
                    Typed::Known(bound, _) => indexed.as_ref().and_then(|own| own.column_of(&bound, whole)),
                    _ => None,
                },
            });
        }
        let mut conditions = Vec::new();
        if let Some(condition) = target.where_clause().and_then(|clause| clause.expr()) {
            let bind = |binder: &mut Self| binder.bind_conjuncts(condition, &mut conditions);
            self.over_row(table, row, bind)?;
        }
        let parts = indexed.iter().flat_map(|own| own.parts_in(&conditions, whole));
        let parts: Vec<(usize, usize)> = parts.collect();
        let is_meant = |index: &catalog::Index| {
            let mut own: Vec<Option<usize>> = index.columns.iter().map(|column| Some(*column)).collect();
            if index.details.condition.is_some() {
                let part = parts.iter().find(|(hidden, _)| own[0] == Some(*hidden));
                let Some((_, column)) = part else { return false };
                own[0] = Some(*column);
            }
            let mut named = columns.clone();
            own.sort_unstable();
            named.sort_unstable();
            index.unique && own == named
        };
        table.indexes.iter().position(is_meant).ok_or_else(|| {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            self.error(node, SqlError::new("42P10", message))
        })
    }
}
