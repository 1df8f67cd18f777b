//! The division of a table into ranges of its primary key.

use crate::{LogContents, RecoveryError};
use catalog::TableId;
use std::collections::HashMap;

/// Records that are read for the bounds of granules.
const SAMPLES: usize = 1 << 14;
/// Sampled writes between two bounds.
const PER_GRANULE: usize = 8;

/// The granules of a table: ranges of its primary key, in order, that together hold every key.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The first keys of all granules but the first one, ascending.
    keys: Vec<Vec<u8>>,
    /// What all these keys begin with.
    common: Vec<u8>,
    /// The sixteen bytes behind that of each key, as a number: equal ones are next to each other, so a search
    /// reads few of the keys themselves.
    prefixes: Vec<u128>,
}

/// Returns the first sixteen bytes as a number that is ordered as they are, with zeros behind shorter ones.
fn prefix(bytes: &[u8]) -> u128 {
    let mut padded = [0; 16];
    let length = bytes.len().min(padded.len());
    padded[..length].copy_from_slice(&bytes[..length]);
    u128::from_be_bytes(padded)
}

impl Bounds {
    /// Cuts the keys of a table at these keys.
    pub(super) fn at(mut keys: Vec<Vec<u8>>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        // No key lies below it.
        keys.retain(|key| !key.is_empty());
        let common = match (keys.first(), keys.last()) {
            (Some(first), Some(last)) => {
                let length = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                first[..length].to_vec()
            }
            _ => Vec::new(),
        };
        let prefixes = keys.iter().map(|key| prefix(&key[common.len()..])).collect();
        Self { keys, common, prefixes }
    }

    /// Returns the number of granules.
    pub(super) fn count(&self) -> usize {
        self.keys.len() + 1
    }

    /// Returns the granule of a key.
    pub(super) fn granule_of(&self, key: &[u8]) -> usize {
        let (begin, rest) = key.split_at(key.len().min(self.common.len()));
        match begin.cmp(&self.common) {
            std::cmp::Ordering::Less => return 0,
            std::cmp::Ordering::Greater => return self.keys.len(),
            std::cmp::Ordering::Equal => {}
        }
        let own = prefix(rest);
        let first = self.prefixes.partition_point(|prefix| *prefix < own);
        let equal = self.prefixes[first..].partition_point(|prefix| *prefix == own);
        first + self.keys[first..first + equal].partition_point(|bound| bound.as_slice() <= key)
    }

    /// Returns the end of the granules that have keys below `upper`.
    pub(super) fn end_below(&self, upper: &[u8]) -> usize {
        self.keys.partition_point(|bound| bound.as_slice() < upper) + 1
    }

    /// Returns the least key that may be in a granule.
    pub(super) fn lower(&self, granule: usize) -> &[u8] {
        granule.checked_sub(1).map_or(&[], |before| &self.keys[before])
    }
}

/// Reads some records, evenly through the log, and returns some of the keys that `keys_of` passes on: they
/// divide each table into parts with about as many of these.
///
/// # Errors
/// `keys_of` fails.
pub(super) fn sampled(
    log: &LogContents,
    mut keys_of: impl FnMut(usize, &mut dyn FnMut(TableId, &[u8])) -> Result<(), RecoveryError>,
) -> Result<HashMap<TableId, Vec<Vec<u8>>>, RecoveryError> {
    let mut sampled: HashMap<TableId, Vec<Vec<u8>>> = HashMap::new();
    for record in (0..log.len()).step_by(log.len().div_ceil(SAMPLES).max(1)) {
        keys_of(record, &mut |table, key| sampled.entry(table).or_default().push(key.to_vec()))?;
    }
    for keys in sampled.values_mut() {
        keys.sort_unstable();
        *keys = std::mem::take(keys).into_iter().skip(PER_GRANULE - 1).step_by(PER_GRANULE).collect();
    }
    Ok(sampled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key lies in the granule whose bounds enclose it.
    #[test]
    fn keys_lie_between_their_bounds() {
        let texts = [
            "",
            "a",
            "ab",
            "ab\0",
            "abcdefghijklmnopqr",
            "abcdefghijklmnopqrs",
            "abcdefghijklmnopqrst",
            "abd",
            "b",
            "\u{7f}",
        ];
        let all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        for chosen in 0..1 << all.len() {
            let cuts = all.iter().enumerate().filter(|(place, _)| chosen >> place & 1 == 1);
            let bounds = Bounds::at(cuts.map(|(_, key)| key.clone()).collect());
            for key in &all {
                let granule = bounds.granule_of(key);
                assert!(bounds.lower(granule) <= key.as_slice(), "{key:?} in {granule} of {bounds:?}");
                let is_below = granule + 1 == bounds.count() || key.as_slice() < bounds.lower(granule + 1);
                assert!(is_below, "{key:?} in {granule} of {bounds:?}");
                let expected = (0..bounds.count()).filter(|own| bounds.lower(*own) < key.as_slice()).count();
                assert_eq!(bounds.end_below(key), expected.max(1), "{key:?} in {bounds:?}");
            }
        }
    }
}
