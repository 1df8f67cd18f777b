//! Matches a statement's expressions with the indexes on expressions and the partial indexes of a table.
//!
//! An index on an expression, or a partial unique index, is an index on a hidden generated column
//! (`crate::index`). Where a condition, an order or a list of values has the expression of such a column, the
//! choice of a path treats it as that column.

use super::Binder;
use super::conjunct::Conjunct;
use super::target::Target;
use crate::binder::Typed;
use crate::error::StatementError;
use crate::path::Candidate;
use crate::quoted::quoted;
use catalog::Table;
use procedure::{CastContext, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The hidden columns of a table's indexes, with their expressions and conditions.
#[derive(Debug)]
pub(crate) struct Indexed {
    /// The first register of the row over which the expressions are bound.
    row: Register,
    /// The hidden columns of indexes on expressions, with these expressions.
    expressions: Vec<(usize, Expression)>,
    /// The hidden columns of partial indexes.
    partial_columns: Vec<PartialColumn>,
}

/// A hidden column of a partial index: it has the values of another column, or of an expression, in rows that
/// fulfil conditions, and NULL in all other rows.
#[derive(Debug)]
struct PartialColumn {
    hidden: usize,
    base: Base,
    conditions: Vec<Expression>,
}

/// The values of a hidden column of a partial index.
#[derive(Debug)]
enum Base {
    Column(usize),
    Expression(Expression),
}

/// The columns of a row in consecutive registers, from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'a> {
    pub(super) first: Register,
    pub(super) columns: &'a [usize],
}

/// Rewrites an expression over the loaded columns of a row into one over the whole row.
fn over_whole_row(expression: &Expression, loaded: Loaded<'_>, row: Register) -> Expression {
    let mut rewritten = expression.clone();
    rewritten.visit_registers(&mut |_, register| {
        let loaded_column =
            register.0.checked_sub(loaded.first.0).and_then(|offset| loaded.columns.get(offset as usize));
        if let Some(column) = loaded_column {
            *register = Register(row.0 + *column as u32);
        }
    });
    rewritten
}

impl Indexed {
    /// Returns the hidden column with this expression.
    pub(super) fn column_of(&self, expression: &Expression, loaded: Loaded<'_>) -> Option<usize> {
        if matches!(expression, Expression::Register(_) | Expression::Constant(_)) {
            return None;
        }
        let whole = over_whole_row(expression, loaded, self.row);
        self.expressions.iter().find(|(_, known)| *known == whole).map(|(column, _)| *column)
    }

    /// Returns the hidden column of a partial index that has the values of an expression in all rows that
    /// satisfy the conjuncts.
    pub(super) fn partial_column_of(
        &self,
        expression: &Expression,
        conjuncts: &[Conjunct],
        loaded: Loaded<'_>,
    ) -> Option<usize> {
        let whole = over_whole_row(expression, loaded, self.row);
        let is_meant =
            |partial: &&PartialColumn| matches!(&partial.base, Base::Expression(base) if *base == whole);
        let mut partial_columns = self.partial_columns.iter().filter(is_meant);
        let known = self.known(conjuncts, loaded);
        partial_columns.find(|partial| partial.holds(&known)).map(|partial| partial.hidden)
    }

    /// Adds a candidate for each hidden column of a partial index whose conditions the conjuncts imply. It
    /// has the operator and value of the candidate for the visible column.
    pub(super) fn add_partial_columns(
        &self,
        candidates: &mut Vec<Candidate>,
        conjuncts: &[Conjunct],
        loaded: Loaded<'_>,
    ) {
        let known = self.known(conjuncts, loaded);
        for PartialColumn { hidden, base, .. } in
            self.partial_columns.iter().filter(|partial| partial.holds(&known))
        {
            let Base::Column(column) = base else { continue };
            let of_column = candidates.iter().filter(|candidate| candidate.column == *column);
            let hidden: Vec<_> =
                of_column.map(|candidate| Candidate { column: *hidden, ..candidate.clone() }).collect();
            candidates.extend(hidden);
        }
    }

    /// Returns the conditions of conjuncts without subqueries, as expressions over a whole row.
    fn known(&self, conjuncts: &[Conjunct], loaded: Loaded<'_>) -> Vec<Expression> {
        let plain = conjuncts.iter().filter(|conjunct| conjunct.applied.is_empty());
        plain.map(|conjunct| over_whole_row(&conjunct.condition, loaded, self.row)).collect()
    }
}

impl PartialColumn {
    /// Returns whether all its conditions are in `known`.
    fn holds(&self, known: &[Expression]) -> bool {
        self.conditions.iter().all(|condition| known.contains(condition))
    }
}

