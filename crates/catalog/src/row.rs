//! The compact row layout: fixed columns at fixed offsets, variable ones behind them.
//!
//! A row is a sequence of 64-bit little-endian words. Fixed columns come first, widest first, so that each is
//! naturally aligned and none straddles a word. One bit for each nullable column follows (1 = NULL). The
//! bytes of variable columns come last, each beginning on a word. The fixed part of a variable column is one
//! word: the byte offset of its data in the low half, its length in the high half.
//!
//! Invariant: no column crosses a word, so a row can be read and written word by word with atomics.
//! Held by: `columns_stay_inside_words`.

use crate::elements::{read_elements, write_elements};
use crate::{Arena, Datum, Decimal, Numeric, ScalarType, Type};

/// Variable data begins at multiples of this many bytes.
pub const VARIABLE_ALIGNMENT: usize = 8;

/// Stands for the scale of a numeric that no decimal holds.
pub const LONG: u64 = 0xff;

/// The representation of a column in a row.
// The integers come first, narrowest first: `integer_bits` follows from their numbers.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// One byte: BOOLEAN.
    Int8,
    /// Two bytes: SMALLINT.
    Int16,
    /// Four bytes: INTEGER, DATE.
    Int32,
    /// Eight bytes: BIGINT, timestamps, enumerations, NUMERIC up to 18 digits.
    Int64,
    /// Eight bytes: DOUBLE PRECISION, REAL.
    Double,
    /// Three words: 128-bit mantissa, scale. NUMERIC of more than 18 digits or without a scale. Of a value
    /// that no decimal holds, the third word is `LONG`; the first is that of a variable column.
    Wide,
    /// One word in the fixed part; the bytes are in the variable part.
    Variable,
    /// The same; the bytes are an array's elements.
    Array,
}

impl ColumnKind {
    fn of(ty: Type) -> Self {
        let Type::Scalar(ty) = ty else { return Self::Array };
        match ty {
            ScalarType::Boolean => Self::Int8,
            ScalarType::SmallInt => Self::Int16,
            ScalarType::Integer | ScalarType::Date => Self::Int32,
            ScalarType::BigInt
            | ScalarType::Enum(_)
            | ScalarType::Time
            | ScalarType::Oid
            | ScalarType::Timestamp
            | ScalarType::Timestamptz
            | ScalarType::ShortTimestamp { .. } => Self::Int64,
            ScalarType::Real | ScalarType::Double => Self::Double,
            ScalarType::Numeric { .. } if ty.is_machine_numeric() => Self::Int64,
            _ if ty.is_numeric() => Self::Wide,
            _ => Self::Variable,
        }
    }

    /// Returns whether values are integers of at most a word.
    #[inline]
    fn is_integer(self) -> bool {
        self as u8 <= Self::Int64 as u8
    }

    /// Returns the width of an integer in bits; 64 for any other value.
    #[inline]
    fn integer_bits(self) -> u32 {
        8 << (self as u8).min(Self::Int64 as u8)
    }

    /// Returns whether values are bytes in the variable part.
    pub fn is_variable(self) -> bool {
        matches!(self, Self::Variable | Self::Array)
    }

    fn width(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int32 => 4,
            Self::Int64 | Self::Double | Self::Variable | Self::Array => 8,
            Self::Wide => 24,
        }
    }
}

/// The location of one column in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnSlot {
    /// Its representation.
    pub kind: ColumnKind,
    /// Byte offset of its fixed part.
    pub offset: u16,
    /// Number of its NULL flag, in bits from the row's start; `None` for a column that is NOT NULL.
    pub null_bit: Option<u32>,
}

impl ColumnSlot {
    /// Returns the word of the fixed part; the first one, for wide columns.
    #[inline]
    pub fn word(self) -> usize {
        usize::from(self.offset) / 8
    }

    /// Returns the shift of the fixed part inside its word, in bits.
    #[inline]
    pub fn shift(self) -> u32 {
        u32::from(self.offset) % 8 * 8
    }

    /// Returns whether each value is an integer of at most a word, and none is NULL.
    #[inline]
    pub fn is_plain_integer(self) -> bool {
        self.kind.is_integer() && self.null_bit.is_none()
    }

