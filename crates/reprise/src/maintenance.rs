//! What runs beside transactions: checkpoints, now and then or when asked.

use crate::Error;
use crate::database::Inner;
use catalog::Epoch;
use checkpoint::CheckpointSummary;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

impl Inner {
    /// Takes a checkpoint and recycles the log behind it.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointSummary, Error> {
        let _alone = self.maintenance.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.definitions.current();
        // What a transaction logs before it draws its order may be of an earlier epoch, but not of one that is complete.
        let incomplete = version.tables.epochs.completed(|_| true).0 + 1;
        let (_, summary) = checkpoint::write(
            &self.config.disk,
            (&self.folder, &self.logs.shadows),
            &self.devices,
            version.statements.clone(),
            &version.tables,
            self.config.checkpoint_threads,
            |epoch| self.logs.complete(epoch),
        )
        .map_err(Error::Checkpoint)?;
        self.logs.release_before(summary.bound.epoch().min(Epoch(incomplete)))?;
        Ok(summary)
    }
}

/// The thread that takes checkpoints.
pub(crate) struct Checkpointer {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(inner: Weak<Inner>, every: Duration) -> Self {
        let (stop, stopped) = channel();
        let run = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = inner.checkpoint() {
                    // The log still has everything: the next attempt may succeed.
                    eprintln!("warning: {error}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("checkpointer".into()).spawn(run).ok();
        Self { stop: Some(stop), thread }
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
