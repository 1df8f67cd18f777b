//! The sinks of rows: the output to the client, a portal, a COPY.

use crate::copy::CopyOut;
use crate::hold;
use crate::link::Output;
use crate::wire::{Format, datum_of, described, most_bytes, put_value, put_vector};
use bytes::{Buf, BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage as Message;
use pgwire::messages::data::{FieldDescription, RowDescription};
use reprise::{Arena, Column, CommitOrder, Datum, RowSink, ScalarType, SqlError, Type};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Most bytes of rows that a portal keeps.
const MOST_KEPT: usize = 1 << 30;

/// For a row that may be longer, the free memory is checked.
const LONG: usize = 1 << 20;

/// A sink that encodes rows.
#[derive(Clone)]
pub(super) struct Rows {
    pub(super) types: Vec<Type>,
    /// The columns whose values are shown with blanks between their numbers.
    pub(super) vectors: Vec<usize>,
    pub(super) formats: Vec<Format>,
    pub(super) to: RowsTo,
    /// Offset of the first row in the output, to which a repeated attempt goes back.
    pub(super) begun_at: usize,
    pub(super) count: Arc<AtomicU64>,
    /// Whether rows were sent, so that the statement cannot be repeated.
    pub(super) is_sent: bool,
    /// Whether rows are sent before the transactions that they show are durable (`synchronous_commit = off`).
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
    /// Checks that there is memory for a long row, which is encoded as a whole.
    ///
    /// # Errors
    /// `54000`: the row may take more than 1 GiB. `53200`: there is not enough memory.
    #[cold]
    fn check_room(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes > MOST_KEPT {
            return Err(SqlError::new("54000", "a row of the answer may take more than 1 GiB"));
        }
        // A growing buffer exists twice.
        if self.output.account().is_some_and(|account| !account.has_room(2 * bytes)) {
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
            for (index, (value, ty)) in values.clone().enumerate() {
                match format_at(&self.formats, index) {
                    Format::Text if self.vectors.contains(&index) => put_vector(value, arena, bytes),
                    format => put_value(value, ty, arena, format, bytes),
                }
            }
            Output::end_row(bytes, start);
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        match &self.to {
            RowsTo::Client => put(&mut self.output.lock()),
            RowsTo::Portal(kept) => {
                let mut kept = hold(kept);
                if kept.len() > MOST_KEPT {
                    let error = SqlError::new("53200", "a cursor cannot keep more than 1 GiB of rows");
                    return Err(error.with_hint("Run the query without a cursor or a limit of rows."));
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
        self.output
            .relieve()
            .map_err(|error| SqlError::new("08006", format!("connection to client lost: {error}")))
    }

    fn is_sent(&self) -> bool {
        self.is_sent
    }
}

/// Refuses whole rows in binary format: their values are texts, which do not have the types of the fields.
pub(super) fn refuse_binary_rows(columns: &[Column], formats: &[Format]) -> Result<(), SqlError> {
    let is_binary_row = |(index, column): (usize, &Column)| {
        column.ty.element() == ScalarType::Record && format_at(formats, index) == Format::Binary
    };
    match columns.iter().enumerate().any(is_binary_row) {
        false => Ok(()),
        true => {
            let error = SqlError::new("0A000", "a whole row in binary format is not supported");
            Err(error.with_hint("Select its columns, or cast it to text."))
        }
    }
}

/// Copies rows of texts to `out`, each column in its format.
///
/// # Errors
/// Those of reading a value from its text.
pub(super) fn put_texts_as(
    formats: &[Format],
    mut rows: &[u8],
    columns: &[Column],
    arena: &mut Arena,
    out: &mut BytesMut,
) -> Result<(), SqlError> {
    while !rows.is_empty() {
        // The kind of the message, its length and the number of columns.
        rows.advance(7);
        let start = Output::begin_row(out, columns.len());
        for (index, column) in columns.iter().enumerate() {
            let Ok(length) = usize::try_from(rows.get_i32()) else {
                out.put_i32(-1);
                continue;
            };
            let text = rows.copy_to_bytes(length);
            match format_at(formats, index) {
                Format::Text => {
                    out.put_u32(length as u32);
                    out.extend_from_slice(&text);
                }
                Format::Binary => {
                    arena.clear();
                    let value = datum_of(&text, column.ty, Format::Text, arena)?;
                    put_value(value, column.ty, arena, Format::Binary, out);
                }
            }
        }
        Output::end_row(out, start);
    }
    Ok(())
}

/// Returns the format of a column: `formats` holds one format per column, one for all columns, or none for
/// text.
pub(super) fn format_at(formats: &[Format], index: usize) -> Format {
    match formats {
        [] => Format::Text,
        [only] => *only,
        several => several.get(index).copied().unwrap_or(Format::Text),
    }
}

/// Returns the type that PostgreSQL gives to a column of the catalogs.
fn catalog_type_of(column: &Column) -> Option<u32> {
    column.origin.and_then(sql::catalog_type)
}

/// Returns whether the values of a column are shown with blanks between their numbers.
pub(super) fn is_vector(column: &Column) -> bool {
    catalog_type_of(column).is_some_and(|oid| sql::VECTORS.contains(&oid))
}

pub(super) fn row_description(columns: &[Column], formats: &[Format]) -> Message {
    let field = |(index, column): (usize, &Column)| {
        let (oid, size, modifier) = described(column.declared);
        let catalog_type = catalog_type_of(column);
        let size = match catalog_type {
            Some(sql::CHAR) => 1,
            Some(sql::NAME) => 64,
            Some(sql::VOID) => 4,
            _ => size,
        };
        let oid = catalog_type.unwrap_or(oid);
        let format = format_at(formats, index).code();
        let (relation, position) =
            column.origin.map_or((0, 0), |origin| (origin.relation as i32, origin.column as i16));
        FieldDescription::new(column.name.clone(), relation, position, oid, size, modifier, format)
    };
    Message::RowDescription(RowDescription::new(columns.iter().enumerate().map(field).collect()))
}
