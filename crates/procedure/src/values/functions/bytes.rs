//! Functions of BYTEA, hashes and encodings.
//! Source: PostgreSQL 15's documentation, "Binary String Functions and Operators".

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{GeneralPurposeConfig, STANDARD};
use base64::{alphabet, engine::DecodePaddingMode};
use catalog::Datum;
use md5::Md5;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

const TEXT: Kind = Kind::TEXT;
const BYTEA: Kind = Kind::BYTEA;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;

pub(super) static BYTES: &[BuiltIn] = &[
    BuiltIn::of("bit_count", &[BYTEA], INT8, |call| {
        Ok(Datum::Int(call.bytes(0).iter().map(|byte| i64::from(byte.count_ones())).sum()))
    }),
    BuiltIn::of("bit_length", &[BYTEA], INT4, |call| Ok(Datum::Int(call.bytes(0).len() as i64 * 8))),
    BuiltIn::of("btrim", &[BYTEA, BYTEA], BYTEA, |call| trim(call, true, true)),
    BuiltIn::of("byteacat", &[BYTEA, BYTEA], BYTEA, |call| {
        call.ask(call.bytes(0).len() + call.bytes(1).len())?;
        let joined = [call.bytes(0), call.bytes(1)].concat();
        call.made(joined)
    }),
    BuiltIn::of("convert_from", &[BYTEA, TEXT], TEXT, convert_from),
    BuiltIn::of("convert_to", &[TEXT, TEXT], BYTEA, convert_to),
    BuiltIn::of("decode", &[TEXT, TEXT], BYTEA, decode),
    BuiltIn::of("digest", &[BYTEA, TEXT], BYTEA, digest),
    BuiltIn::of("digest", &[TEXT, TEXT], BYTEA, digest),
    BuiltIn::of("encode", &[BYTEA, TEXT], TEXT, encode),
    BuiltIn::of("get_bit", &[BYTEA, INT8], INT4, |call| {
        let (byte, bit) = bit_at(&call)?;
        Ok(Datum::Int((call.bytes(0)[byte] >> bit & 1).into()))
    }),
    BuiltIn::of("get_byte", &[BYTEA, INT4], INT4, |call| {
        let at = byte_at(&call)?;
        Ok(Datum::Int(call.bytes(0)[at].into()))
    }),
    BuiltIn::of("length", &[BYTEA], INT4, length),
    BuiltIn::of("ltrim", &[BYTEA, BYTEA], BYTEA, |call| trim(call, true, false)),
    BuiltIn::of("md5", &[BYTEA], TEXT, md5_of),
    BuiltIn::of("md5", &[TEXT], TEXT, md5_of),
    BuiltIn::of("octet_length", &[BYTEA], INT4, length),
    BuiltIn::of("position", &[BYTEA, BYTEA], INT4, position),
    BuiltIn::of("rtrim", &[BYTEA, BYTEA], BYTEA, |call| trim(call, false, true)),
    BuiltIn::of("set_bit", &[BYTEA, INT8, INT4], BYTEA, set_bit),
    BuiltIn::of("set_byte", &[BYTEA, INT4, INT4], BYTEA, |call| {
        let (at, mut bytes) = (byte_at(&call)?, call.bytes(0).to_vec());
        bytes[at] = call.int(2) as u8;
        call.made(bytes)
    }),
    BuiltIn::of("sha224", &[BYTEA], BYTEA, hash::<Sha224>),
    BuiltIn::of("sha256", &[BYTEA], BYTEA, hash::<Sha256>),
    BuiltIn::of("sha384", &[BYTEA], BYTEA, hash::<Sha384>),
    BuiltIn::of("sha512", &[BYTEA], BYTEA, hash::<Sha512>),
    BuiltIn::of("substr", &[BYTEA, INT4], BYTEA, substring),
    BuiltIn::of("substr", &[BYTEA, INT4, INT4], BYTEA, substring),
    BuiltIn::of("substring", &[BYTEA, INT4], BYTEA, substring),
    BuiltIn::of("substring", &[BYTEA, INT4, INT4], BYTEA, substring),
];

fn length(call: Call) -> Evaluated {
    Ok(Datum::Int(call.bytes(0).len() as i64))
}

fn md5_of(call: Call) -> Evaluated {
    let hash = Md5::digest(call.bytes(0));
    call.made(hex::encode(hash))
}

fn hash<D: Digest>(call: Call) -> Evaluated {
    let hash = D::digest(call.bytes(0));
    call.made(hash)
}

/// `digest` of the extension pgcrypto.
fn digest(call: Call) -> Evaluated {
    let name = call.text(1).to_lowercase();
    match name.as_str() {
        "md5" => hash::<Md5>(call),
        "sha224" => hash::<Sha224>(call),
        "sha256" => hash::<Sha256>(call),
        "sha384" => hash::<Sha384>(call),
        "sha512" => hash::<Sha512>(call),
        "sha1" => Err(SqlError::new("0A000", "digest by SHA-1 is not supported").into()),
        _ => Err(invalid(format!("Cannot use \"{name}\": No such hash algorithm"))),
    }
}

fn invalid(message: impl Into<String>) -> Box<SqlError> {
    SqlError::new("22023", message).into()
}

fn out_of_range(index: i64, last: usize) -> Box<SqlError> {
    let message = format!("index {index} out of valid range, 0..{}", last as i64 - 1);
    SqlError::new("2202E", message).into()
}

