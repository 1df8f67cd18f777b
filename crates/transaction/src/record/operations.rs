//! Physiological records: each operation with its images as soon as the row is locked, then what became of
//! the transaction.
//! Paper: command logging §IV-A.

use super::{Execution, Needs, Recorder};
use crate::{Description, Workspace};
use catalog::CommitOrder;
use logging::content::{Images, OperationsBuilder, Outcome, Stamp, seal};

pub(super) struct OperationsRecorder {
    images: Images,
    transaction: CommitOrder,
    records: Vec<u8>,
    description: Description,
}

impl OperationsRecorder {
    pub(super) fn new(images: Images) -> Self {
        Self {
            images,
            transaction: CommitOrder::default(),
            records: Vec::new(),
            description: Description::default(),
        }
    }

    fn outcome(&mut self, order: CommitOrder, committed: bool) -> &[u8] {
        Outcome { transaction: self.transaction, committed }.write(&mut self.records);
        seal(order, &mut self.records);
        &self.records
    }
}

impl Recorder for OperationsRecorder {
    fn needs(&self) -> Needs {
        Needs { operations: true, ..Needs::default() }
    }

    fn prepare(&mut self, _execution: &Execution<'_>) -> usize {
        0
    }

    fn take_operations(&mut self, order: CommitOrder, workspace: &Workspace) {
        let Self { images, transaction, records, description } = self;
        *transaction = order;
        records.clear();
        workspace.describe_locked(description, |row| {
            let (before, after) = ((row.before, row.arena), (row.after, row.arena));
            OperationsBuilder::push(
                records,
                order,
                (row.change, *images),
                row.table,
                (before, after),
                row.changed,
            );
        });
    }

    fn operations(&self) -> &[u8] {
        &self.records
    }

    fn committed<'a>(&'a mut self, stamp: Stamp, _call: &'a mut Vec<u8>) -> &'a [u8] {
        self.outcome(stamp.order, true)
    }

    fn aborted(&mut self, order: CommitOrder) -> &[u8] {
        self.outcome(order, false)
    }
}
