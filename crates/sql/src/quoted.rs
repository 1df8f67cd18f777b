//! Names as SQL text.

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
    let (mut parts, mut remaining) = (Vec::new(), text.trim());
    loop {
        let mut part = String::new();
        if let Some(quoted) = remaining.strip_prefix('"') {
            remaining = quoted;
            loop {
                let (before, after) = remaining.split_once('"')?;
                part.push_str(before);
                remaining = after;
                match after.strip_prefix('"') {
                    Some(next) => remaining = next,
                    None => break,
                }
                part.push('"');
            }
        } else {
            let end = remaining.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
            let (name, after) = remaining.split_at(end.unwrap_or(remaining.len()));
            if name.starts_with(|c: char| c.is_ascii_digit() || c == '$') {
                return None;
            }
            part.push_str(&name.to_lowercase());
            remaining = after;
        }
        parts.push(Some(part).filter(|part| !part.is_empty())?);
        match remaining.trim_start().strip_prefix('.') {
            Some(next) => remaining = next.trim_start(),
            None if remaining.trim().is_empty() => return Some(parts.join(".")),
            None => return None,
        }
    }
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
