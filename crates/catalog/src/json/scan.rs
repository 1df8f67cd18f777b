//! Reads JSON texts: checks them, and finds the members of objects and the elements of arrays.
//! Source: PostgreSQL 15, `jsonapi.c`. As there, numbers keep their digits and texts keep their escapes until
//! a value is asked for; this is why no general parser is used.
//! Invariant: a text that was checked is read without an error. Held by: `values` in `workload`, beside
//! PostgreSQL.
//! Differs: at most `MOST_DEPTH` values lie in each other.

use crate::{ValueError, surrogate_pair};

/// Most values that lie in each other.
const MOST_DEPTH: usize = 500;

/// What is made of the parts of a JSON text.
pub(super) trait Maker {
    /// A value.
    type Value;
    /// The key of a member.
    type Key;

    /// Makes a value of `null`, `true` or `false`.
    fn word(&self, word: &str) -> Self::Value;
    /// Makes a value of a number's digits.
    fn number(&self, digits: &str) -> Result<Self::Value, ValueError>;
    /// Makes a value of a string, given without its quotes.
    fn string(&self, escaped: &str) -> Result<Self::Value, ValueError>;
    /// Makes a key of a string, given without its quotes.
    fn key(&self, escaped: &str) -> Result<Self::Key, ValueError>;
    /// Makes an array.
    fn array(&self, elements: Vec<Self::Value>) -> Self::Value;
    /// Makes an object of its members, in their order.
    fn object(&self, members: Vec<(Self::Key, Self::Value)>) -> Self::Value;
}

/// Makes nothing, and thus only checks.
pub(super) struct Check;

impl Maker for Check {
    type Value = ();
    type Key = ();

    fn word(&self, _: &str) {}
    fn number(&self, _: &str) -> Result<(), ValueError> {
        Ok(())
    }
    fn string(&self, _: &str) -> Result<(), ValueError> {
        Ok(())
    }
    fn key(&self, _: &str) -> Result<(), ValueError> {
        Ok(())
    }
    fn array(&self, _: Vec<()>) {}
    fn object(&self, _: Vec<((), ())>) {}
}

/// Returns the error of a text that is not JSON.
fn syntax(detail: impl Into<String>) -> ValueError {
    ValueError::new("22P02", "invalid input syntax for type json").with_detail(detail)
}

