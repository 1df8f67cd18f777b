//! How the variant of a routine for a role is kept.
//!
//! Not here: which routines have variants (`acting`).

use super::acl::RoleId;
use super::role::BOOTSTRAP;
use procedure::{ByValueCause, Procedure};

/// Returns a routine as it is kept for a role: calls of a variant are logged by value.
pub(crate) fn logged_for(role: RoleId, own: Procedure) -> Procedure {
    let cause = Some(ByValueCause::Moment).filter(|_| role != BOOTSTRAP);
    Procedure { by_value: own.by_value.clone().or(cause), ..own }
}
