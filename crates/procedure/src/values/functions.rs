//! The built-in functions.
//!
//! `now()`, `random()` and `gen_random_uuid()` follow from the call's timestamp and seed, so a replayed call
//! gets the values that the first one got.

use crate::ir::expression::compare;
use crate::values::bits::BitOperator;
use crate::values::decimals::{DecimalFunction, left_of_point};
use crate::values::recovery::RecoveryColumn;
use crate::values::texts::TextFunction;
use crate::values::times::TimeFunction;
use crate::{CompareClass, Draw, Evaluated, Expression, Machine, SqlError};
use catalog::{Datum, Span, TableId};
use memory::CREDIT;
use regex::{Regex, RegexBuilder};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Maximum number of arguments that are evaluated only up to the first NULL. A function with more arguments
/// evaluates all of them.
const MOST_VALUES: usize = 3;

/// A built-in function, with the facts about its argument types that the evaluation needs.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Function {
    /// `now()`, `current_timestamp`, …: the call's time.
    Now,
    /// The next random value of the call.
    Next(Draw),
    /// The random value that the call draws after a number of random words, which is the argument. The
    /// analysis replaces `Next` by it.
    Nth(Draw),
    /// `nextval` of a sequence.
    NextNumber(TableId),
    /// `currval` of a sequence.
    CurrentNumber(TableId),
    /// `lastval()`.
    LastNumber,
    /// `setval(sequence, number, is called)`.
    SetNumber(TableId),
    /// `last_value` of a sequence.
    LastValue(TableId),
    /// `is_called` of a sequence.
    IsCalled(TableId),
    /// A column of `reprise_recovery`, at this moment.
    Recovery(RecoveryColumn),
    /// ROW_COUNT of GET DIAGNOSTICS.
    RowCount,
    /// `text ~ pattern`, `~*`.
    Matches {
        /// Whether case is ignored.
        insensitive: bool,
    },
    /// `format_type(oid, modifier)`.
    FormatType,
    /// `array_to_string(texts, separator)`; NULLs are left out.
    ArrayToString,
    /// `array = array`.
    ArraysEqual(CompareClass),
    /// `quote_ident(text)`.
    QuoteIdentifier,
    /// `||` of texts.
    Concat,
    /// `concat(…)`; NULLs are left out.
    ConcatAll,
    /// `length(text)`, in characters.
    Length,
    /// `octet_length`.
    OctetLength,
    /// `lower(text)`.
    Lower,
    /// `upper(text)`.
    Upper,
    /// `substring(text, from [, count])`.
    Substring,
    /// `left(text, n)`.
    Left,
    /// `right(text, n)`.
    Right,
    /// `ltrim(text [, characters])`.
    TrimStart,
    /// `rtrim(text [, characters])`.
    TrimEnd,
    /// `btrim(text [, characters])`.
    Trim,
    /// `replace(text, from, to)`.
    Replace,
    /// `strpos(text, part)`.
    Position,
    /// `lpad(text, length [, fill])`.
    PadStart,
    /// `rpad(text, length [, fill])`.
    PadEnd,
    /// `repeat(text, n)`.
    Repeat,
    /// `text LIKE pattern`.
    Like,
    /// `abs` of integers and scaled integers.
    AbsInt,
    /// `abs` of a decimal.
    AbsDecimal,
    /// `abs` of a double.
    AbsDouble,
    /// `round(decimal, digits)`; the number is the scale of scaled integers.
    RoundDecimal(u8),
    /// `trunc(decimal, digits)`; the number is the scale of scaled integers.
    TruncateDecimal(u8),
    /// `floor(decimal)`; the number is the scale of scaled integers.
    FloorDecimal(u8),
    /// `ceil(decimal)`; the number is the scale of scaled integers.
    CeilDecimal(u8),
    /// `round(double)`, half to even.
    RoundDouble,
    /// `trunc(double)`.
    TruncateDouble,
    /// `floor(double)`.
    FloorDouble,
    /// `ceil(double)`.
    CeilDouble,
    /// `sqrt(double)`.
    SquareRoot,
    /// `power(double, double)`.
    Power,
    /// `array_length(array, 1)`.
    ArrayLength,
    /// `cardinality(array)`.
    Cardinality,
    /// `array_append(array, value)`.
    ArrayAppend,
    /// A further function of decimals.
    Decimals(DecimalFunction),
    /// A function of timestamps.
    Time(TimeFunction),
    /// A further function of texts.
    Text(TextFunction),
    /// `to_char(number, template)`; the number is the scale of scaled integers.
    NumberToText(u8),
    /// `&`, `|`, `#`, `<<`, `>>` of integers.
    Bits(BitOperator),
    /// `concat_ws(separator, …)`; NULLs are left out.
    ConcatBetween,
    /// `ln(double)`.
    NaturalLogarithm,
    /// `log(double)`.
    Logarithm,
    /// `exp(double)`.
    Exponential,
    /// `sign(double)`.
    SignOfDouble,
    /// `greatest(…)`; NULLs are left out.
    Greatest(CompareClass),
    /// `least(…)`; NULLs are left out.
    Least(CompareClass),
}

