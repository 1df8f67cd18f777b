//! Arenas: memory for records, keys and tree nodes, in size classes, on huge pages.
//!
//! A worker takes chunks of 2 MiB from the shared `Memory` and cuts them into blocks. Freed blocks go to the
//! worker's free lists. A worker that has freed a mebibyte moves some blocks to lists that all workers take
//! from; so do dropped tables. The database's account (`memory::Account`), which statements share, is charged
//! for all of it. A chunk is faulted in before its use as one huge page, where the system has them, so the
//! hot path meets neither page faults nor most TLB misses. Memory returns to the system when the database is
//! closed.
//!
//! Invariants: 1. a block is aligned to 32 bytes (64 from 64 bytes up). 2. a block of one class never becomes
//! part of another.
#![allow(unsafe_code)]

mod ahead;

use crate::Epochs;
use crate::retired::Retired;
use memory::Account;
use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use thiserror::Error;

const CHUNK: usize = 2 << 20;
/// Chunks are taken from the system in regions of this many bytes.
const REGION: usize = 32 << 20;
const FINE_LIMIT: usize = 1024;
const FINE_STEP: usize = 32;
/// Bytes of freed blocks after which a worker updates the shared count and leaves a free list to other
/// workers.
const TOLD_AT_ONCE: isize = 1 << 20;
/// Fine classes, then four to each doubling up to 64 KiB.
const CLASSES: usize = FINE_LIMIT / FINE_STEP + 24;
const LARGEST: usize = 64 << 10;
/// The number of the next `Memory` in the process.
static NEXT_MEMORY: AtomicU64 = AtomicU64::new(0);

/// The configured memory is used up. The statement that needed more fails; the database stays open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("out of memory: the limit of {limit_bytes} bytes for rows, indexes and statements is reached")]
pub struct OutOfMemory {
    /// The configured limit, in bytes.
    pub limit_bytes: usize,
}

/// The memory of one database.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: usize,
    /// The account that rows and indexes share with statements.
    account: Arc<Account>,
    /// Bytes that recovery may take beyond the limit; 0 outside of recovery.
    allowance_bytes: AtomicUsize,
    /// Bytes that commits took beyond the limit when they could no longer fail.
    excess_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    /// Bytes of chunks that workers took, ever.
    taken_bytes: AtomicUsize,
    /// Bytes that are to be ready.
    wanted_bytes: AtomicUsize,
    /// Bytes of free blocks, exact to `TOLD_AT_ONCE` per worker.
    free_bytes: AtomicIsize,
    shared: Mutex<Shared>,
    /// The memory's number, unique in the process.
    number: u64,
    /// The epochs that decide when a block may be used again.
    epochs: OnceLock<Arc<Epochs>>,
}

#[derive(Debug, Default)]
struct Shared {
    regions: HashMap<usize, Layout>,
    free_chunks: Vec<usize>,
    /// Chunks that are faulted in and not used yet.
    ready_chunks: Vec<usize>,
    /// Free blocks of dropped workers, by class.
    free_blocks: Vec<(usize, usize)>,
    /// Unused ranges of dropped workers' last chunks: start, end.
    remainders: Vec<(usize, usize)>,
    /// Blocks that other workers could still see when their worker was dropped.
    retired: Retired,
}

/// One free list per class; a free block's first word is the address of the next one.
#[derive(Debug)]
pub(crate) struct Allocator {
    memory: Arc<Memory>,
    free: [usize; CLASSES],
    bump: usize,
    end: usize,
    /// Bytes of freed blocks minus reused ones since the worker last updated the shared count.
    untold: isize,
}

/// Blocks of a dropped table, in chains by class, for all workers.
pub(crate) struct Freed {
    /// The first block of each class's open chain, and the chain's length.
    open: [(usize, usize); CLASSES],
    /// Complete chains.
    chains: Vec<(usize, usize)>,
    large: Vec<(NonNull<u64>, usize)>,
    bytes: usize,
}

impl Freed {
    pub(crate) fn new() -> Self {
        Self { open: [(0, 0); CLASSES], chains: Vec::new(), large: Vec::new(), bytes: 0 }
    }

    /// Adds a block.
    ///
    /// # Safety
    /// The caller owns the block: it was allocated with this many bytes from the memory that takes it back,
    /// and no thread will read it again.
    pub(crate) unsafe fn add(&mut self, address: u64, bytes: usize) {
        let block = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        if bytes > LARGEST {
            self.large.extend(NonNull::new(block).map(|block| (block, bytes)));
            return;
        }
        let class = class_of(bytes);
        let (first, count) = &mut self.open[class];
        // SAFETY: every block has room for a word, and by the contract it is free.
        unsafe { *block = *first as u64 };
        (*first, *count) = (address as usize, *count + 1);
        self.bytes += class_size(class);
        if *count * class_size(class) > TOLD_AT_ONCE.unsigned_abs() {
            self.chains.push((class, std::mem::take(first)));
            *count = 0;
        }
    }
}

