//! What CREATE OR REPLACE may change of a routine.
//! Source: PostgreSQL 15's documentation, "CREATE FUNCTION".

use procedure::{Parameter, Procedure, SqlError};

/// Returns a name without its schema.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn kind_of(routine: &Procedure) -> &'static str {
    if routine.is_function || routine.is_trigger { "function" } else { "procedure" }
}

/// Returns the name with the types of the inputs, as hints have it.
fn signature(routine: &Procedure) -> String {
    let types: Vec<String> = routine.inputs().map(|(_, own)| own.type_name()).collect();
    format!("{}({})", short(&routine.name), types.join(","))
}

fn types_of<'p>(parameters: impl Iterator<Item = &'p Parameter>) -> Vec<String> {
    parameters.map(|own| own.type_name()).collect()
}

/// Returns whether calls of two functions have results of the same type. A row of one column is the column.
fn returns_the_same(old: &Procedure, new: &Procedure) -> bool {
    let only = |routine: &Procedure| match routine.rows.as_deref() {
        Some([(_, ty)]) => Some(*ty),
        _ => None,
    };
    old.returns_the_same_as(new) || only(old).is_some() && only(old) == only(new)
}

/// Returns why a routine cannot take the place of another one of the same name.
pub(crate) fn refusal(old: &Procedure, new: &Procedure) -> Option<SqlError> {
    let inputs = |routine: &Procedure| types_of(routine.inputs().map(|(_, own)| own));
    if inputs(old) != inputs(new) {
        // PostgreSQL would keep both routines.
        let message = format!("several routines named \"{}\" are not supported", short(&new.name));
        let hint = format!("Use DROP {} {} first.", kind_of(old).to_uppercase(), signature(old));
        return Some(SqlError::new("0A000", message).with_hint(hint));
    }
    let hint = || format!("Use DROP {} {} first.", kind_of(old).to_uppercase(), signature(old));
    if kind_of(old) != kind_of(new) {
        let detail = format!("\"{}\" is a {}.", short(&old.name), kind_of(old));
        return Some(SqlError::new("42809", "cannot change routine kind").with_detail(detail));
    }
    let outputs = |routine: &Procedure| {
        let outputs = routine.parameters.iter().filter(|own| own.is_output());
        outputs.map(|own| (own.name.clone(), own.type_name())).collect::<Vec<_>>()
    };
    if (old.is_function || old.is_trigger) && !returns_the_same(old, new) {
        let message = "cannot change return type of existing function";
        let error = SqlError::new("42P13", message).with_hint(hint());
        let is_row = |routine: &Procedure| routine.rows.as_ref().is_some_and(|own| own.len() > 1);
        return Some(match is_row(old) && is_row(new) {
            true => error.with_detail("Row type defined by OUT parameters is different."),
            false => error,
        });
    }
    if !old.is_function && outputs(old) != outputs(new) {
        let message = "cannot change return type of existing function";
        let error = SqlError::new("42P13", message).with_hint(hint());
        return Some(match outputs(old).len() > 1 || outputs(new).len() > 1 {
            true => error.with_detail("Row type defined by OUT parameters is different."),
            false => error,
        });
    }
    for ((_, old), (_, new)) in old.inputs().zip(new.inputs()) {
        if !old.name.is_empty() && old.name != new.name {
            let message = format!("cannot change name of input parameter \"{}\"", old.name);
            return Some(SqlError::new("42P13", message).with_hint(hint()));
        }
    }
    let has_default =
        |routine: &Procedure| routine.inputs().map(|(_, own)| own.has_default()).collect::<Vec<_>>();
    let loses_default = has_default(old).into_iter().zip(has_default(new)).any(|(old, new)| old && !new);
    loses_default.then(|| {
        SqlError::new("42P13", "cannot remove parameter defaults from existing function").with_hint(hint())
    })
}
