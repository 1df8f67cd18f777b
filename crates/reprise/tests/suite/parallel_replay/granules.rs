//! Granules against rows: what operations of random procedures touch lies in what the analysis says of them.

use super::memory::{CallTapes, Memory, Side, Touch};
use super::{Case, case};
use catalog::{Arena, Datum};
use procedure::analysis::{Analysis, Extent, Footprint, Granule, Pieces};
use procedure::{Machine, OperationId, Procedure, execute_piece};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was compared.
#[derive(Default)]
struct Counts {
    /// Rows of granules that are smaller than their table.
    narrow: AtomicU64,
    /// Rows of granules whose values a slice before has read.
    after_reads: AtomicU64,
    /// Pairs of operations of two calls that touched one row, of which one wrote it.
    pairs: AtomicU64,
}

/// A touch of a row by a call that has ended.
struct Earlier {
    call: usize,
    extents: Vec<Extent>,
}

/// Returns which of the earlier touches of a row come before the next one in any case: its extents conflict
/// with theirs, or with those of a touch between them that comes after them. An update between two touches
/// may have given the row another key, so that the two have nothing in common.
fn ordered_before(next: &[Extent], earlier: &[Earlier]) -> Vec<bool> {
    let conflict =
        |a: &[Extent], b: &[Extent]| a.iter().any(|own| b.iter().any(|other| own.conflicts(other)));
    let mut ordered = vec![false; earlier.len()];
    for (place, own) in earlier.iter().enumerate().rev() {
        let mut between = (place + 1..earlier.len()).filter(|later| ordered[*later]);
        ordered[place] = conflict(&own.extents, next)
            || between.any(|later| conflict(&own.extents, &earlier[later].extents));
    }
    ordered
}

/// A schema's procedures, in pieces, and their rows.
struct Run<'c> {
    analysis: Analysis,
    pieces: Pieces,
    data: Memory,
    calls: usize,
    /// By row.
    earlier: HashMap<usize, Vec<Earlier>>,
    counts: &'c Counts,
}

/// One call that runs.
struct Running {
    program: usize,
    call: usize,
}

impl Run<'_> {
    /// Runs a call, piece after piece; one that fails leaves nothing.
    fn call(&mut self, program: usize, arguments: &[Datum], arena: &Arena) {
        self.calls += 1;
        let (rows, running) = (self.data.rows.clone(), Running { program, call: self.calls });
        let mut tapes = CallTapes::default();
        let mut touched = Vec::new();
        for place in 0..self.pieces.pieces[program].len() {
            let piece = &self.pieces.pieces[program][place];
            let mut machine = Machine::default();
            machine.begin_piece(self.pieces.programs[program].registers, 1, 7);
            for (register, value) in piece.inputs.iter().zip(arguments) {
                if let Some(register) = register {
                    let value = machine.frame.arena.adopt(*value, arena);
                    machine.set(*register, value);
                }
            }
            let code = self.pieces.code(program, piece, false);
            let of_piece = &mut tapes.of_piece(piece, &self.data.running);
            if execute_piece(code, &mut machine, &mut self.data, of_piece).is_err() {
                self.data.rows = rows;
                self.data.touched.clear();
                return;
            }
            for touch in std::mem::take(&mut self.data.touched) {
                touched.push((touch.row, self.check(&running, &touch, &mut machine)));
            }
        }
        for (row, extents) in touched {
            let earlier = self.earlier.entry(row).or_default();
            let ordered = ordered_before(&extents, earlier);
            let before = earlier.iter().zip(ordered).filter(|(own, _)| own.call != self.calls);
            for (other, is_ordered) in before {
                let writes = |extents: &[Extent]| extents.iter().any(|own| own.writes);
                if writes(&extents) || writes(&other.extents) {
                    assert!(is_ordered, "{extents:?} and {:?} touch one row", other.extents);
                    self.counts.pairs.fetch_add(1, Ordering::Relaxed);
                }
            }
            earlier.push(Earlier { call: self.calls, extents });
            let first = earlier.len().saturating_sub(6);
            earlier.drain(..first);
        }
    }

    /// Compares a row with the granules of the operation that touched it; returns them.
    fn check(&self, running: &Running, touch: &Touch, machine: &mut Machine) -> Vec<Extent> {
        let Footprint { before, after, references, .. } =
            self.analysis.footprint(running.program, touch.operation);
        assert!(references.is_empty(), "no table of these references another one");
        let of_side = if touch.side == Side::Before || after.is_empty() { &before } else { &after };
        assert!(!of_side.is_empty());
        for granule in of_side {
            self.check_granule(running, touch, granule, machine);
        }
        let all = before.iter().chain(&after);
        all.map(|own| own.extent(machine).expect("the operation ran, so its granules are known")).collect()
    }

    fn check_granule(&self, running: &Running, touch: &Touch, granule: &Granule, machine: &mut Machine) {
        let extent = granule.extent(machine).expect("the operation ran, so its granules are known");
        let mut row = Vec::new();
        for column in granule.columns() {
            granule.table.write_canonical_column(column, touch.values[column], &self.data.arena, &mut row);
        }
        let Running { program, call } = running;
        let name = &self.pieces.programs[*program].name;
        let OperationId(operation) = touch.operation;
        assert!(
            row == extent.prefix,
            "call {call} of {name}, operation {}: a row lies outside of its granule {granule:?}",
            operation + 1
        );
        if !granule.prefix.is_empty() {
            self.counts.narrow.fetch_add(1, Ordering::Relaxed);
        }
        if granule.prefix.iter().any(|value| !value.after().is_empty()) {
            self.counts.after_reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn check(case: &Case, counts: &Counts) {
    let schema = case.schema();
    let mut procedures: Vec<&Procedure> = schema.procedures().map(|own| &**own).collect();
    procedures.retain(|own| !own.read_only && own.by_value.is_none());
    procedures.sort_by_key(|own| own.id);
    let analysis = Analysis::of(procedures.iter().copied());
    let pieces = Pieces::of(&analysis);
    let data = Memory::of_procedures(&procedures);
    let mut run = Run { analysis, pieces, data, calls: 0, earlier: HashMap::new(), counts };
    case.for_each_call(&procedures, |program, arguments, arena| run.call(program, arguments, arena));
}

#[test]
fn every_row_lies_in_its_granule() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500);
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Default::default() };
    let counts = Counts::default();
    proptest!(config, |(case in case())| check(&case, &counts));
    let Counts { narrow, after_reads, pairs } = counts;
    for (count, of) in [(narrow, "narrow"), (after_reads, "known after reads"), (pairs, "pairs")] {
        assert!(count.into_inner() > 0, "no granules were {of}");
    }
}
