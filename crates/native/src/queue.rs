//! When procedures, pieces and expressions are compiled: at once, or one after the other by a thread, while
//! they are interpreted.

use crate::code::Charge;
use crate::{Report, compile, compile_expression};
use procedure::analysis::Pieces;
use procedure::{Compiled, CompiledExpression, ExpressionCompiler, Procedure, Source, Watched};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum size of the code of a compiler, in bytes. Procedures beyond it stay interpreted.
const MOST_BYTES: usize = 256 << 20;

/// An expression is hot after this many evaluations. Interpreting it as often takes about as long as
/// compiling it.
const HOT_AFTER: u32 = 10_000;

/// The least memory of code, in bytes.
const PAGE: usize = 4096;

/// When procedures and hot expressions are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Compile {
    /// By a thread of its own; calls are interpreted until their procedure is compiled.
    #[default]
    Background,
    /// Before the definition ends, and before a replay begins.
    AtOnce,
    /// Never: all calls are interpreted.
    Never,
}

impl FromStr for Compile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "native" => Ok(Self::Background),
            "interpreted" => Ok(Self::Never),
            _ => Err(format!("\"{text}\" is no form of code; the forms are native and interpreted")),
        }
    }
}

/// What waits to be compiled.
enum Job {
    Procedure(Arc<Procedure>),
    Pieces(Arc<Pieces>),
    Expression(Arc<Watched>),
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether a thread works on them.
    is_running: bool,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// Notified when the last job is done.
    done: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles the procedures and hot expressions of a database, or the pieces of a replay.
#[derive(Clone)]
pub struct Compiler {
    when: Compile,
    queue: Arc<Queue>,
    /// Size of all code, in bytes.
    bytes: Arc<AtomicUsize>,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("when", &self.when).finish_non_exhaustive()
    }
}

impl Compiler {
    /// Returns a compiler without jobs.
    pub fn new(when: Compile) -> Self {
        Self { when, queue: Arc::default(), bytes: Arc::default() }
    }

    /// Compiles a procedure, unless it is compiled. One that reads the catalog stays interpreted: there is
    /// another version of it with each change of definitions.
    pub fn procedure(&self, procedure: &Arc<Procedure>) {
        let is_meant = self.when != Compile::Never && !procedure.reads_catalog;
        if is_meant && procedure.compiled.get().is_none() {
            self.add(Job::Procedure(Arc::clone(procedure)));
        }
    }

    /// Compiles the pieces of a replay.
    pub fn pieces(&self, pieces: &Arc<Pieces>) {
        if self.when != Compile::Never {
            self.add(Job::Pieces(Arc::clone(pieces)));
        }
    }

    /// Returns once nothing waits to be compiled.
    pub fn wait(&self) {
        let state = self.queue.state();
        let waited = self.queue.done.wait_while(state, |state| state.is_running);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Drops what waits to be compiled.
    pub fn stop(&self) {
        self.queue.state().jobs.clear();
    }

    fn add(&self, job: Job) {
        if self.when == Compile::AtOnce {
            self.run(&job);
            return;
        }
        let mut state = self.queue.state();
        state.jobs.push_back(job);
        if state.is_running {
            return;
        }
        let compiler = self.clone();
        let thread = std::thread::Builder::new().name("compiler".into());
        // Without a thread, everything stays interpreted until the next job.
        state.is_running = thread.spawn(move || compiler.work()).is_ok();
    }

    /// Runs jobs until there are none.
    fn work(&self) {
        loop {
            let job = {
                let mut state = self.queue.state();
                let Some(job) = state.jobs.pop_front() else {
                    state.is_running = false;
                    self.queue.done.notify_all();
                    return;
                };
                job
            };
            self.run(&job);
        }
    }

    fn run(&self, job: &Job) {
        match job {
            // It was replaced, or is compiled by an earlier job.
            Job::Procedure(procedure)
                if Arc::strong_count(procedure) == 1 || procedure.compiled.get().is_some() => {}
            Job::Procedure(procedure) => {
                if let Some(code) = procedure.with_source(|source| self.code(source)) {
                    procedure.compiled.set(code);
                }
            }
            Job::Pieces(pieces) => pieces.compile(&mut |source| self.code(source)),
            // Its statement is gone.
            Job::Expression(watched) if Arc::strong_count(watched) == 1 => {}
            Job::Expression(watched) => {
                if let Some(code) = self.code_of_expression(watched) {
                    watched.set(code);
                }
            }
        }
    }

    /// Returns the code of a source; `None` if it stays interpreted.
    fn code(&self, source: Source<'_>) -> Option<Arc<dyn Compiled>> {
        let Report { mut code, bytes, .. } = compile(source).ok()?;
        code.unit.charge = Some(Charge::of(bytes, MOST_BYTES, &self.bytes)?);
        Some(Arc::new(code))
    }

    /// Returns the code of an expression; `None` if it stays interpreted.
    fn code_of_expression(&self, watched: &Watched) -> Option<Arc<dyn CompiledExpression>> {
        let mut code = compile_expression(watched.expression()).ok()?;
        let bytes = code.unit.bytes.next_multiple_of(PAGE);
        code.unit.charge = Some(Charge::of(bytes, MOST_BYTES, &self.bytes)?);
        Some(Arc::new(code))
    }
}

impl ExpressionCompiler for Compiler {
    fn hot_after(&self) -> Option<u32> {
        match self.when {
            Compile::Background => Some(HOT_AFTER),
            Compile::AtOnce => Some(0),
            Compile::Never => None,
        }
    }

    fn compile(&self, watched: &Arc<Watched>) {
        self.add(Job::Expression(Arc::clone(watched)));
    }
}
