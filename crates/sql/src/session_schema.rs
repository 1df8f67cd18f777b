//! The names of the schemas of temporary relations.

/// The beginning of the name of each temporary schema.
pub(crate) const PREFIX: &str = "pg_temp_";

/// Returns whether a schema is that of the temporary relations of a session.
pub(crate) fn is_session_schema(schema: &str) -> bool {
    let number = schema.strip_prefix(PREFIX);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a relation is temporary, by its full name.
pub(crate) fn is_temporary_name(name: &str) -> bool {
    name.split_once('.').is_some_and(|(schema, _)| is_session_schema(schema))
}
