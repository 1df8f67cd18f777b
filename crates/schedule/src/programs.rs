//! The programs that the transactions of a run call: their pieces, and the partitions of each block.

use crate::divergence::{Divergence, RecordedCall};
use crate::{Definitions, Mode, Settings, Transaction};
use catalog::{CommitOrder, Reader, decode_value, skip_value};
use logging::content::CallRecord;
use procedure::analysis::{Cuts, Piece, Pieces};
use procedure::{Machine, OperationId, Procedure, Register, WitnessValues};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a block is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Partitions {
    pub(crate) count: usize,
    pub(crate) cut: Cut,
    /// Whether its units are assigned to partitions only after earlier blocks, whose results give their keys.
    pub(crate) is_deferred: bool,
}

impl Partitions {
    /// One partition, or as many as the block may have, with whole pieces in each.
    pub(crate) fn of_pieces(count: usize) -> Self {
        Self { count, cut: Cut::Pieces, is_deferred: false }
    }
}

/// What belongs to one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Whole pieces, by columns.
    Pieces,
    /// Whole pieces, by columns whose values they receive from earlier blocks.
    Received,
    /// Rounds of the pieces that fall into rounds, by columns.
    Rounds,
    /// Whole pieces that share keys, directly or through other pieces of the batch.
    Keys,
}

/// A program's piece of a block.
pub(crate) struct PieceFacts {
    pub(crate) piece: Arc<Piece>,
    /// Whether its rounds run as units of their own.
    pub(crate) is_in_rounds: bool,
    /// Whether the rows that it looks for are announced before it runs.
    pub(crate) announces: bool,
    /// The arguments that it reads: their positions, and their registers.
    pub(crate) inputs: Vec<(usize, Register)>,
    /// What it receives from other pieces.
    pub(crate) receives: Vec<TapeSource>,
    /// What it receives from the call's record.
    pub(crate) witnesses: Vec<WitnessSource>,
    /// The results that its partition follows from, where units are assigned after the blocks that send them.
    pub(crate) keys: Vec<KeySource>,
    /// Average number of operations of a unit.
    pub(crate) operations: f64,
}

/// The tape with the results of an operation.
pub(crate) struct TapeSource {
    pub(crate) operation: OperationId,
    pub(crate) block: usize,
    pub(crate) tape: usize,
}

/// The results of an operation that tell the partition of a piece.
pub(crate) struct KeySource {
    pub(crate) tape: TapeSource,
    /// The registers of the results, in the order in which they are sent.
    pub(crate) registers: Vec<Register>,
}

/// The witness values of an operation.
pub(crate) struct WitnessSource {
    pub(crate) operation: OperationId,
    /// The index of the witness in the call's record.
    pub(crate) index: usize,
    /// The number of values that each execution of the operation takes.
    pub(crate) values: usize,
}

/// A call of a run.
#[derive(Clone, Copy)]
pub(crate) struct Call<'b> {
    pub(crate) order: CommitOrder,
    pub(crate) program: usize,
    pub(crate) record: &'b CallRecord<'b>,
}

/// By program and operation, the block of the piece that sends it, and the number of its tape there.
pub(crate) type TapeNumbers = Vec<Vec<Option<(usize, usize)>>>;

/// The programs of a run, under definitions that do not change.
pub struct Programs {
    pub(crate) pieces: Arc<Pieces>,
    /// By program, its procedure.
    pub(crate) procedures: Vec<Arc<Procedure>>,
    pub(crate) definitions: Definitions,
    pub(crate) settings: Settings,
    /// By program and block.
    facts: Vec<Vec<Option<PieceFacts>>>,
    /// By block.
    pub(crate) partitions: Vec<Partitions>,
    pub(crate) tapes: TapeNumbers,
    /// By block, the number of tapes of a partition.
    pub(crate) tape_counts: Vec<usize>,
}

