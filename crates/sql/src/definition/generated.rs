//! Generated columns of a table that is created or altered.

use super::TableBuilder;
use crate::binder::{Binder, Typed};
use crate::computed::Computed;
use crate::error::StatementError;
use crate::kept_text;
use catalog::{Column, ReferenceAction, Table};
use procedure::{Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// Binds the DEFAULT or the generation expression of a column.
pub(crate) fn bind_for(
    binder: &mut Binder<'_>,
    expression: &ast::Expr,
    column: &Column,
) -> Result<Expression, StatementError> {
    let bound = match binder.bind(expression)? {
        literal @ Typed::Literal(_) => {
            let read = binder.coerce_default(literal, column.ty, expression.syntax())?;
            Typed::Known(read, column.ty)
        }
        bound => bound,
    };
    binder.coerce_to_column(bound, column, expression.syntax()).map_err(|mut error| {
        error.error.message = error.error.message.replace(" but expression is", " but default expression is");
        error
    })
}

impl TableBuilder<'_> {
    /// Makes a column a generated one. Its expression is checked when all columns are known.
    pub(super) fn generate(
        &mut self,
        position: usize,
        stored: &ast::GeneratedStored,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        self.refuse_second_default(position, "generation expression", node)?;
        if !matches!(stored.generated_kind(), Some(ast::GeneratedKind::Stored(_))) {
            return Err(self.binder.unsupported(node, "a generated column that is not STORED"));
        }
        let expression = self.binder.part(stored.expr(), node)?;
        let text = kept_text::unqualified(&expression, self.short_name(), self.binder.source);
        let column = &mut self.table.columns[position];
        (column.default, column.generated) = (Some(text), true);
        self.generated.push((column.name.clone(), expression));
        Ok(())
    }

    /// Refuses a DEFAULT or a generation expression beside another one.
    pub(super) fn refuse_second_default(
        &self,
        position: usize,
        what: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let column = &self.table.columns[position];
        let first = match (column.generated, column.identity, &column.default) {
            (true, ..) => "generation expression",
            (_, Some(_), _) => "identity",
            (.., Some(_)) => "default",
            _ => return Ok(()),
        };
        let of = format!("for column \"{}\" of table \"{}\"", column.name, self.short_name());
        let message = match (first, what) {
            ("default", "default") => format!("multiple default values specified {of}"),
            ("generation expression", "generation expression") => {
                format!("multiple generation clauses specified {of}")
            }
            ("generation expression", what) => format!("both {what} and {first} specified {of}"),
            (first, what) => format!("both {first} and {what} specified {of}"),
        };
        Err(self.binder.error(node, SqlError::new("42601", message)))
    }

    /// Binds every new generation expression once, against the final columns.
    pub(super) fn check_generated(&mut self, table: &Arc<Table>) -> Result<(), StatementError> {
        for (name, expression) in std::mem::take(&mut self.generated) {
            let node = expression.syntax();
            let Some(column) = table.column(&name).map(|position| &table.columns[position]) else { continue };
            let uses = kept_text::columns_in(column.default.as_deref().unwrap_or_default());
            if let Some(used) =
                table.visible().iter().find(|column| column.generated && uses.contains(&column.name))
            {
                let message =
                    format!("cannot use generated column \"{}\" in column generation expression", used.name);
                let error = SqlError::new("42P17", message)
                    .with_detail("A generated column cannot reference another generated column.");
                return Err(self.binder.error(node, error));
            }
            let bind = |binder: &mut Binder<'_>| bind_for(binder, &expression, column).map(|_| ());
            self.binder.check_computed(table, node, Computed::GeneratedColumn, bind)?;
        }
        Ok(())
    }

    /// Refuses foreign keys whose actions would set generated columns.
    pub(super) fn refuse_generated_keys(&self, node: &SyntaxNode) -> Result<(), StatementError> {
        for key in &self.table.foreign_keys {
            if !key.columns.iter().any(|column| self.table.columns[*column].generated) {
                continue;
            }
            let sets = |action| matches!(action, ReferenceAction::SetNull | ReferenceAction::SetDefault);
            let event = match (key.on_update, key.on_delete) {
                (action, _) if action == ReferenceAction::Cascade || sets(action) => "UPDATE",
                (_, action) if sets(action) => "DELETE",
                _ => continue,
            };
            let message =
                format!("invalid ON {event} action for foreign key constraint containing generated column");
            return Err(self.binder.error(node, SqlError::new("42601", message)));
        }
        Ok(())
    }
}
