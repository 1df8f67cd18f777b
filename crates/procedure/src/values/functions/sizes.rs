//! Amounts of memory as texts.
//! Source: PostgreSQL 15, `dbsize.c`.

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, ten_to};
use num_bigint::{BigInt, BigUint, Sign};

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
        let size = BigInt::from(call.int(0));
        call.made(pretty(size))
    }),
    BuiltIn::of("pg_size_pretty", &[Kind::NUMERIC], Kind::TEXT, |call| {
        let size = call.numeric(0);
        let text = match size.parts() {
            // As in PostgreSQL, which compares them with the limits of the units.
            None => format!("{size} {}", UNITS[UNITS.len() - 1].name),
            Some(parts) => {
                let whole = parts.mantissa / ten_to(parts.scale);
                // Only bytes have digits after the point.
                let is_bytes = *whole.magnitude() < BigUint::from(UNITS[0].limit.unsigned_abs());
                if is_bytes { format!("{size} bytes") } else { pretty(whole) }
            }
        };
        call.made(text)
    }),
];

fn pretty(mut size: BigInt) -> String {
    for (index, unit) in UNITS.iter().enumerate() {
        let Some(next) =
            UNITS.get(index + 1).filter(|_| *size.magnitude() >= BigUint::from(unit.limit.unsigned_abs()))
        else {
            let size = if unit.rounds {
                {
                    let one = if size.sign() == Sign::Minus { -1 } else { 1 };
                    (size + one) / 2
                }
            } else {
                size
            };
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
