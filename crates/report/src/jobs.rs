//! The command lines of an experiment.

use crate::experiment::{Experiment, Kind, Panel, Series};

/// What a run of experiments may choose.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Duration of a point, in seconds.
    pub seconds: f64,
    /// The size of every workload; `None` leaves each its own.
    pub scale: Option<u32>,
    /// Number of runs of each point, of which the median counts.
    pub repetitions: u32,
}

/// A process whose result is a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The name of the panel.
    pub panel: &'static str,
    /// The name of the configuration.
    pub series: &'static str,
    /// The value of the axis.
    pub x: u32,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// The process that writes the log, without `--data`, for a recovery.
    pub log: Option<Vec<String>>,
    /// The arguments, in which `{data}` and `{device:N}` stand for folders.
    pub arguments: Vec<String>,
}

/// Returns the jobs of an experiment in groups. The logs of a group exist at the same time. In a group every
/// repetition goes through all configurations before the next one begins, so that a change of the machine
/// meets all of them.
pub fn jobs(experiment: &'static Experiment, settings: &Settings) -> Vec<Vec<Job>> {
    let values = experiment.axis.values;
    let all: Vec<Point> = experiment
        .panels
        .iter()
        .flat_map(|panel| values.iter().map(move |x| Point { panel, x: *x }))
        .collect();
    let groups: Vec<&[Point]> = match experiment.kind {
        Kind::Bench => vec![&all],
        // Each value of such an axis has a log.
        Kind::Recovery { .. } if !experiment.axis.bench.is_empty() => all.chunks(1).collect(),
        Kind::Recovery { .. } => all.chunks(values.len()).collect(),
        Kind::Drawing(_) => Vec::new(),
    };
    let of_group = |points: &&[Point]| {
        let mut jobs = Vec::new();
        for repetition in 0..settings.repetitions {
            for point in *points {
                let has = |series: &&Series| point.x <= series.at_most;
                let series = experiment.series.iter().filter(has);
                jobs.extend(series.map(|series| job(experiment, settings, point, series, repetition)));
            }
        }
        jobs
    };
    groups.iter().map(of_group).collect()
}

/// A panel and a value of the axis.
struct Point {
    panel: &'static Panel,
    x: u32,
}

fn job(
    experiment: &Experiment,
    settings: &Settings,
    point: &Point,
    series: &'static Series,
    repetition: u32,
) -> Job {
    let Point { panel, x } = point;
    let seconds = settings.seconds * f64::from(experiment.times);
    let scale = settings.scale.unwrap_or(panel.scale).to_string();
    let mut bench = vec!["bench".to_owned()];
    for arguments in [panel.arguments, &["--scale", &scale], series.bench, experiment.axis.bench] {
        bench.extend(arguments.iter().flat_map(|argument| filled(argument, *x)));
    }
    let (log, arguments) = match experiment.kind {
        Kind::Recovery { transactions_per_second } => {
            let transactions = (seconds * f64::from(transactions_per_second)).ceil().max(1.0);
            bench.extend(["--transactions".into(), transactions.to_string()]);
            let arguments = series.recover.iter().chain(experiment.axis.recover);
            let recover = arguments.flat_map(|argument| filled(&argument.replace("{scale}", &scale), *x));
            (Some(bench), recover.chain(["--json".to_owned()]).collect())
        }
        _ => {
            bench.extend(["--seconds".into(), seconds.to_string(), "--json".into()]);
            (None, bench)
        }
    };
    Job { panel: panel.name, series: series.name, x: *x, repetition, log, arguments }
}

/// Returns the arguments that one of an experiment stands for.
fn filled(argument: &str, x: u32) -> Vec<String> {
    let devices = argument.strip_prefix("{devices:").and_then(|rest| rest.strip_suffix('}'));
    match devices {
        Some(count) => {
            let count = count.parse().unwrap_or(x);
            (0..count).flat_map(|device| ["--log-device".into(), format!("{{device:{device}}}")]).collect()
        }
        None => vec![argument.replace("{x}", &x.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SETTINGS: Settings = Settings { seconds: 0.5, scale: Some(1), repetitions: 2 };

    #[test]
    fn devices_and_values_are_filled_in() {
        assert_eq!(filled("{devices:2}", 7), ["--log-device", "{device:0}", "--log-device", "{device:1}"]);
        assert_eq!(filled("{devices:x}", 1), ["--log-device", "{device:0}"]);
        assert_eq!(filled("hybrid:{x}", 7), ["hybrid:7"]);
    }

    /// No two jobs of an experiment are the same process, and each has a place of its own.
    #[test]
    fn jobs_differ() {
        for experiment in crate::papers::all() {
            let (mut lines, mut places) = (BTreeSet::new(), BTreeSet::new());
            for job in jobs(experiment, &SETTINGS).into_iter().flatten() {
                let line = format!("{:?} {:?} {}", job.log, job.arguments, job.repetition);
                assert!(lines.insert(line), "{}: {job:?}", experiment.name);
                let place = (job.panel, job.series, job.x, job.repetition);
                assert!(places.insert(place), "{}: {job:?}", experiment.name);
            }
            let is_drawing = matches!(experiment.kind, Kind::Drawing(_));
            assert_eq!(lines.is_empty(), is_drawing, "{}", experiment.name);
        }
    }

    /// A group compares its configurations again and again, instead of one after the other.
    #[test]
    fn configurations_take_turns() {
        let experiment = crate::papers::find("distdgcc-9").unwrap();
        let groups = jobs(experiment, &SETTINGS);
        let names: Vec<&str> = groups[0].iter().map(|job| job.series).collect();
        assert_eq!(names[..4], ["2PL", "OCC", "DGCC", "2PL"]);
        let repetitions: Vec<u32> = groups[0].iter().map(|job| job.repetition).collect();
        assert!(repetitions.is_sorted());
    }
}
