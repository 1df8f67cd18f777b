//! Describes results of the analysis, as text and as data.

use super::{
    Analysis, Granule, GranuleKind, Known, LocalGraph, Program, Reservation, ReservationMode, Reservations,
    Slice,
};
use crate::{Access, ByValueCause, Operation, OperationId, OperationKind, Path, Procedure, Witnessed};
use catalog::{Table, TableId};
use std::fmt;

/// Describes an operation in words.
pub fn describe(operation: &Operation) -> String {
    let columns = |table: &Table, positions: &[usize]| {
        positions.iter().map(|position| table.columns[*position].name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let way = |access: &Access| {
        let table = &access.table;
        match &access.path {
            Path::Point { .. } => format!("by key ({})", columns(table, &table.primary().columns)),
            Path::Range { index, prefix, lower, upper, key_columns, .. } => {
                let mut bound = key_columns[..prefix.len()].to_vec();
                if lower.is_some() || upper.is_some() {
                    bound.push(key_columns[prefix.len()]);
                }
                match bound.as_slice() {
                    [] => "all of it".into(),
                    bound => format!("by {} ({})", table.indexes[*index].name, columns(table, bound)),
                }
            }
        }
    };
    match &operation.kind {
        OperationKind::Select(select) => {
            format!("read {} {}", select.access.table.name, way(&select.access))
        }
        OperationKind::Insert { table, .. } => format!("insert into {}", table.name),
        OperationKind::Update { access, assignments, .. } => {
            let set: Vec<usize> = assignments.iter().map(|(column, ..)| *column).collect();
            format!("update {} {} set {}", access.table.name, way(access), columns(&access.table, &set))
        }
        OperationKind::Delete { access, .. } => format!("delete from {} {}", access.table.name, way(access)),
    }
}

impl Granule {
    /// Returns the granule in words: the keys of an index, the slices after which they are known, and whether
    /// they are written. Slices are numbered from 1, as in the text of an [`Analysis`].
    pub fn describe(&self, graph: &LocalGraph) -> String {
        let mut text = self.keys();
        if let Known::After(slices) = self.known(graph) {
            let slices: Vec<String> = slices.iter().map(|slice| (slice + 1).to_string()).collect();
            text = format!("{text} after {}", slices.join(", "));
        }
        if self.writes { format!("{text}, written") } else { text }
    }

    /// Returns in words the keys of an index that it covers.
    fn keys(&self) -> String {
        let index = &self.table.indexes[self.index].name;
        let names: Vec<&str> = self.columns().iter().map(|c| self.table.columns[*c].name.as_str()).collect();
        let names = names.join(", ");
        match self.kind {
            GranuleKind::Point => format!("one key of {index} ({names})"),
            GranuleKind::Range => format!("keys of {index} by ({names})"),
            GranuleKind::Table => format!("all keys of {index}"),
        }
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let use_ = match self.mode {
            ReservationMode::ReadFixed => "looks up",
            ReservationMode::Read => "reads",
            ReservationMode::Change => "changes rows of",
            ReservationMode::Touch => "adds or removes entries of",
            ReservationMode::Update => "updates",
            ReservationMode::Write => "adds or removes",
        };
        write!(f, "{use_} {}", self.granule.keys())
    }
}

impl Reservations {
    /// Returns the reservations of a call in words, each once.
    pub fn describe(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let in_words = self.once().map(Reservation::to_string);
        let of_rounds = self.of_rounds().map(|text| format!("in each round of a loop, {text}"));
        for text in in_words.chain(of_rounds) {
            if !words.contains(&text) {
                words.push(text);
            }
        }
        words
    }
}

/// The operations of a procedure that replay keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplaySummary {
    /// The procedure.
    pub name: String,
    /// Whether it only reads, so that its calls are not logged.
    pub read_only: bool,
    /// The cause for which its calls are logged by value, so that replay does not execute it; `None` if the
    /// analysis supports it.
    pub by_value: Option<ByValueCause>,
    /// Number of operations and queries of the procedure, and of the procedures that it calls if the analysis
    /// supports it.
    pub operations: usize,
    /// Number of operations of its replay form.
    pub kept: usize,
    /// Number of operations that replay executes of a call with recorded witness values.
    pub kept_with_witnesses: usize,
    /// The operations that are witnesses, each with its number of recorded values.
    pub witnesses: Vec<(String, usize)>,
}

impl ReplaySummary {
    /// Compares a procedure with its replay form.
    pub fn of(procedure: &Procedure) -> Self {
        match Program::new(procedure, Witnessed::Nothing) {
            Ok(program) => Self::of_program(procedure, &program),
            Err(cause) => Self {
                name: procedure.name.clone(),
                read_only: procedure.read_only,
                by_value: Some(cause),
                operations: procedure.operations.len() + procedure.queries.len(),
                kept: 0,
                kept_with_witnesses: 0,
                witnesses: Vec::new(),
            },
        }
    }

    fn of_program(procedure: &Procedure, program: &Program) -> Self {
        let kept = |program: &Program| {
            let form = program.replay_form();
            form.operation_ids().filter(|id| form.is_sliced(*id, &|_| false)).count()
        };
        let witnesses = procedure.operations.iter().zip(procedure.witnesses.of(Witnessed::NEWEST));
        let witnesses = witnesses.filter(|(_, registers)| !registers.is_empty());
        Self {
            name: procedure.name.clone(),
            read_only: procedure.read_only,
            by_value: None,
            operations: program.operations.len(),
            kept: kept(program),
            kept_with_witnesses: Program::new(procedure, Witnessed::NEWEST)
                .map_or(0, |witnessed| kept(&witnessed)),
            witnesses: witnesses
                .map(|(operation, registers)| (describe(operation), registers.len()))
                .collect(),
        }
    }
}

impl fmt::Display for ReplaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, operations, kept, kept_with_witnesses, .. } = self;
        if self.read_only {
            return write!(f, "{name} only reads: its calls are not logged");
        }
        if let Some(cause) = &self.by_value {
            return write!(f, "{name} {cause}: its calls are logged by value");
        }
        write!(f, "replay of {name} keeps {kept} of {operations} operations")?;
        if self.witnesses.is_empty() {
            return Ok(());
        }
        write!(f, ", {kept_with_witnesses} with witness values:")?;
        for (operation, values) in &self.witnesses {
            let values = if *values == 1 { "1 value".into() } else { format!("{values} values") };
            write!(f, "\n  {values} of each: {operation}")?;
        }
        Ok(())
    }
}

