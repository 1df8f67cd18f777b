//! Numbers from one clock, drawn before validation: those of `serial` and `epoch`.
//! Paper: Silo §4.2 (the clock's word holds the epoch).

use super::numbering::{Drawn, Footprint, Numbered, Numbering};
use crate::log_set::LogSet;
use catalog::CommitOrder;

#[derive(Debug)]
pub(crate) struct Clock;

impl Numbering for Clock {
    fn can_draw_ahead(&self) -> bool {
        true
    }

    #[inline]
    fn before_validation(&self, by: Numbered<'_>, _footprint: &dyn Footprint) -> Drawn {
        Drawn::Number(by.epochs.draw())
    }

    fn of_definition(&self, by: Numbered<'_>) -> CommitOrder {
        by.epochs.draw()
    }

    fn newest(&self, _logs: &LogSet, clock: CommitOrder) -> CommitOrder {
        clock
    }
}
