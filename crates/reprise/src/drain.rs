//! The threads that bring back the rows that no transaction looks for.

use crate::Error;
use crate::inner::Inner;
use recovery::Pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::Worker;

/// Time until blocks are tried again that could not be loaded.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The rows that are still to be loaded, and the threads that load them.
pub(crate) struct Drain {
    rows: Arc<dyn Pending>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drain {
    /// Starts the threads.
    ///
    /// # Errors
    /// `TooManySessions`: all workers are in use.
    pub(crate) fn start(inner: &Inner, rows: Arc<dyn Pending>) -> Result<Self, Error> {
        let tables = &inner.definitions.current().tables;
        let stops = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..inner.config.drain_threads {
            let worker = Worker::new(tables.epochs.clone(), tables.memory.clone())
                .ok_or(Error::TooManySessions(inner.config.workers))?;
            let (rows, stops) = (Arc::clone(&rows), Arc::clone(&stops));
            let run = move || drain(&*rows, worker, &stops, number == 0);
            threads.extend(std::thread::Builder::new().name(format!("drain {number}")).spawn(run));
        }
        Ok(Self { rows, stops, threads })
    }

    /// Returns the bytes whose rows are not loaded.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.rows.bytes_left()
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

/// Brings back rows until all are back, or the database closes. One thread says when that is.
fn drain(rows: &dyn Pending, mut worker: Worker, stops: &AtomicBool, says_so: bool) {
    let (begun, bytes, mut failed) = (Instant::now(), rows.bytes_left(), None);
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
    if says_so {
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(seconds, bytes, "all rows are recovered, {seconds:.2} s after the opening");
    }
}
