//! Numbers of commits: from the clock, or from the buffers of all logs at once.
//! Paper: Poplar §4.2 (Algorithm 1; lines 5–12 are `LogSet::number`), §3.3 (NVM-D: `LogSet::draw`).

use super::{LoggerTag, Numbering};
use crate::buffer::Room;
use crate::content::Stamp;
use crate::error::LogError;
use crate::log_set::LogSet;
use catalog::CommitOrder;
use storage::{Epochs, Slot};

/// What a transaction has read or overwrites.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// The greatest number of it.
    pub last: CommitOrder,
    /// The greatest number of it that the worker's own log does not surely have (`LoggerTag::has_alone`).
    pub foreign: CommitOrder,
}

impl LogSet {
    /// Where the numbers of commits come from.
    #[inline]
    pub fn numbering(&self) -> Numbering {
        self.numbering
    }

    /// Returns a number that no transaction so far is above, and makes it one that can be waited for.
    pub fn newest(&self, epochs: &Epochs) -> CommitOrder {
        let drawn = CommitOrder(epochs.next_order().0 - 1);
        let newest = match self.numbering {
            Numbering::Clock => drawn,
            Numbering::Logs | Numbering::LogsAndReads => {
                self.logs.iter().fold(drawn, |greatest, own| greatest.max(own.log.newest()))
            }
        };
        self.logs.iter().for_each(|own| own.log.expect(newest));
        newest
    }

    /// Draws the number of a definition: above all earlier numbers, while no other transaction runs.
    pub(crate) fn draw_above_all(&self, worker: Slot, epochs: &Epochs) -> CommitOrder {
        match self.numbering {
            Numbering::Clock => epochs.draw(),
            Numbering::Logs | Numbering::LogsAndReads => {
                self.draw(worker, CommitOrder(epochs.next_order().0 - 1))
            }
        }
    }

    /// Draws a worker's next number from the logs, above `floor`; its record follows, or `undraw`.
    pub fn draw(&self, worker: Slot, floor: CommitOrder) -> CommitOrder {
        let latched: Vec<_> = self.logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
        let greatest = latched.iter().map(|own| own.number()).max().unwrap_or_default();
        let number = CommitOrder(greatest.max(floor).0 + 1);
        for own in &latched {
            own.raise(number);
            own.begin_draw(number);
        }
        number
    }

    /// The record of the number that was drawn last will never come.
    pub fn undraw(&self, worker: Slot) {
        self.logs.iter().for_each(|own| own.log.buffer(worker).latch().end_draw());
    }

    /// The logger of a worker, where its numbers name it: where there is one log, as what counts must be in all of them.
    pub fn tag(&self, worker: Slot) -> Option<LoggerTag> {
        match &*self.logs {
            [own] if self.numbering == Numbering::Logs => own.log.tag(worker),
            _ => None,
        }
    }

    /// Takes a worker's next number from the logs, above what was observed and above `floor`, and with it room for the records;
    /// `bytes` tells how long that of each log is. Paper: Poplar Algorithm 1, lines 5–12.
    pub fn number(
        &self,
        (worker, tag): (Slot, Option<LoggerTag>),
        (observed, floor): (Observed, CommitOrder),
        bytes: impl Fn(usize) -> usize,
        rooms: &mut Vec<Room>,
    ) -> (Stamp, Result<(), LogError>) {
        // What is durable now is so in every recovery; with logs to compare all that counts must be in all of them.
        let defined = self.defined();
        let alone = self.logs.len() == 1 && self.logs[0].log.durable() >= observed.foreign.max(defined);
        let above = observed.last.max(defined).max(floor);
        let next = |greatest: CommitOrder| match tag {
            Some(tag) => tag.above(greatest.max(above), alone),
            None => CommitOrder(greatest.max(above).0 + 1),
        };
        loop {
            rooms.clear();
            let order = match &*self.logs {
                [own] => {
                    let latched = own.log.buffer(worker).latch();
                    rooms.extend(latched.take_room(bytes(0)));
                    latched.raise(next(latched.number()))
                }
                logs => {
                    let latched: Vec<_> = logs.iter().map(|own| own.log.buffer(worker).latch()).collect();
                    let greatest = latched.iter().map(|own| own.number()).max().unwrap_or_default();
                    let order = next(greatest);
                    latched.iter().for_each(|own| {
                        own.raise(order);
                    });
                    if latched.iter().enumerate().all(|(place, own)| own.has_room(bytes(place))) {
                        let all = latched.iter().enumerate();
                        rooms.extend(all.filter_map(|(place, own)| own.take_room(bytes(place))));
                    }
                    order
                }
            };
            let stamp = Stamp { order, alone };
            if rooms.len() == self.logs.len() {
                return (stamp, Ok(()));
            }
            let made = self.logs.iter().try_for_each(|own| own.log.make_room(worker));
            if made.is_err() {
                rooms.clear();
                return (stamp, made);
            }
        }
    }
}
