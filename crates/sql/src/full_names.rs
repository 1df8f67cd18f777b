//! Full names of objects: the schema, a point and the name. Objects of `public` have no schema in theirs.

/// Returns a name without its schema.
pub(crate) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// Returns the full name of an object in the schema of a table.
pub(crate) fn in_schema_of(table: &str, name: String) -> String {
    match table.rsplit_once('.') {
        Some((schema, _)) => format!("{schema}.{name}"),
        None => name,
    }
}
