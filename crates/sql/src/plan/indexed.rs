//! Expressions that a table has an index on, and the conditions of its partial indexes.
//!
//! An index on an expression, and a unique index of some rows, is one of a hidden generated column
//! (`crate::index`). An expression of a statement that is the one of such a column is that column for the
//! choice of a path: conditions, orders, lists of values.

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

/// What a table has indexes on beside its visible columns.
#[derive(Debug)]
pub(crate) struct Indexed {
    /// The first register of the row over which the expressions are bound.
    row: Register,
    /// Hidden columns, with their expressions.
    expressions: Vec<(usize, Expression)>,
    parts: Vec<Part>,
}

/// A hidden column of a partial index: it has the values of another column, or of an expression, in rows that
/// fulfil conditions, and NULL in all other rows.
#[derive(Debug)]
struct Part {
    hidden: usize,
    base: Base,
    conditions: Vec<Expression>,
}

#[derive(Debug)]
enum Base {
    Column(usize),
    Expression(Expression),
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

impl Indexed {
    /// Returns the hidden column whose expression an expression is.
    pub(super) fn column_of(&self, expression: &Expression, loaded: Loaded<'_>) -> Option<usize> {
        if matches!(expression, Expression::Register(_) | Expression::Constant(_)) {
            return None;
        }
        let own = over_whole_row(expression, loaded, self.row);
        self.expressions.iter().find(|(_, known)| *known == own).map(|(column, _)| *column)
    }

    /// Returns the hidden column that has the values of an expression in all rows that conjuncts let through.
    pub(super) fn part_of(
        &self,
        expression: &Expression,
        conjuncts: &[Conjunct],
        loaded: Loaded<'_>,
    ) -> Option<usize> {
        let own = over_whole_row(expression, loaded, self.row);
        let is_meant = |part: &&Part| matches!(&part.base, Base::Expression(base) if *base == own);
        let mut parts = self.parts.iter().filter(is_meant);
        let known = self.known(conjuncts, loaded);
        parts.find(|part| part.holds(&known)).map(|part| part.hidden)
    }

    /// Adds the candidates for hidden columns to those for the columns whose values they have, if the
    /// conjuncts let only rows through in which they do.
    pub(super) fn add_parts(
        &self,
        candidates: &mut Vec<Candidate>,
        conjuncts: &[Conjunct],
        loaded: Loaded<'_>,
    ) {
        let known = self.known(conjuncts, loaded);
        for Part { hidden, base, .. } in self.parts.iter().filter(|part| part.holds(&known)) {
            let Base::Column(column) = base else { continue };
            let of_column = candidates.iter().filter(|own| own.column == *column);
            let hidden: Vec<_> = of_column.map(|own| Candidate { column: *hidden, ..own.clone() }).collect();
            candidates.extend(hidden);
        }
    }

    /// Returns the conditions of conjuncts over a whole row.
    fn known(&self, conjuncts: &[Conjunct], loaded: Loaded<'_>) -> Vec<Expression> {
        let plain = conjuncts.iter().filter(|own| own.applied.is_empty());
        plain.map(|own| over_whole_row(&own.condition, loaded, self.row)).collect()
    }
}

impl Part {
    /// Returns whether its conditions are among those that are known to hold.
    fn holds(&self, known: &[Expression]) -> bool {
        self.conditions.iter().all(|condition| known.contains(condition))
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
            let index = table.indexes.iter().find(|index| index.columns.contains(&place));
            let Some(condition) = index.and_then(|index| index.details.condition.as_deref()) else {
                expressions.push((place, value));
                continue;
            };
            let of = table.visible().iter().position(|own| quoted(&own.name) == column.name);
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
                    Ok(conjuncts.into_iter().map(|own| own.condition).collect())
                })
            })?;
            parts.push(Part { hidden: place, base, conditions });
        }
        Ok(Some(Box::new(Indexed { row, expressions, parts })))
    }

    /// Returns the unique index that ON CONFLICT names by its columns, and by the condition of its rows if it
    /// is partial.
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
                ast::Expr::NameRef(name) => match target.place_of(&name.text()) {
                    Some(place) => target.stored(place).ok(),
                    None => {
                        let message = format!("column \"{}\" does not exist", name.text());
                        return Err(self.error(item.syntax(), SqlError::new("42703", message)));
                    }
                },
                expression => match self.over_target(target, row, |binder| binder.bind(expression))? {
                    Typed::Known(bound, _) => {
                        let indexed = indexed.as_ref();
                        let known = indexed.and_then(|own| own.column_of(&bound, whole));
                        known.or_else(|| indexed.and_then(|own| own.part_of(&bound, &conditions, whole)))
                    }
                    _ => None,
                },
            });
        }
        let known = indexed.as_ref().map(|own| own.known(&conditions, whole)).unwrap_or_default();
        let parts = indexed.iter().flat_map(|own| &own.parts).filter(|part| part.holds(&known));
        let parts: Vec<&Part> = parts.collect();
        let is_meant = |index: &catalog::Index| {
            let part_of = |column: &usize| parts.iter().find(|part| part.hidden == *column);
            if index.details.condition.is_some() && !index.columns.iter().any(|own| part_of(own).is_some()) {
                return false;
            }
            let named_as = |column: &usize| match part_of(column).map(|part| &part.base) {
                Some(Base::Column(base)) => Some(*base),
                _ => Some(*column),
            };
            let mut own: Vec<Option<usize>> = index.columns.iter().map(named_as).collect();
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
