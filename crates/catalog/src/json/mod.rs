//! JSON values: the normal form of JSONB, its order, and what changes one.
//!
//! A JSONB is held as the text that PostgreSQL would show: members in the order of the length and then of
//! the bytes of their keys, of each key the last one, and numbers as NUMERIC shows them.
//! Source: PostgreSQL 15, `jsonb.c`, `jsonb_util.c`, `jsonfuncs.c`.
//! Differs: numbers may have any number of digits that NUMERIC has there.
//! Held by: `values` and `answers` in `workload`, beside PostgreSQL.

mod scan;

pub use scan::{check_json, json_elements, json_members, json_text, push_json_string};

use crate::ValueError;
use scan::{Maker, Scan, unescaped};
use std::cmp::Ordering;

/// Most digits of a number before the point, and after it, as in PostgreSQL.
const MOST_DIGITS: (usize, usize) = (131_072, 16_383);

/// A JSONB.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// A string.
    String(String),
    /// A number, with a scale and without an exponent.
    Number(String),
    /// `true` or `false`
    Boolean(bool),
    /// An array.
    Array(Vec<Json>),
    /// An object. Its keys are distinct, and in the order of their lengths and bytes.
    Object(Vec<(String, Json)>),
}

/// Makes values in the normal form.
struct Normalize;

impl Maker for Normalize {
    type Value = Json;
    type Key = String;

    fn word(&self, word: &str) -> Json {
        match word {
            "null" => Json::Null,
            word => Json::Boolean(word == "true"),
        }
    }

    fn number(&self, digits: &str) -> Result<Json, ValueError> {
        normal_number(digits).map(Json::Number)
    }

    fn string(&self, escaped: &str) -> Result<Json, ValueError> {
        unescaped(escaped).map(Json::String)
    }

    fn key(&self, escaped: &str) -> Result<String, ValueError> {
        unescaped(escaped)
    }

    fn array(&self, elements: Vec<Json>) -> Json {
        Json::Array(elements)
    }

    fn object(&self, members: Vec<(String, Json)>) -> Json {
        Json::object(members)
    }
}

/// Returns a number without its exponent, as NUMERIC shows it.
fn normal_number(digits: &str) -> Result<String, ValueError> {
    let overflow = || ValueError::new("22003", "value overflows numeric format");
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(positive) => (true, positive),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().map_err(|_| overflow())?;
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
    // Position of the point in `all`, which may lie before or behind it.
    let point = (whole.len() as i64).saturating_add(exponent);
    let leading = point.saturating_sub((all.len() - significant.len()) as i64);
    if scale > MOST_DIGITS.1 as i64 || !significant.is_empty() && leading > MOST_DIGITS.0 as i64 {
        return Err(overflow());
    }
    let scale = scale as usize;
    let mut out = String::new();
    if significant.is_empty() {
        out.push('0');
    } else {
        if is_negative {
            out.push('-');
        }
        let whole = usize::try_from(leading).unwrap_or(0);
        out.extend(significant.chars().chain(std::iter::repeat('0')).take(whole));
        if whole == 0 {
            out.push('0');
        }
    }
    if scale > 0 {
        out.push('.');
        let zeros = usize::try_from(-leading).unwrap_or(0);
        let taken = usize::try_from(leading).unwrap_or(0);
        let behind = significant.chars().skip(taken).chain(std::iter::repeat('0'));
        out.extend(std::iter::repeat_n('0', zeros).chain(behind).take(scale));
    }
    Ok(out)
}

/// Returns a number without the zeros at the end of its fraction.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Compares two numbers in the normal form.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    let (a, b) = (without_zeros(a), without_zeros(b));
    match (a.strip_prefix('-'), b.strip_prefix('-')) {
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(a), Some(b)) => compare_magnitudes(b, a),
        (None, None) => compare_magnitudes(a, b),
    }
}

fn compare_magnitudes(a: &str, b: &str) -> Ordering {
    let whole = |number: &str| number.find('.').unwrap_or(number.len());
    whole(a).cmp(&whole(b)).then_with(|| a.cmp(b))
}

