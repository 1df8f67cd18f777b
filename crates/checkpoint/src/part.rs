//! Part files: rows of one table, in blocks.
//!
//! Layout: magic (8 bytes), format version (u32: 9, 14 where rows have slots, 11 where they have numbers, 16
//! with both), table (u32), database (16 bytes), number of the checkpoint (u64), index of the part (u32),
//! zeros (4 bytes), then blocks, then the directory (`directory`). A block is the length of the rows (u32),
//! their CRC-32C (u32), and the rows, ascending by primary key. A row is its length in words (u32), its slot
//! where rows have them (u32), its number where rows have them (u64), and its words, little-endian, as
//! `catalog::RowLayout` lays them out. This is the only description of that layout.
//! Versions 10 and 12 are like 14 and 16, but the directory has no slots. Versions 5 to 8 are like 9 to 12,
//! but have no directory. Versions 1 to 4 are like 5 to 8, but nothing stands between the table and the
//! blocks.

use crate::block::{BLOCK_HEADER, open_block, seal_block};
use crate::directory::{BlockEntry, Directory, DirectoryBuilder, TRAILER, directory_at};
use crate::manifest::Part;
use crate::{CheckpointError, Manifest};
use catalog::{CommitOrder, TableId};
use logging::disk::{DiskFile, SharedDisk, seen_from};
use logging::{CorruptionKind, DatabaseId, LogError, UnprovenKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"RPRSPRT\n";
const HEADER: usize = 48;
/// Size of the header in versions 1 to 4, in bytes.
const OLD_HEADER: usize = 16;
/// Number of row forms that the versions of a generation distinguish.
const FORMS: u32 = 4;
/// A block ends once it has this many bytes. A row that is loaded on demand costs its block.
const BLOCK: usize = 32 << 10;
/// Blocks are written once they have this many bytes together.
const WRITE: usize = 1 << 20;

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
        let generation = if self.has_slots { 3 } else { 2 };
        1 + generation * FORMS + u32::from(self.has_slots) + 2 * u32::from(self.has_orders)
    }

    /// Returns the form of a version, and its generation: 0, 1 where the header names the checkpoint, 2 where
    /// the part also has a directory, 3 where that has slots.
    fn of_version(version: u32) -> Option<(Self, u32)> {
        let flags = version.checked_sub(1)?;
        let form = Self { has_slots: flags & 1 != 0, has_orders: flags & 2 != 0 };
        let generation = flags / FORMS;
        (generation < 3 || generation == 3 && form.has_slots).then_some((form, generation))
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
    /// Blocks that are not written yet; the last one is open, and its header is still empty.
    blocks: Vec<u8>,
    /// Where the open block begins in `blocks`.
    open: usize,
    rows_of_block: u64,
    /// The greatest slot of its rows, if these have slots.
    greatest_slot: Option<u32>,
    directory: DirectoryBuilder,
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
            blocks: vec![0; BLOCK_HEADER],
            open: 0,
            rows_of_block: 0,
            greatest_slot: None,
            directory: DirectoryBuilder::default(),
            form,
            bytes: HEADER as u64,
            rows: 0,
            checksum: 0,
        })
    }

    /// Returns whether the next row is the first one of its block.
    pub(crate) fn begins_block(&self) -> bool {
        self.rows_of_block == 0
    }

    /// Adds a row. `key` is its primary key, if it is the first row of its block.
    pub(crate) fn add(
        &mut self,
        PartRow { slot, order, words }: PartRow<'_>,
        key: &[u8],
    ) -> Result<(), LogError> {
        if self.begins_block() {
            self.directory.begin_block(key);
        }
        self.blocks.extend_from_slice(&(words.len() as u32).to_le_bytes());
        if self.form.has_slots {
            let slot = slot.expect("each record of a table with slots has one");
            self.blocks.extend_from_slice(&slot.to_le_bytes());
            self.greatest_slot = self.greatest_slot.max(Some(slot));
        }
        if self.form.has_orders {
            self.blocks.extend_from_slice(&order.unwrap_or_default().0.to_le_bytes());
        }
        for word in words {
            self.blocks.extend_from_slice(&word.to_le_bytes());
        }
        self.rows += 1;
        self.rows_of_block += 1;
        if self.blocks.len() - self.open < BLOCK {
            return Ok(());
        }
        self.end_block();
        if self.blocks.len() >= WRITE { self.flush() } else { Ok(()) }
    }

    /// Completes the open block, and begins the next one.
    fn end_block(&mut self) {
        if self.begins_block() {
            return;
        }
        seal_block(&mut self.blocks[self.open..]);
        let length = (self.blocks.len() - self.open) as u64;
        self.directory.end_block(self.rows_of_block, self.greatest_slot.take(), length);
        self.rows_of_block = 0;
        self.open = self.blocks.len();
        self.blocks.resize(self.open + BLOCK_HEADER, 0);
    }

    /// Writes the complete blocks.
    fn flush(&mut self) -> Result<(), LogError> {
        let complete = &self.blocks[..self.open];
        self.file.write_at(self.bytes, complete).map_err(|error| LogError::io("write", &self.path, error))?;
        self.bytes += complete.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, complete);
        self.blocks.drain(..self.open);
        self.open = 0;
        Ok(())
    }

    /// Writes the rest of the rows and the directory, and makes the file durable.
    pub(crate) fn finish(&mut self) -> Result<(), LogError> {
        self.end_block();
        self.flush()?;
        let directory = std::mem::take(&mut self.directory).finish(self.bytes);
        let io = |error| LogError::io("write", &self.path, error);
        self.file.write_at(self.bytes, &directory).map_err(io)?;
        self.bytes += directory.len() as u64;
        self.file.sync().map_err(|error| LogError::io("sync", &self.path, error))
    }
}

