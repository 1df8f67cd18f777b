//! The definitions that sessions use, and how they change.
//!
//! A change waits until no transaction is running and no snapshot is open. Then it publishes a new version,
//! and sessions find its number at their next transaction. A change of roles and privileges alone does not
//! wait for transactions that read and write rows; an open one finds it at its next statement.
//! Invariant: a transaction runs from begin to end under one version of the tables and routines. A session
//! enters the epochs, then reads the version's number, and opens a snapshot only after that. A change raises
//! the flag, then waits until no other worker is active, and then looks for snapshots. Held by:
//! `crates/reprise/tests/suite/definitions.rs`, `roles.rs`.

use crate::Error;
use catalog::{Deferral, Index, SessionZone};
use logging::content::StatementRecord;
use native::Compiler;
use procedure::{Effect, ForeignKeys, Interrupts, Notice, Procedure, SqlError};
use sql::Schema;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use storage::{Epochs, Slot};
use transaction::{Applying, Tables, Workspace};

/// A change keeps transactions from beginning for at most this time while it waits for open ones; then it
/// pauses for the same time.
const ROUND: Duration = Duration::from_millis(20);

/// The limits of a change that waits for transactions to end.
pub(crate) struct Patience {
    /// Cancellation and deadline of the statement.
    interrupts: Interrupts,
    begun: Instant,
    limit: Duration,
}

impl Patience {
    /// Returns the limits of a wait that begins now. By default its limit is 10 s.
    pub(crate) fn new(interrupts: Interrupts, limit: Option<Duration>) -> Self {
        Self { interrupts, begun: Instant::now(), limit: limit.unwrap_or(Duration::from_secs(10)) }
    }

    /// Waits for a moment.
    ///
    /// # Errors
    /// `55P03`: the limit is over; `57014`: the statement was cancelled.
    pub(crate) fn pause(&self) -> Result<(), SqlError> {
        self.interrupts.check()?;
        if self.begun.elapsed() > self.limit {
            let error = SqlError::new("55P03", "definitions cannot change while transactions are open");
            return Err(error.with_hint("End idle transactions, and try again."));
        }
        std::thread::sleep(ROUND);
        Ok(())
    }
}

/// Most definitions of a version for roles in other zones than UTC that are kept.
const MOST_ZONES: usize = 64;
/// Most definitions of a version for sessions with temporary schemas that are kept.
const MOST_SESSIONS: usize = 64;

/// The role, the zone and the temporary schema of a session.
type SessionKey = (u32, Option<String>, Arc<str>);

/// What the definitions that a session uses depend on.
#[derive(Clone, Copy)]
pub(crate) struct Viewpoint<'a> {
    pub(crate) role: u32,
    /// The zone of literals; `None` is UTC.
    pub(crate) zone: Option<&'a Arc<SessionZone>>,
    /// The temporary schema; `None` if the session has none.
    pub(crate) temporary: Option<&'a Arc<str>>,
}

/// One version of all definitions.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u64,
    /// The number of the version that made the tables and routines. Versions with the same one differ in
    /// roles and privileges alone.
    pub(crate) objects: u64,
    pub(crate) schema: Schema,
    pub(crate) tables: Tables,
    pub(crate) procedures: HashMap<String, Arc<Procedure>>,
    /// The definitions as other roles than the first superuser use them, as far as they were asked for.
    by_role: Mutex<HashMap<u32, Arc<Schema>>>,
    /// The definitions as roles use them in other zones than UTC, as far as they were asked for.
    by_zone: Mutex<HashMap<(u32, String), Arc<Schema>>>,
    /// The definitions as sessions with temporary schemas use them, as far as they were asked for.
    by_session: Mutex<HashMap<SessionKey, Arc<Schema>>>,
    /// All foreign keys and deferrable keys, if some can be checked at the end of a transaction.
    pub(crate) deferrable: Option<Arc<ForeignKeys>>,
}

