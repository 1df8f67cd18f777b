//! Runs the processes of experiments, and writes their results.
//!
//! Invariant: a folder that the runner has made is removed again when nothing was written into it.
//! Held by: `a_failure_leaves_no_folder`.

use crate::error::ReportError;
use crate::experiment::{Experiment, Kind};
use crate::jobs::{Job, Settings, jobs};
use crate::results::{Process, Results, known};
use crate::{figure, papers, table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs experiments in a folder.
#[derive(Debug)]
pub struct Runner {
    program: PathBuf,
    folder: Folder,
    settings: Settings,
}

/// The state of a run.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Number of processes that have ended.
    pub done: u64,
    /// Number of processes that the run starts.
    pub total: u64,
    /// The experiment that goes on.
    pub experiment: &'a str,
}

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// Number of processes that ran.
    pub ran: usize,
    /// Number of results that the folder had.
    pub reused: usize,
    /// The table, in Markdown.
    pub table: String,
}

/// The folder of the results.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    is_new: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_new {
            // It stays when it has files.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

impl Folder {
    fn open(path: &Path) -> Result<Self, ReportError> {
        let failed = |source| ReportError::Folder { path: path.into(), source };
        let is_new = match std::fs::create_dir(path) {
            Ok(()) => true,
            Err(_) if path.is_dir() => false,
            Err(source) => return Err(failed(source)),
        };
        let folder = Self { path: path.into(), is_new };
        tempfile::tempfile_in(path).map_err(failed)?;
        Ok(folder)
    }
}

/// What a run of several experiments has and does.
struct Run<'a> {
    runner: &'a Runner,
    known: BTreeMap<Process, Value>,
    total: u64,
    done: u64,
    progress: &'a mut dyn FnMut(Step<'_>),
}

impl Runner {
    /// Returns a runner of a program, whose folder of results is made when it does not exist.
    ///
    /// # Errors
    /// [`ReportError::Folder`]: it is a file, its parent does not exist, or it cannot be written.
    pub fn new(program: &Path, folder: &Path, settings: Settings) -> Result<Self, ReportError> {
        Ok(Self { program: program.into(), folder: Folder::open(folder)?, settings })
    }