/// Touches every page of a chunk.
///
/// # Safety
/// The address is a chunk's, and no other thread has it.
unsafe fn fault_in(chunk: usize) {
    for page in (0..CHUNK).step_by(4096) {
        // SAFETY: inside the chunk, by the contract; touching a page faults it in.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(chunk + page).write_volatile(0) };
    }
}

/// Asks for huge pages behind memory. A refusal only costs speed.
///
/// # Safety
/// The memory is allocated, and is as large.
unsafe fn advise_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: advice on memory that is allocated, by the contract.
    unsafe {
        libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}

fn class_of(bytes: usize) -> usize {
    if bytes <= FINE_LIMIT {
        return bytes.div_ceil(FINE_STEP).max(1) - 1;
    }
    let doubling = (bytes - 1).ilog2() as usize - 10;
    let quarter = (bytes - 1) >> (doubling + 8) & 3;
    FINE_LIMIT / FINE_STEP + doubling * 4 + quarter
}

fn class_size(class: usize) -> usize {
    let fine = FINE_LIMIT / FINE_STEP;
    if class < fine {
        return (class + 1) * FINE_STEP;
    }
    let (doubling, quarter) = ((class - fine) / 4, (class - fine) % 4);
    (1024 << doubling) + ((quarter + 1) << (doubling + 8))
}