impl Function {
    /// Returns whether the value depends on the call, and not on the arguments alone.
    pub fn depends_on_call(self) -> bool {
        matches!(
            self,
            Self::Now
                | Self::Next(_)
                | Self::NextNumber(_)
                | Self::CurrentNumber(_)
                | Self::LastNumber
                | Self::LastValue(_)
                | Self::IsCalled(_)
                | Self::Recovery(_)
                | Self::RowCount
                | Self::SetNumber(_)
        )
    }

    fn accepts_null(self) -> bool {
        matches!(
            self,
            Self::ConcatAll | Self::ConcatBetween | Self::ArrayAppend | Self::Greatest(_) | Self::Least(_)
        )
    }

    /// Returns whether the function, with this number of arguments, evaluates them all even if one is NULL.
    pub fn evaluates_all(self, arguments: usize) -> bool {
        arguments > MOST_VALUES
            || matches!(self, Self::ConcatAll | Self::ConcatBetween)
            || self.accepts_null()
    }

    pub(crate) fn evaluate(self, arguments: &[Expression], machine: &mut Machine) -> Evaluated {
        machine.check_memory()?;
        let mut values = [Datum::Null; MOST_VALUES];
        if arguments.len() > values.len() || matches!(self, Self::ConcatAll | Self::ConcatBetween) {
            let values = arguments.iter().map(|argument| argument.evaluate(machine));
            return self.of_many(&values.collect::<Result<Vec<_>, _>>()?, machine);
        }
        for (value, argument) in values.iter_mut().zip(arguments) {
            *value = argument.evaluate(machine)?;
            if value.is_null() && !self.accepts_null() {
                return Ok(Datum::Null);
            }
        }
        self.of_few(&values[..arguments.len()], machine)
    }

    /// Applies the function to its arguments. None is NULL, unless `evaluates_all` is true.
    pub(crate) fn apply(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        machine.check_memory()?;
        if values.len() > MOST_VALUES || matches!(self, Self::ConcatAll | Self::ConcatBetween) {
            return self.of_many(values, machine);
        }
        self.of_few(values, machine)
    }

    fn of_few(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        match self {
            Self::Time(function) => return function.evaluate(values, machine),
            Self::Decimals(function) => return function.evaluate(values, machine),
            Self::Text(function) => return function.evaluate(values, machine),
            Self::NumberToText(scale) => return number_to_text(values, scale, machine),
            _ => {}
        }
        match *values {
            [] => self.of_the_call(machine),
            [Datum::Int(words)] if let Self::Nth(draw) = self => {
                let mut behind = words as u64;
                Ok(draw.value(machine, |machine| {
                    behind += 1;
                    machine.frame.random_word(behind)
                }))
            }
            [Datum::Int(number), called] if let Self::SetNumber(sequence) = self => {
                Ok(machine.services.set_number(sequence, number, called.is_true())?)
            }
            [Datum::Bytes(text), Datum::Bytes(pattern)] if let Self::Matches { insensitive } = self => {
                matches(text, pattern, insensitive, machine)
            }
            [Datum::Int(oid), Datum::Int(modifier)] if self == Self::FormatType => {
                let text = format_type(oid, modifier);
                Ok(machine.frame.arena.push_bytes(text.as_bytes()))
            }
            [Datum::Bytes(text), ref rest @ ..] if !self.accepts_null() => self.of_text(text, rest, machine),
            [Datum::Double(a), ref rest @ ..] if !self.accepts_null() => {
                crate::values::doubles::function(self, a, rest)
            }
            _ => self.of_values(values, machine),
        }
    }

