//! Names as SQL text.

/// Returns a name as SQL text, in quotes if it needs them, as a keyword does.
pub(crate) fn quoted(name: &str) -> String {
    procedure::quoted_name(name)
}

/// Returns a name and its schema as SQL text.
pub(crate) fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}
