//! The frame of a block in a part: the length of the contents (u32), their CRC-32C (u32), the contents.

/// Size of the header, in bytes.
pub(crate) const BLOCK_HEADER: usize = 8;

/// Fills in the header of a block that is complete.
pub(crate) fn seal_block(block: &mut [u8]) {
    let (header, rows) = block.split_at_mut(BLOCK_HEADER);
    header[..4].copy_from_slice(&(rows.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32c::crc32c(rows).to_le_bytes());
}

/// Splits a block from its header. `None`: it has another length, or another checksum.
pub(crate) fn open_block(block: &[u8]) -> Option<&[u8]> {
    let (header, rows) = block.split_first_chunk::<BLOCK_HEADER>()?;
    let is_whole = header[..4] == (rows.len() as u32).to_le_bytes();
    (is_whole && header[4..] == crc32c::crc32c(rows).to_le_bytes()).then_some(rows)
}
