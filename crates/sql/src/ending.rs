//! The end of a function's body, which PostgreSQL does not let a call reach without RETURN.

use crate::binder::Binder;
use procedure::{Expression, Label, Raise, Severity, Statement};

impl Binder<'_> {
    /// Returns the statement at the end of a body: an error, unless all ways through the body end before.
    pub(crate) fn end_of_function(&self, body: &[Statement]) -> Option<Statement> {
        if !self.must_return || self.always_ends(body) {
            return None;
        }
        let raise = Raise::error("2F005", "control reached end of function without RETURN");
        Some(Statement::Raise(Box::new(raise)))
    }

    fn always_ends(&self, body: &[Statement]) -> bool {
        body.iter().any(|statement| match statement {
            Statement::Return | Statement::RaiseAgain => true,
            Statement::Exit(label) => self.row_label == Some(*label),
            Statement::Raise(raise) => raise.severity == Severity::Exception,
            Statement::If { then, otherwise, .. } => self.always_ends(then) && self.always_ends(otherwise),
            Statement::Block { label, body } => self.always_ends(body) && !leaves(body, *label),
            Statement::While { label, condition, body } => {
                *condition == Expression::boolean(true) && !leaves(body, *label)
            }
            Statement::Guarded(guarded) => {
                let handlers = guarded.handlers.iter();
                self.always_ends(&guarded.body) && handlers.into_iter().all(|own| self.always_ends(&own.body))
            }
            _ => false,
        })
    }
}

/// Returns whether a statement of a body leaves the block or loop around it.
fn leaves(body: &[Statement], label: Label) -> bool {
    let mut leaves = false;
    Statement::walk(body, &mut |statement| {
        leaves |= matches!(statement, Statement::Exit(own) if *own == label);
    });
    leaves
}
