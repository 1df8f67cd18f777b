//! The formats of COPY: text, CSV and binary.
//! Source: PostgreSQL's documentation of COPY (file formats).
//!
//! Not here: the messages of COPY (`client/copying.rs`).

use crate::wire::{Format, datum_of, put_text, put_value};
use bytes::{BufMut, BytesMut};
use catalog::utf8_of;
use reprise::{Arena, Column, Datum, Error, Parameters, SqlError, Statement, Type};
use sql::{Copy, CopyFormat, CopyOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The input of COPY FROM, which is cut into rows.
pub(crate) struct CopyIn {
    options: CopyOptions,
    /// The statement that inserts a row.
    pub(crate) insert: Statement,
    input: BytesMut,
    /// Offset in the input before which no row ends.
    searched_to: usize,
    /// Whether the header was read.
    is_begun: bool,
    /// Whether the end-of-data mark was read.
    is_over: bool,
    /// Number of rows that were read, including the header.
    rows: u64,
    /// Number of rows that were inserted.
    pub(crate) inserted: u64,
}

/// The next row of the input.
pub(crate) enum Row {
    Values(Parameters),
    /// The input holds no further complete row.
    None,
}

fn malformed(message: impl Into<String>) -> Error {
    SqlError::new("22P04", message.into()).into()
}

impl CopyIn {
    pub(crate) fn new(copy: &Copy, insert: Statement) -> Self {
        Self {
            options: copy.options.clone(),
            insert,
            input: BytesMut::new(),
            searched_to: 0,
            is_begun: false,
            is_over: false,
            rows: 0,
            inserted: 0,
        }
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        self.input.extend_from_slice(data);
    }

    /// Returns the bytes of the input that are no complete row yet.
    pub(crate) fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Returns the CONTEXT of an error: the number of the current row, if there is one.
    pub(crate) fn context(&self) -> Option<String> {
        (self.rows > 0).then(|| format!("COPY, line {}", self.rows))
    }

    /// Takes the next row. `is_end`: no more input follows, so the last row needs no line end.
    ///
    /// # Errors
    /// `22P04`: the row is malformed. The errors of the types: a field is no value of its column's type.
    pub(crate) fn next_row(&mut self, is_end: bool) -> Result<Row, Error> {
        if self.is_over {
            return self.skip_to_end();
        }
        let fields = match self.options.format {
            CopyFormat::Binary => return self.binary_row(is_end),
            CopyFormat::Text => self.text_fields(is_end)?,
            CopyFormat::Csv => self.csv_fields(is_end)?,
        };
        let Some(fields) = fields else { return Ok(Row::None) };
        let types = self.insert.parameters();
        if fields.len() > types.len() {
            return Err(malformed("extra data after last expected column"));
        }
        if fields.len() < types.len() {
            return Err(malformed("missing data for a column"));
        }
        let (mut values, mut arena) = (Parameters::new(&self.insert), Arena::default());
        arena.set_zone(self.insert.zone().cloned());
        for (field, ty) in fields.into_iter().zip(types) {
            let value = match field {
                None => Datum::Null,
                Some(bytes) => datum_of(&bytes, *ty, Format::Text, &mut arena)?,
            };
            values.push(value, &arena);
        }
        Ok(Row::Values(values))
    }

    /// Takes a line from the input, without its end. `quote` holds the quote and escape characters of CSV, in
    /// which a quoted newline is data.
    fn take_line(&mut self, is_end: bool, quote: Option<(u8, u8)>) -> Option<BytesMut> {
        let mut quoted = false;
        let mut offset = if quote.is_some() { 0 } else { self.searched_to };
        while offset < self.input.len() {
            let byte = self.input[offset];
            match quote {
                Some((quote, escape)) if quoted && byte == escape && escape != quote => offset += 1,
                Some((quote, _)) if byte == quote => quoted = !quoted,
                // In text, a newline behind a backslash is data.
                None if byte == b'\\' => offset += 1,
                _ if byte == b'\n' && !quoted => {
                    let mut line = self.input.split_to(offset + 1);
                    line.truncate(offset);
                    if line.last() == Some(&b'\r') {
                        line.truncate(line.len() - 1);
                    }
                    self.searched_to = 0;
                    return Some(line);
                }
                _ => {}
            }
            offset += 1;
        }
        // A backslash at the end of the input may escape a newline that arrives later.
        let is_escaped = quote.is_none() && offset > self.input.len();
        self.searched_to = self.input.len() - usize::from(is_escaped);
        if is_end && !self.input.is_empty() {
            self.searched_to = 0;
            return Some(self.input.split());
        }
        None
    }

    /// Takes a line of data: skips the header, and stops at the end-of-data mark.
    fn take_data_line(&mut self, is_end: bool, quote: Option<(u8, u8)>) -> Option<BytesMut> {
        loop {
            let line = self.take_line(is_end, quote)?;
            self.rows += 1;
            if line[..] == *b"\\." {
                self.is_over = true;
                return None;
            }
            if self.options.header && !std::mem::replace(&mut self.is_begun, true) {
                continue;
            }
            return Some(line);
        }
    }

    fn text_fields(&mut self, is_end: bool) -> Result<Option<Vec<Option<Vec<u8>>>>, Error> {
        let Some(mut line) = self.take_data_line(is_end, None) else { return Ok(None) };
        utf8_of(&line).map_err(SqlError::from)?;
        let (delimiter, null) = (self.options.delimiter, self.options.null.as_bytes());
        let mut fields = Vec::new();
        let (mut start, mut offset) = (0, 0);
        loop {
            if line[offset.min(line.len())..].starts_with(b"\\.") {
                // The end-of-data mark, which may follow a row on its line.
                if offset + 2 < line.len() {
                    return Err(malformed("end-of-copy marker corrupt"));
                }
                self.is_over = true;
                line.truncate(offset);
            }
            if offset < line.len() && line[offset] == b'\\' {
                offset += 2;
                continue;
            }
            if offset >= line.len() || line[offset] == delimiter {
                let raw = &line[start..offset.min(line.len())];
                fields.push(if raw == null { None } else { Some(unescaped(raw)) });
                if offset >= line.len() {
                    return Ok(Some(fields));
                }
                start = offset + 1;
            }
            offset += 1;
        }
    }

    fn csv_fields(&mut self, is_end: bool) -> Result<Option<Vec<Option<Vec<u8>>>>, Error> {
        let (quote, escape) = (self.options.quote, self.options.escape);
        let Some(line) = self.take_data_line(is_end, Some((quote, escape))) else { return Ok(None) };
        utf8_of(&line).map_err(SqlError::from)?;
        let mut fields = Vec::new();
        let (mut field, mut was_quoted, mut quoted) = (Vec::new(), false, false);
        let mut offset = 0;
        loop {
            let byte = line.get(offset).copied();
            match byte {
                Some(byte)
                    if quoted
                        && byte == escape
                        && line.get(offset + 1).is_some_and(|next| *next == quote || *next == escape) =>
                {
                    field.push(line[offset + 1]);
                    offset += 1;
                }
                Some(byte) if byte == quote => {
                    quoted = !quoted;
                    was_quoted = true;
                }
                Some(byte) if quoted || byte != self.options.delimiter => field.push(byte),
                None if quoted => return Err(malformed("unterminated CSV quoted field")),
                end => {
                    let is_null = !was_quoted && field == self.options.null.as_bytes();
                    let bytes = std::mem::take(&mut field);
                    fields.push(if is_null { None } else { Some(bytes) });
                    was_quoted = false;
                    if end.is_none() {
                        return Ok(Some(fields));
                    }
                }
            }
            offset += 1;
        }
    }

    /// Skips the data behind the end-of-data mark. In the binary format there must be none.
    fn skip_to_end(&mut self) -> Result<Row, Error> {
        let skipped = self.input.split();
        match self.options.format {
            CopyFormat::Binary if !skipped.is_empty() => {
                Err(malformed("received copy data after EOF marker"))
            }
            _ => Ok(Row::None),
        }
    }

    fn binary_row(&mut self, is_end: bool) -> Result<Row, Error> {
        let number = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("four bytes"));
        if !self.is_begun {
            let header = SIGNATURE.len() + 8;
            if self.input.len() < header {
                return if is_end {
                    Err(malformed("COPY file signature not recognized"))
                } else {
                    Ok(Row::None)
                };
            }
            if !self.input.starts_with(SIGNATURE) {
                return Err(malformed("COPY file signature not recognized"));
            }
            let extension = number(&self.input[header - 4..header]);
            let Ok(extension) = usize::try_from(extension) else {
                return Err(malformed("invalid COPY file header"));
            };
            if self.input.len() < header + extension {
                return if is_end { Err(malformed("invalid COPY file header")) } else { Ok(Row::None) };
            }
            drop(self.input.split_to(header + extension));
            self.is_begun = true;
        }
        let types = self.insert.parameters();
        let short = || if is_end { Err(malformed("unexpected EOF in COPY data")) } else { Ok(Row::None) };
        // As in PostgreSQL, the data may end between two rows without the trailer.
        let Some(count) = self.input.get(..2) else { return Ok(Row::None) };
        let count = i16::from_be_bytes([count[0], count[1]]);
        if count == -1 {
            self.is_over = true;
            drop(self.input.split_to(2));
            return self.skip_to_end();
        }
        if usize::try_from(count) != Ok(types.len()) {
            let message = format!("row field count is {count}, expected {}", types.len());
            return Err(malformed(message));
        }
        let (mut offset, mut values, mut arena) = (2, Parameters::new(&self.insert), Arena::default());
        for ty in types {
            let Some(length) = self.input.get(offset..offset + 4) else { return short() };
            let length = number(length);
            offset += 4;
            if length == -1 {
                values.push(Datum::Null, &arena);
                continue;
            }
            let Ok(length) = usize::try_from(length) else { return Err(malformed("invalid field size")) };
            let Some(bytes) = self.input.get(offset..offset + length) else { return short() };
            let value = datum_of(bytes, *ty, Format::Binary, &mut arena)?;
            values.push(value, &arena);
            offset += length;
        }
        drop(self.input.split_to(offset));
        self.rows += 1;
        Ok(Row::Values(values))
    }
}

