//! Rows on their way: to the client, to a portal that keeps them, out of a COPY.

use crate::copy::CopyOut;
use crate::hold;
use crate::link::Output;
use crate::wire::{Format, described, most_bytes, put_value};
use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::{FieldDescription, RowDescription};
use reprise::rooms::catalog::{Arena, Datum, Type};
use reprise::rooms::procedure::{RowSink, SqlError};
use reprise::{Column, CommitOrder};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of rows that a portal keeps.
const MOST_KEPT: usize = 1 << 30;

/// A row that may be longer needs room.
const LONG: usize = 1 << 20;

/// Rows on their way to the client.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) types: Vec<Type>,
    pub(super) formats: Vec<Format>,
    pub(super) to: RowsTo,
    pub(super) begun_at: usize,
    pub(super) count: Arc<AtomicU64>,
    pub(super) is_sent: bool,
    /// Whether rows are sent before what they show is durable, as the client has asked.
    pub(super) is_early: bool,
    pub(super) output: Output,
}

#[derive(Clone)]
pub(super) enum RowsTo {
    Client,
    Portal(Arc<Mutex<BytesMut>>),
    Copy(CopyOut),
}

impl Rows {
    /// Makes sure that there is room for a long row, which is put together as a whole.
    #[cold]
    fn check_room(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes > MOST_KEPT {
            return Err(SqlError::new("54000", "a row of the answer may take more than 1 GiB"));
        }
        // While the buffer grows there are two of it.
        if self.output.account().is_some_and(|own| !own.has_room(2 * bytes)) {
            return Err(SqlError::new("53200", "out of memory").with_detail("A row is too long."));
        }
        Ok(())
    }
}

impl RowSink for Rows {
    fn begin(&mut self) {
        self.count.store(0, Ordering::Relaxed);
        match &self.to {
            RowsTo::Client => self.output.lock().truncate(self.begun_at),
            RowsTo::Copy(copy) => {
                self.output.lock().truncate(self.begun_at);
                copy.restart();
            }
            RowsTo::Portal(kept) => hold(kept).clear(),
        }
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let values = values.iter().copied().zip(self.types.iter().copied());
        let bytes = values.clone().map(|(value, ty)| most_bytes(value, ty, arena)).sum();
        if bytes > LONG {
            self.check_room(bytes)?;
        }
        let put = |bytes: &mut BytesMut| {
            let start = Output::begin_row(bytes, values.len());
            for (place, (value, ty)) in values.clone().enumerate() {
                put_value(value, ty, arena, format_at(&self.formats, place), bytes);
            }
            Output::end_row(bytes, start);
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        match &self.to {
            RowsTo::Client => put(&mut self.output.lock()),
            RowsTo::Portal(kept) => {
                let mut kept = hold(kept);
                if kept.len() > MOST_KEPT {
                    let error =
                        SqlError::new("53200", "out of memory: a cursor keeps more than 1 GiB of rows");
                    return Err(error.with_hint("Ask for all rows at once: they are sent as they come."));
                }
                put(&mut kept);
            }
            RowsTo::Copy(copy) => copy.put_row(values, arena, &mut self.output.lock()),
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        match &self.to {
            RowsTo::Client | RowsTo::Copy(_) => self.output.is_full(),
            RowsTo::Portal(_) => false,
        }
    }

    fn relieve(&mut self, shown: CommitOrder) -> Result<(), SqlError> {
        if matches!(self.to, RowsTo::Portal(_)) {
            return Ok(());
        }
        if !self.is_early {
            self.output.shows_rows(shown);
        }
        self.is_sent = true;
        self.output.relieve().map_err(|error| SqlError::new("08006", format!("the client is gone: {error}")))
    }

    fn is_sent(&self) -> bool {
        self.is_sent
    }
}

/// The format of a column: each has its own, all have one, or all are text.
pub(super) fn format_at(formats: &[Format], place: usize) -> Format {
    match formats {
        [] => Format::Text,
        [only] => *only,
        several => several.get(place).copied().unwrap_or(Format::Text),
    }
}

pub(super) fn row_description(columns: &[Column], formats: &[Format]) -> Message {
    let field = |(place, column): (usize, &Column)| {
        let (oid, size, modifier) = described(column.ty);
        let format = format_at(formats, place).code();
        FieldDescription::new(column.name.clone(), 0, 0, oid, size, modifier, format)
    };
    Message::RowDescription(RowDescription::new(columns.iter().enumerate().map(field).collect()))
}

/// Where this many rows of a list of messages end, and how many there are.
pub(super) fn whole_rows(rows: &[u8], most: usize) -> (usize, usize) {
    let (mut end, mut count) = (0, 0);
    while count < most && end < rows.len() {
        let length = rows[end + 1..end + 5].try_into().expect("a row message has a length");
        end += 1 + u32::from_be_bytes(length) as usize;
        count += 1;
    }
    (end, count)
}
