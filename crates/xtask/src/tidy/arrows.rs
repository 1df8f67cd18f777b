//! The arrows between crates are those that ARCHITECTURE.md shows.

use super::manifests::{dependencies, packages};
use super::sources::Sources;
use anyhow::Result;
use std::path::Path;

const DOCUMENT: &str = "ARCHITECTURE.md";

pub(super) fn check(root: &Path, sources: &Sources, errors: &mut Vec<String>) -> Result<()> {
    let packages = packages(root)?;
    let is_own = |name: &String| packages.iter().any(|(package, _)| package == name);
    let mut arrows: Vec<String> = Vec::new();
    for (package, manifest) in packages.iter().filter(|(package, _)| package != "xtask") {
        let to: Vec<String> = dependencies(manifest, "dependencies").into_iter().filter(is_own).collect();
        if !to.is_empty() {
            arrows.push(format!("{package} → {}", to.join(", ")));
        }
    }
    let text = sources.files.iter().find(|source| source.path == DOCUMENT).map_or("", |source| &source.text);
    let mut shown: Vec<&str> =
        text.lines().filter(|line| line.contains(" → ") && !line.contains('`')).collect();
    shown.sort_unstable();
    arrows.sort_unstable();
    if shown != arrows {
        errors.push(format!("{DOCUMENT}: the arrows between crates are\n{}", arrows.join("\n")));
    }
    Ok(())
}
