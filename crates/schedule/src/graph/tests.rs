//! Random reservations: calls that conflict are ordered, and no other calls are.

use super::entries::{Entries, Index};
use super::{Graph, GraphBuilder, Vertex};
use procedure::analysis::ReservationMode;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

const INDEXES: u64 = 2;
const VALUES: u8 = 3;

/// A granule of an index, and how a call uses it.
#[derive(Clone, Debug)]
struct Reserved {
    index: u64,
    values: Vec<u8>,
    mode: ReservationMode,
}

impl Reserved {
    fn conflicts(&self, other: &Self) -> bool {
        self.index == other.index
            && self.mode.conflicts(other.mode)
            && (self.values.starts_with(&other.values) || other.values.starts_with(&self.values))
    }
}

/// The reservations of the calls of a batch.
type Calls = Vec<Vec<Reserved>>;

fn calls() -> impl Strategy<Value = Calls> {
    use ReservationMode::{Change, Read, ReadFixed, Touch, Update, Write};
    let modes = prop_oneof![
        2 => Just(ReadFixed), 4 => Just(Read), 2 => Just(Change), 2 => Just(Touch), 3 => Just(Update),
        3 => Just(Write),
    ];
    let values = proptest::collection::vec(0..VALUES, 0..4);
    let reserved = (0..INDEXES, values, modes);
    let reserved = reserved.prop_map(|(index, values, mode)| Reserved { index, values, mode });
    proptest::collection::vec(proptest::collection::vec(reserved, 0..4), 0..40)
}

