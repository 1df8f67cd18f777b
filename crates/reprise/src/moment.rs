//! What a statement asks about the database at the moment at which it runs.
//!
//! Rows and bytes of tables are counted when they are asked for (`Tables::census`). The bytes of one index
//! are
//! not known.

use crate::inner::Inner;
use catalog::{CommitOrder, TableId};
use checkpoint::{Consistency, Manifest};
use procedure::{LiveFunction, LiveRelation, LiveValue, SqlError, Surroundings};
use sql::table_of;
use std::sync::atomic::Ordering;
use transaction::TableCensus;

/// Returns the error of a function that asks for what only clients of a server have.
fn without_server(function: &str) -> SqlError {
    SqlError::new("0A000", format!("{function} is not available in a session without a server"))
}

impl Inner {
    fn census(&self, is_wanted: impl Fn(TableId) -> bool) -> Option<Vec<TableCensus>> {
        self.definitions.current().tables.census(is_wanted)
    }

    /// Returns the rows of `reprise_log`.
    fn log_rows(&self) -> Vec<Vec<LiveValue>> {
        let devices: Vec<String> = self.devices.iter().map(|own| own.display().to_string()).collect();
        let durable = self.logs.durable().map(|own| own.order().epoch().0);
        let row = |(content, own): (logging::Content, logging::LogStatistics)| {
            vec![
                content.to_string().into(),
                LiveValue::Texts(devices.clone()),
                durable.into(),
                own.file_bytes.into(),
                own.record_bytes.into(),
                own.batches.into(),
                (own.flush_us as f64 / 1e6).into(),
            ]
        };
        self.logs.statistics().map(row).collect()
    }

    /// Returns the row of `reprise_checkpoints`: the last checkpoint.
    fn checkpoint_rows(&self) -> Vec<Vec<LiveValue>> {
        let Ok(Some(manifest)) = Manifest::read(&self.config.disk, &self.folder) else { return Vec::new() };
        let of = |bound: CommitOrder| bound.epoch().0;
        vec![vec![
            manifest.number.into(),
            if manifest.consistency == Consistency::Consistent { "consistent" } else { "fuzzy" }.into(),
            of(manifest.bound).into(),
            manifest.parts.iter().map(|part| part.rows).sum::<u64>().into(),
            manifest.parts.iter().map(|part| part.bytes).sum::<u64>().into(),
        ]]
    }

    fn counts(&self) -> Vec<LiveValue> {
        let count = |own: &std::sync::atomic::AtomicU64| own.load(Ordering::Relaxed).into();
        let bytes = self.definitions.current().tables.memory.used_bytes() as u64;
        let committed = self.committed.load(Ordering::Relaxed) + self.read.load(Ordering::Relaxed);
        vec![committed.into(), count(&self.failed), count(&self.conflicts), bytes.into()]
    }

    /// Returns the bytes of the rows of a table, by its number in `pg_class`; NULL for any other object.
    fn table_size(&self, arguments: &[LiveValue]) -> LiveValue {
        let table = match arguments {
            [LiveValue::Int(oid), ..] => table_of(*oid),
            _ => None,
        };
        let own = table.and_then(|table| self.census(|own| own == table)?.pop());
        own.map(|own| own.bytes).into()
    }
}

impl Surroundings for Inner {
    fn rows(&self, relation: LiveRelation) -> Option<Vec<Vec<LiveValue>>> {
        Some(match relation {
            LiveRelation::Recovery => vec![self.recovering.progress().row()],
            LiveRelation::Log => self.log_rows(),
            LiveRelation::Checkpoints => self.checkpoint_rows(),
            LiveRelation::Counts => vec![self.counts()],
            LiveRelation::Tables => {
                let row = |own: TableCensus| {
                    vec![sql::number_of(own.table).into(), own.rows.into(), own.bytes.into()]
                };
                self.census(|_| true)?.into_iter().map(row).collect()
            }
            _ => return None,
        })
    }

    fn value(&self, function: LiveFunction, arguments: &[LiveValue]) -> Option<Result<LiveValue, SqlError>> {
        Some(Ok(match function {
            LiveFunction::DatabaseSize => {
                (self.definitions.current().tables.memory.used_bytes() as u64).into()
            }
            LiveFunction::TableSize => self.table_size(arguments),
            // A session without a server has one path, which finds `public`.
            LiveFunction::SetConfig => match arguments {
                [LiveValue::Text(name), LiveValue::Text(path), _]
                    if name.eq_ignore_ascii_case("search_path")
                        && ["", "public", "pg_catalog"].contains(&path.as_str()) =>
                {
                    path.as_str().into()
                }
                _ => return Some(Err(without_server("set_config()"))),
            },
            LiveFunction::CurrentSetting => match arguments {
                [_, LiveValue::Int(1)] => LiveValue::Null,
                _ => return Some(Err(without_server("current_setting()"))),
            },
            LiveFunction::SessionUser => {
                let version = self.definitions.current();
                version.schema.role_name(sql::Schema::first_superuser()).into()
            }
            LiveFunction::BackendPid => i64::from(std::process::id()).into(),
            LiveFunction::CurrentTransaction => return Some(Err(without_server("txid_current()"))),
            _ => return None,
        }))
    }
}
