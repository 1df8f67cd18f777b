//! Splits the texts of dates and timestamps into words.
//! Source: PostgreSQL 15, `ParseDateTime`.

use super::offset::{Read, Refusal};

/// Maximum length of a date's text, in bytes.
const LONGEST: usize = 128;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const FULL_MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Names of weekdays, which are ignored.
pub(super) const WEEKDAYS: [&str; 19] = [
    "sun",
    "sunday",
    "mon",
    "monday",
    "tue",
    "tues",
    "tuesday",
    "wed",
    "weds",
    "wednesday",
    "thu",
    "thur",
    "thurs",
    "thursday",
    "fri",
    "friday",
    "sat",
    "saturday",
    "on",
];

/// A word of a text, in lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Number(String),
    Date(String),
    Time(String),
    Zone(String),
    Word(String),
    /// `-infinity`.
    Signed(String),
}

/// Splits a text into words.
pub(super) fn tokens(text: &str) -> Read<Vec<Token>> {
    if text.len() > LONGEST || !text.is_ascii() {
        return Err(Refusal::Syntax);
    }
    let text = text.to_ascii_lowercase();
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    // Returns the end of the run of bytes that satisfy `is_in`.
    let run = |from: usize, is_in: &dyn Fn(u8) -> bool| {
        from + bytes[from..].iter().take_while(|byte| is_in(**byte)).count()
    };
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let is_delimiter = |at: usize| bytes.get(at).is_some_and(|byte| b"-/.".contains(byte));
    while let Some(first) = bytes.get(at).copied() {
        let begin = at;
        let kind: fn(String) -> Token = match first {
            _ if first.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                at = run(at, &is_digit);
                if bytes.get(at) == Some(&b':') {
                    at = run(at, &|byte| is_digit(byte) || byte == b':' || byte == b'.');
                    Token::Time
                } else if is_delimiter(at) {
                    let delimiter = bytes[at];
                    at += 1;
                    if bytes.get(at).is_some_and(u8::is_ascii_digit) {
                        at = run(at, &is_digit);
                        let is_date = bytes.get(at) == Some(&delimiter);
                        if is_date {
                            at = run(at, &|byte| is_digit(byte) || byte == delimiter);
                        }
                        if is_date || delimiter != b'.' { Token::Date } else { Token::Number }
                    } else {
                        at = run(at, &|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                        Token::Date
                    }
                } else {
                    Token::Number
                }
            }
            b'.' => {
                at = run(at + 1, &is_digit);
                Token::Number
            }
            b'a'..=b'z' => {
                at = run(at, &|byte: u8| byte.is_ascii_alphabetic());
                let is_number_next = bytes.get(at).is_some_and(|byte| *byte == b'+' || is_digit(*byte));
                let is_known = is_known(&text[begin..at]);
                if is_delimiter(at) || is_number_next && !is_known {
                    at = run(at, &|byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte));
                    Token::Date
                } else {
                    Token::Word
                }
            }
            b'+' | b'-' => {
                let body = run(at + 1, &|byte: u8| byte.is_ascii_whitespace());
                let (end, kind): (usize, fn(String) -> Token) = match bytes.get(body) {
                    Some(byte) if is_digit(*byte) => {
                        (run(body, &|byte| is_digit(byte) || b":.-".contains(&byte)), Token::Zone)
                    }
                    Some(byte) if byte.is_ascii_alphabetic() => {
                        (run(body, &|byte: u8| byte.is_ascii_alphabetic()), Token::Signed)
                    }
                    _ => return Err(Refusal::Syntax),
                };
                tokens.push(kind(format!("{}{}", first as char, &text[body..end])));
                at = end;
                continue;
            }
            // Other punctuation is ignored.
            _ if first.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return Err(Refusal::Syntax),
        };
        tokens.push(kind(text[begin..at].into()));
    }
    if tokens.len() > 25 { Err(Refusal::Syntax) } else { Ok(tokens) }
}

pub(super) fn month_of(word: &str) -> Option<i64> {
    let is_it = |own: &&str| *own == word || word == "sept" && *own == "sep";
    let place = MONTHS.iter().position(is_it).or_else(|| FULL_MONTHS.iter().position(|own| *own == word));
    place.map(|place| place as i64 + 1)
}

fn is_known(word: &str) -> bool {
    month_of(word).is_some()
        || WEEKDAYS.contains(&word)
        || matches!(word, "t" | "j" | "jd" | "julian" | "am" | "pm" | "ad" | "bc" | "at")
}
