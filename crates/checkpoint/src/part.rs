//! Part files: rows of one table, in blocks.
//!
//! Layout: magic (8 bytes), format version (u32: 5, 6 where rows have slots, 7 where they have numbers, 8
//! with both), table (u32), database (16 bytes), number of the checkpoint (u64), index of the part (u32),
//! zeros (4 bytes), then blocks: length of the rows (u32), their CRC-32C (u32), the rows. A row is its length
//! in words (u32), its slot where rows have them (u32), its number where rows have them (u64), and its words,
//! little-endian, as `catalog::RowLayout` lays them out. This is the only description of that layout.
//! Versions 1 to 4 are like 5 to 8, but nothing stands between the table and the blocks.

use crate::manifest::Part;
use crate::{CheckpointError, Manifest};
use catalog::{CommitOrder, TableId};
use logging::disk::{DiskFile, SharedDisk, seen_from};
use logging::{CorruptionKind, DatabaseId, LogError, UnprovenKind};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"RPRSPRT\n";
const HEADER: usize = 48;
/// Size of the header in versions 1 to 4, in bytes.
const OLD_HEADER: usize = 16;
/// Number of row forms that the versions of a generation distinguish.
const FORMS: u32 = 4;
const BLOCK_HEADER: usize = 8;
/// A block is written once it has this many bytes.
const BLOCK: usize = 1 << 20;

/// A row of a part.
#[derive(Clone, Copy, Debug)]
pub struct PartRow<'a> {
    /// Its slot, if rows have slots.
    pub slot: Option<u32>,
    /// The number of its last writer; `None` in a consistent checkpoint.
    pub order: Option<CommitOrder>,
    /// Its words.
    pub words: &'a [u64],
}

/// The fields of a row beside its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) has_slots: bool,
    pub(crate) has_orders: bool,
}

impl Form {
    fn version(self) -> u32 {
        1 + FORMS + u32::from(self.has_slots) + 2 * u32::from(self.has_orders)
    }

    /// Returns the form of a version, and whether the header names the checkpoint.
    fn of_version(version: u32) -> Option<(Self, bool)> {
        let flags = version.checked_sub(1).filter(|flags| *flags < 2 * FORMS)?;
        Some((Self { has_slots: flags & 1 != 0, has_orders: flags & 2 != 0 }, flags >= FORMS))
    }
}

/// The identity of a part file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartId {
    pub(crate) database: DatabaseId,
    pub(crate) checkpoint: u64,
    pub(crate) index: u32,
}

impl PartId {
    fn encode(self) -> [u8; HEADER - OLD_HEADER] {
        let mut bytes = [0; HEADER - OLD_HEADER];
        bytes[..16].copy_from_slice(&self.database.to_bytes());
        bytes[16..24].copy_from_slice(&self.checkpoint.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }
}

pub(crate) struct PartWriter {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    block: Vec<u8>,
    form: Form,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// CRC-32C of all blocks written so far.
    pub(crate) checksum: u32,
}

impl PartWriter {
    pub(crate) fn create(
        disk: &SharedDisk,
        path: PathBuf,
        table: TableId,
        (id, form): (PartId, Form),
    ) -> Result<Self, LogError> {
        let file = disk.create(&path).map_err(|error| LogError::io("create", &path, error))?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&form.version().to_le_bytes());
        header.extend_from_slice(&table.0.to_le_bytes());
        header.extend_from_slice(&id.encode());
        file.write_at(0, &header).map_err(|error| LogError::io("write", &path, error))?;
        Ok(Self {
            file,
            path,
            block: vec![0; BLOCK_HEADER],
            form,
            bytes: HEADER as u64,
            rows: 0,
            checksum: 0,
        })
    }

    pub(crate) fn add(&mut self, PartRow { slot, order, words }: PartRow<'_>) -> Result<(), LogError> {
        self.block.extend_from_slice(&(words.len() as u32).to_le_bytes());
        if self.form.has_slots {
            let slot = slot.expect("each record of a table with slots has one");
            self.block.extend_from_slice(&slot.to_le_bytes());
        }
        if self.form.has_orders {
            self.block.extend_from_slice(&order.unwrap_or_default().0.to_le_bytes());
        }
        for word in words {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.rows += 1;
        if self.block.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), LogError> {
        if self.block.len() == BLOCK_HEADER {
            return Ok(());
        }
        let length = (self.block.len() - BLOCK_HEADER) as u32;
        let checksum = crc32c::crc32c(&self.block[BLOCK_HEADER..]);
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.block[4..BLOCK_HEADER].copy_from_slice(&checksum.to_le_bytes());
        self.file
            .write_at(self.bytes, &self.block)
            .map_err(|error| LogError::io("write", &self.path, error))?;
        self.bytes += self.block.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, &self.block);
        self.block.truncate(BLOCK_HEADER);
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), LogError> {
        self.flush()?;
        self.file.sync().map_err(|error| LogError::io("sync", &self.path, error))
    }
}