impl Analysis {
    /// Returns the name of a slice: its procedure, and its number in the procedure.
    pub fn slice_name(&self, slice: &Slice) -> String {
        let name = &self.programs[slice.program].name;
        // A block may hold several slices of a procedure's local graph, merged.
        let local = &self.local[slice.program].slices;
        let numbers = local
            .iter()
            .enumerate()
            .filter(|(_, local_slice)| slice.operations.contains(&local_slice.operations[0]));
        let numbers: Vec<String> = numbers.map(|(index, _)| (index + 1).to_string()).collect();
        format!("{name}.{}", numbers.join("+"))
    }

    /// Returns the names of the slices of each block, then the name of each table that only transactions
    /// logged by value touch.
    pub fn block_names(&self) -> Vec<Vec<String>> {
        let of_slices = self
            .global
            .blocks
            .iter()
            .map(|block| block.slices.iter().map(|slice| self.slice_name(slice)).collect());
        let is_alone = |id: &TableId| !self.global.blocks.iter().any(|block| block.tables.contains(id));
        let alone = self.written_by_value.iter().filter(|(id, _)| is_alone(id));
        of_slices.chain(alone.map(|(_, table)| vec![format!("table {}", table.name)])).collect()
    }

    /// Names the nodes that must run directly before a node.
    fn before(edges: &std::collections::BTreeSet<(usize, usize)>, node: usize) -> String {
        let before: Vec<String> =
            edges.iter().filter(|(_, to)| *to == node).map(|(from, _)| (from + 1).to_string()).collect();
        if before.is_empty() { String::new() } else { format!(" after {}", before.join(", ")) }
    }
}

fn list(operations: &[OperationId]) -> String {
    operations.iter().map(|id| (id.0 + 1).to_string()).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (program, local)) in self.programs.iter().zip(&self.local).enumerate() {
            writeln!(f, "procedure {}", program.name)?;
            for (id, operation) in program.operation_ids().zip(&program.operations) {
                writeln!(f, "  operation {}: {}", id.0 + 1, describe(operation))?;
                let footprint = self.footprint(number, id);
                let mut granules: Vec<String> =
                    footprint.iter().map(|granule| granule.describe(local)).collect();
                granules.dedup();
                granules.iter().try_for_each(|granule| writeln!(f, "    {granule}"))?;
            }
            for (index, slice) in local.slices.iter().enumerate() {
                let before = Self::before(&local.edges, index);
                writeln!(f, "  slice {}: operations {}{before}", index + 1, list(&slice.operations))?;
            }
        }
        writeln!(f, "global graph")?;
        for (index, block) in self.global.blocks.iter().enumerate() {
            let slices: Vec<String> = block.slices.iter().map(|slice| self.slice_name(slice)).collect();
            let before = Self::before(&self.global.edges, index);
            writeln!(f, "  block {}: {}{before}", index + 1, slices.join(", "))?;
        }
        Ok(())
    }
}
