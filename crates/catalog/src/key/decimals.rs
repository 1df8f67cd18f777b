//! Decimals that may not fit a machine integer, in keys: a byte for the sign and the number of digits before
//! the point, then two digits a byte, then a zero byte. All bytes of a negative number are complemented.
//!
//! Zeros at both ends are no part of the digits, so equal decimals have one key, whatever their scales.
//! Invariant: encodings are prefix-free and compare as the decimals do.
//! Held by: `bytes_compare_as_columns_do`, `keys_of_decimals_compare_as_they_do`.

use crate::Decimal;

/// The first byte of zero, which is its only one; those of positive numbers are above it.
const ZERO: u8 = 0x80;
/// The first byte of a positive number without digits before the point, and without zeros behind it.
const POSITIVE: i16 = 0xc0;
/// Ends the digits; a pair of digits is one above its value.
const END: u8 = 0;

/// Appends a decimal.
pub(super) fn encode(decimal: Decimal, key: &mut Vec<u8>) {
    if decimal.mantissa == 0 {
        key.push(ZERO);
        return;
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(decimal.mantissa.unsigned_abs()).as_bytes();
    let before_point = digits.len() as i16 - i16::from(decimal.scale);
    let last = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0);
    let start = key.len();
    key.push((POSITIVE + before_point) as u8);
    for pair in digits[..=last].chunks(2) {
        let units = pair.get(1).map_or(0, |digit| digit - b'0');
        key.push((pair[0] - b'0') * 10 + units + 1);
    }
    key.push(END);
    if decimal.mantissa < 0 {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Returns how many bytes the decimal at the beginning of a key takes; `None` when they end within it.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let end = match *bytes.first()? {
        ZERO => return Some(1),
        first if first > ZERO => END,
        _ => !END,
    };
    Some(bytes.iter().position(|byte| *byte == end)? + 1)
}

/// Reads the decimal at the beginning of a key, with the scale that is given, or the least one.
pub(super) fn decode(bytes: &[u8], scale: Option<u8>) -> Decimal {
    let least = scale.unwrap_or(0);
    if bytes[0] == ZERO {
        return Decimal { mantissa: 0, scale: least };
    }
    let is_negative = bytes[0] < ZERO;
    let plain = |byte: u8| if is_negative { !byte } else { byte };
    let pairs = bytes[1..].iter().map(|byte| plain(*byte)).take_while(|byte| *byte != END);
    let (mut mantissa, mut count) = (0i128, 0i16);
    for pair in pairs {
        mantissa = mantissa * 100 + i128::from(pair - 1);
        count += 2;
    }
    // The last pair of an odd number of digits has a zero that may not fit the limit of digits.
    let mut own_scale = count - (i16::from(plain(bytes[0])) - POSITIVE);
    while mantissa % 10 == 0 && own_scale > i16::from(least) {
        (mantissa, own_scale) = (mantissa / 10, own_scale - 1);
    }
    mantissa *= 10i128.pow((i16::from(least) - own_scale).max(0).unsigned_abs().into());
    let scale = own_scale.max(i16::from(least)) as u8;
    Decimal { mantissa: if is_negative { -mantissa } else { mantissa }, scale }
}
