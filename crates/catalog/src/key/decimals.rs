//! Numerics that may not fit a machine integer, in keys: a byte for the sign and the number of digits before
//! the point, then two digits a byte, then a zero byte. All bytes of a negative number are complemented.
//!
//! A number of digits before the point that the byte has no place for follows it in four bytes. NaN and the
//! infinities are a byte alone. Zeros at both ends are no part of the digits, so equal numerics have one key,
//! whatever their scales.
//! Invariant: encodings are prefix-free and compare as the numerics do.
//! Held by: `bytes_compare_as_columns_do`, `keys_of_decimals_compare_as_they_do`.

use crate::{Decimal, Numeric};
use num_bigint::BigInt;

/// The first byte of zero, which is its only one; those of positive numbers are above it.
const ZERO: u8 = 0x80;
/// The first byte of a positive number without digits before the point, and without zeros behind it.
const POSITIVE: i64 = 0xc0;
/// Most digits before the point, or zeros behind it, that the first byte has a place for.
const MOST_IN_FIRST: i64 = 36;
/// The first byte of a positive number with more zeros behind the point.
const SMALL: u8 = 0x81;
/// The first byte of a positive number with more digits before the point.
const LARGE: u8 = 0xfd;
const INFINITY: u8 = 0xfe;
const NEGATIVE_INFINITY: u8 = !INFINITY;
const NAN: u8 = 0xff;
/// Ends the digits; a pair of digits is one above its value.
const END: u8 = 0;

/// Appends a numeric.
pub(super) fn encode(value: &Numeric, key: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    if let Some(decimal) = value.short() {
        let digits = buffer.format(decimal.mantissa.unsigned_abs());
        return encode_digits(digits, decimal.scale.into(), decimal.mantissa < 0, key);
    }
    match (value.parts(), value) {
        (Some(parts), _) => {
            let digits = parts.mantissa.magnitude().to_string();
            encode_digits(&digits, parts.scale.into(), value.sign().is_lt(), key);
        }
        (None, Numeric::Infinity) => key.push(INFINITY),
        (None, Numeric::NegativeInfinity) => key.push(NEGATIVE_INFINITY),
        (None, _) => key.push(NAN),
    }
}

fn encode_digits(digits: &str, scale: i64, is_negative: bool, key: &mut Vec<u8>) {
    let digits = digits.as_bytes();
    let before_point = digits.len() as i64 - scale;
    let Some(last) = digits.iter().rposition(|digit| *digit != b'0') else {
        key.push(ZERO);
        return;
    };
    let start = key.len();
    if before_point.abs() <= MOST_IN_FIRST {
        key.push((POSITIVE + before_point) as u8);
    } else {
        key.push(if before_point < 0 { SMALL } else { LARGE });
        key.extend_from_slice(&(before_point as u32 ^ 1 << 31).to_be_bytes());
    }
    for pair in digits[..=last].chunks(2) {
        let units = pair.get(1).map_or(0, |digit| digit - b'0');
        key.push((pair[0] - b'0') * 10 + units + 1);
    }
    key.push(END);
    if is_negative {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Returns how many bytes stand before the digits of a number that begins with a byte.
fn head_length(first: u8) -> usize {
    if [SMALL, LARGE, !SMALL, !LARGE].contains(&first) { 5 } else { 1 }
}

/// Returns how many bytes the numeric at the beginning of a key takes; `None` when they end within it.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let end = match first {
        ZERO | NAN | INFINITY | NEGATIVE_INFINITY => return Some(1),
        first if first > ZERO => END,
        _ => !END,
    };
    let head = head_length(first);
    Some(head + bytes.get(head..)?.iter().position(|byte| *byte == end)? + 1)
}

/// Reads the numeric at the beginning of a key, with the scale that is given, or the least one.
pub(super) fn decode(bytes: &[u8], scale: Option<u8>) -> Numeric {
    let least = scale.unwrap_or(0);
    match bytes[0] {
        ZERO => return Decimal { mantissa: 0, scale: least }.into(),
        NAN => return Numeric::NaN,
        INFINITY => return Numeric::Infinity,
        NEGATIVE_INFINITY => return Numeric::NegativeInfinity,
        _ => {}
    }
    let is_negative = bytes[0] < ZERO;
    let plain = |byte: u8| if is_negative { !byte } else { byte };
    let head = head_length(bytes[0]);
    let before_point = match head {
        1 => i64::from(plain(bytes[0])) - POSITIVE,
        _ => {
            let number = bytes[1..head].iter().fold(0, |number, byte| number << 8 | u32::from(plain(*byte)));
            i64::from((number ^ 1 << 31) as i32)
        }
    };
    let pairs = bytes[head..].iter().map(|byte| plain(*byte)).take_while(|byte| *byte != END);
    let mut digits = String::from(if is_negative { "-" } else { "" });
    let mut count = 0;
    for pair in pairs {
        digits.push(char::from(b'0' + (pair - 1) / 10));
        digits.push(char::from(b'0' + (pair - 1) % 10));
        count += 2;
    }
    // The last pair of an odd number of digits has a zero.
    if digits.ends_with('0') {
        digits.pop();
        count -= 1;
    }
    let own_scale = count - before_point;
    let more = (i64::from(least) - own_scale).max(0) as usize;
    digits.extend(std::iter::repeat_n('0', more));
    let mantissa = BigInt::parse_bytes(digits.as_bytes(), 10).expect("they are digits");
    let scale = own_scale.max(least.into()) as u32;
    Numeric::of_parts(mantissa, scale).expect("a key holds a numeric")
}
