//! Sequencing by one order: one buffer, one device; a commit is acknowledged when everything ordered before
//! it is durable.
//! Paper: Poplar §6.1 (CENTR). Differs: the LSN is the commit order, which one clock gives, not a place in
//! the file.
//!
//! Invariant: the logger calls an order complete only when every earlier one is in the batch or in earlier
//! batches, or has come to nothing. Held by: `storage`'s model of the clock, and the crash tests of
//! `crates/reprise`.

use super::clock::Clock;
use super::durability::Bounds;
use super::group::{Group, LoggerGroup, Scheme};
use super::numbers::Lsn;
use super::{Entry, InvalidSequencing};
use catalog::CommitOrder;

/// The sequencing `serial`.
pub(super) const SERIAL: Entry = Entry {
    name: "serial",
    numbering: &Clock,
    start: |start| Ok(Box::new(LoggerGroup::start::<Serial>(start)?)),
    refuses: |content, _| content.needs_batches().then_some(InvalidSequencing::EpochOfBatches(content)),
    most_devices: 1,
};

struct Serial;

impl Scheme for Serial {
    fn bounds(group: &Group, logger: usize) -> Bounds {
        let epochs = &group.epochs;
        // Memory is reclaimed by epochs.
        epochs.advance_from(epochs.current());
        group.wait_for(logger, epochs.next_order());
        let completed = Lsn(CommitOrder(group.open_from(None).0 - 1)).order();
        Bounds { raise: CommitOrder(0), complete: Some((completed, completed)) }
    }
}
