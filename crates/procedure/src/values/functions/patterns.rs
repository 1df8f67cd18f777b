//! LIKE and regular expressions.
//! Source: PostgreSQL 15's documentation, "Pattern Matching".
//! Differs: of several matches at one position, the crate `regex` takes that of the first alternative, not
//! the longest one.

use super::pattern_syntax::as_regex;
use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::Datum;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::collections::HashMap;

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;
const BOOL: Kind = Kind::BOOL;
const BPCHAR: Kind = Kind::BPCHAR;
const BYTEA: Kind = Kind::BYTEA;

pub(super) static PATTERNS: &[BuiltIn] = &[
    BuiltIn::of("bpcharicnlike", &[BPCHAR, TEXT], BOOL, |call| negated(like(call, true))),
    BuiltIn::of("bpcharicregexeq", &[BPCHAR, TEXT], BOOL, |call| matches(call, "i")),
    BuiltIn::of("bpcharicregexne", &[BPCHAR, TEXT], BOOL, |call| negated(matches(call, "i"))),
    BuiltIn::of("bpchariclike", &[BPCHAR, TEXT], BOOL, |call| like(call, true)),
    BuiltIn::of("bpcharlike", &[BPCHAR, TEXT], BOOL, |call| like(call, false)),
    BuiltIn::of("bpcharnlike", &[BPCHAR, TEXT], BOOL, |call| negated(like(call, false))),
    BuiltIn::of("bpcharregexeq", &[BPCHAR, TEXT], BOOL, |call| matches(call, "")),
    BuiltIn::of("bpcharregexne", &[BPCHAR, TEXT], BOOL, |call| negated(matches(call, ""))),
    BuiltIn::of("bytealike", &[BYTEA, BYTEA], BOOL, like_bytes),
    BuiltIn::of("byteanlike", &[BYTEA, BYTEA], BOOL, |call| negated(like_bytes(call))),
    BuiltIn::of("like", &[TEXT, TEXT], BOOL, |call| like(call, false)),
    BuiltIn::of("notlike", &[TEXT, TEXT], BOOL, |call| negated(like(call, false))),
    BuiltIn::of("texticlike", &[TEXT, TEXT], BOOL, |call| like(call, true)),
    BuiltIn::of("texticnlike", &[TEXT, TEXT], BOOL, |call| negated(like(call, true))),
    BuiltIn::of("like_escape", &[TEXT, TEXT], TEXT, like_escape),
    BuiltIn::of("textlike", &[TEXT, TEXT], BOOL, |call| like(call, false)),
    BuiltIn::of("textnlike", &[TEXT, TEXT], BOOL, |call| negated(like(call, false))),
    BuiltIn::of("textregexeq", &[TEXT, TEXT], BOOL, |call| matches(call, "")),
    BuiltIn::of("textregexne", &[TEXT, TEXT], BOOL, |call| negated(matches(call, ""))),
    BuiltIn::of("texticregexeq", &[TEXT, TEXT], BOOL, |call| matches(call, "i")),
    BuiltIn::of("texticregexne", &[TEXT, TEXT], BOOL, |call| negated(matches(call, "i"))),
    BuiltIn::of("regexp_count", &[TEXT, TEXT], INT4, count),
    BuiltIn::of("regexp_count", &[TEXT, TEXT, INT4], INT4, count),
    BuiltIn::of("regexp_count", &[TEXT, TEXT, INT4, TEXT], INT4, count),
    BuiltIn::of("regexp_like", &[TEXT, TEXT], BOOL, |call| matches(call, "")),
    BuiltIn::of("regexp_like", &[TEXT, TEXT, TEXT], BOOL, |call| {
        let flags = call.text(2).to_owned();
        matches(call, &flags)
    }),
    BuiltIn::of("regexp_match", &[TEXT, TEXT], Kind::TEXTS, first_match),
    BuiltIn::of("regexp_match", &[TEXT, TEXT, TEXT], Kind::TEXTS, first_match),
    BuiltIn::of("regexp_replace", &[TEXT, TEXT, TEXT], TEXT, replace),
    BuiltIn::of("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, replace),
    BuiltIn::of("regexp_split_to_array", &[TEXT, TEXT], Kind::TEXTS, |call| split(call, "array")),
    BuiltIn::of("regexp_split_to_array", &[TEXT, TEXT, TEXT], Kind::TEXTS, |call| split(call, "array")),
    BuiltIn::of("similar_to_escape", &[TEXT], TEXT, |call| similar(call, Some('\\'))),
    BuiltIn::of("similar_to_escape", &[TEXT, TEXT], TEXT, |call| {
        let escape = escape_of(call.text(1))?;
        similar(call, escape)
    }),
    BuiltIn::of("substring", &[TEXT, TEXT], TEXT, part),
];

fn negated(value: Evaluated) -> Evaluated {
    value.map(|value| Datum::boolean(!value.is_true()))
}

/// LIKE with `%`, `_` and backslash escapes.
fn like(call: Call, ignores_case: bool) -> Evaluated {
    let folded = |index: usize| match ignores_case {
        true => call.text(index).to_lowercase().chars().collect(),
        false => call.text(index).chars().collect::<Vec<char>>(),
    };
    Ok(Datum::boolean(is_like(&folded(0), &folded(1))?))
}

/// LIKE of bytes: each byte is a character.
fn like_bytes(call: Call) -> Evaluated {
    let bytes = |index: usize| call.bytes(index).iter().copied().map(char::from).collect::<Vec<char>>();
    Ok(Datum::boolean(is_like(&bytes(0), &bytes(1))?))
}

/// Matches a `%` with as few characters as the remaining pattern allows. Only the last `%` is tried again.
fn is_like(text: &[char], pattern: &[char]) -> Result<bool, Box<SqlError>> {
    let (mut at, mut next) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(next) {
            Some('%') => {
                again = Some((at, next + 1));
                next += 1;
                continue;
            }
            None if at == text.len() => return Ok(true),
            None => None,
            Some('_') => (at < text.len()).then_some(1),
            // As in PostgreSQL, a pattern is refused only where a character of the text meets its end.
            Some('\\') if at < text.len() => match pattern.get(next + 1) {
                None => {
                    return Err(
                        SqlError::new("22025", "LIKE pattern must not end with escape character").into()
                    );
                }
                literal => (text.get(at) == literal).then_some(2),
            },
            Some('\\') => None,
            literal => (text.get(at) == literal).then_some(1),
        };
        match (step, again) {
            (Some(step), _) => (at, next) = (at + 1, next + step),
            (None, Some((from, behind))) if from < text.len() => {
                again = Some((from + 1, behind));
                (at, next) = (from + 1, behind);
            }
            (None, _) => return Ok(false),
        }
    }
}

