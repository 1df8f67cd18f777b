//! Sequencing by epochs: a commit is acknowledged when every logger has made its epoch durable.
//! Paper: SiloR §4; PACMAN §2.1. Differs: an epoch ends when a logger is ready to write, not by a timer, and
//! the durable epoch is part of the batch that makes it so.
//!
//! Invariant: a logger calls an epoch complete only when none of its workers is in the epoch any more and all
//! their records of it are in the batch or in earlier ones. Held by: `storage`'s model of epochs, and the
//! crash tests of `crates/reprise`.

use super::Entry;
use super::clock::Clock;
use super::durability::Bounds;
use super::group::{Group, LoggerGroup, Scheme};
use catalog::{CommitOrder, Epoch};

/// The sequencing `epoch`.
pub(super) const EPOCH: Entry = Entry {
    name: "epoch",
    numbering: &Clock,
    start: |start| Ok(Box::new(LoggerGroup::start::<Epochwise>(start)?)),
    refuses: |_, _| None,
    most_devices: usize::MAX,
};

struct Epochwise;

impl Scheme for Epochwise {
    fn bounds(group: &Group, logger: usize) -> Bounds {
        let epochs = &group.epochs;
        let ended = epochs.current();
        epochs.advance_from(ended);
        // A running worker leaves an epoch within a microsecond. If it is preempted, the next batch completes
        // the epoch.
        group.wait_for(logger, CommitOrder::first_of(Epoch(ended.0 + 1)));
        let completed = |of| CommitOrder::last_of(Epoch(group.open_from(of).epoch().0 - 1));
        Bounds { raise: CommitOrder(0), complete: Some((completed(Some(logger)), completed(None))) }
    }
}
