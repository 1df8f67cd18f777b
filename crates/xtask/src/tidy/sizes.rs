//! Sizes: functions, files, lines; and tuple parameters, which are structs that lack a name.

use super::sources::{Source, Sources};
use super::{Break, Rule};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const MOST_LINES_OF_FUNCTION: usize = 70;
const MOST_LINES_OF_FILE: usize = 600;
/// That of rustfmt, which leaves comments and texts alone.
const MOST_COLUMNS: usize = 110;

pub(super) fn check(sources: &Sources, breaks: &mut Vec<Break>) {
    for source in &sources.files {
        let Some(rust) = &source.rust else { continue };
        let mut functions = Functions { source, breaks };
        functions.visit_file(rust);
        let mut add = |rule, line, what| breaks.push(at(source, rule, line, what));
        let lines = source.text.lines().count();
        if lines > MOST_LINES_OF_FILE {
            add(Rule::LongFile, 1, format!("{lines} lines"));
        }
        for (number, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MOST_COLUMNS {
                add(Rule::WideLine, number + 1, format!("{columns} columns"));
            }
        }
    }
}

fn at(source: &Source, rule: Rule, line: usize, what: String) -> Break {
    Break { rule, package: source.package.clone(), file: source.path.clone(), line, what }
}

/// Looks at all functions of a file.
struct Functions<'a> {
    source: &'a Source,
    breaks: &'a mut Vec<Break>,
}

impl Functions<'_> {
    fn look_at(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let lines = block.span().end().line - first + 1;
        let name = &signature.ident;
        if lines > MOST_LINES_OF_FUNCTION {
            let what = format!("`{name}` has {lines} lines");
            self.breaks.push(at(self.source, Rule::LongFunction, first, what));
        }
        let is_tuple = |input: &&syn::FnArg| match input {
            syn::FnArg::Typed(typed) => matches!(&*typed.ty, syn::Type::Tuple(own) if own.elems.len() > 1),
            syn::FnArg::Receiver(_) => false,
        };
        for input in signature.inputs.iter().filter(is_tuple) {
            let what = format!("`{name}` has a tuple parameter");
            self.breaks.push(at(self.source, Rule::TupleParameter, input.span().start().line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, own: &'ast syn::ItemFn) {
        self.look_at(&own.sig, &own.block);
        visit::visit_item_fn(self, own);
    }

    fn visit_impl_item_fn(&mut self, own: &'ast syn::ImplItemFn) {
        self.look_at(&own.sig, &own.block);
        visit::visit_impl_item_fn(self, own);
    }

    fn visit_trait_item_fn(&mut self, own: &'ast syn::TraitItemFn) {
        if let Some(block) = &own.default {
            self.look_at(&own.sig, block);
        }
        visit::visit_trait_item_fn(self, own);
    }
}