/// A position in a JSON text.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a byte that must come next, after blanks. `expected` says what may come next.
    fn expect(&mut self, byte: u8, expected: &str) -> Result<(), ValueError> {
        if self.takes(byte) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// Returns the error of what comes next, where something else is expected.
    fn unexpected(&mut self, expected: &str) -> ValueError {
        self.skip_space();
        let from = self.at;
        let token = match self.peek() {
            None => return syntax("The input string ended unexpectedly."),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => match self.word() {
                "null" | "true" | "false" => Ok(()),
                _ => Err(self.invalid_token(from)),
            },
        };
        match token {
            Ok(()) => syntax(format!("Expected {expected}, but found \"{}\".", &self.text[from..self.at])),
            Err(error) => error,
        }
    }

    /// Returns the error of what begins at an offset and is no token.
    fn invalid_token(&mut self, from: usize) -> ValueError {
        if self.word().is_empty() && self.at == from {
            self.at += 1;
        }
        syntax(format!("Token \"{}\" is invalid.", &self.text[from..self.at]))
    }

    /// Takes a byte, after blanks, if it comes next.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Reads the one value of a text.
    pub(super) fn only<M: Maker>(&mut self, maker: &M) -> Result<M::Value, ValueError> {
        let value = self.value(maker, 0)?;
        self.skip_space();
        if self.at == self.text.len() { Ok(value) } else { Err(self.unexpected("end of input")) }
    }

    fn value<M: Maker>(&mut self, maker: &M, depth: usize) -> Result<M::Value, ValueError> {
        if depth > MOST_DEPTH {
            return Err(ValueError::new("54001", "stack depth limit exceeded"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(maker, depth),
            Some(b'[') => {
                self.at += 1;
                let mut elements = Vec::new();
                if self.takes(b']') {
                    return Ok(maker.array(elements));
                }
                loop {
                    elements.push(self.value(maker, depth + 1)?);
                    if !self.takes(b',') {
                        self.expect(b']', "\",\" or \"]\"")?;
                        return Ok(maker.array(elements));
                    }
                }
            }
            Some(b'"') => maker.string(self.string()?),
            Some(b'-' | b'0'..=b'9') => maker.number(self.number()?),
            _ => {
                let from = self.at;
                match self.word() {
                    word @ ("null" | "true" | "false") => Ok(maker.word(word)),
                    _ => {
                        self.at = from;
                        Err(self.unexpected("JSON value"))
                    }
                }
            }
        }
    }

    fn object<M: Maker>(&mut self, maker: &M, depth: usize) -> Result<M::Value, ValueError> {
        self.at += 1;
        let mut members = Vec::new();
        if self.takes(b'}') {
            return Ok(maker.object(members));
        }
        loop {
            let expected = if members.is_empty() { "string or \"}\"" } else { "string" };
            let key = maker.key(self.key(expected)?)?;
            self.expect(b':', "\":\"")?;
            members.push((key, self.value(maker, depth + 1)?));
            if !self.takes(b',') {
                self.expect(b'}', "\",\" or \"}\"")?;
                return Ok(maker.object(members));
            }
        }
    }

    /// Takes letters, digits and bytes outside of ASCII.
    fn word(&mut self) -> &'a str {
        let from = self.at;
        while matches!(self.peek(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | 0x80..)) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    /// Takes the digits of a number that begins at an offset.
    fn digits(&mut self, number: usize) -> Result<(), ValueError> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > from { Ok(()) } else { Err(self.invalid_token(number)) }
    }

    fn number(&mut self) -> Result<&'a str, ValueError> {
        let from = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits(from)?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(from)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits(from)?;
        }
        let digits = &self.text[from..self.at];
        if self.word().is_empty() { Ok(digits) } else { Err(self.invalid_token(from)) }
    }

    /// Takes the string of a key, after blanks, and returns it without its quotes.
    fn key(&mut self, expected: &str) -> Result<&'a str, ValueError> {
        self.skip_space();
        if self.peek() == Some(b'"') { self.string() } else { Err(self.unexpected(expected)) }
    }

    /// Takes a string, which begins here, and returns it without its quotes.
    fn string(&mut self) -> Result<&'a str, ValueError> {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek() {
                None => return Err(self.invalid_token(from - 1)),
                Some(control @ 0..0x20) => {
                    return Err(syntax(format!("Character with value 0x{control:02x} must be escaped.")));
                }
                Some(b'"') => break,
                Some(b'\\') => self.escape(from - 1)?,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.text[from..self.at - 1])
    }

    /// Takes an escape in a string that begins at an offset.
    fn escape(&mut self, string: usize) -> Result<(), ValueError> {
        let left = &self.text[self.at + 1..];
        self.at += match left.chars().next() {
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => 2,
            Some('u') if unit(&self.text.as_bytes()[self.at..]).is_some() => 6,
            Some('u') if left[1..].bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                self.at = self.text.len();
                return Err(self.invalid_token(string));
            }
            Some('u') => return Err(syntax("\"\\u\" must be followed by four hexadecimal digits.")),
            Some(other) => return Err(syntax(format!("Escape sequence \"\\{other}\" is invalid."))),
            None => {
                self.at = self.text.len();
                return Err(self.invalid_token(string));
            }
        };
        Ok(())
    }

    /// Takes a value, and returns its text.
    fn raw(&mut self) -> Result<&'a str, ValueError> {
        self.skip_space();
        let from = self.at;
        self.value(&Check, 0)?;
        Ok(&self.text[from..self.at])
    }
}

