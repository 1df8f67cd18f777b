//! The greatest numbers of transactions that have read something, so that whoever overwrites it gets a greater one.
//! Paper: Poplar §3.3, Table 1 (NVM-D orders write-after-read, too). Differs: what was read shares cells by hash, which
//! costs some order that nobody needs and saves a word in every row.
//!
//! Invariant: whoever reads raises the cell before it validates what it has read, and whoever writes asks for it with the row
//! locked, so that of two that are in conflict the later one sees the earlier. Held by: `sequencings.rs` (crates/reprise),
//! which re-executes command logs.

use catalog::{CommitOrder, TableId};
use std::sync::atomic::{AtomicU64, Ordering};
use storage::Record;

/// Cells: of two transactions that work at the same time, few share one by chance.
const CELLS: usize = 1 << 16;

/// Cells of rows, and of what is not there, by table.
#[derive(Debug)]
pub(crate) struct ReadNumbers(Box<[AtomicU64]>);

/// Something that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readable {
    Row(Record),
    /// That there is no other row.
    Absence(TableId),
}

impl ReadNumbers {
    pub(crate) fn new() -> Self {
        Self((0..CELLS).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn cell(&self, what: Readable) -> &AtomicU64 {
        let name = match what {
            Readable::Row(record) => record.address(),
            Readable::Absence(table) => u64::from(table.0) << 1 | 1,
        };
        &self.0[(name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize]
    }

    /// Says that a transaction of a number has read something.
    #[inline]
    pub(crate) fn raise(&self, what: Readable, number: CommitOrder) {
        let cell = self.cell(what);
        if cell.load(Ordering::SeqCst) < number.0 {
            cell.fetch_max(number.0, Ordering::SeqCst);
        }
    }

    /// No transaction with a greater number has read it.
    #[inline]
    pub(crate) fn at(&self, what: Readable) -> CommitOrder {
        CommitOrder(self.cell(what).load(Ordering::SeqCst))
    }
}
