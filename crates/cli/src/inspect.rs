//! `reprise log`: shows the log of a data folder.

use crate::table::table;
use anyhow::{Result, bail};
use catalog::{Reader, RowChange};
use checkpoint::Manifest;
use clap::Args;
use logging::content::{self, Outcome, Record, Side, Stage};
use logging::{LogTail, PepochFile, read_device};
use procedure::Witnessed;
use reprise::Config;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// The data folder.
    folder: PathBuf,
    /// Print every record.
    #[arg(long)]
    dump: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let (disk, folder) = (Config::default().disk, &arguments.folder);
    let Some(pepoch) = PepochFile::read(&disk, folder)? else {
        bail!("{} holds no database", folder.display());
    };
    match Manifest::read(&disk, folder)? {
        Some(manifest) => println!(
            "checkpoint {}: all transactions before {}, {} rows in {} parts",
            manifest.number,
            manifest.bound,
            manifest.parts.iter().map(|part| part.rows).sum::<u64>(),
            manifest.parts.len()
        ),
        None => println!("no checkpoint"),
    }
    for incarnation in &pepoch.incarnations {
        match incarnation.cut {
            Some(cut) => println!("incarnation {}: cut at {cut}", incarnation.number),
            None => println!("incarnation {}: the last one", incarnation.number),
        }
    }
    let mut table =
        table(["device", "incarnation", "files", "bytes", "batches", "records", "epochs", "tail"]);
    for (number, device) in pepoch.devices.iter().enumerate() {
        for log in read_device(&disk, &folder.join(device), number as u32)? {
            let (mut records, mut epochs) = (0u64, None);
            for batch in &log.batches {
                let mut reader = Reader::new(&batch.records);
                while reader.remaining() > 0 {
                    let Ok((stamp, _, record)) = content::read(&mut reader) else {
                        bail!("{} holds a malformed record", batch.file.display());
                    };
                    records += 1;
                    let order = stamp.order;
                    let (first, _) = epochs.unwrap_or((order.epoch(), order.epoch()));
                    epochs = Some((first.min(order.epoch()), order.epoch()));
                    if arguments.dump {
                        dump(order, &record);
                    }
                }
            }
            table.add_row([
                device.display().to_string(),
                log.incarnation.to_string(),
                log.files.len().to_string(),
                log.bytes_read.to_string(),
                log.batches.len().to_string(),
                records.to_string(),
                epochs.map_or("-".into(), |(first, last)| format!("{first} to {last}")),
                match &log.tail {
                    LogTail::Clean => "whole".into(),
                    LogTail::Torn { file, offset } => format!("torn at {offset} of {}", file.display()),
                    LogTail::Damaged(error) => error.to_string(),
                },
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// Describes a change of a row, before its table.
fn change_of(change: RowChange) -> &'static str {
    match change {
        RowChange::Insert => "insert into",
        RowChange::Update => "update of",
        RowChange::Delete => "delete from",
    }
}

fn dump(order: reprise::CommitOrder, record: &Record<'_>) {
    match record {
        Record::Call(call) => println!(
            "{order} call of procedure {} version {}, {} bytes of arguments{}{}",
            call.procedure.0,
            call.version,
            call.arguments.len(),
            if call.witnessed == Witnessed::Nothing { "" } else { " and witness values" },
            call.written.map_or(String::new(), |written| format!(", {written}"))
        ),
        Record::Statement(statement) | Record::Definition(statement) => {
            println!("{order} {}", statement.text)
        }
        Record::Writes(writes) => {
            let mut counts: BTreeMap<(&str, u32), usize> = BTreeMap::new();
            for (_, write) in writes.writes() {
                *counts.entry((change_of(write.change), write.table.0)).or_default() += 1;
            }
            let parts = counts.iter().map(|((what, table), count)| format!("{count} {what} table {table}"));
            println!("{order} by value: {}", parts.collect::<Vec<_>>().join(", "));
        }
        Record::Slots(writes) => println!("{order} by slot: {} rows", writes.writes().count()),
        Record::Operation(operation) => {
            println!("{order} {} table {}", change_of(operation.change(Side::Redo)), operation.table.0);
        }
        Record::Outcome(Outcome { transaction, committed }) => {
            println!("{order} {transaction} {}", if *committed { "committed" } else { "aborted" });
        }
        Record::Definitions(record) => {
            println!("{order} {}", record.definitions.text);
            dump(order, &Record::Writes(record.writes));
        }
        Record::Stages(record) => record.stages().for_each(|stage| match stage {
            Stage::Definitions(definitions) => println!("{order} {}", definitions.text),
            Stage::Writes(writes) => dump(order, &Record::Writes(writes)),
        }),
        Record::Large(record) => {
            let (incarnation, number) = (record.incarnation, record.number);
            println!("{order} {} bytes in file large-{incarnation}-{number}", record.length);
        }
        _ => println!("{order} a record of another kind"),
    }
}
