//! What the constraints of one column must not contradict, and which options they do not have.
//! Source: PostgreSQL 15, `parse_utilcmd.c`.

use super::TableBuilder;
use crate::error::StatementError;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Returns the words of an option that says when a constraint is checked; `None` for any other option.
fn timing_words(option: &ast::ConstraintOption) -> Option<&'static str> {
    Some(match option {
        ast::ConstraintOption::DeferrableConstraintOption(_) => "DEFERRABLE",
        ast::ConstraintOption::NotDeferrableConstraintOption(_) => "NOT DEFERRABLE",
        ast::ConstraintOption::InitiallyDeferredConstraintOption(_) => "INITIALLY DEFERRED",
        ast::ConstraintOption::InitiallyImmediateConstraintOption(_) => "INITIALLY IMMEDIATE",
        _ => return None,
    })
}

fn options_of(constraint: &SyntaxNode) -> impl Iterator<Item = ast::ConstraintOption> {
    constraint.children().filter_map(ast::ConstraintOption::cast)
}

impl TableBuilder<'_> {
    /// Checks the constraints of a new column against each other.
    ///
    /// # Errors
    /// `42601`: the column is NULL and NOT NULL, or a constraint that is checked at once is to be deferrable,
    /// or a constraint is NOT VALID.
    pub(crate) fn check_column_rules(
        &self,
        position: usize,
        constraints: &[ast::ColumnConstraint],
    ) -> Result<(), StatementError> {
        use ast::ColumnConstraint as Constraint;
        let column = &self.table.columns[position];
        let refuse = |node: &SyntaxNode, message: String| {
            Err(self.binder.error(node, SqlError::new("42601", message)))
        };
        // A serial column is NOT NULL already.
        let mut nullable = Some(false).filter(|_| !column.nullable);
        for constraint in constraints {
            let declared = match constraint {
                Constraint::NotNullConstraint(_) => Some(false),
                Constraint::NullConstraint(_) => Some(true),
                Constraint::GeneratedConstraint(own) => Some(false)
                    .filter(|_| matches!(own.generated_as(), Some(ast::GeneratedAs::GeneratedIdentity(_)))),
                _ => None,
            };
            if let Some(declared) = declared
                && nullable.replace(declared).is_some_and(|before| before != declared)
            {
                let message = format!(
                    "conflicting NULL/NOT NULL declarations for column \"{}\" of table \"{}\"",
                    column.name,
                    self.short_name()
                );
                return refuse(constraint.syntax(), message);
            }
            let is_unchecked =
                |own: &ast::ConstraintOption| matches!(own, ast::ConstraintOption::NotValid(_));
            if let Some(option) = options_of(constraint.syntax()).find(is_unchecked) {
                return refuse(option.syntax(), "syntax error at or near \"NOT VALID\"".into());
            }
            let has_timing = matches!(
                constraint,
                Constraint::PrimaryKeyConstraint(_)
                    | Constraint::UniqueConstraint(_)
                    | Constraint::ReferencesConstraint(_)
                    | Constraint::ExcludeConstraint(_)
            );
            let misplaced = options_of(constraint.syntax()).find_map(|own| Some((timing_words(&own)?, own)));
            if let Some((words, option)) = misplaced.filter(|_| !has_timing) {
                return refuse(option.syntax(), format!("misplaced {words} clause"));
            }
        }
        Ok(())
    }

    /// Refuses a CHECK constraint of a table that is to be deferrable.
    ///
    /// # Errors
    /// `0A000`: it is.
    pub(super) fn refuse_deferrable_check(&self, check: &ast::CheckConstraint) -> Result<(), StatementError> {
        let is_later = |own: &ast::ConstraintOption| {
            matches!(timing_words(own), Some("DEFERRABLE" | "INITIALLY DEFERRED"))
        };
        match options_of(check.syntax()).find(is_later) {
            Some(option) => {
                let error = SqlError::new("0A000", "CHECK constraints cannot be marked DEFERRABLE");
                Err(self.binder.error(option.syntax(), error))
            }
            None => Ok(()),
        }
    }
}
