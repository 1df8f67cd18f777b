//! Names of indexes, constraints and sequences that a statement gives no name.
//! Source: PostgreSQL 15, `makeObjectName` and `ChooseRelationName`.

use crate::full_names::{in_schema_of, short};
use crate::truncation::MOST_BYTES;

/// The parts that a generated name joins: a table, columns, and the kind of the object.
pub(crate) struct GeneratedName<'a> {
    /// The full name of the table.
    table: &'a str,
    /// The names of the columns, joined; empty for none.
    columns: String,
    /// The kind, such as `pkey`.
    label: &'a str,
}

impl<'a> GeneratedName<'a> {
    pub(crate) fn new(table: &'a str, columns: &[&str], label: &'a str) -> Self {
        Self { table, columns: columns.join("_"), label }
    }

    /// Returns the name with a label, at most 63 bytes long: the longer of the table and the columns is cut,
    /// behind a whole character.
    fn with_label(&self, label: &str) -> String {
        let (table, columns) = (short(self.table), self.columns.as_str());
        let separators = 1 + usize::from(!columns.is_empty());
        let available = MOST_BYTES.saturating_sub(label.len() + separators);
        let (mut first, mut second) = (table.len(), columns.len());
        while first + second > available {
            match first > second {
                true => first -= 1,
                false => second -= 1,
            }
        }
        let parts =
            [&table[..table.floor_char_boundary(first)], &columns[..columns.floor_char_boundary(second)]];
        match columns.is_empty() {
            true => format!("{}_{label}", parts[0]),
            false => format!("{}_{}_{label}", parts[0], parts[1]),
        }
    }

    /// Returns the name without a number.
    pub(crate) fn base(&self) -> String {
        self.with_label(self.label)
    }

    /// Returns the full name without a number.
    pub(crate) fn base_in_schema(&self) -> String {
        in_schema_of(self.table, self.base())
    }

    /// Returns whether the parts are too long for a name.
    pub(crate) fn is_cut(&self) -> bool {
        let separators = 1 + usize::from(!self.columns.is_empty());
        short(self.table).len() + self.columns.len() + self.label.len() + separators > MOST_BYTES
    }

    /// Returns the first name that is free: that without a number, or that with the lowest number.
    pub(crate) fn first_free(&self, is_taken: impl Fn(&str) -> bool) -> String {
        let numbered = (1_u64..).map(|number| self.with_label(&format!("{}{number}", self.label)));
        let mut names = std::iter::once(self.base()).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or_else(|| self.base())
    }

    /// Returns the first full name that is free in the schema of the table.
    pub(crate) fn first_free_in_schema(&self, is_taken: impl Fn(&str) -> bool) -> String {
        let full = |name: &str| in_schema_of(self.table, name.into());
        full(&self.first_free(|name| is_taken(&full(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_part_is_cut_behind_a_character() {
        let long = "a".repeat(50);
        let name = GeneratedName::new(&long, &["b"], "fkey").base();
        assert_eq!(name, format!("{long}_b_fkey"));
        let name = GeneratedName::new(&long, &["c".repeat(40).as_str()], "key").base();
        assert_eq!(name, format!("{}_{}_key", "a".repeat(29), "c".repeat(29)));
        let name = GeneratedName::new(&long, &["é".repeat(20).as_str()], "seq").base();
        assert_eq!(name, format!("{}_{}_seq", "a".repeat(29), "é".repeat(14)));
        let taken = format!("{}_pkey", "a".repeat(58));
        let table = "a".repeat(63);
        let name = GeneratedName::new(&table, &[], "pkey").first_free(|name| name == taken);
        assert_eq!(name, format!("{}_pkey1", "a".repeat(57)));
    }
}
