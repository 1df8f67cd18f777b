//! Keys of point accesses. Keys of columns with a fixed width are encoded in code, on the stack; the host
//! encodes keys with further columns in the frame.
//!
//! Source: `catalog::key`, whose bytes these are. Held by:
//! `compiled_procedures_agree_with_the_interpreter`.

use super::Compiler;
use super::values::Val;
use crate::calls::Call;
use catalog::{ScalarType, Table, Type};
use cranelift_codegen::ir::{Block, InstBuilder, StackSlotData, StackSlotKind, Value, types};
use procedure::{Expression, OperationId};

/// The code of a key.
pub(super) struct KeyCode {
    /// Its address and length; the null pointer stands for the key in the frame.
    pub(super) place: [Value; 2],
    /// Its bytes as big-endian words, padded with zeros; none for the key in the frame.
    pub(super) words: Vec<Value>,
    /// Its length in bytes.
    pub(super) length: usize,
}

/// Returns the width of a column in keys, in bits; `None` if the host encodes it.
fn fixed(ty: Type) -> Option<u32> {
    let ty = ty.scalar()?;
    match ty {
        ScalarType::Boolean => Some(8),
        ScalarType::SmallInt => Some(16),
        ScalarType::Integer | ScalarType::Date => Some(32),
        ScalarType::BigInt
        | ScalarType::Time
        | ScalarType::Oid
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::ShortTimestamp { .. } => Some(64),
        ScalarType::Numeric { .. } if ty.is_machine_numeric() => Some(64),
        _ => None,
    }
}

/// Returns the widths of the columns of a primary key, in bits; `None` if the host encodes it.
pub(super) fn widths_of_key(table: &Table) -> Option<Vec<u32>> {
    table.primary().columns.iter().map(|column| fixed(table.columns[*column].ty)).collect()
}

impl Compiler<'_, '_> {
    /// Compiles the key of a point access. Goes to a block if a value is NULL.
    pub(super) fn key(
        &mut self,
        id: OperationId,
        table: &Table,
        values: &[Expression],
        absent: Block,
    ) -> KeyCode {
        let values: Vec<Val> = values.iter().map(|value| self.key_value(value, absent)).collect();
        if let Some(widths) = widths_of_key(table) {
            return self.encode_key(table, &widths, &values);
        }
        let (passed, count) = (self.pass(&values), self.word(values.len() as u64));
        let id = self.word(id.0.into());
        self.call(Call::EncodeKey, &[id, passed, count]);
        KeyCode { place: [self.word(0), self.word(0)], words: Vec::new(), length: 0 }
    }

    /// Encodes a primary key on the stack. No value is NULL.
    pub(super) fn encode_key(&mut self, table: &Table, widths: &[u32], values: &[Val]) -> KeyCode {
        let mut words = Vec::new();
        let mut bits = 0;
        for ((column, width), val) in table.primary().columns.iter().zip(widths).zip(values) {
            // The byte of a column that is not NULL is zero.
            bits += if table.columns[*column].nullable { 8 } else { 0 };
            let value = self.key_column(val.value, *width);
            self.append_bits(value, *width, &mut bits, &mut words);
        }
        let length = bits as usize / 8;
        words.resize_with(length.div_ceil(8), || None);
        let words: Vec<Value> = words.into_iter().map(|word| word.unwrap_or_else(|| self.word(0))).collect();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8 * words.len() as u32, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        let base = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, word) in words.iter().enumerate() {
            let bytes = self.bytes_of(*word);
            self.store_at(bytes, base, 8 * index as i32);
        }
        KeyCode { place: [base, self.word(length as u64)], words, length }
    }

    /// Appends bits to big-endian words of which `filled` bits are in use.
    fn append_bits(&mut self, value: Value, width: u32, filled: &mut u32, words: &mut Vec<Option<Value>>) {
        let mut left = width;
        while left > 0 {
            let (word, room) = (*filled as usize / 64, 64 - *filled % 64);
            let own = left.min(room);
            words.resize(words.len().max(word + 1), None);
            // The first bits go into this word, the rest into the next one.
            let shifted = match i64::from(room) - i64::from(left) {
                0 => value,
                up @ 1.. => self.builder.ins().ishl_imm_u(value, up),
                down => self.builder.ins().ushr_imm_u(value, -down),
            };
            let mut place = words[word];
            self.add_to_word(&mut place, shifted);
            words[word] = place;
            (left, *filled) = (left - own, *filled + own);
        }
    }

    /// Returns the word whose bytes in memory are those of a big-endian word.
    fn bytes_of(&mut self, word: Value) -> Value {
        if cfg!(target_endian = "little") { self.builder.ins().bswap(word) } else { word }
    }

    /// Compiles one value of a key.
    fn key_value(&mut self, value: &Expression, absent: Block) -> Val {
        let val = self.expression(value);
        if val.may_be_null() {
            let is_null = self.is_null(val);
            self.branch_to(is_null, absent);
        }
        val
    }

    /// Returns an unsigned integer of a width, such that integers compare as the values do.
    fn key_column(&mut self, value: Value, width: u32) -> Value {
        let flipped = match width {
            8 => value,
            _ => {
                let sign = self.word(1 << (width - 1));
                self.builder.ins().bxor(value, sign)
            }
        };
        if width == 64 { flipped } else { self.builder.ins().band_imm_u(flipped, (1 << width) - 1) }
    }

    /// Announces the rows of operations. A key that can't be evaluated announces nothing.
    pub(super) fn expect_rows(&mut self, ahead: &[OperationId]) {
        let code = self.source.code;
        for id in ahead {
            let operation = &code.operations[id.0 as usize];
            let Some(values) = operation.point_key() else { continue };
            let next = self.builder.create_block();
            // A failure of this key goes on to the next one.
            let failed = std::mem::replace(&mut self.failed, next);
            let [key, length] = self.key(*id, operation.table(), values, next).place;
            let number = self.word(id.0.into());
            self.call(Call::Expect, &[number, key, length]);
            self.builder.ins().jump(next, &[]);
            self.failed = failed;
            self.builder.switch_to_block(next);
        }
    }
}
