//! The words of a text of SQL or PL/pgSQL: its tokens without blanks and comments.

use squawk_lexer::{Token, TokenKind};
use std::ops::Range;

/// A token, with its range of bytes.
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) kind: TokenKind,
    pub(crate) range: Range<usize>,
}

impl Word<'_> {
    pub(crate) fn is(&self, keyword: &str) -> bool {
        self.kind == TokenKind::Ident && self.text.eq_ignore_ascii_case(keyword)
    }

    pub(crate) fn is_any(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is(keyword))
    }

    pub(crate) fn name(&self) -> Option<String> {
        match self.kind {
            TokenKind::Ident => Some(self.text.to_ascii_lowercase()),
            TokenKind::QuotedIdent { .. } => Some(self.text.trim_matches('"').replace("\"\"", "\"")),
            _ => None,
        }
    }
}

/// Returns the words of a text.
pub(crate) fn words_of(text: &str) -> Vec<Word<'_>> {
    let mut offset = 0;
    let words = squawk_lexer::tokenize(text).filter_map(|Token { kind, len }| {
        let range = offset..offset + len as usize;
        offset = range.end;
        let trivia = matches!(
            kind,
            TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment { .. } | TokenKind::Eof
        );
        (!trivia).then(|| Word { text: &text[range.clone()], kind, range })
    });
    words.collect()
}
