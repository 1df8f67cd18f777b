//! Decides from the texts of a query of several statements which transactions it has.

fn first_word(text: &str) -> String {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    word.to_lowercase()
}

/// Returns whether each statement of a query with this statement is a transaction: this statement is a
/// definition, or a command that cannot run in a transaction.
pub(super) fn stands_alone(text: &str) -> bool {
    let word = first_word(text);
    if word.is_empty() {
        // Any statement may follow a comment.
        return !text.trim_start().starts_with('(');
    }
    matches!(
        word.as_str(),
        "alter"
            | "analyze"
            | "checkpoint"
            | "comment"
            | "copy"
            | "create"
            | "drop"
            | "grant"
            | "import"
            | "reindex"
            | "reassign"
            | "refresh"
            | "revoke"
            | "truncate"
            | "vacuum"
    )
}

pub(super) fn begins_or_ends_transaction(text: &str) -> bool {
    matches!(first_word(text).as_str(), "abort" | "begin" | "commit" | "end" | "rollback" | "start")
}
