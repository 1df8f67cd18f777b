//! Sizes of functions, files and lines; and tuple parameters, each of which is a struct without a name.

use super::sources::{Source, Sources};
use super::{Break, Rule};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const MOST_LINES_OF_FUNCTION: usize = 70;
const MOST_LINES_OF_FILE: usize = 600;
/// The width that rustfmt keeps for code; it leaves comments and string literals alone.
const MOST_COLUMNS: usize = 110;

pub(super) fn check(sources: &Sources, breaks: &mut Vec<Break>) {
    for source in &sources.files {
        let Some(rust) = &source.rust else { continue };
        let mut functions = Functions { source, breaks, implements_trait: false };
        functions.visit_file(rust);
        let mut add = |rule, line, what| breaks.push(Break::at(source, rule, line, what));
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

/// Measures all functions of a file.
struct Functions<'a> {
    source: &'a Source,
    breaks: &'a mut Vec<Break>,
    /// Whether the function implements a trait, which dictates its parameters.
    implements_trait: bool,
}

impl Functions<'_> {
    /// Measures a function; one without a body is declared by a trait.
    fn measure(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        let first = signature.span().start().line;
        let name = &signature.ident;
        let lines = body.map_or(0, |body| body.span().end().line - first + 1);
        if lines > MOST_LINES_OF_FUNCTION {
            let what = format!("`{name}` has {lines} lines");
            self.breaks.push(Break::at(self.source, Rule::LongFunction, first, what));
        }
        let is_tuple = |input: &&syn::FnArg| match input {
            syn::FnArg::Typed(typed) => {
                matches!(&*typed.ty, syn::Type::Tuple(tuple) if tuple.elems.len() > 1)
            }
            syn::FnArg::Receiver(_) => false,
        };
        for input in signature.inputs.iter().filter(is_tuple).filter(|_| !self.implements_trait) {
            let what = format!("`{name}` has a tuple parameter");
            self.breaks.push(Break::at(self.source, Rule::TupleParameter, input.span().start().line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let outer = std::mem::take(&mut self.implements_trait);
        self.measure(&function.sig, Some(&function.block));
        visit::visit_item_fn(self, function);
        self.implements_trait = outer;
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.implements_trait, block.trait_.is_some());
        visit::visit_item_impl(self, block);
        self.implements_trait = outer;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.measure(&function.sig, Some(&function.block));
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.measure(&function.sig, function.default.as_ref());
        visit::visit_trait_item_fn(self, function);
    }
}
