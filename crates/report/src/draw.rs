//! Draws curves and bars as SVG.

use crate::error::ReportError;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

/// The size of one plot.
const SIZE: (u32, u32) = (560, 360);

/// Curves with their title and axes.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The name of the horizontal axis.
    pub x: String,
    /// The name of the vertical axis.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// The name in the legend; an empty one is left out.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Bars of parts that lie upon each other.
#[derive(Clone, Debug)]
pub(crate) struct BarPlot {
    pub title: String,
    /// The name of the vertical axis.
    pub y: String,
    /// The names of the parts.
    pub parts: Vec<&'static str>,
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub name: String,
    /// The length of each part.
    pub parts: Vec<f64>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws plots in rows of `columns`.
///
/// # Errors
/// [`ReportError::Drawing`]: the file cannot be written.
pub fn draw_curves(plots: &[Plot], columns: usize, path: &Path) -> Result<(), ReportError> {
    in_rows(plots.len(), columns, path, |index, area| curves(&plots[index], area))
}

/// Draws plots of bars in rows of `columns`.
pub(crate) fn draw_bars(plots: &[BarPlot], columns: usize, path: &Path) -> Result<(), ReportError> {
    in_rows(plots.len(), columns, path, |index, area| bars(&plots[index], area))
}

fn in_rows(
    plots: usize,
    columns: usize,
    path: &Path,
    draw: impl Fn(usize, &Area<'_>) -> Drawn,
) -> Result<(), ReportError> {
    let columns = columns.max(1);
    let rows = plots.div_ceil(columns).max(1);
    let drawn = || -> Drawn {
        let size = (SIZE.0 * columns as u32, SIZE.1 * rows as u32);
        let root = SVGBackend::new(path, size).into_drawing_area();
        root.fill(&WHITE)?;
        let areas = root.split_evenly((rows, columns));
        areas.iter().take(plots).enumerate().try_for_each(|(index, area)| draw(index, area))?;
        Ok(root.present()?)
    };
    drawn().map_err(|error| ReportError::Drawing { path: path.into(), message: error.to_string() })
}

fn curves(plot: &Plot, area: &Area<'_>) -> Drawn {
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min).min(f64::MAX);
    let widest = points().map(|point| point.0).fold(least, f64::max);
    let highest = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(least..widest.max(least + 1.0), 0.0..highest * 1.1)?;
    chart.configure_mesh().x_desc(&plot.x).y_desc(&plot.y).draw()?;
    for (index, curve) in plot.curves.iter().enumerate() {
        let color = Palette99::pick(index).stroke_width(2);
        let line = chart.draw_series(LineSeries::new(curve.points.iter().copied(), color))?;
        if !curve.name.is_empty() {
            line.label(&curve.name).legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color));
        }
        if curve.points.len() <= 32 {
            chart.draw_series(curve.points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}

fn bars(plot: &BarPlot, area: &Area<'_>) -> Drawn {
    let highest = plot.bars.iter().map(|bar| bar.parts.iter().sum()).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(&plot.title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..plot.bars.len() as f64 - 0.5, 0.0..highest * 1.1)?;
    let name = |at: &f64| match plot.bars.get(at.round() as usize) {
        Some(bar) if *at > -0.5 && (at - at.round()).abs() < 0.01 => bar.name.clone(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * plot.bars.len() + 1)
        .x_label_formatter(&name)
        .y_desc(&plot.y)
        .draw()?;
    for (part, name) in plot.parts.iter().enumerate() {
        let color = Palette99::pick(part).filled();
        let piece = |(index, bar): (usize, &Bar)| {
            let until = |parts: &[f64]| parts.iter().sum::<f64>();
            let (below, above) = (until(&bar.parts[..part]), until(&bar.parts[..=part]));
            Rectangle::new([(index as f64 - 0.3, below), (index as f64 + 0.3, above)], color)
        };
        chart
            .draw_series(plot.bars.iter().enumerate().map(piece))?
            .label(*name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
