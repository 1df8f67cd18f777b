//! Statements that control transactions: the modes of a transaction, and AND CHAIN.

use squawk_syntax::ast::{self, AstNode};

/// The modes of a transaction in BEGIN and SET TRANSACTION. All transactions are serializable, whichever
/// level is requested.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransactionModes {
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// Whether an isolation level is named.
    pub names_isolation: bool,
}

impl TransactionModes {
    fn of(modes: impl IntoIterator<Item = ast::TransactionMode>) -> Self {
        let mut all = Self::default();
        for mode in modes {
            match mode {
                ast::TransactionMode::ReadOnly(_) => all.read_only = Some(true),
                ast::TransactionMode::ReadWrite(_) => all.read_only = Some(false),
                ast::TransactionMode::Deferrable(_) | ast::TransactionMode::NotDeferrable(_) => {}
                ast::TransactionMode::ReadCommitted(_)
                | ast::TransactionMode::ReadUncommitted(_)
                | ast::TransactionMode::RepeatableRead(_)
                | ast::TransactionMode::Serializable(_) => all.names_isolation = true,
            }
        }
        all
    }

    pub(crate) fn of_begin(begin: &ast::Begin) -> Self {
        Self::of(begin.transaction_mode_list().into_iter().flat_map(|list| list.transaction_modes()))
    }

    /// Returns the modes of SET TRANSACTION, or of SET SESSION CHARACTERISTICS.
    pub(crate) fn of_set(set: &ast::SetTransaction) -> Self {
        Self::of(set.syntax().descendants().filter_map(ast::TransactionMode::cast))
    }
}

/// Returns whether the clause is AND CHAIN.
pub(crate) fn chains(clause: Option<ast::ChainClause>) -> bool {
    matches!(clause, Some(ast::ChainClause::AndChain(_)))
}
