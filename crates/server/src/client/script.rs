//! Decides from texts which statements begin, end or refuse transactions.

fn first_word(text: &str) -> String {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    word.to_lowercase()
}

/// Returns the name of a statement that PostgreSQL refuses in a transaction of several statements; `None` for
/// any other statement. `tag` is its tag.
pub(super) fn runs_alone(tag: &'static str, text: &str) -> Option<&'static str> {
    let says = |word: &str| text.split_ascii_whitespace().take(5).any(|part| part.eq_ignore_ascii_case(word));
    match tag {
        "VACUUM" | "DISCARD ALL" => Some(tag),
        "CREATE INDEX" if says("concurrently") => Some("CREATE INDEX CONCURRENTLY"),
        "DROP INDEX" if says("concurrently") => Some("DROP INDEX CONCURRENTLY"),
        "REINDEX" if says("concurrently") => Some("REINDEX CONCURRENTLY"),
        "REINDEX" if says("schema") => Some("REINDEX SCHEMA"),
        "REINDEX" if says("database") => Some("REINDEX DATABASE"),
        "REINDEX" if says("system") => Some("REINDEX SYSTEM"),
        _ => None,
    }
}

pub(super) fn begins_or_ends_transaction(text: &str) -> bool {
    matches!(first_word(text).as_str(), "abort" | "begin" | "commit" | "end" | "rollback" | "start")
}