    /// Extracts an integer column from its word.
    #[inline]
    pub fn extract(self, word: u64) -> i64 {
        let above = 64 - self.kind.integer_bits();
        ((word << (above - self.shift())) as i64) >> above
    }

    /// Returns the word with an integer column replaced.
    #[inline]
    pub fn deposit(self, word: u64, value: i64) -> u64 {
        let mask = u64::MAX >> (64 - self.kind.integer_bits());
        word & !(mask << self.shift()) | (value as u64 & mask) << self.shift()
    }
}

/// New bits of one word of a row. Compiled code makes them, so the layout is fixed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedWord {
    /// The word's position in the row.
    pub word: u64,
    /// The bits that change.
    pub mask: u64,
    /// Their new values; all further bits are zero.
    pub bits: u64,
}

/// The layout of a table's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowLayout {
    slots: Vec<ColumnSlot>,
    fixed_words: usize,
    /// Number of integers before the first column of another kind.
    leading_integers: usize,
    /// The columns whose values are always in the variable part, in table order.
    variable: Vec<usize>,
}

impl RowLayout {
    /// Lays out columns given as (type, nullable).
    pub fn new(columns: &[(Type, bool)]) -> Self {
        let mut slots = vec![ColumnSlot { kind: ColumnKind::Int8, offset: 0, null_bit: None }; columns.len()];
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(ColumnKind::of(columns[*index].0).width().min(8)));
        let mut offset = 0;
        for index in order {
            let kind = ColumnKind::of(columns[index].0);
            slots[index].kind = kind;
            slots[index].offset = u16::try_from(offset).expect("at most 1,600 columns");
            offset += kind.width();
        }
        let mut bit = offset * 8;
        for (slot, (_, nullable)) in slots.iter_mut().zip(columns) {
            if *nullable {
                slot.null_bit = Some(u32::try_from(bit).expect("at most 1,600 columns"));
                bit += 1;
            }
        }
        let is_variable = |index: &usize| slots[*index].kind.is_variable();
        let variable = (0..slots.len()).filter(is_variable).collect();
        let leading_integers = slots.iter().take_while(|slot| slot.kind.is_integer()).count();
        Self { slots, fixed_words: bit.div_ceil(64), leading_integers, variable }
    }

    /// Returns the location of each column, in table order.
    pub fn slots(&self) -> &[ColumnSlot] {
        &self.slots
    }

    /// Returns the column at a location.
    pub fn column_at(&self, slot: ColumnSlot) -> Option<usize> {
        self.slots.iter().position(|own| *own == slot)
    }

    /// Returns the number of columns before the first one that is not an integer of at most a word.
    pub fn leading_integers(&self) -> usize {
        self.leading_integers
    }

    /// Returns the number of words before the variable data.
    pub fn fixed_words(&self) -> usize {
        self.fixed_words
    }

    /// Returns the number of words that a row takes; `load` returns its words.
    pub fn used_words(&self, load: impl Fn(usize) -> u64) -> usize {
        let end = |slot: &ColumnSlot| {
            let variable = load(slot.word());
            (variable as u32 as usize + (variable >> 32) as usize).div_ceil(8)
        };
        let variable = self.slots.iter().filter(|slot| match slot.kind {
            ColumnKind::Wide => load(slot.word() + 2) == LONG,
            kind => kind.is_variable(),
        });
        variable.map(end).max().unwrap_or(0).max(self.fixed_words)
    }

    /// Encodes a row, one datum per column, into `words` (emptied first).
    pub fn encode(&self, row: &[Datum], arena: &Arena, words: &mut Vec<u64>) {
        debug_assert_eq!(row.len(), self.slots.len());
        words.clear();
        words.resize(self.fixed_words, 0);
        for (slot, datum) in self.slots.iter().zip(row) {
            match datum {
                Datum::Int(value) if slot.kind != ColumnKind::Wide => {
                    let word = &mut words[slot.word()];
                    *word = slot.deposit(*word, *value);
                }
                _ => self.encode_column(*slot, *datum, arena, words),
            }
        }
    }

    /// Appends the bytes of variable columns to the fixed part of a row, whose further columns and NULL flags
    /// are encoded.
    #[inline]
    pub fn append_variable(&self, row: &[Datum], arena: &Arena, words: &mut Vec<u64>) {
        for column in &self.variable {
            if let datum @ (Datum::Bytes(_) | Datum::Array(_)) = row[*column] {
                self.encode_column(self.slots[*column], datum, arena, words);
            }
        }
    }

    /// Encodes a row of which only `columns` are known; the remaining columns are undefined.
    pub fn encode_columns(&self, columns: &[usize], row: &[Datum], arena: &Arena, words: &mut Vec<u64>) {
        words.clear();
        words.resize(self.fixed_words, 0);
        for column in columns {
            match (self.slots[*column], row[*column]) {
                (slot, Datum::Int(value)) if slot.kind != ColumnKind::Wide => {
                    words[slot.word()] = slot.deposit(words[slot.word()], value);
                }
                (slot, datum) => self.encode_column(slot, datum, arena, words),
            }
        }
    }

    fn encode_column(&self, slot: ColumnSlot, datum: Datum, arena: &Arena, words: &mut Vec<u64>) {
        let word = slot.word();
        match (datum, slot.kind) {
            (Datum::Null, _) => {
                let bit = slot.null_bit.expect("NOT NULL was checked before the row is made");
                words[bit as usize / 64] |= 1 << (bit % 64);
            }
            (Datum::Int(_) | Datum::Wide(_), ColumnKind::Wide) => {
                let value = arena.numeric(datum, 0).expect("a numeric column is given numerics");
                match value.short() {
                    Some(decimal) => {
                        words[word..word + 3].copy_from_slice(&words_of_decimal(decimal));
                    }
                    None => {
                        let bytes = value.stored();
                        words[word] = (words.len() * 8) as u64 | (bytes.len() as u64) << 32;
                        words[word + 2] = LONG;
                        words.extend(words_of(&bytes));
                    }
                }
            }
            (Datum::Double(value), _) => words[word] = value.to_bits(),
            (Datum::Bytes(span), _) => {
                let bytes = arena.bytes(span);
                words[word] = (words.len() * 8) as u64 | (bytes.len() as u64) << 32;
                words.extend(words_of(bytes));
            }
            (Datum::Array(span), _) => {
                let mut bytes = Vec::new();
                write_elements(span, arena, &mut bytes);
                words[word] = (words.len() * 8) as u64 | (bytes.len() as u64) << 32;
                words.extend(words_of(&bytes));
            }
            // `encode` has written the integers.
            (Datum::Int(_) | Datum::Wide(_), _) => {
                unreachable!("not a column's value: {datum:?}")
            }
        }
    }

    /// Reads a column of a row; `load` returns its words. A reader that races with a writer may see a torn
    /// length and validates afterwards. The length is therefore bounded by `words`, the size of the row's
    /// memory.
    #[inline(always)]
    pub fn decode(slot: ColumnSlot, words: usize, load: impl Fn(usize) -> u64, arena: &mut Arena) -> Datum {
        if slot.is_plain_integer() {
            return Datum::Int(slot.extract(load(slot.word())));
        }
        Self::decode_other(slot, words, load, arena)
    }

    fn decode_other(slot: ColumnSlot, words: usize, load: impl Fn(usize) -> u64, arena: &mut Arena) -> Datum {
        if let Some(bit) = slot.null_bit
            && load(bit as usize / 64) >> (bit % 64) & 1 == 1
        {
            return Datum::Null;
        }
        let word = load(slot.word());
        match slot.kind {
            ColumnKind::Double => Datum::Double(f64::from_bits(word)),
            ColumnKind::Variable => push_variable(word, words, load, arena),
            ColumnKind::Array => {
                let bytes = push_variable(word, words, load, arena);
                read_elements(bytes, arena)
            }
            ColumnKind::Wide if load(slot.word() + 2) == LONG => {
                let bytes = push_variable(word, words, load, arena);
                read_long(bytes, arena)
            }
            ColumnKind::Wide => {
                let high = load(slot.word() + 1);
                let mantissa = i128::from(word) | i128::from(high as i64) << 64;
                arena.push_numeric(Decimal { mantissa, scale: load(slot.word() + 2) as u8 })
            }
            _ => Datum::Int(slot.extract(word)),
        }
    }
}

