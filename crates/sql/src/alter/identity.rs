//! The actions of ALTER TABLE on identity columns.
//! Source: PostgreSQL 15, "ALTER TABLE", and `alter_identity_column_option` of its grammar.

use super::Alteration;
use crate::definition::identity_of;
use crate::error::StatementError;
use crate::schema::Schema;
use crate::sequence::SequenceChange;
use crate::source::At;
use catalog::{ScalarType, Table};
use procedure::Effect;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// The kind of column that the actions need.
pub(super) const IDENTITY: &str = "an identity column";

impl Alteration<'_> {
    pub(super) fn add_identity(
        &mut self,
        position: usize,
        add: &ast::AddGenerated,
    ) -> Result<(), StatementError> {
        let (node, column) = (add.syntax(), &self.builder.table.columns[position]);
        let subject = format!("column \"{}\" of relation \"{}\"", column.name, self.builder.short_name());
        let is_integer = column.domain.is_none() && column.ty.scalar().is_some_and(ScalarType::is_integer);
        if is_integer && column.nullable {
            let message = format!("{subject} must be declared NOT NULL before identity can be added");
            return self.error(node, "55000", message);
        }
        if is_integer && column.identity.is_some() {
            return self.error(node, "55000", format!("{subject} is already an identity column"));
        }
        if is_integer && column.default.is_some() {
            return self.error(node, "55000", format!("{subject} already has a default value"));
        }
        self.builder.identity(position, add.generated_when(), add.sequence_option_list(), node)
    }

    /// Changes an identity column, and its sequence after the actions.
    ///
    /// # Errors
    /// `55000`: the column is no identity column. `42601`: an option that an identity column lacks.
    pub(super) fn set_identity(
        &mut self,
        position: usize,
        options: impl Iterator<Item = ast::SetGeneratedOption>,
    ) -> Result<(), StatementError> {
        let mut change = SequenceChange::default();
        for option in options {
            let node = option.syntax();
            if self.builder.table.columns[position].identity.is_none() {
                return self.is_no(position, IDENTITY, false, node);
            }
            match &option {
                ast::SetGeneratedOption::Restart(restart) => change.restart = Some(restart.expr()),
                ast::SetGeneratedOption::SetGenerated(set) => {
                    let when = identity_of(set.generated_when());
                    self.builder.table.columns[position].identity = Some(when);
                }
                ast::SetGeneratedOption::SetSequenceOption(set) => {
                    let refused = match self.builder.binder.part(set.sequence_option(), node)? {
                        ast::SequenceOption::OptionAsType(_) => "as",
                        ast::SequenceOption::OptionOwnedBy(_) => "owned_by",
                        ast::SequenceOption::OptionRestart(_) => "restart",
                        option => {
                            change.options.push(option);
                            continue;
                        }
                    };
                    let message = format!("sequence option \"{refused}\" not supported here");
                    return self.error(node, "42601", message);
                }
            }
        }
        if change.restart.is_some() || !change.options.is_empty() {
            let name = self.builder.table.columns[position].name.clone();
            self.sequences.push((name, change));
        }
        Ok(())
    }
}

impl Schema {
    /// Changes the sequences of identity columns of a table, given by the names of the columns.
    pub(super) fn change_identities(
        &mut self,
        table: &Table,
        changes: &[(String, SequenceChange)],
        at: At<'_>,
    ) -> Result<Vec<Effect>, StatementError> {
        let mut effects = Vec::new();
        for (column, change) in changes {
            let is_owner = |sequence: &&Arc<Table>| {
                let owner = sequence.sequence.as_ref().and_then(|sequence| sequence.owner.as_ref());
                owner.is_some_and(|(of, owned)| *of == table.name && owned == column)
            };
            let sequence = self.catalog.tables().find(is_owner).cloned();
            if let Some(sequence) = sequence {
                effects.push(self.change_sequence(&sequence, change, at)?);
            }
        }
        Ok(effects)
    }
}
