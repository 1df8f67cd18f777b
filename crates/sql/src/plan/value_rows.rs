//! The rows of VALUES in an INSERT.

use super::{Binder, apply_ahead, apply_all};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::Table;
use procedure::Expression;
use procedure::query::Plan;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A value of a row.
pub(crate) enum RowItem {
    /// An expression as it is written.
    Written(ast::Expr),
    /// A field of a record or row: `r.*` stands for all its fields.
    Field(Typed),
}

impl RowItem {
    fn is_default(&self) -> bool {
        let is_default = |literal: &ast::Literal| matches!(literal.kind(), Some(ast::LitKind::Default(_)));
        matches!(self, Self::Written(ast::Expr::Literal(literal)) if is_default(literal))
    }
}

impl Binder<'_> {
    /// Returns the values of a row, with the fields of each record in place of `record.*`.
    pub(crate) fn row_items(&self, written: impl Iterator<Item = ast::Expr>) -> Vec<RowItem> {
        let mut items = Vec::new();
        for value in written {
            let fields = match &value {
                ast::Expr::FieldExpr(field) if field.star_token().is_some() => match field.base() {
                    Some(ast::Expr::NameRef(name)) if !self.names_relation(&name.text()) => {
                        self.fields(&name.text())
                    }
                    _ => None,
                },
                _ => None,
            };
            match fields {
                None => items.push(RowItem::Written(value)),
                Some(fields) => items.extend(fields.iter().map(|(_, variable)| {
                    RowItem::Field(Typed::Known(Expression::Register(variable.register), variable.ty))
                })),
            }
        }
        items
    }

    pub(crate) fn bind_row_item(&mut self, item: RowItem) -> Result<Typed, StatementError> {
        match item {
            RowItem::Written(value) => self.bind(&value),
            RowItem::Field(value) => Ok(value),
        }
    }

    pub(super) fn bind_value_rows(
        &mut self,
        rows: &[ast::Row],
        (table, columns): (&Table, &[usize]),
        node: &SyntaxNode,
    ) -> Result<(Plan, Vec<Option<Expression>>), StatementError> {
        let items = |binder: &Self| {
            let items = rows.iter().map(|row| binder.row_items(row.exprs()));
            items.collect::<Vec<_>>()
        };
        let defaults = items(self).into_iter().map(|row| row.iter().map(RowItem::is_default).collect());
        let defaults: Vec<Vec<bool>> = defaults.collect();
        let mut bound: Vec<Vec<Option<Expression>>> = Vec::new();
        let bind = |binder: &mut Self| {
            for row in items(binder) {
                let mut values = Vec::new();
                for (place, item) in row.into_iter().enumerate() {
                    let Some(column) = columns.get(place) else {
                        return Err(binder.syntax(node, "INSERT has more expressions than target columns"));
                    };
                    values.push(if item.is_default() && rows.len() > 1 {
                        Some(binder.bind_default(table, *column, node)?)
                    } else if item.is_default() {
                        None
                    } else {
                        let node = match &item {
                            RowItem::Written(value) => value.syntax().clone(),
                            RowItem::Field(_) => node.clone(),
                        };
                        let value = binder.bind_row_item(item)?;
                        Some(binder.coerce_to_column(value, &table.columns[*column], &node)?)
                    });
                }
                bound.push(values);
            }
            Ok(())
        };
        let ((), applied) = self.applying(bind)?;
        let width = bound.first().map_or(0, Vec::len);
        if bound.iter().any(|row| row.len() != width) {
            return Err(self.syntax(node, "VALUES lists must all be the same length"));
        }
        if let [row] = bound.as_mut_slice() {
            return Ok((apply_all(applied, Plan::One), std::mem::take(row)));
        }
        let mut registers = Vec::new();
        for column in &columns[..width] {
            registers.push(self.new_register(table.columns[*column].ty));
        }
        let complete = bound.into_iter().map(|row| row.into_iter().flatten().collect()).collect();
        let is_left_out =
            |place: usize| table.columns[columns[place]].generated && defaults.iter().all(|row| row[place]);
        let given = registers.iter().enumerate();
        let given = given
            .map(|(place, register)| (!is_left_out(place)).then_some(Expression::Register(*register)))
            .collect();
        Ok((apply_ahead(applied, Plan::Values { registers, rows: complete }), given))
    }
}
