//! Corrects what the grammar reads differently from PostgreSQL, in the text before it is parsed.
//!
//! * An OR behind a BETWEEN: `a BETWEEN 1 AND 2 OR b IS NULL` is parsed as
//!   `(a BETWEEN 1 AND (2 OR b)) IS NULL`. With `AND TRUE` before the OR, which changes no result, the
//!   BETWEEN ends where it should.
//! * A BETWEEN behind a cast: in `a::date BETWEEN b AND c` the BETWEEN loses its operand. The cast is put in
//!   parentheses.
//! * A cursor behind `FETCH FORWARD` or `MOVE BACKWARD` is parsed as the number of rows. The number 1, which
//!   is the default, is put before it.
//!
//! `Insertions` maps offsets of the parsed text back to the written text, for errors and for kept texts.

use crate::words::{Word, words_of};
use squawk_lexer::TokenKind;

/// The insertions into a text before it is parsed.
#[derive(Default, Debug)]
pub(crate) struct Insertions {
    /// The inserted texts, by the offset in the text as it is written.
    parts: Vec<(usize, &'static str)>,
}

impl Insertions {
    /// Finds the insertions that a text needs. `base` is the offset of the text in its source.
    pub(crate) fn find(&mut self, text: &str, base: usize) {
        let has =
            |word: &[u8]| text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
        let (has_between, has_direction) = (has(b"between"), base == 0 && has(b"ward"));
        if !has_between && !has_direction {
            return;
        }
        let words = words_of(text);
        if has_direction {
            self.parts.extend(cursors_behind_directions(&words).map(|at| (at, "1 ")));
        }
        for (at, _) in words.iter().enumerate().filter(|(_, word)| word.is("between")) {
            if let Some(or) = or_behind(&words, at) {
                self.parts.push((words[or].range.start + base, "AND TRUE "));
            }
            if let Some((first, last)) = cast_before(&words, at) {
                self.parts.push((words[first].range.start + base, "("));
                self.parts.push((words[last].range.end + base, ")"));
            }
        }
    }

