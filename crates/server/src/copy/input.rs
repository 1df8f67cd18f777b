//! The rows that COPY FROM reads.
//!
//! Bytes arrive in messages of any length. Each row is cut into its fields, and these are read as the values
//! of one execution of the INSERT. The buffers are kept from row to row.

use super::SIGNATURE;
use crate::wire::{Format, datum_of};
use catalog::utf8_of;
use reprise::{Arena, Datum, Error, Parameters, SqlError, Statement};
use sql::{Copy, CopyFormat, CopyOptions, Header};
use std::ops::Range;

/// The longest part of a row or value that the CONTEXT of an error shows, in bytes.
const SHOWN: usize = 100;

/// How lines end: as the first one does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    Return,
    Both,
}

/// A column of a COPY.
struct Target {
    name: String,
    /// The text for NULL is that text.
    is_never_null: bool,
    /// The text for NULL is NULL in quotes, too.
    is_null_in_quotes: bool,
}

/// The input of COPY FROM, which is cut into rows.
pub(crate) struct CopyIn {
    options: CopyOptions,
    table: String,
    columns: Vec<Target>,
    /// The statement that inserts a row.
    pub(crate) insert: Statement,
    /// The values of the row that was read last.
    pub(crate) values: Parameters,
    input: Vec<u8>,
    /// Number of bytes of the input that were read.
    read: usize,
    /// Number of unread bytes in which no row ends.
    searched: usize,
    /// Whether the header was read.
    is_begun: bool,
    /// Whether the end-of-data mark was read.
    is_over: bool,
    /// Number of lines that were read, including the header; in the binary format, of rows.
    lines: u64,
    line_end: Option<LineEnd>,
    /// The place of the line that was read last.
    line: Option<Range<usize>>,
    /// The column whose value is being read.
    column: Option<usize>,
    /// Number of rows that were inserted.
    pub(crate) inserted: u64,
    fields: Fields,
    arena: Arena,
}

/// The fields of a row.
#[derive(Default)]
struct Fields {
    /// The bytes of all fields, in order.
    bytes: Vec<u8>,
    /// Where each field ends; `None` is NULL.
    ends: Vec<Option<usize>>,
}

impl Fields {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Ends a field, whose bytes were appended from `start` on.
    fn end(&mut self, start: usize, is_null: bool) {
        if is_null {
            self.bytes.truncate(start);
        }
        self.ends.push((!is_null).then_some(self.bytes.len()));
    }
}

fn malformed(message: impl Into<String>) -> Error {
    SqlError::new("22P04", message.into()).into()
}

