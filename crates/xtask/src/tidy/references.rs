//! Files and tests that comments and documents name exist.

use super::sources::{Source, Sources};
use regex::Regex;
use std::collections::HashSet;

pub(super) fn check(sources: &Sources, errors: &mut Vec<String>) {
    let file = Regex::new(r"`([\w./-]+\.(?:rs|md|slt|sql|svg))`").expect("the pattern is constant");
    let name = Regex::new(r"`([a-z][a-z0-9_]*_[a-z0-9_]+)`").expect("the pattern is constant");
    let function = Regex::new(r"\b(?:fn|mod|macro_rules!|=>)\s+([a-z]\w+)").expect("the pattern is constant");
    let names: HashSet<&str> = sources
        .files
        .iter()
        .flat_map(|source| function.captures_iter(&source.text))
        .filter_map(|found| found.get(1).map(|own| own.as_str()))
        .collect();
    for source in &sources.files {
        if source.path == "CHANGELOG.md" {
            continue;
        }
        let mut is_held = false;
        for (number, text) in prose(source) {
            for found in file.captures_iter(text) {
                if !is_there(&sources.paths, &found[1]) {
                    errors.push(format!("{}:{number}: there is no file `{}`", source.path, &found[1]));
                }
            }
            is_held = text.contains("Held by") || is_held && !text.trim().is_empty();
            let tests = text.split_once("Held by").map_or(text, |(_, tests)| tests);
            for found in name.captures_iter(tests).filter(|_| is_held) {
                if !names.contains(&found[1]) {
                    errors.push(format!("{}:{number}: there is no test `{}`", source.path, &found[1]));
                }
            }
        }
    }
}

/// The lines of a document, or of a file's comments, without what marks them; code between them is an empty
/// line.
fn prose(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.text.lines().enumerate().map(|(number, line)| {
        let text = match source.rust {
            None => line,
            Some(_) => {
                let line = line.trim_start();
                let comment = ["//!", "///", "//"].iter().find_map(|mark| line.strip_prefix(mark));
                comment.unwrap_or_default()
            }
        };
        (number + 1, text)
    })
}

/// Whether a path names a file, where folders may be left out.
fn is_there(paths: &[String], named: &str) -> bool {
    let named: Vec<&str> = named.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    paths.iter().any(|path| {
        let mut parts = path.rsplit('/');
        let Some((file, folders)) = named.split_last() else { return false };
        parts.next() == Some(file) && folders.iter().rev().all(|folder| parts.any(|part| part == *folder))
    })
}
