//! Dependencies: each is used, and each stands in the workspace manifest with a reason.

use super::sources::Sources;
use anyhow::{Context, Result};
use regex::Regex;
use std::path::Path;

/// Dependencies that sources know by another name, or not at all: `syn` needs the positions of `proc-macro2`.
const NAMES: [(&str, Option<&str>); 2] = [("layout-rs", Some("layout")), ("proc-macro2", None)];

pub(super) fn packages(root: &Path) -> Result<Vec<(String, toml::Table)>> {
    let mut packages = Vec::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(path.join("Cargo.toml"))
            .with_context(|| format!("{} has no manifest", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        packages.push((name, text.parse::<toml::Table>()?));
    }
    packages.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(packages)
}

pub(super) fn dependencies(manifest: &toml::Table, section: &str) -> Vec<String> {
    let own = manifest.get(section).and_then(|own| own.as_table());
    own.map_or(Vec::new(), |own| own.keys().cloned().collect())
}

pub(super) fn check(root: &Path, sources: &Sources, errors: &mut Vec<String>) -> Result<()> {
    for (package, manifest) in packages(root)? {
        let targets = manifest.get("target").and_then(|own| own.as_table());
        let targets = targets.into_iter().flat_map(|own| own.values()).filter_map(|own| own.as_table());
        let tables = std::iter::once(&manifest).chain(targets);
        let sections = ["dependencies", "dev-dependencies"];
        for name in tables.flat_map(|table| sections.iter().flat_map(|section| dependencies(table, section)))
        {
            let known = NAMES.iter().find(|(own, _)| *own == name).map(|(_, known)| *known);
            let Some(ident) = known.unwrap_or(Some(&name)).map(|own| own.replace('-', "_")) else { continue };
            let used =
                Regex::new(&format!(r"\b{ident}::|\buse {ident}\b|\b{ident}!")).context("no pattern")?;
            let mut own = sources.files.iter().filter(|source| source.package == package);
            if !own.any(|source| source.rust.is_some() && used.is_match(&source.text)) {
                errors.push(format!("crates/{package}/Cargo.toml: `{name}` is not used"));
            }
        }
    }
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let after = manifest.split_once("[workspace.dependencies]").map_or("", |(_, after)| after);
    for line in after.lines().take_while(|line| !line.starts_with('[')) {
        if line.contains(" = ") && !line.contains("path = ") && !line.contains(" # ") {
            errors.push(format!("Cargo.toml: a dependency without a reason: {line}"));
        }
    }
    Ok(())
}