    fn of_the_call(self, machine: &mut Machine) -> Evaluated {
        Ok(match self {
            Self::NextNumber(sequence) => machine.services.next_number(sequence)?,
            Self::CurrentNumber(sequence) => machine.services.current_number(Some(sequence))?,
            Self::LastNumber => machine.services.current_number(None)?,
            Self::LastValue(sequence) => Datum::Int(machine.services.sequence_place(sequence)?.number),
            Self::IsCalled(sequence) => Datum::boolean(machine.services.sequence_place(sequence)?.is_given),
            Self::Recovery(column) => match machine.services.recovery_progress() {
                Some(now) => column.value(&now, &mut machine.frame.arena),
                None => Datum::Null,
            },
            Self::RowCount => Datum::Int(machine.frame.row_count),
            Self::Next(draw) => draw.value(machine, |machine| machine.frame.next_random()),
            Self::Now => Datum::Int(machine.frame.timestamp_us),
            _ => Datum::Null,
        })
    }

    fn of_many(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        let bytes: usize = values.iter().map(|value| machine.frame.arena.datum_bytes(*value).len()).sum();
        match self {
            Self::ConcatAll => {
                machine.ask_text(bytes)?;
                let mut all = Vec::new();
                for value in values {
                    all.extend_from_slice(machine.frame.arena.datum_bytes(*value));
                }
                Ok(machine.frame.arena.push_bytes(&all))
            }
            Self::ConcatBetween => {
                let Some((between, texts)) = values.split_first() else { return Ok(Datum::Null) };
                if between.is_null() {
                    return Ok(Datum::Null);
                }
                machine.ask_text(bytes + texts.len() * machine.frame.arena.datum_bytes(*between).len())?;
                let texts = texts.iter().filter(|value| !value.is_null());
                let texts: Vec<_> = texts.map(|value| machine.frame.arena.datum_bytes(*value)).collect();
                let all = texts.join(machine.frame.arena.datum_bytes(*between));
                Ok(machine.frame.arena.push_bytes(&all))
            }
            _ => self.of_values(values, machine),
        }
    }

    fn of_text(self, text: Span, rest: &[Datum], machine: &mut Machine) -> Evaluated {
        if let (Self::Concat, [Datum::Bytes(other)]) = (self, rest) {
            machine.ask_text((text.length + other.length) as usize)?;
            return Ok(machine.frame.arena.concat(text, *other));
        }
        machine.ask_text(self.longest(text, rest, machine))?;
        let arena = &mut machine.frame.arena;
        let bytes = arena.bytes(text);
        if self == Self::OctetLength {
            return Ok(Datum::Int(bytes.len() as i64));
        }
        let content = std::str::from_utf8(bytes).unwrap_or_default();
        let count = |place: usize| match rest.get(place) {
            Some(Datum::Int(value)) => Some(*value),
            _ => None,
        };
        if self == Self::QuoteIdentifier {
            let is_plain = content.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
                && content.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let quoted = match is_plain {
                true => content.to_owned(),
                false => format!("\"{}\"", content.replace('"', "\"\"")),
            };
            return Ok(arena.push_bytes(quoted.as_bytes()));
        }
        let other = |place: usize| match rest.get(place) {
            Some(datum @ Datum::Bytes(_)) => std::str::from_utf8(arena.datum_bytes(*datum)).ok(),
            _ => None,
        };
        let cut = |start: i64, end: i64| {
            let (start, end) = (character_offset(content, start), character_offset(content, end));
            (start, end.max(start) - start)
        };
        let part = match self {
            Self::Length => return Ok(Datum::Int(content.chars().count() as i64)),
            Self::Position => {
                let found = content.find(other(0).unwrap_or_default());
                let place = found.map_or(0, |at| content[..at].chars().count() as i64 + 1);
                return Ok(Datum::Int(place));
            }
            Self::Like => {
                let matched = like(content, other(0).unwrap_or_default())?;
                return Ok(Datum::boolean(matched));
            }
            Self::Substring => {
                let from = count(0).unwrap_or(1) - 1;
                let end = match count(1) {
                    Some(length) if length < 0 => {
                        return Err(SqlError::new("22011", "negative substring length not allowed").into());
                    }
                    Some(length) => from.saturating_add(length),
                    None => i64::MAX,
                };
                cut(from, end)
            }
            Self::Left | Self::Right => {
                let n = count(0).unwrap_or(0);
                let all = content.chars().count() as i64;
                let kept = if n < 0 { (all + n).max(0) } else { n.min(all) };
                if self == Self::Left { cut(0, kept) } else { cut(all - kept, all) }
            }
            Self::Trim | Self::TrimStart | Self::TrimEnd => {
                let set = other(0).unwrap_or(" ");
                let in_set = |c: char| set.contains(c);
                let start = if self == Self::TrimEnd {
                    0
                } else {
                    content.len() - content.trim_start_matches(in_set).len()
                };
                let kept = &content[start..];
                let end = if self == Self::TrimStart { kept } else { kept.trim_end_matches(in_set) };
                (start, end.len())
            }
            _ => {
                let made = match self {
                    Self::Lower => content.to_lowercase(),
                    Self::Upper => content.to_uppercase(),
                    Self::Replace => match other(0).unwrap_or_default() {
                        "" => content.into(),
                        from => content.replace(from, other(1).unwrap_or_default()),
                    },
                    Self::Repeat => content.repeat(usize::try_from(count(0).unwrap_or(0)).unwrap_or(0)),
                    Self::PadStart | Self::PadEnd => {
                        pad(content, count(0).unwrap_or(0), other(1).unwrap_or(" "), self)
                    }
                    _ => unreachable!("{self:?} is not a function of text"),
                };
                return Ok(arena.push_bytes(made.as_bytes()));
            }
        };
        Ok(arena.subspan(text, part.0, part.1))
    }

