//! Commands: what was asked; or, where the session says so, the columns that changed.

use super::columns::ColumnsRecorder;
use super::{Ran, Recorder};
use logging::content::{Stamp, seal};

#[derive(Default)]
pub(super) struct CommandRecorder {
    by_value: bool,
    columns: ColumnsRecorder,
}

impl Recorder for CommandRecorder {
    fn wants_asked(&self) -> bool {
        true
    }

    #[inline]
    fn prepare(&mut self, ran: &Ran<'_>) -> usize {
        self.by_value = ran.by_value;
        if ran.by_value { self.columns.prepare(ran) } else { ran.asked.len() }
    }

    fn prepared<'a>(&'a mut self, asked: &'a mut Vec<u8>) -> Option<&'a mut Vec<u8>> {
        if self.by_value { self.columns.prepared(asked) } else { Some(asked) }
    }

    #[inline]
    fn committed<'a>(&'a mut self, stamp: Stamp, asked: &'a mut Vec<u8>) -> &'a [u8] {
        if self.by_value {
            return self.columns.committed(stamp, asked);
        }
        seal(stamp, asked);
        asked
    }
}
