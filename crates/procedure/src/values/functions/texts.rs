//! Functions of texts.
//! Source: PostgreSQL 15's documentation, "String Functions and Operators".

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};

const TEXT: Kind = Kind::TEXT;
const INT4: Kind = Kind::INT4;

pub(super) static TEXTS: &[BuiltIn] = &[
    BuiltIn::of("anytextcat", &[Kind::AnyNonArray, TEXT], TEXT, join),
    BuiltIn::of("ascii", &[TEXT], INT4, ascii),
    BuiltIn::of("bit_length", &[TEXT], INT4, |call| Ok(int(call.bytes(0).len() * 8))),
    BuiltIn::of("btrim", &[TEXT], TEXT, |call| trim(call, true, true)),
    BuiltIn::of("btrim", &[TEXT, TEXT], TEXT, |call| trim(call, true, true)),
    BuiltIn::of("char_length", &[TEXT], INT4, length),
    BuiltIn::of("character_length", &[TEXT], INT4, length),
    BuiltIn::of("chr", &[INT4], TEXT, character),
    BuiltIn::of("concat", &[Kind::Any], TEXT, concat).taking_null().variadic(),
    BuiltIn::of("concat_ws", &[TEXT, Kind::Any], TEXT, concat_between).taking_null().variadic(),
    BuiltIn::of("initcap", &[TEXT], TEXT, initial_capitals),
    BuiltIn::of("left", &[TEXT, INT4], TEXT, left),
    BuiltIn::of("length", &[TEXT], INT4, length),
    BuiltIn::of("lower", &[TEXT], TEXT, |call| cased(call, str::to_lowercase)),
    BuiltIn::of("lpad", &[TEXT, INT4], TEXT, |call| pad(call, true)),
    BuiltIn::of("lpad", &[TEXT, INT4, TEXT], TEXT, |call| pad(call, true)),
    BuiltIn::of("ltrim", &[TEXT], TEXT, |call| trim(call, true, false)),
    BuiltIn::of("ltrim", &[TEXT, TEXT], TEXT, |call| trim(call, true, false)),
    BuiltIn::of("octet_length", &[TEXT], INT4, |call| Ok(int(call.bytes(0).len()))),
    BuiltIn::of("octet_length", &[Kind::BPCHAR], INT4, |call| Ok(int(call.bytes(0).len()))),
    BuiltIn::of("overlay", &[TEXT, TEXT, INT4], TEXT, overlay),
    BuiltIn::of("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, overlay),
    BuiltIn::of("position", &[TEXT, TEXT], INT4, position),
    BuiltIn::of("repeat", &[TEXT, INT4], TEXT, repeat),
    BuiltIn::of("replace", &[TEXT, TEXT, TEXT], TEXT, replace),
    BuiltIn::of("reverse", &[TEXT], TEXT, reverse),
    BuiltIn::of("right", &[TEXT, INT4], TEXT, right),
    BuiltIn::of("rpad", &[TEXT, INT4], TEXT, |call| pad(call, false)),
    BuiltIn::of("rpad", &[TEXT, INT4, TEXT], TEXT, |call| pad(call, false)),
    BuiltIn::of("rtrim", &[TEXT], TEXT, |call| trim(call, false, true)),
    BuiltIn::of("rtrim", &[TEXT, TEXT], TEXT, |call| trim(call, false, true)),
    BuiltIn::of("split_part", &[TEXT, TEXT, INT4], TEXT, split_part),
    BuiltIn::of("starts_with", &[TEXT, TEXT], Kind::BOOL, starts_with),
    BuiltIn::of("strpos", &[TEXT, TEXT], INT4, position),
    BuiltIn::of("substr", &[TEXT, INT4], TEXT, substring),
    BuiltIn::of("substr", &[TEXT, INT4, INT4], TEXT, substring),
    BuiltIn::of("substring", &[TEXT, INT4], TEXT, substring),
    BuiltIn::of("substring", &[TEXT, INT4, INT4], TEXT, substring),
    BuiltIn::of("textanycat", &[TEXT, Kind::AnyNonArray], TEXT, join),
    BuiltIn::of("textcat", &[TEXT, TEXT], TEXT, join),
    BuiltIn::of("translate", &[TEXT, TEXT, TEXT], TEXT, translate),
    BuiltIn::of("upper", &[TEXT], TEXT, |call| cased(call, str::to_uppercase)),
];

fn int(value: usize) -> catalog::Datum {
    catalog::Datum::Int(value as i64)
}

/// Returns the byte offset of the character at an index; the length of the text if it has fewer characters.
fn offset_of(text: &str, character: i64) -> usize {
    let Ok(character) = usize::try_from(character) else { return 0 };
    if text.is_ascii() {
        return character.min(text.len());
    }
    text.char_indices().nth(character).map_or(text.len(), |(offset, _)| offset)
}

/// Returns the characters of the first argument from one index to another one.
fn characters(call: Call, from: i64, to: i64) -> Evaluated {
    let text = call.text(0);
    let (start, end) = (offset_of(text, from), offset_of(text, to));
    call.part(0, start, end.max(start) - start)
}

fn ascii(call: Call) -> Evaluated {
    let first = call.text(0).chars().next();
    Ok(catalog::Datum::Int(first.map_or(0, |first| u32::from(first).into())))
}

fn length(call: Call) -> Evaluated {
    Ok(int(call.text(0).chars().count()))
}

fn character(call: Call) -> Evaluated {
    let code = call.int(0);
    let message = match code {
        ..0 => "character number must be positive".into(),
        0 => "null character not permitted".into(),
        0x11_0000.. => format!("requested character too large for encoding: {code}"),
        _ => format!("requested character not valid for encoding: {code}"),
    };
    let character = u32::try_from(code).ok().filter(|code| *code > 0).and_then(char::from_u32);
    let state = if code < 0 { "22023" } else { "54000" };
    let character = character.ok_or_else(|| SqlError::new(state, message))?;
    call.made(character.to_string())
}

/// `||`. A text that is built piece by piece is not copied each time.
fn join(call: Call) -> Evaluated {
    match *call.values {
        [catalog::Datum::Bytes(a), catalog::Datum::Bytes(b)] => {
            call.ask((a.length + b.length) as usize)?;
            Ok(call.machine.frame.arena.concat(a, b))
        }
        _ => unreachable!("both arguments are texts"),
    }
}

fn concat(call: Call) -> Evaluated {
    let bytes = (0..call.count()).map(|index| call.bytes(index).len()).sum();
    call.ask(bytes)?;
    let mut all = Vec::with_capacity(bytes);
    (0..call.count()).for_each(|index| all.extend_from_slice(call.bytes(index)));
    call.made(all)
}

fn concat_between(call: Call) -> Evaluated {
    if call.is_null(0) {
        return Ok(catalog::Datum::Null);
    }
    let texts = || (1..call.count()).filter(|index| !call.is_null(*index)).map(|index| call.bytes(index));
    let between = call.bytes(0);
    call.ask(texts().map(|text| text.len() + between.len()).sum())?;
    let all = texts().collect::<Vec<_>>().join(between);
    call.made(all)
}

fn initial_capitals(call: Call) -> Evaluated {
    let mut begins = true;
    let cased = |c: char| {
        let first = std::mem::replace(&mut begins, !c.is_alphanumeric());
        if first { c.to_uppercase().to_string() } else { c.to_lowercase().to_string() }
    };
    call.ask(call.bytes(0).len() * 3 / 2)?;
    let made: String = call.text(0).chars().map(cased).collect();
    call.made(made)
}

fn cased(call: Call, change: fn(&str) -> String) -> Evaluated {
    // Few letters take more bytes in the other case.
    call.ask(call.bytes(0).len() * 3 / 2)?;
    let made = change(call.text(0));
    call.made(made)
}

/// Returns the number of characters that `left` and `right` keep: all but `n` if it is negative.
fn kept(call: &Call) -> (i64, i64) {
    let (all, n) = (call.text(0).chars().count() as i64, call.int(1));
    (all, if n < 0 { (all + n).max(0) } else { n.min(all) })
}

fn left(call: Call) -> Evaluated {
    let (_, kept) = kept(&call);
    characters(call, 0, kept)
}

fn right(call: Call) -> Evaluated {
    let (all, kept) = kept(&call);
    characters(call, all - kept, all)
}

fn substring(call: Call) -> Evaluated {
    let from = call.int(1) - 1;
    if call.count() < 3 {
        return characters(call, from, i64::MAX);
    }
    let count = call.int(2);
    if count < 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed").into());
    }
    characters(call, from, from.saturating_add(count))
}

