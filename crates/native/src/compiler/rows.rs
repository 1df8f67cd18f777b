//! Rows that code writes: their words, and the sums that their checksums follow from.
//!
//! Source: `catalog::RowLayout` and `catalog::RowHash`, whose words and sums these are. Held by:
//! `compiled_procedures_agree_with_the_interpreter`.

use super::Compiler;
use super::keys::KeyCode;
use super::values::Val;
use catalog::{ChangedWord, ColumnKind, ColumnSlot, RowHash, Table};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use std::collections::BTreeMap;

/// Some bits of a word: the mask, and the bits of values. Bits of the mask that no value has are zero.
type Bits = (u64, Option<Value>);

/// The sum of a row's words so far.
struct Sum {
    /// The part that does not depend on values.
    constant: u64,
    value: Option<Value>,
    /// Number of words so far.
    words: usize,
}

impl Sum {
    fn of(table: &Table) -> Self {
        let mut sum = Self { constant: 0, value: None, words: 0 };
        sum.add_constant(table.id.0.into());
        sum
    }

    fn add_constant(&mut self, word: u64) {
        self.constant = self.constant.wrapping_add(word.wrapping_mul(RowHash::factor(self.words)));
        self.words += 1;
    }
}

impl Compiler<'_, '_> {
    /// Adds bits to a word.
    pub(super) fn add_to_word(&mut self, word: &mut Option<Value>, bits: Value) {
        *word = Some(match *word {
            Some(word) => self.builder.ins().bor(word, bits),
            None => bits,
        });
    }

    /// Adds the bits of a fixed column, and its NULL flag, to the words of a row.
    fn add_column(&mut self, slot: ColumnSlot, val: Val, words: &mut BTreeMap<usize, Bits>) {
        if let Some(bit) = slot.null_bit {
            let (mask, bits) = words.entry(bit as usize / 64).or_default();
            *mask |= 1 << (bit % 64);
            if val.may_be_null() {
                let is_null = self.is_null(val);
                let flag = self.builder.ins().uextend(types::I64, is_null);
                let flag = self.builder.ins().ishl_imm_u(flag, i64::from(bit % 64));
                self.add_to_word(bits, flag);
            }
        }
        if slot.kind.is_variable() {
            return;
        }
        let mut value = val.value;
        if val.may_be_null() {
            let (is_null, zero) = (self.is_null(val), self.word(0));
            value = self.builder.ins().select(is_null, zero, value);
        }
        let own = slot.deposit(0, -1);
        if own != u64::MAX {
            value = self.builder.ins().band_imm_u(value, (own >> slot.shift()) as i64);
        }
        let value = self.builder.ins().ishl_imm_u(value, i64::from(slot.shift()));
        let (mask, bits) = words.entry(slot.word()).or_default();
        *mask |= own;
        self.add_to_word(bits, value);
    }

