//! Commands: what was asked; or, where the session says so, the columns that changed.

use super::columns::ColumnsRecorder;
use super::{Execution, Needs, Recorder};
use logging::content::{Stamp, seal};

#[derive(Default)]
pub(super) struct CommandRecorder {
    by_value: bool,
    columns: ColumnsRecorder,
}

impl CommandRecorder {
    /// Returns whether the prepared record is of the rows that the transaction writes.
    pub(super) fn is_by_value(&self) -> bool {
        self.by_value
    }
}

impl Recorder for CommandRecorder {
    fn needs(&self) -> Needs {
        Needs { calls: true, ..Needs::default() }
    }

    #[inline]
    fn prepare(&mut self, execution: &Execution<'_>) -> usize {
        self.by_value = execution.by_value;
        if execution.by_value { self.columns.prepare(execution) } else { execution.call.len() }
    }

    fn holds_call(&self) -> bool {
        !self.by_value
    }

    fn prepared<'a>(&'a mut self, call: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        if self.by_value { self.columns.prepared(call) } else { Some(call) }
    }

    #[inline]
    fn committed<'a>(&'a mut self, stamp: Stamp, call: &'a mut Vec<u8>) -> &'a [u8] {
        if self.by_value {
            return self.columns.committed(stamp, call);
        }
        seal(stamp, call);
        call
    }
}