fn byte_at(call: &Call) -> Result<usize, Box<SqlError>> {
    let (at, length) = (call.int(1), call.bytes(0).len());
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| out_of_range(at, length))
}

/// Returns the byte of a bit, and the number of the bit in its byte.
fn bit_at(call: &Call) -> Result<(usize, u32), Box<SqlError>> {
    let (at, bits) = (call.int(1), call.bytes(0).len() * 8);
    let bit = usize::try_from(at).ok().filter(|at| *at < bits).ok_or_else(|| out_of_range(at, bits))?;
    Ok((bit / 8, (bit % 8) as u32))
}

fn set_bit(call: Call) -> Evaluated {
    let ((byte, bit), new) = (bit_at(&call)?, call.int(2));
    if !matches!(new, 0 | 1) {
        return Err(invalid("new bit must be 0 or 1"));
    }
    let mut bytes = call.bytes(0).to_vec();
    bytes[byte] = bytes[byte] & !(1 << bit) | (new as u8) << bit;
    call.made(bytes)
}

fn trim(call: Call, at_start: bool, at_end: bool) -> Evaluated {
    let (bytes, set) = (call.bytes(0), call.bytes(1));
    let is_kept = |byte: &u8| !set.contains(byte);
    let start = if at_start { bytes.iter().position(is_kept).unwrap_or(bytes.len()) } else { 0 };
    let last = if at_end { bytes.iter().rposition(is_kept).map_or(0, |last| last + 1) } else { bytes.len() };
    call.part(0, start, last.saturating_sub(start))
}

fn position(call: Call) -> Evaluated {
    let (bytes, part) = (call.bytes(0), call.bytes(1));
    let found =
        if part.is_empty() { Some(0) } else { bytes.windows(part.len()).position(|window| window == part) };
    Ok(Datum::Int(found.map_or(0, |at| at as i64 + 1)))
}

fn substring(call: Call) -> Evaluated {
    let length = call.bytes(0).len() as i64;
    let from = call.int(1) - 1;
    let to = match call.count() {
        2 => length,
        _ if call.int(2) < 0 => {
            return Err(SqlError::new("22011", "negative substring length not allowed").into());
        }
        _ => from.saturating_add(call.int(2)).clamp(0, length),
    };
    let from = from.clamp(0, length);
    call.part(0, from as usize, (to - from).max(0) as usize)
}

/// Refuses an encoding of texts other than UTF-8.
fn check_utf8(name: &str) -> Result<(), Box<SqlError>> {
    match name.to_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(SqlError::new("0A000", format!("encoding \"{name}\" is not supported, only UTF8")).into()),
    }
}

fn convert_from(call: Call) -> Evaluated {
    check_utf8(call.text(1))?;
    catalog::utf8_of(call.bytes(0))?;
    let length = call.bytes(0).len();
    call.part(0, 0, length)
}

fn convert_to(call: Call) -> Evaluated {
    check_utf8(call.text(1))?;
    let length = call.bytes(0).len();
    call.part(0, 0, length)
}

fn unknown_encoding(name: &str) -> Box<SqlError> {
    invalid(format!("unrecognized encoding: \"{name}\""))
}

/// Number of characters in a line of base 64, as MIME has it.
const LINE: usize = 76;

fn encode(call: Call) -> Evaluated {
    let bytes = call.bytes(0);
    call.ask(bytes.len().saturating_mul(4))?;
    let made = match call.text(1).to_lowercase().as_str() {
        "hex" => hex::encode(bytes),
        "base64" => {
            let encoded = STANDARD.encode(bytes);
            let lines: Vec<&str> = encoded
                .as_bytes()
                .chunks(LINE)
                .map(|line| std::str::from_utf8(line).unwrap_or_default())
                .collect();
            lines.join("\n")
        }
        "escape" => {
            let escaped = bytes.iter().map(|byte| match byte {
                b'\\' => "\\\\".into(),
                0 | 0x80.. => format!("\\{byte:03o}"),
                plain => char::from(*plain).to_string(),
            });
            escaped.collect()
        }
        _ => return Err(unknown_encoding(call.text(1))),
    };
    call.made(made)
}

fn decode(call: Call) -> Evaluated {
    let text = call.text(0);
    call.ask(text.len())?;
    let made = match call.text(1).to_lowercase().as_str() {
        "hex" => decode_hex(text)?,
        "base64" => {
            let plain: String = text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r')).collect();
            let config = GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
            GeneralPurpose::new(&alphabet::STANDARD, config).decode(&plain).map_err(|error| match error {
                base64::DecodeError::InvalidByte(at, _) => {
                    let symbol = plain[at..].chars().next().unwrap_or_default();
                    invalid(format!("invalid symbol \"{symbol}\" found while decoding base64 sequence"))
                }
                _ => invalid("invalid base64 end sequence"),
            })?
        }
        "escape" => catalog::bytea_of_escaped(text)?,
        _ => return Err(unknown_encoding(call.text(1))),
    };
    call.made(made)
}

fn decode_hex(text: &str) -> Result<Vec<u8>, Box<SqlError>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    if let Some(other) = digits.iter().find(|c| !c.is_ascii_hexdigit()) {
        return Err(invalid(format!("invalid hexadecimal digit: \"{other}\"")));
    }
    let plain: String = digits.into_iter().collect();
    hex::decode(plain).map_err(|_| invalid("invalid hexadecimal data: odd number of digits"))
}