fn overlay(call: Call) -> Evaluated {
    let (text, by, from) = (call.text(0), call.text(1), call.int(2));
    let count = if call.count() > 3 { call.int(3) } else { by.chars().count() as i64 };
    if from <= 0 {
        return Err(SqlError::new("22011", "negative substring length not allowed").into());
    }
    let behind = from + count;
    if i32::try_from(behind).is_err() {
        return Err(SqlError::new("22003", "integer out of range").into());
    }
    call.ask(2 * text.len() + by.len())?;
    let made = text[..offset_of(text, from - 1)].to_owned() + by + &text[offset_of(text, behind - 1)..];
    call.made(made)
}

fn trim(call: Call, at_start: bool, at_end: bool) -> Evaluated {
    let (text, set) = (call.text(0), call.text_or(1, " "));
    let in_set = |c: char| set.contains(c);
    let start = if at_start { text.len() - text.trim_start_matches(in_set).len() } else { 0 };
    let kept = &text[start..];
    let kept = if at_end { kept.trim_end_matches(in_set) } else { kept };
    let length = kept.len();
    call.part(0, start, length)
}

fn pad(call: Call, at_start: bool) -> Evaluated {
    let (text, fill) = (call.text(0), call.text_or(2, " "));
    let length = usize::try_from(call.int(1)).unwrap_or(0);
    let count = text.chars().count();
    if count >= length || fill.is_empty() {
        return characters(call, 0, length as i64);
    }
    call.ask(text.len().saturating_add((length - count).saturating_mul(fill.len().min(4))))?;
    let padding = fill.chars().cycle().take(length - count);
    let made: String = match at_start {
        true => padding.chain(text.chars()).collect(),
        false => text.chars().chain(padding).collect(),
    };
    call.made(made)
}

