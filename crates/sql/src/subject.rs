//! The subjects of comments, owners and privileges.
//!
//! Not here: COMMENT ON, and how a comment follows its object (`comments`).

use serde::{Deserialize, Serialize};
use std::fmt;

/// An object that may have a comment, an owner and privileges, by name. Images store the names of the
/// variants, so no variant may be renamed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Subject {
    /// A table, sequence, view or index.
    Relation(String),
    /// A table or view, and a column.
    Column(String, String),
    /// A table and a constraint.
    Constraint(String, String),
    /// A table and a trigger.
    Trigger(String, String),
    /// A function or procedure.
    Routine(String),
    /// A schema.
    Namespace(String),
    /// An enumeration.
    Type(String),
    /// The database.
    Database,
}

impl Subject {
    /// Returns the relation of a column, constraint or trigger; `None` for any other object.
    pub(crate) fn owner(&self) -> Option<&String> {
        match self {
            Self::Column(owner, _) | Self::Constraint(owner, _) | Self::Trigger(owner, _) => Some(owner),
            Self::Relation(_) | Self::Routine(_) | Self::Namespace(_) | Self::Type(_) | Self::Database => {
                None
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relation(name) => write!(f, "relation {name}"),
            Self::Column(owner, name) => write!(f, "column {owner}.{name}"),
            Self::Constraint(owner, name) => write!(f, "constraint {name} of {owner}"),
            Self::Trigger(owner, name) => write!(f, "trigger {name} of {owner}"),
            Self::Routine(name) => write!(f, "routine {name}"),
            Self::Namespace(name) => write!(f, "schema {name}"),
            Self::Type(name) => write!(f, "type {name}"),
            Self::Database => f.write_str("the database"),
        }
    }
}
