//! VALIDATE CONSTRAINT: has no effect, because NOT VALID checks the rows, too.
//! Source: PostgreSQL 15, `ATExecValidateConstraint`.

use super::Alteration;
use crate::error::StatementError;
use crate::full_names::short;
use crate::types::object_name;
use squawk_syntax::ast::{self, AstNode};

impl Alteration<'_> {
    /// Checks that the table has the constraint.
    ///
    /// # Errors
    /// `42704`: it has not. `42809`: the constraint is a key.
    pub(super) fn validate_constraint(
        &mut self,
        validate: &ast::ValidateConstraint,
    ) -> Result<(), StatementError> {
        let node = validate.syntax();
        let name = self.builder.binder.part(validate.constraint_name_ref(), node)?;
        let name = name.path_ref().map(|path| object_name(&path)).unwrap_or_default();
        let table = &self.builder.table;
        let mut conditions =
            table.checks.iter().map(|(name, _)| name).chain(table.foreign_keys.iter().map(|key| &key.name));
        if conditions.any(|known| *known == name) {
            return Ok(());
        }
        let of = format!("constraint \"{name}\" of relation \"{}\"", self.builder.short_name());
        match table.indexes.iter().any(|index| index.is_constraint && short(&index.name) == name) {
            true => {
                let message = format!("{of} is not a foreign key or check constraint");
                self.error(node, "42809", message)
            }
            false => self.error(node, "42704", format!("{of} does not exist")),
        }
    }
}
