//! Calls of a log of commands that are executed when a transaction first looks for their rows, and the rows
//! of the checkpoint below them.
//! Not here: which calls these are (`schedule::closures`).

use super::{Pending, PendingRows, not_recovered};
use crate::RecoveryError;
use crate::replay::{Direct, LogTransactions};
use procedure::{Interrupts, ScanRange, SqlError};
use schedule::closures::{ClosureError, Closures, Runner, Wanted};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;
use storage::{Guard, Memory, Worker};
use transaction::{Intent, Place, RowsOnDemand, Tables};

/// Time after which a thread that waits for a runner looks whether it is interrupted.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The transactions of a log of commands that recovery has still to execute.
#[derive(Debug)]
pub(crate) struct PendingCommands {
    /// The rows of the checkpoint; the calls ask for them.
    rows: Option<Arc<PendingRows>>,
    /// The calls, until all of them and all rows are done.
    calls: RwLock<Option<Arc<Closures<LogTransactions>>>>,
    /// Size of their records, in bytes.
    bytes: u64,
    is_done: AtomicBool,
    runners: Runners,
    /// The memory whose limit holds at the end.
    memory: Mutex<Option<Arc<Memory>>>,
}

/// What threads execute calls with. A runner has a worker of the database, so there are not many.
struct Runners {
    /// With the rows of the checkpoint on demand, and without the calls.
    tables: Tables,
    most: usize,
    idle: Mutex<Idle>,
    /// Signalled when a runner is idle again.
    changed: Condvar,
}

#[derive(Default)]
struct Idle {
    runners: Vec<Runner<Direct>>,
    /// Number of runners, in use or not.
    made: usize,
}

impl std::fmt::Debug for Runners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runners").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Runners {
    /// Runs something with a runner, once one is idle.
    fn with<T>(
        &self,
        interrupts: &Interrupts,
        run: impl FnOnce(&mut Runner<Direct>) -> Result<T, ClosureError>,
    ) -> Result<T, ClosureError> {
        let mut runner = self.take(interrupts)?;
        let result = run(&mut runner);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).runners.push(runner);
        self.changed.notify_one();
        result
    }

    fn take(&self, interrupts: &Interrupts) -> Result<Runner<Direct>, SqlError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(runner) = idle.runners.pop() {
                return Ok(runner);
            }
            if idle.made < self.most
                && let Ok(access) = Direct::of(&self.tables)
            {
                idle.made += 1;
                return Ok(Runner::new(access));
            }
            interrupts.check()?;
            let woken = self.changed.wait_timeout(idle, LOOK_AGAIN);
            idle = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl PendingCommands {
    /// `tables` has the rows of the checkpoint on demand, if they are.
    pub(crate) fn new(
        calls: Closures<LogTransactions>,
        rows: Option<Arc<PendingRows>>,
        tables: Tables,
        threads: usize,
        bytes: u64,
    ) -> Self {
        let runners =
            Runners { tables, most: threads.max(1), idle: Mutex::default(), changed: Condvar::new() };
        let calls = RwLock::new(Some(Arc::new(calls)));
        Self { rows, calls, bytes, is_done: AtomicBool::new(false), runners, memory: Mutex::default() }
    }

    fn calls(&self) -> Option<Arc<Closures<LogTransactions>>> {
        self.calls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Frees the log once all calls are executed, and makes the limit of memory hold once all rows are
    /// loaded, too.
    fn end(&self) {
        if self.calls().is_some_and(|calls| !calls.is_done()) {
            return;
        }
        self.calls.write().unwrap_or_else(PoisonError::into_inner).take();
        if self.rows.as_ref().is_some_and(|rows| !rows.is_done()) {
            return;
        }
        *self.runners.idle.lock().unwrap_or_else(PoisonError::into_inner) = Idle::default();
        if let Some(memory) = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take() {
            memory.allow_beyond_limit(0);
            // ORDERING: Release pairs with the Acquire of `is_pending`.
            self.is_done.store(true, Ordering::Release);
        }
    }
}

impl Pending for PendingCommands {
    fn bytes_left(&self) -> u64 {
        let of_calls = self.calls().map_or(0, |calls| {
            let (all, left) = calls.units();
            (self.bytes as f64 * left as f64 / all.max(1) as f64) as u64
        });
        of_calls + self.rows.as_ref().map_or(0, |rows| rows.bytes_left())
    }

    fn recover_next(&self, worker: &mut Worker) -> Result<bool, RecoveryError> {
        // First the rows: calls look rows up ahead once they are there.
        if let Some(rows) = self.rows.as_ref().filter(|rows| !rows.is_done())
            && rows.recover_next(worker)?
        {
            return Ok(true);
        }
        if let Some(calls) = self.calls() {
            let ran = self.runners.with(&Interrupts::default(), |runner| calls.run_next(runner));
            if ran.map_err(RecoveryError::from)? {
                return Ok(true);
            }
        }
        self.end();
        Ok(false)
    }

    fn limit_at_end(&self, memory: &Arc<Memory>) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(memory));
        self.end();
    }

    fn replays(&self) -> bool {
        true
    }
}

impl RowsOnDemand for PendingCommands {
    fn is_pending(&self) -> bool {
        !self.is_done.load(Ordering::Acquire)
    }

    fn recover(
        &self,
        table: catalog::TableId,
        place: Place<'_>,
        intent: Intent,
        guard: &Guard,
        interrupts: &Interrupts,
    ) -> Result<(), SqlError> {
        if !self.is_pending() {
            return Ok(());
        }
        if let Some(calls) = self.calls()
            && let Some(definition) = calls.table(table)
            && !calls.is_done()
        {
            let wanted = match place {
                Place::Key(key) => Wanted::Key(key),
                Place::Range(ScanRange { index, lower, upper, .. }) => Wanted::Range { index, lower, upper },
                Place::Table => Wanted::Table,
            };
            let writes = intent == Intent::Write;
            let executed = self
                .runners
                .with(interrupts, |runner| calls.require(definition, wanted, writes, runner, interrupts));
            executed.map_err(|error| not_recovered(error.into()))?;
        }
        match &self.rows {
            Some(rows) => rows.recover(table, place, intent, guard, interrupts),
            None => Ok(()),
        }
    }

    fn recover_all(&self, worker: &mut Worker) -> Result<(), SqlError> {
        let interrupts = Interrupts::default();
        if let Some(calls) = self.calls() {
            let executed = self.runners.with(&interrupts, |runner| calls.run_all(runner, &interrupts));
            executed.map_err(|error| not_recovered(error.into()))?;
        }
        if let Some(rows) = &self.rows {
            rows.recover_all(worker)?;
        }
        self.end();
        Ok(())
    }
}
