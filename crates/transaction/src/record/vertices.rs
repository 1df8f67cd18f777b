//! Coarse dependency records: each call of a batch, with the calls that wait for it. Outside of batches, as a
//! log of commands.
//! Paper: DistDGCC §3.2. Differs: edges are written when the batch has ended, because only then it is known
//! which vertices have records.

use super::command::CommandRecorder;
use super::{EndedBatch, Execution, Needs, Recorder};
use crate::Tables;
use catalog::CommitOrder;
use logging::content::{Stamp, put_vertex, seal};
use storage::Guard;

#[derive(Default)]
pub(super) struct VerticesRecorder {
    command: CommandRecorder,
    /// The records of the calls of the running batch, one after the other.
    calls: Vec<u8>,
    /// The order of each, and where it ends.
    ends: Vec<(CommitOrder, usize)>,
    later: Vec<u32>,
}

impl Recorder for VerticesRecorder {
    fn needs(&self) -> Needs {
        self.command.needs()
    }

    #[inline]
    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        self.command.prepare(execution)
    }

    fn prepared<'a>(&'a mut self, call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        self.command.prepared(call)
    }

    #[inline]
    fn committed<'a>(&'a mut self, stamp: Stamp, call: &'a mut Vec<u8>) -> &'a [u8] {
        self.command.committed(stamp, call)
    }

    fn keep(&mut self, order: CommitOrder, call: &mut Vec<u8>) -> bool {
        debug_assert!(!self.command.is_by_value(), "calls that are logged by value run outside of batches");
        self.calls.extend_from_slice(call);
        self.ends.push((order, self.calls.len()));
        true
    }

    fn end_batch(
        &mut self,
        batch: &dyn EndedBatch,
        _tables: &Tables,
        _guard: &Guard,
        _largest: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let mut from = 0;
        for (order, end) in &self.ends {
            let vertex = (order.0 - batch.first().0) as u32;
            batch.later(vertex, &mut self.later);
            self.later.iter_mut().for_each(|later| *later -= vertex);
            let start = put_vertex(&self.calls[from..*end], &self.later, out);
            seal(*order, &mut out[start..]);
            from = *end;
        }
        let records = self.ends.len();
        self.calls.clear();
        self.ends.clear();
        records
    }
}