impl Version {
    pub(crate) fn new(number: u64, schema: Schema, tables: Tables) -> Self {
        let procedures = schema.procedures();
        let procedures = procedures.map(|known| (known.name.clone(), Arc::clone(known))).collect();
        let can_be_deferred = schema.catalog().tables().any(|table| {
            table.foreign_keys.iter().any(|key| key.deferral != Deferral::Never)
                || table.indexes.iter().any(Index::is_deferrable)
        });
        let deferrable = schema.foreign_keys().filter(|_| can_be_deferred).cloned();
        let (by_role, by_zone, by_session) = Default::default();
        let objects = number;
        Self { number, objects, schema, tables, procedures, by_role, by_zone, by_session, deferrable }
    }

    /// Calls a function with the definitions as a session uses them.
    pub(crate) fn with_schema_of<T>(&self, viewpoint: Viewpoint<'_>, act: impl FnOnce(&Schema) -> T) -> T {
        let Viewpoint { role, zone, temporary } = viewpoint;
        let Some(temporary) = temporary else { return self.with_schema_in_zone(role, zone, act) };
        let key = (role, zone.map(|zone| zone.name().to_owned()), Arc::clone(temporary));
        let known = hold(&self.by_session).get(&key).cloned();
        let schema = known.unwrap_or_else(|| {
            let made = self.with_schema_in_zone(role, zone, |schema| schema.for_session(temporary));
            let (made, mut by_session) = (Arc::new(made), hold(&self.by_session));
            if by_session.len() >= MOST_SESSIONS {
                by_session.clear();
            }
            by_session.insert(key, Arc::clone(&made));
            made
        });
        act(&schema)
    }

    /// As `with_schema_of`, for a session without a temporary schema.
    fn with_schema_in_zone<T>(
        &self,
        role: u32,
        zone: Option<&Arc<SessionZone>>,
        act: impl FnOnce(&Schema) -> T,
    ) -> T {
        let Some(zone) = zone else { return self.with_schema_of_role(role, act) };
        let key = (role, zone.name().to_owned());
        let known = hold(&self.by_zone).get(&key).cloned();
        let schema = known.unwrap_or_else(|| {
            let made = self.with_schema_of_role(role, |schema| schema.in_zone(Some(Arc::clone(zone))));
            let (made, mut by_zone) = (Arc::new(made), hold(&self.by_zone));
            if by_zone.len() >= MOST_ZONES {
                by_zone.clear();
            }
            by_zone.insert(key, Arc::clone(&made));
            made
        });
        act(&schema)
    }

    fn with_schema_of_role<T>(&self, role: u32, act: impl FnOnce(&Schema) -> T) -> T {
        if role == Schema::first_superuser() {
            return act(&self.schema);
        }
        let known = hold(&self.by_role).get(&role).cloned();
        let schema = known.unwrap_or_else(|| {
            let made = Arc::new(self.schema.acting_as(role));
            hold(&self.by_role).insert(role, Arc::clone(&made));
            made
        });
        act(&schema)
    }

    /// Compiles the procedures that are not compiled yet.
    fn compile(&self, compiler: &Compiler) {
        self.procedures.values().for_each(|procedure| compiler.procedure(procedure));
    }
}

/// A number that no version has. It stands in `Definitions::number` while no checkpoint holds the loaded
/// rows, so no session may use its version.
const UNSAVED: u64 = u64::MAX;

/// The raised flag: sessions wait before they begin a transaction while it lives.
struct Changing<'a>(&'a Definitions);

impl<'a> Changing<'a> {
    fn begin(definitions: &'a Definitions) -> Self {
        definitions.changing.store(true, Ordering::SeqCst);
        Self(definitions)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if self.0.is_kept() {
            return;
        }
        self.0.changing.store(false, Ordering::SeqCst);
        let waiters = std::mem::take(&mut *hold(&self.0.waiters));
        waiters.into_iter().for_each(Waker::wake);
    }
}

/// Locks a mutex, also one that a thread held when it panicked.
pub(crate) fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The transactions that must have ended before a version is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// All of them.
    All,
    /// None: the version differs in roles and privileges alone, and its maker holds the definitions.
    Nothing,
}

