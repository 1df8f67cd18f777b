//! Values in code: a tag, which may be known, and a word.

use super::{Compiler, PLAIN};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Value, types,
};

/// The tag of NULL.
pub(super) const NULL: u32 = 0;
/// The tag of integers and scaled integers.
pub(super) const INT: u32 = 1;
/// The tag of doubles.
pub(super) const DOUBLE: u32 = 2;
/// The tag of texts and other bytes.
pub(super) const BYTES: u32 = 3;
/// The tag of arrays.
pub(super) const ARRAY: u32 = 5;

/// The tag of a value.
#[derive(Clone, Copy)]
pub(super) enum Tag {
    Known(u32),
    Loaded(Value),
}

/// A value: as `Datum`.
#[derive(Clone, Copy)]
pub(super) struct Val {
    pub(super) tag: Tag,
    pub(super) value: Value,
}

impl Val {
    pub(super) fn of(tag: Value, value: Value) -> Self {
        Self { tag: Tag::Loaded(tag), value }
    }

    pub(super) fn known(tag: u32, value: Value) -> Self {
        Self { tag: Tag::Known(tag), value }
    }

    /// Returns whether it may be NULL.
    pub(super) fn may_be_null(self) -> bool {
        match self.tag {
            Tag::Known(tag) => tag == NULL,
            Tag::Loaded(_) => true,
        }
    }
}

impl Compiler<'_, '_> {
    pub(super) fn null(&mut self) -> Val {
        let value = self.word(0);
        Val::known(NULL, value)
    }

    pub(super) fn int(&mut self, value: Value) -> Val {
        Val::known(INT, value)
    }

    /// Returns the boolean of a condition.
    pub(super) fn boolean(&mut self, condition: Value) -> Val {
        let value = self.builder.ins().uextend(types::I64, condition);
        Val::known(INT, value)
    }

    /// Returns the tag of a value.
    pub(super) fn tag(&mut self, val: Val) -> Value {
        match val.tag {
            Tag::Known(tag) => self.builder.ins().iconst(types::I32, i64::from(tag)),
            Tag::Loaded(tag) => tag,
        }
    }

    /// Returns whether a value has a tag.
    pub(super) fn has_tag(&mut self, val: Val, tag: u32) -> Value {
        match val.tag {
            Tag::Known(own) => self.builder.ins().iconst(types::I8, i64::from(own == tag)),
            Tag::Loaded(own) => self.builder.ins().icmp_imm_s(IntCC::Equal, own, i64::from(tag)),
        }
    }

    /// Returns whether a value is NULL.
    pub(super) fn is_null(&mut self, val: Val) -> Value {
        self.has_tag(val, NULL)
    }

    /// Returns whether a value is true.
    pub(super) fn is_true(&mut self, val: Val) -> Value {
        let is_one = self.builder.ins().icmp_imm_s(IntCC::Equal, val.value, 1);
        match val.tag {
            Tag::Known(INT) => is_one,
            _ => {
                let is_int = self.has_tag(val, INT);
                self.builder.ins().band(is_one, is_int)
            }
        }
    }

    /// Returns whether a value is false.
    pub(super) fn is_false(&mut self, val: Val) -> Value {
        let is_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, val.value, 0);
        match val.tag {
            Tag::Known(INT) => is_zero,
            _ => {
                let is_int = self.has_tag(val, INT);
                self.builder.ins().band(is_zero, is_int)
            }
        }
    }

    /// Stores a datum.
    pub(super) fn store_datum(&mut self, val: Val, base: Value, offset: i32) {
        let tag = self.tag(val);
        self.store_at(tag, base, offset);
        self.store_at(val.value, base, offset + 8);
    }

    /// Creates a stack slot for datums.
    pub(super) fn datums(&mut self, count: usize) -> StackSlot {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 16 * count as u32, 4);
        self.builder.create_sized_stack_slot(data)
    }

    /// Creates a block that a value arrives at.
    pub(super) fn merge_block(&mut self) -> Block {
        let block = self.builder.create_block();
        self.builder.append_block_param(block, types::I32);
        self.builder.append_block_param(block, types::I64);
        block
    }

    /// Returns the arguments of a jump to a block that a value arrives at.
    pub(super) fn merged(&mut self, val: Val) -> [BlockArg; 2] {
        let tag = self.tag(val);
        [tag.into(), val.value.into()]
    }

    /// Jumps to a block that a value arrives at.
    pub(super) fn jump_with(&mut self, block: Block, val: Val) {
        let arguments = self.merged(val);
        self.builder.ins().jump(block, &arguments);
    }

    /// Goes on in a block that a value arrives at.
    pub(super) fn arrive(&mut self, block: Block) -> Val {
        self.builder.switch_to_block(block);
        let parameters = self.builder.block_params(block);
        Val::of(parameters[0], parameters[1])
    }

    /// Returns what `make` returns; NULL if one of the operands is NULL.
    pub(super) fn unless_null(&mut self, operands: &[Val], make: impl FnOnce(&mut Self) -> Val) -> Val {
        let nullable: Vec<Val> = operands.iter().copied().filter(|val| val.may_be_null()).collect();
        let Some((first, further)) = nullable.split_first() else { return make(self) };
        let mut any = self.is_null(*first);
        for val in further {
            let is_null = self.is_null(*val);
            any = self.builder.ins().bor(any, is_null);
        }
        let (merge, next) = (self.merge_block(), self.builder.create_block());
        let null = self.null();
        let null = self.merged(null);
        self.builder.ins().brif(any, merge, &null, next, &[]);
        self.builder.switch_to_block(next);
        let val = make(self);
        self.jump_with(merge, val);
        self.arrive(merge)
    }

    /// Loads a datum from memory.
    pub(super) fn load_datum(&mut self, base: Value) -> Val {
        let tag = self.builder.ins().load(types::I32, PLAIN, base, 0);
        let value = self.builder.ins().load(types::I64, PLAIN, base, 8);
        Val::of(tag, value)
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use catalog::{Datum, Span};

    #[test]
    fn datums_lie_as_code_expects() {
        let span = Span { start: 7, length: 9 };
        let datums = [
            (Datum::Int(-5), INT, -5i64 as u64),
            (Datum::Double(1.5), DOUBLE, 1.5f64.to_bits()),
            (Datum::Bytes(span), BYTES, 7 | 9 << 32),
            (Datum::Array(span), ARRAY, 7 | 9 << 32),
        ];
        for (datum, tag, value) in datums {
            let start = std::ptr::from_ref(&datum).cast::<u8>();
            // SAFETY: a datum begins with its tag; these kinds have a value of eight bytes from byte 8 on.
            let (own_tag, own) = unsafe { (start.cast::<u32>().read(), start.add(8).cast::<u64>().read()) };
            assert_eq!((own_tag, own), (tag, value), "{datum:?}");
        }
        assert_eq!((size_of::<Datum>(), align_of::<Datum>()), (16, 8));
        let null = Datum::Null;
        // SAFETY: every datum has a tag.
        assert_eq!(unsafe { std::ptr::from_ref(&null).cast::<u32>().read() }, NULL);
    }
}
