//! Indexes, and how the uniqueness of their keys is checked.
//!
//! A checkpoint holds an image of each index: a new field needs a default, and no field is renamed.

use crate::{Deferral, IndexId};
use serde::{Deserialize, Serialize};

/// How the uniqueness of an index's keys is checked, if not by each write of a row that has no NULL in them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRules {
    /// When a deferrable key is checked. Storage allows duplicates in its index; statements and
    /// transactions check them at their end.
    pub deferral: Deferral,
    /// Whether it is a deferrable PRIMARY KEY. A hidden key then identifies the rows of the table.
    pub is_primary: bool,
    /// NULLS NOT DISTINCT: whether two rows with NULL in the same columns are refused.
    pub nulls_equal: bool,
}

impl KeyRules {
    fn is_common(&self) -> bool {
        *self == Self::default()
    }
}

/// An index. Keys of every index but the primary one end with the primary key, so that all are unique.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Index {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: String,
    /// Its columns, by index in the table.
    pub columns: Vec<usize>,
    /// Whether each write of a row refuses the columns of another row, none of them NULL.
    pub unique: bool,
    /// Whether a PRIMARY KEY or UNIQUE constraint of the table created it.
    pub is_constraint: bool,
    /// How its uniqueness is checked.
    #[serde(default, skip_serializing_if = "KeyRules::is_common")]
    pub rules: KeyRules,
    /// What else its definition says.
    #[serde(default, skip_serializing_if = "IndexDetails::is_empty")]
    pub details: IndexDetails,
}

/// What an index's definition says beside its columns. None of it changes a result: the keys are kept in
/// ascending order and read in either direction, an entry leads to the whole row, and every row has one. It
/// is kept to be shown.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexDetails {
    /// What stands behind each column, such as `DESC NULLS LAST`; no texts if nothing stands anywhere.
    pub orders: Vec<String>,
    /// INCLUDE, by index in the table.
    pub included: Vec<usize>,
    /// WHERE, as SQL text.
    pub condition: Option<String>,
}

impl IndexDetails {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Index {
    /// Returns whether it is declared unique, at whatever time this is checked.
    pub fn is_key(&self) -> bool {
        self.unique || self.is_deferrable()
    }

    /// Returns whether statements or transactions check its uniqueness at their end.
    pub fn is_deferrable(&self) -> bool {
        self.rules.deferral != Deferral::Never
    }
}

/// The definition of an index to create.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NewIndex {
    /// Its name.
    pub name: String,
    /// Its columns, by index in the table.
    pub columns: Vec<usize>,
    /// Whether each write of a row refuses the columns of another row, none of them NULL.
    pub unique: bool,
    /// Whether a constraint creates it.
    pub is_constraint: bool,
    /// How its uniqueness is checked.
    pub rules: KeyRules,
    /// What else its definition says.
    pub details: IndexDetails,
}

impl From<&Index> for NewIndex {
    fn from(index: &Index) -> Self {
        let Index { name, columns, unique, is_constraint, rules, details, .. } = index.clone();
        Self { name, columns, unique, is_constraint, rules, details }
    }
}