/// The current version of the definitions, and the flag that a next one is being made.
#[derive(Debug)]
pub(crate) struct Definitions {
    /// Compiles the procedures of each version.
    compiler: Compiler,
    /// Locked only for copying or replacing the reference.
    current: Mutex<Arc<Version>>,
    /// The number of the current version, or `UNSAVED`. Changed while `making` is locked.
    number: AtomicU64,
    changing: AtomicBool,
    /// The worker whose transaction keeps all other transactions from beginning, plus 1; 0 if there is none.
    /// Changed while `making` is locked. The flag stays raised meanwhile.
    keeper: AtomicUsize,
    /// Held by the session that makes a version.
    making: Mutex<()>,
    /// Woken when the flag is lowered.
    waiters: Mutex<Vec<Waker>>,
}

/// Returns the error of a transaction before the checkpoint of loaded rows. They are not logged, so a
/// transaction that reads or writes them could not be replayed after a crash.
fn unsaved_rows() -> SqlError {
    let error = SqlError::new("55000", "tables hold loaded rows that are in no checkpoint");
    error.with_hint("End all loaders and take a checkpoint.")
}

impl Drop for Definitions {
    fn drop(&mut self) {
        self.compiler.stop();
    }
}

impl Definitions {
    pub(crate) fn new(version: Version, compiler: Compiler) -> Self {
        version.compile(&compiler);
        Self {
            compiler,
            number: AtomicU64::new(version.number),
            current: Mutex::new(Arc::new(version)),
            changing: AtomicBool::new(false),
            keeper: AtomicUsize::new(0),
            making: Mutex::default(),
            waiters: Mutex::default(),
        }
    }

    /// Returns the compiler of procedures and expressions.
    pub(crate) fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Returns once all procedures are compiled that were defined before.
    pub(crate) fn wait_for_code(&self) {
        self.compiler.wait();
    }

    /// Returns the current version, also while the next one is being made.
    pub(crate) fn current(&self) -> Arc<Version> {
        Arc::clone(&hold(&self.current))
    }

    /// Returns `Ready` when no version is being made. Otherwise `waker` is woken when that may have changed.
    pub(crate) fn poll_made(&self, waker: &Waker) -> Poll<()> {
        if !self.is_changing() {
            return Poll::Ready(());
        }
        let mut waiters = hold(&self.waiters);
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
        // A change that lowers the flag after this finds the waker.
        if self.is_changing() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Returns whether the calling session, which has entered the epochs, may use a version.
    #[inline]
    pub(crate) fn is_current(&self, number: u64) -> bool {
        // ORDERING: SeqCst pairs with the store in `Changing::begin` and the change's `is_quiet`. It comes
        // after the session's `enter`, so either this sees the flag, or the change sees the session.
        !self.changing.load(Ordering::SeqCst) && self.number.load(Ordering::SeqCst) == number
    }

    /// Returns whether a version is being made, or a change waits for transactions to end.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst)
    }

    /// Returns whether a transaction keeps all other ones from beginning.
    fn is_kept(&self) -> bool {
        self.keeper.load(Ordering::SeqCst) != 0
    }

    fn is_kept_by_another(&self, slot: Slot) -> bool {
        let keeper = self.keeper.load(Ordering::SeqCst);
        keeper != 0 && keeper != slot.0 + 1
    }

    /// Keeps all other transactions from beginning, once no other session is active, until `readmit`. The
    /// worker's transaction is open.
    ///
    /// # Errors
    /// As `exclusively`.
    pub(crate) fn keep(&self, slot: Slot, epochs: &Epochs, patience: &Patience) -> Result<(), Error> {
        self.exclusively(slot, epochs, patience, |_| {
            self.keeper.store(slot.0 + 1, Ordering::SeqCst);
            Ok(None)
        })
    }

    /// Lets other transactions begin again.
    pub(crate) fn readmit(&self) {
        let _making = hold(&self.making);
        self.keeper.store(0, Ordering::SeqCst);
        drop(Changing(self));
    }

    /// Returns once no version is being made.
    pub(crate) fn wait_for_version(&self) {
        drop(hold(&self.making));
    }

    /// Returns the current version if it differs from one in roles and privileges alone.
    pub(crate) fn with_objects_of(&self, version: &Version) -> Option<Arc<Version>> {
        if self.number.load(Ordering::SeqCst) == version.number {
            return None;
        }
        Some(self.current()).filter(|current| current.objects == version.objects)
    }