impl Memory {
    /// Returns memory with a limit in bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            account: Arc::new(Account::new(limit_bytes)),
            allowance_bytes: AtomicUsize::new(0),
            excess_bytes: AtomicUsize::new(0),
            used_bytes: AtomicUsize::new(0),
            taken_bytes: AtomicUsize::new(0),
            wanted_bytes: AtomicUsize::new(0),
            free_bytes: AtomicIsize::new(0),
            shared: Mutex::default(),
            number: NEXT_MEMORY.fetch_add(1, Ordering::Relaxed),
            epochs: OnceLock::new(),
        }
    }

    /// Returns the account of the database's memory; this memory is a part of it.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Starts to count the memory of statements too.
    pub fn count_all(&self) {
        self.account.open(self.used_bytes());
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether these epochs govern the reuse of blocks. The first call decides.
    pub(crate) fn is_of(&self, epochs: &Arc<Epochs>) -> bool {
        Arc::ptr_eq(self.epochs.get_or_init(|| Arc::clone(epochs)), epochs)
    }

    /// Returns the bytes taken from the system.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder of this lock panics")
    }

    fn charge(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let beyond = self.excess_bytes.load(Ordering::Relaxed) + self.allowance_bytes.load(Ordering::Relaxed);
        let has_room = beyond > 0 || self.account.has_room(bytes);
        if before + bytes > self.limit_bytes.saturating_add(beyond) || !has_room {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory { limit_bytes: self.limit_bytes });
        }
        Ok(())
    }

    /// Raises the limit by the regions of a block, which stay accounted as excess.
    pub(crate) fn raise_limit(&self, bytes: usize) {
        self.excess_bytes.fetch_add(bytes.next_multiple_of(REGION), Ordering::Relaxed);
    }

    /// Lets this many workers take one chunk each beyond the limit, until a call with 0. Recovery may cut the
    /// same rows out of more chunks than the workers that wrote them, and must succeed under the same limit.
    pub fn allow_beyond_limit(&self, workers: usize) {
        let bytes = (workers * CHUNK).next_multiple_of(REGION);
        self.allowance_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Fails if commits have exceeded the limit and too little was freed since.
    pub(crate) fn check_limit(&self) -> Result<(), OutOfMemory> {
        let exceeded = self.excess_bytes.load(Ordering::Relaxed) > 0;
        if exceeded && self.live_bytes() > self.limit_bytes {
            return Err(OutOfMemory { limit_bytes: self.limit_bytes });
        }
        Ok(())
    }

    /// Fails unless there is room for `bytes` of new rows and for `beside` bytes of other memory.
    pub(crate) fn check_room(&self, bytes: usize, beside: usize) -> Result<(), OutOfMemory> {
        if self.allowance_bytes.load(Ordering::Relaxed) > 0 {
            // Recovery writes rows that had room before.
            return Ok(());
        }
        let free = usize::try_from(self.free_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let has_room = self.live_bytes() + bytes <= self.limit_bytes
            && self.account.has_room(bytes.saturating_sub(free + self.ready_bytes()) + beside);
        if has_room { Ok(()) } else { Err(OutOfMemory { limit_bytes: self.limit_bytes }) }
    }

    /// Returns whether `bytes` are left below the limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes().saturating_add(bytes) <= self.limit_bytes && self.account.has_room(bytes)
    }

    /// Returns the bytes that rows and indexes use.
    fn live_bytes(&self) -> usize {
        let shared = self.shared();
        let chunks = (shared.free_chunks.len() + shared.ready_chunks.len()) * CHUNK;
        let free = usize::try_from(self.free_bytes.load(Ordering::Relaxed)).unwrap_or(0);
        self.used_bytes().saturating_sub(chunks + free)
    }

    fn take_chunk(&self) -> Result<usize, OutOfMemory> {
        self.taken_bytes.fetch_add(CHUNK, Ordering::Relaxed);
        if let Some(ready) = self.shared().ready_chunks.pop() {
            self.account.use_spare(CHUNK);
            return Ok(ready);
        }
        let chunk = self.take_cold_chunk()?;
        self.account.use_spare(CHUNK);
        // SAFETY: taken just above.
        unsafe { fault_in(chunk) };
        Ok(chunk)
    }

    fn take_cold_chunk(&self) -> Result<usize, OutOfMemory> {
        let mut shared = self.shared();
        if shared.free_chunks.is_empty() {
            self.charge(REGION)?;
            let layout = Layout::from_size_align(REGION, CHUNK).expect("a valid layout");
            // SAFETY: the layout's size is not zero.
            let region = memory::apart(|| unsafe { std::alloc::alloc(layout) });
            if region.is_null() {
                self.used_bytes.fetch_sub(REGION, Ordering::Relaxed);
                return Err(OutOfMemory { limit_bytes: self.limit_bytes });
            }
            // SAFETY: allocated above with this size.
            unsafe { advise_huge_pages(region, REGION) };
            let region = region.expose_provenance();
            shared.regions.insert(region, layout);
            self.account.add_spare(REGION);
            shared.free_chunks.extend((0..REGION / CHUNK).rev().map(|index| region + index * CHUNK));
        }
        Ok(shared.free_chunks.pop().expect("a region was just cut"))
    }

    /// Takes back blocks that no worker freed.
    pub(crate) fn take_back(&self, freed: Freed) {
        let Freed { open, chains, large, bytes } = freed;
        self.free_bytes.fetch_add(bytes as isize, Ordering::Relaxed);
        let open = open.into_iter().enumerate().filter(|(_, (_, count))| *count > 0);
        let open = open.map(|(class, (first, _))| (class, first));
        self.shared().free_blocks.extend(chains.into_iter().chain(open));
        for (block, bytes) in large {
            // SAFETY: large blocks come from `allocate_large`; no thread uses them, by the contract of
            // `Freed::add`.
            unsafe { self.free_large(block, bytes) };
        }
    }

    /// Returns a chain of free blocks of a class that other workers left.
    fn take_free_blocks(&self, class: usize) -> Option<usize> {
        let mut shared = self.shared();
        let place = shared.free_blocks.iter().position(|(own, _)| *own == class)?;
        Some(shared.free_blocks.swap_remove(place).1)
    }

    fn allocate_large(&self, bytes: usize) -> Result<NonNull<u64>, OutOfMemory> {
        self.charge(bytes)?;
        let alignment = if bytes < CHUNK { 64 } else { CHUNK };
        let layout = Layout::from_size_align(bytes, alignment).expect("a valid layout");
        // SAFETY: the layout's size is not zero.
        let block = memory::apart(|| unsafe { std::alloc::alloc(layout) });
        let Some(block) = NonNull::new(block) else {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(OutOfMemory { limit_bytes: self.limit_bytes });
        };
        if bytes >= CHUNK {
            // SAFETY: allocated above with this size.
            unsafe { advise_huge_pages(block.as_ptr(), bytes) };
        }
        self.shared().regions.insert(block.as_ptr().expose_provenance(), layout);
        Ok(block.cast())
    }

    /// # Safety
    /// `block` came from `allocate_large`, and no thread uses it.
    unsafe fn free_large(&self, block: NonNull<u64>, bytes: usize) {
        let address = block.as_ptr().addr();
        let layout = self.shared().regions.remove(&address);
        if let Some(layout) = layout {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            // SAFETY: allocated by `allocate_large` with this layout, and taken off the list just now.
            memory::apart(|| unsafe { std::alloc::dealloc(block.as_ptr().cast(), layout) });
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for (region, layout) in &self.shared().regions {
            // SAFETY: allocated with this layout; all holders of pointers into it are gone, as all workers
            // and tables hold the `Memory` alive.
            unsafe {
                std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(*region), *layout);
            }
        }
    }
}

