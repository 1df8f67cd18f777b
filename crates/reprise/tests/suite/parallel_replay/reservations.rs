//! Reservations against rows: what calls of random procedures touch when they run as a whole lies in what the
//! analysis has reserved for them before, and the graph of the calls orders those that touch one row.

use super::memory::{Columns, Memory, Side, Touch};
use super::{Case, case};
use catalog::{Arena, Datum, encode_value};
use procedure::analysis::{Reservation, ReservationMode, Reservations, ReservedKey};
use procedure::{Call, Machine, Procedure, Whole, execute};
use proptest::prelude::*;
use schedule::graph::{Entries, Graph, GraphBuilder, Reserving, Vertex};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shards of the graphs.
const SHARDS: usize = 3;

/// Rounds of cases until each kind of meeting has been seen.
const MOST_ROUNDS: usize = 5;

/// What was compared.
#[derive(Default)]
struct Counts {
    /// Touched rows, by whether their reservation was narrower than the table.
    narrow: AtomicU64,
    wide: AtomicU64,
    /// Pairs of calls that touched one row, of which one wrote it.
    ordered: AtomicU64,
    /// Pairs of calls that the graph does not order.
    free: AtomicU64,
    /// Those among them where one wrote a row of which the other one read further columns.
    beside: AtomicU64,
    /// Calls that failed.
    failed: AtomicU64,
}

impl Counts {
    /// Returns the name of something that was never met.
    fn missing(&self) -> Option<&'static str> {
        let Self { narrow, wide, ordered, free, beside, failed } = self;
        let counted = [
            (narrow, "narrow"),
            (wide, "wide"),
            (ordered, "ordered"),
            (free, "free"),
            (beside, "beside"),
            (failed, "failed"),
        ];
        let missing = counted.into_iter().find(|(count, _)| count.load(Ordering::Relaxed) == 0);
        missing.map(|(_, name)| name)
    }
}

/// A reservation of a call, with the canonical values of its granule.
struct Reserved<'r> {
    reservation: &'r Reservation,
    key: Vec<u8>,
}

impl Reserved<'_> {
    /// Returns whether a row of a touch lies in it.
    fn covers(&self, touch: &Touch, arena: &Arena) -> bool {
        let granule = &self.reservation.granule;
        let mut row = Vec::new();
        for column in granule.columns() {
            granule.table.write_canonical_column(column, touch.values[column], arena, &mut row);
        }
        row == self.key
    }
}

/// What a call did with a row.
#[derive(Clone, Copy, Default)]
struct Used {
    read: Columns,
    written: Columns,
}

impl Used {
    /// Returns whether the order of two calls that did this with one row matters.
    fn meets(self, other: Self) -> bool {
        self.written & other.read != 0 || self.read & other.written != 0 || self.both_write(other)
    }

    fn both_write(self, other: Self) -> bool {
        self.written != 0 && other.written != 0
    }
}

/// A schema's procedures and rows, and the calls so far.
struct Run<'c> {
    procedures: Vec<&'c Procedure>,
    reservations: &'c [Reservations],
    reserving: Reserving,
    data: Memory,
    entries: Entries,
    /// By call, the rows that it touched.
    touched: Vec<HashMap<usize, Used>>,
    counts: &'c Counts,
}

impl<'c> Run<'c> {
    /// Runs a call, after its reservations are made; one that fails leaves nothing.
    fn call(&mut self, program: usize, arguments: &[Datum], arena: &Arena) {
        let procedure = self.procedures[program];
        let reserved = self.reserve(program, arguments, arena);
        let rows = self.data.rows.clone();
        let mut machine = Machine::default();
        machine.reset(1, 7);
        let arguments: Vec<Datum> =
            arguments.iter().map(|value| machine.frame.arena.adopt(*value, arena)).collect();
        let call = Call { procedure, timestamp_us: 1, seed: 7 };
        let ran = execute(call, arguments.into_iter(), &mut machine, &mut self.data, &mut Whole);
        let mut rows_touched: HashMap<usize, Used> = HashMap::new();
        for touch in std::mem::take(&mut self.data.touched) {
            self.check(&procedure.name, &touch, &reserved);
            let used = rows_touched.entry(touch.row).or_default();
            *(if touch.writes { &mut used.written } else { &mut used.read }) |= touch.columns;
        }
        if ran.is_err() {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            // The rows that it has inserted are no rows of any other call.
            rows_touched.retain(|row, _| *row < rows.len());
            self.data.rows = rows;
        }
        self.touched.push(rows_touched);
    }

