//! The row count and checksum of a transaction's writes. Its log record holds them, so that a replay can tell
//! whether it writes the same rows.
//!
//! The checksum is a sum over the rows, because a parallel replay writes them in another order. Two
//! transactions that write different values have the same checksum with a probability of 1 in 1,024.
//!
//! Invariant: log files hold checksums, so one value has one hash in every release and on every machine. Held
//! by: `hashes_stay_as_they_are`, and the golden folders.

use crate::{Arena, Datum, TableId};
use std::fmt;
use std::ops::{AddAssign, Sub};

/// Width of a checksum in bits. Together with the row count it takes two bytes of most records.
pub const CHECKSUM_BITS: u32 = 10;

/// Returns the low bits of a sum that a checksum keeps.
#[inline]
fn cut(sum: u16) -> u16 {
    sum & ((1 << CHECKSUM_BITS) - 1)
}

/// Count and checksum of the rows that a transaction inserted, updated and deleted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Written {
    /// Number of rows, modulo 2³².
    pub rows: u32,
    /// Sum of the rows' hashes, modulo 2^`CHECKSUM_BITS`.
    pub checksum: u16,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with checksum {}", self.rows, self.checksum)
    }
}

impl AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.checksum = cut(self.checksum.wrapping_add(other.checksum));
    }
}

impl Sub for Written {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let checksum = cut(self.checksum.wrapping_sub(earlier.checksum));
        Self { rows: self.rows.wrapping_sub(earlier.rows), checksum }
    }
}

/// The factor of the first word. It also spreads the sum of the products.
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
/// The difference between the factors of two words. It is even, so that all factors are odd.
const STEP: u64 = 0x6a09_e667_f3bc_c908;

/// The hash of one written row: a sum of products, so that no word depends on the word before.
#[derive(Clone, Copy, Debug)]
pub struct RowHash {
    sum: u64,
    /// The factor of the next word.
    factor: u64,
}

impl RowHash {
    /// Returns the hash of a row of a table before its first column.
    #[inline]
    pub fn of(table: TableId) -> Self {
        let mut hash = Self::with_sum(0, 0);
        hash.add(table.0.into());
        hash
    }

    /// Returns the hash of a row whose first words, the table's number among them, have this sum.
    #[inline]
    pub fn with_sum(sum: u64, words: usize) -> Self {
        Self { sum, factor: Self::factor(words) }
    }

    /// Returns the factor of a word.
    #[inline]
    pub fn factor(word: usize) -> u64 {
        FIRST.wrapping_add(STEP.wrapping_mul(word as u64))
    }

    /// Adds a word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        self.sum = self.sum.wrapping_add(word.wrapping_mul(self.factor));
        self.factor = self.factor.wrapping_add(STEP);
    }

    /// Adds bytes.
    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        match bytes.last_chunk() {
            _ if rest.is_empty() => {}
            // The last word overlaps the word before it.
            Some(last) => self.add(u64::from_le_bytes(*last)),
            None => self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))),
        }
    }

    /// Adds a value.
    #[inline]
    pub fn add_datum(&mut self, datum: Datum, arena: &Arena) {
        match datum {
            Datum::Int(value) => self.add(value as u64),
            // Passed by value, so that the hash stays in registers.
            _ => *self = self.with_other(datum, arena),
        }
    }

    /// Returns the hash extended by a value other than an integer.
    #[inline(never)]
    fn with_other(mut self, datum: Datum, arena: &Arena) -> Self {
        match datum {
            Datum::Int(value) => self.add(value as u64),
            Datum::Bytes(span) => self.add_bytes(arena.bytes(span)),
            Datum::Null => self.add(u64::MAX),
            // The bits of a NaN differ between processors.
            Datum::Double(value) if value.is_nan() => self.add(f64::NAN.to_bits()),
            Datum::Double(value) => self.add(value.to_bits()),
            Datum::Array(span) => {
                self.add(span.length.into());
                arena.elements(span).iter().for_each(|element| self.add_datum(*element, arena));
            }
            Datum::Wide(_) => {
                let value = arena.numeric(datum, 0).expect("only numerics are wide");
                let Some(decimal) = value.short() else {
                    self.add_bytes(&value.stored());
                    return self;
                };
                self.add(decimal.mantissa as u64);
                self.add((decimal.mantissa >> 64) as u64);
                self.add(decimal.scale.into());
            }
        }
        self
    }

    /// Returns the row as a count of one and its checksum.
    #[inline]
    pub fn written(self) -> Written {
        let spread = (self.sum ^ self.sum >> 32).wrapping_mul(FIRST);
        Written { rows: 1, checksum: cut((spread >> 48) as u16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decimal;

    fn hash(write: impl FnOnce(&mut RowHash)) -> u16 {
        let mut hash = RowHash::of(TableId(3));
        write(&mut hash);
        hash.written().checksum
    }

    #[test]
    fn hashes_stay_as_they_are() {
        let mut arena = Arena::default();
        let text = arena.push_bytes("Überweisung".as_bytes());
        let wide = arena.push_numeric(Decimal { mantissa: -(1 << 90), scale: 4 });
        let array = arena.push_array(&[Datum::Int(1), Datum::Null, text]);
        let values = [Datum::Null, Datum::Int(-7), Datum::Double(0.5), text, wide, array];
        let hashes = values.map(|value| hash(|own| own.add_datum(value, &arena)));
        assert_eq!(hashes, [304, 522, 343, 787, 296, 908]);
    }

    #[test]
    fn sums_know_no_order() {
        let rows: Vec<_> = (0..100u64).map(|word| hash(|own| own.add(word))).collect();
        let sum = |rows: &mut dyn Iterator<Item = &u16>| {
            let mut sum = Written::default();
            rows.for_each(|checksum| sum += Written { rows: 1, checksum: *checksum });
            sum
        };
        let (all, backward) = (sum(&mut rows.iter()), sum(&mut rows.iter().rev()));
        assert_eq!(all, backward);
        assert_eq!(all - sum(&mut rows[..40].iter()), sum(&mut rows[40..].iter()));
    }

    /// A change of one bit changes about half of the checksum's bits.
    #[test]
    fn every_bit_counts() {
        let bytes: Vec<u8> = (0..27).map(|byte| byte * 9).collect();
        let before = hash(|own| own.add_bytes(&bytes));
        let mut changed = 0;
        for at in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[at / 8] ^= 1 << (at % 8);
            let after = hash(|own| own.add_bytes(&other));
            changed += (after ^ before).count_ones() as usize;
        }
        assert!((4..=6).contains(&(changed / (bytes.len() * 8))), "{changed}");
    }
}
