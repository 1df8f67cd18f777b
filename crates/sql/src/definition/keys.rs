//! PRIMARY KEY and UNIQUE: the indexes that enforce them.
//!
//! The index of a deferrable key allows duplicates, and a table whose primary key is deferrable has a hidden
//! key, by which its rows are found while two of them have the same key.

use super::TableBuilder;
use crate::error::StatementError;
use crate::generated_names::GeneratedName;
use catalog::{Column, Deferral, IndexDetails, KeyRules, NewIndex, ScalarType, Table};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// The DEFAULT of the hidden key of a table without a primary key.
const ROW_IDENTITY: &str = "gen_row_identity()";

/// A key that a statement adds.
pub(crate) struct NewKey {
    /// Its name, if it is given.
    pub(crate) name: Option<String>,
    /// Its columns, by index in the table.
    pub(crate) columns: Vec<usize>,
    pub(crate) rules: KeyRules,
    /// INCLUDE, by index in the table.
    pub(crate) included: Vec<usize>,
}

impl NewKey {
    /// Returns whether one index serves both.
    fn is_same(&self, other: &Self) -> bool {
        self.columns == other.columns && self.rules == other.rules && self.included == other.included
    }

    /// Returns a key without a name, like the one that an index enforces.
    pub(crate) fn like(index: NewIndex) -> Self {
        let NewIndex { columns, rules, details, .. } = index;
        Self { name: None, columns, rules, included: details.included }
    }

    fn index(self, name: String) -> NewIndex {
        let Self { columns, rules, included, .. } = self;
        let unique = rules.deferral == Deferral::Never;
        let details = IndexDetails { included, ..IndexDetails::default() };
        NewIndex { name, columns, unique, is_constraint: true, rules, details }
    }
}