impl Binder<'_> {
    /// Returns the hidden columns of a table's indexes; `None` if the table has no hidden columns.
    pub(super) fn indexed(
        &mut self,
        table: &Table,
        node: &SyntaxNode,
    ) -> Result<Option<Box<Indexed>>, StatementError> {
        if !table.columns.iter().any(|column| column.hidden) {
            return Ok(None);
        }
        let row = self.row_registers(table);
        let (mut expressions, mut partial_columns) = (Vec::new(), Vec::new());
        for (position, column) in table.columns.iter().enumerate().filter(|(_, column)| column.hidden) {
            let Some(text) = column.default.as_deref() else { continue };
            let value = self.bind_definition(text, node, |binder, expression| {
                binder.over_row(table, row, |binder| {
                    binder.bind_as(expression, column.ty, CastContext::Assignment)
                })
            })?;
            let index = table.indexes.iter().find(|index| index.columns.contains(&position));
            let Some(condition) = index.and_then(|index| index.details.condition.as_deref()) else {
                expressions.push((position, value));
                continue;
            };
            let of = table.visible().iter().position(|visible| quoted(&visible.name) == column.name);
            let base = match of {
                Some(of) => Base::Column(of),
                None => {
                    Base::Expression(self.bind_definition(&column.name, node, |binder, expression| {
                        binder.over_row(table, row, |binder| {
                            binder.bind_as(expression, column.ty, CastContext::Assignment)
                        })
                    })?)
                }
            };
            let conditions = self.bind_definition(condition, node, |binder, condition| {
                binder.over_row(table, row, |binder| {
                    let mut conjuncts = Vec::new();
                    binder.bind_conjuncts(condition.clone(), &mut conjuncts)?;
                    Ok(conjuncts.into_iter().map(|conjunct| conjunct.condition).collect())
                })
            })?;
            partial_columns.push(PartialColumn { hidden: position, base, conditions });
        }
        Ok(Some(Box::new(Indexed { row, expressions, partial_columns })))
    }

    /// Returns the unique index that ON CONFLICT names by its columns and, if it is partial, by its
    /// condition.
    pub(super) fn bind_conflict_target(
        &mut self,
        conflict: &ast::ConflictOnIndex,
        target: &Target,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let table = &target.table;
        let row = self.row_registers(table);
        let indexed = self.indexed(table, node)?;
        let columns_of_row: Vec<usize> = (0..table.columns.len()).collect();
        let whole = Loaded { first: row, columns: &columns_of_row };
        let mut conditions = Vec::new();
        if let Some(condition) = conflict.where_clause().and_then(|clause| clause.expr()) {
            let bind = |binder: &mut Self| binder.bind_conjuncts(condition, &mut conditions);
            self.over_target(target, row, bind)?;
        }
        let mut columns = Vec::new();
        let list = self.part(conflict.conflict_index_item_list(), node)?;
        for item in list.conflict_index_items() {
            let mut expression = self.part(item.expr(), item.syntax())?;
            while let ast::Expr::ParenExpr(inner) = &expression {
                expression = self.part(inner.expr(), inner.syntax())?;
            }
            columns.push(match &expression {
                ast::Expr::NameRef(name) => match target.column_index(&name.text()) {
                    Some(column) => target.stored(column).ok(),
                    None => {
                        let message = format!("column \"{}\" does not exist", name.text());
                        return Err(self.error(item.syntax(), SqlError::new("42703", message)));
                    }
                },
                expression => match self.over_target(target, row, |binder| binder.bind(expression))? {
                    Typed::Known(bound, _) => {
                        let indexed = indexed.as_ref();
                        let known = indexed.and_then(|hidden| hidden.column_of(&bound, whole));
                        known.or_else(|| {
                            indexed.and_then(|hidden| hidden.partial_column_of(&bound, &conditions, whole))
                        })
                    }
                    _ => None,
                },
            });
        }
        let known = indexed.as_ref().map(|indexed| indexed.known(&conditions, whole)).unwrap_or_default();
        let partial_columns = indexed.iter().flat_map(|indexed| &indexed.partial_columns);
        let partial_columns: Vec<_> = partial_columns.filter(|partial| partial.holds(&known)).collect();
        let is_meant = |index: &catalog::Index| {
            let partial_column_of =
                |column: &usize| partial_columns.iter().find(|partial| partial.hidden == *column);
            if index.details.condition.is_some()
                && !index.columns.iter().any(|column| partial_column_of(column).is_some())
            {
                return false;
            }
            let named_as = |column: &usize| match partial_column_of(column).map(|partial| &partial.base) {
                Some(Base::Column(base)) => Some(*base),
                _ => Some(*column),
            };
            let mut index_columns: Vec<Option<usize>> = index.columns.iter().map(named_as).collect();
            let mut named = columns.clone();
            index_columns.sort_unstable();
            named.sort_unstable();
            index.is_key() && index_columns == named
        };
        table.indexes.iter().position(is_meant).ok_or_else(|| {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            self.error(node, SqlError::new("42P10", message))
        })
    }
}
