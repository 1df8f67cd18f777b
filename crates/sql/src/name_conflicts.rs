//! What a name of both a column and a variable means: `#variable_conflict` in a body.
//! Source: PostgreSQL 15's documentation, "Variable Substitution".

use crate::words::words_of;

/// The meaning of a name of both a column and a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameConflict {
    /// The name is ambiguous.
    Error,
    /// It is the column, as in the language SQL.
    Column,
    /// It is the variable.
    Variable,
}

impl NameConflict {
    /// Returns what a body in PL/pgSQL says at its beginning.
    pub(crate) fn of(body: &str) -> Self {
        let before = body.to_lowercase();
        let before = before.split("begin").next().unwrap_or_default();
        let words = words_of(before);
        let position = words.iter().position(|word| word.is("variable_conflict"));
        let meaning = position.and_then(|position| words.get(position + 1));
        match meaning.map(|word| word.text) {
            Some("use_column") => Self::Column,
            Some("use_variable") => Self::Variable,
            _ => Self::Error,
        }
    }
}
