//! Strings with backslashes: `E'…'`.
//! Source: PostgreSQL 15's documentation, "String Constants with C-Style Escapes"; `scan.l` for the errors.

use catalog::{surrogate_pair, utf8_of};
use procedure::SqlError;

/// Returns the text that a string, given without its quotes, denotes.
///
/// # Errors
/// `22025`, `42601`: no character has this number, or half of a surrogate pair is missing. `22021`: the bytes
/// are no valid text.
pub(crate) fn decode(body: &str) -> Result<String, SqlError> {
    let (mut out, mut chars) = (Vec::with_capacity(body.len()), body.chars().peekable());
    let mut high = None;
    while let Some(c) = chars.next() {
        let next = if c == '\\' { chars.next() } else { None };
        if high.is_some() && !matches!(next, Some('u' | 'U')) {
            return Err(no_pair());
        }
        match (c, next) {
            ('\'', _) => {
                // A quote is doubled.
                chars.next_if_eq(&'\'');
                out.push(b'\'');
            }
            ('\\', Some(u @ ('u' | 'U'))) => {
                let code = number(&mut chars, 16, if u == 'u' { 4 } else { 8 }).0.ok_or_else(|| {
                    let error = SqlError::new("22025", "invalid Unicode escape");
                    error.with_hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
                })?;
                if let Some(character) = character(code, &mut high)? {
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            ('\\', Some(digit @ '0'..='7')) => {
                let mut value = digit.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    chars.next();
                }
                out.push(value as u8);
            }
            ('\\', Some('x')) => match number(&mut chars, 16, 2) {
                (_, 0, _) => out.push(b'x'),
                (_, _, value) => out.push(value as u8),
            },
            ('\\', Some(letter)) => match letter {
                'b' => out.push(8),
                'f' => out.push(12),
                'n' => out.push(b'\n'),
                'r' => out.push(b'\r'),
                't' => out.push(b'\t'),
                plain => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            },
            (plain, _) => out.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if high.is_some() {
        return Err(no_pair());
    }
    Ok(utf8_of(&out)?.to_owned())
}

fn no_pair() -> SqlError {
    SqlError::new("42601", "invalid Unicode surrogate pair")
}

/// Takes up to `most` digits. Returns the number if there are `most` digits, the number of digits, and the
/// number that they denote.
fn number(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    radix: u32,
    most: usize,
) -> (Option<u32>, usize, u32) {
    let (mut value, mut count) = (0u32, 0);
    while count < most
        && let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix))
    {
        value = value.wrapping_mul(radix).wrapping_add(digit);
        count += 1;
        chars.next();
    }
    ((count == most).then_some(value), count, value)
}

/// Returns the character with a number; `None` for the first half of a surrogate pair, which is kept in
/// `high` for the second half.
fn character(code: u32, high: &mut Option<u32>) -> Result<Option<char>, SqlError> {
    match (high.take(), code) {
        (None, 0xd800..0xdc00) => {
            *high = Some(code);
            Ok(None)
        }
        (Some(first), second) => surrogate_pair(first, second).map(Some).ok_or_else(no_pair),
        (None, 0xdc00..0xe000) => Err(no_pair()),
        (None, code) => {
            let invalid = || SqlError::new("42601", "invalid Unicode escape value");
            char::from_u32(code).filter(|c| *c != '\0').map(Some).ok_or_else(invalid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_decoded_or_refused() {
        for (body, text) in [
            (r"a\tb\\c\'d''e", "a\tb\\c'd'e"),
            (r"\101\x42\u0043\U00000044", "ABCD"),
            (r"\uD83D\uDE00\U0000D83D\U0000DE00", "😀😀"),
            (r"\xc3\xa4\303\244", "ää"),
            (r"\v\q", "vq"),
        ] {
            assert_eq!(decode(body).as_deref(), Ok(text), "{body}");
        }
        for (body, sqlstate) in [
            (r"\uD800", "42601"),
            (r"\uD800x", "42601"),
            (r"\uD800\u0041", "42601"),
            (r"\uD800\n\uDC00", "42601"),
            (r"\uDC00", "42601"),
            (r"\u0000", "42601"),
            (r"\U00110000", "42601"),
            (r"\u12", "22025"),
            (r"\xff", "22021"),
            (r"\000", "22021"),
        ] {
            assert_eq!(decode(body).map_err(|error| error.sqlstate), Err(sqlstate.into()), "{body}");
        }
    }
}
