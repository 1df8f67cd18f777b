//! The table of built-in functions: one entry for each signature, in a file for each family.
//!
//! An entry has the name, the types of arguments and result, and the form of the evaluation. The binder
//! chooses an entry by the types of the arguments, and `pg_proc` shows all entries.
//! Source: PostgreSQL 15's documentation, chapter "Functions and Operators", and its `pg_proc`.

mod aggregates;
mod arrays;
mod bytes;
mod call;
mod clocks;
mod decimals;
mod degrees;
mod doubles;
mod enumerations;
mod format;
mod hashes;
mod identifiers;
mod integers;
mod intervals;
mod json;
mod json_changed;
mod json_made;
mod json_paired;
mod kind;
mod matched;
mod pattern_syntax;
mod patterns;
mod session;
mod sizes;
mod spans;
mod texts;
mod times;
mod windows;
mod zones;

pub use call::Call;
pub use format::quoted_name;
pub use identifiers::identifier_parts;
pub(crate) use json::wrong_kind;
pub(crate) use json_made::json_key;
pub use kind::Kind;

use crate::query::{TableFunction, WindowFunction};
use crate::{AggregateFunction, Draw, Evaluated, LiveFunction};
use catalog::ScalarType;
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// One signature of a built-in function.
pub struct BuiltIn {
    /// The name, in lower case.
    pub name: &'static str,
    /// The types of the arguments.
    pub arguments: &'static [Kind],
    /// The type of the result.
    pub result: Kind,
    /// The way in which the value is evaluated.
    pub form: Form,
    /// Whether the function is called with NULL too. Any other function of a NULL is NULL.
    pub takes_null: bool,
    /// Whether further arguments of the last type may follow.
    pub is_variadic: bool,
    /// Whether the last argument is an array of what another entry takes one by one: the entry is for calls
    /// with VARIADIC.
    pub is_for_variadic: bool,
    /// Whether the value depends on a setting of the session.
    pub is_stable: bool,
}

/// The way in which a function is evaluated.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Form {
    /// From the arguments alone.
    Values(fn(Call<'_>) -> Evaluated),
    /// The time of the call.
    Now,
    /// A random value of the call.
    Draw(Draw),
    /// A function of sequences, whose first argument names one when the statement is bound.
    Sequence(SequenceFunction),
    /// An aggregate.
    Aggregate(AggregateFunction),
    /// A function that needs a window.
    Window(WindowFunction),
    /// Rows, in FROM.
    Rows(TableFunction),
    /// Rows that are the elements of an array, which is made from the arguments.
    Elements(fn(Call<'_>) -> Evaluated),
    /// The same as an operator.
    Operator(&'static str),
    /// A value that the binder takes from the session and the catalog.
    Session,
    /// A value of the moment, of the database or the client's session.
    Live(LiveFunction),
    /// Refused: its value changes during a statement, so a replay could not compute it.
    Unrepeatable,
}

/// A function of sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are PostgreSQL's")]
pub enum SequenceFunction {
    NextVal,
    CurrVal,
    SetVal,
    LastVal,
}

/// Whether a function gives the same value for the same arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volatility {
    /// Always.
    Immutable,
    /// Within a statement.
    Stable,
    /// Not at all.
    Volatile,
}

impl BuiltIn {
    const fn new(name: &'static str, arguments: &'static [Kind], result: Kind, form: Form) -> Self {
        Self {
            name,
            arguments,
            result,
            form,
            takes_null: false,
            is_variadic: false,
            is_for_variadic: false,
            is_stable: false,
        }
    }

    /// Makes an entry for a function of its arguments.
    const fn of(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        evaluate: fn(Call<'_>) -> Evaluated,
    ) -> Self {
        Self::new(name, arguments, result, Form::Values(evaluate))
    }

    const fn taking_null(self) -> Self {
        Self { takes_null: true, ..self }
    }

    const fn variadic(self) -> Self {
        Self { is_variadic: true, ..self }
    }

    const fn for_variadic(self) -> Self {
        Self { is_for_variadic: true, ..self }
    }

    const fn stable(self) -> Self {
        Self { is_stable: true, ..self }
    }

    /// Returns whether the value depends on more than the arguments.
    pub fn volatility(&self) -> Volatility {
        match self.form {
            Form::Values(_) if self.is_stable => Volatility::Stable,
            Form::Values(_)
            | Form::Aggregate(_)
            | Form::Window(_)
            | Form::Rows(_)
            | Form::Elements(_)
            | Form::Operator(_) => Volatility::Immutable,
            Form::Now | Form::Session | Form::Live(_) => Volatility::Stable,
            Form::Draw(_) | Form::Sequence(_) | Form::Unrepeatable => Volatility::Volatile,
        }
    }

    /// Returns whether the value depends on the zone of the session. `element` is the type for which the
    /// polymorphic types stand.
    pub(crate) fn depends_on_zone(&self, element: ScalarType) -> bool {
        let is_zoned =
            |kind: &Kind| *kind == Kind::TIMESTAMPTZ || kind.is_polymorphic() && element.is_zoned();
        // As in PostgreSQL, the catalog takes `age` for immutable.
        (self.is_stable || self.name == "age")
            && (is_zoned(&self.result) || self.arguments.iter().any(is_zoned))
    }

    /// Returns whether the function returns rows.
    pub fn returns_rows(&self) -> bool {
        matches!(self.form, Form::Rows(_) | Form::Elements(_))
    }

    /// Returns the type of the argument at an index, if there may be that many.
    pub fn argument(&self, index: usize) -> Option<Kind> {
        match self.arguments.get(index) {
            None if self.is_variadic => self.arguments.last().copied(),
            kind => kind.copied(),
        }
    }

    /// Returns whether the function may have this number of arguments.
    pub fn takes(&self, count: usize) -> bool {
        let least = self.arguments.len();
        !self.is_for_variadic && (count == least || self.is_variadic && count > least)
    }
}

/// Compares the addresses of the entries, not their contents.
impl PartialEq for BuiltIn {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl fmt::Debug for BuiltIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All families.
static FAMILIES: &[&[BuiltIn]] = &[
    texts::TEXTS,
    format::FORMATTING,
    patterns::PATTERNS,
    identifiers::IDENTIFIERS,
    hashes::HASHES,
    matched::MATCHED,
    bytes::BYTES,
    integers::INTEGERS,
    decimals::DECIMALS,
    doubles::DOUBLES,
    degrees::DEGREES,
    intervals::INTERVALS,
    clocks::CLOCKS,
    times::TIMES,
    zones::ZONES,
    spans::SPANS,
    arrays::ARRAYS,
    enumerations::ENUMERATIONS,
    json::JSONS,
    json_made::MADE_JSONS,
    json_changed::CHANGED_JSONS,
    json_paired::PAIRED_JSONS,
    aggregates::AGGREGATES,
    windows::WINDOWS,
    session::SESSION,
    sizes::SIZES,
];

/// Returns all entries.
pub fn built_ins() -> impl Iterator<Item = &'static BuiltIn> {
    FAMILIES.iter().copied().flatten()
}

/// Returns the entries with a name.
pub fn built_ins_named(name: &str) -> &'static [&'static BuiltIn] {
    static NAMES: LazyLock<HashMap<&str, Vec<&BuiltIn>>> = LazyLock::new(|| {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        built_ins().for_each(|built_in| names.entry(built_in.name).or_default().push(built_in));
        names
    });
    NAMES.get(name).map_or(&[], Vec::as_slice)
}
