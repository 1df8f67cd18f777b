//! Numbers of transactions that rows do not hold: the last reader of each row, so that a transaction that
//! overwrites the row gets a greater number (`gsn`), and the last transaction that took index entries of each
//! table away. A transaction that finds no row depends on the latter: its answer waits for that number, and
//! its number is greater where the logs give it.
//! Paper: Poplar §3.3, Table 1 (NVM-D orders write-after-read, too). Differs: rows share cells by hash, which
//! orders some transactions without need and saves a word in every row.
//!
//! Invariants: 1. a reader raises the cell before it validates its read set, and a writer asks for it with
//! the row locked, so that of two that are in conflict the later one sees the earlier. 2. a worker that takes
//! an entry away raises the table's number before that, and a transaction that has found nothing asks for it
//! afterwards.
//! Held by: `crates/transaction/src/commit/tests.rs`; `serializability.rs` and `histories.rs`
//! (crates/reprise).

use super::Numbering;
use catalog::{CommitOrder, TableId};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells: of two transactions that work at the same time, few share one by chance.
const CELLS: usize = 1 << 16;
/// Cells of tables.
const TABLES: usize = 64;

/// The greatest numbers of transactions that have read rows, and that have taken index entries away.
#[derive(Debug)]
pub struct AccessNumbers {
    /// By row, and by table for absent rows; empty where numbers do not follow reads.
    read: Box<[AtomicU64]>,
    vacated: Box<[AtomicU64]>,
}

/// An observation of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readable {
    /// A row, by the address of its record.
    Row(u64),
    /// The absence of further rows of a table.
    Absence(TableId),
}

fn raise(cell: &AtomicU64, number: CommitOrder) {
    if cell.load(Ordering::SeqCst) < number.0 {
        cell.fetch_max(number.0, Ordering::SeqCst);
    }
}

impl AccessNumbers {
    /// Returns the cells that a numbering needs.
    pub fn new(numbering: &dyn Numbering) -> Self {
        let cells = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { read: cells(if numbering.follows_readers() { CELLS } else { 0 }), vacated: cells(TABLES) }
    }

    #[inline]
    fn cell(&self, read: Readable) -> Option<&AtomicU64> {
        let name = match read {
            Readable::Row(address) => address,
            Readable::Absence(table) => u64::from(table.0) << 1 | 1,
        };
        self.read.get((name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize)
    }

    /// Notes that a transaction of a number has made an observation.
    #[inline]
    pub fn raise_read(&self, read: Readable, number: CommitOrder) {
        self.cell(read).inspect(|cell| raise(cell, number));
    }

    /// Returns a number that no transaction which has made the observation exceeds.
    #[inline]
    pub fn read_by(&self, read: Readable) -> CommitOrder {
        self.cell(read).map_or(CommitOrder(0), |cell| CommitOrder(cell.load(Ordering::SeqCst)))
    }

    /// Notes that a transaction of a number is about to take index entries of a table away.
    pub fn raise_vacated(&self, table: TableId, number: CommitOrder) {
        raise(&self.vacated[table.0 as usize % TABLES], number);
    }

    /// Returns a number that no transaction which has taken index entries of a table away exceeds.
    pub fn vacated_by(&self, table: TableId) -> CommitOrder {
        CommitOrder(self.vacated[table.0 as usize % TABLES].load(Ordering::SeqCst))
    }
}
