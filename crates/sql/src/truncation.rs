//! Identifiers of more than 63 bytes, of which the first 63 count.
//! Source: PostgreSQL 15, `truncate_identifier`.
//!
//! Blanks take the place of the other bytes, so positions stay.

use procedure::{Notice, Severity, SqlError};
use squawk_lexer::TokenKind;
use std::ops::Range;

/// Maximum bytes of an identifier.
pub(crate) const MOST_BYTES: usize = 63;

/// A long identifier of a text.
struct Long {
    /// Its bytes in the text, with its quotes.
    range: Range<usize>,
    name: String,
    is_quoted: bool,
}

impl Long {
    /// Returns the part of the name that counts: whole characters.
    fn kept(&self) -> &str {
        &self.name[..self.name.floor_char_boundary(MOST_BYTES)]
    }
}

/// Cuts a name to the part that counts.
pub(crate) fn cut(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MOST_BYTES));
    name
}

/// Returns whether a text may have a long identifier.
fn may_be_long(text: &str) -> bool {
    let (mut word, mut quoted) = (0, 0);
    let has_quotes = text.contains('"');
    text.bytes().any(|byte| {
        word = if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 { word + 1 } else { 0 };
        quoted = if byte == b'"' { 0 } else { quoted + 1 };
        word > MOST_BYTES || has_quotes && quoted > MOST_BYTES
    })
}

fn long_identifiers(text: &str) -> Vec<Long> {
    let mut found = Vec::new();
    if text.len() <= MOST_BYTES || !may_be_long(text) {
        return found;
    }
    let mut offset = 0;
    for token in squawk_lexer::tokenize(text) {
        let range = offset..offset + token.len as usize;
        offset = range.end;
        if range.len() <= MOST_BYTES {
            continue;
        }
        let written = &text[range.clone()];
        let (name, is_quoted) = match token.kind {
            TokenKind::Ident => (written.to_ascii_lowercase(), false),
            TokenKind::QuotedIdent { terminated: true, uescape: false } => {
                (written[1..written.len() - 1].replace("\"\"", "\""), true)
            }
            _ => continue,
        };
        if name.len() > MOST_BYTES {
            found.push(Long { range, name, is_quoted });
        }
    }
    found
}

/// Returns the text with short identifiers; `None` if it has no long ones.
pub(crate) fn truncated(text: &str) -> Option<String> {
    let found = long_identifiers(text);
    if found.is_empty() {
        return None;
    }
    let mut short = text.to_owned();
    for long in found {
        let written = match long.is_quoted {
            true => format!("\"{}\"", long.kept().replace('"', "\"\"")),
            false => text[long.range.start..][..long.kept().len()].to_owned(),
        };
        let width = long.range.len();
        short.replace_range(long.range, &format!("{written}{}", " ".repeat(width - written.len())));
    }
    Some(short)
}

/// Returns the notices about the long identifiers of a text that a client has sent.
pub fn truncation_notices(text: &str) -> Vec<Notice> {
    let notice = |long: &Long| {
        let message = format!("identifier \"{}\" will be truncated to \"{}\"", long.name, long.kept());
        Notice { severity: Severity::Notice, content: SqlError::new("42622", message) }
    };
    long_identifiers(text).iter().map(notice).collect()
}

#[cfg(test)]
mod tests {
    use super::truncated;

    #[test]
    fn names_end_at_a_character_and_positions_stay() {
        let long = format!("{}é", "a".repeat(62));
        let short = truncated(&format!("SELECT {long}, \"{long}\".b FROM t")).unwrap();
        let kept = "a".repeat(62);
        assert_eq!(short, format!("SELECT {kept}  , \"{kept}\"  .b FROM t"));
        assert_eq!(truncated(&format!("SELECT {kept}b, '{long}'")), None);
    }
}
