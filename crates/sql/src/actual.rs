//! The polymorphic types, and what a call decides about them.

use catalog::Type;

/// The types that a call decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Actual {
    /// The type of ANYELEMENT, and of the elements of ANYARRAY.
    pub(crate) element: Option<Type>,
    /// The type of ANYCOMPATIBLE, and of the elements of ANYCOMPATIBLEARRAY.
    pub(crate) compatible: Option<Type>,
    /// The columns of a RECORD.
    pub(crate) columns: Option<Vec<(String, Type)>>,
}

/// A family of polymorphic types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Element,
    Compatible,
}

/// Returns the family of a polymorphic type, and whether it is that of arrays; `None` for any other type.
pub(crate) fn family_of(name: &str) -> Option<(Family, bool)> {
    Some(match name {
        "anyelement" | "anynonarray" | "anyenum" => (Family::Element, false),
        "anyarray" => (Family::Element, true),
        "anycompatible" | "anycompatiblenonarray" => (Family::Compatible, false),
        "anycompatiblearray" => (Family::Compatible, true),
        _ => return None,
    })
}

/// Returns whether a type is polymorphic, by its name.
pub(crate) fn is_polymorphic(name: &str) -> bool {
    family_of(name).is_some()
}
