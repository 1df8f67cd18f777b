//! Where the transactions of a run come from.
//! Invariant: batches come in commit order, and so do the transactions of each.

use catalog::CommitOrder;
use logging::content::{CallRecord, WritesRecord};

/// A transaction to run.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'b> {
    /// Its position in the serial order.
    pub order: CommitOrder,
    /// What it does.
    pub body: Body<'b>,
}

/// What a transaction does.
#[derive(Clone, Copy, Debug)]
pub enum Body<'b> {
    /// It calls a procedure.
    Call {
        /// The index of the program among those of the run: of this procedure, with witness values or
        /// without.
        program: usize,
        /// The arguments, the witness values, and the summary of the writes.
        record: CallRecord<'b>,
    },
    /// It makes these writes.
    Writes(WritesRecord<'b>),
}

/// The transactions of one batch.
pub trait Batch: Send + Sync {
    /// Returns the number of transactions.
    fn len(&self) -> usize;

    /// Returns whether there are no transactions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a transaction. Called for every unit of the batch, so it must be cheap.
    fn get(&self, index: usize) -> Transaction<'_>;
}

impl Batch for Vec<Transaction<'_>> {
    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn get(&self, index: usize) -> Transaction<'_> {
        self[index]
    }
}

/// What a source has next.
#[derive(Debug)]
pub enum Next<C> {
    /// A batch.
    Batch(C),
    /// Nothing yet.
    Pending,
    /// Nothing any more.
    End,
}

/// Supplies transactions, batch by batch, without a known end.
pub trait Source: Sync {
    /// A batch that was claimed and is not read yet.
    type Claim;
    /// A batch.
    type Batch: Batch;
    /// The reason why a batch cannot be read.
    type Error: Send;

    /// Claims the next batch. One thread calls this at a time, so it should leave the work to `read`.
    /// `waits` says that nothing is under way: the source then waits for transactions rather than return
    /// `Next::Pending`.
    fn claim(&self, waits: bool) -> Next<Self::Claim>;

    /// Reads a batch that was claimed. Several threads read batches at the same time.
    ///
    /// # Errors
    /// The batch is damaged, or names a program that is not there.
    fn read(&self, claim: Self::Claim) -> Result<Self::Batch, Self::Error>;

    /// Is told of each batch whose transactions have all run. Batches may finish on several threads at the
    /// same time.
    fn finished(&self, batch: &Self::Batch);
}
