//! Reads texts as values of the plain types and as elements of arrays.
//! Source: PostgreSQL 15, the input functions of the types (`int4in`, `boolin`, `float8in`, `byteain`,
//! `uuid_in`, `array_in`).
//! Held by: `values` in `workload`, beside PostgreSQL.
//! Differs: doubles in hexadecimal, and arrays with bounds or of several dimensions, are not supported.

use crate::ValueError;

/// Returns the character that two UTF-16 units encode; `None` unless they are a high and
/// a low surrogate.
pub fn surrogate_pair(high: u32, low: u32) -> Option<char> {
    match (high, low) {
        (0xd800..0xdc00, 0xdc00..0xe000) => char::from_u32(0x1_0000 + ((high & 0x3ff) << 10 | low & 0x3ff)),
        _ => None,
    }
}

/// Returns bytes as a text.
///
/// # Errors
/// `22021`: the bytes are not UTF-8, or contain a zero byte.
pub fn utf8_of(bytes: &[u8]) -> Result<&str, ValueError> {
    let wrong = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => return Ok(text),
        Ok(_) => &[0],
        Err(error) => &bytes[error.valid_up_to()..],
    };
    // Shows the number of bytes that the first one announces.
    let announced = match wrong.first() {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    let shown: Vec<String> = wrong.iter().take(announced).map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Err(ValueError::new("22021", message))
}

/// Why a text is not an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoInteger {
    Syntax,
    Range,
}

/// Returns whether a character is a blank where PostgreSQL reads a value, as C's `isspace` says.
pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Reads digits with a sign, between two bounds; `least` is negative.
pub(crate) fn integer_of(text: &str, least: i64, most: i64) -> Result<i64, NoInteger> {
    let text = text.trim_matches(is_space);
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    // As in PostgreSQL, a number with too many digits is out of range, whatever follows it.
    let (mut negated, floor) = (0i64, least.min(-most));
    for byte in digits.iter() {
        if !byte.is_ascii_digit() {
            return Err(NoInteger::Syntax);
        }
        let next = negated.checked_mul(10).and_then(|ten| ten.checked_sub((byte - b'0').into()));
        negated = next.filter(|next| *next >= floor).ok_or(NoInteger::Range)?;
    }
    match negated {
        _ if digits.is_empty() => Err(NoInteger::Syntax),
        _ if is_negative => Some(negated).filter(|value| *value >= least).ok_or(NoInteger::Range),
        _ => negated.checked_neg().filter(|value| *value <= most).ok_or(NoInteger::Range),
    }
}

/// Reads a boolean: "1", "0", "on", or an unambiguous prefix of true, false, yes, no or off.
pub(crate) fn boolean_of(text: &str) -> Option<bool> {
    let text = text.trim_matches(is_space).to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    match text.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ if begins("true", 1) || begins("yes", 1) || text == "on" => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) => Some(false),
        _ => None,
    }
}

/// Reads a double; `None` when the syntax is wrong, an error when the number is out of range.
pub(crate) fn double_of(text: &str) -> Result<Option<f64>, ValueError> {
    let text = text.trim_matches(is_space);
    let out_of_range = || {
        let message = format!("\"{text}\" is out of range for type double precision");
        ValueError::new("22003", message)
    };
    if let Some((value, is_zero)) = hexadecimal_double_of(text) {
        let is_in_range = value.is_finite() && (is_zero || value != 0.0);
        return if is_in_range { Ok(Some(value)) } else { Err(out_of_range()) };
    }
    let Ok(value) = text.parse::<f64>() else { return Ok(None) };
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let is_number = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if is_number && (value.is_infinite() || value == 0.0 && !is_zero) {
        return Err(out_of_range());
    }
    Ok(Some(value))
}

/// Reads a REAL; `None` when the syntax is wrong, an error when the number is out of range.
pub(crate) fn real_of(text: &str) -> Result<Option<f32>, ValueError> {
    let text = text.trim_matches(is_space);
    let out_of_range = || ValueError::new("22003", format!("\"{text}\" is out of range for type real"));
    let value = match hexadecimal_double_of(text) {
        Some((value, is_zero)) if value.is_finite() && (is_zero || value != 0.0) => value as f32,
        Some(_) => return Err(out_of_range()),
        // Through a double the number would be rounded twice.
        None => match text.parse::<f32>() {
            Ok(value) => value,
            Err(_) => return Ok(None),
        },
    };
    let is_hexadecimal = text.contains(['x', 'X']);
    let mantissa =
        text.split(if is_hexadecimal { ['p', 'P'] } else { ['e', 'E'] }).next().unwrap_or_default();
    let mantissa = mantissa.trim_start_matches(['+', '-']);
    let is_number = mantissa.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let digits = mantissa.trim_start_matches("0x").trim_start_matches("0X");
    let is_zero = digits.chars().all(|digit| matches!(digit, '0' | '.'));
    if is_number && (value.is_infinite() || value == 0.0 && !is_zero) {
        return Err(out_of_range());
    }
    Ok(Some(value))
}

