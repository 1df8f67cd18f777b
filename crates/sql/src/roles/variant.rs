//! The logging of calls of a routine's variant for a role or a session.
//!
//! Not here: the choice of routines that have variants (`acting`).

use super::role::BOOTSTRAP;
use crate::schema::Schema;
use procedure::{ByValueCause, Procedure};

/// Returns a routine that was compiled for a role, or for a session with temporary relations. Unless it is
/// the routine as the bootstrap superuser calls it, its calls are logged by value.
pub(crate) fn logged_for(schema: &Schema, compiled: Procedure) -> Procedure {
    let is_variant = schema.acting != BOOTSTRAP || schema.temporary.is_some();
    let cause = Some(ByValueCause::Moment).filter(|_| is_variant);
    Procedure { by_value: compiled.by_value.clone().or(cause), ..compiled }
}
