//! Keys of point accesses. Keys of columns with a fixed width are encoded in code, on the stack; the host
//! encodes keys with further columns in the frame.
//!
//! Source: `catalog::key`, whose bytes these are. Held by:
//! `compiled_procedures_agree_with_the_interpreter`.

use super::Compiler;
use super::values::Val;
use crate::calls::Call;
use catalog::{ScalarType, Table};
use cranelift_codegen::ir::{
    Block, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Type, Value, types,
};
use procedure::{Expression, OperationId};

/// Returns the representation of an integer column in keys; `None` if the host encodes it.
fn fixed(ty: ScalarType) -> Option<Type> {
    match ty {
        ScalarType::Boolean => Some(types::I8),
        ScalarType::SmallInt => Some(types::I16),
        ScalarType::Integer | ScalarType::Date => Some(types::I32),
        ScalarType::BigInt
        | ScalarType::Timestamp
        | ScalarType::Timestamptz
        | ScalarType::ShortTimestamp { .. } => Some(types::I64),
        ScalarType::Numeric { .. } if ty.is_machine_numeric() => Some(types::I64),
        _ => None,
    }
}

/// Returns the representations of the columns of a primary key; `None` if the host encodes it.
pub(super) fn widths_of_key(table: &Table) -> Option<Vec<Type>> {
    table.primary().columns.iter().map(|column| fixed(table.columns[*column].ty)).collect()
}

impl Compiler<'_, '_> {
    /// Compiles the key of a point access, and returns its address and length. The null pointer stands for
    /// the key in the frame. Goes to a block if a value is NULL.
    pub(super) fn key(
        &mut self,
        id: OperationId,
        table: &Table,
        values: &[Expression],
        absent: Block,
    ) -> [Value; 2] {
        let values: Vec<Val> = values.iter().map(|value| self.key_value(value, absent)).collect();
        if let Some(widths) = widths_of_key(table) {
            return self.encode_key(table, &widths, &values);
        }
        let (passed, count) = (self.pass(&values), self.word(values.len() as u64));
        let id = self.word(id.0.into());
        self.call(Call::EncodeKey, &[id, passed, count]);
        [self.word(0), self.word(0)]
    }

    /// Encodes a primary key on the stack, and returns its address and length. No value is NULL.
    pub(super) fn encode_key(&mut self, table: &Table, widths: &[Type], values: &[Val]) -> [Value; 2] {
        let columns = table.primary().columns.iter().map(|column| &table.columns[*column]);
        let columns: Vec<_> = columns.collect();
        let lengths = columns.iter().zip(widths);
        let length = lengths.map(|(column, width)| u32::from(column.nullable) + width.bytes()).sum();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, length, 3);
        let slot = self.builder.create_sized_stack_slot(slot);
        let base = self.builder.ins().stack_addr(types::I64, slot, 0);
        let mut offset = 0;
        for ((column, width), val) in columns.iter().zip(widths).zip(values) {
            if column.nullable {
                let not_null = self.builder.ins().iconst(types::I8, 0);
                self.store_bytes(not_null, base, offset);
                offset += 1;
            }
            let encoded = self.key_column(val.value, *width);
            self.store_bytes(encoded, base, offset);
            offset += width.bytes() as i32;
        }
        [base, self.word(length.into())]
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

    /// Stores bytes that are not aligned.
    fn store_bytes(&mut self, value: Value, base: Value, offset: i32) {
        self.builder.ins().store(MemFlagsData::new().with_notrap(), value, base, offset);
    }

    /// Returns an integer such that its bytes in memory compare as integers do.
    fn key_column(&mut self, value: Value, width: Type) -> Value {
        let narrow = match width {
            types::I64 => value,
            _ => self.builder.ins().ireduce(width, value),
        };
        if width == types::I8 {
            return narrow;
        }
        let sign = self.builder.ins().iconst(width, 1i64 << (width.bits() - 1));
        let flipped = self.builder.ins().bxor(narrow, sign);
        if cfg!(target_endian = "little") { self.builder.ins().bswap(flipped) } else { flipped }
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
            let [key, length] = self.key(*id, operation.table(), values, next);
            let number = self.word(id.0.into());
            self.call(Call::Expect, &[number, key, length]);
            self.builder.ins().jump(next, &[]);
            self.failed = failed;
            self.builder.switch_to_block(next);
        }
    }
}
