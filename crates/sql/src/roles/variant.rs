//! The logging of calls of a routine's variant for a role or a session.
//!
//! Not here: the choice of routines that have variants (`acting`).

use procedure::{ByValueCause, Procedure};

/// Returns a routine. Calls of a variant, which was compiled for a role or for a session with temporary
/// relations, are logged by value.
pub(crate) fn logged_for(is_variant: bool, compiled: Procedure) -> Procedure {
    let cause = Some(ByValueCause::Moment).filter(|_| is_variant);
    Procedure { by_value: compiled.by_value.clone().or(cause), ..compiled }
}
