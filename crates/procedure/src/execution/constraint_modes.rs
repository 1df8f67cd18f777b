//! SET CONSTRAINTS: when the open transaction checks the constraints that it can defer.

use catalog::{Deferral, TableId};

/// When the open transaction checks its constraints, where that differs from their declarations.
#[derive(Clone, Default, Debug)]
pub struct ConstraintModes {
    /// SET CONSTRAINTS ALL: whether all are deferred; `None` as declared.
    all: Option<bool>,
    /// Whether a constraint is deferred, by its table and name.
    named: Vec<((TableId, String), bool)>,
}

impl ConstraintModes {
    /// Returns whether a constraint of a table is checked at the end of the transaction.
    pub fn defers(&self, deferral: Deferral, table: TableId, name: &str) -> bool {
        if deferral == Deferral::Never {
            return false;
        }
        let is_named =
            |constraint: &&((TableId, String), bool)| constraint.0.0 == table && constraint.0.1 == name;
        let named = self.named.iter().find(is_named).map(|(_, deferred)| *deferred);
        named.or(self.all).unwrap_or(deferral == Deferral::Deferred)
    }

    /// Defers all constraints, or none.
    pub fn set_all(&mut self, deferred: bool) {
        *self = Self { all: Some(deferred), named: Vec::new() };
    }

    /// Defers a constraint, or does not.
    pub fn set(&mut self, table: TableId, name: &str, deferred: bool) {
        self.named.retain(|((constrained, known), _)| *constrained != table || known != name);
        self.named.push(((table, name.into()), deferred));
    }
}
