//! Definitions, and tables of queries, as statements of a client.

use super::Session;
use crate::Error;
use catalog::SessionZone;
use procedure::SqlError;
use sql::{Filled, Kind, Move, Prepared, Schema};
use std::sync::Arc;

/// Returns whether a definition may make a table that the end of its transaction drops.
fn may_drop_at_commit(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    words.windows(3).any(|words| words[0] == "on" && words[1] == "commit" && words[2].starts_with("drop"))
}

/// A statement of several steps runs alone after this many lost races.
const RUNS_ALONE: u32 = 3;

impl Session {
    /// Returns a definition as it is applied and logged: with verifiers in the place of passwords, and behind
    /// the role that makes it.
    fn made(&mut self, text: &str) -> Result<String, Error> {
        let sealed = match sql::needs_verifier(text) {
            true => sql::with_verifier(text, crate::verifier)?,
            false => text.to_owned(),
        };
        Ok(self.worker.version.schema.made_by(self.role, &sealed))
    }

    /// Returns the error of a definition with its position in the client's text.
    fn of_client(&self, error: Error) -> Error {
        match error {
            // The role has the first line.
            Error::Statement(mut error) if self.role != Schema::first_superuser() => {
                error.line = error.line.saturating_sub(1).max(1);
                Error::Statement(error)
            }
            other => other,
        }
    }

    /// Changes definitions, in the open transaction or as one transaction.
    ///
    /// # Errors
    /// `0A000`: its meaning depends on the zone of the session, which is not UTC. The errors of the
    /// definition.
    pub(super) fn run_definition(&mut self, text: &str, in_block: bool) -> Result<(), Error> {
        if !in_block && may_drop_at_commit(text) {
            return self.as_transaction(false, |session| session.run_definition(text, true));
        }
        self.worker.machine.services.notices.clear();
        let resolved = self.resolved(text)?;
        let text = resolved.as_ref().map_or(text, |resolved| &resolved.text);
        if self.zone().is_some()
            && let Err(error) = self.worker.version.schema.check_zoneless(text)
            && error.error.sqlstate == "0A000"
        {
            return Err(resolved
                .as_ref()
                .map_or_else(|| error.clone(), |own| own.placed(error.clone()))
                .into());
        }
        let text = self.made(text)?;
        let made = match in_block {
            // The definition has read rows without adding them to the read set.
            true => self.stage(&text).inspect_err(|_| self.shows_everything()),
            false => self.run_made(&text).map(|_| ()),
        };
        let made = made.map_err(|error| self.of_client(error));
        let Some(resolved) = resolved else { return made };
        made.map_err(|error| match error {
            Error::Statement(error) => Error::Statement(resolved.placed(error)),
            Error::Sql(error) => Error::Sql(resolved.as_written(error)),
            other => other,
        })?;
        resolved.notice.into_iter().for_each(|notice| self.notice(notice));
        Ok(())
    }

    /// Makes a table of a query, in the open transaction or as one transaction. Returns the number of rows.
    /// `zone` is that of the literals.
    pub(super) fn fill(
        &mut self,
        text: &str,
        zone: Option<&Arc<SessionZone>>,
        in_block: bool,
    ) -> Result<u64, Error> {
        self.as_transaction(in_block, |session| {
            // The transaction may have begun under other definitions than those for which the text was
            // prepared.
            let Some(plan) = session.plan_in(text, &[], zone)? else { return Ok(0) };
            match plan.kind {
                Kind::Filled(filled) => session.fill_in_block(&filled),
                Kind::Nothing(skipped) => {
                    session.worker.machine.services.notices.extend(skipped);
                    Ok(0)
                }
                _ => Err(SqlError::new("0A000", "this query cannot fill a table").into()),
            }
        })
    }

