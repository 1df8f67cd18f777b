//! Replaces the password in a statement by its verifier before the statement is logged.

use crate::words::words_of;
use procedure::SqlError;

/// Returns the range of the password's literal in a statement about a role.
fn password_in(statement: &str) -> Option<std::ops::Range<usize>> {
    let words = words_of(statement);
    let [first, second, ..] = words.as_slice() else { return None };
    let is_of_role = first.is_any(&["CREATE", "ALTER"]) && second.is_any(&["ROLE", "USER", "GROUP"]);
    let keyword = words.iter().position(|word| word.is("PASSWORD")).filter(|_| is_of_role)?;
    let literal = words.get(keyword + 1)?;
    (!literal.is("NULL")).then(|| literal.range.clone())
}

/// Returns whether a statement may have a password that is no verifier.
pub fn needs_verifier(statement: &str) -> bool {
    password_in(statement).is_some()
}

/// Returns a statement with the result of `verifier` instead of its password.
///
/// # Errors
/// `0A000`: the password is an MD5 hash.
pub fn with_verifier(statement: &str, verifier: impl FnOnce(&str) -> String) -> Result<String, SqlError> {
    let Some(range) = password_in(statement) else { return Ok(statement.to_owned()) };
    let Some(password) = super::clause::literal_text(&statement[range.clone()]) else {
        return Ok(statement.to_owned());
    };
    refuse_hash(&password)?;
    if password.is_empty() || is_verifier(&password) {
        return Ok(statement.to_owned());
    }
    let mut text = statement.to_owned();
    text.replace_range(range, &format!("'{}'", verifier(&password)));
    Ok(text)
}

/// Refuses a password that is an MD5 hash.
///
/// # Errors
/// `0A000`: it is one.
pub(crate) fn refuse_hash(password: &str) -> Result<(), SqlError> {
    let digits = password.strip_prefix("md5").filter(|digits| digits.len() == 32);
    if !digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        return Ok(());
    }
    let error = SqlError::new("0A000", "MD5 hashes of passwords are not supported");
    Err(error.with_hint("Give the password itself, or a verifier for SCRAM-SHA-256."))
}

/// Returns whether a password is a verifier for SCRAM-SHA-256.
fn is_verifier(password: &str) -> bool {
    let parts = password.strip_prefix("SCRAM-SHA-256$").map(|fields| fields.split('$').collect::<Vec<_>>());
    matches!(parts.as_deref(), Some([salt, keys]) if salt.contains(':') && keys.contains(':'))
}
