//! Names as SQL text.

use crate::truncation::cut;

/// Returns a name as SQL text, in quotes if it needs them, as a keyword does.
pub(crate) fn quoted(name: &str) -> String {
    procedure::quoted_name(name)
}

/// Returns a name and its schema as SQL text.
pub(crate) fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

/// Returns the name that a text has as an identifier of SQL, with its schema: the opposite of `quoted_path`.
/// `None`: the text is no identifier.
pub(crate) fn written_path(text: &str) -> Option<String> {
    let parts = procedure::identifier_parts(text, true).ok()?;
    Some(parts.into_iter().map(cut).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written() {
        for (text, path) in [
            ("t", Some("t")),
            ("T", Some("t")),
            ("\"T\"", Some("T")),
            (" s . \"a b\" ", Some("s.a b")),
            ("\"a\"\"b\"", Some("a\"b")),
            ("a b", None),
            ("\"a", None),
            ("1a", None),
            ("a.", None),
            ("", None),
        ] {
            assert_eq!(written_path(text).as_deref(), path, "{text}");
        }
        assert_eq!(written_path(&quoted_path("s.A b")).as_deref(), Some("s.A b"));
    }
}
