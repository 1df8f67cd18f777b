//! The definitions that sessions work with, and how they change.
//!
//! A change waits until no transaction is running and no snapshot open, then makes new definitions; sessions
//! notice by a number.
//! Invariant: a transaction runs from begin to end under one version of the definitions. A session announces
//! itself as active, then looks at the version, and opens a snapshot only after that; a change raises the
//! flag, then waits until nobody is active, and looks for snapshots. Held by:
//! `crates/reprise/tests/suite/definitions.rs`.

use crate::Error;
use logging::LogError;
use logging::content::StatementRecord;
use procedure::{Effect, Interrupts, Procedure, SqlError};
use sql::Schema;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use storage::{Epochs, Slot, Worker};
use transaction::{Applying, Tables};

/// For this long at a time other transactions are kept from beginning while a definition waits for those that
/// are open.
const ROUND: Duration = Duration::from_millis(20);
/// How long a change waits for transactions to end.
pub(crate) struct Patience {
    /// What ends the statement from outside.
    pub(crate) interrupts: Interrupts,
    pub(crate) limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { interrupts: Interrupts::default(), limit: Duration::from_secs(10) }
    }
}

/// One version of all definitions.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) schema: Schema,
    pub(crate) tables: Tables,
    pub(crate) procedures: HashMap<String, Arc<Procedure>>,
}

impl Version {
    pub(crate) fn new(number: u64, schema: Schema, tables: Tables) -> Self {
        let procedures = schema.procedures();
        let procedures = procedures.map(|own| (own.name.clone(), Arc::clone(own))).collect();
        Self { number, schema, tables, procedures }
    }
}

/// The number that no version has: rows were loaded that no checkpoint holds.
const UNSAVED: u64 = u64::MAX;

/// While it lives, sessions wait before they begin a transaction.
struct Changing<'a>(&'a Definitions);

impl<'a> Changing<'a> {
    fn begin(definitions: &'a Definitions) -> Self {
        definitions.changing.store(true, Ordering::SeqCst);
        Self(definitions)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changing.store(false, Ordering::SeqCst);
        let waiters = std::mem::take(&mut *hold(&self.0.waiters));
        waiters.into_iter().for_each(Waker::wake);
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The current version, and the flag that one is being made.
#[derive(Debug)]
pub(crate) struct Definitions {
    /// Locked for a moment only.
    current: Mutex<Arc<Version>>,
    /// The number of the current version, or `UNSAVED`. Changed while `making` is locked.
    number: AtomicU64,
    changing: AtomicBool,
    /// Held by the session that makes a version.
    making: Mutex<()>,
    /// Told when no version is being made any more.
    waiters: Mutex<Vec<Waker>>,
}

/// Loaded rows are not logged: a transaction that reads or writes them could not be replayed after a crash.
fn unsaved_rows() -> SqlError {
    let error = SqlError::new("55000", "tables hold loaded rows that no checkpoint holds");
    error.with_hint("End all loaders and take a checkpoint.")
}

impl Definitions {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            number: AtomicU64::new(version.number),
            current: Mutex::new(Arc::new(version)),
            changing: AtomicBool::new(false),
            making: Mutex::default(),
            waiters: Mutex::default(),
        }
    }

    /// The current version, also while the next one is being made.
    pub(crate) fn current(&self) -> Arc<Version> {
        Arc::clone(&hold(&self.current))
    }

    /// Whether no version is being made; otherwise `waker` is woken when that may have changed.
    pub(crate) fn poll_made(&self, waker: &Waker) -> Poll<()> {
        if !self.is_changing() {
            return Poll::Ready(());
        }
        let mut waiters = hold(&self.waiters);
        if !waiters.iter().any(|own| own.will_wake(waker)) {
            waiters.push(waker.clone());
        }
        // Whoever lowers the flag after this finds the waker.
        if self.is_changing() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Whether a session that is active now may go on with a version.
    #[inline]
    pub(crate) fn is_current(&self, number: u64) -> bool {
        // ORDERING: SeqCst after the session's `enter`: either this sees the flag, or the change sees the
        // session.
        !self.changing.load(Ordering::SeqCst) && self.number.load(Ordering::SeqCst) == number
    }

    /// Whether a version is being made, or a session waits for the others to be quiet to make one.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst)
    }