/// Reads a double with hexadecimal digits, as C's strtod does: `0x1.8p3` is 12. Returns its value, and
/// whether all digits are 0; `None` when the text has another form.
fn hexadecimal_double_of(text: &str) -> Option<(f64, bool)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (digits, exponent) = match digits.split_once(['p', 'P']) {
        Some((digits, exponent)) => {
            let number = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let most = if exponent.starts_with('-') { -1_000_000 } else { 1_000_000 };
            (digits, exponent.parse::<i64>().unwrap_or(most).clamp(-1_000_000, 1_000_000))
        }
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The mantissa holds 31 significant digits at most. Of further digits only whether one is not 0 matters.
    let (mut mantissa, mut scale) = (0u128, exponent - 4 * fraction.len() as i64);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u128::from(digit.to_digit(16)?);
        match mantissa >> 120 {
            0 => mantissa = mantissa << 4 | digit,
            _ => {
                mantissa |= u128::from(digit != 0);
                scale += 4;
            }
        }
    }
    let mut value = mantissa as f64;
    // In steps, as 2 to the whole scale may be out of range where the value is not.
    while scale != 0 && value != 0.0 && value.is_finite() {
        let step = scale.clamp(-1000, 1000);
        value *= 2f64.powi(step as i32);
        scale -= step;
    }
    Some((if text.starts_with('-') { -value } else { value }, mantissa == 0))
}

/// Reads bytes: `\x` and hexadecimal digits, or plain characters with `\\` and `\ooo`.
pub(crate) fn bytea_of(text: &str) -> Result<Vec<u8>, ValueError> {
    match text.strip_prefix("\\x") {
        Some(digits) => hexadecimal_of(digits),
        None => bytea_of_escaped(text),
    }
}

/// Reads bytes as plain characters with `\\` and `\ooo`.
///
/// # Errors
/// `22P02`: a backslash begins neither of both.
pub fn bytea_of_escaped(text: &str) -> Result<Vec<u8>, ValueError> {
    let syntax = || ValueError::new("22P02", "invalid input syntax for type bytea");
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        out.push(match (first, rest) {
            (b'\\', [b'\\', behind @ ..]) => {
                rest = behind;
                b'\\'
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                rest = behind;
                (a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')
            }
            (b'\\', _) => return Err(syntax()),
            (plain, _) => *plain,
        });
    }
    Ok(out)
}

fn hexadecimal_of(text: &str) -> Result<Vec<u8>, ValueError> {
    let digit = |c: char| {
        let invalid = || ValueError::new("22023", format!("invalid hexadecimal digit: \"{c}\""));
        c.to_digit(16).map(|digit| digit as u8).ok_or_else(invalid)
    };
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut rest = text.chars();
    while let Some(high) = rest.next() {
        if matches!(high, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let high = digit(high)?;
        let odd = || ValueError::new("22023", "invalid hexadecimal data: odd number of digits");
        out.push(high << 4 | digit(rest.next().ok_or_else(odd)?)?);
    }
    Ok(out)
}

/// Reads 32 hexadecimal digits. A hyphen may follow each group of four digits; braces may enclose all.
pub(crate) fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let text = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}')?,
        None => text,
    };
    let mut rest = text.as_bytes();
    let mut uuid = [0; 16];
    for (place, byte) in uuid.iter_mut().enumerate() {
        let [high, low, behind @ ..] = rest else { return None };
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        *byte = digit(*high)? << 4 | digit(*low)?;
        rest = match behind {
            [b'-', behind @ ..] if place % 2 == 1 && place < 15 => behind,
            behind => behind,
        };
    }
    rest.is_empty().then_some(uuid)
}