    /// Executes the insertions.
    pub(crate) fn insert_into(&mut self, source: &mut String) {
        self.parts.sort_by_key(|(at, _)| *at);
        for (at, part) in self.parts.iter().rev() {
            source.insert_str(*at, part);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the offset in the text as it is written of an offset in the parsed text.
    pub(crate) fn original(&self, parsed: usize) -> usize {
        let mut inserted = 0;
        for (at, part) in &self.parts {
            if parsed < at + inserted + part.len() {
                return (parsed - inserted).min(*at);
            }
            inserted += part.len();
        }
        parsed - inserted
    }
}

/// Returns the offsets of cursors that follow FORWARD or BACKWARD in the FETCH and MOVE of a client.
fn cursors_behind_directions<'a>(words: &'a [Word<'_>]) -> impl Iterator<Item = usize> + 'a {
    (0..words.len()).filter_map(|at| {
        let [moving, direction, cursor] = words.get(at..at + 3)? else { return None };
        let begins = at == 0 || words[at - 1].kind == TokenKind::Semi;
        let is_moving = moving.is_any(&["fetch", "move"]) && direction.is_any(&["forward", "backward"]);
        let is_cursor = cursor.name().is_some() && !cursor.is_any(&["all", "from", "in"]);
        (begins && is_moving && is_cursor).then_some(cursor.range.start)
    })
}

/// Returns the index of the OR that follows the end of the BETWEEN at an index.
fn or_behind(words: &[Word<'_>], between: usize) -> Option<usize> {
    let (mut depth, mut cases, mut is_end) = (0, 0, false);
    for (at, word) in words.iter().enumerate().skip(between + 1) {
        match word.kind {
            TokenKind::OpenParen | TokenKind::OpenBracket => depth += 1,
            TokenKind::CloseParen | TokenKind::CloseBracket if depth == 0 => return None,
            TokenKind::CloseParen | TokenKind::CloseBracket => depth -= 1,
            _ if depth > 0 => {}
            TokenKind::Semi | TokenKind::Comma => return None,
            _ if word.is("case") => cases += 1,
            _ if word.is("end") && cases > 0 => cases -= 1,
            _ if cases > 0 => {}
            _ if word.is("and") && !is_end => is_end = true,
            _ if word.is("or") => return is_end.then_some(at),
            _ if word.is_any(&["and", "then", "when", "else", "end", "loop"]) => return None,
            _ => {}
        }
    }
    None
}

/// Returns the first and the last word of a cast by `::` that is the operand of the BETWEEN at an index.
fn cast_before(words: &[Word<'_>], between: usize) -> Option<(usize, usize)> {
    let last = between.checked_sub(1)?;
    let last = if words[last].is("not") { last.checked_sub(1)? } else { last };
    // The type's name, back to its `::`.
    let mut at = last;
    while words[at].kind != TokenKind::Colon {
        at = match words[at].kind {
            TokenKind::CloseParen | TokenKind::CloseBracket => opening(words, at)?,
            // Behind a cast the frame of a window begins, or a CASE ends.
            TokenKind::Ident if words[at].is_any(&["rows", "range", "groups", "end"]) => return None,
            TokenKind::Ident | TokenKind::QuotedIdent { .. } if !begins_operand(&words[at]) => at,
            TokenKind::Dot => at,
            _ => return None,
        }
        .checked_sub(1)?;
    }
    let colon = at.checked_sub(1).filter(|before| words[*before].kind == TokenKind::Colon)?;
    Some((operand_before(words, colon)?, last))
}

/// Returns the first word of the operand that ends before an index. The grammar reads a cast's operand alike.
fn operand_before(words: &[Word<'_>], end: usize) -> Option<usize> {
    let last = end.checked_sub(1)?;
    match words[last].kind {
        TokenKind::CloseBracket => operand_before(words, opening(words, last)?).or(opening(words, last)),
        TokenKind::CloseParen => {
            let open = opening(words, last)?;
            let is_call = open.checked_sub(1).is_some_and(|name| {
                let name = &words[name];
                name.name().is_some() && name.range.end == words[open].range.start && !begins_operand(name)
            });
            if is_call { operand_before(words, open) } else { Some(open) }
        }
        TokenKind::PositionalParam { .. } => Some(last),
        TokenKind::Literal { .. } => {
            let ty = last.checked_sub(1).filter(|before| {
                words[*before].is_any(&["date", "time", "timestamp", "timestamptz", "interval"])
            });
            Some(ty.unwrap_or(last))
        }
        TokenKind::Ident if words[last].is("end") => {
            let mut ends = 0;
            for at in (0..end).rev() {
                ends += i32::from(words[at].is("end")) - i32::from(words[at].is("case"));
                if ends == 0 {
                    return Some(at);
                }
            }
            None
        }
        TokenKind::Ident | TokenKind::QuotedIdent { .. } => {
            let mut first = last;
            while first >= 2 && words[first - 1].kind == TokenKind::Dot && words[first - 2].name().is_some() {
                first -= 2;
            }
            // `a::text::date`.
            match first.checked_sub(2) {
                Some(colon) if (colon..first).all(|at| words[at].kind == TokenKind::Colon) => {
                    operand_before(words, colon)
                }
                _ => Some(first),
            }
        }
        _ => None,
    }
}

/// Returns the index of the opening parenthesis or bracket of a closing one.
fn opening(words: &[Word<'_>], closing: usize) -> Option<usize> {
    let mut depth = 0;
    for at in (0..=closing).rev() {
        match words[at].kind {
            TokenKind::CloseParen | TokenKind::CloseBracket => depth += 1,
            TokenKind::OpenParen | TokenKind::OpenBracket => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Returns whether a word stands before an operand, so that `(` behind it begins no arguments.
fn begins_operand(word: &Word<'_>) -> bool {
    word.is_any(&[
        "all",
        "and",
        "any",
        "array",
        "as",
        "between",
        "by",
        "case",
        "distinct",
        "else",
        "elsif",
        "elseif",
        "exists",
        "filter",
        "from",
        "having",
        "if",
        "ilike",
        "in",
        "is",
        "like",
        "limit",
        "not",
        "offset",
        "on",
        "or",
        "over",
        "return",
        "returning",
        "select",
        "set",
        "similar",
        "some",
        "then",
        "using",
        "values",
        "when",
        "where",
        "while",
        "within",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(text: &str) -> String {
        let (mut inserted, mut whole) = (Insertions::default(), text.to_owned());
        inserted.find(text, 0);
        inserted.insert_into(&mut whole);
        for (offset, letter) in whole.char_indices() {
            let original = inserted.original(offset);
            assert!(original <= text.len());
            let is_inserted = !text[original..].starts_with(letter);
            assert!(!is_inserted || "AND TRUE ()1".contains(letter), "{text}: {offset} {letter}");
        }
        whole
    }

    #[test]
    fn an_or_behind_a_between_gets_a_conjunction() {
        for (text, expected) in [
            ("a BETWEEN 1 AND 2 OR b", "a BETWEEN 1 AND 2 AND TRUE OR b"),
            ("(a between (1 OR c) and (2) or b)", "(a between (1 OR c) and (2) AND TRUE or b)"),
            (
                "a BETWEEN CASE WHEN x OR y THEN 1 END AND 3 OR c",
                "a BETWEEN CASE WHEN x OR y THEN 1 END AND 3 AND TRUE OR c",
            ),
            ("a BETWEEN 1 AND 2 AND c OR d", "a BETWEEN 1 AND 2 AND c OR d"),
            ("IF a BETWEEN 1 AND 2 THEN b OR c", "IF a BETWEEN 1 AND 2 THEN b OR c"),
            ("a BETWEEN 1 AND 2; CREATE OR REPLACE", "a BETWEEN 1 AND 2; CREATE OR REPLACE"),
            (
                "a BETWEEN 1 AND 2 OR b BETWEEN 3 AND 4 OR c",
                "a BETWEEN 1 AND 2 AND TRUE OR b BETWEEN 3 AND 4 AND TRUE OR c",
            ),
        ] {
            assert_eq!(mended(text), expected);
        }
    }

    #[test]
    fn a_cursor_behind_a_direction_gets_the_number_of_rows() {
        for (text, expected) in [
            ("FETCH FORWARD c", "FETCH FORWARD 1 c"),
            ("SELECT 1; move backward \"c\";", "SELECT 1; move backward 1 \"c\";"),
            ("FETCH FORWARD ALL c", "FETCH FORWARD ALL c"),
            ("FETCH BACKWARD 2 c", "FETCH BACKWARD 2 c"),
            ("FETCH BACKWARD FROM c", "FETCH BACKWARD FROM c"),
            ("FETCH forward", "FETCH forward"),
        ] {
            assert_eq!(mended(text), expected);
        }
    }

    #[test]
    fn a_cast_before_a_between_gets_parentheses() {
        for (text, expected) in [
            ("WHERE a::date BETWEEN x AND y", "WHERE (a::date) BETWEEN x AND y"),
            ("x AND t.a::numeric(10, 2) NOT BETWEEN", "x AND (t.a::numeric(10, 2)) NOT BETWEEN"),
            ("f(a, 1)::int BETWEEN", "(f(a, 1)::int) BETWEEN"),
            ("WHERE (a + 1)::double precision BETWEEN", "WHERE ((a + 1)::double precision) BETWEEN"),
            ("IF(a)::int BETWEEN", "IF((a)::int) BETWEEN"),
            ("x + a[1]::int BETWEEN", "x + (a[1]::int) BETWEEN"),
            ("a::text::date BETWEEN", "(a::text::date) BETWEEN"),
            ("OR CASE WHEN a THEN b END::int BETWEEN", "OR (CASE WHEN a THEN b END::int) BETWEEN"),
            ("date '2026-01-01'::text BETWEEN", "(date '2026-01-01'::text) BETWEEN"),
            ("ORDER BY a::int ROWS BETWEEN", "ORDER BY a::int ROWS BETWEEN"),
            ("CASE WHEN a THEN b ELSE c::int END BETWEEN", "CASE WHEN a THEN b ELSE c::int END BETWEEN"),
            ("a::int + b BETWEEN", "a::int + b BETWEEN"),
            ("a::int AND b BETWEEN", "a::int AND b BETWEEN"),
        ] {
            assert_eq!(mended(text), expected);
        }
    }
}
