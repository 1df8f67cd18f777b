//! PostgreSQL's hashes of texts, which programs use to name advisory locks.
//! Source: PostgreSQL 15, `hashfn.c`, after Bob Jenkins' lookup3.

use super::{BuiltIn, Call, Kind};
use catalog::Datum;

pub(super) static HASHES: &[BuiltIn] = &[
    BuiltIn::of("hashtext", &[Kind::TEXT], Kind::INT4, |call| {
        let [_, low] = hash(call.bytes(0), 0);
        Ok(Datum::Int((low as i32).into()))
    }),
    BuiltIn::of("hashtextextended", &[Kind::TEXT, Kind::INT8], Kind::INT8, |call: Call| {
        let [high, low] = hash(call.bytes(0), call.int(1) as u64);
        Ok(Datum::Int((u64::from(high) << 32 | u64::from(low)) as i64))
    }),
];

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
