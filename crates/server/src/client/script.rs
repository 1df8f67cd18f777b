//! What the texts of a query of several statements say about its transactions.

fn first_word(text: &str) -> String {
    let word: String = text.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
    word.to_lowercase()
}

/// Returns whether the statements of a text with this statement are separate transactions: this is a
/// definition, or a command that must not run in a transaction.
pub(super) fn stands_alone(text: &str) -> bool {
    let word = first_word(text);
    if word.is_empty() {
        // Behind a comment any statement may follow.
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
