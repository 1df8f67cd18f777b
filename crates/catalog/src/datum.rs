//! The executor's values: 16 bytes, copied freely. Bytes, arrays and wide decimals live in an arena.
//!
//! Invariant: a span is read only against the arena that made it, and only until that arena is cleared or
//! released to an earlier mark.

use crate::elements::elements_length;
use crate::{Decimal, Numeric, SessionZone};
use std::sync::Arc;

/// A range of an arena.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Index of its first byte or element.
    pub start: u32,
    /// Number of bytes or elements.
    pub length: u32,
}

/// One value in a register. The statement knows its SQL type, so the tag only names the representation.
///
/// Its layout is fixed, because compiled code reads and writes datums: a tag of four bytes, and the value
/// from byte 8 on. Tags are numbered in the order of the kinds, from 0.
#[repr(C, u32)]
#[derive(Clone, Copy, Default, Debug)]
pub enum Datum {
    /// SQL NULL.
    #[default]
    Null,
    /// Integers, booleans (0 or 1), dates, timestamps, and decimals as scaled integers where the type has a
    /// scale.
    Int(i64),
    /// Double precision.
    Double(f64),
    /// Text, bytea, uuid.
    Bytes(Span),
    /// A numeric that carries its scale; the number is its index in the arena.
    Wide(u32),
    /// An array's elements.
    Array(Span),
}

/// Two data are equal if they are the same in all their bits: a NaN equals itself, and zeros of both signs
/// differ. What lies in an arena is not compared.
impl PartialEq for Datum {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Null, Self::Null) => true,
            (Self::Int(own), Self::Int(other)) => own == other,
            (Self::Double(own), Self::Double(other)) => own.to_bits() == other.to_bits(),
            (Self::Bytes(own), Self::Bytes(other)) | (Self::Array(own), Self::Array(other)) => own == other,
            (Self::Wide(own), Self::Wide(other)) => own == other,
            _ => false,
        }
    }
}

impl Datum {
    /// Returns whether the value has no part in an arena.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Null | Self::Int(_) | Self::Double(_))
    }

    /// Returns a boolean.
    pub fn boolean(value: bool) -> Self {
        Self::Int(value.into())
    }

    /// Returns whether this is SQL NULL.
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns whether this is true; NULL is not.
    pub fn is_true(self) -> bool {
        matches!(self, Self::Int(1))
    }
}

/// The memory that datums point into. A call clears it and keeps its buffers (up to 4 MiB), so that a warm
/// call allocates nothing.
#[derive(Default, Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    elements: Vec<Datum>,
    numerics: Vec<Numeric>,
    /// Bytes of the numerics that are not held inline.
    long_bytes: usize,
    /// The time zone in which texts of timestamps are read and written; `None` is UTC.
    zone: Option<Arc<SessionZone>>,
}

/// The fill level of an arena at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    bytes: usize,
    elements: usize,
    numerics: usize,
    long_bytes: usize,
}

fn position(length: usize) -> u32 {
    u32::try_from(length).expect("an arena stays below 4 GiB")
}

impl Arena {
    /// Drops all contents. Keeps the memory, unless it exceeds 4 MiB.
    pub fn clear(&mut self) {
        const MUCH: usize = 4 << 20;
        if self.bytes_allocated() > MUCH {
            self.free();
        }
        self.bytes.clear();
        self.elements.clear();
        self.numerics.clear();
        self.long_bytes = 0;
    }

    /// Drops all contents, and frees the memory.
    pub fn free(&mut self) {
        *self = Self { zone: self.zone.take(), ..Self::default() };
    }

    /// Returns the time zone in which texts of timestamps are read and written; `None` is UTC.
    #[inline]
    pub fn zone(&self) -> Option<&SessionZone> {
        self.zone.as_deref()
    }

    /// Returns the shared time zone.
    pub fn shared_zone(&self) -> Option<&Arc<SessionZone>> {
        self.zone.as_ref()
    }

