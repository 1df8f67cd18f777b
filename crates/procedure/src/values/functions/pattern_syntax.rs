//! PostgreSQL's regular expressions in the syntax of the crate that searches.
//! Source: PostgreSQL 15's documentation, "POSIX Regular Expressions": bounds and escapes.

/// Returns a pattern of PostgreSQL as one of the crate `regex`. They differ in what some escapes mean, and in
/// that a brace which begins no bound is a character.
pub(super) fn as_regex(pattern: &str) -> String {
    let mut made = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek().copied()) {
            ('{', next) if !next.is_some_and(|next| next.is_ascii_digit()) => made.push_str("\\{"),
            ('\\', Some(escaped)) => {
                rest.next();
                match escape(escaped) {
                    Some(other) => made.push_str(other),
                    None => made.extend(['\\', escaped]),
                }
            }
            (c, _) => made.push(c),
        }
    }
    made
}

/// Returns what an escape of PostgreSQL is called by the crate, if it has another name there.
fn escape(escaped: char) -> Option<&'static str> {
    Some(match escaped {
        'b' => "\\x08",
        'B' => "\\\\",
        'e' => "\\x1B",
        'm' => "\\b{start}",
        'M' => "\\b{end}",
        'y' => "\\b",
        'Y' => "\\B",
        'Z' => "\\z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_braces_have_postgresqls_meaning() {
        let cases = [
            ("a{2,3}{x", "a{2,3}\\{x"),
            ("{", "\\{"),
            ("\\{\\d\\\\{", "\\{\\d\\\\\\{"),
            ("\\mfoo\\M\\Z", "\\b{start}foo\\b{end}\\z"),
            ("a\\", "a\\"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(as_regex(pattern), expected);
        }
    }
}
