//! `reprise report`: names, results of real processes, results that are not made again, refusals.

use crate::commands::{printed, refused};
use serde_json::Value;
use std::path::Path;

fn results(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_list_names_every_experiment() {
    let list = printed(&["report", "--list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let expected: Vec<&str> = report::all().map(|experiment| experiment.name).collect();
    assert_eq!(names, expected);
    assert!(["distdgcc-9", "pacman-20", "poplar-5"].iter().all(|name| names.contains(name)), "{list}");
}

/// A benchmark and a recovery; a second run only writes what it finds, and a figure over the same processes
/// shares them.
#[test]
fn experiments_run_and_are_not_run_again() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let flags = ["--seconds", "0.02", "--repetitions", "1", "--scale", "1", "--out", out.to_str().unwrap()];
    let run = |names: &[&str]| printed(&[&["report"], names, &flags].concat());
    let table = run(&["pacman-table-1", "pacman-20", "pacman-21"]);
    assert!(table.contains("| TPC-C |") && table.contains("| TPC-C, threads: 4 | pipelined |"), "{table}");
    for name in ["pacman-table-1", "pacman-20", "pacman-21"] {
        let drawing = std::fs::read_to_string(out.join(format!("{name}.svg"))).unwrap();
        assert!(drawing.contains("<svg") && drawing.contains("</svg>"), "{name}");
        assert!(out.join(format!("{name}.md")).exists());
    }
    let first = [results(&out, "pacman-table-1"), results(&out, "pacman-20")];
    assert_eq!(first[0]["points"].as_array().unwrap().len(), 8);
    assert!(first[0]["points"][0]["values"]["throughput"].as_f64().unwrap() > 0.0, "{}", first[0]);
    assert_eq!(first[1]["points"].as_array().unwrap().len(), 4);
    assert!(first[1]["points"][0]["log"].is_array(), "{}", first[1]);
    // Figure 19 has the processes of Figure 20, and two more schedules.
    run(&["pacman-table-1", "pacman-20", "pacman-19"]);
    assert_eq!([results(&out, "pacman-table-1"), results(&out, "pacman-20")], first);
    let shared = results(&out, "pacman-19");
    let points = shared["points"].as_array().unwrap();
    let pipelined = points.iter().filter(|point| point["series"] == "pipelined");
    let reports: Vec<&Value> = pipelined.map(|point| &point["report"]).collect();
    let known: Vec<&Value> =
        first[1]["points"].as_array().unwrap().iter().map(|point| &point["report"]).collect();
    assert_eq!(reports, known);
}

#[test]
fn a_refusal_leaves_no_folder() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("out");
    let path = out.to_str().unwrap();
    let unknown = refused(&["report", "pacman-99", "--out", path]);
    assert!(unknown.contains("unknown figure \"pacman-99\"; known are: distdgcc-9"), "{unknown}");
    assert!(!out.exists());
    // The second name is wrong: nothing runs for the first one.
    refused(&["report", "pacman-21", "pacman-99", "--out", path]);
    assert!(!out.exists());
    let below = out.join("below");
    assert!(
        refused(&["report", "pacman-21", "--out", below.to_str().unwrap()]).contains("cannot be written")
    );
    assert!(!out.exists());
    assert!(refused(&["report"]).contains("FIGURES"));
}
