//! A queue as a source of transactions: the schedule does not know how many will come.

use super::{Log, context_of, order};
use crate::replay::clr_p::Direct;
use crate::{LogContents, Method};
use catalog::{CommitOrder, Epoch, Reader};
use logging::content::{Record, RecordKind, read_as};
use procedure::Witnessed;
use procedure::analysis::{Analysis, Decomposition, LogFacts, Pieces};
use schedule::{Batch, Body, Definitions, Mode, Next, Programs, Settings, Source, Transaction};
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use storage::{Epochs, Memory};
use transaction::Tables;

/// Records that the batch owns. All of them are calls.
struct Owned(Vec<(CommitOrder, Vec<u8>)>);

impl Batch for Owned {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Transaction<'_> {
        let (order, body) = &self.0[index];
        let record = read_as(RecordKind::Call, &mut Reader::new(body)).unwrap();
        let Record::Call(record) = record else { panic!("the record is no call") };
        Transaction { order: *order, body: Body::Call { program: 0, record } }
    }
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Owned>,
    is_closed: bool,
}

/// Batches that a producer adds until it closes the queue.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    finished: AtomicUsize,
}

impl Queue {
    fn push(&self, batch: Owned) {
        self.waiting.lock().unwrap().batches.push_back(batch);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.waiting.lock().unwrap().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until a number of transactions has finished.
    fn wait_for(&self, finished: usize) {
        let waiting = self.waiting.lock().unwrap();
        let is_unfinished = |_: &mut Waiting| self.finished.load(Ordering::Relaxed) < finished;
        let limit = Duration::from_secs(60);
        let waited = self.changed.wait_timeout_while(waiting, limit, is_unfinished).unwrap();
        assert!(!waited.1.timed_out(), "transactions finish without the end of the queue");
    }
}

impl Source for Queue {
    type Claim = Owned;
    type Batch = Owned;
    type Error = std::convert::Infallible;

    fn claim(&self, waits: bool) -> Next<Owned> {
        let mut waiting = self.waiting.lock().unwrap();
        loop {
            match waiting.batches.pop_front() {
                Some(batch) => return Next::Batch(batch),
                None if waiting.is_closed => return Next::End,
                None if waits => waiting = self.changed.wait(waiting).unwrap(),
                None => return Next::Pending,
            }
        }
    }

    fn read(&self, claim: Owned) -> Result<Owned, Self::Error> {
        Ok(claim)
    }

    fn finished(&self, batch: &Owned) {
        let waiting = self.waiting.lock().unwrap();
        self.finished.fetch_add(batch.len(), Ordering::Relaxed);
        drop(waiting);
        self.changed.notify_all();
    }
}

/// Runs the calls of a queue over the state before them. The first batch must finish while the queue is open.
#[test]
fn a_queue_gives_the_state_of_serial_execution() {
    let mut log = Log::new();
    let first = log.records.len();
    let mut choice = 11u64;
    let mut account = || {
        choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (choice >> 33) as i64 % 4
    };
    for _ in 0..400 {
        log.call("pay", [account(), account()], None);
    }
    let serial = log.replayed(Method::Clr, 1).unwrap();
    assert_eq!(order(first), log.records[first].0);

    for (mode, threads) in [(Mode::Pipelined, 3), (Mode::Pipelined, 1), (Mode::Synchronous, 2)] {
        let before = Arc::new(LogContents::of_records(log.records[..first].to_vec()));
        let (config, progress) = Default::default();
        let tables = Tables::new(Arc::new(Epochs::new(Epoch(1), 16)), Arc::new(Memory::new(1 << 28)));
        let mut state = context_of(&before, tables, &config, &progress);
        Method::Clr.replay(&BTreeSet::new()).run_all(&mut state).unwrap();
        let pay = state.schema.procedures().find(|procedure| procedure.name == "pay").unwrap();
        let settings = Settings { mode, threads };
        let analysis = Analysis::for_replay(
            [(&**pay, Witnessed::Nothing)],
            LogFacts::default(),
            Decomposition::default(),
        );
        let pieces = Pieces::of(&analysis);
        let definitions = Definitions::new(state.tables.iter().map(|store| store.definition()));
        let programs =
            Programs::new(pieces, vec![Arc::clone(pay)], definitions, settings, std::iter::empty()).unwrap();
        let accesses = (0..threads).map(|_| Direct::of(&state.tables).unwrap()).collect();
        let queue = Queue::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut calls = log.records[first..].iter().map(|(order, _, body)| (*order, body.clone()));
                let mut pushed = 0;
                for length in (1..).map(|number| 7 * number) {
                    let batch: Vec<_> = calls.by_ref().take(length).collect();
                    if batch.is_empty() {
                        break;
                    }
                    pushed += batch.len();
                    queue.push(Owned(batch));
                    if length == 7 {
                        queue.wait_for(pushed);
                    }
                }
                queue.close();
            });
            programs.run(&queue, accesses, &analysis.block_names()).unwrap();
        });
        assert_eq!(queue.finished.load(Ordering::Relaxed), 400);
        assert_eq!(state.tables.digest().unwrap(), serial, "{mode}, {threads} threads");
    }
}

/// A transaction that no thread can read.
struct Unreadable;

impl Batch for Unreadable {
    fn len(&self) -> usize {
        1
    }

    fn get(&self, _: usize) -> Transaction<'_> {
        panic!("planted: this transaction cannot be read")
    }
}

/// A source of one batch, whose threads panic.
#[derive(Default)]
struct Once(AtomicBool);

impl Source for Once {
    type Claim = Unreadable;
    type Batch = Unreadable;
    type Error = std::convert::Infallible;

    fn claim(&self, _: bool) -> Next<Unreadable> {
        if self.0.swap(true, Ordering::Relaxed) { Next::End } else { Next::Batch(Unreadable) }
    }

    fn read(&self, claim: Unreadable) -> Result<Unreadable, Self::Error> {
        Ok(claim)
    }

    fn finished(&self, _: &Unreadable) {}
}

/// The other threads of a run must not wait for the task of a thread that has panicked.
#[test]
fn a_panic_of_one_thread_ends_the_run() {
    let (ended, is_ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ended = ended;
        let tables = Tables::new(Arc::new(Epochs::new(Epoch(1), 16)), Arc::new(Memory::new(1 << 28)));
        let analysis = Analysis::for_replay([], LogFacts::default(), Decomposition::default());
        let pieces = Pieces::of(&analysis);
        let definitions = Definitions::default();
        let settings = Settings { mode: Mode::Pipelined, threads: 3 };
        let programs = Programs::new(pieces, Vec::new(), definitions, settings, std::iter::empty());
        let accesses = (0..3).map(|_| Direct::of(&tables).unwrap()).collect();
        let _ = programs.unwrap().run(&Once::default(), accesses, &analysis.block_names());
    });
    let waited = is_ended.recv_timeout(Duration::from_secs(60));
    assert_eq!(waited, Err(RecvTimeoutError::Disconnected), "the run has ended");
}