/// Returns the UTF-16 unit of `\uXXXX` at the beginning of bytes.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.get(2..6)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | (*digit as char).to_digit(16)?))
}

/// Returns the text that a string without its quotes stands for.
///
/// # Errors
/// `22P05`: it contains the character 0. `22P02`: it contains half of a surrogate pair.
pub(super) fn unescaped(escaped: &str) -> Result<String, ValueError> {
    let mut out = String::with_capacity(escaped.len());
    let mut left = escaped;
    while let Some(at) = left.find('\\') {
        out.push_str(&left[..at]);
        let bytes = &left.as_bytes()[at..];
        let (made, length) = match bytes.get(1) {
            Some(b'u') => {
                let pair = |high: u32| {
                    let low = bytes.get(6..).filter(|low| low.starts_with(b"\\u")).and_then(unit)?;
                    surrogate_pair(high, low)
                };
                match unit(bytes) {
                    Some(0) => {
                        let error = ValueError::new("22P05", "unsupported Unicode escape sequence");
                        return Err(error.with_detail("\\u0000 cannot be converted to text."));
                    }
                    Some(high @ 0xd800..0xdc00) => (pair(high), 12),
                    Some(unit) => (char::from_u32(unit), 6),
                    None => (None, 0),
                }
            }
            Some(b'b') => (Some('\x08'), 2),
            Some(b'f') => (Some('\x0c'), 2),
            Some(b'n') => (Some('\n'), 2),
            Some(b'r') => (Some('\r'), 2),
            Some(b't') => (Some('\t'), 2),
            other => (other.map(|plain| *plain as char), 2),
        };
        let half = || syntax("Unicode low surrogate must follow a high surrogate.");
        out.push(made.ok_or_else(half)?);
        left = &left[at + length..];
    }
    out.push_str(left);
    Ok(out)
}

/// Checks that a text is JSON.
///
/// # Errors
/// `22P02`: it is not. `54001`: too many values lie in each other.
pub fn check_json(text: &str) -> Result<(), ValueError> {
    Scan::new(text).only(&Check)
}

/// Returns the members of an object in their order, each value as its text; `None` for any other value.
///
/// # Errors
/// `22P02`, `22P05`: as `unescaped`, of a key.
pub fn json_members(text: &str) -> Result<Option<Vec<(String, &str)>>, ValueError> {
    let mut scan = Scan::new(text);
    if !scan.takes(b'{') {
        return Ok(None);
    }
    let mut members = Vec::new();
    if !scan.takes(b'}') {
        loop {
            let key = unescaped(scan.key("string")?)?;
            scan.expect(b':', "\":\"")?;
            members.push((key, scan.raw()?));
            if !scan.takes(b',') {
                break;
            }
        }
    }
    Ok(Some(members))
}

/// Returns the elements of an array, each as its text; `None` for any other value.
///
/// # Errors
/// `22P02`: the text is not JSON.
pub fn json_elements(text: &str) -> Result<Option<Vec<&str>>, ValueError> {
    let mut scan = Scan::new(text);
    if !scan.takes(b'[') {
        return Ok(None);
    }
    let mut elements = Vec::new();
    if !scan.takes(b']') {
        loop {
            elements.push(scan.raw()?);
            if !scan.takes(b',') {
                break;
            }
        }
    }
    Ok(Some(elements))
}

/// Returns the text of a value that is no JSON: a string without quotes and escapes; `None` of `null`.
///
/// # Errors
/// `22P02`, `22P05`: as `unescaped`.
pub fn json_text(json: &str) -> Result<Option<String>, ValueError> {
    let trimmed = json.trim_matches([' ', '\t', '\n', '\r']);
    match trimmed.strip_prefix('"').and_then(|open| open.strip_suffix('"')) {
        Some(escaped) => unescaped(escaped).map(Some),
        None if trimmed == "null" => Ok(None),
        None => Ok(Some(trimmed.into())),
    }
}

/// Appends a text as a JSON string.
pub fn push_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control @ '\0'..' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}
