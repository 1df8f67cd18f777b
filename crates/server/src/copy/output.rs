//! The rows that COPY TO sends.

use super::SIGNATURE;
use crate::wire::{Format, put_text, put_value};
use bytes::{BufMut, BytesMut};
use reprise::{Arena, Column, Datum, SqlError, Type};
use sql::{Copy, CopyFormat, CopyOptions, Forced, Header};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The output of COPY TO.
#[derive(Clone)]
pub(crate) struct CopyOut {
    options: CopyOptions,
    /// Whether the values of each column are quoted in any case.
    is_quoted: Arc<[bool]>,
    /// Whether the header of the binary format was written: it precedes the first row.
    is_headed: Arc<AtomicBool>,
}

/// Appends a message of data that `put` writes.
fn put_data(out: &mut BytesMut, put: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u8(b'd');
    out.put_i32(0);
    put(out);
    let length = (out.len() - start - 1) as i32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}

impl CopyOut {
    /// Returns the output of rows with these columns.
    ///
    /// # Errors
    /// `42703`: an option names another column.
    pub(crate) fn new(copy: &Copy, columns: &[Column]) -> Result<Self, SqlError> {
        let forced = &copy.options.force_quote;
        if let Forced::Columns(names) = forced
            && let Some(name) = names.iter().find(|name| !columns.iter().any(|known| known.name == **name))
        {
            return Err(SqlError::new("42703", format!("column \"{name}\" does not exist")));
        }
        let is_quoted = |column: &Column| match forced {
            Forced::All => true,
            Forced::Columns(names) => names.contains(&column.name),
        };
        let is_quoted = columns.iter().map(is_quoted).collect();
        Ok(Self { options: copy.options.clone(), is_quoted, is_headed: Arc::default() })
    }

    /// Begins again: a repeated attempt writes all rows once more.
    pub(crate) fn restart(&self) {
        self.is_headed.store(false, Ordering::Relaxed);
    }

    fn put_header(&self, out: &mut BytesMut) {
        if !self.is_headed.swap(true, Ordering::Relaxed) {
            out.put_slice(SIGNATURE);
            out.put_u64(0);
        }
    }

    /// Writes the header of text and CSV.
    pub(crate) fn begin(&self, columns: &[Column], out: &mut BytesMut) {
        match self.options.format {
            CopyFormat::Text | CopyFormat::Csv if self.options.header != Header::Row => {
                put_data(out, |out| {
                    for (index, column) in columns.iter().enumerate() {
                        self.put_field(index, Some(column.name.as_bytes()), out);
                    }
                    out.put_u8(b'\n');
                })
            }
            _ => {}
        }
    }

    /// Writes the trailer of the binary format.
    pub(crate) fn end(&self, out: &mut BytesMut) {
        if self.options.format == CopyFormat::Binary {
            put_data(out, |out| {
                self.put_header(out);
                out.put_i16(-1);
            });
        }
    }

    pub(crate) fn put_row(
        &self,
        values: impl ExactSizeIterator<Item = (Datum, Type)>,
        arena: &Arena,
        out: &mut BytesMut,
    ) {
        put_data(out, |out| {
            if self.options.format == CopyFormat::Binary {
                self.put_header(out);
                out.put_i16(values.len() as i16);
                values.for_each(|(value, ty)| put_value(value, ty, arena, Format::Binary, out));
                return;
            }
            for (index, (value, ty)) in values.enumerate() {
                if value.is_null() {
                    self.put_field(index, None, out);
                    continue;
                }
                if index > 0 {
                    out.put_u8(self.options.delimiter);
                }
                let start = out.len();
                put_text(value, ty, arena, out);
                if !self.is_plain(index, &out[start..], self.is_quoted[index]) {
                    let field = out[start..].to_vec();
                    out.truncate(start);
                    self.put_quoted(&field, out);
                }
            }
            out.put_u8(b'\n');
        });
    }

    fn put_field(&self, index: usize, field: Option<&[u8]>, out: &mut BytesMut) {
        if index > 0 {
            out.put_u8(self.options.delimiter);
        }
        match field {
            None => out.put_slice(self.options.null.as_bytes()),
            Some(field) if self.is_plain(index, field, false) => out.put_slice(field),
            Some(field) => self.put_quoted(field, out),
        }
    }

    /// Returns whether a field is sent as it is.
    fn is_plain(&self, index: usize, field: &[u8], force_quote: bool) -> bool {
        let CopyOptions { delimiter, quote, null, format, .. } = &self.options;
        if *format == CopyFormat::Csv {
            let is_special = |byte: &u8| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r');
            let looks_like_end = index == 0 && field == b"\\.";
            return !(force_quote
                || field == null.as_bytes()
                || looks_like_end
                || field.iter().any(is_special));
        }
        !field.iter().any(|byte| byte == delimiter || matches!(byte, b'\\' | 8..=13))
    }

    /// Appends a field in quotes (CSV) or with its special characters escaped.
    fn put_quoted(&self, field: &[u8], out: &mut BytesMut) {
        let CopyOptions { delimiter, quote, escape, format, .. } = &self.options;
        if *format == CopyFormat::Csv {
            out.put_u8(*quote);
            for byte in field {
                if byte == quote || byte == escape {
                    out.put_u8(*escape);
                }
                out.put_u8(*byte);
            }
            out.put_u8(*quote);
            return;
        }
        for byte in field {
            let escaped = match byte {
                b'\\' => b'\\',
                8 => b'b',
                12 => b'f',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                11 => b'v',
                byte if byte == delimiter => *byte,
                byte => {
                    out.put_u8(*byte);
                    continue;
                }
            };
            out.put_u8(b'\\');
            out.put_u8(escaped);
        }
    }
}
