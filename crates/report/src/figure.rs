//! What is drawn of an experiment's results.

use crate::draw::{Bar, BarPlot, Curve, Plot, draw_bars, draw_curves};
use crate::error::ReportError;
use crate::experiment::{Chart, Experiment, Measure, Panel, Series};
use crate::results::{Place, Results};
use std::path::Path;

/// Draws the results: a column of plots for each panel, a row for each measure.
pub(crate) fn draw(experiment: &Experiment, results: &Results, path: &Path) -> Result<(), ReportError> {
    let panels = experiment.panels;
    let curve = |series: &Series, points| Curve { name: series.name.into(), points };
    let plot = |panel: &Panel, x: &str, name: &str, unit: &str, curves| Plot {
        title: [panel.name, name].join(", "),
        x: x.into(),
        y: unit.into(),
        curves,
    };
    match experiment.chart {
        Chart::Curves(measures) => {
            let plots = measures.iter().flat_map(|measure| panels.iter().map(move |panel| (measure, panel)));
            let plots = plots.map(|(measure, panel)| {
                let curves = experiment.series.iter().map(|series| {
                    let points = experiment.axis.values.iter().filter_map(|x| {
                        let place = Place { panel: panel.name, series: series.name, x: *x };
                        Some((f64::from(*x), results.median(&place, measure)?))
                    });
                    curve(series, points.collect())
                });
                plot(panel, experiment.axis.name, measure.name, measure.unit, curves.collect())
            });
            draw_curves(&plots.collect::<Vec<_>>(), panels.len(), path)
        }
        Chart::Seconds(measures) => {
            let plots = measures.iter().flat_map(|measure| panels.iter().map(move |panel| (measure, panel)));
            let plots = plots.map(|(measure, panel)| {
                let curves = experiment.series.iter().map(|series| {
                    let place =
                        Place { panel: panel.name, series: series.name, x: experiment.axis.values[0] };
                    let values = results.seconds(&place, measure);
                    curve(
                        series,
                        values.into_iter().zip(1..).map(|(value, at)| (f64::from(at), value)).collect(),
                    )
                });
                plot(panel, "seconds", measure.name, measure.unit, curves.collect())
            });
            draw_curves(&plots.collect::<Vec<_>>(), panels.len(), path)
        }
        Chart::Bars(parts) => {
            let plots = panels.iter().map(|panel| BarPlot {
                title: panel.name.into(),
                y: parts.first().map_or("", |part| part.unit).into(),
                parts: parts.iter().map(|part| part.name).collect(),
                bars: bars(experiment, results, panel, parts),
            });
            draw_bars(&plots.collect::<Vec<_>>(), panels.len(), path)
        }
        Chart::None => Ok(()),
    }
}

fn bars(experiment: &Experiment, results: &Results, panel: &Panel, parts: &[Measure]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for series in experiment.series {
        for x in experiment.axis.values {
            let place = Place { panel: panel.name, series: series.name, x: *x };
            let parts: Vec<f64> = parts.iter().filter_map(|part| results.median(&place, part)).collect();
            let name = match (experiment.series.len(), experiment.axis.values.len()) {
                (_, 1) => series.name.to_owned(),
                (1, _) => x.to_string(),
                _ => format!("{}, {x}", series.name),
            };
            let is_whole = parts.len() == experiment.chart.measures().len();
            bars.extend(is_whole.then_some(Bar { name, parts }));
        }
    }
    bars
}
