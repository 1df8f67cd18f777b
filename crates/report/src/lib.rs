//! The figures and tables of the papers as named experiments: which processes run, what is drawn of their
//! results, and what the papers have.
//!
//! 1. An [`Experiment`] is data (`papers/`): workloads, compared configurations, an axis, measures.
//! 2. It becomes a list of command lines of the program (`jobs.rs`).
//! 3. The [`Runner`] runs those that its folder has no result of (`runner.rs`), and keeps each result as it
//!    comes (`results.rs`).
//! 4. The results become curves or bars (`figure.rs`, `draw.rs`) and tables (`table.rs`).

mod draw;
mod error;
mod experiment;
mod figure;
mod jobs;
mod measures;
mod papers;
mod results;
mod runner;
mod table;

pub use draw::{Curve, Plot, draw_curves};
pub use error::ReportError;
pub use experiment::{Axis, Chart, Experiment, Kind, Measure, Panel, Published, SecondMeasure, Series};
pub use jobs::{Job, Settings, jobs};
pub use papers::{all, find};
pub use runner::{Outcome, Runner, Step};
