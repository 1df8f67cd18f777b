//! The numbers of sequences in a transaction that changes definitions.

use super::super::Session;
use crate::Error;
use crate::sequences::Source;
use crate::worker::serialization_failure;
use catalog::{Arena, SequencePlace, TableId};
use procedure::{Conflict, DataAccess, Failure, Sequences, SqlError};
use std::sync::Arc;
use transaction::{Counters, SequenceRow};

/// The sequences of a transaction that changes definitions.
pub(super) struct StagedSequences {
    /// Sequences that the transaction counts itself.
    pub(super) counters: Arc<Counters>,
    /// Sequences of the database.
    pub(super) shared: Source,
}

impl StagedSequences {
    fn of(&self, sequence: TableId) -> &dyn Sequences {
        if self.counters.has(sequence) { &*self.counters } else { &self.shared }
    }
}

impl Sequences for StagedSequences {
    fn next(&self, sequence: TableId) -> Result<i64, SqlError> {
        self.of(sequence).next(sequence)
    }

    fn set(&self, sequence: TableId, number: i64, is_called: bool) -> Result<(), SqlError> {
        self.of(sequence).set(sequence, number, is_called)
    }

    fn place(&self, sequence: TableId) -> Result<SequencePlace, SqlError> {
        self.of(sequence).place(sequence)
    }
}

impl Session {
    /// Writes the row of a sequence that the transaction counts itself.
    pub(super) fn store_number(&mut self, sequence: TableId, row: &SequenceRow) -> Result<(), Error> {
        let written = self.write_number(sequence, row);
        written.map_err(|failure| match failure {
            Failure::Error(error) => Error::Sql(*error),
            _ => serialization_failure(Conflict::Write),
        })
    }

    fn write_number(&mut self, sequence: TableId, (row, arena): &SequenceRow) -> Result<(), Failure> {
        let workspace = &mut self.worker.workspace;
        let table = Arc::clone(workspace.tables().store(sequence).definition());
        let mut key = Vec::new();
        table.encode_key_column(2, row[2], arena, &mut key);
        let mut before = *row;
        match workspace.find(&table, &key)? {
            Some(found)
                if workspace.read(found, table.layout.slots(), &mut Arena::default(), &mut before)? =>
            {
                workspace.update(&table, found, &[(0, row[0]), (1, row[1])], arena)
            }
            _ => workspace.insert(&table, row, arena),
        }
    }
}
