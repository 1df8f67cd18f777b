//! The options of a constraint that say when it is checked.

use super::TableBuilder;
use crate::error::StatementError;
use catalog::Deferral;
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};

impl TableBuilder<'_> {
    /// Returns when a foreign key or a unique key is checked.
    pub(super) fn deferral(
        &self,
        options: ast::AstChildren<ast::ConstraintOption>,
        match_type: Option<ast::MatchType>,
    ) -> Result<Deferral, StatementError> {
        use ast::ConstraintOption as Option_;
        let (mut is_deferrable, mut is_deferred, mut rest) = (None, None, Vec::new());
        let refused = |option: &ast::ConstraintOption, message: &str| {
            Err(self.binder.error(option.syntax(), SqlError::new("42601", message)))
        };
        for option in options {
            let (known, value) = match &option {
                Option_::DeferrableConstraintOption(_) => (&mut is_deferrable, true),
                Option_::NotDeferrableConstraintOption(_) => (&mut is_deferrable, false),
                Option_::InitiallyDeferredConstraintOption(_) => (&mut is_deferred, true),
                Option_::InitiallyImmediateConstraintOption(_) => (&mut is_deferred, false),
                _ => {
                    rest.push(option);
                    continue;
                }
            };
            if known.replace(value).is_some() {
                let is_timing = matches!(
                    option,
                    Option_::InitiallyDeferredConstraintOption(_)
                        | Option_::InitiallyImmediateConstraintOption(_)
                );
                let what =
                    if is_timing { "INITIALLY IMMEDIATE/DEFERRED" } else { "DEFERRABLE/NOT DEFERRABLE" };
                return refused(&option, &format!("multiple {what} clauses not allowed"));
            }
            if is_deferred == Some(true) && is_deferrable == Some(false) {
                return refused(&option, "constraint declared INITIALLY DEFERRED must be DEFERRABLE");
            }
        }
        self.refuse_options(rest.into_iter(), match_type)?;
        Ok(match (is_deferrable, is_deferred) {
            (_, Some(true)) => Deferral::Deferred,
            (Some(true), _) => Deferral::Immediate,
            _ => Deferral::Never,
        })
    }

    pub(super) fn refuse_options(
        &self,
        mut options: impl Iterator<Item = ast::ConstraintOption>,
        match_type: Option<ast::MatchType>,
    ) -> Result<(), StatementError> {
        let is_plain = |option: &ast::ConstraintOption| {
            matches!(
                option,
                ast::ConstraintOption::NotDeferrableConstraintOption(_)
                    | ast::ConstraintOption::InitiallyImmediateConstraintOption(_)
                    | ast::ConstraintOption::Enforced(_)
                    // The rows are checked at once, and VALIDATE CONSTRAINT has nothing to do.
                    | ast::ConstraintOption::NotValid(_)
            )
        };
        if let Some(option) = options.find(|option| !is_plain(option)) {
            return Err(self.binder.unsupported(option.syntax(), "this option of a constraint"));
        }
        match match_type {
            None | Some(ast::MatchType::MatchSimple(_)) => Ok(()),
            Some(other) => Err(self.binder.unsupported(other.syntax(), "MATCH other than SIMPLE")),
        }
    }
}