    /// Returns the size of the text that the function makes at most, in bytes; 0 if it makes no new text. Of
    /// `lower` and `upper` it is an estimate.
    fn longest(self, text: Span, rest: &[Datum], machine: &Machine) -> usize {
        let own = text.length as usize;
        let number = |place: usize| match rest.get(place) {
            Some(Datum::Int(value)) => usize::try_from(*value).unwrap_or(0),
            _ => 0,
        };
        let other =
            |place: usize| rest.get(place).map_or(&[][..], |value| machine.frame.arena.datum_bytes(*value));
        match self {
            // Few letters take more bytes in the other case.
            Self::Lower | Self::Upper => own + own / 2,
            Self::Repeat => own.saturating_mul(number(0)),
            Self::PadStart | Self::PadEnd if rest.len() > 1 && other(1).is_empty() => own,
            Self::PadStart | Self::PadEnd => number(0).max(own),
            Self::Replace if own < CREDIT / 4 && other(1).len() <= other(0).len() => own,
            Self::Replace if !other(0).is_empty() => {
                let (whole, from) = (machine.frame.arena.bytes(text), other(0));
                let (whole, from) = (std::str::from_utf8(whole), std::str::from_utf8(from));
                let count = whole.unwrap_or_default().matches(from.unwrap_or_default()).count();
                (own - count * other(0).len()).saturating_add(count.saturating_mul(other(1).len()))
            }
            _ => 0,
        }
    }

    fn of_values(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        match (self, values) {
            (Self::Greatest(class) | Self::Least(class), _) => {
                let wanted =
                    if matches!(self, Self::Greatest(_)) { Ordering::Greater } else { Ordering::Less };
                let mut best = Datum::Null;
                for value in values.iter().filter(|value| !value.is_null()) {
                    if best.is_null() || compare(class, *value, best, &machine.frame.arena) == wanted {
                        best = *value;
                    }
                }
                Ok(best)
            }
            (Self::ArrayAppend, [array, value]) => {
                let span = match array {
                    Datum::Array(span) => Some(*span),
                    _ => None,
                };
                let place = span.map_or(0, |span| span.length as usize);
                machine.ask_elements(place + 1)?;
                Ok(machine.frame.arena.with_element(span, place, *value))
            }
            (Self::ArrayLength, [Datum::Array(span), dimension]) => {
                let absent = *dimension != Datum::Int(1) || span.length == 0;
                Ok(if absent { Datum::Null } else { Datum::Int(span.length.into()) })
            }
            (Self::ArrayToString, [Datum::Array(span), Datum::Bytes(between)]) => {
                let elements = machine.frame.arena.elements(*span).to_vec();
                let bytes: usize =
                    elements.iter().map(|own| machine.frame.arena.datum_bytes(*own).len()).sum();
                machine.ask_text(bytes + elements.len() * machine.frame.arena.bytes(*between).len())?;
                let texts: Vec<Vec<u8>> = elements
                    .into_iter()
                    .filter(|element| !element.is_null())
                    .map(|element| machine.frame.arena.datum_bytes(element).to_vec())
                    .collect();
                let joined = texts.join(machine.frame.arena.bytes(*between));
                Ok(machine.frame.arena.push_bytes(&joined))
            }
            (Self::ArraysEqual(class), [Datum::Array(a), Datum::Array(b)]) => {
                let (a, b) = (machine.frame.arena.elements(*a), machine.frame.arena.elements(*b));
                let same = |(a, b): (&Datum, &Datum)| match (a.is_null(), b.is_null()) {
                    (false, false) => compare(class, *a, *b, &machine.frame.arena) == Ordering::Equal,
                    (a, b) => a && b,
                };
                Ok(Datum::boolean(a.len() == b.len() && a.iter().zip(b).all(same)))
            }
            (Self::Cardinality, [Datum::Array(span)]) => Ok(Datum::Int(span.length.into())),
            (Self::AbsInt, [Datum::Int(value)]) => match value.checked_abs() {
                Some(value) => Ok(Datum::Int(value)),
                None => Err(SqlError::new("22003", "bigint out of range").into()),
            },
            (Self::Bits(operator), [Datum::Int(a), Datum::Int(b)]) => Ok(Datum::Int(operator.apply(*a, *b))),
            (_, [value, rest @ ..]) => of_decimal(self, *value, rest, machine),
            _ => unreachable!("{self:?} has no such arguments"),
        }
    }
}