fn position(call: Call) -> Evaluated {
    let text = call.text(0);
    let found = text.find(call.text(1));
    Ok(int(found.map_or(0, |at| text[..at].chars().count() + 1)))
}

fn repeat(call: Call) -> Evaluated {
    let times = usize::try_from(call.int(1)).unwrap_or(0);
    call.ask(call.bytes(0).len().saturating_mul(times))?;
    let made = call.text(0).repeat(times);
    call.made(made)
}

fn replace(call: Call) -> Evaluated {
    let (text, from, to) = (call.text(0), call.text(1), call.text(2));
    if from.is_empty() {
        let length = text.len();
        return call.part(0, 0, length);
    }
    let grows = to.len().saturating_sub(from.len());
    let count = if grows == 0 { 0 } else { text.matches(from).count() };
    call.ask(text.len().saturating_add(count.saturating_mul(grows)))?;
    let made = text.replace(from, to);
    call.made(made)
}

fn reverse(call: Call) -> Evaluated {
    call.ask(call.bytes(0).len())?;
    let made: String = call.text(0).chars().rev().collect();
    call.made(made)
}

fn split_part(call: Call) -> Evaluated {
    let (whole, between) = (call.text(0), call.text(1));
    let parts: Vec<&str> = if between.is_empty() { vec![whole] } else { whole.split(between).collect() };
    let index = match call.int(2) {
        0 => return Err(SqlError::new("22023", "field position must not be zero").into()),
        index @ 1.. => usize::try_from(index - 1).ok(),
        index => usize::try_from(parts.len() as i64 + index).ok(),
    };
    let (start, length) = match index.filter(|index| *index < parts.len()) {
        Some(index) => {
            (parts[..index].iter().map(|part| part.len() + between.len()).sum(), parts[index].len())
        }
        None => (0, 0),
    };
    call.part(0, start, length)
}

fn starts_with(call: Call) -> Evaluated {
    Ok(catalog::Datum::boolean(call.text(0).starts_with(call.text(1))))
}

fn translate(call: Call) -> Evaluated {
    let (from, to): (Vec<char>, Vec<char>) = (call.text(1).chars().collect(), call.text(2).chars().collect());
    let translated = |c: char| match from.iter().position(|known| *known == c) {
        Some(index) => to.get(index).copied(),
        None => Some(c),
    };
    call.ask(call.bytes(0).len())?;
    let made: String = call.text(0).chars().filter_map(translated).collect();
    call.made(made)
}
