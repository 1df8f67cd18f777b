//! Digests: one order-independent hash per table, equal for equal contents.
//!
//! A row's hash depends on its column values alone. The digest does not depend on the rows' layout in memory,
//! the order of inserts or the indexes.

use crate::RowWords;
use catalog::{Arena, ColumnSlot, Datum, RowLayout, Table};
use std::fmt;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The digest of one table, built row by row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableDigest {
    /// Number of rows.
    pub rows: u64,
    /// Wrapping sum of the rows' hashes.
    pub hash: u128,
}

/// The digests of all tables, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    /// Tables and their digests, in the order of the names.
    pub tables: Vec<(String, TableDigest)>,
}

impl TableDigest {
    /// Returns the hash of one row.
    pub fn hash_row(table: &Table, row: RowWords<'_>, arena: &mut Arena, scratch: &mut Vec<u8>) -> u128 {
        Self::hash_columns(table, scratch, arena, |slot, arena| row.column(slot, arena))
    }

    /// Returns the hash of one row that is given as the words of its image.
    pub fn hash_image(table: &Table, image: &[u64], arena: &mut Arena, scratch: &mut Vec<u8>) -> u128 {
        Self::hash_columns(table, scratch, arena, |slot, arena| {
            RowLayout::decode(slot, image.len(), |word| image[word], arena)
        })
    }

    fn hash_columns(
        table: &Table,
        scratch: &mut Vec<u8>,
        arena: &mut Arena,
        mut column: impl FnMut(ColumnSlot, &mut Arena) -> Datum,
    ) -> u128 {
        scratch.clear();
        for slot in table.layout.slots() {
            let value = column(*slot, arena);
            write_value(value, arena, scratch);
        }
        xxh3_128_with_seed(scratch, table.columns.len() as u64)
    }

    /// Adds the digest of another part of the table.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// Appends the bytes of a value that are hashed.
fn write_value(value: Datum, arena: &Arena, out: &mut Vec<u8>) {
    match value {
        Datum::Null => out.push(0),
        Datum::Int(value) => {
            out.push(1);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Datum::Double(value) => {
            out.push(2);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        Datum::Bytes(span) => {
            out.push(3);
            out.extend_from_slice(&span.length.to_le_bytes());
            out.extend_from_slice(arena.bytes(span));
        }
        Datum::Wide(_) => {
            let value = arena.numeric(value, 0).expect("only numerics are wide");
            match value.short() {
                Some(decimal) => {
                    out.push(4);
                    out.push(decimal.scale);
                    out.extend_from_slice(&decimal.mantissa.to_le_bytes());
                }
                None => {
                    let bytes = value.stored();
                    out.push(6);
                    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    out.extend_from_slice(&bytes);
                }
            }
        }
        Datum::Array(span) => {
            out.push(5);
            out.extend_from_slice(&span.length.to_le_bytes());
            arena.elements(span).iter().for_each(|element| write_value(*element, arena, out));
        }
    }
}

impl fmt::Display for Digest {
    /// Formats one hash over all tables: 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        for (name, table) in &self.tables {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            bytes.extend_from_slice(&table.rows.to_le_bytes());
            bytes.extend_from_slice(&table.hash.to_le_bytes());
        }
        write!(f, "{:032x}", xxh3_128_with_seed(&bytes, 0))
    }
}
