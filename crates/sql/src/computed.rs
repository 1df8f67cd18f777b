//! Expressions that every write of a row computes.

/// The kind of an expression that every write of a row computes.
#[derive(Clone, Copy)]
pub(crate) enum Computed {
    GeneratedColumn,
    IndexExpression,
    IndexPredicate,
}

impl Computed {
    /// Returns the name of the kind, and the message for an expression that depends on more than the row.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::GeneratedColumn => {
                ("column generation expression", "generation expression is not immutable")
            }
            Self::IndexExpression => {
                ("index expression", "functions in index expression must be marked IMMUTABLE")
            }
            Self::IndexPredicate => {
                ("index predicate", "functions in index predicate must be marked IMMUTABLE")
            }
        }
    }
}