/// Returns the escape character of a pattern; `None` if it has none.
fn escape_of(text: &str) -> Result<Option<char>, Box<SqlError>> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (escape, None) => Ok(escape),
        _ => {
            let error = SqlError::new("22025", "invalid escape string");
            Err(error.with_hint("Escape string must be empty or one character.").into())
        }
    }
}

/// Returns a pattern of SIMILAR TO as a regular expression.
fn similar(call: Call, escape: Option<char>) -> Evaluated {
    let (mut made, mut is_escaped, mut is_in_brackets) = (String::from("^(?:"), false, false);
    call.ask(call.bytes(0).len() * 3)?;
    for c in call.text(0).chars() {
        match c {
            c if is_escaped => {
                // An escaped letter may stand for a class, such as `\d`.
                made.extend(['\\', c]);
                is_escaped = false;
            }
            c if Some(c) == escape => is_escaped = true,
            c if is_in_brackets => {
                if c == '\\' {
                    made.push('\\');
                }
                made.push(c);
                is_in_brackets = c != ']';
            }
            '[' => {
                made.push('[');
                is_in_brackets = true;
            }
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '.' | '^' | '$' | '\\' => made.extend(['\\', c]),
            // Groups of SIMILAR TO are not numbered.
            '(' => made.push_str("(?:"),
            c => made.push(c),
        }
    }
    made.push_str(")$");
    call.made(made)
}