/// Compares two keys in the order that members have.
fn compare_keys(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl Json {
    /// Reads a text.
    ///
    /// # Errors
    /// `22P02`: the text is not JSON. `22P05`: it contains the character 0. `22003`: a number is too long.
    /// `54001`: too many values lie in each other.
    pub fn read(text: &str) -> Result<Self, ValueError> {
        Scan::new(text).only(&Normalize)
    }

    /// Returns an object of members in any order; of each key the last one counts.
    pub fn object(mut members: Vec<(String, Self)>) -> Self {
        members.reverse();
        members.sort_by(|a, b| compare_keys(&a.0, &b.0));
        members.dedup_by(|later, first| later.0 == first.0);
        Self::Object(members)
    }

    /// Returns whether an object has a member with this key, or an array this string; or is this string.
    pub fn has(&self, key: &str) -> bool {
        match self {
            Self::Object(members) => members.iter().any(|(own, _)| own == key),
            Self::Array(elements) => {
                elements.iter().any(|own| matches!(own, Self::String(text) if text == key))
            }
            Self::String(text) => text == key,
            _ => false,
        }
    }

    /// Returns whether the value contains another one: objects members, and arrays elements in any order.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(own), Self::Object(other)) => other
                .iter()
                .all(|(key, value)| own.iter().any(|(name, own)| name == key && own.contains_member(value))),
            (Self::Array(own), Self::Array(other)) => {
                other.iter().all(|value| own.iter().any(|own| own.contains_member(value)))
            }
            // An array contains a scalar as its element, at the top alone.
            (Self::Array(own), scalar) if scalar.is_scalar() => {
                own.iter().any(|own| own.compare(scalar).is_eq())
            }
            _ => self.compare(other).is_eq(),
        }
    }

    fn contains_member(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(_), Self::Array(_)) | (Self::Object(_), Self::Object(_)) => self.contains(other),
            _ => self.compare(other).is_eq(),
        }
    }

    /// Returns whether the value is neither an array nor an object.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::String(_) => 1,
            Self::Number(_) => 2,
            Self::Boolean(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        }
    }

    /// Compares two values as an index of PostgreSQL does.
    pub fn compare(&self, other: &Self) -> Ordering {
        // PostgreSQL takes a scalar at the top for an array of one element.
        match (self, other) {
            (Self::Array(own), scalar) if own.is_empty() && scalar.is_scalar() => Ordering::Less,
            (scalar, Self::Array(other)) if other.is_empty() && scalar.is_scalar() => Ordering::Greater,
            _ => self.compare_nested(other),
        }
    }

    fn compare_nested(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::String(a), Self::String(b)) => a.cmp(b),
            (Self::Number(a), Self::Number(b)) => compare_numbers(a, b),
            (Self::Boolean(a), Self::Boolean(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => {
                let mut orders = a.iter().zip(b).map(|(a, b)| a.compare_nested(b));
                let first = || orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
                a.len().cmp(&b.len()).then_with(first)
            }
            (Self::Object(a), Self::Object(b)) => {
                let pairs = a.iter().zip(b);
                let mut orders = pairs.map(|(a, b)| a.0.cmp(&b.0).then_with(|| a.1.compare_nested(&b.1)));
                let first = || orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
                a.len().cmp(&b.len()).then_with(first)
            }
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    /// Returns the value with all numbers in one form, so that equal values have equal texts.
    #[must_use]
    pub fn canonical(self) -> Self {
        match self {
            Self::Number(number) => Self::Number(without_zeros(&number).into()),
            Self::Array(elements) => Self::Array(elements.into_iter().map(Self::canonical).collect()),
            Self::Object(members) => {
                Self::Object(members.into_iter().map(|(key, own)| (key, own.canonical())).collect())
            }
            other => other,
        }
    }

    /// Appends the normal form.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number),
            Self::String(text) => push_json_string(text, out),
            Self::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    out.push_str(if place > 0 { ", " } else { "" });
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (place, (key, value)) in members.iter().enumerate() {
                    out.push_str(if place > 0 { ", " } else { "" });
                    push_json_string(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Returns the normal form.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Compares two JSONB, given as their texts.
pub fn compare_jsonb(a: &[u8], b: &[u8]) -> Ordering {
    let read = |text| Json::read(std::str::from_utf8(text).unwrap_or_default());
    if a == b {
        return Ordering::Equal;
    }
    match (read(a), read(b)) {
        (Ok(own), Ok(other)) => own.compare(&other),
        _ => a.cmp(b),
    }
}

/// Returns the text that all JSONB equal to this one share.
pub fn canonical_jsonb(text: &str) -> String {
    Json::read(text).map_or_else(|_| text.into(), |own| own.canonical().text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_numeric_shows_them() {
        for (digits, shown) in [
            ("1e5", "100000"),
            ("1.50e1", "15.0"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("0.00e1", "0.0"),
            ("1e-3", "0.001"),
            ("-12.5e-3", "-0.0125"),
            ("0.0012e2", "0.12"),
            ("0.0012e4", "12"),
            ("120", "120"),
            ("0e9", "0"),
        ] {
            assert_eq!(normal_number(digits).as_deref(), Ok(shown), "{digits}");
        }
        assert_eq!(normal_number("1e131072").unwrap_err().sqlstate, "22003");
        assert_eq!(normal_number("1e-16384").unwrap_err().sqlstate, "22003");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (text, detail) in [
            ("", "The input string ended unexpectedly."),
            ("[1, 2", "The input string ended unexpectedly."),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
            ("[,]", "Expected JSON value, but found \",\"."),
            ("{1: 2}", "Expected string or \"}\", but found \"1\"."),
            ("{\"a\": 1, }", "Expected string, but found \"}\"."),
            ("{\"a\" \"b\"}", "Expected \":\", but found \"\"b\"\"."),
            ("{\"a\": 1]", "Expected \",\" or \"}\", but found \"]\"."),
            ("{} true", "Expected end of input, but found \"true\"."),
            ("{'a': 1}", "Token \"'\" is invalid."),
            ("nil", "Token \"nil\" is invalid."),
            ("01", "Token \"01\" is invalid."),
            ("\"a", "Token \"\"a\" is invalid."),
            ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
            ("\"\\u12\"", "\"\\u\" must be followed by four hexadecimal digits."),
            ("\"\t\"", "Character with value 0x09 must be escaped."),
        ] {
            assert_eq!(check_json(text).unwrap_err().detail, detail, "{text}");
        }
    }

    #[test]
    fn equal_values_have_one_canonical_text() {
        let form = |text: &str| Json::read(text).map(|own| own.canonical().text());
        assert_eq!(form(r#"{"b": [1.00, 0.0], "a": 100, "b": [1.0, 0]}"#), form(r#"{"a":1e2,"b":[1,0.00]}"#));
        assert!(compare_jsonb(b"[1.0]", b"[1.00]").is_eq());
    }

    #[test]
    fn values_too_deep_are_refused() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(check_json(&nested(500)).is_ok() && Json::read(&nested(500)).is_ok());
        assert_eq!(check_json(&nested(100_000)).unwrap_err().sqlstate, "54001");
    }
}
