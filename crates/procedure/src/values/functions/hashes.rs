//! PostgreSQL's hashes of values, which programs use to name advisory locks, and which place rows in
//! partitions.
//! Source: PostgreSQL 15, `hashfn.c`, after Bob Jenkins' lookup3; `hashfunc.c` and `numeric.c` for the bytes
//! of values; `satisfies_hash_partition` in `partbounds.c`.

use super::{BuiltIn, Call, Kind};
use crate::{Evaluated, SqlError};
use catalog::{Datum, Numeric};

pub(super) static HASHES: &[BuiltIn] = &[
    BuiltIn::of("hashtext", &[Kind::TEXT], Kind::INT4, |call| {
        let [_, low] = hash(call.bytes(0), 0);
        Ok(Datum::Int((low as i32).into()))
    }),
    extended("hashtextextended", &[Kind::TEXT, Kind::INT8], |call| wide(call.bytes(0), seed(&call))),
    extended("hashbpcharextended", &[Kind::BPCHAR, Kind::INT8], |call| {
        wide(call.text(0).trim_end_matches(' ').as_bytes(), seed(&call))
    }),
    extended("hashint2extended", &[Kind::INT2, Kind::INT8], |call| {
        wide(&(call.int(0) as i32).to_le_bytes(), seed(&call))
    }),
    extended("hashint4extended", &[Kind::INT4, Kind::INT8], |call| {
        wide(&(call.int(0) as i32).to_le_bytes(), seed(&call))
    }),
    extended("hashint8extended", &[Kind::INT8, Kind::INT8], |call| {
        // Equal numbers of other types have the same hash.
        let value = call.int(0);
        let high = (value >> 32) as u32;
        let low = value as u32 ^ if value >= 0 { high } else { !high };
        wide(&low.to_le_bytes(), seed(&call))
    }),
    extended("uuid_hash_extended", &[Kind::UUID, Kind::INT8], |call| wide(call.bytes(0), seed(&call))),
    extended("hash_numeric_extended", &[Kind::NUMERIC, Kind::INT8], |call| {
        hash_numeric(&call.numeric(0), seed(&call))
    }),
    BuiltIn::of(
        "satisfies_hash_partition",
        &[Kind::Oid, Kind::INT4, Kind::INT4, Kind::Any],
        Kind::BOOL,
        satisfies_hash_partition,
    )
    .taking_null()
    .variadic(),
];

/// Makes an entry for a hash of 64 bits with a seed.
const fn extended(
    name: &'static str,
    arguments: &'static [Kind],
    function: fn(Call<'_>) -> Evaluated,
) -> BuiltIn {
    BuiltIn::of(name, arguments, Kind::INT8, function)
}

fn seed(call: &Call<'_>) -> u64 {
    call.int(1) as u64
}

/// Returns the hash of bytes as one integer.
fn wide(bytes: &[u8], seed: u64) -> Evaluated {
    Ok(Datum::Int(wide_hash(bytes, seed)))
}

fn wide_hash(bytes: &[u8], seed: u64) -> i64 {
    let [high, low] = hash(bytes, seed);
    (u64::from(high) << 32 | u64::from(low)) as i64
}

/// Hashes the digits of a number to the base 10,000 without zeros at the ends, and their weight.
fn hash_numeric(value: &Numeric, seed: u64) -> Evaluated {
    let text = value.to_string();
    let digits = text.trim_start_matches('-');
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(Datum::Int(seed as i64));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat((4 - whole.len() % 4) % 4);
    let padded = format!("{zeros}{whole}{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let group = |four: &[u8]| four.iter().fold(0, |made: i16, digit| made * 10 + i16::from(digit - b'0'));
    let groups: Vec<i16> = padded.as_bytes().chunks(4).map(group).collect();
    let Some(first) = groups.iter().position(|group| *group != 0) else {
        return Ok(Datum::Int(seed.wrapping_sub(1) as i64));
    };
    let last = groups.iter().rposition(|group| *group != 0).unwrap_or(first);
    let weight = (whole.len().div_ceil(4) as i64) - 1 - first as i64;
    let bytes: Vec<u8> = groups[first..=last].iter().flat_map(|group| group.to_le_bytes()).collect();
    Ok(Datum::Int(wide_hash(&bytes, seed) ^ weight))
}

/// Tells whether hashes of a key, which the binder has made of its values, combine to one with a remainder.
fn satisfies_hash_partition(call: Call<'_>) -> Evaluated {
    let [Datum::Int(modulus), Datum::Int(remainder), hashes @ ..] = call.values else {
        return Ok(Datum::boolean(false));
    };
    let refusal = if *modulus <= 0 {
        Some("modulus for hash partition must be an integer value greater than zero")
    } else if *remainder < 0 {
        Some("remainder for hash partition must be an integer value greater than or equal to zero")
    } else if remainder >= modulus {
        Some("remainder for hash partition must be less than modulus")
    } else {
        None
    };
    if let Some(message) = refusal {
        return Err(SqlError::new("22023", message).into());
    }
    let combine = |made: u64, hash: &Datum| match hash {
        Datum::Int(hash) => {
            let added = (*hash as u64).wrapping_add(0x49a0_f4dd_15e5_a8e3);
            made ^ added.wrapping_add(made << 54).wrapping_add(made >> 7)
        }
        _ => made,
    };
    let hash = hashes.iter().fold(0, combine);
    Ok(Datum::boolean(hash % *modulus as u64 == *remainder as u64))
}

/// Mixes the three words: six steps, each of which changes one word by another one that is rotated.
fn mix([a, b, c]: &mut [u32; 3]) {
    let turns = [4, 6, 8, 16, 19, 4];
    for (step, turn) in turns.into_iter().enumerate() {
        let [changed, by, grown] = match step % 3 {
            0 => [&mut *a, &mut *c, &mut *b],
            1 => [&mut *b, &mut *a, &mut *c],
            _ => [&mut *c, &mut *b, &mut *a],
        };
        *changed = changed.wrapping_sub(*by) ^ by.rotate_left(turn);
        *by = by.wrapping_add(*grown);
    }
}

/// Returns the hash of bytes: its upper and its lower half.
fn hash(bytes: &[u8], seed: u64) -> [u32; 2] {
    let start = 0x9e37_79b9u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let mut words = [start; 3];
    if seed != 0 {
        words[0] = words[0].wrapping_add((seed >> 32) as u32);
        words[1] = words[1].wrapping_add(seed as u32);
        mix(&mut words);
    }
    let mut parts = bytes.chunks_exact(12);
    for part in parts.by_ref() {
        for (word, four) in words.iter_mut().zip(part.chunks(4)) {
            *word = word.wrapping_add(four.iter().rev().fold(0, |made, byte| made << 8 | u32::from(*byte)));
        }
        mix(&mut words);
    }
    for (index, byte) in parts.remainder().iter().enumerate() {
        // The lowest byte of the last word is that of the length.
        let shift = if index < 8 { index % 4 } else { index % 4 + 1 };
        words[index / 4] = words[index / 4].wrapping_add(u32::from(*byte) << (8 * shift));
    }
    let [mut a, mut b, mut c] = words;
    for (turn, step) in [14, 11, 25, 16, 4, 14, 24].into_iter().zip([0, 1, 2].into_iter().cycle()) {
        let (changed, by) = match step {
            0 => (&mut c, b),
            1 => (&mut a, c),
            _ => (&mut b, a),
        };
        *changed = (*changed ^ by).wrapping_sub(by.rotate_left(turn));
    }
    [b, c]
}
