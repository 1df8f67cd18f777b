//! `reprise explain`: shows the static analysis of procedures.

mod code;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use drawing::granule;
use procedure::ByValueCause;
use procedure::analysis::{Analysis, Pieces, ReplaySummary, Reservations, Slice, describe};
use serde::Serialize;
use sql::Schema;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

/// An output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// Operations, slices, blocks and granules as text.
    Text,
    /// All graphs in Graphviz's DOT language.
    Dot,
    /// A drawing of the global graph, or of one procedure's local graph.
    Svg,
    /// Everything, as JSON.
    Json,
}

#[derive(Args)]
pub struct Arguments {
    /// A SQL file that defines tables and procedures.
    #[arg(required_unless_present = "workload")]
    file: Option<PathBuf>,
    /// The definitions of a workload instead: tpcc, smallbank.
    #[arg(long, conflicts_with = "file")]
    workload: Option<String>,
    /// Output format.
    #[arg(long, default_value = "text")]
    format: Format,
    /// With --format svg: the local graph of this procedure instead of the global graph.
    #[arg(long)]
    procedure: Option<String>,
    /// Compile the procedures to machine code, and show its size, the time that this takes, and what stays
    /// interpreted. With --format text or json.
    #[arg(long)]
    code: bool,
}

#[derive(Serialize)]
struct Explanation {
    procedures: Vec<Procedure>,
    blocks: Vec<Block>,
    edges: BTreeSet<(usize, usize)>,
}

