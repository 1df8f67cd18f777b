//! Names as SQL text.

use squawk_syntax::quote::{quote_ident_always, quote_quoted_ident};

/// Returns a name as SQL text, in quotes if it needs them, as a keyword does.
pub(crate) fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match name.bytes().all(is_plain) {
        true => quote_quoted_ident(name),
        false => quote_ident_always(name),
    }
}

/// Returns a name and its schema as SQL text.
pub(crate) fn quoted_path(name: &str) -> String {
    name.split('.').map(quoted).collect::<Vec<_>>().join(".")
}