impl Allocator {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Self { memory, free: [0; CLASSES], bump: 0, end: 0, untold: 0 }
    }

    /// Returns a block of at least this many bytes, with undefined contents.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<NonNull<u64>, OutOfMemory> {
        if bytes > LARGEST {
            return self.memory.allocate_large(bytes);
        }
        let class = class_of(bytes);
        let block = self.free[class];
        if block != 0 {
            let pointer = std::ptr::with_exposed_provenance_mut::<u64>(block);
            // SAFETY: a free block holds the address of the next one in its first word.
            self.free[class] = unsafe { *pointer } as usize;
            self.untold -= class_size(class) as isize;
            if self.untold < -TOLD_AT_ONCE {
                self.tell();
            }
            return Ok(NonNull::new(pointer).expect("a free block is not null"));
        }
        let size = class_size(class);
        let alignment = if size >= 64 { 64 } else { FINE_STEP };
        let mut start = self.bump.next_multiple_of(alignment);
        if start + size > self.end {
            self.tell();
            if let Some(list) = self.memory.take_free_blocks(class) {
                self.free[class] = list;
                return self.allocate(bytes);
            }
            start = self.memory.take_chunk()?;
            self.end = start + CHUNK;
        }
        self.bump = start + size;
        Ok(NonNull::new(std::ptr::with_exposed_provenance_mut(start)).expect("a chunk is not null"))
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` came from `allocate` with the same number of bytes, of any allocator of the same memory, and
    /// no thread uses it.
    pub(crate) unsafe fn free(&mut self, block: NonNull<u64>, bytes: usize) {
        if bytes > LARGEST {
            // SAFETY: `allocate_large` makes blocks of this size; the contract covers the remaining
            // conditions.
            unsafe { self.memory.free_large(block, bytes) };
            return;
        }
        let class = class_of(bytes);
        // SAFETY: every block has room for a word, and by the contract this worker owns it.
        unsafe { *block.as_ptr() = self.free[class] as u64 };
        self.free[class] = block.as_ptr().expose_provenance();
        self.untold += class_size(class) as isize;
        if self.untold > TOLD_AT_ONCE {
            self.tell();
            // Leaves the list to other workers.
            let list = std::mem::take(&mut self.free[class]);
            self.memory.shared().free_blocks.push((class, list));
        }
    }

    fn tell(&mut self) {
        self.memory.free_bytes.fetch_add(std::mem::take(&mut self.untold), Ordering::Relaxed);
    }

    /// Leaves all free blocks, and the retired ones, to the next worker.
    pub(crate) fn hand_over(&mut self, retired: &mut Retired) {
        self.tell();
        let mut shared = self.memory.shared();
        shared.retired.append(retired);
        for (class, list) in self.free.iter_mut().enumerate() {
            if *list != 0 {
                shared.free_blocks.push((class, std::mem::take(list)));
            }
        }
        if self.bump < self.end {
            shared.remainders.push((self.bump, self.end));
            self.bump = self.end;
        }
    }

    /// Takes over the blocks of dropped workers. Returns the retired ones, which are still to be freed.
    pub(crate) fn inherit(&mut self) -> Retired {
        let mut shared = self.memory.shared();
        if let Some((bump, end)) = shared.remainders.pop() {
            (self.bump, self.end) = (bump, end);
        }
        shared.free_blocks.retain(|(class, list)| {
            let vacant = self.free[*class] == 0;
            if vacant {
                self.free[*class] = *list;
            }
            !vacant
        });
        std::mem::take(&mut shared.retired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise() {
        for bytes in 1..=LARGEST {
            let class = class_of(bytes);
            assert!(class < CLASSES, "{bytes}");
            assert!(class_size(class) >= bytes, "{bytes}");
            assert!(class == 0 || class_size(class - 1) < bytes, "{bytes} has a smaller class");
        }
    }

    #[test]
    fn workers_that_come_and_go_take_no_more() {
        let memory = Arc::new(Memory::new(REGION));
        let workers = if cfg!(miri) { REGION / CHUNK + 1 } else { 10 * REGION / CHUNK };
        for _ in 0..workers {
            let mut allocator = Allocator::new(Arc::clone(&memory));
            allocator.inherit();
            allocator.allocate(100).unwrap();
            allocator.hand_over(&mut Retired::default());
        }
    }

    #[test]
    fn the_limit_is_an_error() {
        let memory = Arc::new(Memory::new(REGION + LARGEST * 2));
        let mut allocator = Allocator::new(memory);
        let mut blocks = 0;
        while allocator.allocate(LARGEST).is_ok() {
            blocks += 1;
        }
        assert_eq!(blocks, REGION / LARGEST);
        let large = allocator.allocate(LARGEST + 8).unwrap();
        assert!(allocator.allocate(LARGEST + 8).is_err());
        // SAFETY: allocated just above with this size.
        unsafe { allocator.free(large, LARGEST + 8) };
        assert!(allocator.allocate(LARGEST + 8).is_ok());
    }
}
