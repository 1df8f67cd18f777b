//! The definitions of the tables that transactions touch.

use catalog::{Table, TableId};
use std::sync::Arc;

/// Table definitions by table number.
#[derive(Clone, Default, Debug)]
pub struct Definitions(Vec<Option<Arc<Table>>>);

impl Definitions {
    /// Collects definitions.
    pub fn new<'a>(tables: impl IntoIterator<Item = &'a Arc<Table>>) -> Self {
        let mut definitions = Vec::new();
        for table in tables {
            let number = table.id.0 as usize;
            if definitions.len() <= number {
                definitions.resize(number + 1, None);
            }
            definitions[number] = Some(Arc::clone(table));
        }
        Self(definitions)
    }

    /// Returns the definition of a table.
    #[inline]
    pub fn get(&self, id: TableId) -> Option<&Table> {
        self.0.get(id.0 as usize)?.as_deref()
    }
}
