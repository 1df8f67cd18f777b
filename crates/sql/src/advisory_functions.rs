//! The functions for advisory locks.
//!
//! Not here: the statements that call them (`advisory`).

use crate::evaluated::Arguments;

/// The effect of a function on a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdvisoryAction {
    /// Waits for the lock, and takes it.
    Lock,
    /// Takes the lock if that needs no wait.
    TryLock,
    /// Releases the lock.
    Unlock,
    /// Releases all locks of the connection.
    UnlockAll,
}

/// A call of a function for advisory locks.
#[derive(Clone, Debug)]
pub struct AdvisoryCall {
    /// The effect on the lock.
    pub action: AdvisoryAction,
    /// Whether the lock can be shared.
    pub is_shared: bool,
    /// Whether the end of the transaction releases the lock.
    pub of_transaction: bool,
    /// The key: one BIGINT, or two INTEGERs.
    pub key: Arguments,
}

/// The functions: name, action, whether the lock is shared, whether it is the transaction's.
pub(crate) const FUNCTIONS: [(&str, AdvisoryAction, bool, bool); 11] = [
    ("pg_advisory_lock", AdvisoryAction::Lock, false, false),
    ("pg_advisory_lock_shared", AdvisoryAction::Lock, true, false),
    ("pg_advisory_unlock", AdvisoryAction::Unlock, false, false),
    ("pg_advisory_unlock_all", AdvisoryAction::UnlockAll, false, false),
    ("pg_advisory_unlock_shared", AdvisoryAction::Unlock, true, false),
    ("pg_advisory_xact_lock", AdvisoryAction::Lock, false, true),
    ("pg_advisory_xact_lock_shared", AdvisoryAction::Lock, true, true),
    ("pg_try_advisory_lock", AdvisoryAction::TryLock, false, false),
    ("pg_try_advisory_lock_shared", AdvisoryAction::TryLock, true, false),
    ("pg_try_advisory_xact_lock", AdvisoryAction::TryLock, false, true),
    ("pg_try_advisory_xact_lock_shared", AdvisoryAction::TryLock, true, true),
];

/// Returns whether a function takes or releases advisory locks.
pub(crate) fn is_advisory(name: &str) -> bool {
    FUNCTIONS.iter().any(|(own, ..)| *own == name)
}