    /// Makes a new version while no other session is active. `make` gives what it consists of, or nothing
    /// when there is no need. Open transactions are waited for until the statement's limit; other sessions go
    /// on in between.
    ///
    /// # Errors
    /// What `make` fails with; `55P03` when transactions stay open.
    pub(crate) fn exclusively(
        &self,
        slot: Slot,
        epochs: &Epochs,
        patience: &Patience,
        make: impl FnOnce(&Arc<Version>) -> Result<Option<(Schema, Tables)>, Error>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            let making = hold(&self.making);
            let current = self.current();
            let changing = Changing::begin(self);
            let round = Instant::now();
            // In this order: who leaves a snapshot open has opened it while it was active.
            let is_quiet = || epochs.is_quiet(slot) && !current.tables.snapshots.is_open();
            while !is_quiet() && round.elapsed() < ROUND {
                std::thread::yield_now();
            }
            if !is_quiet() {
                drop((changing, making));
                patience.interrupts.check()?;
                if begun.elapsed() > patience.limit {
                    let error =
                        SqlError::new("55P03", "definitions cannot change while transactions are open");
                    let hint = "End the transactions that are idle, and try again.";
                    return Err(error.with_hint(hint).into());
                }
                std::thread::sleep(ROUND);
                continue;
            }
            if let Some((schema, tables)) = make(&current)? {
                let number = current.number + 1;
                let made = Arc::new(Version::new(number, schema, tables));
                *hold(&self.current) = Arc::clone(&made);
                self.number.store(number, Ordering::SeqCst);
                drop((changing, making));
                // Freeing rows takes long, so it begins when others go on already.
                current.tables.give_way_to(&made.tables);
            }
            return Ok(());
        }
    }

    /// Waits until no transaction is running; from then on none begins before `end_load`.
    ///
    /// # Errors
    /// `55P03` when transactions stay open.
    pub(crate) fn begin_load(&self, slot: Slot, epochs: &Epochs) -> Result<(), Error> {
        if self.number.load(Ordering::SeqCst) == UNSAVED {
            return Ok(());
        }
        self.exclusively(slot, epochs, &Patience::default(), |_| {
            self.number.store(UNSAVED, Ordering::SeqCst);
            Ok(None)
        })
    }

    /// A checkpoint holds all loaded rows: transactions may begin.
    pub(crate) fn end_load(&self) {
        let _making = hold(&self.making);
        self.number.store(self.current().number, Ordering::SeqCst);
    }

    /// Returns an error while loaded rows are not in a checkpoint.
    pub(crate) fn check_saved(&self) -> Result<(), Error> {
        match self.number.load(Ordering::SeqCst) {
            UNSAVED => Err(unsaved_rows().into()),
            _ => Ok(()),
        }
    }

    /// What a statement asks for; the current definitions say so.
    pub(crate) fn effect_of(&self, statement: &str) -> Result<Effect, Error> {
        Ok(self.current().schema.apply(statement)?.1)
    }

    /// Applies a definition while no other session is active. `worker` belongs to the session that asks;
    /// `prepare` is called before the data change, `log` writes the statement's record once it can't fail any
    /// more. A statement that changes nothing, as applications send them whenever they start, is neither
    /// logged nor remembered.
    pub(crate) fn change(
        &self,
        statement: &StatementRecord<'_>,
        worker: &mut Worker,
        patience: &Patience,
        prepare: impl FnOnce(&Effect, &Tables) -> Result<(), Error>,
        log: impl FnOnce(Slot) -> Result<(), LogError>,
    ) -> Result<(), Error> {
        let (slot, epochs) = (worker.slot(), self.current().tables.epochs.clone());
        self.exclusively(slot, &epochs, patience, |current| {
            self.check_saved()?;
            let (schema, effect) = current.schema.apply(statement.text)?;
            if effect.is_nothing() && schema.defines_the_same_as(&current.schema) {
                return Ok(None);
            }
            prepare(&effect, &current.tables)?;
            let mut tables = current.tables.clone();
            let how = Applying { timestamp_us: statement.timestamp_us, seed: statement.seed, is_new: true };
            tables.apply(&effect, how, &worker.enter())?;
            log(slot)?;
            Ok(Some((schema, tables)))
        })
    }
}

/// No procedure of that name.
pub(crate) fn unknown_procedure(name: &str, version: &Version) -> SqlError {
    let error = SqlError::new("42883", format!("procedure {name} does not exist"));
    let mut known: Vec<_> = version.procedures.keys().map(String::as_str).collect();
    known.sort_unstable();
    if known.is_empty() { error } else { error.with_hint(format!("There are: {}.", known.join(", "))) }
}
