//! The rows that a transaction holds, and the transaction that it has to wait for.
//!
//! A transaction holds nothing at first: it is short, and a lost race is cheap to repeat. One that waits for
//! its client between statements holds the rows that it writes; so does one that has lost several races. One
//! that goes on losing holds what it reads, too.
//! Invariant: after the transaction has ended, it holds nothing and stands in no queue. Held by: `waiting.rs`
//! (crates/reprise).

use super::Workspace;
use crate::holds::{Blocker, BuildNameHasher, Holder, Mode};
use procedure::{Conflict, Failure};
use std::collections::HashMap;
use storage::{Handle, Slot};

/// The rows that a transaction holds from the moment on at which it comes to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Holding {
    /// None.
    #[default]
    Nothing,
    /// Those that it writes, or selects FOR UPDATE.
    Written,
    /// Those that it reads.
    Read,
}

/// The name of the lock of a transaction that changes definitions. No record has this address.
const DEFINITIONS: u64 = 1;

/// Waits for a blocker in the middle of an attempt.
pub type WaitInPlace = dyn FnMut(Blocker) -> Result<(), Failure> + Send;

/// What a transaction holds.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) holding: Holding,
    /// Names of locks that it holds, or in whose queue it stands.
    rows: Vec<u64>,
    /// The modes of locks that it holds, where it locks everything.
    modes: HashMap<u64, Mode, BuildNameHasher>,
    /// Its age among the transactions that lock everything; 0 until its first lock.
    age: u64,
    /// Whether other transactions are told of its age.
    has_entered: bool,
    /// The transaction that the last `Conflict::Held` is about.
    blocker: Option<Blocker>,
    /// Whether records name it as their inserter.
    has_inserted: bool,
    /// What waits where the transaction can't be run again.
    waits_in_place: Option<Box<WaitInPlace>>,
    /// Whether the statement in hand fails instead of waiting.
    never_waits: bool,
    /// Whether the last conflict is about a hot row that the statement would only have read.
    pub(crate) was_hot: bool,
    /// Whether the statement in hand reads hot rows without holding them.
    ignores_heat: bool,
}

impl Workspace {
    /// Says which rows the transaction in hand holds from now on. At its end it holds none.
    pub fn hold_rows(&mut self, holding: Holding) {
        self.held.holding = holding;
    }

    /// Says what waits for other transactions where this one can't be run again.
    pub fn wait_in_place_by(&mut self, wait: Option<Box<WaitInPlace>>) {
        self.held.waits_in_place = wait;
    }

    /// Says whether what follows fails with `Conflict::Held` where it would wait in place.
    pub(super) fn set_never_waits(&mut self, never_waits: bool) {
        self.held.never_waits = never_waits;
    }

    /// Whether the transaction waits in the middle of an attempt.
    pub(crate) fn waits_in_place(&self) -> bool {
        self.held.waits_in_place.is_some() && !self.held.never_waits
    }

    /// Whether the attempt has ended since it would have held a hot row that it has only read.
    pub fn was_hot(&self) -> bool {
        self.held.was_hot
    }

    /// Sets whether the next attempt of the statement reads hot rows without holding them. It waits for none
    /// then.
    pub fn ignore_heat(&mut self, ignores: bool) {
        if ignores {
            self.stop_waiting();
        }
        (self.held.ignores_heat, self.held.was_hot) = (ignores, false);
    }

    /// The blocker of the attempt that has ended with `Conflict::Held`.
    pub fn blocker(&self) -> Option<Blocker> {
        self.held.blocker
    }

    /// Gives up the attempt in hand. The rows that it holds stay held, and so does its position in a queue:
    /// the transaction is going to run again.
    pub fn rollback_to_wait(&mut self) {
        let (rows, blocker) = (std::mem::take(&mut self.held.rows), self.held.blocker.take());
        let modes = std::mem::take(&mut self.held.modes);
        let (age, has_entered) = (self.held.age, std::mem::take(&mut self.held.has_entered));
        self.rollback();
        (self.held.rows, self.held.blocker, self.held.modes) = (rows, blocker, modes);
        (self.held.age, self.held.has_entered) = (age, has_entered);
    }

