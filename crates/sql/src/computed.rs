//! Expressions that every write of a row computes.

/// What every write of a row computes.
#[derive(Clone, Copy)]
pub(crate) enum Computed {
    GeneratedColumn,
    IndexExpression,
    IndexPredicate,
}

impl Computed {
    /// Returns its name, and the message of one whose value does not follow from the row.
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