impl CopyIn {
    pub(crate) fn new(copy: &Copy, insert: Statement) -> Self {
        let mut arena = Arena::default();
        arena.set_zone(insert.zone().cloned());
        let options = copy.options.clone();
        let columns = copy.columns.iter().map(|name| Target {
            name: name.clone(),
            is_never_null: options.force_not_null.contains(name),
            is_null_in_quotes: options.force_null.contains(name),
        });
        Self {
            table: copy.table.clone().unwrap_or_default(),
            columns: columns.collect(),
            options,
            values: Parameters::new(&insert),
            insert,
            input: Vec::new(),
            read: 0,
            searched: 0,
            is_begun: false,
            is_over: false,
            lines: 0,
            line_end: None,
            line: None,
            column: None,
            inserted: 0,
            fields: Fields::default(),
            arena,
        }
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.read));
        self.input.extend_from_slice(data);
    }

    /// Returns the number of bytes of the input that are no complete row yet.
    pub(crate) fn buffered(&self) -> usize {
        self.input.len() - self.read
    }

    /// Returns the CONTEXT of an error: the table, the line, and the column or the text of the line.
    pub(crate) fn context(&self, error: &Error) -> Option<String> {
        let place = format!("COPY {}, line {}", self.table, self.lines);
        let shown = |bytes: &[u8]| {
            let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(bytes);
            match text.len() {
                0..=SHOWN => format!("\"{text}\""),
                _ => format!("\"{}...\"", &text[..text.floor_char_boundary(SHOWN)]),
            }
        };
        match (error.sqlstate(), self.column) {
            // PostgreSQL checks foreign keys behind the last row.
            (_, None) if self.lines == 0 => None,
            ("23503", _) => None,
            // Bytes that are no text are not shown.
            ("22021", _) => Some(place),
            (_, Some(column)) => {
                let place = format!("{place}, column {}", self.columns[column].name);
                match self.value_of(column) {
                    _ if self.options.format == CopyFormat::Binary => Some(place),
                    Some(value) => Some(format!("{place}: {}", shown(value))),
                    None => Some(format!("{place}: null input")),
                }
            }
            // PostgreSQL finds these when it writes several rows at once.
            ("23505", None) => Some(place),
            (_, None) => match self.line.clone().and_then(|line| self.input.get(line)) {
                Some(line) => Some(format!("{place}: {}", shown(line))),
                None => Some(place),
            },
        }
    }

    /// Returns the bytes of a field of the row; `None` if it is NULL.
    fn value_of(&self, column: usize) -> Option<&[u8]> {
        let ends = &self.fields.ends;
        let start = ends.get(..column)?.iter().rev().find_map(|end| *end).unwrap_or(0);
        self.fields.bytes.get(start..(*ends.get(column)?)?)
    }

    /// Reads the next row into `values`. Returns whether the input holds a further row. `is_end`: no more
    /// input follows, so the last row needs no line end.
    ///
    /// # Errors
    /// `22P04`: the row is malformed. The errors of the types: a field is no value of its column's type.
    pub(crate) fn next_row(&mut self, is_end: bool) -> Result<bool, Error> {
        self.values.clear();
        self.arena.clear();
        (self.line, self.column) = (None, None);
        if self.is_over {
            return self.skip_to_end();
        }
        let quotes = (self.options.quote, self.options.escape);
        let quotes = match self.options.format {
            CopyFormat::Binary => return self.read_binary_row(is_end),
            CopyFormat::Text => None,
            CopyFormat::Csv => Some(quotes),
        };
        loop {
            let Some(line) = self.take_data_line(is_end, quotes)? else {
                if is_end && !self.is_begun && self.options.header == Header::Match {
                    // No line is an empty one.
                    (self.lines, self.line) = (1, Some(0..0));
                    self.fields.clear();
                    self.fields.end(0, self.options.null.is_empty());
                    self.check_header()?;
                }
                return Ok(false);
            };
            let is_header =
                !std::mem::replace(&mut self.is_begun, true) && self.options.header != Header::Row;
            if is_header && self.options.header == Header::Names {
                self.line = None;
                continue;
            }
            utf8_of(&self.input[line.clone()]).map_err(SqlError::from)?;
            self.fields.clear();
            match quotes {
                None => self.cut_text(line)?,
                Some(_) => self.cut_csv(line)?,
            }
            if !is_header {
                self.read_fields()?;
                return Ok(true);
            }
            self.check_header()?;
        }
    }

    /// Checks that the header has the names of the columns.
    fn check_header(&self) -> Result<(), Error> {
        let (found, expected) = (self.fields.ends.len(), self.columns.len());
        if found != expected {
            let message = format!("wrong number of fields in header line: got {found}, expected {expected}");
            return Err(malformed(message));
        }
        for (place, Target { name, .. }) in self.columns.iter().enumerate() {
            let found = match self.value_of(place) {
                Some(value) if value == name.as_bytes() => continue,
                Some(value) => format!("\"{}\"", String::from_utf8_lossy(value)),
                None => format!("null value (\"{}\")", self.options.null),
            };
            let field = place + 1;
            let message = format!(
                "column name mismatch in header line field {field}: got {found}, expected \"{name}\""
            );
            return Err(malformed(message));
        }
        Ok(())
    }

    /// Reads the fields of a text or CSV row as values.
    fn read_fields(&mut self) -> Result<(), Error> {
        let types = self.insert.parameters();
        if self.fields.ends.len() > types.len() {
            return Err(malformed("extra data after last expected column"));
        }
        let (mut start, null) = (0, self.options.null.as_bytes());
        for (column, ty) in types.iter().enumerate() {
            let Target { ref name, is_never_null, is_null_in_quotes } = self.columns[column];
            let Some(end) = self.fields.ends.get(column) else {
                self.column = None;
                return Err(malformed(format!("missing data for column \"{name}\"")));
            };
            let field = end.map(|end| &self.fields.bytes[std::mem::replace(&mut start, end)..end]);
            let field = match field {
                None => is_never_null.then_some(null),
                Some(field) => Some(field).filter(|field| !is_null_in_quotes || *field != null),
            };
            self.column = Some(column);
            let value = match field {
                None => Datum::Null,
                Some(field) => datum_of(field, *ty, Format::Text, &mut self.arena)?,
            };
            self.values.push(value, &self.arena);
        }
        self.column = None;
        Ok(())
    }

    /// Returns how the line ends whose end begins at a place of the unread input, and how many bytes that end
    /// has; `None` if the next byte decides and has not arrived.
    ///
    /// # Errors
    /// `22P04`: the first line ends in another way.
    fn line_end_at(&self, offset: usize, is_end: bool) -> Result<Option<(LineEnd, usize)>, Error> {
        let unread = &self.input[self.read..];
        let ended = match (unread[offset], unread.get(offset + 1), self.line_end) {
            (b'\n', ..) => (LineEnd::Newline, 1),
            (_, _, Some(LineEnd::Return)) => (LineEnd::Return, 1),
            (_, None, _) if !is_end => return Ok(None),
            (_, Some(b'\n'), None | Some(LineEnd::Both)) => (LineEnd::Both, 2),
            _ => (LineEnd::Return, 1),
        };
        if self.line_end.is_none_or(|first| first == ended.0) {
            return Ok(Some(ended));
        }
        let is_csv = self.options.format == CopyFormat::Csv;
        let (kind, name, escaped) = match ended.0 {
            LineEnd::Newline => (if is_csv { "unquoted" } else { "literal" }, "newline", "\\n"),
            _ => (if is_csv { "unquoted" } else { "literal" }, "carriage return", "\\r"),
        };
        let hint = match is_csv {
            true => format!("Use quoted CSV field to represent {name}."),
            false => format!("Use \"{escaped}\" to represent {name}."),
        };
        Err(SqlError::new("22P04", format!("{kind} {name} found in data")).with_hint(hint).into())
    }

    /// Takes a line from the input. Returns its place there, without its end. `quotes` holds the quote and
    /// escape characters of CSV, in which a quoted newline is data.
    fn take_line(&mut self, is_end: bool, quotes: Option<(u8, u8)>) -> Result<Option<Range<usize>>, Error> {
        let unread = &self.input[self.read..];
        let mut quoted = false;
        let mut offset = if quotes.is_some() { 0 } else { self.searched };
        while let Some(byte) = unread.get(offset).copied() {
            match quotes {
                Some((quote, escape)) if quoted && byte == escape && escape != quote => offset += 1,
                Some((quote, _)) if byte == quote => quoted = !quoted,
                // In text, a newline behind a backslash is data.
                None if byte == b'\\' => offset += 1,
                _ if matches!(byte, b'\n' | b'\r') && !quoted => match self.line_end_at(offset, is_end) {
                    Ok(Some((end, length))) => {
                        self.line_end = Some(end);
                        return Ok(Some(self.take(offset, offset + length)));
                    }
                    // The next byte decides.
                    Ok(None) => {
                        self.searched = offset;
                        return Ok(None);
                    }
                    Err(error) => {
                        self.lines += 1;
                        return Err(error);
                    }
                },
                _ => {}
            }
            offset += 1;
        }
        // A backslash at the end of the input may escape a newline that arrives later.
        let (count, is_escaped) = (unread.len(), quotes.is_none() && offset > unread.len());
        self.searched = count - usize::from(is_escaped);
        Ok((is_end && count > 0).then(|| self.take(count, count)))
    }

    /// Counts `count` further bytes as read. Returns the place of the first `length` of them.
    fn take(&mut self, length: usize, count: usize) -> Range<usize> {
        let start = self.read;
        self.read += count;
        self.searched = 0;
        start..start + length
    }

    /// Takes a line of data: stops at the end-of-data mark.
    fn take_data_line(
        &mut self,
        is_end: bool,
        quotes: Option<(u8, u8)>,
    ) -> Result<Option<Range<usize>>, Error> {
        let known = self.line_end.filter(|_| quotes.is_some());
        let Some(line) = self.take_line(is_end, quotes)? else { return Ok(None) };
        let text = &self.input[line.clone()];
        // The mark has a line end, unless it is the last line of the text format, where it is an error.
        let has_end = self.read > line.end;
        self.lines += 1;
        // As in PostgreSQL, those in quotes are counted once it is known how lines end.
        if let Some(known) = known {
            let end = if known == LineEnd::Newline { b'\n' } else { b'\r' };
            self.lines += text.iter().filter(|byte| **byte == end).count() as u64;
        }
        if text == b"\\." && has_end {
            self.is_over = true;
            return Ok(None);
        }
        self.line = Some(line.clone());
        Ok(Some(line))
    }

    /// Cuts a line of the text format into fields.
    fn cut_text(&mut self, line: Range<usize>) -> Result<(), Error> {
        let (delimiter, null) = (self.options.delimiter, self.options.null.as_bytes());
        let has_end = self.read > line.end;
        let mut line = &self.input[line];
        let (mut start, mut offset, mut is_escaped) = (0, 0, false);
        loop {
            match line.get(offset).copied() {
                // The end-of-data mark, which may follow a row on its line.
                Some(b'\\') if line.get(offset + 1) == Some(&b'.') => {
                    if offset + 2 < line.len() || !has_end {
                        return Err(malformed("end-of-copy marker corrupt"));
                    }
                    self.is_over = true;
                    line = &line[..offset];
                }
                Some(b'\\') => {
                    is_escaped = true;
                    offset += 2;
                }
                Some(byte) if byte != delimiter => offset += 1,
                end => {
                    let (raw, place) = (&line[start..offset.min(line.len())], self.fields.bytes.len());
                    match is_escaped {
                        true => put_unescaped(raw, &mut self.fields.bytes),
                        false => self.fields.bytes.extend_from_slice(raw),
                    }
                    self.fields.end(place, raw == null);
                    if end.is_none() {
                        return Ok(());
                    }
                    offset += 1;
                    (start, is_escaped) = (offset, false);
                }
            }
        }
    }

    /// Cuts a line of CSV into fields.
    fn cut_csv(&mut self, line: Range<usize>) -> Result<(), Error> {
        let CopyOptions { delimiter, quote, escape, .. } = self.options;
        let null = self.options.null.as_bytes();
        let (line, fields) = (&self.input[line], &mut self.fields);
        let (mut start, mut was_quoted, mut quoted) = (0, false, false);
        let mut offset = 0;
        loop {
            let byte = line.get(offset).copied();
            match byte {
                Some(byte)
                    if quoted
                        && byte == escape
                        && line.get(offset + 1).is_some_and(|next| *next == quote || *next == escape) =>
                {
                    fields.bytes.push(line[offset + 1]);
                    offset += 1;
                }
                Some(byte) if byte == quote => {
                    quoted = !quoted;
                    was_quoted = true;
                }
                Some(byte) if quoted || byte != delimiter => fields.bytes.push(byte),
                None if quoted => return Err(malformed("unterminated CSV quoted field")),
                end => {
                    let is_null = !was_quoted && fields.bytes[start..] == *null;
                    fields.end(start, is_null);
                    start = fields.bytes.len();
                    was_quoted = false;
                    if end.is_none() {
                        return Ok(());
                    }
                }
            }
            offset += 1;
        }
    }

    /// Skips the data behind the end-of-data mark. In the binary format there must be none.
    fn skip_to_end(&mut self) -> Result<bool, Error> {
        let is_skipped = self.buffered() > 0;
        self.read = self.input.len();
        match self.options.format {
            CopyFormat::Binary if is_skipped => Err(malformed("received copy data after EOF marker")),
            _ => Ok(false),
        }
    }

    /// Reads the header of the binary format. Returns whether it is complete.
    fn read_header(&mut self, is_end: bool) -> Result<bool, Error> {
        let unread = &self.input[self.read..];
        let length = SIGNATURE.len() + 8;
        let not_yet = |message| if is_end { Err(malformed(message)) } else { Ok(false) };
        let Some(header) = unread.get(..length) else {
            return not_yet("COPY file signature not recognized");
        };
        if !header.starts_with(SIGNATURE) {
            return Err(malformed("COPY file signature not recognized"));
        }
        let Ok(extension) = usize::try_from(number(&header[length - 4..])) else {
            return Err(malformed("invalid COPY file header"));
        };
        if unread.len() < length + extension {
            return not_yet("invalid COPY file header");
        }
        self.read += length + extension;
        self.is_begun = true;
        Ok(true)
    }

    fn read_binary_row(&mut self, is_end: bool) -> Result<bool, Error> {
        let lines = self.lines;
        let is_read = self.read_binary_values(is_end)?;
        if !is_read {
            // The rest of the row has not arrived.
            self.lines = lines;
        }
        Ok(is_read)
    }

    fn read_binary_values(&mut self, is_end: bool) -> Result<bool, Error> {
        if !self.is_begun && !self.read_header(is_end)? {
            return Ok(false);
        }
        let (unread, types) = (&self.input[self.read..], self.insert.parameters());
        let short = || if is_end { Err(malformed("unexpected EOF in COPY data")) } else { Ok(false) };
        // As in PostgreSQL, the data may end between two rows without the trailer.
        let Some(count) = unread.get(..2) else { return Ok(false) };
        let count = i16::from_be_bytes([count[0], count[1]]);
        if count == -1 {
            self.is_over = true;
            self.read += 2;
            return self.skip_to_end();
        }
        if usize::try_from(count) != Ok(types.len()) {
            let message = format!("row field count is {count}, expected {}", types.len());
            return Err(malformed(message));
        }
        let mut offset = 2;
        self.lines += 1;
        for (column, ty) in types.iter().enumerate() {
            self.column = Some(column);
            let Some(length) = unread.get(offset..offset + 4) else { return short() };
            let length = number(length);
            offset += 4;
            if length == -1 {
                self.values.push(Datum::Null, &self.arena);
                continue;
            }
            let Ok(length) = usize::try_from(length) else { return Err(malformed("invalid field size")) };
            let Some(bytes) = unread.get(offset..offset + length) else { return short() };
            let value = datum_of(bytes, *ty, Format::Binary, &mut self.arena)?;
            self.values.push(value, &self.arena);
            offset += length;
        }
        self.read += offset;
        self.column = None;
        Ok(true)
    }
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Returns the number that the first digits form, and the count of these digits, which is at most `most`.
fn digits(bytes: &[u8], radix: u32, most: usize) -> (u8, usize) {
    let digits = bytes.iter().take(most).map_while(|byte| (*byte as char).to_digit(radix));
    digits.fold((0, 0), |(value, count), digit| {
        (value.wrapping_mul(radix as u8).wrapping_add(digit as u8), count + 1)
    })
}

/// Appends a field of the text format without its backslashes.
fn put_unescaped(raw: &[u8], out: &mut Vec<u8>) {
    let mut left = raw;
    while let Some((byte, behind)) = left.split_first() {
        left = behind;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        // As in PostgreSQL, a backslash at the end of the data is none.
        let Some((next, behind)) = left.split_first() else { break };
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
}
