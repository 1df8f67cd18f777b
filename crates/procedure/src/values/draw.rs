//! Random values of a call.
//!
//! The random words follow from the seed in the call's record (`Frame::next_random`), so replay draws the
//! same values.

use crate::Machine;
use catalog::Datum;

/// A kind of random value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// `random()`: a double of at least 0 and below 1.
    Random,
    /// `gen_random_uuid()`: a version 4 UUID.
    Uuid,
    /// The hidden key of a row whose table has no key: the call's time, then random bits.
    RowIdentity,
}

impl Draw {
    /// Returns the number of random words that one value takes.
    pub(crate) fn words(self) -> u64 {
        if self == Self::Uuid { 2 } else { 1 }
    }

    /// Returns a value that is made of the next words of `next`.
    pub(crate) fn value(self, machine: &mut Machine, mut next: impl FnMut(&mut Machine) -> u64) -> Datum {
        let mut bytes = [0; 16];
        match self {
            Self::Random => return Datum::Double((next(machine) >> 11) as f64 / (1u64 << 53) as f64),
            Self::Uuid => {
                bytes[..8].copy_from_slice(&next(machine).to_le_bytes());
                bytes[8..].copy_from_slice(&next(machine).to_le_bytes());
                bytes[6] = bytes[6] & 0x0f | 0x40;
                bytes[8] = bytes[8] & 0x3f | 0x80;
            }
            Self::RowIdentity => {
                bytes[..8].copy_from_slice(&machine.frame.timestamp_us.to_be_bytes());
                bytes[8..].copy_from_slice(&next(machine).to_be_bytes());
            }
        }
        machine.frame.arena.push_bytes(&bytes)
    }
}
