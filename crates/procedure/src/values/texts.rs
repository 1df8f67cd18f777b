//! Functions of texts beyond those in `functions`.
//! Source: PostgreSQL 15's documentation, "String Functions and Operators".

use crate::{Evaluated, Machine, SqlError};
use catalog::Datum;
use regex::RegexBuilder;

/// A function of texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextFunction {
    /// `split_part(text, delimiter, place)`.
    SplitPart,
    /// `initcap(text)`.
    InitialCapitals,
    /// `reverse(text)`.
    Reverse,
    /// `translate(text, from, to)`.
    Translate,
    /// `ascii(text)`.
    Ascii,
    /// `chr(number)`.
    Character,
    /// `starts_with(text, start)`.
    StartsWith,
    /// `regexp_replace(text, pattern, replacement)`; with the flags `g`, then `i`.
    ReplaceMatches {
        /// Whether all matches are replaced, and not only the first.
        all: bool,
        /// Whether case is ignored.
        insensitive: bool,
    },
    /// `to_hex(number)`.
    ToHex,
}

impl TextFunction {
    /// Evaluates the function; arguments are not NULL.
    pub(crate) fn evaluate(self, arguments: &[Datum], machine: &mut Machine) -> Evaluated {
        let bytes = arguments.iter().map(|value| machine.frame.arena.datum_bytes(*value).len()).sum();
        machine.ask_text(bytes)?;
        let text = |place: usize| {
            let bytes = arguments.get(place).map_or(&[][..], |value| machine.frame.arena.datum_bytes(*value));
            String::from_utf8_lossy(bytes)
        };
        let number = |place: usize| match arguments.get(place) {
            Some(Datum::Int(value)) => *value,
            _ => 0,
        };
        let made = match self {
            Self::SplitPart => {
                let (whole, between, place) = (text(0), text(1), number(2));
                let parts: Vec<&str> =
                    if between.is_empty() { vec![&whole] } else { whole.split(&*between).collect() };
                let place = match place {
                    0 => return Err(SqlError::new("22023", "field position must not be zero").into()),
                    1.. => usize::try_from(place - 1).ok(),
                    _ => usize::try_from(parts.len() as i64 + place).ok(),
                };
                place.and_then(|place| parts.get(place)).copied().unwrap_or_default().to_owned()
            }
            Self::InitialCapitals => {
                let mut begins = true;
                let cased = |c: char| {
                    let first = std::mem::replace(&mut begins, !c.is_alphanumeric());
                    if first { c.to_uppercase().to_string() } else { c.to_lowercase().to_string() }
                };
                text(0).chars().map(cased).collect()
            }
            Self::Reverse => text(0).chars().rev().collect(),
            Self::Translate => {
                let (from, to): (Vec<char>, Vec<char>) =
                    (text(1).chars().collect(), text(2).chars().collect());
                let translated = |c: char| match from.iter().position(|own| *own == c) {
                    Some(place) => to.get(place).copied(),
                    None => Some(c),
                };
                text(0).chars().filter_map(translated).collect()
            }
            Self::Ascii => {
                return Ok(Datum::Int(text(0).chars().next().map_or(0, |c| i64::from(u32::from(c)))));
            }
            Self::Character => {
                let code = number(0);
                let message = match code {
                    ..0 => "character number must be positive".into(),
                    0 => "null character not permitted".into(),
                    0x11_0000.. => format!("requested character too large for encoding: {code}"),
                    _ => format!("requested character not valid for encoding: {code}"),
                };
                let character = u32::try_from(code).ok().filter(|code| *code > 0).and_then(char::from_u32);
                let state = if code < 0 { "22023" } else { "54000" };
                character.ok_or_else(|| SqlError::new(state, message))?.to_string()
            }
            Self::StartsWith => return Ok(Datum::boolean(text(0).starts_with(&*text(1)))),
            Self::ReplaceMatches { all, insensitive } => {
                let pattern = RegexBuilder::new(&text(1)).case_insensitive(insensitive).build();
                let pattern = pattern.map_err(|error| {
                    SqlError::new("2201B", format!("invalid regular expression: {error}"))
                })?;
                let replacement = replacement_of(&text(2));
                let whole = text(0);
                let count = if all { usize::MAX } else { 1 };
                let (mut made, mut piece) = (String::new(), String::new());
                let mut behind = 0;
                for captures in pattern.captures_iter(&whole).take(count) {
                    let Some(found) = captures.get(0) else { continue };
                    piece.clear();
                    piece.push_str(&whole[behind..found.start()]);
                    captures.expand(&replacement, &mut piece);
                    behind = found.end();
                    machine.ask_longer(&made, piece.len())?;
                    made.push_str(&piece);
                }
                machine.ask_longer(&made, whole.len() - behind)?;
                made.push_str(&whole[behind..]);
                made
            }
            Self::ToHex => format!("{:x}", number(0)),
        };
        machine.ask_text(made.len())?;
        Ok(machine.frame.arena.push_bytes(made.as_bytes()))
    }
}

/// Translates a replacement of PostgreSQL for the crate `regex`: `\1` to `${1}`, `\&` to `${0}`, `$` to `$$`.
fn replacement_of(text: &str) -> String {
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
