//! Checkpoints: on request, at intervals, and when an adaptive log needs one.

use crate::Error;
use crate::inner::{Inner, TakenCheckpoint};
use crate::sequences::Taking;
use catalog::{CommitOrder, Epoch};
use checkpoint::{CheckpointSummary, Consistency, Contents, Destination};
use logging::Content;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use transaction::Adaptive;

/// Time between two checks whether an adaptive log needs a checkpoint.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Inner {
    /// Takes a checkpoint and recycles the log behind it.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointSummary, Error> {
        let _alone = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let _room = self.logs.leave_room();
        // ORDERING: Acquire pairs with the Release in `Loader::drop`: without loaders, the checkpoint holds
        // all loaded rows.
        let holds_loaded_rows = self.loaders.load(Ordering::Acquire) == 0;
        let version = self.definitions.current();
        Taking { inner: self, tables: &version.tables }.give_back()?;
        // A checkpoint holds all rows, those of the last one included.
        version.tables.recover_all()?;
        let (logged_ns, log_bytes) = (self.adaptive.logged_ns(), self.logged_bytes());
        // A transaction may log operations before it draws its order. Their epoch may be earlier than the
        // epoch of the order, but it is not complete.
        let incomplete = CommitOrder::first_of(Epoch(version.tables.epochs.completed(|_| true).0 + 1));
        let to = Destination {
            disk: &self.config.disk,
            folder: &self.folder,
            database: self.database,
            incarnation: self.incarnation,
            devices: &self.devices,
        };
        // Without a serial order the last writer of a row wins in replay, so a fuzzy checkpoint suffices and
        // transactions need not keep old versions for it.
        let consistency = match self.logs.numbering().is_serial() {
            false => Consistency::Fuzzy,
            true => Consistency::Consistent,
        };
        // The log behind the checkpoint begins with the records that are not durable yet. The definitions in
        // the checkpoint must not be among them.
        self.logs.complete(self.logs.defined())?;
        let contents = Contents {
            consistency,
            definitions: version.schema.to_image().map_err(Error::Definitions)?,
            tables: &version.tables,
            keep: incomplete,
            // At least one thread for each device, because each thread waits for its device.
            threads: self.config.checkpoint_threads.max(self.devices.len()),
        };
        let (manifest, summary) = checkpoint::write(to, contents, &*self.logs).map_err(Error::Checkpoint)?;
        if holds_loaded_rows {
            self.definitions.end_load();
        }
        self.adaptive.checkpoint_taken(logged_ns, summary.bytes, summary.elapsed);
        let taken = TakenCheckpoint { at: Instant::now(), summary, log_bytes };
        *self.last_checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        let (rows, bytes, seconds) = (summary.rows, summary.bytes, summary.elapsed.as_secs_f64());
        tracing::info!(rows, bytes, seconds, "checkpoint: {rows} rows, {bytes} bytes in {seconds:.2} s");
        let needed = manifest.logs.map(|logs| logs.ranges).unwrap_or_default();
        self.logs.release(&needed, summary.bound.min(incomplete))?;
        Ok(summary)
    }
}

/// The thread that takes checkpoints.
pub(crate) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread. `None`: the configuration needs no checkpoints.
    pub(crate) fn start(inner: &Arc<Inner>) -> Option<Self> {
        let every = inner.config.checkpoint_every;
        let is_adaptive = inner.config.content == Content::Adaptive;
        if every.is_none() && !is_adaptive {
            return None;
        }
        let (stop, stopped) = channel();
        let inner = Arc::downgrade(inner);
        let run = move || {
            let mut due = Due { every, is_adaptive, ..Due::default() };
            while stopped.recv_timeout(due.look_after()) == Err(RecvTimeoutError::Timeout) {
                let Some(inner) = inner.upgrade() else { return };
                if !due.is_now(&inner.adaptive) {
                    continue;
                }
                if let Err(error) = inner.checkpoint() {
                    // The log still holds all transactions, and the next attempt may succeed.
                    tracing::warn!(%error, "a checkpoint failed: {error}");
                }
                due.checkpoint_taken(&inner.adaptive);
            }
        };
        let thread = std::thread::Builder::new().name("checkpointer".into()).spawn(run).ok();
        Some(Self { stop: Some(stop), thread })
    }
}

/// When the next checkpoint is due.
struct Due {
    every: Option<Duration>,
    is_adaptive: bool,
    last: Instant,
    /// The replay time of all records that an adaptive log had received at the last check, in nanoseconds,
    /// and the moment of the check.
    looked: (u64, Instant),
    has_warned: bool,
}

impl Default for Due {
    fn default() -> Self {
        let now = Instant::now();
        Self { every: None, is_adaptive: false, last: now, looked: (0, now), has_warned: false }
    }
}

impl Due {
    fn look_after(&self) -> Duration {
        let left = self.every.map_or(Duration::MAX, |every| every.saturating_sub(self.last.elapsed()));
        if self.is_adaptive { left.min(LOOK_EVERY) } else { left }
    }

    fn is_now(&mut self, adaptive: &Adaptive) -> bool {
        let is_time = self.every.is_some_and(|every| self.last.elapsed() >= every);
        if !self.is_adaptive {
            return is_time;
        }
        let (before, then) = std::mem::replace(&mut self.looked, (adaptive.logged_ns(), Instant::now()));
        let rate = adaptive.rate(self.looked.0 - before, self.looked.1 - then);
        is_time || adaptive.needs_checkpoint(rate)
    }

    fn checkpoint_taken(&mut self, adaptive: &Adaptive) {
        self.last = Instant::now();
        if let (Some(load_s), true, false) = (adaptive.is_out_of_reach(), self.is_adaptive, self.has_warned) {
            self.has_warned = true;
            tracing::warn!(
                load_s,
                "recovery will exceed its target: loading the checkpoint alone takes {load_s:.1} s"
            );
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