    /// Makes a new version while no other transaction is open. Waits for open transactions up to the limit of
    /// `patience`; other sessions run transactions between the rounds of the wait.
    ///
    /// # Errors
    /// As `in_one_round`; `55P03`: transactions stay open; `57014`: the statement was cancelled.
    pub(crate) fn exclusively(
        &self,
        slot: Slot,
        epochs: &Epochs,
        patience: &Patience,
        mut make: impl FnMut(&Arc<Version>) -> Result<Option<(Schema, Tables)>, Error>,
    ) -> Result<(), Error> {
        while !self.in_one_round(slot, epochs, |_| Awaits::All, &mut make)? {
            patience.pause()?;
        }
        Ok(())
    }

    /// Makes a new version once none of the transactions is open that `awaits` returns. `make` returns the
    /// schema and tables of the version, or `None` if nothing changes. Waits for at most `ROUND`, and returns
    /// false if a transaction is still open then.
    ///
    /// # Errors
    /// The error of `make`.
    fn in_one_round(
        &self,
        slot: Slot,
        epochs: &Epochs,
        awaits: impl FnOnce(&Version) -> Awaits,
        make: impl FnOnce(&Arc<Version>) -> Result<Option<(Schema, Tables)>, Error>,
    ) -> Result<bool, Error> {
        let making = hold(&self.making);
        let current = self.current();
        let changing = Changing::begin(self);
        let (round, awaits) = (Instant::now(), awaits(&current));
        // In this order: a session opens a snapshot only while it is active.
        let is_quiet = || {
            !self.is_kept_by_another(slot)
                && (awaits == Awaits::Nothing || epochs.is_quiet(slot) && !current.tables.snapshots.is_open())
        };
        while !is_quiet() && round.elapsed() < ROUND {
            std::thread::yield_now();
        }
        if !is_quiet() {
            return Ok(false);
        }
        if let Some((schema, tables)) = make(&current)? {
            let number = current.number + 1;
            let mut made = Version::new(number, schema, tables);
            if awaits == Awaits::Nothing {
                made.objects = current.objects;
            }
            let made = Arc::new(made);
            made.compile(&self.compiler);
            *hold(&self.current) = Arc::clone(&made);
            self.number.store(number, Ordering::SeqCst);
            drop((changing, making));
            // Freeing rows takes long, so it begins after other sessions can run again.
            current.tables.give_way_to(&made.tables);
        }
        Ok(true)
    }

    /// Waits for at most `ROUND` until no transaction is running, and returns false if one is running then.
    /// From then on none begins before `end_load`.
    pub(crate) fn begin_load(&self, slot: Slot, epochs: &Epochs) -> Result<bool, Error> {
        if self.number.load(Ordering::SeqCst) == UNSAVED {
            return Ok(true);
        }
        self.in_one_round(
            slot,
            epochs,
            |_| Awaits::All,
            |_| {
                self.number.store(UNSAVED, Ordering::SeqCst);
                Ok(None)
            },
        )
    }

    /// Lets transactions begin, because a checkpoint holds all loaded rows.
    pub(crate) fn end_load(&self) {
        let _making = hold(&self.making);
        self.number.store(self.current().number, Ordering::SeqCst);
    }

    /// Checks that no loaded rows wait for a checkpoint.
    ///
    /// # Errors
    /// `55000`: loaded rows are in no checkpoint.
    pub(crate) fn check_saved(&self) -> Result<(), Error> {
        match self.number.load(Ordering::SeqCst) {
            UNSAVED => Err(unsaved_rows().into()),
            _ => Ok(()),
        }
    }

    /// Applies a statement to the current definitions, if its role may make it. `checks_bodies` is as in
    /// `Making`.
    pub(crate) fn applied(&self, statement: &str, checks_bodies: bool) -> Result<Applied, Error> {
        let base = self.current();
        let (schema, effect) = apply(&base.schema, statement, checks_bodies)?;
        Ok(Applied { base, schema, effect })
    }

