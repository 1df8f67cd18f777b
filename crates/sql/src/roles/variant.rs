//! The logging of calls of a routine's variant for a role.
//!
//! Not here: the choice of routines that have variants (`acting`).

use super::acl::RoleId;
use super::role::BOOTSTRAP;
use procedure::{ByValueCause, Procedure};

/// Returns a routine that was compiled for a role. Unless the role is the bootstrap superuser, calls of the
/// routine are logged by value.
pub(crate) fn logged_for(role: RoleId, compiled: Procedure) -> Procedure {
    let cause = Some(ByValueCause::Moment).filter(|_| role != BOOTSTRAP);
    Procedure { by_value: compiled.by_value.clone().or(cause), ..compiled }
}
