//! Variables that are declared NOT NULL or have a domain: a statement sets a register in the variable's
//! place, and the variable is set after a check.

use crate::binder::{Binder, Unchecked};
use crate::error::StatementError;
use procedure::{Expression, Raise, Register, SqlError, Statement};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Declares that a variable is never NULL. Its first value is checked.
    ///
    /// # Errors
    /// `22004`: it has no first value.
    pub(crate) fn declare_never_null(
        &mut self,
        name: &str,
        register: Register,
        has_value: bool,
        node: &SyntaxNode,
    ) -> Result<Statement, StatementError> {
        if !has_value {
            let message =
                format!("variable \"{name}\" must have a default value, since it's declared NOT NULL");
            return Err(self.error(node, SqlError::new("22004", message)));
        }
        self.never_null.insert(register, name.to_owned());
        Ok(self.refuse_null(register, name))
    }

    /// Returns whether a variable of a type is a record, a row or a cursor.
    pub(crate) fn is_row_type(&self, ty: &ast::PlpgsqlDeclType) -> bool {
        let text = ty.syntax().text().to_string().to_lowercase();
        match ty {
            ast::PlpgsqlDeclType::PlpgsqlPercentRowtype(_) => true,
            ast::PlpgsqlDeclType::FuncType(ty) => {
                matches!(text.as_str(), "record" | "refcursor") || self.table_of_type(ty).is_some()
            }
        }
    }

    fn refuse_null(&self, register: Register, name: &str) -> Statement {
        let message = format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL");
        let raise = Statement::Raise(Box::new(Raise::error("22004", &message)));
        let condition = Expression::IsNull(Box::new(Expression::Register(register)));
        Statement::If { condition, then: vec![raise], otherwise: Vec::new() }
    }

    /// Returns the register that a statement sets for a variable.
    pub(crate) fn target_for(&mut self, target: Register) -> Register {
        if !self.never_null.contains_key(&target) && !self.domains.contains_key(&target) {
            return target;
        }
        let source = self.new_register(self.registers[target.0 as usize]);
        self.unchecked.push(Unchecked { source, target });
        source
    }

    /// Returns the statements that check and set the variables that a statement sets.
    pub(crate) fn take_checks(&mut self, node: &SyntaxNode) -> Result<Vec<Statement>, StatementError> {
        let mut checks = Vec::new();
        for Unchecked { source, target } in std::mem::take(&mut self.unchecked) {
            let mut value = self.checked_for(target, Expression::Register(source), node)?;
            if let Some(name) = self.never_null.get(&target).cloned() {
                // As in PostgreSQL, the domain is checked first.
                if self.domains.contains_key(&target) {
                    checks.push(Statement::Assign { target: source, value });
                    value = Expression::Register(source);
                }
                checks.push(self.refuse_null(source, &name));
            }
            checks.push(Statement::Assign { target, value });
        }
        Ok(checks)
    }
}
