//! The files of the repository that are checked.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The package of every file that lies outside of `crates`.
const DOCUMENTS: &str = "docs";

/// A text file.
pub(super) struct Source {
    /// Its path from the root of the repository.
    pub(super) path: String,
    /// The crate that the file belongs to, or `docs`.
    pub(super) package: String,
    pub(super) text: String,
    /// The syntax tree of a Rust file; `None` for every other file.
    pub(super) rust: Option<syn::File>,
}

impl Source {
    /// Parses a file.
    fn parse(path: &str, text: String) -> Result<Self> {
        let rust = path.ends_with(".rs").then(|| syn::parse_file(&text)).transpose();
        let rust = rust.with_context(|| format!("{path} is not valid Rust"))?;
        let mut folders = path.split('/');
        let package = match (folders.next(), folders.next(), folders.next()) {
            (Some("crates"), Some(package), Some(_)) => package.into(),
            _ => DOCUMENTS.into(),
        };
        Ok(Self { path: path.into(), package, text, rust })
    }

    /// Returns whether the file lies in `folder` of its crate.
    pub(super) fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(&format!("crates/{}/{folder}/", self.package))
    }
}

/// A crate and its manifest.
pub(super) struct Package {
    /// The folder's name.
    pub(super) name: String,
    pub(super) manifest: toml::Table,
}

/// All files of the repository.
#[derive(Default)]
pub(super) struct Sources {
    /// Rust and Markdown.
    pub(super) files: Vec<Source>,
    /// The manifests of the crates, sorted by name.
    pub(super) packages: Vec<Package>,
    /// The text of the workspace's manifest.
    pub(super) workspace: String,
    /// The paths of all files, for references.
    pub(super) paths: Vec<String>,
}

impl Sources {
    /// Reads the repository at `root`, without `target` and hidden folders other than `.ci`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut sources = Self::default();
        sources.add_folder(root, root)?;
        sources.files.sort_by(|a, b| a.path.cmp(&b.path));
        sources.packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sources)
    }

    /// Returns the text of a file, or nothing when it does not exist.
    pub(super) fn text(&self, path: &str) -> &str {
        self.files.iter().find(|source| source.path == path).map_or("", |source| &source.text)
    }

    fn add_folder(&mut self, root: &Path, folder: &Path) -> Result<()> {
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("{} is not readable", folder.display()))?;
        let mut entries: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    self.add_folder(root, &path)?;
                }
                continue;
            }
            let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let is_text = [".rs", ".md", "Cargo.toml"].iter().any(|end| relative.ends_with(end));
            let text = if is_text { std::fs::read_to_string(&path)? } else { String::new() };
            self.add(&relative, text)?;
        }
        Ok(())
    }

    /// Adds a file. The text of a file that no rule reads may be empty.
    pub(super) fn add(&mut self, path: &str, text: String) -> Result<()> {
        self.paths.push(path.into());
        if path.ends_with(".rs") || path.ends_with(".md") {
            self.files.push(Source::parse(path, text)?);
        } else if path == "Cargo.toml" {
            self.workspace = text;
        } else if let Some(name) =
            path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"))
        {
            let manifest = text.parse().with_context(|| format!("{path} is malformed"))?;
            self.packages.push(Package { name: name.into(), manifest });
        }
        Ok(())
    }
}
