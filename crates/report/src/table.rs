//! Results as Markdown tables, with the paper's numbers in brackets.

use crate::experiment::{Chart, Experiment, Measure, Panel, Published, Series};
use crate::results::{Place, Results};
use std::fmt::Write as _;

/// Returns the document of an experiment.
pub(crate) fn of(experiment: &Experiment, results: &Results) -> String {
    let Experiment { name, figure, title, .. } = experiment;
    let mut text = format!("### {title} ({figure})\n\n`reprise report {name}`, {}.", results.machine());
    if !experiment.published.is_empty() {
        text.push_str(" The paper's numbers are in brackets.");
    }
    text.push_str("\n\n");
    match experiment.chart {
        Chart::Curves(measures) => {
            for measure in measures {
                let cells = |panel: &Panel, series: &Series, x| {
                    let place = Place { panel: panel.name, series: series.name, x };
                    cell(experiment, &place, measure.name, results.median(&place, measure))
                };
                by_series(&mut text, experiment, &format!("{}, {}", measure.name, measure.unit), cells);
            }
        }
        Chart::Seconds(measures) => {
            for measure in measures {
                let cells = |panel: &Panel, series: &Series, x| {
                    let place = Place { panel: panel.name, series: series.name, x };
                    let seconds = results.seconds(&place, measure);
                    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
                    cell(experiment, &place, measure.name, mean.is_finite().then_some(mean))
                };
                let heading = format!("{}, {}, mean over the run", measure.name, measure.unit);
                by_series(&mut text, experiment, &heading, cells);
            }
        }
        Chart::Bars(parts) => by_part(&mut text, experiment, results, parts),
        Chart::None => {}
    }
    let _ = writeln!(text, "![{title}]({name}.svg)\n\n{}", experiment.remark);
    text
}

/// Writes a table with a row for each panel and value of the axis, and a column for each configuration.
fn by_series(
    text: &mut String,
    experiment: &Experiment,
    heading: &str,
    cell: impl Fn(&Panel, &Series, u32) -> String,
) {
    let names: Vec<&str> = experiment.series.iter().map(|series| series.name).collect();
    let _ = writeln!(text, "| {heading} | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for panel in experiment.panels {
        for x in experiment.axis.values {
            let cells: Vec<String> = experiment.series.iter().map(|series| cell(panel, series, *x)).collect();
            let _ = writeln!(text, "| {} | {} |", row(experiment, panel, *x), cells.join(" | "));
        }
    }
    text.push('\n');
}

/// Writes a table with a row for each bar and a column for each of its parts.
fn by_part(text: &mut String, experiment: &Experiment, results: &Results, parts: &[Measure]) {
    let names: Vec<String> = parts.iter().map(|part| format!("{}, {}", part.name, part.unit)).collect();
    let _ = writeln!(text, "| | | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(names.len()));
    for panel in experiment.panels {
        for series in experiment.series {
            for x in experiment.axis.values.iter().filter(|x| **x <= series.at_most) {
                let place = Place { panel: panel.name, series: series.name, x: *x };
                let cell = |part: &Measure| cell(experiment, &place, part.name, results.median(&place, part));
                let cells: Vec<String> = parts.iter().map(cell).collect();
                let row = row(experiment, panel, *x);
                let _ = writeln!(text, "| {row} | {} | {} |", series.name, cells.join(" | "));
            }
        }
    }
    text.push('\n');
}

/// Names a row.
fn row(experiment: &Experiment, panel: &Panel, x: u32) -> String {
    match experiment.axis.name {
        "" => panel.name.to_owned(),
        axis => format!("{}, {axis}: {x}", panel.name),
    }
}

/// Returns a number, and the paper's, as a cell.
fn cell(experiment: &Experiment, place: &Place<'_>, measure: &str, value: Option<f64>) -> String {
    let is_of = |number: &&Published| {
        (number.panel, number.series, number.measure) == (place.panel, place.series, measure)
            && number.x.is_none_or(|x| x == place.x)
    };
    let published = experiment.published.iter().find(is_of).map(|number| format!("({})", number.value));
    let cell: Vec<String> = value.map(digits).into_iter().chain(published).collect();
    cell.join(" ")
}

/// Returns a number with three digits that count.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{Job, Settings, jobs};
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn a_table_has_the_measured_and_the_published_numbers() {
        let experiment = crate::papers::find("pacman-table-1").unwrap();
        let settings = Settings { seconds: 1.0, scale: None, repetitions: 1 };
        let mut results = Results::new(Path::new("unused"), experiment);
        for job in jobs(experiment, &settings).into_iter().flatten() {
            let report =
                |job: &Job| json!({ "throughput_tps": if job.series == "PL" { 75_000 } else { 144_700 } });
            results.add(experiment, &job, report(&job));
        }
        let text = of(experiment, &results);
        assert!(
            text.contains("| throughput, thousand transactions a second | off | PL | LL | CL |"),
            "{text}"
        );
        assert!(text.contains("| TPC-C | 145 (95) | 75.0 (71) | 145 (74) | 145 (93) |"), "{text}");
        assert_eq!([1234.5, 12.34, 1.234, 0.1234].map(digits), ["1234", "12.3", "1.23", "0.123"]);
    }
}