/// An open part that belongs to its checkpoint.
struct OpenPart {
    file: Box<dyn DiskFile>,
    form: Form,
    /// Where the blocks lie in the file.
    blocks: Range<u64>,
    /// `None` in parts of older formats.
    directory: Option<Directory>,
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
        let (Some((form, generation)), true) =
            (form, header[..8] == *MAGIC && header[12..OLD_HEADER] == part.table.0.to_le_bytes())
        else {
            let kind = CorruptionKind::Malformed("the file is not a part of this checkpoint");
            return Err(LogError::corrupt(path, 0, kind));
        };
        if generation == 0 {
            return Ok(OpenPart { file, form, blocks: OLD_HEADER as u64..length, directory: None });
        }
        let (database, checkpoint) = (manifest.parts_of, manifest.number);
        let found = header[OLD_HEADER..OLD_HEADER + DatabaseId::BYTES].try_into();
        database.admit(DatabaseId::from_bytes(found.expect("the bytes of a number")), path)?;
        let expected = PartId { table: part.table, database, checkpoint, index: index as u32 };
        if expected.encode() != header[OLD_HEADER..] {
            return Err(unproven(UnprovenKind::OtherCheckpoint { by: by() }));
        }
        let first = HEADER as u64;
        if generation == 1 {
            return Ok(OpenPart { file, form, blocks: first..length, directory: None });
        }
        let damaged = || LogError::corrupt(path, 0, CorruptionKind::Malformed("its directory is damaged"));
        let end = length.checked_sub(TRAILER as u64).ok_or_else(damaged)?;
        let mut trailer = [0; TRAILER];
        file.read_at(end, &mut trailer).map_err(io)?;
        let at = directory_at(trailer).filter(|at| (first..=end).contains(at)).ok_or_else(damaged)?;
        let mut directory = vec![0; (end - at) as usize];
        file.read_at(at, &mut directory).map_err(io)?;
        let directory = Directory::read(directory, generation == 3, first..at);
        let directory = Some(directory.ok_or_else(damaged)?);
        Ok(OpenPart { file, form, blocks: first..at, directory })
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
        let OpenPart { file, form, blocks, .. } = self.open(path)?;
        let (mut checksum, mut offset) = (0, blocks.start);
        let (mut block, mut words) = (Vec::new(), Vec::new());
        while offset < blocks.end {
            let mut head = [0; BLOCK_HEADER];
            let read = file.read_at(offset, &mut head).map_err(io)?;
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let end = offset + (BLOCK_HEADER as u64) + u64::from(length);
            if read < BLOCK_HEADER || end > blocks.end {
                return Err(corrupt(offset, CorruptionKind::Malformed("a block is longer than its file")));
            }
            block.resize(length as usize, 0);
            file.read_at(offset + BLOCK_HEADER as u64, &mut block).map_err(io)?;
            if crc32c::crc32c(&block).to_le_bytes() != head[4..] {
                return Err(corrupt(offset, CorruptionKind::Checksum));
            }
            checksum = crc32c::crc32c_append(crc32c::crc32c_append(checksum, &head), &block);
            let too_long = || corrupt(offset, CorruptionKind::Malformed("a row is longer than its block"));
            form.for_each_row(&block, &mut words, too_long, &mut row)?;
            offset = end;
        }
        if part.checksum.is_some_and(|expected| expected != checksum) {
            let kind = UnprovenKind::OtherCheckpoint { by: Manifest::path(folder) };
            return Err(LogError::unproven(path, 0, kind).into());
        }
        Ok(())
    }
}

