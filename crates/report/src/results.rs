//! The results of an experiment: a JSON file with a point for each process that has ended.
//!
//! After a crash: the file of the last point that was written; it is replaced as a whole.

use crate::error::ReportError;
use crate::experiment::{Experiment, Measure, SecondMeasure};
use crate::jobs::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The machine of a run.
#[derive(Clone, Serialize, Deserialize, Debug)]
struct Machine {
    cores: usize,
    processor: String,
    program: String,
}

impl Machine {
    fn of_this_run() -> Self {
        let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            program: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// A process that has ended.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Point {
    pub panel: String,
    pub series: String,
    pub x: u32,
    pub repetition: u32,
    /// The arguments of the process that wrote the log, for a recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<String>>,
    pub arguments: Vec<String>,
    /// The measures of the experiment, by name, for readers of the file.
    pub values: BTreeMap<String, f64>,
    /// What the process printed.
    pub report: Value,
}

/// What makes two processes the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Process {
    log: Option<Vec<String>>,
    arguments: Vec<String>,
    repetition: u32,
}

impl From<&Job> for Process {
    fn from(job: &Job) -> Self {
        Self { log: job.log.clone(), arguments: job.arguments.clone(), repetition: job.repetition }
    }
}

#[derive(Serialize, Deserialize, Debug)]
struct File {
    experiment: String,
    figure: String,
    title: String,
    machine: Machine,
    points: Vec<Point>,
}

/// The results of one experiment.
#[derive(Debug)]
pub(crate) struct Results {
    path: PathBuf,
    file: File,
}

fn read(path: &Path) -> Result<Option<File>, ReportError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReportError::File { path: path.into(), source }),
    };
    let file = serde_json::from_slice(&text);
    file.map(Some).map_err(|source| ReportError::Malformed { path: path.into(), source })
}

/// Returns the path of an experiment's file of results.
pub(crate) fn path(folder: &Path, experiment: &Experiment) -> PathBuf {
    folder.join(format!("{}.json", experiment.name))
}

/// Returns what the processes of some experiments have printed, as far as a folder has their results.
pub(crate) fn known(
    folder: &Path,
    experiments: impl Iterator<Item = &'static Experiment>,
) -> Result<BTreeMap<Process, Value>, ReportError> {
    let mut known = BTreeMap::new();
    for experiment in experiments {
        let points = read(&path(folder, experiment))?.map_or(Vec::new(), |file| file.points);
        for Point { log, arguments, repetition, report, .. } in points {
            known.insert(Process { log, arguments, repetition }, report);
        }
    }
    Ok(known)
}

impl Results {
    /// Returns results without points.
    pub fn new(folder: &Path, experiment: &Experiment) -> Self {
        let file = File {
            experiment: experiment.name.into(),
            figure: experiment.figure.into(),
            title: experiment.title.into(),
            machine: Machine::of_this_run(),
            points: Vec::new(),
        };
        Self { path: path(folder, experiment), file }
    }

    /// Adds what a process has printed.
    pub fn add(&mut self, experiment: &Experiment, job: &Job, report: Value) {
        let measures = experiment.chart.measures().iter();
        let values = measures.filter_map(|measure| Some((measure.name.to_owned(), (measure.of)(&report)?)));
        self.file.points.push(Point {
            panel: job.panel.into(),
            series: job.series.into(),
            x: job.x,
            repetition: job.repetition,
            log: job.log.clone(),
            arguments: job.arguments.clone(),
            values: values.collect(),
            report,
        });
    }

    /// Writes the file.
    pub fn save(&self) -> Result<(), ReportError> {
        let failed = |source| ReportError::File { path: self.path.clone(), source };
        let text = serde_json::to_vec_pretty(&self.file).map_err(std::io::Error::from).map_err(failed)?;
        let next = self.path.with_extension("json.new");
        std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, &self.path)).map_err(failed)
    }

    /// Describes the machine.
    pub fn machine(&self) -> String {
        let Machine { cores, processor, .. } = &self.file.machine;
        format!("{cores} cores, {processor}")
    }

    fn points<'r>(&'r self, place: &'r Place<'_>) -> impl Iterator<Item = &'r Point> {
        let Place { panel, series, x } = place;
        let is_there = move |point: &&Point| {
            (point.panel.as_str(), point.series.as_str(), point.x) == (*panel, *series, *x)
        };
        self.file.points.iter().filter(is_there)
    }

    /// Returns the median of a number over the repetitions.
    pub fn median(&self, place: &Place<'_>, measure: &Measure) -> Option<f64> {
        let mut values: Vec<f64> =
            self.points(place).filter_map(|point| (measure.of)(&point.report)).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            length if length % 2 == 1 => Some(values[middle]),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        }
    }

    /// Returns a number of each second, on average over the repetitions. The last second is left out when it
    /// is not the only one, because it is shorter.
    pub fn seconds(&self, place: &Place<'_>, measure: &SecondMeasure) -> Vec<f64> {
        let mut sums: Vec<(f64, u32)> = Vec::new();
        for point in self.points(place) {
            let seconds = point.report["timeline"].as_array().map_or(&[][..], Vec::as_slice);
            let whole = seconds.len().saturating_sub(1).max(1).min(seconds.len());
            for (index, second) in seconds[..whole].iter().enumerate() {
                let value = second[measure.field].as_f64().unwrap_or(0.0) * measure.factor;
                match sums.get_mut(index) {
                    Some((sum, count)) => (*sum, *count) = (*sum + value, *count + 1),
                    None => sums.push((value, 1)),
                }
            }
        }
        sums.into_iter().map(|(sum, count)| sum / f64::from(count)).collect()
    }
}

/// A point of an experiment, without its repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub panel: &'a str,
    pub series: &'a str,
    pub x: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::THROUGHPUT;
    use serde_json::json;

    #[test]
    fn the_median_counts_and_a_file_is_read_again() {
        let experiment = crate::papers::find("distdgcc-9").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::new(folder.path(), experiment);
        let job = |repetition| Job {
            panel: "p",
            series: "s",
            x: 2,
            repetition,
            log: None,
            arguments: vec!["bench".into()],
        };
        for (repetition, tps) in [9_000.0, 1_000.0, 5_000.0].into_iter().enumerate() {
            results.add(experiment, &job(repetition as u32), json!({ "throughput_tps": tps }));
        }
        let place = Place { panel: "p", series: "s", x: 2 };
        assert_eq!(results.median(&place, &THROUGHPUT), Some(5.0));
        assert_eq!(results.median(&Place { x: 3, ..place }, &THROUGHPUT), None);
        results.save().unwrap();
        let known = known(folder.path(), std::iter::once(experiment)).unwrap();
        assert_eq!(known[&Process::from(&job(1))]["throughput_tps"], 1_000.0);
    }

    #[test]
    fn seconds_leave_out_the_last_one() {
        let experiment = crate::papers::find("pacman-11").unwrap();
        let mut results = Results::new(Path::new("unused"), experiment);
        let job = Job { panel: "p", series: "s", x: 0, repetition: 0, log: None, arguments: Vec::new() };
        let report =
            json!({ "timeline": [{ "committed": 2_000 }, { "committed": 4_000 }, { "committed": 7 }] });
        results.add(experiment, &job, report);
        let place = Place { panel: "p", series: "s", x: 0 };
        assert_eq!(results.seconds(&place, &crate::measures::TIMELINE[0]), [2.0, 4.0]);
    }
}