/// Evaluates `to_char` of integers, decimals and doubles.
fn number_to_text(values: &[Datum], scale: u8, machine: &mut Machine) -> Evaluated {
    let decimal = match values[0] {
        Datum::Double(value) => {
            let text = format!("{value:.15}");
            text.parse().map_err(|_| {
                SqlError::new("22003", format!("double \"{value}\" is out of range for to_char"))
            })?
        }
        value => machine.frame.arena.decimal(value, scale).unwrap_or(catalog::Decimal::from_int(0)),
    };
    let template = String::from_utf8_lossy(machine.frame.arena.datum_bytes(values[1])).into_owned();
    let text = crate::values::numbers::to_text(decimal, &template)?;
    Ok(machine.frame.arena.push_bytes(text.as_bytes()))
}

fn of_decimal(function: Function, value: Datum, rest: &[Datum], machine: &mut Machine) -> Evaluated {
    let scale = match function {
        Function::RoundDecimal(scale)
        | Function::TruncateDecimal(scale)
        | Function::FloorDecimal(scale)
        | Function::CeilDecimal(scale) => scale,
        _ => 0,
    };
    let Some(decimal) = machine.frame.arena.decimal(value, scale) else {
        unreachable!("{function:?} is not a function of {value:?}")
    };
    let digits = match rest {
        [Datum::Int(digits), ..] => u8::try_from((*digits).clamp(0, 36)).unwrap_or(0),
        _ => 0,
    };
    if let [Datum::Int(digits @ ..0)] = rest {
        let places = u32::try_from(digits.unsigned_abs()).unwrap_or(u32::MAX).min(100);
        let truncates = matches!(function, Function::TruncateDecimal(_));
        return Ok(machine.frame.arena.push_decimal(left_of_point(decimal, places, truncates)?));
    }
    let truncated = |digits: u8| -> Result<_, Box<SqlError>> {
        if digits >= decimal.scale {
            return Ok(decimal.rescale(digits)?);
        }
        let divisor = 10i128.pow(u32::from(decimal.scale - digits));
        Ok(catalog::Decimal::new(decimal.mantissa / divisor, digits)?)
    };
    let result = match function {
        Function::AbsDecimal => catalog::Decimal { mantissa: decimal.mantissa.abs(), ..decimal },
        Function::RoundDecimal(_) => decimal.rescale(digits)?,
        Function::TruncateDecimal(_) => truncated(digits)?,
        Function::FloorDecimal(_) | Function::CeilDecimal(_) => {
            let whole = truncated(0)?;
            let up = matches!(function, Function::CeilDecimal(_));
            let step = match whole.compare(decimal) {
                Ordering::Less if up => 1,
                Ordering::Greater if !up => -1,
                _ => 0,
            };
            catalog::Decimal { mantissa: whole.mantissa + step, scale: 0 }
        }
        _ => unreachable!("{function:?} is not a function of decimals"),
    };
    Ok(machine.frame.arena.push_decimal(result))
}

