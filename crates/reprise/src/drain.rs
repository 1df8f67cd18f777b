//! The threads that bring back the rows that no transaction looks for.

use crate::Error;
use crate::inner::Inner;
use recovery::Pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use storage::Worker;

/// Time until blocks are tried again that could not be loaded.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The threads that load rows.
pub(crate) struct Drain {
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drain {
    /// Starts the threads.
    ///
    /// # Errors
    /// `TooManySessions`: all workers are in use.
    pub(crate) fn start(inner: &Inner, rows: &Arc<dyn Pending>) -> Result<Self, Error> {
        let tables = &inner.definitions.current().tables;
        let stops = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..inner.config.drain_threads {
            let worker = Worker::new(tables.epochs.clone(), tables.memory.clone())
                .ok_or(Error::TooManySessions(inner.config.workers))?;
            let (rows, stops) = (Arc::clone(rows), Arc::clone(&stops));
            let recovering = (number == 0).then(|| Arc::clone(&inner.recovering));
            let run = move || {
                drain(&*rows, worker, &stops);
                recovering.filter(|_| !rows.is_pending()).inspect(|recovering| recovering.ended());
            };
            threads.extend(std::thread::Builder::new().name(format!("drain {number}")).spawn(run));
        }
        Ok(Self { stops, threads })
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Brings back rows until all are back, or the database closes.
fn drain(rows: &dyn Pending, mut worker: Worker, stops: &AtomicBool) {
    let mut failed = None;
    while rows.is_pending() {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        match rows.recover_next(&mut worker) {
            Ok(true) => {}
            Ok(false) => {
                // What is left is being loaded by transactions, or has failed.
                let pause = if failed.is_some() { RETRY_AFTER } else { Duration::from_millis(1) };
                std::thread::park_timeout(pause);
            }
            Err(error) => {
                let error = error.to_string();
                if failed.as_ref() != Some(&error) {
                    tracing::error!(%error, "rows cannot be recovered: {error}");
                    failed = Some(error);
                }
            }
        }
    }
}
