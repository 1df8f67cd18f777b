//! Sectors: 508 bytes of contents and a checksum, so that a reader can tell a torn write from a corruption of
//! the medium.
//!
//! Log files are written in batches; a batch is a sequence of sectors of 512 bytes, each ending with the
//! CRC-32C of its contents, seeded with the file's salt and the sector's number. Files are zeroed before use.
//! After a crash a sector of the last batch is therefore whole or all zero; anything else was changed on the
//! medium. This is the only description of that layout.

/// Size of a sector, in bytes.
pub(crate) const SECTOR: usize = 512;
/// Size of a sector's contents, in bytes.
pub(crate) const CONTENTS: usize = SECTOR - 4;

/// The state of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectorState {
    Valid,
    /// Never written, or lost in a crash.
    Zero,
    Damaged,
}

fn checksum(contents: &[u8], salt: u64, number: u64) -> u32 {
    let seed = crc32c::crc32c(&(salt ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    crc32c::crc32c_append(seed, contents)
}

/// Appends contents as sectors numbered from `first`, padded with zeros to whole sectors.
pub(crate) fn pack(parts: &[&[u8]], salt: u64, first: u64, out: &mut Vec<u8>) {
    let mut number = first;
    let mut start = out.len();
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let taken = rest.len().min(start + CONTENTS - out.len());
            out.extend_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            if out.len() == start + CONTENTS {
                seal(out, start, salt, number);
                start = out.len();
                number += 1;
            }
        }
    }
    if out.len() > start {
        out.resize(start + CONTENTS, 0);
        seal(out, start, salt, number);
    }
}

fn seal(out: &mut Vec<u8>, start: usize, salt: u64, number: u64) {
    let sum = checksum(&out[start..], salt, number);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Classifies a sector; a short one is damaged.
pub(crate) fn judge(sector: &[u8], salt: u64, number: u64) -> SectorState {
    let Some((contents, sum)) = sector.split_at_checked(CONTENTS) else { return SectorState::Damaged };
    if sum == checksum(contents, salt, number).to_le_bytes() {
        SectorState::Valid
    } else if sector.iter().all(|byte| *byte == 0) {
        SectorState::Zero
    } else {
        SectorState::Damaged
    }
}

/// Returns the number of sectors for this many bytes.
pub(crate) fn count(bytes: usize) -> usize {
    bytes.div_ceil(CONTENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_moved_sector_is_damaged() {
        let contents: Vec<u8> = (0..2_000u32).map(|n| n as u8).collect();
        let mut packed = Vec::new();
        pack(&[&contents[..700], &contents[700..]], 42, 5, &mut packed);
        assert_eq!(packed.len(), count(contents.len()) * SECTOR);
        for (place, sector) in packed.chunks(SECTOR).enumerate() {
            let number = 5 + place as u64;
            assert_eq!(judge(sector, 42, number), SectorState::Valid);
            assert_eq!(judge(sector, 42, number + 1), SectorState::Damaged);
            assert_eq!(judge(sector, 43, number), SectorState::Damaged);
            let mut changed = sector.to_vec();
            changed[place * 7] ^= 1;
            assert_eq!(judge(&changed, 42, number), SectorState::Damaged);
        }
        assert_eq!(judge(&[0; SECTOR], 42, 5), SectorState::Zero);
    }
}
