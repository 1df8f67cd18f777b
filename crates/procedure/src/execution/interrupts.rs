//! Interrupts that end a statement from outside: its client's request, and its deadline.

use crate::SqlError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The interrupts of the statement in progress.
#[derive(Clone, Default, Debug)]
pub struct Interrupts {
    /// The flag that cancels the statement when it is raised.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// The time by which the statement must have ended.
    pub deadline: Option<Instant>,
}

impl Interrupts {
    /// Checks whether the statement has to end.
    ///
    /// # Errors
    /// `57014`: the statement was cancelled, or its deadline has passed.
    pub fn check(&self) -> Result<(), SqlError> {
        if self.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(SqlError::new("57014", "canceling statement due to user request"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(SqlError::new("57014", "canceling statement due to statement timeout"));
        }
        Ok(())
    }
}
