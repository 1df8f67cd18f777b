//! The options of a constraint that say when it is checked.

use super::TableBuilder;
use crate::error::StatementError;
use catalog::{Deferral, ForeignKey};
use procedure::SqlError;
use squawk_syntax::ast::{self, AstNode};

impl TableBuilder<'_> {
    /// Returns when a foreign key is checked.
    pub(super) fn deferral(
        &self,
        options: ast::AstChildren<ast::ConstraintOption>,
        match_type: Option<ast::MatchType>,
    ) -> Result<Deferral, StatementError> {
        use ast::ConstraintOption as Option;
        let (mut is_deferrable, mut is_deferred, mut rest) = (None, false, Vec::new());
        for option in options {
            match &option {
                Option::DeferrableConstraintOption(_) => is_deferrable = Some(true),
                Option::NotDeferrableConstraintOption(_) => is_deferrable = Some(false),
                Option::InitiallyDeferredConstraintOption(_) => is_deferred = true,
                _ => rest.push(option.clone()),
            }
            if is_deferred && is_deferrable == Some(false) {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(self.binder.error(option.syntax(), SqlError::new("42601", message)));
            }
        }
        self.refuse_options(rest.into_iter(), match_type)?;
        Ok(match (is_deferrable, is_deferred) {
            (_, true) => Deferral::Deferred,
            (Some(true), false) => Deferral::Immediate,
            (_, false) => Deferral::Never,
        })
    }

    /// Sets when a foreign key is checked.
    pub(super) fn defer(
        &self,
        key: &mut ForeignKey,
        deferral: Deferral,
        mut actions: ast::AstChildren<ast::ReferentialAction>,
    ) -> Result<(), StatementError> {
        // RESTRICT is checked at once, unlike NO ACTION, and both are one action here.
        let restricts = |action: &ast::ReferentialAction| {
            action.syntax().descendants().any(|part| ast::Restrict::can_cast(part.kind()))
        };
        if deferral != Deferral::Never
            && let Some(action) = actions.find(restricts)
        {
            return Err(self.binder.unsupported(action.syntax(), "RESTRICT of a deferrable constraint"));
        }
        key.deferral = deferral;
        Ok(())
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