/// Returns the byte offset of the character at an index; the length of the text if it has fewer characters.
fn character_offset(text: &str, character: i64) -> usize {
    let Ok(character) = usize::try_from(character) else { return 0 };
    if text.is_ascii() {
        return character.min(text.len());
    }
    text.char_indices().nth(character).map_or(text.len(), |(offset, _)| offset)
}

fn pad(text: &str, length: i64, fill: &str, side: Function) -> String {
    let length = usize::try_from(length).unwrap_or(0);
    let own = text.chars().count();
    if own >= length || fill.is_empty() {
        return text.chars().take(length).collect();
    }
    let padding: String = fill.chars().cycle().take(length - own).collect();
    if side == Function::PadStart { padding + text } else { text.to_owned() + &padding }
}

/// Evaluates LIKE with `%`, `_` and backslash escapes.
fn like(text: &str, pattern: &str) -> Result<bool, Box<SqlError>> {
    fn matches(text: &[char], pattern: &[char]) -> Result<bool, Box<SqlError>> {
        match pattern {
            [] => Ok(text.is_empty()),
            ['%', rest @ ..] => {
                for start in 0..=text.len() {
                    if matches(&text[start..], rest)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            ['_', rest @ ..] => Ok(!text.is_empty() && matches(&text[1..], rest)?),
            ['\\'] => Err(SqlError::new("22025", "LIKE pattern must not end with escape character").into()),
            ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
                Ok(text.first() == Some(literal) && matches(&text[1..], rest)?)
            }
        }
    }
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    matches(&text, &pattern)
}

thread_local! {
    /// Compiled regular expressions, by pattern and by whether case is ignored.
    static PATTERNS: RefCell<HashMap<(String, bool), Regex>> = RefCell::default();
}

/// Maximum number of compiled regular expressions of a thread. A further one replaces them all.
const MOST_PATTERNS: usize = 64;

/// Returns whether a regular expression matches a substring of a text.
fn matches(text: Span, pattern: Span, insensitive: bool, machine: &Machine) -> Evaluated {
    let text = std::str::from_utf8(machine.frame.arena.bytes(text)).unwrap_or_default();
    let pattern = std::str::from_utf8(machine.frame.arena.bytes(pattern)).unwrap_or_default();
    PATTERNS.with_borrow_mut(|patterns| {
        let key = (pattern.to_owned(), insensitive);
        if !patterns.contains_key(&key) {
            let built = RegexBuilder::new(pattern).case_insensitive(insensitive).size_limit(1 << 20).build();
            let regex = built.map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().to_owned();
                SqlError::new("2201B", format!("invalid regular expression: {reason}"))
            })?;
            if patterns.len() >= MOST_PATTERNS {
                patterns.clear();
            }
            patterns.insert(key.clone(), regex);
        }
        Ok(Datum::boolean(patterns[&key].is_match(text)))
    })
}

/// Returns the name of a type by its OID, with the length, precision or scale in its modifier.
fn format_type(oid: i64, modifier: i64) -> String {
    let limit = modifier - 4;
    let limited = |name: &str| if limit >= 0 { format!("{name}({limit})") } else { name.into() };
    let timestamp = |zone: &str| match modifier {
        0.. => format!("timestamp({modifier}) {zone} time zone"),
        _ => format!("timestamp {zone} time zone"),
    };
    let (name, is_array) = match oid {
        16 | 1000 => ("boolean".to_owned(), oid == 1000),
        17 | 1001 => ("bytea".into(), oid == 1001),
        20 | 1016 => ("bigint".into(), oid == 1016),
        21 | 1005 => ("smallint".into(), oid == 1005),
        23 | 1007 => ("integer".into(), oid == 1007),
        25 | 1009 => ("text".into(), oid == 1009),
        701 | 1022 => ("double precision".into(), oid == 1022),
        1042 | 1014 => (limited("character"), oid == 1014),
        1043 | 1015 => (limited("character varying"), oid == 1015),
        1082 | 1182 => ("date".into(), oid == 1182),
        1114 | 1115 => (timestamp("without"), oid == 1115),
        1184 | 1185 => (timestamp("with"), oid == 1185),
        1700 | 1231 => match limit {
            0.. => (format!("numeric({},{})", limit >> 16, limit & 0xffff), oid == 1231),
            _ => ("numeric".into(), oid == 1231),
        },
        2278 => ("void".into(), false),
        2950 | 2951 => ("uuid".into(), oid == 2951),
        _ => ("???".into(), false),
    };
    if is_array { name + "[]" } else { name }
}
