//! The arrows between crates are those that ARCHITECTURE.md shows.

use super::manifests::dependencies;
use super::sources::Sources;

const DOCUMENT: &str = "ARCHITECTURE.md";

pub(super) fn check(sources: &Sources, errors: &mut Vec<String>) {
    let is_crate = |name: &String| sources.packages.iter().any(|package| package.name == *name);
    let mut arrows: Vec<String> = Vec::new();
    for package in sources.packages.iter().filter(|package| package.name != "xtask") {
        let to: Vec<String> =
            dependencies(&package.manifest, "dependencies").into_iter().filter(is_crate).collect();
        if !to.is_empty() {
            arrows.push(format!("{} → {}", package.name, to.join(", ")));
        }
    }
    let lines = sources.text(DOCUMENT).lines();
    let mut shown: Vec<&str> = lines.filter(|line| line.contains(" → ") && !line.contains('`')).collect();
    shown.sort_unstable();
    arrows.sort_unstable();
    if shown != arrows {
        errors.push(format!("{DOCUMENT}: the arrows between crates are\n{}", arrows.join("\n")));
    }
}