    /// Runs the steps of a statement in the open transaction, or as one transaction. That one runs again when
    /// it loses a race, in the end alone.
    fn as_transaction<T>(
        &mut self,
        in_block: bool,
        mut run: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if in_block {
            return self.as_one_statement(run);
        }
        // What it has waited for may be its own. It keeps no other transaction waiting while it waits once
        // more.
        self.worker.workspace.release_rows();
        let mut lost = 0;
        loop {
            self.hold_definitions()?;
            self.begin()?;
            let begun = self.begin_in_block().and_then(|()| match lost {
                RUNS_ALONE => self.shut_all_out(),
                _ => Ok(()),
            });
            let ran = begun.and_then(|()| run(self)).and_then(|ran| self.commit_open().map(|_| ran));
            let error = match ran {
                Ok(ran) => return Ok(ran),
                Err(error) => error,
            };
            self.rollback();
            let has_lost = error.sqlstate() == "40001" && self.worker.races.busy.is_none();
            if !has_lost || lost == RUNS_ALONE {
                return Err(error);
            }
            lost += 1;
        }
    }

    /// Runs the steps of a statement in the open transaction. Where one of them has to wait, all are
    /// undone: the statement runs again.
    fn as_one_statement<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if !self.block.begun {
            self.hold_definitions()?;
            self.begin_in_block()?;
        }
        if self.block.snapshot.is_some() {
            return run(self);
        }
        let savepoint = self.worker.workspace.set_savepoint();
        let definitions = self.mark_staged();
        let is_alone = self.block.alone.is_some();
        let ran = run(self);
        let is_undone = ran.is_err() && self.worker.races.busy.is_some();
        if is_undone {
            self.block.alone.take_if(|_| !is_alone);
            self.worker.workspace.forget_since(savepoint);
            self.roll_back_staged(definitions.as_deref());
        }
        if ran.is_ok() || is_undone {
            self.worker.workspace.release_savepoint(savepoint);
        }
        ran
    }

    /// Changes the partitions of a table, and moves their rows, in the open transaction or as one.
    pub(super) fn run_moves(&mut self, text: &str, in_block: bool) -> Result<(), Error> {
        self.as_transaction(in_block, |session| session.moves_in_block(text))
    }

    fn moves_in_block(&mut self, text: &str) -> Result<(), Error> {
        // The transaction may have begun under other definitions than those for which the text was prepared.
        let Some(moves) = self.worker.version.schema.moves(text)? else {
            return self.run_definition(text, true);
        };
        if !moves.iter().any(|step| matches!(step, Move::Define)) {
            let made = self.made(text)?;
            self.worker.version.schema.authorize(&made).map_err(|error| self.of_client(error.into()))?;
        }
        for step in moves {
            match step {
                Move::Define => {
                    self.run_definition(text, true)?;
                    self.shut_others_out()?;
                }
                Move::Drop(drop) => self.stage(&drop).inspect_err(|_| self.shows_everything())?,
                Move::Run(text) => self.run_move(&text).map(|_| ())?,
                Move::Refuse(query, error) => {
                    if self.run_move(&query)? > 0 {
                        return Err(error.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a step that copies, deletes or looks for rows. Returns their number.
    fn run_move(&mut self, text: &str) -> Result<u64, Error> {
        let procedure = self.worker.version.schema.compile_move(text)?;
        self.run_in_block(&procedure, &[])?;
        Ok(self.worker.machine.frame.affected)
    }

    fn fill_in_block(&mut self, filled: &Filled) -> Result<u64, Error> {
        let Some(insert) = &filled.insert else {
            return self.run_definition(&filled.create, true).map(|()| 0);
        };
        if let Some(refused) = &filled.refused {
            return Err(refused.clone().into());
        }
        self.run_definition(&filled.create, true)?;
        let plan = self.bind_text(insert, self.zone(), |schema, text| schema.prepare_resolved(text, &[]));
        // Who makes a table may fill it, also in a schema that the role may not use otherwise.
        let Some(Prepared { kind: Kind::Run(procedure), .. }) = plan? else {
            return Err(SqlError::new("0A000", "this query cannot fill a table").into());
        };
        self.run_in_block(&procedure, &[])?;
        Ok(self.worker.machine.frame.affected)
    }
}
