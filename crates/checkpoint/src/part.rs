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
    pub(crate) table: TableId,
    pub(crate) database: DatabaseId,
    pub(crate) checkpoint: u64,
    pub(crate) index: u32,
}

impl PartId {
    /// Encodes the fields behind the table.
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
    pub(crate) fn create(disk: &SharedDisk, path: PathBuf, id: PartId, form: Form) -> Result<Self, LogError> {
        let file = disk.create(&path).map_err(|error| LogError::io("create", &path, error))?;
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&form.version().to_le_bytes());
        header.extend_from_slice(&id.table.0.to_le_bytes());
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

/// A part file of a checkpoint.
#[derive(Clone, Copy)]
pub(crate) struct PartFile<'a> {
    pub(crate) disk: &'a SharedDisk,
    /// The data folder.
    pub(crate) folder: &'a Path,
    /// The checkpoint of the folder.
    pub(crate) manifest: &'a Manifest,
    /// The index of the part in the manifest.
    pub(crate) index: usize,
    pub(crate) part: &'a Part,
}

impl PartFile<'_> {
    /// Opens the file, and checks that it belongs to the checkpoint.
    fn open(&self, path: &Path) -> Result<OpenPart, LogError> {
        let Self { disk, folder, manifest, index, part } = *self;
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
            let kind = CorruptionKind::Malformed("the file is not a part of this checkpoint");
            return Err(LogError::corrupt(path, 0, kind));
        };
        if !has_id {
            return Ok(OpenPart { file, form, start: OLD_HEADER as u64 });
        }
        let (database, checkpoint) = (manifest.parts_of, manifest.number);
        let found = header[OLD_HEADER..OLD_HEADER + DatabaseId::BYTES].try_into();
        database.admit(DatabaseId::from_bytes(found.expect("the bytes of a number")), path)?;
        let expected = PartId { table: part.table, database, checkpoint, index: index as u32 };
        if expected.encode() != header[OLD_HEADER..] {
            return Err(unproven(UnprovenKind::OtherCheckpoint { by: by() }));
        }
        Ok(OpenPart { file, form, start: HEADER as u64 })
    }

    /// Runs `row` on every row.
    ///
    /// # Errors
    /// The disk fails; the file is damaged, missing, or of another checkpoint; `row` fails.
    pub(crate) fn read(
        &self,
        mut row: impl FnMut(PartRow<'_>) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let Self { folder, part, .. } = *self;
        let path = &seen_from(folder, &part.path);
        let corrupt = |offset: u64, kind| CheckpointError::from(LogError::corrupt(path, offset, kind));
        let io = |error| LogError::io("read", path, error);
        let OpenPart { file, form, start } = self.open(path)?;
        let (mut checksum, mut offset) = (0, start);
        let (mut block, mut words) = (Vec::new(), Vec::new());
        while offset < part.bytes {
            let mut head = [0; BLOCK_HEADER];
            let read = file.read_at(offset, &mut head).map_err(io)?;
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let end = offset + (BLOCK_HEADER as u64) + u64::from(length);
            if read < BLOCK_HEADER || end > part.bytes {
                return Err(corrupt(offset, CorruptionKind::Malformed("a block is longer than its file")));
            }
            block.resize(length as usize, 0);
            file.read_at(offset + BLOCK_HEADER as u64, &mut block).map_err(io)?;
            if crc32c::crc32c(&block).to_le_bytes() != head[4..] {
                return Err(corrupt(offset, CorruptionKind::Checksum));
            }
            checksum = crc32c::crc32c_append(crc32c::crc32c_append(checksum, &head), &block);
            let mut rows = block.as_slice();
            while let Some((count, fields)) = rows.split_first_chunk::<4>() {
                let too_long =
                    || corrupt(offset, CorruptionKind::Malformed("a row is longer than its block"));
                let bytes = u32::from_le_bytes(*count) as usize * 8;
                let found;
                (found, rows) = form.split_row(fields, bytes, &mut words).ok_or_else(too_long)?;
                row(found)?;
            }
            offset = end;
        }
        if part.checksum.is_some_and(|expected| expected != checksum) {
            let kind = UnprovenKind::OtherCheckpoint { by: Manifest::path(folder) };
            return Err(LogError::unproven(path, 0, kind).into());
        }
        Ok(())
    }
}

impl Form {
    /// Splits a row from the fields behind its length, and copies its words; `None` when it is too long.
    #[inline]
    fn split_row<'b, 'w>(
        self,
        mut fields: &'b [u8],
        bytes: usize,
        words: &'w mut Vec<u64>,
    ) -> Option<(PartRow<'w>, &'b [u8])> {
        let (mut slot, mut order) = (None, None);
        if self.has_slots {
            let number;
            (number, fields) = fields.split_first_chunk::<4>()?;
            slot = Some(u32::from_le_bytes(*number));
        }
        if self.has_orders {
            let number;
            (number, fields) = fields.split_first_chunk::<8>()?;
            order = Some(CommitOrder(u64::from_le_bytes(*number)));
        }
        let (row, behind) = fields.split_at_checked(bytes)?;
        words.clear();
        let chunks = row.chunks_exact(8);
        words.extend(chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))));
        Some((PartRow { slot, order, words }, behind))
    }
}
