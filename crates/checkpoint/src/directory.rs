//! The directory of a part: where its blocks are, how many rows each has, and the first key of each.
//!
//! Layout: a block like those of rows (`part`). It has for each of these, in their order: its length with its
//! header (varint), the number of its rows (varint), their greatest slot where rows have slots (varint), the
//! length of its first primary key (varint), and the key as `catalog::Table::encode_key_column` writes it.
//! Then the trailer: the offset of the directory in the file (u64), and the CRC-32C of these eight bytes
//! (u32).

use crate::block::{BLOCK_HEADER, open_block, seal_block};
use catalog::{DecodeError, Reader, put_varint};
use std::ops::Range;

/// Size of the trailer, in bytes.
pub(crate) const TRAILER: usize = 12;

/// Builds the directory while the blocks are written.
pub(crate) struct DirectoryBuilder {
    bytes: Vec<u8>,
    key: Vec<u8>,
}

impl Default for DirectoryBuilder {
    fn default() -> Self {
        Self { bytes: vec![0; BLOCK_HEADER], key: Vec::new() }
    }
}

impl DirectoryBuilder {
    pub(crate) fn begin_block(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    pub(crate) fn end_block(&mut self, rows: u64, greatest_slot: Option<u32>, length: u64) {
        let Self { bytes, key } = self;
        put_varint(length, bytes);
        put_varint(rows, bytes);
        if let Some(slot) = greatest_slot {
            put_varint(slot.into(), bytes);
        }
        put_varint(key.len() as u64, bytes);
        bytes.extend_from_slice(key);
    }

    /// Returns the directory, which stands at an offset in its file, with the trailer.
    pub(crate) fn finish(mut self, offset: u64) -> Vec<u8> {
        seal_block(&mut self.bytes);
        let offset = offset.to_le_bytes();
        self.bytes.extend_from_slice(&offset);
        self.bytes.extend_from_slice(&crc32c::crc32c(&offset).to_le_bytes());
        self.bytes
    }
}

/// Returns the offset of the directory that a trailer names; `None` if the trailer is damaged.
pub(crate) fn directory_at(trailer: [u8; TRAILER]) -> Option<u64> {
    let (offset, checksum) = trailer.split_first_chunk::<8>()?;
    (checksum == crc32c::crc32c(offset).to_le_bytes()).then(|| u64::from_le_bytes(*offset))
}

/// A block of rows, as the directory has it.
#[derive(Clone, Debug)]
pub(crate) struct BlockEntry {
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// Its length with its header, in bytes.
    pub(crate) length: u32,
    /// The number of its rows.
    pub(crate) rows: u32,
    /// Their greatest slot, if the directory has it.
    pub(crate) greatest_slot: Option<u32>,
    /// Its first primary key, in the bytes of the directory.
    key: Range<u32>,
}

/// The directory of a part.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Ascending by offset, and so by key.
    pub(crate) blocks: Vec<BlockEntry>,
    bytes: Vec<u8>,
}

impl Directory {
    /// Reads a directory, with slots or without, of a part whose blocks lie between two offsets of the file.
    /// `None`: it is damaged, or names other bytes.
    pub(crate) fn read(bytes: Vec<u8>, has_slots: bool, blocks: Range<u64>) -> Option<Self> {
        let contents = open_block(&bytes)?;
        let entries = Self::entries(contents, has_slots, blocks.start).ok()?;
        let end = entries.last().map_or(blocks.start, |last| last.offset + u64::from(last.length));
        (end == blocks.end).then_some(Self { blocks: entries, bytes })
    }

    fn entries(contents: &[u8], has_slots: bool, mut offset: u64) -> Result<Vec<BlockEntry>, DecodeError> {
        let small = |number: u64| u32::try_from(number).map_err(|_| DecodeError);
        let (mut reader, mut entries) = (Reader::new(contents), Vec::new());
        while reader.remaining() > 0 {
            let (length, rows) = (small(reader.varint()?)?, small(reader.varint()?)?);
            let greatest_slot = if has_slots { Some(small(reader.varint()?)?) } else { None };
            let key = small(reader.varint()?)?;
            let start = small((BLOCK_HEADER + contents.len() - reader.remaining()) as u64)?;
            reader.take(key as usize)?;
            entries.push(BlockEntry { offset, length, rows, greatest_slot, key: start..start + key });
            offset += u64::from(length);
        }
        Ok(entries)
    }

    /// Returns the first primary key of a block.
    pub(crate) fn first_key(&self, block: usize) -> &[u8] {
        let Range { start, end } = self.blocks[block].key.clone();
        &self.bytes[start as usize..end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(slots: [Option<u32>; 2]) -> Vec<u8> {
        let mut builder = DirectoryBuilder::default();
        for (key, rows, slot, length) in [(&b""[..], 3, slots[0], 100), (b"key", 1, slots[1], 40_000)] {
            builder.begin_block(key);
            builder.end_block(rows, slot, length);
        }
        builder.finish(40_148)
    }

    /// A directory names exactly the bytes of its blocks, and a changed byte is found.
    #[test]
    fn directories_are_read_as_written() {
        for slots in [[None; 2], [Some(7), Some(300)]] {
            let (written, has_slots) = (directory(slots), slots[0].is_some());
            let (bytes, trailer) = written.split_at(written.len() - TRAILER);
            assert_eq!(directory_at(trailer.try_into().unwrap()), Some(40_148));
            let read = Directory::read(bytes.to_vec(), has_slots, 48..40_148).unwrap();
            let entry = |own: &BlockEntry| (own.offset, own.length, own.rows, own.greatest_slot);
            let expected = [(48, 100, 3, slots[0]), (148, 40_000, 1, slots[1])];
            assert_eq!(read.blocks.iter().map(entry).collect::<Vec<_>>(), expected);
            assert_eq!([read.first_key(0), read.first_key(1)], [&b""[..], b"key"]);
            let elsewhere = Directory::read(bytes.to_vec(), has_slots, 48..40_149);
            assert!(elsewhere.is_none(), "the blocks end elsewhere");
            for changed in 0..written.len() {
                let mut other = written.clone();
                other[changed] ^= 1;
                let (bytes, trailer) = other.split_at(other.len() - TRAILER);
                let is_read = directory_at(trailer.try_into().unwrap()).is_some()
                    && Directory::read(bytes.to_vec(), has_slots, 48..40_148).is_some();
                assert!(!is_read, "byte {changed} is changed");
            }
        }
    }
}