    /// Applies a definition as a transaction of `workspace`, while no other session is active; beside other
    /// transactions if it changes roles and privileges alone and `runs_beside`. A new routine
    /// whose body names what does not exist is refused if `checks_bodies`. `prepare` runs before the data
    /// change; `commit` runs last and logs the statement. A statement that changes nothing
    /// makes no version and no record: applications send such statements at each start. Returns the notices;
    /// `None` if transactions are open after a round of waiting.
    /// After an error the transaction may still be running.
    ///
    /// # Errors
    /// 55000: loaded rows are in no checkpoint; the errors of the definition, of `prepare` and of `commit`.
    pub(crate) fn change(
        &self,
        statement: &StatementRecord<'_>,
        Making { checks_bodies, runs_beside, applied }: Making<'_>,
        workspace: &mut Workspace,
        prepare: impl FnOnce(&Effect, &Tables) -> Result<(), Error>,
        commit: impl FnOnce(&mut Workspace) -> Result<(), Error>,
    ) -> Result<Option<Vec<Notice>>, Error> {
        let mut notices = Vec::new();
        let (slot, epochs) = (workspace.worker().slot(), self.current().tables.epochs.clone());
        let awaits = |current: &Version| match runs_beside && changes_rights(&current.schema, statement.text)
        {
            true => Awaits::Nothing,
            false => Awaits::All,
        };
        let is_made = self.in_one_round(slot, &epochs, awaits, |current| {
            self.check_saved()?;
            let known = applied.take().filter(|applied| Arc::ptr_eq(&applied.base, current));
            let (mut schema, effect) = match known {
                Some(Applied { schema, effect, .. }) => (schema, effect),
                None => apply(&current.schema, statement.text, checks_bodies)?,
            };
            notices = schema.take_notices();
            if effect.is_nothing() && schema.defines_the_same_as(&current.schema) {
                return Ok(None);
            }
            prepare(&effect, &current.tables)?;
            let mut tables = current.tables.clone();
            let applying =
                Applying { timestamp_us: statement.timestamp_us, seed: statement.seed, is_new: true };
            workspace.begin();
            tables.apply(&effect, applying, workspace.worker().guard())?;
            commit(workspace)?;
            Ok(Some((schema, tables)))
        })?;
        Ok(is_made.then_some(notices))
    }
}

/// Returns whether a statement changes roles and privileges alone.
fn changes_rights(schema: &Schema, text: &str) -> bool {
    let changed = Schema::may_change_rights(text).then(|| schema.apply_unchecked(text)).and_then(Result::ok);
    changed.is_some_and(|(after, effect)| effect.is_nothing() && after.differs_in_rights_from(schema))
}

/// A statement applied to a version of the definitions.
pub(crate) struct Applied {
    base: Arc<Version>,
    schema: Schema,
    /// Its effect on the data.
    pub(crate) effect: Effect,
}

/// How a definition is made.
pub(crate) struct Making<'a> {
    /// Whether a routine whose body names what does not exist is refused.
    pub(crate) checks_bodies: bool,
    /// Whether a change of roles and privileges may run beside other transactions.
    pub(crate) runs_beside: bool,
    /// The definition as it was applied before it was made; of no use once the definitions have changed.
    pub(crate) applied: &'a mut Option<Applied>,
}

/// Applies a statement, if its role may make it. A new routine whose body names what does not exist is
/// refused if `checks_bodies`.
pub(crate) fn apply(schema: &Schema, text: &str, checks_bodies: bool) -> Result<(Schema, Effect), Error> {
    schema.authorize(text)?;
    Ok(if checks_bodies { schema.apply(text)? } else { schema.apply_unchecked(text)? })
}

/// Returns the error of a call whose procedure does not exist.
pub(crate) fn unknown_procedure(name: &str, version: &Version) -> SqlError {
    let error = SqlError::new("42883", format!("procedure \"{name}\" does not exist"));
    let mut known: Vec<_> = version.procedures.keys().map(String::as_str).collect();
    known.sort_unstable();
    if known.is_empty() {
        error
    } else {
        error.with_hint(format!("The procedures are: {}.", known.join(", ")))
    }
}
