//! The executor's values: 16 bytes, copied freely; bytes and arrays live in an arena beside them.
//!
//! Invariant: a span is only read against the arena that it was made in; the arena only grows during a call.

use crate::Decimal;

/// A range of an arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Where it begins.
    pub start: u32,
    /// How many bytes or elements.
    pub length: u32,
}

/// One value in a register. Its SQL type is known statically, so the tag only tells how it is held.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Datum {
    /// SQL NULL.
    Null,
    /// Integers, booleans (0 or 1), dates, timestamps, and decimals as scaled integers where the type has a
    /// scale.
    Int(i64),
    /// Double precision.
    Double(f64),
    /// Text, bytea, uuid.
    Bytes(Span),
    /// A decimal that carries its scale, by its place in the arena.
    Wide(u32),
    /// An array's elements.
    Array(Span),
}

impl Datum {
    /// A boolean.
    pub fn boolean(value: bool) -> Self {
        Self::Int(value.into())
    }

    /// Whether this is SQL NULL.
    pub fn is_null(self) -> bool {
        self == Self::Null
    }

    /// Whether this is true; NULL is not.
    pub fn is_true(self) -> bool {
        self == Self::Int(1)
    }
}

/// What datums point into: one per call, emptied, never shrunk, so that a warm call allocates nothing.
#[derive(Default, Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    elements: Vec<Datum>,
    decimals: Vec<Decimal>,
}

/// How full an arena is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    bytes: usize,
    elements: usize,
    decimals: usize,
}

fn position(length: usize) -> u32 {
    u32::try_from(length).expect("an arena stays below 4 GiB")
}

impl Arena {
    /// Forgets all contents and keeps the memory, unless it is much.
    pub fn clear(&mut self) {
        const MUCH: usize = 4 << 20;
        if self.bytes_allocated() > MUCH {
            *self = Self::default();
        }
        self.bytes.clear();
        self.elements.clear();
        self.decimals.clear();
    }

    /// How full it is now.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), elements: self.elements.len(), decimals: self.decimals.len() }
    }

    /// Forgets what has come since a mark. No datum that was made since may be read any more.
    #[inline]
    pub fn release(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.elements.truncate(mark.elements);
        self.decimals.truncate(mark.decimals);
    }

    /// Bytes that its contents take.
    pub fn bytes_used(&self) -> usize {
        self.bytes.len()
            + self.elements.len() * size_of::<Datum>()
            + self.decimals.len() * size_of::<Decimal>()
    }

    /// Bytes that it has allocated.
    pub fn bytes_allocated(&self) -> usize {
        self.bytes.capacity()
            + self.elements.capacity() * size_of::<Datum>()
            + self.decimals.capacity() * size_of::<Decimal>()
    }

    /// Bytes that it allocates when each kind of contents gets this many bytes more: a list that is full is
    /// copied to one of at least twice the size.
    pub fn growth(&self, more: usize) -> usize {
        fn of<T>(list: &Vec<T>, more: usize) -> usize {
            let wanted = list.len() + more.div_ceil(size_of::<T>());
            if wanted <= list.capacity() { 0 } else { wanted.max(list.capacity() * 2) * size_of::<T>() }
        }
        of(&self.bytes, more) + of(&self.elements, more) + of(&self.decimals, more)
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
        self.bytes.resize(start + length.next_multiple_of(8), 0);
        for (bytes, word) in self.bytes[start..].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.bytes.truncate(start + length);
        Datum::Bytes(Span { start: position(start), length: position(length) })
    }

    /// Appends to bytes being built: runs `write` on the buffer and returns what it added.
    pub fn build_bytes(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Datum {
        let start = self.bytes.len();
        write(&mut self.bytes);
        Datum::Bytes(Span { start: position(start), length: position(self.bytes.len() - start) })
    }

    /// The bytes of a span.
    #[inline]
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..][..span.length as usize]
    }

    /// The bytes of a datum that holds some; empty for any other.
    #[inline]
    pub fn datum_bytes(&self, datum: Datum) -> &[u8] {
        match datum {
            Datum::Bytes(span) => self.bytes(span),
            _ => &[],
        }
    }

    /// Copies a part of the bytes that are already here.
    pub fn subspan(&self, span: Span, start: usize, length: usize) -> Datum {
        debug_assert!(start + length <= span.length as usize);
        Datum::Bytes(Span { start: span.start + position(start), length: position(length) })
    }

    /// Concatenates two spans. Where the first one is the last of the arena, the second is put behind it, so
    /// that a text that grows piece by piece is not copied each time.
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

    /// Ends the array that was begun at a place.
    pub(crate) fn end_array(&self, start: usize) -> Datum {
        Datum::Array(Span { start: position(start), length: position(self.elements.len() - start) })
    }

    /// The elements of an array.
    #[inline]
    pub fn elements(&self, span: Span) -> &[Datum] {
        &self.elements[span.start as usize..][..span.length as usize]
    }

    /// An array with one element set, grown with NULLs where needed: a copy, unless it only grows and is the
    /// last of the arena.
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

    /// Adds a decimal.
    pub fn push_decimal(&mut self, decimal: Decimal) -> Datum {
        let index = position(self.decimals.len());
        self.decimals.push(decimal);
        Datum::Wide(index)
    }

    /// Brings a value over from another arena.
    #[inline]
    pub fn adopt(&mut self, datum: Datum, from: &Self) -> Datum {
        match datum {
            Datum::Bytes(span) => self.push_bytes(from.bytes(span)),
            Datum::Wide(index) => self.push_decimal(from.decimals[index as usize]),
            Datum::Array(span) => {
                let elements: Vec<Datum> =
                    from.elements(span).iter().map(|element| self.adopt(*element, from)).collect();
                self.push_array(&elements)
            }
            plain => plain,
        }
    }

    /// The words that a column's value takes in a row's variable part.
    pub fn words_of(&self, datum: Datum) -> usize {
        self.datum_bytes(datum).len().div_ceil(8)
    }

    /// The decimal that a datum holds; `scale` is the static one of scaled integers.
    pub fn decimal(&self, datum: Datum, scale: u8) -> Option<Decimal> {
        match datum {
            Datum::Int(mantissa) => Some(Decimal { mantissa: mantissa.into(), scale }),
            Datum::Wide(index) => Some(self.decimals[index as usize]),
            _ => None,
        }
    }
}
