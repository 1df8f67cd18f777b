//! A disk in memory that tracks which bytes are durable and builds a possible state after a crash.
//!
//! Of unsynced writes, any subset survives, each cut at any multiple of 512 bytes. Of unsynced names
//! (creations, renames, removals), any prefix survives, because a journalling file system keeps their order.
//! A folder whose parent was not synced since may be gone, with its contents.

use super::{Disk, DiskFile};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

const SECTOR: usize = 512;

#[derive(Clone, Default, Debug)]
struct Contents {
    durable: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<(u64, Vec<u8>)>,
}

impl Contents {
    fn current(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (offset, written) in &self.pending {
            put(&mut bytes, *offset, written);
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let end = offset as usize + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset as usize..end].copy_from_slice(written);
}

#[derive(Clone, Debug)]
enum NameChange {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: &NameChange) {
    match change {
        NameChange::Create(path, file) => {
            names.insert(path.clone(), *file);
        }
        NameChange::Rename(from, to) => {
            let moved: Vec<_> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
            for path in moved {
                if let (Ok(rest), Some(file)) = (path.strip_prefix(from), names.get(&path).copied()) {
                    let target = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    names.remove(&path);
                    names.insert(target, file);
                }
            }
        }
        NameChange::Remove(path) => names.retain(|name, _| !name.starts_with(path)),
    }
}

#[derive(Clone, Default, Debug)]
struct State {
    files: BTreeMap<u64, Contents>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<NameChange>,
    next_file: u64,
    /// Folders that were created.
    folders: BTreeSet<PathBuf>,
    /// Created folders whose parent was not synced since.
    pending_folders: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    /// Calls so far that change the disk, and the call at which the power fails.
    calls: u64,
    crash_at: Option<u64>,
}

impl State {
    /// Counts a call; after the crash no call reaches the disk.
    fn step(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.crash_at.is_some_and(|crash| self.calls > crash) {
            return Err(io::Error::other("the power is off"));
        }
        Ok(())
    }

    fn change_name(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.pending_names.push(change);
    }
}

/// The disk. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct CrashingDisk(Arc<Mutex<State>>);

struct CrashingFile {
    disk: CrashingDisk,
    file: u64,
}

impl CrashingDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Cuts the power after this many calls that change the disk.
    pub fn crash_after(&self, calls: u64) {
        self.state().crash_at = Some(calls);
    }

    /// Returns the number of calls so far that change the disk.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Returns a disk as a crash at this moment could leave it.
    pub fn after_crash(&self, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let state = self.state();
        let mut names = state.durable_names.clone();
        let survived = random.random_range(0..=state.pending_names.len());
        for change in &state.pending_names[..survived] {
            apply(&mut names, change);
        }
        let mut folders = state.folders.clone();
        for folder in &state.pending_folders {
            if random.random_bool(0.5) {
                folders.retain(|other| !other.starts_with(folder));
                names.retain(|path, _| !path.starts_with(folder));
            }
        }
        let mut files = BTreeMap::new();
        for (number, contents) in &state.files {
            let mut bytes = contents.durable.clone();
            for (offset, written) in &contents.pending {
                match random.random_range(0..3) {
                    0 => {}
                    1 => put(&mut bytes, *offset, written),
                    _ => {
                        // Any subset of the sectors.
                        for (place, sector) in written.chunks(SECTOR).enumerate() {
                            if random.random_bool(0.5) {
                                put(&mut bytes, offset + (place * SECTOR) as u64, sector);
                            }
                        }
                    }
                }
            }
            files.insert(*number, Contents { durable: bytes, pending: Vec::new() });
        }
        let next_file = state.next_file;
        let durable_names = names.clone();
        let crashed = State { files, durable_names, names, folders, next_file, ..State::default() };
        Self(Arc::new(Mutex::new(crashed)))
    }

    /// Returns a disk with these files, all durable.
    pub fn holding(files: BTreeMap<PathBuf, Vec<u8>>) -> Self {
        let mut state = State::default();
        for (path, durable) in files {
            state.files.insert(state.next_file, Contents { durable, pending: Vec::new() });
            state.names.insert(path, state.next_file);
            state.next_file += 1;
        }
        state.durable_names = state.names.clone();
        let ancestors = state.names.keys().flat_map(|path| path.ancestors().skip(1));
        let folders = ancestors.filter(|folder| folder.parent().is_some()).map(Path::to_path_buf).collect();
        state.folders = folders;
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the contents of all files, as after the end of the process without a loss of power.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let current = |file: &u64| state.files.get(file).map(Contents::current).unwrap_or_default();
        state.names.iter().map(|(path, file)| (path.clone(), current(file))).collect()
    }

    /// Changes the durable bytes of a file, as a failing medium does.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        if let Some(file) = state.names.get(path).copied()
            && let Some(contents) = state.files.get_mut(&file)
        {
            change(&mut contents.durable);
        }
    }

    /// Returns all files with their lengths.
    pub fn files(&self) -> Vec<(PathBuf, usize)> {
        let state = self.state();
        let length = |file: &u64| state.files.get(file).map_or(0, |contents| contents.current().len());
        state.names.iter().map(|(path, file)| (path.clone(), length(file))).collect()
    }
}

impl DiskFile for CrashingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let result = state.step();
        // The write at which the power fails may have reached the disk in part.
        let last = state.crash_at.is_some_and(|crash| state.calls == crash + 1);
        if (result.is_ok() || last)
            && let Some(contents) = state.files.get_mut(&self.file)
        {
            contents.pending.push((offset, bytes.to_vec()));
        }
        result
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        let bytes = state.files.get(&self.file).map(Contents::current).unwrap_or_default();
        let available = bytes.get(offset as usize..).unwrap_or_default();
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        Ok(length)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step()?;
        if let Some(contents) = state.files.get_mut(&self.file) {
            contents.durable = contents.current();
            contents.pending.clear();
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.disk.state();
        Ok(state.files.get(&self.file).map_or(0, |contents| contents.current().len() as u64))
    }
}

impl Disk for CrashingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.step()?;
        let file = state.next_file;
        state.next_file += 1;
        state.files.insert(file, Contents::default());
        state.change_name(NameChange::Create(path.into(), file));
        Ok(Box::new(CrashingFile { disk: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match self.state().names.get(path) {
            Some(file) => Ok(Box::new(CrashingFile { disk: self.clone(), file: *file })),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.state();
        let mut paths: Vec<PathBuf> = state
            .names
            .keys()
            .filter_map(|path| path.strip_prefix(folder).ok()?.components().next())
            .map(|first| folder.join(first))
            .collect();
        paths.dedup();
        Ok(paths)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if !state.names.keys().any(|path| path.starts_with(from)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(NameChange::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        if !state.names.keys().any(|name| name.starts_with(path)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_name(NameChange::Remove(path.into()));
        state.folders.retain(|folder| !folder.starts_with(path));
        Ok(())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.step()?;
        let has_parent =
            |folder: &&Path| folder.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
        let is_missing = |folder: &&Path| has_parent(folder) && !state.folders.contains(*folder);
        let mut made: Vec<_> = folder.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        made.reverse();
        state.folders.extend(made.iter().cloned());
        state.pending_folders.extend(made.iter().cloned());
        Ok(made)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.pending_folders.retain(|pending| pending.parent() != Some(folder));
        state.durable_names = state.names.clone();
        state.pending_names.clear();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        if !self.state().locked.insert(path.into()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Unlock { disk: self.clone(), path: path.into() }))
    }
}

struct Unlock {
    disk: CrashingDisk,
    path: PathBuf,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}