/// Returns a pattern whose escape character is the second argument as one with backslashes.
fn like_escape(call: Call) -> Evaluated {
    let (pattern, escape) = (call.text(0), escape_of(call.text(1))?);
    call.ask(pattern.len() * 2)?;
    let (mut made, mut is_escaped) = (String::new(), false);
    for c in pattern.chars() {
        match c {
            c if Some(c) == escape && !is_escaped => {
                made.push('\\');
                is_escaped = true;
            }
            '\\' if !is_escaped => made.push_str("\\\\"),
            c => {
                made.push(c);
                is_escaped = false;
            }
        }
    }
    call.made(made)
}

thread_local! {
    /// Compiled regular expressions, by flags and pattern.
    static COMPILED: RefCell<HashMap<(String, String), Regex>> = RefCell::default();
}

/// Maximum number of compiled regular expressions of a thread. A further one replaces them all.
const MOST_COMPILED: usize = 64;

/// Applies a regular expression. The flags are PostgreSQL's; `g` is left to the caller.
pub(super) fn with_regex<T>(
    pattern: &str,
    flags: &str,
    apply: impl FnOnce(&Regex) -> T,
) -> Result<T, Box<SqlError>> {
    COMPILED.with_borrow_mut(|compiled| {
        let key = (flags.to_owned(), pattern.to_owned());
        if !compiled.contains_key(&key) {
            let regex = compile(pattern, flags)?;
            if compiled.len() >= MOST_COMPILED {
                compiled.clear();
            }
            compiled.insert(key.clone(), regex);
        }
        Ok(apply(&compiled[&key]))
    })
}

fn compile(pattern: &str, flags: &str) -> Result<Regex, Box<SqlError>> {
    let mut builder = RegexBuilder::new(&as_regex(pattern));
    // In PostgreSQL the point matches a line break, unless `n` says that it does not.
    builder.size_limit(1 << 20).dot_matches_new_line(true);
    for flag in flags.chars() {
        match flag {
            'g' | 's' => {}
            'i' => drop(builder.case_insensitive(true)),
            'c' => drop(builder.case_insensitive(false)),
            'n' | 'm' => drop(builder.multi_line(true).dot_matches_new_line(false)),
            'p' => drop(builder.dot_matches_new_line(false)),
            'w' => drop(builder.multi_line(true)),
            'x' => drop(builder.ignore_whitespace(true)),
            other => {
                let message = format!("invalid regular expression option: \"{other}\"");
                return Err(SqlError::new("22023", message).into());
            }
        }
    }
    builder.build().map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().to_owned();
        if let Some(what) = reason.strip_prefix("error: ").filter(|reason| reason.ends_with("not supported"))
        {
            return SqlError::new("0A000", format!("{what} in a regular expression")).into();
        }
        SqlError::new("2201B", format!("invalid regular expression: {reason}")).into()
    })
}

pub(super) fn refuse_global(flags: &str, name: &str) -> Result<(), Box<SqlError>> {
    if !flags.contains('g') {
        return Ok(());
    }
    Err(SqlError::new("22023", format!("{name}() does not support the \"global\" option")).into())
}

fn matches(call: Call, flags: &str) -> Evaluated {
    refuse_global(flags, "regexp_like")?;
    Ok(Datum::boolean(with_regex(call.text(1), flags, |regex| regex.is_match(call.text(0)))?))
}

fn count(call: Call) -> Evaluated {
    let start = if call.count() > 2 { call.int(2) } else { 1 };
    if start <= 0 {
        let message = format!("invalid value for parameter \"start\": {start}");
        return Err(SqlError::new("22023", message).into());
    }
    let flags = call.text_or(3, "");
    refuse_global(flags, "regexp_count")?;
    let text = call.text(0);
    let skipped = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let from = text.char_indices().map(|(offset, _)| offset).chain([text.len()]).nth(skipped);
    let found = |regex: &Regex| {
        let Some(from) = from else { return 0 };
        let all = std::iter::successors(regex.find_at(text, from), |last| {
            let next = if last.is_empty() { behind(text, last.end()) } else { Some(last.end()) };
            regex.find_at(text, next?)
        });
        all.count()
    };
    Ok(Datum::Int(with_regex(call.text(1), flags, found)? as i64))
}