    /// The statement in hand has been undone since another transaction holds a row. Where an earlier
    /// statement has read that row, it is hot from now on.
    pub fn heat_blocker(&self) {
        if let Some(Blocker::Lock { name: address, .. }) = self.held.blocker
            && self.reads.iter().any(|read| read.record.address() == address)
        {
            self.tables.holds.heat.raise(address);
        }
    }

    /// Waits for no transaction any longer. What the transaction holds stays held.
    pub fn stop_waiting(&mut self) {
        if self.held.blocker.take().is_some() {
            self.tables.holds.stop_waiting(self.worker.slot());
        }
    }

    /// Holds nothing any longer, and stands in no queue.
    #[inline]
    pub fn release_holds(&mut self) {
        self.stop_waiting();
        self.release_holds_from(0);
        self.held.modes.clear();
        self.held.age = 0;
        if std::mem::take(&mut self.held.has_entered) {
            self.tables.holds.leave(self.worker.slot());
        }
    }

    /// Holds nothing any longer but the definitions, if it holds them, and waits for nothing else. The
    /// transaction does not run.
    pub fn release_rows(&mut self) {
        let has_definitions = self.held.rows.contains(&DEFINITIONS);
        self.held.rows.retain(|name| *name != DEFINITIONS);
        if self.held.blocker != Some(Blocker::Lock { name: DEFINITIONS, mode: Mode::EXCLUSIVE }) {
            self.stop_waiting();
        }
        let blocker = self.held.blocker.take();
        self.release_holds();
        self.held.blocker = blocker;
        if has_definitions {
            self.held.rows.push(DEFINITIONS);
        }
    }

    /// Holds nothing any longer but the row that it waits for, once that is its own. The transaction is going
    /// to run again, at the same age.
    pub fn release_all_but_awaited(&mut self) {
        let (blocker, age) = (self.held.blocker, self.held.age);
        self.release_holds();
        (self.held.blocker, self.held.age) = (blocker, age);
        if let Some(Blocker::Lock { name: address, .. }) = blocker {
            self.held.rows.push(address);
        }
    }

    /// Says that the transaction, which does not run, is going to wait for another one. It may be given the
    /// lock that it waits for, and lets it go with all that it holds.
    pub fn will_wait_for(&mut self, blocker: Blocker) {
        self.held.blocker = Some(blocker);
        if let Blocker::Lock { name, .. } = blocker
            && !self.held.rows.contains(&name)
        {
            self.held.rows.push(name);
        }
    }

    /// Lets a lock go that the transaction was refused: it does not wait for it.
    pub(super) fn forget_blocker(&mut self) {
        if let Some(Blocker::Lock { name, .. }) = self.held.blocker.take()
            && self.held.rows.last() == Some(&name)
        {
            self.held.rows.pop();
        }
    }

    /// Lets the rows go that it holds since it held a number of rows.
    #[inline]
    pub(super) fn release_holds_from(&mut self, count: usize) {
        let (holds, worker) = (&self.tables.holds, self.worker.slot());
        for address in self.held.rows.drain(count.min(self.held.rows.len())..) {
            holds.release(address, worker);
        }
    }

    pub(super) fn count_holds(&self) -> usize {
        self.held.rows.len()
    }

    /// The transaction has ended: no record names it, and it holds nothing.
    #[inline]
    pub(super) fn end_holding(&mut self) {
        if std::mem::take(&mut self.held.has_inserted) {
            self.tables.holds.ended(self.worker.slot());
        }
        self.release_holds();
        self.held.holding = Holding::Nothing;
    }

    /// Notes that the indexes hold a record that names the transaction.
    #[inline]
    pub(super) fn note_insert(&mut self) {
        self.held.has_inserted = true;
    }

    /// Returns whether a row is hot, and the statement in hand holds the hot rows that it reads.
    pub(crate) fn heeds_heat_of(&self, row: Handle) -> bool {
        !self.held.ignores_heat && self.tables.holds.heat.is_hot(row.address())
    }

    /// Asks the discipline before the transaction reads a row that it has not written.
    #[inline]
    pub(super) fn before_read(&mut self, row: Handle) -> Result<(), Failure> {
        // Most transactions neither hold rows nor wait in place.
        if self.held.holding == Holding::Nothing && self.held.waits_in_place.is_none() || self.is_searching()
        {
            return Ok(());
        }
        self.discipline.read(self, row)
    }

