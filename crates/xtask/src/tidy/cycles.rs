//! Cycles of files in a crate that use each other. Declarations of modules, re-exports and tests do not count
//! as a use.

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
    for files in packages.into_values() {
        let mut graph = DiGraph::<&Source, ()>::new();
        let modules: HashMap<Vec<String>, NodeIndex> =
            files.iter().map(|source| (module_of(source), graph.add_node(source))).collect();
        for source in &files {
            let module = module_of(source);
            let from = modules[&module];
            let Some(rust) = &source.rust else { continue };
            let mut uses = Uses { base: module, depth: 0, modules: &modules, to: Vec::new() };
            uses.visit_file(rust);
            for to in uses.to.into_iter().filter(|to| *to != from) {
                graph.update_edge(from, to, ());
            }
        }
        for cycle in tarjan_scc(&graph).into_iter().filter(|cycle| cycle.len() > 1) {
            let names: Vec<&str> = cycle.iter().map(|node| graph[*node].path.as_str()).collect();
            for node in &cycle {
                let what = format!("it is in a cycle of files: {}", names.join(", "));
                breaks.push(Break::at(graph[*node], Rule::FileCycle, 1, what));
            }
        }
    }
}

/// Returns the path of a file's module within its crate.
fn module_of(source: &Source) -> Vec<String> {
    let prefix = format!("crates/{}/src/", source.package);
    let path = source.path.strip_prefix(&prefix).unwrap_or_default().trim_end_matches(".rs");
    let modules = path.split('/').filter(|name| !matches!(*name, "lib" | "main" | "mod"));
    modules.map(String::from).collect()
}

/// Collects the files that a file uses.
struct Uses<'a> {
    /// The module of the file.
    base: Vec<String>,
    /// Number of inline modules around the visited item.
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
        for segment in path {
            match segment.as_str() {
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
            syn::UseTree::Path(tree) => self.add_tree(&with(&tree.ident), &tree.tree),
            syn::UseTree::Name(tree) => self.add(&with(&tree.ident)),
            syn::UseTree::Rename(tree) => self.add(&with(&tree.ident)),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(before, tree)),
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|argument| argument.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) && !is_test(&item.attrs) {
            self.add_tree(&[], &item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 {
            self.add(&names);
        }
        visit::visit_path(self, path);
    }
}