/// Returns the three words of a decimal in a row.
pub fn words_of_decimal(decimal: Decimal) -> [u64; 3] {
    [decimal.mantissa as u64, (decimal.mantissa >> 64) as u64, decimal.scale.into()]
}

/// Adds the bytes of a variable column, whose fixed part is a word, to an arena.
fn push_variable(word: u64, words: usize, load: impl Fn(usize) -> u64, arena: &mut Arena) -> Datum {
    let (start, length) = ((word as u32 as usize) / 8, (word >> 32) as usize);
    let available = words.saturating_sub(start);
    let length = length.min(available * 8);
    arena.push_words((start..start + length.div_ceil(8)).map(load), length)
}

/// Returns the numeric of some bytes, which end an arena. A reader that races with a writer may see bytes of
/// no numeric; it gets NaN, and validates afterwards.
#[inline(never)]
fn read_long(bytes: Datum, arena: &mut Arena) -> Datum {
    let Datum::Bytes(span) = bytes else { return bytes };
    let value = Numeric::of_stored(arena.bytes(span)).unwrap_or(Numeric::NaN);
    arena.drop_last_bytes(span);
    arena.push_numeric(value)
}

/// Returns bytes as little-endian words, the last one padded with zeros.
#[inline]
pub fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (whole, rest) = bytes.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| {
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(padded)
    });
    whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_from_datum;

    #[test]
    fn columns_stay_inside_words() {
        let types = [
            ScalarType::Boolean,
            ScalarType::Text,
            ScalarType::SmallInt,
            ScalarType::AnyNumeric,
            ScalarType::Integer,
            ScalarType::Numeric { precision: 12, scale: 2 },
            ScalarType::Double,
        ];
        let mut columns: Vec<_> = types.iter().map(|ty| (Type::Scalar(*ty), true)).collect();
        columns.push((Type::Array(ScalarType::Text), true));
        let layout = RowLayout::new(&columns);
        for slot in layout.slots() {
            let width = slot.kind.width().min(8);
            assert!(usize::from(slot.offset) % 8 + width <= 8, "{slot:?}");
        }
        let mut arena = Arena::default();
        let wide = arena.push_numeric(Decimal::new(-(10i128.pow(30)), 7).unwrap());
        let long = arena.push_numeric("-1.5e300".parse::<Numeric>().unwrap());
        let nan = arena.push_numeric(Numeric::NaN);
        let text = arena.push_bytes("Überweisung über 10 €".as_bytes());
        let array = arena.push_array(&[Datum::Null, text, wide, Datum::Int(-300), Datum::Double(0.25)]);
        let row_of = |numeric| {
            vec![
                Datum::boolean(true),
                text,
                Datum::Int(-7),
                numeric,
                Datum::Int(-70_000),
                Datum::Int(-123_456),
                Datum::Double(-0.5),
                array,
            ]
        };
        let rows = [row_of(wide), row_of(long), row_of(nan), vec![Datum::Null; 8]];
        for row in rows {
            let mut words = Vec::new();
            layout.encode(&row, &arena, &mut words);
            assert_eq!(layout.used_words(|word| words[word]), words.len());
            let mut back = Arena::default();
            for (slot, expected) in layout.slots().iter().zip(&row) {
                let read = RowLayout::decode(*slot, words.len(), |word| words[word], &mut back);
                match expected {
                    Datum::Bytes(span) => assert_eq!(back.datum_bytes(read), arena.bytes(*span)),
                    Datum::Array(_) => {
                        let ty = Type::Array(ScalarType::Text);
                        let shown = |array, arena| value_from_datum(array, ty, arena);
                        assert_eq!(shown(read, &back), shown(*expected, &arena));
                    }
                    Datum::Wide(_) => assert_eq!(back.numeric(read, 0), arena.numeric(*expected, 0)),
                    other => assert_eq!(read, *other),
                }
            }
        }
    }
}
