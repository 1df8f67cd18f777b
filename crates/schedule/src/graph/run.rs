//! Runs batches whose graphs are known: the batches one after the other, the vertices of a batch on all
//! threads.
//!
//! 1. A thread takes a vertex that waits for no other, runs it, and goes on with one that it has released.
//!    Other released vertices are there for all threads.
//! 2. A thread that finds nothing to run reads the next batch, while the rest still run this one.
//! 3. The thread that runs the last vertex of a batch may clean up, and lets the next one begin.
//!
//! Invariant: a vertex runs after all vertices that it waits for, and after all earlier batches. Held by:
//! `graphs_run_in_order`.

use super::{Graph, Vertex};
use crossbeam_deque::{Injector, Steal};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often a thread looks for a vertex before it sleeps: vertices take microseconds.
const LOOKS: u32 = 64;

/// Where batches come from.
pub trait GraphSource: Sync {
    /// What the vertices of a batch are.
    type Batch: Send + Sync;
    /// The error of a batch that cannot be read, or of a vertex.
    type Error: Send;

    /// Reads the next batch; `None` at the end. One thread at a time calls it.
    ///
    /// # Errors
    /// The batch cannot be read.
    fn next(&self) -> Result<Option<(Graph, Self::Batch)>, Self::Error>;
}

/// What a thread runs vertices with.
pub trait GraphWorker<S: GraphSource>: Send {
    /// Runs a vertex of a batch.
    ///
    /// # Errors
    /// The error of the vertex.
    fn run(&mut self, batch: &S::Batch, vertex: Vertex) -> Result<(), S::Error>;

    /// Is told by its thread that it has run the last vertex of a batch. No vertex runs meanwhile.
    fn batch_ends(&mut self, batch: &S::Batch) {
        let _ = batch;
    }
}

/// A batch that runs.
struct Running<B> {
    graph: Graph,
    batch: B,
    /// Vertices that wait for no other.
    ready: Injector<Vertex>,
    /// The number of vertices that are not done.
    left: AtomicUsize,
}

impl<B> Running<B> {
    fn take(&self) -> Option<Vertex> {
        loop {
            match self.ready.steal() {
                Steal::Success(vertex) => return Some(vertex),
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }
}

struct State<S: GraphSource> {
    running: Option<Arc<Running<S::Batch>>>,
    next: Option<Arc<Running<S::Batch>>>,
    is_reading: bool,
    has_ended: bool,
    error: Option<S::Error>,
}

struct Run<'s, S: GraphSource> {
    source: &'s S,
    state: Mutex<State<S>>,
    changed: Condvar,
    /// Whether a vertex or a batch has failed.
    has_failed: AtomicBool,
}

/// Runs the batches of a source with one thread for each worker.
///
/// # Errors
/// The first error of the source, or of a vertex.
pub fn run_graphs<S: GraphSource, W: GraphWorker<S>>(source: &S, workers: Vec<W>) -> Result<(), S::Error> {
    let state = State { running: None, next: None, is_reading: false, has_ended: false, error: None };
    let run =
        Run { source, state: Mutex::new(state), changed: Condvar::new(), has_failed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        for mut worker in workers {
            let run = &run;
            scope.spawn(move || {
                let _stop = Stop(run);
                run.work(&mut worker);
            });
        }
    });
    match run.state.into_inner().unwrap_or_else(PoisonError::into_inner).error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Ends the work of the remaining threads when a thread panics.
struct Stop<'r, 's, S: GraphSource>(&'r Run<'s, S>);

impl<S: GraphSource> Drop for Stop<'_, '_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl<S: GraphSource> Run<'_, S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.has_failed.store(true, Ordering::Release);
        // Under the latch, so that no thread misses it before it sleeps.
        drop(self.state());
        self.changed.notify_all();
    }

    fn fail(&self, error: S::Error) {
        self.state().error.get_or_insert(error);
        self.stop();
    }

    /// Returns the running batch when it has vertices to run; `None` at the end. Reads batches meanwhile.
    fn batch(&self) -> Option<Arc<Running<S::Batch>>> {
        let mut looks = 0;
        let mut state = self.state();
        loop {
            if self.has_failed.load(Ordering::Acquire) {
                return None;
            }
            if let Some(running) = state.running.as_ref().filter(|running| !running.ready.is_empty()) {
                return Some(Arc::clone(running));
            }
            if !state.is_reading && state.next.is_none() && !state.has_ended {
                state.is_reading = true;
                drop(state);
                self.read();
                state = self.state();
            } else if state.running.is_none() && state.next.is_none() && state.has_ended {
                return None;
            } else if looks < LOOKS {
                looks += 1;
                drop(state);
                std::hint::spin_loop();
                std::thread::yield_now();
                state = self.state();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Reads the next batch.
    fn read(&self) {
        let read = match self.source.next() {
            Ok(read) => read,
            Err(error) => return self.fail(error),
        };
        let mut state = self.state();
        state.is_reading = false;
        match read {
            None => state.has_ended = true,
            Some((graph, batch)) => {
                let (ready, left) = (Injector::new(), AtomicUsize::new(graph.len()));
                graph.ready().for_each(|vertex| ready.push(vertex));
                state.next = Some(Arc::new(Running { graph, batch, ready, left }));
            }
        }
        Self::go_on(&mut state);
        drop(state);
        self.changed.notify_all();
    }

    /// Lets the next batch begin if none runs.
    fn go_on(state: &mut State<S>) {
        while state.running.is_none() && state.next.is_some() {
            // A batch without vertices is done.
            state.running = state.next.take().filter(|next| !next.graph.is_empty());
        }
    }

    /// Runs vertices until there are no more.
    fn work(&self, worker: &mut impl GraphWorker<S>) {
        while let Some(running) = self.batch() {
            let mut next = running.take();
            while let Some(vertex) = next {
                if let Err(error) = worker.run(&running.batch, vertex) {
                    return self.fail(error);
                }
                next = self.done(worker, &running, vertex).or_else(|| running.take());
                if self.has_failed.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }

    /// Notes that a vertex is done. Returns one that can run now.
    fn done(
        &self,
        worker: &mut impl GraphWorker<S>,
        running: &Running<S::Batch>,
        vertex: Vertex,
    ) -> Option<Vertex> {
        let (mut own, mut has_more) = (None, false);
        running.graph.done(vertex, |later| {
            if own.is_none() {
                own = Some(later);
            } else {
                running.ready.push(later);
                has_more = true;
            }
        });
        // AcqRel: the next batch begins after all that every thread has done in this one.
        let is_last = running.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            worker.batch_ends(&running.batch);
            let mut state = self.state();
            state.running = None;
            Self::go_on(&mut state);
        }
        if is_last || has_more {
            drop(self.state());
            self.changed.notify_all();
        }
        own
    }
}
