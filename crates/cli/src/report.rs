//! `reprise report`: runs the figures and tables of the papers as experiments.

use crate::{numbers, progress};
use anyhow::{Context, Result};
use clap::Args;
use report::{Runner, Settings, Step};
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// The figures and tables, as --list names them.
    #[arg(required_unless_present = "list")]
    figures: Vec<String>,
    /// Print the name and the title of each figure.
    #[arg(long)]
    list: bool,
    /// The folder of the results: FIGURE.json, FIGURE.svg and FIGURE.md. It is made when it does not exist.
    /// Points that it has from an earlier run with the same settings are not run again.
    #[arg(long, default_value = "report")]
    out: PathBuf,
    /// Seconds of a point. A log to recover has a number of transactions in proportion.
    #[arg(long, default_value_t = 4.0, value_parser = numbers::seconds())]
    seconds: f64,
    /// Runs of each point, of which the median counts.
    #[arg(long, default_value_t = 3, value_parser = numbers::from::<u32>(1, 1000))]
    repetitions: u32,
    /// Size of the workloads, as in `bench`. [default: each figure has its own]
    #[arg(long, value_parser = numbers::scale())]
    scale: Option<u32>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        let width = report::all().map(|experiment| experiment.name.len()).max().unwrap_or(0);
        for experiment in report::all() {
            println!("{:width$}  {} ({})", experiment.name, experiment.title, experiment.figure);
        }
        return Ok(());
    }
    let experiments =
        arguments.figures.iter().map(|name| report::find(name)).collect::<Result<Vec<_>, _>>()?;
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let Arguments { seconds, scale, repetitions, .. } = *arguments;
    let runner = Runner::new(&program, &arguments.out, Settings { seconds, scale, repetitions })?;
    let bar = progress::bar("", 0);
    let outcomes = runner.run(&experiments, &mut |Step { done, total, experiment }| {
        bar.set_message(experiment.to_owned());
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    for outcome in outcomes? {
        println!("{}", outcome.table);
        let files = arguments.out.join(outcome.experiment.name);
        eprintln!(
            "{}.json, .svg, .md: {} processes ran, {} results were there",
            files.display(),
            outcome.ran,
            outcome.reused
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Arguments;
    use clap::CommandFactory as _;
    use report::{Kind, Settings, jobs};

    /// Every experiment runs commands that the program has.
    #[test]
    fn command_lines_of_experiments_parse() {
        let program = Arguments::command();
        let mut parsed = 0;
        let mut parse = |arguments: &[String]| {
            let line = std::iter::once("reprise").chain(arguments.iter().map(String::as_str));
            if let Err(error) = program.clone().try_get_matches_from(line) {
                panic!("{arguments:?}: {error}");
            }
            parsed += 1;
        };
        let settings = Settings { seconds: 0.1, scale: None, repetitions: 1 };
        for experiment in report::all() {
            if let Kind::Drawing(arguments) = experiment.kind {
                let svg = arguments.iter().copied().chain(["--format", "svg"]).map(str::to_owned);
                parse(&svg.collect::<Vec<_>>());
            }
            for job in jobs(experiment, &settings).into_iter().flatten() {
                parse(&job.arguments);
                job.log.iter().for_each(|log| parse(log));
            }
        }
        assert!(parsed > 200, "{parsed} command lines");
    }
}
