//! Files of a crate that use each other in a circle. Declarations of modules and re-exports are no use.

use super::sources::{Source, Sources};
use super::{Break, Rule};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{BTreeMap, HashMap};
use syn::visit::{self, Visit};

pub(super) fn check(sources: &Sources, breaks: &mut Vec<Break>) {
    let mut packages: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.files.iter().filter(|source| source.rust.is_some() && source.is_in("src")) {
        packages.entry(&source.package).or_default().push(source);
    }
    for (package, files) in packages {
        let mut graph = DiGraph::<&Source, ()>::new();
        let modules: HashMap<Vec<String>, NodeIndex> =
            files.iter().map(|source| (module_of(source), graph.add_node(source))).collect();
        for source in &files {
            let own = module_of(source);
            let from = modules[&own];
            let Some(rust) = &source.rust else { continue };
            let mut uses = Uses { base: own, depth: 0, modules: &modules, to: Vec::new() };
            uses.visit_file(rust);
            for to in uses.to.into_iter().filter(|to| *to != from) {
                graph.update_edge(from, to, ());
            }
        }
        for circle in tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1) {
            for node in circle {
                let (package, file) = (package.into(), graph[node].path.clone());
                let what = "it is in a circle of files that use each other".into();
                breaks.push(Break { rule: Rule::FileCycle, package, file, line: 1, what });
            }
        }
    }
}

/// The path of the module that a file is.
fn module_of(source: &Source) -> Vec<String> {
    let prefix = format!("crates/{}/src/", source.package);
    let path = source.path.strip_prefix(&prefix).unwrap_or_default().trim_end_matches(".rs");
    let parts = path.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod"));
    parts.map(String::from).collect()
}

/// The files that a file uses.
struct Uses<'a> {
    base: Vec<String>,
    /// Modules within the file that are around the place in hand.
    depth: usize,
    modules: &'a HashMap<Vec<String>, NodeIndex>,
    to: Vec<NodeIndex>,
}

impl Uses<'_> {
    fn add(&mut self, path: &[String]) {
        let mut target = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super" | "self") => self.base.clone(),
            _ => return,
        };
        let mut supers = 0;
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => {
                    supers += 1;
                    if supers > self.depth {
                        target.pop();
                    }
                }
                name => target.push(name.into()),
            }
        }
        let prefixes = (0..=target.len()).rev().map(|length| &target[..length]);
        self.to.extend(prefixes.filter_map(|prefix| self.modules.get(prefix)).next());
    }

    fn add_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(own) => self.add_tree(&with(&own.ident), &own.tree),
            syn::UseTree::Name(own) => self.add(&with(&own.ident)),
            syn::UseTree::Rename(own) => self.add(&with(&own.ident)),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(own) => own.items.iter().for_each(|tree| self.add_tree(before, tree)),
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|own| {
        own.path().is_ident("cfg")
            && own.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, own: &'ast syn::ItemUse) {
        if matches!(own.vis, syn::Visibility::Inherited) && !is_test(&own.attrs) {
            self.add_tree(&[], &own.tree);
        }
    }

    fn visit_item_mod(&mut self, own: &'ast syn::ItemMod) {
        if !is_test(&own.attrs) {
            self.depth += 1;
            visit::visit_item_mod(self, own);
            self.depth -= 1;
        }
    }

    fn visit_path(&mut self, own: &'ast syn::Path) {
        let path: Vec<String> = own.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.len() > 1 {
            self.add(&path);
        }
        visit::visit_path(self, own);
    }
}
