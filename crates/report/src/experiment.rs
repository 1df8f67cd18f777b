//! An experiment as data: workloads, compared configurations, an axis, measures, and what the paper has.
//!
//! Arguments are those of the program. In them `{x}` is the value of the axis, `{data}` the data folder of a
//! recovery, `{scale}` the size of its workload, and `{devices:N}`, or `{devices:x}`, the flags of N or x log
//! devices in new folders.

use serde_json::Value;

/// A figure or a table of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// Paper and figure.
    pub figure: &'static str,
    /// What the figure shows.
    pub title: &'static str,
    /// What runs.
    pub kind: Kind,
    /// The workloads, each with a plot of its own.
    pub panels: &'static [Panel],
    /// The configurations that are compared.
    pub series: &'static [Series],
    /// What changes along a curve.
    pub axis: Axis,
    /// What is drawn.
    pub chart: Chart,
    /// Duration of a run, as a multiple of the duration of a point.
    pub times: u32,
    /// The numbers of the paper.
    pub published: &'static [Published],
    /// What the paper finds, and what differs here.
    pub remark: &'static str,
}

/// An experiment without content, for the fields that an experiment leaves out.
pub(crate) const EMPTY: Experiment = Experiment {
    name: "",
    figure: "",
    title: "",
    kind: Kind::Bench,
    panels: &[],
    series: &[],
    axis: Axis::NONE,
    chart: Chart::None,
    times: 1,
    published: &[],
    remark: "",
};

/// What an experiment runs for each point.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `bench`.
    Bench,
    /// Recoveries of the log of a `bench` that ends by a crash.
    Recovery {
        /// Transactions of the log for each second of the duration of a point.
        transactions_per_second: u32,
    },
    /// One command that prints a drawing, and the same with `--format json`.
    Drawing(&'static [&'static str]),
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// The name over the plot.
    pub name: &'static str,
    /// The arguments after `bench`.
    pub arguments: &'static [&'static str],
    /// The size of the workload, if the settings name none.
    pub scale: u32,
}

/// A configuration.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: &'static str,
    /// Further arguments of `bench`.
    pub bench: &'static [&'static str],
    /// The command of a recovery; empty where none runs.
    pub recover: &'static [&'static str],
    /// The greatest value of the axis that the configuration has.
    pub at_most: u32,
}

impl Series {
    /// Returns a configuration of `bench`.
    pub(crate) const fn bench(name: &'static str, bench: &'static [&'static str]) -> Self {
        Self { name, bench, recover: &[], at_most: u32::MAX }
    }

    /// Returns a recovery of a log that all configurations share.
    pub(crate) const fn recovery(name: &'static str, recover: &'static [&'static str]) -> Self {
        Self { name, bench: &[], recover, at_most: u32::MAX }
    }
}

/// What changes along a curve.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: &'static [u32],
    /// Further arguments of `bench`.
    pub bench: &'static [&'static str],
    /// Further arguments of a recovery.
    pub recover: &'static [&'static str],
}

impl Axis {
    /// One value without a meaning.
    pub(crate) const NONE: Self = Self { name: "", values: &[0], bench: &[], recover: &[] };
}

/// A number of a result.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Takes the number from the JSON that the process prints; `None` when it has no such number.
    pub of: fn(&Value) -> Option<f64>,
}

/// A number of each second of a run.
#[derive(Clone, Copy, Debug)]
pub struct SecondMeasure {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The field of a second of the timeline.
    pub field: &'static str,
    /// The factor from the field to the unit.
    pub factor: f64,
}

/// What is drawn of the results.
#[derive(Clone, Copy, Debug)]
pub enum Chart {
    /// Curves over the axis, a row of plots for each measure.
    Curves(&'static [Measure]),
    /// Curves over the seconds of a run.
    Seconds(&'static [SecondMeasure]),
    /// A bar for each configuration and value of the axis, of parts that lie upon each other.
    Bars(&'static [Measure]),
    /// Nothing: the process prints the drawing.
    None,
}

impl Chart {
    /// Returns the numbers of whole runs that it shows.
    pub fn measures(&self) -> &'static [Measure] {
        match self {
            Self::Curves(measures) | Self::Bars(measures) => measures,
            Self::Seconds(_) | Self::None => &[],
        }
    }
}

/// A number of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The panel.
    pub panel: &'static str,
    /// The configuration.
    pub series: &'static str,
    /// The value of the axis; `None` stands for all values.
    pub x: Option<u32>,
    /// The measure.
    pub measure: &'static str,
    /// The number, in the unit of the measure.
    pub value: f64,
}