    /// Runs experiments, one after the other. Points whose processes have the arguments of an earlier run in
    /// the folder are not run again. `progress` is called before the first process and after each.
    ///
    /// # Errors
    /// A process fails; recoveries of one log have different states; a file cannot be read or written.
    pub fn run(
        &self,
        experiments: &[&'static Experiment],
        progress: &mut dyn FnMut(Step<'_>),
    ) -> Result<Vec<Outcome>, ReportError> {
        let known = known(&self.folder.path, papers::all())?;
        let all = experiments.iter().flat_map(|experiment| jobs(experiment, &self.settings)).flatten();
        let missing: BTreeSet<Process> = all.map(|job| Process::from(&job)).collect();
        let total = missing.iter().filter(|process| !known.contains_key(process)).count() as u64;
        let mut run = Run { runner: self, known, total, done: 0, progress };
        experiments.iter().map(|experiment| run.experiment(experiment)).collect()
    }

    /// Runs a process of the program and returns what it prints.
    fn process(&self, arguments: &[String], ends_by_crash: bool) -> Result<Vec<u8>, ReportError> {
        let failed = |message| ReportError::Process { arguments: arguments.join(" "), message };
        let output = Command::new(&self.program).args(arguments).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if output.status.success() || (ends_by_crash && !output.stdout.is_empty()) {
            return Ok(output.stdout);
        }
        Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
    }

    fn json(&self, arguments: &[String], ends_by_crash: bool) -> Result<Value, ReportError> {
        let printed = self.process(arguments, ends_by_crash)?;
        serde_json::from_slice(&printed).map_err(|error| ReportError::Process {
            arguments: arguments.join(" "),
            message: format!("it printed no JSON: {error}"),
        })
    }

    fn write(&self, experiment: &Experiment, extension: &str, text: &[u8]) -> Result<(), ReportError> {
        let path = self.path(experiment, extension);
        std::fs::write(&path, text).map_err(|source| ReportError::File { path, source })
    }

    /// Returns the path of a file of an experiment.
    fn path(&self, experiment: &Experiment, extension: &str) -> PathBuf {
        self.folder.path.join(format!("{}.{extension}", experiment.name))
    }

    /// Runs an experiment whose processes print drawings.
    fn drawing(&self, experiment: &'static Experiment, arguments: &[&str]) -> Result<Outcome, ReportError> {
        let in_format = |format: &str| {
            let arguments = arguments.iter().copied().chain(["--format", format]);
            arguments.map(str::to_owned).collect::<Vec<_>>()
        };
        let drawing = self.process(&in_format("svg"), false)?;
        let job = Job { panel: "", series: "", x: 0, repetition: 0, log: None, arguments: in_format("json") };
        let mut results = Results::new(&self.folder.path, experiment);
        results.add(experiment, &job, self.json(&job.arguments, false)?);
        results.save()?;
        self.write(experiment, "svg", &drawing)?;
        let table = table::of(experiment, &results);
        self.write(experiment, "md", table.as_bytes())?;
        Ok(Outcome { experiment, ran: 2, reused: 0, table })
    }
}

impl Run<'_> {
    fn experiment(&mut self, experiment: &'static Experiment) -> Result<Outcome, ReportError> {
        if let Kind::Drawing(arguments) = experiment.kind {
            return self.runner.drawing(experiment, arguments);
        }
        let groups = jobs(experiment, &self.runner.settings);
        let mut results = Results::new(&self.runner.folder.path, experiment);
        let (mut ran, mut reused) = (0, 0);
        for group in &groups {
            let mut logs = Logs::default();
            for job in group {
                if let Some(report) = self.known.get(&Process::from(job)) {
                    results.add(experiment, job, report.clone());
                    reused += 1;
                    continue;
                }
                self.report(experiment);
                let report = self.point(job, &mut logs)?;
                self.known.insert(Process::from(job), report.clone());
                results.add(experiment, job, report);
                results.save()?;
                ran += 1;
                self.done += 1;
                self.report(experiment);
            }
        }
        results.save()?;
        figure::draw(experiment, &results, &self.runner.path(experiment, "svg"))?;
        let table = table::of(experiment, &results);
        self.runner.write(experiment, "md", table.as_bytes())?;
        Ok(Outcome { experiment, ran, reused, table })
    }

    fn report(&mut self, experiment: &Experiment) {
        (self.progress)(Step { done: self.done, total: self.total, experiment: experiment.name });
    }

    fn point(&self, job: &Job, logs: &mut Logs) -> Result<Value, ReportError> {
        let Some(log) = &job.log else {
            let folder = temporary()?;
            return self.runner.json(&placed(&job.arguments, folder.path()), false);
        };
        if !logs.0.contains_key(log) {
            let folder = temporary()?;
            let mut arguments = placed(log, folder.path());
            let data = folder.path().join("data").display().to_string();
            arguments.extend(["--data".into(), data, "--crash".into(), "--json".into()]);
            self.runner.json(&arguments, true)?;
            logs.0.insert(log.clone(), Log { folder, digest: None });
        }
        let log = logs.0.get_mut(log).expect("it was inserted above");
        let arguments = placed(&job.arguments, log.folder.path());
        let report = self.runner.json(&arguments, false)?;
        log.compare(&report, &arguments)?;
        Ok(report)
    }
}

/// The logs of a group, by the arguments of the processes that wrote them.
#[derive(Default)]
struct Logs(BTreeMap<Vec<String>, Log>);

struct Log {
    folder: tempfile::TempDir,
    /// The state of the first recovery that told it.
    digest: Option<String>,
}

impl Log {
    /// Compares the state of a recovery with the states of earlier ones.
    fn compare(&mut self, report: &Value, arguments: &[String]) -> Result<(), ReportError> {
        let Some(digest) = report["digest"].as_str() else { return Ok(()) };
        let first = self.digest.get_or_insert_with(|| digest.to_owned());
        if first != digest {
            return Err(ReportError::StatesDiffer {
                first: first.clone(),
                second: digest.into(),
                arguments: arguments.join(" "),
            });
        }
        Ok(())
    }
}

fn temporary() -> Result<tempfile::TempDir, ReportError> {
    let failed = |source| ReportError::Folder { path: std::env::temp_dir(), source };
    tempfile::tempdir().map_err(failed)
}

/// Returns arguments with the folders that they stand for.
fn placed(arguments: &[String], folder: &Path) -> Vec<String> {
    let inside = |name: &str| folder.join(name).display().to_string();
    let placed = |argument: &String| {
        let device = argument.strip_prefix("{device:").and_then(|rest| rest.strip_suffix('}'));
        device.map_or_else(
            || argument.replace("{data}", &inside("data")),
            |number| inside(&format!("device-{number}")),
        )
    };
    arguments.iter().map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { seconds: 0.1, scale: None, repetitions: 1 };

    #[test]
    fn folders_are_filled_in() {
        let arguments = ["{data}/shadow-logical", "{device:3}", "--json"].map(str::to_owned);
        assert_eq!(placed(&arguments, Path::new("/t")), ["/t/data/shadow-logical", "/t/device-3", "--json"]);
    }

    #[test]
    fn a_failure_leaves_no_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("out");
        let runner = Runner::new(Path::new("/bin/false"), &folder, SETTINGS).unwrap();
        assert!(folder.is_dir());
        let experiment = papers::find("distdgcc-9").unwrap();
        let error = runner.run(&[experiment], &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("`reprise bench ycsb"), "{error}");
        drop(runner);
        assert!(!folder.exists());
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        for unusable in [file.clone(), file.join("below"), parent.path().join("missing/out")] {
            assert!(Runner::new(Path::new("/bin/false"), &unusable, SETTINGS).is_err());
        }
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1, "the file alone");
    }

    #[test]
    fn different_states_are_an_error() {
        let mut log = Log { folder: temporary().unwrap(), digest: None };
        log.compare(&serde_json::json!({ "digest": "a" }), &[]).unwrap();
        log.compare(&serde_json::json!({}), &[]).unwrap();
        let error = log.compare(&serde_json::json!({ "digest": "b" }), &["recover".into()]).unwrap_err();
        assert!(error.to_string().contains("different states: a, and b by"), "{error}");
    }
}
