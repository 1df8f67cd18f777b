//! Names as SQL text.

/// Returns a name as SQL text, in quotes if it needs them.
pub(crate) fn quoted(name: &str) -> String {
    procedure::quoted_name(name)
}

/// Returns a name as SQL text in quotes: for texts that are read again, where a plain name may be a keyword.
pub(crate) fn always_quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a name and its schema as SQL text.
pub(crate) fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}
