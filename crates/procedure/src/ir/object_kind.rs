//! The kinds of catalog objects that a text may name: `'t'::regclass`.

use crate::SqlError;

/// A kind of catalog objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// `regclass`.
    Relation,
    /// `regtype`.
    Type,
    /// `regnamespace`.
    Namespace,
    /// `regrole`.
    Role,
    /// `regproc` and `regprocedure`.
    Routine,
}

impl ObjectKind {
    /// Returns the kind that a type such as `regclass` names.
    pub fn of_type(ty: &str) -> Self {
        match ty {
            "regclass" => Self::Relation,
            "regtype" => Self::Type,
            "regnamespace" => Self::Namespace,
            "regrole" => Self::Role,
            _ => Self::Routine,
        }
    }

    /// Returns the number that a text is which is the name of no object.
    pub(crate) fn number_in(self, text: &str) -> Result<u32, SqlError> {
        // As in PostgreSQL, a text that is no literal is always the name of a relation.
        let number = text.parse().ok().filter(|_| self != Self::Relation);
        number.ok_or_else(|| self.missing(text))
    }

    /// Returns the error of a name that no object of the kind has.
    pub fn missing(self, name: &str) -> SqlError {
        let (sqlstate, kind) = match self {
            Self::Relation => ("42P01", "relation"),
            Self::Type => ("42704", "type"),
            Self::Namespace => ("3F000", "schema"),
            Self::Role => ("42704", "role"),
            Self::Routine => ("42883", "function"),
        };
        SqlError::new(sqlstate, format!("{kind} \"{name}\" does not exist"))
    }
}