/// An open part that belongs to its checkpoint.
struct OpenPart {
    file: Box<dyn DiskFile>,
    form: Form,
    /// Offset of the first block, in bytes.
    start: u64,
}

/// Opens a checkpoint's part; `index` is its index in the manifest, which lies in `folder`.
fn open_part(
    disk: &SharedDisk,
    path: &Path,
    (folder, manifest): (&Path, &Manifest),
    (index, part): (usize, &Part),
) -> Result<OpenPart, LogError> {
    let unproven = |kind| LogError::unproven(path, 0, kind);
    let by = || Manifest::path(folder);
    let io = |error| LogError::io("read", path, error);
    let file = match disk.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(unproven(UnprovenKind::Missing { by: by() }));
        }
        opened => opened.map_err(io)?,
    };
    let length = file.length().map_err(io)?;
    if length != part.bytes {
        let kind = CorruptionKind::Truncated { actual: length, expected: part.bytes };
        return Err(LogError::corrupt(path, length.min(part.bytes), kind));
    }
    let mut header = [0; HEADER];
    file.read_at(0, &mut header).map_err(io)?;
    let form = Form::of_version(u32::from_le_bytes([header[8], header[9], header[10], header[11]]));
    let (Some((form, has_id)), true) =
        (form, header[..8] == *MAGIC && header[12..OLD_HEADER] == part.table.0.to_le_bytes())
    else {
        let kind = CorruptionKind::Malformed("this is no part of this checkpoint");
        return Err(LogError::corrupt(path, 0, kind));
    };
    if !has_id {
        return Ok(OpenPart { file, form, start: OLD_HEADER as u64 });
    }
    let (database, checkpoint) = (manifest.parts_of, manifest.number);
    let found = header[OLD_HEADER..OLD_HEADER + DatabaseId::BYTES].try_into();
    database.admit(DatabaseId::from_bytes(found.expect("the bytes of a number")), path)?;
    let expected = PartId { database, checkpoint, index: index as u32 };
    if expected.encode() != header[OLD_HEADER..] {
        return Err(unproven(UnprovenKind::OtherCheckpoint { by: by() }));
    }
    Ok(OpenPart { file, form, start: HEADER as u64 })
}

/// Runs `row` on every row of a checkpoint's part; `index` is its index in the manifest, which lies in
/// `folder`.
pub(crate) fn read_part(
    disk: &SharedDisk,
    (folder, manifest): (&Path, &Manifest),
    (index, part): (usize, &Part),
    mut row: impl FnMut(PartRow<'_>) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let path = &seen_from(folder, &part.path);
    let corrupt = |offset: u64, kind| CheckpointError::from(LogError::corrupt(path, offset, kind));
    let io = |error| LogError::io("read", path, error);
    let OpenPart { file, form, start } = open_part(disk, path, (folder, manifest), (index, part))?;
    let bytes = part.bytes;
    let mut checksum = 0;
    let mut offset = start;
    let (mut block, mut words) = (Vec::new(), Vec::new());
    while offset < bytes {
        let mut head = [0; BLOCK_HEADER];
        let read = file.read_at(offset, &mut head).map_err(io)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let end = offset + (BLOCK_HEADER as u64) + u64::from(length);
        if read < BLOCK_HEADER || end > bytes {
            return Err(corrupt(offset, CorruptionKind::Malformed("a block is longer than its file")));
        }
        block.resize(length as usize, 0);
        file.read_at(offset + BLOCK_HEADER as u64, &mut block).map_err(io)?;
        if crc32c::crc32c(&block).to_le_bytes() != head[4..] {
            return Err(corrupt(offset, CorruptionKind::Checksum));
        }
        checksum = crc32c::crc32c_append(crc32c::crc32c_append(checksum, &head), &block);
        let mut rest = block.as_slice();
        while let Some((count, tail)) = rest.split_first_chunk::<4>() {
            let too_long = || corrupt(offset, CorruptionKind::Malformed("a row is longer than its block"));
            let count = u32::from_le_bytes(*count) as usize * 8;
            let (slot, tail) = match form.has_slots {
                true => {
                    let (slot, tail) = tail.split_first_chunk::<4>().ok_or_else(too_long)?;
                    (Some(u32::from_le_bytes(*slot)), tail)
                }
                false => (None, tail),
            };
            let (order, tail) = match form.has_orders {
                true => {
                    let (order, tail) = tail.split_first_chunk::<8>().ok_or_else(too_long)?;
                    (Some(CommitOrder(u64::from_le_bytes(*order))), tail)
                }
                false => (None, tail),
            };
            let (row_bytes, tail) = tail.split_at_checked(count).ok_or_else(too_long)?;
            words.clear();
            let chunks = row_bytes.chunks_exact(8);
            words.extend(chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))));
            row(PartRow { slot, order, words: &words })?;
            rest = tail;
        }
        offset = end;
    }
    if part.checksum.is_some_and(|expected| expected != checksum) {
        let kind = UnprovenKind::OtherCheckpoint { by: Manifest::path(folder) };
        return Err(LogError::unproven(path, 0, kind).into());
    }
    Ok(())
}
