//! Draws the curves of docs/results.md:
//! `cargo run --release -p reprise-cli --example curves -- POINTS OUT.svg TITLE X Y`. POINTS has one JSON
//! object a line, `{"series": NAME, "x": NUMBER, "y": NUMBER}`. X and Y name the axes.

use plotters::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (720, 420);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [points, out, title, x, y] = arguments.as_slice() else {
        return Err("usage: curves POINTS OUT.svg TITLE X Y".into());
    };
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in std::fs::read_to_string(points)?.lines() {
        let point: Value = serde_json::from_str(line)?;
        let number = |name: &str| point[name].as_f64().ok_or(format!("no {name} in {line}"));
        let name = point["series"].as_str().ok_or(format!("no series in {line}"))?;
        series.entry(name.into()).or_default().push((number("x")?, number("y")?));
    }
    draw(&Figure { series, title, x, y }, Path::new(out))
}

/// Curves with their title and axes.
struct Figure<'a> {
    series: BTreeMap<String, Vec<(f64, f64)>>,
    title: &'a str,
    x: &'a str,
    y: &'a str,
}

fn draw(figure: &Figure<'_>, out: &Path) -> Result<(), Box<dyn Error>> {
    let Figure { series, title, x, y } = figure;
    let points = || series.values().flatten();
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let widest = points().map(|point| point.0).fold(least, f64::max);
    let highest = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let root = SVGBackend::new(out, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(*title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(least..widest.max(least + 1.0), 0.0..highest * 1.1)?;
    chart.configure_mesh().x_desc(*x).y_desc(*y).draw()?;
    for (index, (name, points)) in series.iter().enumerate() {
        let color = Palette99::pick(index).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}
