//! Updates columns in place, and rebuilds rows that no longer fit.

use super::{Change, Record, RowWords};
use catalog::{Arena, ChangedWord, ColumnKind, ColumnSlot, Datum, Numeric, RowLayout};

impl Record<'_> {
    /// Applies an update's changes, in order. The caller holds the lock, or the record is not shared yet.
    pub fn apply(self, layout: &RowLayout, changes: impl Iterator<Item = Change> + Clone, arena: &Arena) {
        let row = self.row();
        let mut outgrown = false;
        for Change { slot, datum } in changes.clone() {
            match datum {
                Datum::Int(value) if slot.is_plain_integer() => {
                    row.store(slot.word(), slot.deposit(row.load(slot.word()), value));
                }
                _ => outgrown |= !write_in_place(row, slot, datum, arena),
            }
        }
        if outgrown {
            let image = rebuilt_image(row, layout, changes, arena);
            self.write_image(&image);
        }
    }
}

impl Record<'_> {
    /// Changes words of the row. The caller holds the lock.
    #[inline]
    pub fn change_words(self, words: &[ChangedWord]) {
        let row = self.row();
        for ChangedWord { word, mask, bits } in words {
            row.store(*word as usize, row.load(*word as usize) & !mask | bits);
        }
    }
}

fn set_null(row: RowWords<'_>, slot: ColumnSlot, null: bool) {
    if let Some(bit) = slot.null_bit {
        let (word, mask) = (bit as usize / 64, 1 << (bit % 64));
        let old = row.load(word);
        row.store(word, if null { old | mask } else { old & !mask });
    }
}

/// Writes bytes in place; returns false when they need more room than the old ones.
fn write_bytes_in_place(row: RowWords<'_>, word: usize, bytes: &[u8]) -> bool {
    let old = row.load(word);
    let (start, old_length) = (old as u32 as usize / 8, (old >> 32) as usize);
    if bytes.len().div_ceil(8) > old_length.div_ceil(8) {
        return false;
    }
    row.store(word, old & 0xffff_ffff | (bytes.len() as u64) << 32);
    for (index, word) in catalog::words_of(bytes).enumerate() {
        row.store(start + index, word);
    }
    true
}

/// Writes a numeric in place; returns false when its bytes need more room than the old ones.
fn write_numeric_in_place(row: RowWords<'_>, word: usize, value: &Numeric) -> bool {
    match value.short() {
        Some(decimal) => {
            for (index, value) in catalog::words_of_decimal(decimal).into_iter().enumerate() {
                row.store(word + index, value);
            }
            true
        }
        // Only a long numeric has a place in the variable part.
        None => row.load(word + 2) == catalog::LONG && write_bytes_in_place(row, word, &value.stored()),
    }
}

/// Writes one column in place; returns false when its bytes need more room than the old ones.
fn write_in_place(row: RowWords<'_>, slot: ColumnSlot, datum: Datum, arena: &Arena) -> bool {
    let word = slot.word();
    match datum {
        Datum::Bytes(span) => {
            if !write_bytes_in_place(row, word, arena.bytes(span)) {
                return false;
            }
        }
        Datum::Array(span) => {
            let mut bytes = Vec::new();
            catalog::write_elements(span, arena, &mut bytes);
            if !write_bytes_in_place(row, word, &bytes) {
                return false;
            }
        }
        Datum::Double(value) => row.store(word, value.to_bits()),
        Datum::Int(_) | Datum::Wide(_) if slot.kind == ColumnKind::Wide => {
            let value = arena.numeric(datum, 0).expect("a numeric column is given numerics");
            if !write_numeric_in_place(row, word, &value) {
                return false;
            }
        }
        Datum::Int(value) => row.store(word, slot.deposit(row.load(word), value)),
        Datum::Null | Datum::Wide(_) => {}
    }
    set_null(row, slot, datum.is_null());
    true
}

/// Returns an image of the row with all changes.
fn rebuilt_image(
    row: RowWords<'_>,
    layout: &RowLayout,
    changes: impl Iterator<Item = Change> + Clone,
    arena: &Arena,
) -> Vec<u64> {
    let mut merged = Arena::default();
    let datums: Vec<Datum> = layout
        .slots()
        .iter()
        .map(|slot| match changes.clone().filter(|change| change.slot == *slot).last() {
            Some(change) => merged.adopt(change.datum, arena),
            None => row.column(*slot, &mut merged),
        })
        .collect();
    let mut image = Vec::new();
    layout.encode(&datums, &merged, &mut image);
    image
}
