//! Sequencing by epochs: a commit is acknowledged when every logger has made its epoch durable.
//! Paper: SiloR §4; PACMAN §2.1. Differs: an epoch ends when a logger is ready to write, not by a timer, and
//! the durable epoch is part of the batch that makes it so.
//!
//! Invariant: a logger calls an epoch complete only when no worker that it serves is in it any more, and
//! everything they logged of it is in the batch or in earlier ones. Held by: `storage`'s model of epochs, and
//! the crash tests of `crates/reprise`.

use super::durability::Bounds;
use super::group::{Group, Scheme};
use catalog::{CommitOrder, Epoch};

pub(super) struct Epochwise;

impl Scheme for Epochwise {
    fn bounds(group: &Group, logger: usize) -> Bounds {
        let epochs = &group.epochs;
        let ended = epochs.current();
        epochs.advance_from(ended);
        // Workers leave an epoch within a microsecond, unless they are not running; then the next batch has
        // it.
        group.wait_for(logger, CommitOrder::first_of(Epoch(ended.0 + 1)));
        let completed = |of| CommitOrder::last_of(Epoch(group.open_from(of).epoch().0 - 1));
        Bounds { raise: CommitOrder(0), complete: Some((completed(Some(logger)), completed(None))) }
    }
}
