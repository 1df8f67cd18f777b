//! The commit of a transaction that has changed definitions: one record, then one version for all sessions.

use super::super::Session;
use super::{Staged, each_effect};
use crate::Error;
use crate::definitions::hold;
use crate::inner::Inner;
use crate::sequences::Taking;
use catalog::{RowChange, TableId};
use logging::content::{DefinitionsRecord, Images, StagesRecord, StatementRecord, WritesBuilder};
use logging::{Commit, Content};
use procedure::{Effect, SqlError};
use std::sync::Arc;
use transaction::{CommitError, Described, Description, Tables};

impl Session {
    /// Commits the transaction with its definitions. `retired` are its earlier private tables.
    pub(in crate::session) fn commit_staged(
        &mut self,
        mut staged: Box<Staged>,
        mut retired: Vec<Tables>,
    ) -> Result<Commit, Error> {
        let committed = self.try_commit_staged(&staged);
        match committed {
            Ok(commit) => _ = self.answers(commit),
            Err(_) => {
                self.definitions_failed();
                staged.readmit_others(&self.worker.inner);
            }
        }
        retired.push(self.worker.workspace.tables().clone());
        self.worker.refresh();
        self.free_private(&retired);
        committed
    }

    fn try_commit_staged(&mut self, staged: &Staged) -> Result<Commit, Error> {
        self.check_log()?;
        for (sequence, row) in staged.counters.rows() {
            self.store_number(sequence, &row)?;
        }
        let inner = Arc::clone(&self.worker.inner);
        let _alone = hold(&inner.maintenance);
        let slot = self.worker.workspace.worker().slot();
        let private = Arc::clone(&self.worker.version);
        let epochs = Arc::clone(&private.tables.epochs);
        let mut commit = Commit { number: epochs.next_order(), worker: slot, alone: false };
        let patience = self.worker.patience(&self.settings());
        let holds = Arc::clone(&self.worker.workspace.tables().holds);
        let _awaits_all = holds.await_all(slot);
        inner.definitions.exclusively(slot, &epochs, &patience, |current| {
            debug_assert_eq!(current.number, staged.base.number, "this transaction holds the definitions");
            let mut tables = current.tables.clone();
            let complete = staged.touched.private.iter();
            complete.filter_map(|id| private.tables.by_id(*id)).for_each(|store| tables.share(store));
            for step in &staged.steps {
                Taking { inner: &inner, tables: &current.tables }.give_back_for(&step.effect)?;
                each_effect(&step.effect, &mut |effect| self.publish_effect(effect, staged, &mut tables))?;
            }
            let record = self.definitions_record(staged, &inner)?;
            let worker = &mut self.worker;
            commit = match worker.pipeline.commit_definitions(&mut worker.workspace, &record) {
                Ok(committed) => committed,
                Err(CommitError::Conflict(conflict)) => return Err(worker.lost_at_commit(conflict)),
                Err(CommitError::Log(error)) => return Err(error.into()),
                Err(CommitError::Interrupted(error)) => return Err(Error::Sql(*error)),
            };
            Ok(Some((private.schema.clone(), tables)))
        })?;
        Ok(commit)
    }

    /// Applies an effect to the shared tables. Those of the private tables are already complete.
    fn publish_effect(&mut self, effect: &Effect, staged: &Staged, tables: &mut Tables) -> Result<(), Error> {
        let is_done = match effect {
            Effect::CreateTable(table) | Effect::Redefine(table) => staged.is_private(table.id),
            Effect::Rebuild(rebuild) if staged.is_private(rebuild.new.id) => {
                tables.remove(rebuild.old.id);
                true
            }
            Effect::Rebuild(_) | Effect::DropTable(_) => false,
            Effect::None | Effect::All(_) | Effect::Run(_) => true,
        };
        if !is_done {
            tables.apply(effect, staged.applying(), self.worker.workspace.worker().guard())?;
        }
        Ok(())
    }

    /// Appends the transaction's writes to a table to a record, or its writes to all tables that are not
    /// described yet.
    pub(super) fn describe_writes(&self, table: Option<TableId>, record: &mut Vec<u8>) {
        let needs_rows = self.worker.inner.logs.iter().any(|log| log.format.images == Images::Rows);
        let (mut writes, mut image) = (WritesBuilder::default(), Vec::new());
        let mut put = |row: Described<'_>| {
            let Described { change, table, after, changed, arena, .. } = row;
            if needs_rows && change == RowChange::Update {
                table.layout.encode(after, arena, &mut image);
                WritesBuilder::push_image(record, change, table.id, image.iter().copied());
            } else {
                writes.push(record, change, table, (after, arena), changed);
            }
        };
        let workspace = &self.worker.workspace;
        workspace.describe_rows_of(table, &mut Description::default(), |row, _, _| put(row));
    }

    /// Returns the record of the definitions and the writes, without its commit number.
    ///
    /// # Errors
    /// `0A000`: a log names rows by slot, so it cannot describe the writes.
    fn definitions_record(&mut self, staged: &Staged, inner: &Inner) -> Result<Vec<u8>, Error> {
        let (timestamp_us, seed) = (staged.timestamp_us, staged.seed);
        let (mut record, mut writes) = (Vec::new(), Vec::new());
        self.describe_writes(None, &mut writes);
        let in_turns = staged.steps.iter().any(|step| !step.writes.is_empty());
        let has_writes = in_turns || !writes.is_empty();
        if has_writes && inner.logs.iter().any(|log| log.format.content == Content::Physical) {
            let message =
                "a physical log does not support changes of definitions and rows in one transaction";
            return Err(SqlError::new("0A000", message).with_hint("Commit the definitions first.").into());
        }
        let text: String = staged.steps.iter().map(|step| ended(&step.text)).collect();
        let definitions = StatementRecord { timestamp_us, seed, text: &text, written: None };
        match (in_turns, has_writes) {
            (false, false) => definitions.write_definition(&mut record),
            (false, true) => {
                DefinitionsRecord::begin(definitions, &mut record);
                record.append(&mut writes);
            }
            (true, _) => {
                StagesRecord::begin(timestamp_us, seed, &mut record);
                for turn in staged.steps.chunk_by(|_, next| next.writes.is_empty()) {
                    if let Some(first) = turn.first().filter(|first| !first.writes.is_empty()) {
                        StagesRecord::put_writes(&first.writes, &mut record);
                    }
                    let text: String = turn.iter().map(|step| ended(&step.text)).collect();
                    StagesRecord::put_definitions(&text, &mut record);
                }
                if !writes.is_empty() {
                    StagesRecord::put_writes(&writes, &mut record);
                }
            }
        }
        Ok(record)
    }
}

/// Returns a statement with one semicolon at its end.
fn ended(text: &str) -> String {
    format!("{};\n", text.trim_end_matches(';'))
}
