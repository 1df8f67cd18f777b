//! Draws recoveries: `cargo run --release -p reprise-cli --example recovery_curves -- RUNS FOLDER`, where
//! RUNS has one line of `reprise recover DIR --json` for each recovery of one log. Makes `replay.svg`,
//! transactions a second over threads by method and mode (PACMAN, Figures 18 and 19), and `breakdown.svg`,
//! where the time of the last mode's threads went (Figure 20).

use plotters::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (720, 420);

/// One recovery.
struct Run {
    series: String,
    threads: u32,
    replay_tps: f64,
    /// Seconds of all threads together: executing, planning, waiting.
    parts: [f64; 3],
}

fn run(line: &str) -> Result<Run, Box<dyn Error>> {
    let report: Value = serde_json::from_str(line)?;
    let text = |name: &str| report[name].as_str().map(str::to_owned);
    let method = text("method").ok_or("a line names no method")?;
    let series = text("mode").map_or(method.clone(), |mode| format!("{method}, {mode}"));
    let threads = report["breakdown"]["threads"].as_array();
    let sum = |part: &str| -> f64 {
        threads.into_iter().flatten().filter_map(|thread| thread[part].as_f64()).sum()
    };
    Ok(Run {
        series,
        threads: report["threads"].as_u64().unwrap_or(1) as u32,
        replay_tps: report["replay_tps"].as_f64().ok_or("a line has no replay_tps")?,
        parts: ["execution_s", "planning_s", "waiting_s"].map(sum),
    })
}

fn draw_replay(runs: &[Run], file: &Path) -> Result<(), Box<dyn Error>> {
    let mut series: BTreeMap<&str, Vec<(u32, f64)>> = BTreeMap::new();
    for run in runs {
        series.entry(&run.series).or_default().push((run.threads, run.replay_tps / 1e3));
    }
    let most_threads = runs.iter().map(|run| run.threads).max().unwrap_or(1);
    let most = runs.iter().map(|run| run.replay_tps / 1e3).fold(1.0, f64::max);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(1..most_threads.max(2), 0.0..most * 1.1)?;
    chart.configure_mesh().x_desc("threads").y_desc("thousand transactions a second").draw()?;
    for (place, (name, mut points)) in series.into_iter().enumerate() {
        points.sort_by_key(|(threads, _)| *threads);
        let color = Palette99::pick(place).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

fn draw_breakdown(runs: &[Run], file: &Path) -> Result<(), Box<dyn Error>> {
    let Some(last) = runs.iter().rev().find(|run| run.parts.iter().sum::<f64>() > 0.0) else { return Ok(()) };
    let mut shown: Vec<&Run> = runs.iter().filter(|run| run.series == last.series).collect();
    shown.sort_by_key(|run| run.threads);
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(&last.series, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..shown.len() as f64 - 0.5, 0.0..100.0)?;
    let label = |at: &f64| match shown.get(at.round() as usize) {
        Some(run) if (at - at.round()).abs() < 0.01 => run.threads.to_string(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * shown.len() + 1)
        .x_label_formatter(&label)
        .x_desc("threads")
        .y_desc("% of the threads' time")
        .draw()?;
    for (part, name) in ["executing", "planning", "waiting"].into_iter().enumerate() {
        let color = Palette99::pick(part).filled();
        let bar = |(place, run): (usize, &&Run)| {
            let all: f64 = run.parts.iter().sum();
            let until = |parts: &[f64]| parts.iter().sum::<f64>() / all * 100.0;
            let (below, above) = (until(&run.parts[..part]), until(&run.parts[..=part]));
            Rectangle::new([(place as f64 - 0.3, below), (place as f64 + 0.3, above)], color)
        };
        chart
            .draw_series(shown.iter().enumerate().map(bar))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(runs), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: recovery_curves RUNS FOLDER".into());
    };
    let runs = std::fs::read_to_string(runs)?;
    let runs = runs.lines().map(run).collect::<Result<Vec<Run>, _>>()?;
    draw_replay(&runs, &Path::new(&folder).join("replay.svg"))?;
    draw_breakdown(&runs, &Path::new(&folder).join("breakdown.svg"))
}
