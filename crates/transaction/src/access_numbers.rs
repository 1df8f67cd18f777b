//! Numbers of transactions that rows do not hold, for numbers that come from the logs: who has read something, so that whoever
//! overwrites it gets a greater one, and who has taken index entries away, so that whoever finds nothing there does.
//! Paper: Poplar §3.3, Table 1 (NVM-D orders write-after-read, too). Differs: what was read shares cells by hash, which
//! costs some order that nobody needs and saves a word in every row.
//!
//! Invariants: 1. whoever reads raises the cell before it validates what it has read, and whoever writes asks for it with the
//! row locked, so that of two that are in conflict the later one sees the earlier. 2. whoever takes an entry away raises the
//! table's number before that, and whoever has found nothing asks for it afterwards.
//! Held by: `serializability.rs` and `histories.rs` (crates/reprise).

use catalog::{CommitOrder, TableId};
use logging::Numbering;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::Record;

/// Cells: of two transactions that work at the same time, few share one by chance.
const CELLS: usize = 1 << 16;
/// Cells of tables.
const TABLES: usize = 64;

/// What transactions have read, and taken away.
#[derive(Debug)]
pub(crate) struct AccessNumbers {
    /// Rows, and what is not there, by table; empty where numbers do not follow reads.
    read: Box<[AtomicU64]>,
    vacated: Box<[AtomicU64]>,
}

/// Something that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readable {
    Row(Record),
    /// That there is no other row.
    Absence(TableId),
}

fn raise(cell: &AtomicU64, number: CommitOrder) {
    if cell.load(Ordering::SeqCst) < number.0 {
        cell.fetch_max(number.0, Ordering::SeqCst);
    }
}

impl AccessNumbers {
    /// What a numbering needs.
    pub(crate) fn new(numbering: Numbering) -> Option<Self> {
        let cells = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        let read = match numbering {
            Numbering::Clock => return None,
            Numbering::Logs => 0,
            Numbering::LogsAndReads => CELLS,
        };
        Some(Self { read: cells(read), vacated: cells(TABLES) })
    }

    #[inline]
    fn cell(&self, what: Readable) -> Option<&AtomicU64> {
        let name = match what {
            Readable::Row(record) => record.address(),
            Readable::Absence(table) => u64::from(table.0) << 1 | 1,
        };
        self.read.get((name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize)
    }

    /// Says that a transaction of a number has read something.
    #[inline]
    pub(crate) fn raise_read(&self, what: Readable, number: CommitOrder) {
        self.cell(what).inspect(|cell| raise(cell, number));
    }

    /// No transaction with a greater number has read it.
    #[inline]
    pub(crate) fn read_by(&self, what: Readable) -> CommitOrder {
        self.cell(what).map_or(CommitOrder(0), |cell| CommitOrder(cell.load(Ordering::SeqCst)))
    }

    /// Says that a transaction of a number is about to take index entries of a table away.
    pub(crate) fn raise_vacated(&self, table: TableId, number: CommitOrder) {
        raise(&self.vacated[table.0 as usize % TABLES], number);
    }

    /// No transaction with a greater number has taken index entries of a table away.
    pub(crate) fn vacated_by(&self, table: TableId) -> CommitOrder {
        CommitOrder(self.vacated[table.0 as usize % TABLES].load(Ordering::SeqCst))
    }
}
