//! Amounts of memory as texts.
//! Source: PostgreSQL 15, `dbsize.c`.

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::Datum;

/// A unit: its name, the amount up to which it is used, whether an amount is rounded half away from zero,
/// and the power of two.
struct Unit {
    name: &'static str,
    limit: i128,
    rounds: bool,
    bits: u32,
}

const fn unit(name: &'static str, bits: u32) -> Unit {
    Unit { name, limit: 20 * 1024 - 1, rounds: true, bits }
}

const UNITS: [Unit; 6] = [
    Unit { name: "bytes", limit: 10 * 1024, rounds: false, bits: 0 },
    unit("kB", 10),
    unit("MB", 20),
    unit("GB", 30),
    unit("TB", 40),
    unit("PB", 50),
];

pub(super) static SIZES: &[BuiltIn] = &[
    BuiltIn::of("pg_size_bytes", &[Kind::TEXT], Kind::INT8, bytes_of),
    BuiltIn::of("pg_size_pretty", &[Kind::INT8], Kind::TEXT, |call| {
        let size = call.int(0).into();
        call.made(pretty(size))
    }),
    BuiltIn::of("pg_size_pretty", &[Kind::NUMERIC], Kind::TEXT, |call| {
        let size = call.decimal(0);
        let whole = size.mantissa / 10_i128.pow(size.scale.into());
        // Only bytes have digits after the point.
        let text = if whole.abs() < UNITS[0].limit { format!("{size} bytes") } else { pretty(whole) };
        call.made(text)
    }),
];

fn pretty(mut size: i128) -> String {
    for (index, unit) in UNITS.iter().enumerate() {
        let Some(next) = UNITS.get(index + 1).filter(|_| size.abs() >= unit.limit) else {
            let size = if unit.rounds { (size + if size < 0 { -1 } else { 1 }) / 2 } else { size };
            return format!("{size} {}", unit.name);
        };
        // One bit is left for the rounding.
        let bits = next.bits - unit.bits - u32::from(next.rounds) + u32::from(unit.rounds);
        size /= 1 << bits;
    }
    unreachable!("the last unit has no next one")
}

fn bytes_of(call: Call<'_>) -> Evaluated {
    let text = call.text(0);
    let malformed = || SqlError::new("22023", format!("invalid size: \"{text}\""));
    let plain = text.trim();
    let end =
        plain.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(plain.len());
    let number: f64 = plain[..end].parse().map_err(|_| malformed())?;
    let name = plain[end..].trim();
    let is_named = |unit: &&Unit| unit.name.eq_ignore_ascii_case(name);
    let bits = match (name, UNITS.iter().find(is_named)) {
        ("", _) => 0,
        (_, Some(unit)) => unit.bits,
        _ => {
            let hint = "Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
            let error = malformed().with_detail(format!("Invalid size unit: \"{name}\"."));
            return Err(error.with_hint(hint).into());
        }
    };
    let exact = plain[..end].parse::<i64>().ok().and_then(|whole| whole.checked_mul(1 << bits));
    Ok(Datum::Int(exact.unwrap_or((number * 2_f64.powi(bits as i32)).round() as i64)))
}