/// Returns the number that the first digits form, and the count of these digits, which is at most `most`.
fn digits(bytes: &[u8], radix: u32, most: usize) -> (u8, usize) {
    let digits = bytes.iter().take(most).map_while(|byte| (*byte as char).to_digit(radix));
    digits.fold((0, 0), |(value, count), digit| {
        (value.wrapping_mul(radix as u8).wrapping_add(digit as u8), count + 1)
    })
}

/// Returns a field of the text format without its backslashes.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut left = raw;
    while let Some((byte, behind)) = left.split_first() {
        left = behind;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((next, behind)) = left.split_first() else {
            out.push(b'\\');
            break;
        };
        left = behind;
        out.push(match next {
            b'0'..=b'7' => {
                let (value, count) = digits(&raw[raw.len() - left.len() - 1..], 8, 3);
                left = &left[count - 1..];
                value
            }
            b'x' => match digits(left, 16, 2) {
                (_, 0) => b'x',
                (value, count) => {
                    left = &left[count..];
                    value
                }
            },
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            other => *other,
        });
    }
    out
}

/// The output of COPY TO.
#[derive(Clone)]
pub(crate) struct CopyOut {
    options: CopyOptions,
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
    pub(crate) fn new(copy: &Copy) -> Self {
        Self { options: copy.options.clone(), is_headed: Arc::default() }
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
            CopyFormat::Text | CopyFormat::Csv if self.options.header => put_data(out, |out| {
                for (index, column) in columns.iter().enumerate() {
                    self.put_field(index, Some(column.name.as_bytes()), out);
                }
                out.put_u8(b'\n');
            }),
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
                if !self.is_plain(index, &out[start..], self.options.force_quote) {
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
