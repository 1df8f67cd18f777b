//! The numbers of the sessions that have temporary relations.

use crate::definitions::hold;
use sql::Schema;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The numbers of the sessions that have, or may have, temporary relations.
#[derive(Debug, Default)]
pub(crate) struct SessionNumbers(Mutex<BTreeSet<u32>>);

impl SessionNumbers {
    /// Returns the first number that no session has, and whose schema does not exist.
    pub(crate) fn take(&self, schema: &Schema) -> u32 {
        let mut taken = hold(&self.0);
        let left: BTreeSet<u32> = schema.temporary_schemas().collect();
        let mut numbers = (1..).filter(|number| !taken.contains(number) && !left.contains(number));
        let number = numbers.next().unwrap_or(u32::MAX);
        taken.insert(number);
        number
    }

    /// Frees the number of a session.
    pub(crate) fn give_back(&self, number: u32) {
        hold(&self.0).remove(&number);
    }

    /// Returns the temporary schemas that no session has.
    pub(crate) fn left_behind(&self, schema: &Schema) -> Vec<String> {
        let taken = hold(&self.0);
        let left = schema.temporary_schemas().filter(|number| !taken.contains(number));
        left.map(Schema::temporary_schema).collect()
    }
}