fn lengths(calls: &Calls, index: u64) -> Vec<usize> {
    let reserved = calls.iter().flatten().filter(|own| own.index == index);
    let mut lengths: Vec<usize> = reserved.map(|own| own.values.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

fn graph(calls: &Calls, chunks: usize, shards: usize) -> Graph {
    let builder = GraphBuilder::new(calls.len(), chunks, shards);
    let lengths: Vec<Vec<usize>> = (0..INDEXES).map(|index| lengths(calls, index)).collect();
    let size = calls.len().div_ceil(chunks).max(1);
    for chunk in 0..chunks {
        let mut entries = Entries::new(shards);
        for (vertex, call) in calls.iter().enumerate().skip(chunk * size).take(size) {
            for Reserved { index, values, mode } in call {
                let of = Index { number: *index, lengths: &lengths[*index as usize] };
                entries.reserve(vertex as Vertex, *mode, of, values.len(), |count| &values[..count]);
            }
        }
        builder.set_chunk(chunk, entries);
    }
    (0..shards).for_each(|shard| builder.build_shard(shard));
    builder.finish()
}

/// Returns, by vertex, the vertices that run before it in any case.
fn ancestors(graph: &Graph) -> Vec<Vec<bool>> {
    let mut before = vec![vec![false; graph.len()]; graph.len()];
    for vertex in 0..graph.len() {
        for later in graph.later_than(vertex as Vertex) {
            let later = later as usize;
            assert!(later > vertex, "an edge leads to a later vertex");
            let own = before[vertex].clone();
            own.iter().enumerate().filter(|(_, is)| **is).for_each(|(other, _)| before[later][other] = true);
            before[later][vertex] = true;
        }
    }
    before
}

fn conflict(a: &[Reserved], b: &[Reserved]) -> bool {
    a.iter().any(|own| b.iter().any(|other| own.conflicts(other)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn conflicting_calls_are_ordered(calls in calls(), chunks in 1..4_usize, shards in 1..4_usize) {
        let graph = graph(&calls, chunks, shards);
        let before = ancestors(&graph);
        for (later, own) in calls.iter().enumerate() {
            for (earlier, other) in calls.iter().enumerate().take(later) {
                let conflict = conflict(own, other);
                prop_assert!(!conflict || before[later][earlier], "{earlier} and {later} may overlap");
            }
            for to in graph.later_than(later as Vertex) {
                prop_assert!(conflict(own, &calls[to as usize]), "nothing orders {later} before {to}");
            }
        }
    }

    /// Several threads run the vertices: every one runs once, and no two that conflict overlap or change
    /// places.
    #[test]
    fn threads_run_a_graph_in_its_order(calls in calls(), threads in 1..5_usize) {
        let graph = graph(&calls, 2, 2);
        let ready = Mutex::new(graph.ready().collect::<Vec<_>>());
        let is_done: Vec<AtomicBool> = calls.iter().map(|_| AtomicBool::new(false)).collect();
        let (left, wrong) = (AtomicUsize::new(calls.len()), OnceLock::new());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while left.load(Ordering::Relaxed) > 0 && wrong.get().is_none() {
                        let taken = ready.lock().unwrap().pop();
                        let Some(vertex) = taken else {
                            std::thread::yield_now();
                            continue;
                        };
                        let own = vertex as usize;
                        let mut waits_for = (0..own).filter(|other| conflict(&calls[own], &calls[*other]));
                        if let Some(earlier) = waits_for.find(|own| !is_done[*own].load(Ordering::Relaxed)) {
                            let _ = wrong.set(format!("{own} runs before {earlier}"));
                        }
                        if is_done[own].swap(true, Ordering::Relaxed) {
                            let _ = wrong.set(format!("{own} runs twice"));
                        }
                        graph.done(vertex, |next| ready.lock().unwrap().push(next));
                        left.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        prop_assert_eq!(wrong.get(), None);
    }
}

/// Batches that are chains and diamonds, on several threads: a vertex runs after those that it waits for, and
/// after the end of all earlier batches.
#[test]
fn graphs_run_in_order() {
    use super::{GraphSource, GraphWorker, run_graphs};

    const BATCHES: usize = 200;
    const EDGES: [(Vertex, Vertex); 5] = [(0, 1), (0, 2), (1, 3), (2, 3), (4, 5)];
    const END: Vertex = 6;

    struct Numbers(Mutex<usize>);

    impl GraphSource for Numbers {
        type Batch = usize;
        type Error = usize;

        fn next(&self) -> Result<Option<(Graph, usize)>, usize> {
            let mut next = self.0.lock().unwrap();
            *next += 1;
            Ok((*next <= BATCHES).then(|| (Graph::of_edges(6, EDGES.into_iter()), *next)))
        }
    }

    #[derive(Clone, Copy)]
    struct Noting<'r>(&'r Mutex<Vec<(usize, Vertex)>>, usize);

    impl GraphWorker<Numbers> for Noting<'_> {
        fn run(&mut self, batch: &usize, vertex: Vertex) -> Result<(), usize> {
            // Long enough for a thread that finds nothing to run to read the next batch.
            (0..20_000).for_each(|_| std::hint::spin_loop());
            self.0.lock().unwrap().push((*batch, vertex));
            if *batch == self.1 { Err(*batch) } else { Ok(()) }
        }

        fn batch_ends(&mut self, batch: &usize) {
            (0..20_000).for_each(|_| std::hint::spin_loop());
            self.0.lock().unwrap().push((*batch, END));
        }
    }

    let ran = Mutex::new(Vec::new());
    run_graphs(&Numbers(Mutex::new(0)), vec![Noting(&ran, 0); 3]).unwrap();
    let ran = ran.into_inner().unwrap();
    assert_eq!(ran.len(), BATCHES * 7);
    assert!(ran.is_sorted_by_key(|(batch, _)| *batch), "batches run one after the other");
    for batch in ran.chunks(7) {
        let place = |vertex| batch.iter().position(|(_, ran)| *ran == vertex).unwrap();
        assert!(EDGES.iter().all(|(earlier, later)| place(*earlier) < place(*later)), "{batch:?}");
        assert_eq!(place(END), 6, "{batch:?}");
    }

    let ran = Mutex::new(Vec::new());
    assert_eq!(run_graphs(&Numbers(Mutex::new(0)), vec![Noting(&ran, 7); 3]), Err(7));
}
