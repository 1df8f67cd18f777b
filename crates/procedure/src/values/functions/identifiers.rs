//! Functions that read names and escapes: `parse_ident`, `unistr`.
//! Source: PostgreSQL 15, `misc.c` and `varlena.c`.

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::surrogate_pair;

const TEXT: Kind = Kind::TEXT;

pub(super) static IDENTIFIERS: &[BuiltIn] = &[
    BuiltIn::of("parse_ident", &[TEXT], Kind::TEXTS, |call| parse_ident(call, true)),
    BuiltIn::of("parse_ident", &[TEXT, Kind::BOOL], Kind::TEXTS, |call| {
        let is_strict = call.values[1].is_true();
        parse_ident(call, is_strict)
    }),
    BuiltIn::of("unistr", &[TEXT], TEXT, unescaped),
];

fn parse_ident(call: Call, is_strict: bool) -> Evaluated {
    let found: Vec<_> = identifier_parts(call.text(0), is_strict)?.into_iter().map(Some).collect();
    call.made_texts(&found)
}

/// Returns the parts of a qualified name as SQL has it: what has no quotes is in lower case.
///
/// # Errors
/// `22023`: the text has no name; if `is_strict`, also if text follows the name.
pub fn identifier_parts(whole: &str, is_strict: bool) -> Result<Vec<String>, Box<SqlError>> {
    let invalid = |detail: Option<String>| {
        let error = SqlError::new("22023", format!("string is not a valid identifier: \"{whole}\""));
        Box::new(match detail {
            Some(detail) => error.with_detail(detail),
            None => error,
        })
    };
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let continues = |c: char| begins(c) || c.is_ascii_digit() || c == '$';
    let blank = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];
    let (mut remaining, mut found, mut is_behind_dot) = (whole.trim_start_matches(blank), Vec::new(), false);
    loop {
        if let Some(quoted) = remaining.strip_prefix('"') {
            let (mut name, mut from) = (String::new(), quoted);
            loop {
                let Some(end) = from.find('"') else {
                    return Err(invalid(Some("String has unclosed double quotes.".into())));
                };
                name.push_str(&from[..end]);
                from = &from[end + 1..];
                match from.strip_prefix('"') {
                    Some(next) => {
                        name.push('"');
                        from = next;
                    }
                    None => break,
                }
            }
            if name.is_empty() {
                return Err(invalid(Some("Quoted identifier must not be empty.".into())));
            }
            found.push(name);
            remaining = from;
        } else if remaining.starts_with(begins) {
            let end = remaining.find(|c| !continues(c)).unwrap_or(remaining.len());
            found.push(remaining[..end].to_ascii_lowercase());
            remaining = &remaining[end..];
        } else if is_behind_dot {
            return Err(invalid(Some("No valid identifier after \".\".".into())));
        } else {
            let is_dot = remaining.starts_with('.');
            return Err(invalid(is_dot.then(|| "No valid identifier before \".\".".into())));
        }
        remaining = remaining.trim_start_matches(blank);
        match remaining.strip_prefix('.') {
            Some(next) => (remaining, is_behind_dot) = (next.trim_start_matches(blank), true),
            None if remaining.is_empty() || !is_strict => break,
            None => return Err(invalid(None)),
        }
    }
    Ok(found)
}

/// Returns a text with its escapes of code points: `\XXXX`, `\+XXXXXX`, `\uXXXX`, `\UXXXXXXXX`.
fn unescaped(call: Call) -> Evaluated {
    let text = call.text(0);
    let invalid = || SqlError::new("42601", "invalid Unicode escape");
    let invalid =
        || invalid().with_hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.");
    let not_a_pair = || SqlError::new("42601", "invalid Unicode surrogate pair");
    let (mut made, mut first_half, mut remaining) = (String::new(), None, text);
    while let Some(c) = remaining.chars().next() {
        if c != '\\' {
            if first_half.is_some() {
                return Err(not_a_pair().into());
            }
            made.push(c);
            remaining = &remaining[c.len_utf8()..];
            continue;
        }
        let escaped = &remaining[1..];
        if let Some(behind) = escaped.strip_prefix('\\') {
            if first_half.is_some() {
                return Err(not_a_pair().into());
            }
            made.push('\\');
            remaining = behind;
            continue;
        }
        let (skipped, digits) = match escaped.chars().next() {
            Some('+') => (1, 6),
            Some('u') => (1, 4),
            Some('U') => (1, 8),
            _ => (0, 4),
        };
        let hex = escaped
            .get(skipped..skipped + digits)
            .filter(|hex_digits| hex_digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = hex.and_then(|hex_digits| u32::from_str_radix(hex_digits, 16).ok()).ok_or_else(invalid)?;
        remaining = &escaped[skipped + digits..];
        made.push(match (first_half.take(), code) {
            (None, 0xd800..=0xdbff) => {
                first_half = Some(code);
                continue;
            }
            (Some(first), second) => surrogate_pair(first, second).ok_or_else(not_a_pair)?,
            (None, 0xdc00..=0xdfff) => return Err(not_a_pair().into()),
            (None, code) => {
                let invalid_code =
                    || SqlError::new("22023", format!("invalid Unicode code point: {code:04X}"));
                char::from_u32(code).filter(|code| *code != '\0').ok_or_else(invalid_code)?
            }
        });
    }
    if first_half.is_some() {
        return Err(not_a_pair().into());
    }
    call.made(made)
}
