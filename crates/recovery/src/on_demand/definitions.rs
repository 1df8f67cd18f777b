//! The definitions of a log whose rows are recovered on demand.

use super::slots::slots_of;
use super::writes::writes_of;
use crate::find::Found;
use crate::replay::PlannedStatements;
use crate::{LogContents, RecoveryError};
use catalog::TableId;
use logging::content::RecordKind;
use procedure::Effect;
use std::collections::BTreeSet;
use std::ops::Range;

/// Returns whether a definition of the log changes a table that has rows by then, or runs a statement.
pub(super) fn changes_rows(found: &Found<'_>, planned: &PlannedStatements) -> Result<bool, RecoveryError> {
    let parts = found.manifest.iter().flat_map(|manifest| &manifest.parts);
    let mut filled: BTreeSet<TableId> = parts.map(|part| part.table).collect();
    let mut read = 0;
    for (index, _, effect) in &planned.effects {
        let Some(tables) = tables_of(effect) else { return Ok(true) };
        if !tables.is_empty() {
            filled.extend(written_in(&found.log, read..*index)?);
            read = *index;
        }
        if tables.iter().any(|table| filled.contains(table)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the existing tables whose rows an effect reads or changes; `None` if it runs a statement.
fn tables_of(effect: &Effect) -> Option<Vec<TableId>> {
    Some(match effect {
        Effect::None | Effect::CreateTable(_) => Vec::new(),
        Effect::Redefine(table) | Effect::DropTable(table) => vec![table.id],
        Effect::Rebuild(rebuild) => {
            let parents = rebuild.references.iter().map(|reference| reference.parent.id);
            std::iter::once(rebuild.old.id).chain(rebuild.sequences()).chain(parents).collect()
        }
        Effect::All(effects) => effects.iter().map(tables_of).collect::<Option<Vec<_>>>()?.concat(),
        Effect::Run(_) => return None,
    })
}

/// Returns the tables that some records have written.
///
/// # Errors
/// A record is no write and no definition.
fn written_in(log: &LogContents, records: Range<usize>) -> Result<BTreeSet<TableId>, RecoveryError> {
    let mut written = BTreeSet::new();
    for record in records {
        if log.kind(record) == RecordKind::Slots {
            slots_of(log, record, |_, _, write| {
                written.insert(write.table);
                Ok(())
            })?;
            continue;
        }
        writes_of(log, record, |_, _, write| {
            written.insert(write.table());
            Ok(())
        })?;
    }
    Ok(written)
}