    /// Makes the reservations of the next call.
    fn reserve(&mut self, program: usize, arguments: &[Datum], arena: &Arena) -> Vec<Reserved<'c>> {
        let (procedure, reservations) = (self.procedures[program], &self.reservations[program]);
        let mut record = Vec::new();
        for ((_, parameter), value) in procedure.inputs().zip(arguments) {
            encode_value(*value, parameter.ty, arena, &mut record);
        }
        let (mut machine, mut key) = (Machine::default(), ReservedKey::default());
        let call = Call { procedure, timestamp_us: 1, seed: 7 };
        reservations.load(call, &record, &mut machine).expect("arguments of the procedure");
        let (mut reserved, vertex) = (Vec::new(), self.touched.len() as Vertex);
        reservations.for_each(&mut machine, None, &mut key, |reservation, key| {
            self.reserving.reserve(vertex, reservation, key, &mut self.entries);
            reserved.push(Reserved { reservation, key: key.prefix(key.len()).to_vec() });
        });
        reserved
    }

    /// A row that is read lies in a reservation; one that is written also in each index, of the right mode.
    fn check(&self, name: &str, touch: &Touch, reserved: &[Reserved<'_>]) {
        let table = self.data.table(touch.row);
        let covering = |index: usize| {
            let of_index = reserved.iter().filter(move |own| {
                (own.reservation.granule.table.id, own.reservation.granule.index) == (table.id, index)
            });
            of_index.filter(|own| own.covers(touch, &self.data.arena))
        };
        let describe = |index: usize| {
            let Touch { operation, side, .. } = touch;
            format!("call of {name}, {operation:?}, {side:?}: {} in index {index}", table.name)
        };
        let indexes = 0..table.indexes.len();
        if !touch.writes {
            let covered: Vec<_> = indexes.flat_map(covering).collect();
            assert!(!covered.is_empty(), "{}", describe(0));
            let narrow = covered.iter().any(|own| !own.reservation.granule.prefix.is_empty());
            let count = if narrow { &self.counts.narrow } else { &self.counts.wide };
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for index in indexes {
            let is_written = |own: &Reserved<'_>| match index {
                0 => matches!(own.reservation.mode, ReservationMode::Write | ReservationMode::Update),
                _ => !matches!(own.reservation.mode, ReservationMode::Read | ReservationMode::ReadFixed),
            };
            assert!(covering(index).any(is_written), "{}", describe(index));
        }
        assert!(touch.side == Side::After || covering(0).next().is_some());
    }
}

/// Returns, by call, the calls that run before it in any case.
fn ancestors(graph: &Graph) -> Vec<u128> {
    let mut before = vec![0_u128; graph.len()];
    for vertex in 0..graph.len() {
        for later in graph.later_than(vertex as Vertex) {
            before[later as usize] |= before[vertex] | 1 << vertex;
        }
    }
    before
}

fn check(case: &Case, counts: &Counts) {
    let schema = case.schema();
    let mut procedures: Vec<&Procedure> = schema.procedures().map(|own| &**own).collect();
    procedures.retain(|own| own.by_value.is_none());
    let reservations = Reservations::of_all(procedures.iter().copied());
    let reservations: Vec<Reservations> =
        reservations.into_iter().map(|own| own.expect("it is not logged by value")).collect();
    let mut run = Run {
        reserving: Reserving::of(reservations.iter()),
        reservations: &reservations,
        data: Memory::of_procedures(&procedures),
        procedures: procedures.clone(),
        entries: Entries::new(SHARDS),
        touched: Vec::new(),
        counts,
    };
    case.for_each_call(&procedures, |program, arguments, arena| run.call(program, arguments, arena));
    check_order(run);
}

/// Calls that touched the same columns of a row, one of them writing, are ordered. So are calls that wrote
/// one row.
fn check_order(run: Run<'_>) {
    let Run { entries, touched, counts, .. } = run;
    let builder = GraphBuilder::new(touched.len(), 1, SHARDS);
    builder.set_chunk(0, entries);
    (0..SHARDS).for_each(|shard| builder.build_shard(shard));
    let before = ancestors(&builder.finish());
    for (later, own) in touched.iter().enumerate() {
        for (earlier, other) in touched.iter().enumerate().take(later) {
            let is_ordered = before[later] >> earlier & 1 == 1;
            let shared = || own.iter().filter_map(|(row, used)| Some((*used, *other.get(row)?)));
            let meets = shared().any(|(own, other)| own.meets(other));
            let is_beside = shared().any(|(own, other)| own.written | other.written != 0);
            counts.beside.fetch_add((!is_ordered && is_beside).into(), Ordering::Relaxed);
            assert!(!meets || is_ordered, "calls {earlier} and {later} touch one row and may overlap");
            counts.ordered.fetch_add(meets.into(), Ordering::Relaxed);
            counts.free.fetch_add((!is_ordered).into(), Ordering::Relaxed);
        }
    }
}

#[test]
fn every_touched_row_is_reserved() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    let counts = Counts::default();
    // What is rare is drawn for longer: about one of 100 runs meets no update beside a read in its cases.
    for _ in 0..MOST_ROUNDS {
        proptest!(config.clone(), |(case in case())| check(&case, &counts));
        if counts.missing().is_none() {
            return;
        }
    }
    panic!("none were {} in {MOST_ROUNDS} times {cases} cases", counts.missing().expect("one is missing"));
}
