//! The mixes of YCSB.

use std::str::FromStr;

/// Default number of rows of a scan: the maximum in mix E, and the number in `hybrid`.
const SCAN_LENGTH: i64 = 100;

/// The shares of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operations {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads, mostly of recent inserts, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
    /// Updates of all fields of one row (Poplar §6.2).
    Write,
    /// An update of one field of one row, and a scan (Poplar §6.2).
    Hybrid,
}

/// The distribution of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keys {
    Uniform,
    Zipfian,
}

/// Parses a mix: `a` (or `full`) to `f`, `write`, `hybrid`, then optionally `:LENGTH` of scans and `@uniform`
/// or `@zipfian`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    pub(super) operations: Operations,
    pub(super) keys: Keys,
    pub(super) scan_length: i64,
    /// Whether the text names the distribution of keys.
    pub(super) names_keys: bool,
}

impl Operations {
    /// Returns the percentage of operations that only read.
    pub(super) fn reads(self) -> u32 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 95,
            Self::C => 100,
            Self::Write | Self::Hybrid => 0,
        }
    }

    /// Returns whether several of them can be one transaction: all are reads and writes of single rows that
    /// are loaded.
    pub(super) fn can_be_several(self) -> bool {
        matches!(self, Self::A | Self::B | Self::C | Self::F)
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known =
            "a (or full), b, c, d, e, f, write, hybrid, each with :LENGTH of scans and @uniform or @zipfian";
        let unknown = || format!("unknown mix \"{text}\" of ycsb; known are: {known}");
        let (rest, keys) = match text.split_once('@') {
            Some((rest, "uniform")) => (rest, Some(Keys::Uniform)),
            Some((rest, "zipfian")) => (rest, Some(Keys::Zipfian)),
            Some(_) => return Err(unknown()),
            None => (text, None),
        };
        let (name, length) = match rest.split_once(':') {
            Some((name, length)) => (name, length.parse().map_err(|_| unknown())?),
            None => (rest, SCAN_LENGTH),
        };
        let (operations, usual) = match name {
            "full" | "a" => (Operations::A, Keys::Zipfian),
            "b" => (Operations::B, Keys::Zipfian),
            "c" => (Operations::C, Keys::Zipfian),
            "d" => (Operations::D, Keys::Zipfian),
            "e" => (Operations::E, Keys::Zipfian),
            "f" => (Operations::F, Keys::Zipfian),
            "write" => (Operations::Write, Keys::Uniform),
            "hybrid" => (Operations::Hybrid, Keys::Uniform),
            _ => return Err(unknown()),
        };
        Ok(Self { operations, keys: keys.unwrap_or(usual), scan_length: length, names_keys: keys.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_from_text() {
        let mix = |text: &str| text.parse::<Mix>();
        let (operations, keys) = (Operations::Hybrid, Keys::Zipfian);
        let hybrid = Mix { operations, keys, scan_length: 7, names_keys: true };
        assert_eq!(mix("hybrid:7@zipfian"), Ok(hybrid));
        assert_eq!(mix("write").map(|mix| mix.keys), Ok(Keys::Uniform));
        assert_eq!(mix("e@uniform").map(|mix| (mix.keys, mix.scan_length)), Ok((Keys::Uniform, SCAN_LENGTH)));
        for unknown in ["g", "a@normal", "hybrid:many", ""] {
            assert!(mix(unknown).unwrap_err().contains("known are: a (or full), b"));
        }
    }
}
