//! The order of a table's columns: those that statements see, then the hidden columns of indexes, then a
//! hidden key.

use crate::{Column, NewTable, Table};

/// Returns how many of a table's columns statements see: the first ones.
fn visible_count(columns: &[Column], hidden_key: bool) -> usize {
    let behind = columns.iter().rev().skip(usize::from(hidden_key));
    columns.len() - usize::from(hidden_key) - behind.take_while(|column| column.hidden).count()
}

impl Table {
    /// Returns the columns that statements see. Behind them are the hidden columns of indexes, and a hidden
    /// key.
    pub fn visible(&self) -> &[Column] {
        &self.columns[..visible_count(&self.columns, self.hidden_key)]
    }
}

impl NewTable {
    /// Returns how many of its columns statements see: the first ones.
    pub fn visible_count(&self) -> usize {
        visible_count(&self.columns, self.hidden_key)
    }

    /// Adds a column, and moves those from its place on.
    pub fn insert_column(&mut self, place: usize, column: Column) {
        self.columns.insert(place, column);
        self.renumber(|own| if own >= place { own + 1 } else { own });
    }

    /// Removes a column that no index and no foreign key has.
    pub fn remove_column(&mut self, place: usize) {
        self.columns.remove(place);
        self.renumber(|own| if own > place { own - 1 } else { own });
    }

    fn renumber(&mut self, new: impl Fn(usize) -> usize) {
        let of_indexes =
            self.indexes.iter_mut().flat_map(|own| own.columns.iter_mut().chain(&mut own.details.included));
        let of_keys = self.foreign_keys.iter_mut().flat_map(|own| &mut own.columns);
        of_indexes.chain(of_keys).for_each(|column| *column = new(*column));
    }
}
