//! The files of the repository that are checked.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A text file.
pub(super) struct Source {
    /// Its path from the root of the repository.
    pub(super) path: String,
    /// The crate that it belongs to, or `docs`.
    pub(super) package: String,
    pub(super) text: String,
    /// What it says as Rust; `None` of other files.
    pub(super) rust: Option<syn::File>,
}

impl Source {
    /// Returns whether it is part of a crate's library or program.
    pub(super) fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(&format!("crates/{}/{folder}/", self.package))
    }
}

/// All files.
pub(super) struct Sources {
    /// Rust and Markdown.
    pub(super) files: Vec<Source>,
    /// The paths of all files, for references.
    pub(super) paths: Vec<String>,
}

impl Sources {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut sources = Self { files: Vec::new(), paths: Vec::new() };
        sources.add(root, root)?;
        sources.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    fn add(&mut self, root: &Path, folder: &Path) -> Result<()> {
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("{} is not readable", folder.display()))?;
        let mut entries: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    self.add(root, &path)?;
                }
                continue;
            }
            let own = path.strip_prefix(root)?.to_string_lossy().into_owned();
            let is_rust = own.ends_with(".rs");
            if is_rust || own.ends_with(".md") {
                let text = std::fs::read_to_string(&path)?;
                let rust = is_rust.then(|| syn::parse_file(&text)).transpose();
                let rust = rust.with_context(|| format!("{own} is no Rust"))?;
                let mut parts = own.split('/');
                let package = match (parts.next(), parts.next(), parts.next()) {
                    (Some("crates"), Some(package), Some(_)) => package.into(),
                    _ => "docs".into(),
                };
                self.files.push(Source { path: own.clone(), package, text, rust });
            }
            self.paths.push(own);
        }
        Ok(())
    }
}
