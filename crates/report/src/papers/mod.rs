//! The experiments, a file for each paper.

mod distdgcc;
mod pacman;
mod poplar;

use crate::error::ReportError;
use crate::experiment::Experiment;

/// Returns all experiments, in the order of the papers.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    [distdgcc::ALL, pacman::ALL, poplar::ALL].into_iter().flatten()
}

/// Returns the experiment of a name.
///
/// # Errors
/// [`ReportError::UnknownFigure`], which lists the names.
pub fn find(name: &str) -> Result<&'static Experiment, ReportError> {
    all().find(|experiment| experiment.name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|experiment| experiment.name).collect();
        ReportError::UnknownFigure { name: name.into(), known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ_and_published_numbers_have_a_point() {
        let mut names = BTreeSet::new();
        for experiment in all() {
            assert!(names.insert(experiment.name), "{}", experiment.name);
            for number in experiment.published {
                let has_panel = experiment.panels.iter().any(|panel| panel.name == number.panel);
                let has_series = experiment.series.iter().any(|series| series.name == number.series);
                let has_measure = experiment.chart.measures().iter().any(|own| own.name == number.measure);
                assert!(has_panel && has_series && has_measure, "{}: {number:?}", experiment.name);
            }
        }
        assert!(find("pacman-99").unwrap_err().to_string().contains("distdgcc-9, distdgcc-10"));
    }
}