/// The blocks of a part, each of which can be read alone.
#[derive(Debug)]
pub struct PartBlocks {
    disk: SharedDisk,
    path: PathBuf,
    /// The table of the rows.
    pub table: TableId,
    form: Form,
    directory: Directory,
}

impl PartBlocks {
    /// Opens all parts of a checkpoint, and reads their directories, but no row. Returns `None` if the format
    /// of a part has no directory.
    ///
    /// # Errors
    /// The disk fails; a part is damaged, missing, or of another checkpoint.
    pub fn of(
        disk: &SharedDisk,
        folder: &Path,
        manifest: &Manifest,
    ) -> Result<Option<Vec<Self>>, CheckpointError> {
        let parts = manifest.parts.iter().enumerate();
        parts.map(|(index, part)| PartFile { disk, folder, manifest, index, part }.blocks()).collect()
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> usize {
        self.directory.blocks.len()
    }

    /// Returns the first primary key of a block. Blocks are ascending by it.
    pub fn first_key(&self, block: usize) -> &[u8] {
        self.directory.first_key(block)
    }

    /// Returns the number above all slots of its rows; `None` if the directory has none.
    pub fn end_of_slots(&self) -> Option<u32> {
        let mut blocks = self.directory.blocks.iter();
        blocks.try_fold(0, |end, block| Some(end.max(block.greatest_slot? + 1)))
    }

    /// Returns the size of a block, in bytes.
    pub fn bytes(&self, block: usize) -> u64 {
        self.directory.blocks[block].length.into()
    }

    /// Returns the error of a block that is damaged.
    pub fn malformed(&self, block: usize, what: &'static str) -> CheckpointError {
        let offset = self.directory.blocks[block].offset;
        LogError::corrupt(&self.path, offset, CorruptionKind::Malformed(what)).into()
    }

    /// Runs `row` on every row of a block, ascending by primary key.
    ///
    /// # Errors
    /// The disk fails; the file is damaged; `row` fails.
    pub fn read<E: From<CheckpointError>>(
        &self,
        block: usize,
        mut row: impl FnMut(PartRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let BlockEntry { offset, length, rows, .. } = self.directory.blocks[block];
        let failed = |error: LogError| E::from(error.into());
        let io = |error| failed(LogError::io("read", &self.path, error));
        let file = self.disk.open(&self.path).map_err(io)?;
        let mut bytes = vec![0; length as usize];
        file.read_at(offset, &mut bytes).map_err(io)?;
        let Some(contents) = open_block(&bytes) else {
            return Err(failed(LogError::corrupt(&self.path, offset, CorruptionKind::Checksum)));
        };
        let (mut words, mut count) = (Vec::new(), 0);
        let too_long = || self.malformed(block, "a row is longer than its block").into();
        self.form.for_each_row(contents, &mut words, too_long, |found| {
            count += 1;
            row(found)
        })?;
        if count == rows { Ok(()) } else { Err(self.malformed(block, "rows are missing").into()) }
    }
}

impl PartFile<'_> {
    /// Opens the file, and checks that it belongs to the checkpoint, but not its rows. Returns `None` if its
    /// format has no directory.
    ///
    /// # Errors
    /// The disk fails; the file is damaged, missing, or of another checkpoint.
    fn blocks(&self) -> Result<Option<PartBlocks>, CheckpointError> {
        let Self { disk, folder, part, .. } = *self;
        let path = seen_from(folder, &part.path);
        let OpenPart { form, directory, .. } = self.open(&path)?;
        let Some(directory) = directory else { return Ok(None) };
        let rows: u64 = directory.blocks.iter().map(|block| u64::from(block.rows)).sum();
        if rows != part.rows {
            let kind =
                CorruptionKind::Malformed("its directory has another number of rows than the manifest");
            return Err(LogError::corrupt(&path, 0, kind).into());
        }
        Ok(Some(PartBlocks { disk: disk.clone(), path, table: part.table, form, directory }))
    }
}

impl Form {
    /// Runs `row` on every row of a block, whose words go through a buffer.
    ///
    /// # Errors
    /// That of `too_long` if the bytes end within a row; `row` fails.
    fn for_each_row<E>(
        self,
        mut rows: &[u8],
        words: &mut Vec<u64>,
        too_long: impl Fn() -> E,
        mut row: impl FnMut(PartRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((count, fields)) = rows.split_first_chunk::<4>() {
            let bytes = u32::from_le_bytes(*count) as usize * 8;
            let found;
            (found, rows) = self.split_row(fields, bytes, words).ok_or_else(&too_long)?;
            row(found)?;
        }
        Ok(())
    }

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
