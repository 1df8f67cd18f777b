//! Every file and every test that a comment or a document names exists, and every item (such as
//! `storage::Record`) that a document names.

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
        .filter_map(|found| found.get(1).map(|name| name.as_str()))
        .collect();
    for source in &sources.files {
        if source.path == "CHANGELOG.md" {
            continue;
        }
        if source.rust.is_none() {
            check_items(sources, source, errors);
        }
        let mut is_held = false;
        for (number, text) in prose(source) {
            for found in file.captures_iter(text) {
                if !exists(&sources.paths, &found[1]) {
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

/// Checks that each name in the path of an item occurs in the sources of its crate.
fn check_items(sources: &Sources, document: &Source, errors: &mut Vec<String>) {
    let item = Regex::new(r"`([a-z_]+)::((?:\w+::)*\w+)(?:\(\))?`").expect("the pattern is constant");
    for (number, line) in document.text.lines().enumerate() {
        for found in item.captures_iter(line) {
            let mut files = sources
                .files
                .iter()
                .filter(|source| source.package == found[1] && source.is_in("src"))
                .peekable();
            if files.peek().is_none() {
                continue;
            }
            let files: Vec<&Source> = files.collect();
            let is_missing = |name: &&str| {
                let word = Regex::new(&format!(r"\b{name}\b")).expect("a name is no pattern");
                !files.iter().any(|source| code(&source.text).any(|line| word.is_match(line)))
            };
            if let Some(name) = found[2].split("::").find(is_missing) {
                errors.push(format!(
                    "{}:{}: there is no `{name}` in {}",
                    document.path,
                    number + 1,
                    &found[1]
                ));
            }
        }
    }
}

/// Returns the lines of a file that are not comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Returns the lines of a document, or of the comments of a Rust file without their marks. A line of code is
/// returned as an empty line.
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

/// Returns whether one of `paths` is the named file; the reference may leave out folders.
fn exists(paths: &[String], named: &str) -> bool {
    let named: Vec<&str> = named.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    paths.iter().any(|path| {
        let mut parts = path.rsplit('/');
        let Some((file, folders)) = named.split_last() else { return false };
        parts.next() == Some(file) && folders.iter().rev().all(|folder| parts.any(|part| part == *folder))
    })
}
