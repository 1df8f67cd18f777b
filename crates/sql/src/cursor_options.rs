//! The options of DECLARE CURSOR, which PostgreSQL takes in any order and the grammar in one.
//! Source: PostgreSQL 15, `cursor_options` of its grammar, and `transformDeclareCursorStmt`.

use crate::words::{Word, words_of};
use procedure::SqlError;
use squawk_lexer::TokenKind;
use std::ops::Range;

/// The options, in the order of the grammar.
const OPTIONS: [&str; 5] = ["binary", "asensitive", "insensitive", "no scroll", "scroll"];

/// Replaces the options of each DECLARE CURSOR by the same options in the order of the grammar, and blanks
/// behind them. Returns the text; `None` if it is the same.
///
/// # Errors
/// `42P11`: two options contradict each other; with the offset of the statement.
pub(crate) fn in_order(text: &str) -> Result<Option<String>, (usize, SqlError)> {
    let has = |word: &[u8]| text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    if !has(b"declare") || !has(b"cursor") {
        return Ok(None);
    }
    let words = words_of(text);
    let mut ordered: Option<String> = None;
    for (at, word) in words.iter().enumerate().filter(|(_, word)| word.is("declare")) {
        let begins = at == 0 || words[at - 1].kind == TokenKind::Semi;
        let Some((given, range)) = options_at(&words, at + 2).filter(|_| begins) else { continue };
        for [one, other] in [["no scroll", "scroll"], ["asensitive", "insensitive"]] {
            if given.contains(&one) && given.contains(&other) {
                let names = match one {
                    "no scroll" => "SCROLL and NO SCROLL",
                    _ => "ASENSITIVE and INSENSITIVE",
                };
                let error = SqlError::new("42P11", format!("cannot specify both {names}"));
                return Err((word.range.start, error));
            }
        }
        let wanted: Vec<&str> = OPTIONS.into_iter().filter(|option| given.contains(option)).collect();
        if wanted != given {
            let options = format!("{:width$}", wanted.join(" "), width = range.len());
            ordered.get_or_insert_with(|| text.to_owned()).replace_range(range, &options);
        }
    }
    Ok(ordered)
}

/// Returns the options before CURSOR, from a word on, and their range; `None` if there is another word.
fn options_at(words: &[Word<'_>], first: usize) -> Option<(Vec<&'static str>, Range<usize>)> {
    let (mut given, mut at) = (Vec::new(), first);
    loop {
        let word = words.get(at)?;
        if word.is("cursor") {
            let end = words[at - 1].range.end;
            return (at > first).then(|| (given, words[first].range.start..end));
        }
        let is_no = word.is("no") && words.get(at + 1).is_some_and(|next| next.is("scroll"));
        let option =
            OPTIONS.into_iter().find(|option| if is_no { *option == "no scroll" } else { word.is(option) });
        given.push(option?);
        at += if is_no { 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_get_the_order_of_the_grammar_and_positions_stay() {
        for (text, expected) in [
            ("DECLARE c SCROLL  BINARY CURSOR FOR x", Some("DECLARE c binary scroll  CURSOR FOR x")),
            ("declare c no scroll insensitive cursor", Some("declare c insensitive no scroll cursor")),
            ("SELECT 1; DECLARE c SCROLL SCROLL CURSOR", Some("SELECT 1; DECLARE c scroll        CURSOR")),
            ("DECLARE c BINARY NO SCROLL CURSOR", None),
            ("DECLARE cursor CURSOR FOR SELECT 1", None),
            ("DECLARE c QUICK CURSOR", None),
        ] {
            assert_eq!(in_order(text).unwrap().as_deref(), expected, "{text}");
        }
        assert_eq!(in_order("DECLARE c NO SCROLL SCROLL CURSOR").unwrap_err().1.sqlstate, "42P11");
    }
}