    /// Stores words on the stack, and returns their address.
    fn on_stack(&mut self, words: &[Option<Value>]) -> Value {
        let size = 8 * words.len().max(1) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        let base = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, word) in words.iter().enumerate() {
            let word = word.unwrap_or_else(|| self.word(0));
            self.store_at(word, base, index as i32 * 8);
        }
        base
    }

    /// Encodes the fixed columns of a row on the stack, as `RowLayout::encode` does, and returns their
    /// address. The words of variable columns stay 0.
    pub(super) fn fixed_columns(&mut self, table: &Table, row: &[Val]) -> Value {
        let mut words = BTreeMap::new();
        for (slot, val) in table.layout.slots().iter().zip(row) {
            self.add_column(*slot, *val, &mut words);
        }
        let word = |index| words.get(&index).and_then(|(_, bits)| *bits);
        let words: Vec<Option<Value>> = (0..table.layout.fixed_words()).map(word).collect();
        self.on_stack(&words)
    }

    /// Encodes the words that an update of fixed columns changes, as `ChangedWord`s on the stack. Returns
    /// their address and number.
    pub(super) fn changed_words(&mut self, table: &Table, changes: &[(usize, Val)]) -> [Value; 2] {
        const { assert!(size_of::<ChangedWord>() == 24) };
        let mut words = BTreeMap::new();
        for (column, val) in changes {
            self.add_column(table.layout.slots()[*column], *val, &mut words);
        }
        let changed = words.iter().flat_map(|(word, (mask, bits))| {
            let (word, mask) = (self.word(*word as u64), self.word(*mask));
            [Some(word), Some(mask), *bits]
        });
        let changed: Vec<Option<Value>> = changed.collect();
        [self.on_stack(&changed), self.word(words.len() as u64)]
    }

    /// Adds a word to a sum.
    fn add_to_sum(&mut self, sum: &mut Sum, word: Value) {
        let factor = self.word(RowHash::factor(sum.words));
        let product = self.builder.ins().imul(word, factor);
        sum.value = Some(match sum.value {
            Some(value) => self.builder.ins().iadd(value, product),
            None => product,
        });
        sum.words += 1;
    }

    /// Adds the value of a fixed column to a sum, as `RowHash::add_datum` does.
    fn add_value_to_sum(&mut self, sum: &mut Sum, kind: ColumnKind, val: Val) {
        let mut word = val.value;
        if kind == ColumnKind::Double {
            let double = self.builder.ins().bitcast(types::F64, MemFlagsData::new(), word);
            let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, double, double);
            let nan = self.word(f64::NAN.to_bits());
            word = self.builder.ins().select(is_nan, nan, word);
        }
        if val.may_be_null() {
            let (is_null, null) = (self.is_null(val), self.word(u64::MAX));
            word = self.builder.ins().select(is_null, null, word);
        }
        self.add_to_sum(sum, word);
    }

    /// Adds the bytes of a key to a sum, as `RowHash::add_bytes` does.
    fn add_key_to_sum(&mut self, sum: &mut Sum, key: &KeyCode) {
        let (whole, rest) = (key.length / 8, key.length % 8);
        sum.add_constant(key.length as u64);
        for word in &key.words[..whole] {
            let bytes = self.builder.ins().bswap(*word);
            self.add_to_sum(sum, bytes);
        }
        if rest == 0 {
            return;
        }
        let last = self.builder.ins().ushr_imm_u(key.words[whole], 64 - 8 * rest as i64);
        let Some(before) = whole.checked_sub(1) else {
            self.add_to_sum(sum, last);
            return;
        };
        // The last eight bytes.
        let before = self.builder.ins().ishl_imm_u(key.words[before], 8 * rest as i64);
        let both = self.builder.ins().bor(before, last);
        let bytes = self.builder.ins().bswap(both);
        self.add_to_sum(sum, bytes);
    }

    fn end_sum(&mut self, sum: &Sum) -> Value {
        let constant = self.word(sum.constant);
        match sum.value {
            Some(value) => self.builder.ins().iadd(value, constant),
            None => constant,
        }
    }

    /// Returns the sum of the leading integers of a new row.
    pub(super) fn sum_of_new_row(&mut self, table: &Table, row: &[Val]) -> Value {
        let mut sum = Sum::of(table);
        let leading = table.layout.leading_integers();
        for (slot, val) in table.layout.slots().iter().zip(row).take(leading) {
            self.add_value_to_sum(&mut sum, slot.kind, *val);
        }
        self.end_sum(&sum)
    }

    /// Returns the sum of an update of fixed columns.
    pub(super) fn sum_of_update(&mut self, table: &Table, key: &KeyCode, changes: &[(usize, Val)]) -> Value {
        let mut sum = Sum::of(table);
        self.add_key_to_sum(&mut sum, key);
        for (column, val) in changes {
            sum.add_constant(*column as u64);
            self.add_value_to_sum(&mut sum, table.layout.slots()[*column].kind, *val);
        }
        self.end_sum(&sum)
    }
}