    /// Sets the time zone in which texts of timestamps are read and written; `None` is UTC.
    pub fn set_zone(&mut self, zone: Option<Arc<SessionZone>>) {
        self.zone = zone;
    }

    /// Returns the current fill level.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            elements: self.elements.len(),
            numerics: self.numerics.len(),
            long_bytes: self.long_bytes,
        }
    }

    /// Drops the contents that were added since a mark. Datums made since then must not be read any more.
    #[inline]
    pub fn release(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.elements.truncate(mark.elements);
        self.numerics.truncate(mark.numerics);
        self.long_bytes = mark.long_bytes;
    }

    /// Returns the bytes that its contents take.
    pub fn bytes_used(&self) -> usize {
        self.bytes.len()
            + self.elements.len() * size_of::<Datum>()
            + self.numerics.len() * size_of::<Numeric>()
            + self.long_bytes
    }

    /// Returns the bytes that it has allocated.
    pub fn bytes_allocated(&self) -> usize {
        self.bytes.capacity()
            + self.elements.capacity() * size_of::<Datum>()
            + self.numerics.capacity() * size_of::<Numeric>()
            + self.long_bytes
    }

    /// Returns the bytes that it would allocate if each kind of contents grew by `more` bytes. A full list is
    /// copied to one of at least twice the size.
    pub fn growth(&self, more: usize) -> usize {
        fn of<T>(list: &Vec<T>, more: usize) -> usize {
            let wanted = list.len() + more.div_ceil(size_of::<T>());
            if wanted <= list.capacity() { 0 } else { wanted.max(list.capacity() * 2) * size_of::<T>() }
        }
        of(&self.bytes, more) + of(&self.elements, more) + of(&self.numerics, more)
    }

    /// Copies bytes in.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Datum {
        let start = position(self.bytes.len());
        self.bytes.extend_from_slice(bytes);
        Datum::Bytes(Span { start, length: position(bytes.len()) })
    }

    /// Adds bytes that arrive as little-endian words.
    #[inline]
    pub fn push_words(&mut self, words: impl Iterator<Item = u64>, length: usize) -> Datum {
        let start = self.bytes.len();
        self.bytes.reserve(length.next_multiple_of(8));
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.truncate(start + length);
        Datum::Bytes(Span { start: position(start), length: position(length) })
    }

    /// Appends the bytes that `write` adds to the buffer and returns them as a datum.
    pub fn build_bytes(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Datum {
        let start = self.bytes.len();
        write(&mut self.bytes);
        Datum::Bytes(Span { start: position(start), length: position(self.bytes.len() - start) })
    }

    /// Drops bytes that end the arena.
    pub(crate) fn drop_last_bytes(&mut self, span: Span) {
        debug_assert_eq!((span.start + span.length) as usize, self.bytes.len());
        self.bytes.truncate(span.start as usize);
    }

    /// Returns the bytes of a span.
    #[inline]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..][..span.length as usize]
    }

    /// Returns the bytes of a text, bytea or uuid; empty for any other datum.
    #[inline]
    pub fn datum_bytes(&self, datum: Datum) -> &[u8] {
        match datum {
            Datum::Bytes(span) => self.bytes(span),
            _ => &[],
        }
    }

    /// Returns a part of a span without copying its bytes.
    pub fn subspan(&self, span: Span, start: usize, length: usize) -> Datum {
        debug_assert!(start + length <= span.length as usize);
        Datum::Bytes(Span { start: span.start + position(start), length: position(length) })
    }

    /// Concatenates two spans. When the first one ends the arena, the second is appended to it, so that a
    /// text built piece by piece is not copied each time.
    pub fn concat(&mut self, a: Span, b: Span) -> Datum {
        let mut start = self.bytes.len();
        if (a.start + a.length) as usize == start {
            start = a.start as usize;
        } else {
            self.bytes.extend_from_within(a.start as usize..(a.start + a.length) as usize);
        }
        self.bytes.extend_from_within(b.start as usize..(b.start + b.length) as usize);
        Datum::Bytes(Span { start: position(start), length: a.length + b.length })
    }

    /// Adds an array.
    pub fn push_array(&mut self, elements: &[Datum]) -> Datum {
        let start = position(self.elements.len());
        self.elements.extend_from_slice(elements);
        Datum::Array(Span { start, length: position(elements.len()) })
    }

    /// Begins an array whose elements follow one by one.
    pub(crate) fn begin_array(&self) -> usize {
        self.elements.len()
    }

    /// Adds an element to the array that was begun.
    pub(crate) fn push_element(&mut self, element: Datum) {
        self.elements.push(element);
    }

    /// Ends the array that began at an index.
    pub(crate) fn end_array(&self, start: usize) -> Datum {
        Datum::Array(Span { start: position(start), length: position(self.elements.len() - start) })
    }

    /// Returns the elements of an array.
    #[inline]
    pub fn elements(&self, span: Span) -> &[Datum] {
        &self.elements[span.start as usize..][..span.length as usize]
    }

    /// Returns an array with one element set, grown with NULLs where needed. The array is copied, unless it
    /// ends the arena and the element lies behind it.
    pub fn with_element(&mut self, array: Option<Span>, index: usize, value: Datum) -> Datum {
        let mut start = self.elements.len();
        if let Some(span) = array {
            let is_last = (span.start + span.length) as usize == start;
            if is_last && index >= span.length as usize {
                start = span.start as usize;
            } else {
                self.elements.extend_from_within(span.start as usize..(span.start + span.length) as usize);
            }
        }
        let length = (self.elements.len() - start).max(index + 1);
        self.elements.resize(start + length, Datum::Null);
        self.elements[start + index] = value;
        Datum::Array(Span { start: position(start), length: position(length) })
    }

    /// Adds a numeric.
    pub fn push_numeric(&mut self, value: impl Into<Numeric>) -> Datum {
        let (index, value) = (position(self.numerics.len()), value.into());
        self.long_bytes += value.stored_length();
        self.numerics.push(value);
        Datum::Wide(index)
    }

    /// Returns the elements of all arrays; an array's span tells which are its own.
    #[inline]
    pub fn all_elements(&self) -> &[Datum] {
        &self.elements
    }

    /// Copies a value from another arena.
    #[inline]
    pub fn adopt(&mut self, datum: Datum, from: &Self) -> Datum {
        match datum {
            Datum::Bytes(span) => self.push_bytes(from.bytes(span)),
            Datum::Wide(index) => self.push_numeric(from.numerics[index as usize].clone()),
            Datum::Array(span) => {
                let elements = from.elements(span);
                if elements.iter().all(Datum::is_plain) {
                    return self.push_array(elements);
                }
                let elements: Vec<Datum> =
                    elements.iter().map(|element| self.adopt(*element, from)).collect();
                self.push_array(&elements)
            }
            plain => plain,
        }
    }

    /// Returns the words that a column's value takes in a row's variable part.
    pub fn words_of(&self, datum: Datum) -> usize {
        match datum {
            Datum::Array(span) => elements_length(span, self).div_ceil(8),
            Datum::Wide(index) => match &self.numerics[index as usize] {
                long @ Numeric::Long(_) => long.stored_length().div_ceil(8),
                _ => 0,
            },
            _ => self.datum_bytes(datum).len().div_ceil(8),
        }
    }

    /// Returns the numeric that a datum holds; `scale` is the static scale of scaled integers.
    #[inline]
    pub fn numeric(&self, datum: Datum, scale: u8) -> Option<Numeric> {
        match datum {
            Datum::Int(mantissa) => Some(Decimal { mantissa: mantissa.into(), scale }.into()),
            Datum::Wide(index) => Some(self.numerics[index as usize].clone()),
            _ => None,
        }
    }
}