impl TableBuilder<'_> {
    /// Reads a key of named columns.
    pub(super) fn new_key(
        &self,
        name: Option<String>,
        options: ast::AstChildren<ast::ConstraintOption>,
        parameters: Option<ast::IndexParameters>,
        node: &SyntaxNode,
    ) -> Result<NewKey, StatementError> {
        let rules = self.key_rules(options, parameters.clone())?;
        let Some(parameters) = parameters else {
            let error = SqlError::new("0A000", "cannot use an existing index in CREATE TABLE");
            return Err(self.binder.error(node, error));
        };
        let list = self.binder.part(parameters.column_list(), node)?;
        let columns = self.positions(list.column_name_refs().map(|name| name.syntax().clone()))?;
        self.refuse_twice(&columns, node)?;
        let included = parameters.constraint_include_clause().and_then(|clause| clause.column_ref_list());
        let included = included.into_iter().flat_map(|list| list.column_name_refs());
        let included = self.positions(included.map(|name| name.syntax().clone()))?;
        Ok(NewKey { name, columns, rules, included })
    }

    /// Refuses a key that has a column twice.
    fn refuse_twice(&self, columns: &[usize], node: &SyntaxNode) -> Result<(), StatementError> {
        let twice = (1..columns.len()).find(|position| columns[..*position].contains(&columns[*position]));
        let Some(position) = twice else { return Ok(()) };
        let kind = match ast::PrimaryKeyConstraint::can_cast(node.kind()) {
            true => "primary key",
            false => "unique",
        };
        let column = &self.table.columns[columns[position]].name;
        let message = format!("column \"{column}\" appears twice in {kind} constraint");
        Err(self.binder.error(node, SqlError::new("42701", message)))
    }

    /// Reads when a key is checked, and whether NULLs are equal in it. Storage parameters have no effect.
    pub(crate) fn key_rules(
        &self,
        options: ast::AstChildren<ast::ConstraintOption>,
        parameters: Option<ast::IndexParameters>,
    ) -> Result<KeyRules, StatementError> {
        let is_unchecked =
            |option: &ast::ConstraintOption| matches!(option, ast::ConstraintOption::NotValid(_));
        if let Some(option) = options.clone().find(is_unchecked) {
            return Err(self.binder.unsupported(option.syntax(), "NOT VALID of a key"));
        }
        let deferral = self.deferral(options, None)?;
        let nulls = parameters.and_then(|parameters| parameters.nulls_distinct_option());
        let nulls_equal = matches!(nulls, Some(ast::NullsDistinctOption::NullsNotDistinct(_)));
        Ok(KeyRules { deferral, is_primary: false, nulls_equal })
    }

    /// Adds a PRIMARY KEY or a UNIQUE constraint.
    ///
    /// # Errors
    /// `42P16`: there is a PRIMARY KEY already. `42710`: a constraint has its name.
    pub(crate) fn add_key(
        &mut self,
        mut key: NewKey,
        is_primary: bool,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if is_primary {
            return self.primary_key(key, node);
        }
        key.name = self.unused(key.name, node)?;
        self.uniques.push(key);
        Ok(())
    }

    fn primary_key(&mut self, mut key: NewKey, node: &SyntaxNode) -> Result<(), StatementError> {
        if self.primary.is_some() || self.known_primary().is_some() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", self.table.name);
            return Err(self.binder.error(node, SqlError::new("42P16", message)));
        }
        for column in &key.columns {
            self.table.columns[*column].nullable = false;
        }
        key.rules.is_primary = key.rules.deferral != Deferral::Never;
        key.name = self.unused(key.name, node)?;
        self.primary = Some(key);
        Ok(())
    }

    /// Returns the primary key that the table has already.
    pub(crate) fn known_primary(&self) -> Option<&NewIndex> {
        let orders = !self.table.hidden_key && !self.primary_is_gone;
        let first = self.table.indexes.first().filter(|_| orders);
        first.or_else(|| self.table.indexes.iter().find(|index| index.rules.is_primary))
    }

    /// Merges new keys with the same columns to one key, with the first given name.
    pub(crate) fn merge_keys(&mut self) {
        let mut kept: Vec<NewKey> = Vec::new();
        for key in std::mem::take(&mut self.uniques) {
            match self.primary.iter_mut().chain(&mut kept).find(|known| known.is_same(&key)) {
                Some(known) => known.name = known.name.take().or(key.name),
                None => kept.push(key),
            }
        }
        self.uniques = kept;
    }

    /// Adds the indexes of the new keys, and a hidden key if no other orders the rows.
    pub(super) fn add_keys(&mut self) {
        let name = self.table.name.clone();
        let primary = self.primary.take().map(|mut key| {
            let index_name = self.key_name(key.name.take(), &GeneratedName::new(&name, &[], "pkey"));
            key.index(index_name)
        });
        let (ordering, deferrable): (Vec<_>, Vec<_>) = primary.into_iter().partition(|index| index.unique);
        if !ordering.is_empty() {
            if self.table.hidden_key {
                self.table.columns.pop();
                self.table.indexes.remove(0);
                self.table.hidden_key = false;
            }
            self.table.indexes.splice(0..0, ordering);
        } else if self.table.indexes.is_empty() || self.primary_is_gone {
            let default = Some(ROW_IDENTITY.into());
            let (ty, nullable) = (ScalarType::Uuid.into(), false);
            self.table.columns.push(Column { ty, nullable, default, ..Column::default() });
            let columns = vec![self.table.columns.len() - 1];
            let name = format!("{}.(row)", self.table.name);
            self.table.indexes.insert(0, NewIndex { name, columns, unique: true, ..NewIndex::default() });
            self.table.hidden_key = true;
        }
        self.table.indexes.splice(1..1, deferrable);
        for mut key in std::mem::take(&mut self.uniques) {
            let columns = key.columns.iter().chain(&key.included);
            let names: Vec<_> = columns.map(|column| self.table.columns[*column].name.as_str()).collect();
            let index_name = self.key_name(key.name.take(), &GeneratedName::new(&name, &names, "key"));
            self.table.indexes.push(key.index(index_name));
        }
    }
}

/// Returns the error of a foreign key that references a deferrable key, unless another key has the columns.
pub(super) fn deferrable_parent(parent: &Table, columns: &[usize], is_named: bool) -> Option<String> {
    let has_columns = |index: &&catalog::Index| {
        index.columns.len() == columns.len() && columns.iter().all(|column| index.columns.contains(column))
    };
    if parent.unique_index_of(columns).is_some() {
        return None;
    }
    parent.indexes.iter().filter(|index| index.is_deferrable()).find(has_columns)?;
    let kind = if is_named { "unique constraint" } else { "primary key" };
    Some(format!("cannot use a deferrable {kind} for referenced table \"{}\"", parent.short_name()))
}
