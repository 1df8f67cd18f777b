//! Definitions, and tables of queries, as statements of a client.

use super::Session;
use crate::Error;
use procedure::SqlError;
use sql::{Filled, Kind};

impl Session {
    /// Changes definitions, in the open transaction or as one transaction.
    pub(super) fn run_definition(&mut self, text: &str, in_block: bool) -> Result<(), Error> {
        match in_block {
            // The definition has read rows without adding them to the read set.
            true => self.stage(text).inspect_err(|_| self.shows_everything()),
            false => self.run_statement(text).map(|_| ()),
        }
    }

    /// Makes a table of a query, in the open transaction or as one transaction. Returns the number of rows.
    pub(super) fn fill(&mut self, filled: &Filled, in_block: bool) -> Result<u64, Error> {
        if in_block {
            return self.fill_in_block(filled);
        }
        self.begin()?;
        let filled = self.begin_in_block().and_then(|()| self.fill_in_block(filled));
        match filled {
            Ok(rows) => {
                self.commit_open()?;
                Ok(rows)
            }
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    fn fill_in_block(&mut self, filled: &Filled) -> Result<u64, Error> {
        self.run_definition(&filled.create, true)?;
        let Some(insert) = &filled.insert else { return Ok(0) };
        match self.plan(insert, &[])?.map(|plan| plan.kind) {
            Some(Kind::Run(procedure)) => {
                self.run_in_block(&procedure, &[])?;
                Ok(self.worker.machine.frame.affected)
            }
            _ => Err(SqlError::new("0A000", "this query cannot fill a table").into()),
        }
    }
}