/// Returns the offset of the character after the one at an offset.
pub(super) fn behind(text: &str, offset: usize) -> Option<usize> {
    text[offset..].chars().next().map(|c| offset + c.len_utf8())
}

/// Returns the texts of the groups of a match; of the whole match if there are no groups.
pub(super) fn groups(captures: &regex::Captures) -> Vec<Option<String>> {
    let from = if captures.len() > 1 { 1 } else { 0 };
    let texts = captures.iter().skip(from);
    texts.map(|group| group.map(|group| group.as_str().to_owned())).collect()
}

fn first_match(call: Call) -> Evaluated {
    let flags = call.text_or(2, "");
    if flags.contains('g') {
        let error = SqlError::new("22023", "regexp_match() does not support the \"global\" option");
        return Err(error.with_hint("Use the regexp_matches function instead.").into());
    }
    let found = with_regex(call.text(1), flags, |regex| regex.captures(call.text(0)).as_ref().map(groups))?;
    match found {
        Some(texts) => call.made_texts(&texts),
        None => Ok(Datum::Null),
    }
}

fn part(call: Call) -> Evaluated {
    let found = with_regex(call.text(1), "", |regex| {
        let captures = regex.captures(call.text(0))?;
        let group = captures.get(usize::from(captures.len() > 1))?;
        Some((group.start(), group.len()))
    })?;
    match found {
        Some((start, length)) => call.part(0, start, length),
        None => Ok(Datum::Null),
    }
}

pub(super) fn split(call: Call, into: &str) -> Evaluated {
    let flags = call.text_or(2, "");
    refuse_global(flags, &format!("regexp_split_to_{into}"))?;
    let text = call.text(0);
    let parts = with_regex(call.text(1), flags, |regex| {
        let (mut parts, mut from) = (Vec::new(), 0);
        for found in regex.find_iter(text) {
            // An empty match at an end of the text, or right behind a match, separates nothing.
            if found.is_empty() && (found.start() == from || found.start() >= text.len()) {
                continue;
            }
            parts.push(Some(text[from..found.start()].to_owned()));
            from = found.end();
        }
        parts.push(Some(text[from..].to_owned()));
        parts
    })?;
    call.made_texts(&parts)
}

fn replace(call: Call) -> Evaluated {
    let flags = call.text_or(3, "");
    let replacement = replacement_of(call.text(2));
    let text = call.text(0);
    let most = if flags.contains('g') { usize::MAX } else { 1 };
    let made = with_regex(call.text(1), flags, |regex| {
        let (mut made, mut piece, mut behind) = (String::new(), String::new(), 0);
        for captures in regex.captures_iter(text).take(most) {
            let Some(found) = captures.get(0) else { continue };
            piece.clear();
            piece.push_str(&text[behind..found.start()]);
            captures.expand(&replacement, &mut piece);
            behind = found.end();
            call.machine.ask_longer(&made, piece.len())?;
            made.push_str(&piece);
        }
        call.machine.ask_longer(&made, text.len() - behind)?;
        made.push_str(&text[behind..]);
        Ok::<_, SqlError>(made)
    })??;
    call.made(made)
}

/// Translates a replacement of PostgreSQL for the crate `regex`: `\1` to `${1}`, `\&` to `${0}`, `$` to `$$`.
pub(super) fn replacement_of(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, characters.peek()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                out.push_str(&format!("${{{digit}}}"));
                characters.next();
            }
            ('\\', Some('&')) => {
                out.push_str("${0}");
                characters.next();
            }
            ('\\', Some('\\')) => {
                out.push('\\');
                characters.next();
            }
            ('$', _) => out.push_str("$$"),
            _ => out.push(c),
        }
    }
    out
}