#[derive(Serialize)]
struct Procedure {
    name: String,
    read_only: bool,
    by_value: bool,
    operations: usize,
    replay_operations: usize,
    replay_operations_with_witnesses: usize,
    witnesses: Vec<Witness>,
    replay_form: Vec<String>,
    slices: Vec<Vec<usize>>,
    edges: BTreeSet<(usize, usize)>,
    /// What a call reserves before its batch runs; none if it runs beside batches.
    reservations: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Witness {
    operation: String,
    values: usize,
}

#[derive(Serialize)]
struct Block {
    slices: Vec<String>,
    granule: String,
}

/// What is known of a procedure.
struct Known {
    summary: ReplaySummary,
    /// What a call reserves, in words; or the cause for which it runs beside batches.
    reservations: Result<Vec<String>, ByValueCause>,
}

fn explanation(analysis: &Analysis, procedures: &[Known]) -> Explanation {
    let pieces = Pieces::of(analysis);
    let indexes = |slice: &Slice| slice.operations.iter().map(|id| id.0 as usize).collect();
    let procedure = |Known { summary, reservations }: &Known| {
        let program = analysis.programs.iter().position(|program| program.name == summary.name);
        let local = program.map(|index| &analysis.local[index]);
        let operations = program.map(|index| &analysis.programs[index].operations);
        Procedure {
            name: summary.name.clone(),
            read_only: summary.read_only,
            by_value: summary.by_value.is_some(),
            operations: summary.operations,
            replay_operations: summary.kept,
            replay_operations_with_witnesses: summary.kept_with_witnesses,
            witnesses: summary
                .witnesses
                .iter()
                .map(|(operation, values)| Witness { operation: operation.clone(), values: *values })
                .collect(),
            replay_form: operations.into_iter().flatten().map(describe).collect(),
            slices: local.into_iter().flat_map(|graph| graph.slices.iter().map(indexes)).collect(),
            edges: local.map(|graph| graph.edges.clone()).unwrap_or_default(),
            reservations: reservations.clone().ok(),
        }
    };
    let names = analysis.block_names().into_iter().enumerate();
    Explanation {
        procedures: procedures.iter().map(procedure).collect(),
        blocks: names.map(|(index, slices)| Block { slices, granule: granule(&pieces, index) }).collect(),
        edges: analysis.global.edges.clone(),
    }
}

fn text(analysis: &Analysis, procedures: &[Known]) -> Result<String> {
    let mut text = String::new();
    for Known { summary, .. } in procedures {
        writeln!(text, "{summary}")?;
    }
    write!(text, "{analysis}")?;
    let pieces = Pieces::of(analysis);
    writeln!(text, "granules")?;
    for block in 0..analysis.global.blocks.len() {
        writeln!(text, "  block {}: {}", block + 1, granule(&pieces, block))?;
    }
    writeln!(
        text,
        "batches (--concurrency dgcc): a call runs as a whole, so one that fails is undone before"
    )?;
    writeln!(text, "any call that waits for it begins")?;
    for Known { summary, reservations } in procedures {
        match reservations {
            Ok(reservations) => {
                writeln!(text, "  a call of {}", summary.name)?;
                reservations.iter().try_for_each(|own| writeln!(text, "    {own}"))?;
            }
            Err(cause) => writeln!(text, "  {} {cause}: its calls run beside batches", summary.name)?,
        }
    }
    Ok(text)
}

fn svg(analysis: &Analysis, procedure: Option<&str>) -> Result<String> {
    let mut graphs = drawing::graphs(analysis);
    let wanted = procedure.map(|name| format!("procedure {name}"));
    let wanted = wanted.as_deref().unwrap_or("global graph");
    let Some(index) = graphs.iter().position(|graph| graph.title == wanted) else {
        bail!("there is no graph of {wanted}: there is no such procedure, or it only reads");
    };
    Ok(drawing::svg(&graphs.swap_remove(index)))
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.procedure.is_some() && arguments.format != Format::Svg {
        bail!("--procedure needs --format svg: the other formats show all procedures");
    }
    if arguments.code && !matches!(arguments.format, Format::Text | Format::Json) {
        bail!("--code is shown as text or JSON");
    }
    let mut schema = Schema::default();
    for (name, script) in scripts(arguments)? {
        for (statement, line, _) in Schema::split(&script)? {
            schema = match schema.apply(&statement) {
                Ok((changed, _)) => changed,
                Err(error) => {
                    let line = line + error.line - 1;
                    bail!("{name}, line {line}, column {}: {}", error.column, error.error)
                }
            };
        }
    }
    let mut procedures: Vec<_> = schema.procedures().collect();
    procedures.sort_by_key(|procedure| procedure.id);
    if arguments.code {
        let codes = code::of(&procedures);
        return print(&match arguments.format {
            Format::Json => serde_json::to_string_pretty(&codes)? + "\n",
            _ => code::text(&codes),
        });
    }
    let reservations = Reservations::of_all(procedures.iter().map(|procedure| &***procedure));
    let known = procedures.iter().zip(reservations).map(|(procedure, reservations)| Known {
        summary: ReplaySummary::of(procedure),
        reservations: reservations.map(|own| own.describe()),
    });
    let known: Vec<Known> = known.collect();
    let analysis = Analysis::of(procedures.into_iter().map(|procedure| &**procedure));
    let shown = match arguments.format {
        Format::Text => text(&analysis, &known)?,
        Format::Dot => drawing::dot(&drawing::graphs(&analysis)),
        Format::Svg => svg(&analysis, arguments.procedure.as_deref())?,
        Format::Json => serde_json::to_string_pretty(&explanation(&analysis, &known))? + "\n",
    };
    print(&shown)
}

/// Writes a text to standard output.
fn print(shown: &str) -> Result<()> {
    match std::io::stdout().write_all(shown.as_bytes()) {
        // The reader, such as `head`, has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Returns the definitions to explain, each with a name for messages.
fn scripts(arguments: &Arguments) -> Result<Vec<(String, String)>> {
    if let Some(file) = &arguments.file {
        let script =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        return Ok(vec![(file.display().to_string(), script)]);
    }
    let name = arguments.workload.as_deref().unwrap_or_default();
    let workload = match workload::by_name(name, 1, "full") {
        Ok(workload) => workload,
        Err(message) => bail!(message),
    };
    Ok(workload.definitions().iter().map(|script| (name.to_owned(), (*script).to_owned())).collect())
}
