//! The regexp functions that take a start position, or return each match.
//! Source: PostgreSQL 15, `regexp.c`.

use super::patterns::{behind, groups, refuse_global, replacement_of, split, with_regex};
use super::{BuiltIn, Call, Form, Kind};
use crate::{Evaluated, SqlError};
use catalog::Datum;
use regex::Captures;

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;
const TEXTS: Kind = Kind::TEXTS;

pub(super) static MATCHED: &[BuiltIn] = &[
    BuiltIn::of("regexp_instr", &[TEXT, TEXT], INT4, instr),
    BuiltIn::of("regexp_instr", &[TEXT, TEXT, INT4], INT4, instr),
    BuiltIn::of("regexp_instr", &[TEXT, TEXT, INT4, INT4], INT4, instr),
    BuiltIn::of("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4], INT4, instr),
    BuiltIn::of("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4, TEXT], INT4, instr),
    BuiltIn::of("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4, TEXT, INT4], INT4, instr),
    BuiltIn::new("regexp_matches", &[TEXT, TEXT], TEXTS, Form::Elements(all)),
    BuiltIn::new("regexp_matches", &[TEXT, TEXT, TEXT], TEXTS, Form::Elements(all)),
    BuiltIn::of("regexp_replace", &[TEXT, TEXT, TEXT, INT4], TEXT, replace),
    BuiltIn::of("regexp_replace", &[TEXT, TEXT, TEXT, INT4, INT4], TEXT, replace),
    BuiltIn::of("regexp_replace", &[TEXT, TEXT, TEXT, INT4, INT4, TEXT], TEXT, replace),
    BuiltIn::new("regexp_split_to_table", &[TEXT, TEXT], TEXT, Form::Elements(|call| split(call, "table"))),
    BuiltIn::new(
        "regexp_split_to_table",
        &[TEXT, TEXT, TEXT],
        TEXT,
        Form::Elements(|call| split(call, "table")),
    ),
    BuiltIn::of("regexp_substr", &[TEXT, TEXT], TEXT, part),
    BuiltIn::of("regexp_substr", &[TEXT, TEXT, INT4], TEXT, part),
    BuiltIn::of("regexp_substr", &[TEXT, TEXT, INT4, INT4], TEXT, part),
    BuiltIn::of("regexp_substr", &[TEXT, TEXT, INT4, INT4, TEXT], TEXT, part),
    BuiltIn::of("regexp_substr", &[TEXT, TEXT, INT4, INT4, TEXT, INT4], TEXT, part),
];

/// Returns an argument that must be at least `least`.
fn at_least(call: &Call, index: usize, name: &str, least: i64) -> Result<i64, Box<SqlError>> {
    let value = if index < call.count() { call.int(index) } else { 1.max(least) };
    if value < least {
        let message = format!("invalid value for parameter \"{name}\": {value}");
        return Err(SqlError::new("22023", message).into());
    }
    Ok(value)
}

/// Returns the offset at which a search begins: that of a character, counted from 1. `None` if the text is
/// shorter.
fn start(call: &Call, index: usize) -> Result<Option<usize>, Box<SqlError>> {
    let skipped = at_least(call, index, "start", 1)? - 1;
    let text = call.text(0);
    let offsets = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
    Ok(usize::try_from(skipped).ok().and_then(|skipped| offsets.into_iter().nth(skipped)))
}

/// Visits the matches from an offset on, until `visit` returns false.
fn each<'t>(
    regex: &regex::Regex,
    text: &'t str,
    mut from: usize,
    mut visit: impl FnMut(&Captures<'t>) -> bool,
) {
    while let Some(captures) = regex.captures_at(text, from) {
        let Some(whole) = captures.get(0) else { return };
        if !visit(&captures) {
            return;
        }
        from = match whole.is_empty() {
            false => whole.end(),
            true => match behind(text, whole.end()) {
                Some(next) => next,
                None => return,
            },
        };
    }
}

/// Returns the bounds of the wanted match, or of one of its groups, in bytes.
fn wanted(call: &Call, flags: &str, group: i64) -> Result<Option<(usize, usize)>, Box<SqlError>> {
    let from = start(call, 2)?;
    let number = at_least(call, 3, "n", 1)?;
    let text = call.text(0);
    with_regex(call.text(1), flags, |regex| {
        let (from, mut count, mut found) = (from?, 0, None);
        each(regex, text, from, |captures| {
            count += 1;
            if count == number {
                // A pattern without groups has the whole match as its first one.
                let group = if group == 1 && captures.len() == 1 { 0 } else { group };
                let group = usize::try_from(group).unwrap_or(usize::MAX);
                found = captures.get(group).map(|found| (found.start(), found.end()));
            }
            count < number
        });
        found
    })
}

fn instr(call: Call) -> Evaluated {
    let flags = call.text_or(5, "");
    let is_end = if call.count() > 4 { call.int(4) } else { 0 };
    if !matches!(is_end, 0 | 1) {
        let message = format!("invalid value for parameter \"endoption\": {is_end}");
        return Err(SqlError::new("22023", message).into());
    }
    refuse_global(flags, "regexp_instr")?;
    let group = if call.count() > 6 { at_least(&call, 6, "subexpr", 0)? } else { 0 };
    let found = wanted(&call, flags, group)?;
    let Some((start, end)) = found else { return Ok(Datum::Int(0)) };
    let before = &call.text(0)[..if is_end == 1 { end } else { start }];
    Ok(Datum::Int(before.chars().count() as i64 + 1))
}

fn part(call: Call) -> Evaluated {
    let flags = call.text_or(4, "");
    refuse_global(flags, "regexp_substr")?;
    let group = if call.count() > 5 { at_least(&call, 5, "subexpr", 0)? } else { 0 };
    match wanted(&call, flags, group)? {
        Some((start, end)) => call.part(0, start, end - start),
        None => Ok(Datum::Null),
    }
}

/// Returns each match as an array of its groups; without the flag `g`, only the first one.
fn all(call: Call) -> Evaluated {
    let flags = call.text_or(2, "");
    let (is_global, text) = (flags.contains('g'), call.text(0));
    let found = with_regex(call.text(1), flags, |regex| {
        let mut all = Vec::new();
        each(regex, text, 0, |captures| {
            all.push(groups(captures));
            is_global
        });
        all
    })?;
    call.machine.ask_text(found.iter().flatten().flatten().map(String::len).sum())?;
    call.machine.ask_elements(found.iter().map(Vec::len).sum())?;
    let arena = &mut call.machine.frame.arena;
    let mut rows = Vec::new();
    for texts in found {
        let texts = texts.iter().map(|text| match text {
            Some(text) => arena.push_bytes(text.as_bytes()),
            None => Datum::Null,
        });
        let texts: Vec<Datum> = texts.collect();
        rows.push(arena.push_array(&texts));
    }
    Ok(arena.push_array(&rows))
}

/// Replaces a match by its number, or all of them.
fn replace(call: Call) -> Evaluated {
    let flags = call.text_or(5, "");
    let from = start(&call, 3)?;
    let number = at_least(&call, 4, "n", 0)?;
    let (replacement, text) = (replacement_of(call.text(2)), call.text(0));
    let made = with_regex(call.text(1), flags, |regex| {
        let (mut made, mut behind, mut count, mut failed) = (String::new(), 0, 0, None);
        let Some(from) = from else { return Ok(text.to_owned()) };
        each(regex, text, from, |captures| {
            count += 1;
            if let Some(whole) = captures.get(0)
                && (number == 0 || count == number)
            {
                let mut piece = text[behind..whole.start()].to_owned();
                captures.expand(&replacement, &mut piece);
                behind = whole.end();
                failed = call.machine.ask_longer(&made, piece.len()).err();
                made.push_str(&piece);
            }
            failed.is_none() && (number == 0 || count < number)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        call.machine.ask_longer(&made, text.len() - behind)?;
        made.push_str(&text[behind..]);
        Ok::<_, SqlError>(made)
    })??;
    call.made(made)
}