impl Programs {
    /// Cuts blocks into partitions. `pieces` are those of the procedures' programs, and `sample` holds
    /// transactions of the run, at most `SAMPLED`.
    ///
    /// # Errors
    /// The arguments of a sampled call do not fit its procedure.
    pub fn new<'b>(
        pieces: impl Into<Arc<Pieces>>,
        procedures: Vec<Arc<Procedure>>,
        definitions: Definitions,
        settings: Settings,
        sample: impl Iterator<Item = Transaction<'b>>,
    ) -> Result<Self, Divergence> {
        let (pieces, most) = (pieces.into(), settings.most_partitions());
        let whole = |cuts: &Cuts| Partitions::of_pieces(if cuts.whole { most } else { 1 });
        let partitions: Vec<Partitions> = pieces.cuts.iter().map(whole).collect();
        let (tapes, tape_counts) = number_tapes(&pieces);
        let facts = Vec::new();
        let mut programs =
            Self { pieces, procedures, definitions, settings, facts, partitions, tapes, tape_counts };
        let weights = programs.sample(sample)?;
        let facts = weights.iter().enumerate().map(|(program, weights)| programs.facts_of(program, weights));
        programs.facts = facts.collect();
        Ok(programs)
    }

    /// Makes every piece, or every round of a piece that has rounds, a unit by itself.
    pub(crate) fn of_units(
        pieces: Arc<Pieces>,
        procedures: Vec<Arc<Procedure>>,
        definitions: Definitions,
    ) -> Self {
        let cut = |cuts: &Cuts| if cuts.rounds { Cut::Rounds } else { Cut::Pieces };
        let partitions = pieces.cuts.iter();
        let partitions = partitions.map(|own| Partitions { cut: cut(own), ..Partitions::of_pieces(1) });
        let partitions: Vec<Partitions> = partitions.collect();
        let (tapes, tape_counts) = number_tapes(&pieces);
        let settings = Settings { mode: Mode::default(), threads: 1 };
        let weights = vec![1.0; partitions.len()];
        let facts = Vec::new();
        let mut programs =
            Self { pieces, procedures, definitions, settings, facts, partitions, tapes, tape_counts };
        let facts = 0..programs.pieces.programs.len();
        programs.facts = facts.map(|program| programs.facts_of(program, &weights)).collect();
        programs
    }

    /// Describes the pieces of a program, by block. `weights` has the average number of operations of a whole
    /// piece, by block.
    fn facts_of(&self, program: usize, weights: &[f64]) -> Vec<Option<PieceFacts>> {
        let mut facts: Vec<_> = self.partitions.iter().map(|_| None).collect();
        let witnesses = &self.pieces.programs[program].witnesses;
        for piece in &self.pieces.pieces[program] {
            let is_in_rounds = piece.rounds.is_some() && self.partitions[piece.block].cut == Cut::Rounds;
            let tape = |id: &OperationId| {
                let (block, tape) = self.tapes[program][id.0 as usize]?;
                Some(TapeSource { operation: *id, block, tape })
            };
            let key = |id: &OperationId| {
                let registers = self.pieces.sent(program, *id).to_vec();
                tape(id).map(|tape| KeySource { tape, registers })
            };
            let witness = |id: &OperationId| {
                let (index, registers) = witnesses.get(id)?;
                Some(WitnessSource { operation: *id, index: *index, values: registers.len() })
            };
            let input = |(index, register): (usize, &Option<Register>)| register.map(|own| (index, own));
            facts[piece.block] = Some(PieceFacts {
                piece: Arc::clone(piece),
                is_in_rounds,
                announces: !piece.looks_up_in_loops(is_in_rounds),
                inputs: piece.inputs.iter().enumerate().filter_map(input).collect(),
                receives: piece.receives.iter().filter_map(tape).collect(),
                witnesses: piece.receives.iter().filter_map(witness).collect(),
                keys: piece.key_sources.iter().filter_map(key).collect(),
                operations: if is_in_rounds { piece.executes.len() as f64 } else { weights[piece.block] },
            });
        }
        facts
    }

    /// Returns the blocks whose results the partitions of a block follow from; none unless it is deferred.
    pub(crate) fn key_blocks(&self, block: usize) -> Vec<usize> {
        if !self.partitions[block].is_deferred {
            return Vec::new();
        }
        let facts = self.facts.iter().filter_map(|facts| facts[block].as_ref());
        let blocks = facts.flat_map(|facts| facts.keys.iter().map(|key| key.tape.block));
        blocks.collect::<BTreeSet<usize>>().into_iter().collect()
    }

    pub(crate) fn facts(&self, program: usize, block: usize) -> &PieceFacts {
        self.facts[program][block].as_ref().expect("a unit of a call has a piece")
    }

    /// Begins a piece of a call; all registers are NULL.
    #[inline]
    pub(crate) fn begin_piece(&self, call: Call<'_>, machine: &mut Machine) {
        let Call { program, record, .. } = call;
        machine.begin_piece(self.pieces.programs[program].registers, record.timestamp_us, record.seed);
    }

    /// Puts a call's arguments into registers; with `witnesses`, also reads its witness values. Returns where
    /// the arguments end in the record, if that was reached.
    pub(crate) fn load_inputs(
        &self,
        call: Call<'_>,
        inputs: &[Option<Register>],
        machine: &mut Machine,
        witnesses: Option<&mut WitnessValues>,
    ) -> Result<Option<usize>, Divergence> {
        let Call { order, program, record } = call;
        let procedure = &self.procedures[program];
        self.begin_piece(call, machine);
        let mut reader = Reader::new(record.arguments);
        let failed =
            |error: &dyn std::fmt::Display| RecordedCall { order, procedure, record }.diverged(error);
        let last = inputs.iter().rposition(Option::is_some).map_or(0, |index| index + 1);
        let wanted = if witnesses.is_some() { inputs.len() } else { last };
        for ((_, parameter), register) in procedure.inputs().zip(inputs).take(wanted) {
            let Some(register) = register else {
                skip_value(parameter.ty, &mut reader).map_err(|error| failed(&error))?;
                continue;
            };
            let value = decode_value(parameter.ty, &mut reader, &mut machine.frame.arena);
            machine.set(*register, value.map_err(|error| failed(&error))?);
        }
        let end = record.arguments.len() - reader.remaining();
        if let Some(witnesses) = witnesses {
            self.read_witnesses(call, end, witnesses)?;
        }
        Ok((wanted == inputs.len()).then_some(end))
    }

    /// Reads the witness values of a call, which begin at a position of its record.
    pub(crate) fn read_witnesses(
        &self,
        call: Call<'_>,
        start: usize,
        witnesses: &mut WitnessValues,
    ) -> Result<(), Divergence> {
        let Call { order, program, record } = call;
        let procedure = &self.procedures[program];
        let count = procedure.witnesses.count(record.witnessed);
        let read = witnesses.read(&mut Reader::new(&record.arguments[start..]), count);
        read.map_err(|error| RecordedCall { order, procedure, record }.diverged(&error))
    }
}

/// Gives each operation that is sent a tape in its block; returns the tapes, and their number in each block.
fn number_tapes(pieces: &Pieces) -> (TapeNumbers, Vec<usize>) {
    let mut counts = vec![0; pieces.before.len()];
    let mut numbers: TapeNumbers =
        pieces.programs.iter().map(|program| vec![None; program.operations.len()]).collect();
    for (program, of_program) in pieces.pieces.iter().enumerate() {
        for piece in of_program {
            for id in &piece.sends {
                numbers[program][id.0 as usize] = Some((piece.block, counts[piece.block]));
                counts[piece.block] += 1;
            }
        }
    }
    (numbers, counts)
}