/// Returns the texts of the elements of `{…}`; `None` is NULL.
///
/// # Errors
/// `22P02`: the text is malformed. `0A000`: the array has bounds or several dimensions.
pub fn array_elements(text: &str) -> Result<Vec<Option<String>>, ValueError> {
    let malformed = |detail: String| {
        ValueError::new("22P02", format!("malformed array literal: \"{text}\"")).with_detail(detail)
    };
    let unsupported =
        || ValueError::new("0A000", "arrays with bounds or of several dimensions are not supported");
    let body = text.trim_matches(is_space);
    if body.starts_with('[') && body.contains('=') {
        return Err(unsupported());
    }
    let no_array = || malformed("Array value must start with \"{\" or dimension information.".into());
    let mut rest = body.strip_prefix('{').ok_or_else(no_array)?.trim_start_matches(is_space);
    let mut elements = Vec::new();
    if rest == "}" {
        return Ok(elements);
    }
    loop {
        rest = rest.trim_start_matches(is_space);
        if rest.starts_with('{') {
            // Behind an element, an array is no element.
            return Err(if elements.is_empty() { unsupported() } else { malformed(unexpected('{')) });
        }
        let (element, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_element(quoted),
            None => plain_element(rest),
        }
        .map_err(malformed)?;
        elements.push(element);
        let mut behind = behind.trim_start_matches(is_space).chars();
        match behind.next() {
            Some(',') => rest = behind.as_str(),
            Some('}') if behind.as_str().is_empty() => return Ok(elements),
            Some('}') => return Err(malformed("Junk after closing right brace.".into())),
            Some('{') => return Err(malformed(unexpected('{'))),
            Some(_) => return Err(malformed("Unexpected array element.".into())),
            None => return Err(malformed(END_OF_INPUT.into())),
        }
    }
}

/// Why a text that ends too early is no array.
const END_OF_INPUT: &str = "Unexpected end of input.";

fn unexpected(character: char) -> String {
    format!("Unexpected \"{character}\" character.")
}

/// Returns an element after its opening quote, and the text behind its closing quote; or why there is none.
fn quoted_element(text: &str) -> Result<(Option<String>, &str), String> {
    let (mut element, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next().ok_or(END_OF_INPUT)? {
            '\\' => element.push(chars.next().ok_or(END_OF_INPUT)?),
            '"' => return Ok((Some(element), chars.as_str())),
            plain => element.push(plain),
        }
    }
}

/// Returns an element without quotes, and the text behind it. Blanks around it are dropped, unless a
/// backslash escapes them. If there is none, returns why.
fn plain_element(text: &str) -> Result<(Option<String>, &str), String> {
    let (mut element, mut chars) = (String::new(), text.chars());
    let (mut kept, mut is_escaped) = (0, false);
    loop {
        let before = chars.as_str();
        match chars.next().ok_or(END_OF_INPUT)? {
            end @ (',' | '}') => {
                element.truncate(kept);
                let is_null = !is_escaped && element.eq_ignore_ascii_case("null");
                let is_any = !element.is_empty();
                return is_any.then_some(((!is_null).then_some(element), before)).ok_or(unexpected(end));
            }
            '{' => return Err(unexpected('{')),
            '"' => return Err("Unexpected array element.".into()),
            '\\' => {
                element.push(chars.next().ok_or(END_OF_INPUT)?);
                (kept, is_escaped) = (element.len(), true);
            }
            plain => {
                element.push(plain);
                if !is_space(plain) {
                    kept = element.len();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_why_a_text_is_no_array() {
        for (text, detail) in [
            ("1", "Array value must start with \"{\" or dimension information."),
            ("{1", "Unexpected end of input."),
            ("{\"a", "Unexpected end of input."),
            ("{1,}", "Unexpected \"}\" character."),
            ("{1,{2}}", "Unexpected \"{\" character."),
            ("{\"a\"b}", "Unexpected array element."),
            ("{1}x", "Junk after closing right brace."),
        ] {
            assert_eq!(array_elements(text).unwrap_err().detail, detail, "{text}");
        }
    }

    #[test]
    fn doubles_have_hexadecimal_digits() {
        let read = |text: &str| double_of(text).map_err(|error| error.sqlstate);
        for (text, value) in [
            ("+0x1", 1.0),
            ("-0X1.8p3", -12.0),
            (" 0x.8 ", 0.5),
            ("0x1p-1074", 5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x10000000000000000000000000000000000001p-148", 1.0),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(read(text), Ok(Some(value)), "{text}");
        }
        for text in ["0x", "0x.", "0x1p", "0x1p+", "x1", "0x1g", "0xp1", "0x+1", "+-0x1"] {
            assert_eq!(read(text), Ok(None), "{text}");
        }
        for text in ["0x1p1024", "0x1p-1200", "-0x1p99999999999999999999"] {
            assert_eq!(read(text).unwrap_err(), "22003", "{text}");
        }
    }
}