    /// Records that the transaction has inserted are gone: transactions that wait for them look again.
    pub(super) fn inserts_ended(&mut self) {
        self.tables.holds.ended(self.worker.slot());
    }

    /// Makes sure that no other transaction holds a row.
    #[inline]
    pub(crate) fn check_foreign(&mut self, row: Handle) -> Result<(), Failure> {
        while self.tables.holds.is_foreign(row.address(), self.worker.slot()) {
            self.blocked_by_lock(row.address(), Mode::EXCLUSIVE)?;
        }
        Ok(())
    }

    /// Makes sure that no other transaction holds a row in order to write it.
    pub(crate) fn check_foreign_writer(&mut self, row: Handle) -> Result<(), Failure> {
        while self.tables.holds.is_foreign_in(row.address(), Mode::SHARED, self.worker.slot()) {
            self.blocked_by_lock(row.address(), Mode::SHARED)?;
        }
        Ok(())
    }

    #[cold]
    fn blocked_by_lock(&mut self, name: u64, mode: Mode) -> Result<(), Failure> {
        // From its queue it may be given the lock.
        self.held.rows.push(name);
        self.blocked_by(Blocker::Lock { name, mode })
    }

    /// # Errors
    /// `Conflict::Held`, unless the transaction waits in place.
    fn blocked_by(&mut self, blocker: Blocker) -> Result<(), Failure> {
        self.held.blocker = Some(blocker);
        self.held.was_hot = false;
        match &mut self.held.waits_in_place {
            Some(wait) if !self.held.never_waits => wait(blocker),
            _ => Err(Conflict::Held.into()),
        }
    }

    /// Holds a row for the transaction.
    pub(crate) fn take_hold(&mut self, row: Handle, mode: Mode) -> Result<(), Failure> {
        self.take_lock(row.address(), mode)
    }

    /// Holds the definitions for the transaction, also before its begin: it alone changes them until it ends.
    ///
    /// # Errors
    /// `Conflict::Held`: another transaction changes definitions.
    pub fn hold_definitions(&mut self) -> Result<(), Failure> {
        self.set_never_waits(true);
        let held = self.take_lock(DEFINITIONS, Mode::EXCLUSIVE);
        self.set_never_waits(false);
        held
    }

    /// Lets the definitions go after a wait that was given up: they may have become this transaction's.
    pub fn let_definitions_go(&mut self) {
        self.stop_waiting();
        self.held.rows.retain(|name| *name != DEFINITIONS);
        self.tables.holds.release(DEFINITIONS, self.worker.slot());
    }

    /// Locks a granule for the transaction, unless it has done so.
    pub(crate) fn acquire(&mut self, name: u64, mode: Mode) -> Result<(), Failure> {
        let held = self.held.modes.get(&name).copied();
        if held.is_some_and(|held| held.covers(mode)) {
            return Ok(());
        }
        if !self.held.has_entered {
            self.held.age = self.tables.holds.enter(self.worker.slot(), self.held.age);
            self.held.has_entered = true;
        }
        self.take_lock(name, mode)?;
        self.held.modes.insert(name, held.map_or(mode, |held| held.and(mode)));
        Ok(())
    }

    fn take_lock(&mut self, name: u64, mode: Mode) -> Result<(), Failure> {
        loop {
            match self.tables.holds.hold(name, mode, self.worker.slot()) {
                Holder::Newly => self.held.rows.push(name),
                Holder::Already => {}
                Holder::Foreign => {
                    self.blocked_by_lock(name, mode)?;
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Fails an insert that meets a record which another transaction has inserted; where the transaction
    /// waits in place, after that one has ended.
    pub(super) fn blocked_by_inserter(&mut self, record: Handle, inserter: Slot) -> Failure {
        // In this order: the transaction of this number, or a later one, is the inserter.
        let number = self.tables.holds.number(inserter);
        if inserter == self.worker.slot() || self.record(record).stable_state().inserter() != Some(inserter) {
            return Conflict::Insert.into();
        }
        let waited = self.blocked_by(Blocker::Transaction { worker: inserter, number });
        waited.err().unwrap_or(Conflict::Insert.into())
    }
}
