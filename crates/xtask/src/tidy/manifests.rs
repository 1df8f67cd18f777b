//! Each dependency is used by the crate that names it, and has a reason in the workspace's manifest.

use super::sources::Sources;
use regex::Regex;

/// A dependency whose name in the sources is not the name of its package.
struct Renamed {
    package: &'static str,
    /// `None` when no source names the package.
    in_sources: Option<&'static str>,
}

const RENAMED: [Renamed; 2] = [
    Renamed { package: "layout-rs", in_sources: Some("layout") },
    // `syn` gives the positions that a feature of this package enables.
    Renamed { package: "proc-macro2", in_sources: None },
];

/// Returns the names in one section of a manifest.
pub(super) fn dependencies(manifest: &toml::Table, section: &str) -> Vec<String> {
    let table = manifest.get(section).and_then(|value| value.as_table());
    table.map_or(Vec::new(), |table| table.keys().cloned().collect())
}

pub(super) fn check(sources: &Sources, errors: &mut Vec<String>) {
    for package in &sources.packages {
        for name in all_dependencies(&package.manifest) {
            let renamed = RENAMED.iter().find(|renamed| renamed.package == name);
            let Some(name_in_sources) = renamed.map_or(Some(name.as_str()), |renamed| renamed.in_sources)
            else {
                continue;
            };
            let ident = name_in_sources.replace('-', "_");
            let pattern = format!(r"\b{ident}::|\buse {ident}\b|\b{ident}!");
            let used = Regex::new(&pattern).expect("a package's name is no pattern");
            let mut files = sources.files.iter().filter(|source| source.package == package.name);
            let is_used = files
                .any(|source| source.rust.is_some() && code(&source.text).any(|line| used.is_match(line)));
            if !is_used {
                errors.push(format!("crates/{}/Cargo.toml: `{name}` is not used", package.name));
            }
        }
    }
    let table = sources.workspace.split_once("[workspace.dependencies]").map_or("", |(_, after)| after);
    for line in table.lines().take_while(|line| !line.starts_with('[')) {
        if line.contains(" = ") && !line.contains("path = ") && !line.contains(" # ") {
            errors.push(format!("Cargo.toml: a dependency without a reason: {line}"));
        }
    }
}

/// Returns the dependencies of a crate for all targets, those of its tests included.
fn all_dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(|value| value.as_table());
    let targets = targets.into_iter().flat_map(|table| table.values()).filter_map(|value| value.as_table());
    let tables = std::iter::once(manifest).chain(targets);
    let sections = ["dependencies", "dev-dependencies"];
    tables.flat_map(|table| sections.into_iter().flat_map(|section| dependencies(table, section))).collect()
}

/// Returns the lines of a file that are not comments. Examples in doc comments count as code.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") || line.starts_with("///") || line.starts_with("//!")
    })
}
