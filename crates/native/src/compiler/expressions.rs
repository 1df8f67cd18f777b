//! Expressions. Integers, booleans, doubles, NULLs and elements of arrays are computed in code; texts,
//! decimals, dates and most functions are applied by the host.

use super::values::{ARRAY, DOUBLE, INT, NULL, Tag, Val};
use super::{Compiler, MOST_ARGUMENTS, with_stack};
use crate::calls::Call;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value, types};
use procedure::{
    ArithmeticOperator, Cast, CompareClass, CompareOperator, Expression, Function, NumberClass, Refusal,
};

/// Returns the condition of an operator on integers.
fn int_condition(operator: CompareOperator) -> IntCC {
    match operator {
        CompareOperator::Equal => IntCC::Equal,
        CompareOperator::NotEqual => IntCC::NotEqual,
        CompareOperator::Less => IntCC::SignedLessThan,
        CompareOperator::LessOrEqual => IntCC::SignedLessThanOrEqual,
        CompareOperator::Greater => IntCC::SignedGreaterThan,
        CompareOperator::GreaterOrEqual => IntCC::SignedGreaterThanOrEqual,
    }
}

/// Returns the condition of an operator on doubles that are numbers.
fn double_condition(operator: CompareOperator) -> FloatCC {
    match operator {
        CompareOperator::Equal => FloatCC::Equal,
        CompareOperator::NotEqual => FloatCC::NotEqual,
        CompareOperator::Less => FloatCC::LessThan,
        CompareOperator::LessOrEqual => FloatCC::LessThanOrEqual,
        CompareOperator::Greater => FloatCC::GreaterThan,
        CompareOperator::GreaterOrEqual => FloatCC::GreaterThanOrEqual,
    }
}

/// Returns the error of an integer type whose greatest value this is.
fn refusal_of(most: i64) -> Refusal {
    match most {
        0x7fff => Refusal::SmallInt,
        0x7fff_ffff => Refusal::Integer,
        _ => Refusal::BigInt,
    }
}

impl Compiler<'_, '_> {
    /// Compiles an expression.
    pub(super) fn expression(&mut self, expression: &Expression) -> Val {
        match expression {
            Expression::Constant(datum) => self.constant(*datum),
            Expression::Register(register) => self.get(*register),
            _ => with_stack(|| self.inner_expression(expression)),
        }
    }

    fn inner_expression(&mut self, expression: &Expression) -> Val {
        match expression {
            Expression::Constant(datum) => self.constant(*datum),
            Expression::Register(register) => self.get(*register),
            Expression::Bytes(_) | Expression::Numeric(_) | Expression::Value => self.apply(expression, &[]),
            Expression::Domain(own) => {
                let value = self.expression(&own.operand);
                self.apply(expression, &[value])
            }
            Expression::Arithmetic { operator, class, operands } => {
                let (left, right) = (self.expression(&operands[0]), self.expression(&operands[1]));
                self.unless_null(&[left, right], |own| {
                    own.arithmetic(expression, *operator, *class, [left, right])
                })
            }
            Expression::Compare { operator, class, operands } => {
                let (left, right) = (self.expression(&operands[0]), self.expression(&operands[1]));
                self.unless_null(&[left, right], |own| {
                    own.comparison(expression, *operator, *class, [left, right])
                })
            }
            Expression::Distinct { class, operands } => {
                let (left, right) = (self.expression(&operands[0]), self.expression(&operands[1]));
                match class {
                    CompareClass::Int => self.are_distinct(left, right),
                    _ => self.apply(expression, &[left, right]),
                }
            }
            Expression::And(operands) => self.connective(operands, false),
            Expression::Or(operands) => self.connective(operands, true),
            Expression::Not(operand) => {
                let val = self.expression(operand);
                self.unless_null(&[val], |own| {
                    let is_true = own.is_true(val);
                    let is_false = own.builder.ins().bxor_imm_u(is_true, 1);
                    own.boolean(is_false)
                })
            }
            Expression::IsNull(operand) => {
                let val = self.expression(operand);
                let is_null = self.is_null(val);
                self.boolean(is_null)
            }
            Expression::Cast { cast, operand } => {
                let val = self.expression(operand);
                self.cast(expression, *cast, val)
            }
            Expression::Case { branches, otherwise } => self.case(branches, otherwise),
            Expression::Coalesce(items) => self.coalesce(items),
            Expression::Element(operands) => {
                let (array, index) = (self.expression(&operands[0]), self.expression(&operands[1]));
                self.element(array, index)
            }
            Expression::Array(items) => {
                let items: Vec<Val> = items.iter().map(|item| self.expression(item)).collect();
                self.apply(expression, &items)
            }
            Expression::Quantified { operands, .. } => {
                let (value, array) = (self.expression(&operands[0]), self.expression(&operands[1]));
                self.apply(expression, &[value, array])
            }
            Expression::Function { function, arguments } => self.function(expression, *function, arguments),
            Expression::Watched(watched) => self.expression(watched.expression()),
        }
    }

    fn constant(&mut self, datum: catalog::Datum) -> Val {
        match datum {
            catalog::Datum::Null => self.null(),
            catalog::Datum::Int(value) => {
                let value = self.word(value as u64);
                self.int(value)
            }
            catalog::Datum::Double(value) => {
                let value = self.word(value.to_bits());
                Val::known(DOUBLE, value)
            }
            other => unreachable!("{other:?} is no constant, as it lies in an arena"),
        }
    }

    /// Applies an expression to the values of its operands, by the host.
    pub(super) fn apply(&mut self, expression: &Expression, operands: &[Val]) -> Val {
        let number = self.tables.parts.expressions.len();
        self.tables.parts.expressions.push(expression.without_operands());
        let (values, count) = (self.pass(operands), self.word(operands.len() as u64));
        let (number, slot) = (self.word(number as u64), self.result);
        let result = self.builder.ins().stack_addr(types::I64, slot, 0);
        self.try_call(Call::Apply, &[number, values, count, result]);
        self.load_datum(result)
    }

    /// Puts datums on the stack, and returns their address.
    pub(super) fn pass(&mut self, datums: &[Val]) -> Value {
        let slot = if datums.len() <= MOST_ARGUMENTS { self.arguments } else { self.datums(datums.len()) };
        let base = self.builder.ins().stack_addr(types::I64, slot, 0);
        for (index, datum) in datums.iter().enumerate() {
            self.store_datum(*datum, base, index as i32 * 16);
        }
        base
    }

    fn arithmetic(
        &mut self,
        expression: &Expression,
        operator: ArithmeticOperator,
        class: NumberClass,
        [left, right]: [Val; 2],
    ) -> Val {
        match class {
            NumberClass::Int { least, most } => {
                let value = self.int_arithmetic(operator, [left.value, right.value], least, most);
                self.int(value)
            }
            NumberClass::Machine { left_factor, right_factor } => {
                let a = self.builder.ins().imul_imm_s(left.value, left_factor);
                let b = self.builder.ins().imul_imm_s(right.value, right_factor);
                let value = match operator {
                    ArithmeticOperator::Add => self.builder.ins().iadd(a, b),
                    ArithmeticOperator::Subtract => self.builder.ins().isub(a, b),
                    _ => self.builder.ins().imul(a, b),
                };
                self.int(value)
            }
            NumberClass::Double if operator != ArithmeticOperator::Remainder => {
                self.double_arithmetic(expression, operator, [left, right])
            }
            NumberClass::Double
            | NumberClass::Real
            | NumberClass::Decimal { .. }
            | NumberClass::Date
            | NumberClass::Days => self.apply(expression, &[left, right]),
        }
    }

    fn int_arithmetic(
        &mut self,
        operator: ArithmeticOperator,
        [a, b]: [Value; 2],
        least: i64,
        most: i64,
    ) -> Value {
        let refusal = refusal_of(most);
        let (value, overflows) = match operator {
            ArithmeticOperator::Add => self.builder.ins().sadd_overflow(a, b),
            ArithmeticOperator::Subtract => self.builder.ins().ssub_overflow(a, b),
            ArithmeticOperator::Multiply => self.builder.ins().smul_overflow(a, b),
            ArithmeticOperator::Divide | ArithmeticOperator::Remainder => {
                return self.int_division(operator, [a, b], least, most);
            }
        };
        self.refuse_if(overflows, refusal);
        self.check_range(value, least, most, refusal);
        value
    }

    fn int_division(
        &mut self,
        operator: ArithmeticOperator,
        [a, b]: [Value; 2],
        least: i64,
        most: i64,
    ) -> Value {
        let is_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, b, 0);
        self.refuse_if(is_zero, Refusal::DivisionByZero);
        let is_minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, b, -1);
        if operator == ArithmeticOperator::Remainder {
            // The remainder by -1 is 0, as that by 1, which no processor refuses.
            let one = self.word(1);
            let divisor = self.builder.ins().select(is_minus_one, one, b);
            return self.builder.ins().srem(a, divisor);
        }
        let is_least = self.builder.ins().icmp_imm_s(IntCC::Equal, a, i64::MIN);
        let overflows = self.builder.ins().band(is_least, is_minus_one);
        self.refuse_if(overflows, refusal_of(most));
        let value = self.builder.ins().sdiv(a, b);
        self.check_range(value, least, most, refusal_of(most));
        value
    }

    /// Fails if an integer lies outside of bounds.
    fn check_range(&mut self, value: Value, least: i64, most: i64, refusal: Refusal) {
        if (least, most) == (i64::MIN, i64::MAX) {
            return;
        }
        let is_outside = self.is_outside(value, least, most);
        self.refuse_if(is_outside, refusal);
    }

    fn is_outside(&mut self, value: Value, least: i64, most: i64) -> Value {
        let distance = self.builder.ins().iadd_imm_s(value, least.wrapping_neg());
        let width = most.wrapping_sub(least);
        self.builder.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, distance, width)
    }

    /// Returns a word as a double.
    fn double(&mut self, value: Value) -> Value {
        self.builder.ins().bitcast(types::F64, MemFlagsData::new(), value)
    }

    /// Computes in code, and leaves results that may be refused to the host.
    fn double_arithmetic(
        &mut self,
        expression: &Expression,
        operator: ArithmeticOperator,
        [left, right]: [Val; 2],
    ) -> Val {
        let (a, b) = (self.double(left.value), self.double(right.value));
        let result = match operator {
            ArithmeticOperator::Add => self.builder.ins().fadd(a, b),
            ArithmeticOperator::Subtract => self.builder.ins().fsub(a, b),
            ArithmeticOperator::Multiply => self.builder.ins().fmul(a, b),
            _ => self.builder.ins().fdiv(a, b),
        };
        let word = self.builder.ins().bitcast(types::I64, MemFlagsData::new(), result);
        let magnitude = self.builder.ins().band_imm_s(word, i64::MAX);
        // Of numbers that are neither zero, infinite nor NaN, one less than the magnitude lies below this.
        let before = self.builder.ins().iadd_imm_s(magnitude, -1);
        let infinity = f64::INFINITY.to_bits() as i64;
        let is_plain = self.builder.ins().icmp_imm_s(IntCC::UnsignedLessThan, before, infinity - 1);
        let (merge, by_host) = (self.merge_block(), self.builder.create_block());
        let plain = Val::known(DOUBLE, word);
        let plain = self.merged(plain);
        self.builder.ins().brif(is_plain, merge, &plain, by_host, &[]);
        self.builder.switch_to_block(by_host);
        let val = self.apply(expression, &[left, right]);
        self.jump_with(merge, val);
        let merged = self.arrive(merge);
        Val::known(DOUBLE, merged.value)
    }

    fn comparison(
        &mut self,
        expression: &Expression,
        operator: CompareOperator,
        class: CompareClass,
        [left, right]: [Val; 2],
    ) -> Val {
        match class {
            CompareClass::Int => {
                let holds = self.builder.ins().icmp(int_condition(operator), left.value, right.value);
                self.boolean(holds)
            }
            CompareClass::Double => {
                let (a, b) = (self.double(left.value), self.double(right.value));
                let are_numbers = self.builder.ins().fcmp(FloatCC::Ordered, a, b);
                let holds = self.builder.ins().fcmp(double_condition(operator), a, b);
                let holds = self.boolean(holds);
                let (merge, by_host) = (self.merge_block(), self.builder.create_block());
                let holds = self.merged(holds);
                self.builder.ins().brif(are_numbers, merge, &holds, by_host, &[]);
                self.builder.switch_to_block(by_host);
                let val = self.apply(expression, &[left, right]);
                self.jump_with(merge, val);
                let merged = self.arrive(merge);
                self.int(merged.value)
            }
            CompareClass::Bytes
            | CompareClass::Json
            | CompareClass::Interval
            | CompareClass::Decimal { .. }
            | CompareClass::Array(_) => self.apply(expression, &[left, right]),
        }
    }

    fn are_distinct(&mut self, left: Val, right: Val) -> Val {
        let (left_null, right_null) = (self.is_null(left), self.is_null(right));
        let differ = self.builder.ins().icmp(IntCC::NotEqual, left.value, right.value);
        let neither = self.builder.ins().bor(left_null, right_null);
        let neither = self.builder.ins().bxor_imm_u(neither, 1);
        let values_differ = self.builder.ins().band(neither, differ);
        let nulls_differ = self.builder.ins().bxor(left_null, right_null);
        let are_distinct = self.builder.ins().bor(values_differ, nulls_differ);
        self.boolean(are_distinct)
    }

    /// Compiles OR, which ends at the first true operand, or AND, which ends at the first false one.
    fn connective(&mut self, operands: &[Expression; 2], ends_at: bool) -> Val {
        let left = self.expression(&operands[0]);
        let ends = if ends_at { self.is_true(left) } else { self.is_false(left) };
        let (merge, next) = (self.merge_block(), self.builder.create_block());
        let end = self.word(ends_at.into());
        let end = self.int(end);
        let end = self.merged(end);
        self.builder.ins().brif(ends, merge, &end, next, &[]);
        self.builder.switch_to_block(next);
        let right = self.expression(&operands[1]);
        if !left.may_be_null() {
            self.jump_with(merge, right);
            return self.arrive(merge);
        }
        // The left operand does not end it. If it is NULL, the right operand must.
        let ends = if ends_at { self.is_true(right) } else { self.is_false(right) };
        let is_known = self.is_null(left);
        let is_known = self.builder.ins().bxor_imm_u(is_known, 1);
        let counts = self.builder.ins().bor(ends, is_known);
        let (right, null) = (self.merged(right), self.null());
        let null = self.merged(null);
        self.builder.ins().brif(counts, merge, &right, merge, &null);
        self.arrive(merge)
    }

    fn case(&mut self, branches: &[(Expression, Expression)], otherwise: &Expression) -> Val {
        let merge = self.merge_block();
        for (condition, value) in branches {
            let (holds, next) = (self.builder.create_block(), self.builder.create_block());
            self.branch(condition, holds, next);
            self.builder.switch_to_block(holds);
            let value = self.expression(value);
            self.jump_with(merge, value);
            self.builder.switch_to_block(next);
        }
        let value = self.expression(otherwise);
        self.jump_with(merge, value);
        self.arrive(merge)
    }

    /// Goes to one block if a condition is true, and to the other one if it is false or NULL.
    pub(super) fn branch(&mut self, condition: &Expression, holds: Block, fails: Block) {
        let val = self.expression(condition);
        let is_true = self.is_true(val);
        self.builder.ins().brif(is_true, holds, &[], fails, &[]);
    }

    fn coalesce(&mut self, items: &[Expression]) -> Val {
        let merge = self.merge_block();
        for item in items {
            let val = self.expression(item);
            let (is_null, next) = (self.is_null(val), self.builder.create_block());
            let val = self.merged(val);
            self.builder.ins().brif(is_null, next, &[], merge, &val);
            self.builder.switch_to_block(next);
        }
        let null = self.null();
        self.jump_with(merge, null);
        self.arrive(merge)
    }

    /// Compiles `array[index]`: NULL where there is no element.
    fn element(&mut self, array: Val, index: Val) -> Val {
        let (is_array, is_int) = (self.has_tag(array, ARRAY), self.has_tag(index, INT));
        let at = self.builder.ins().iadd_imm_s(index.value, -1);
        let length = self.builder.ins().ushr_imm_u(array.value, 32);
        let is_inside = self.builder.ins().icmp(IntCC::UnsignedLessThan, at, length);
        let is_there = self.builder.ins().band(is_array, is_int);
        let is_there = self.builder.ins().band(is_there, is_inside);
        let (merge, found) = (self.merge_block(), self.builder.create_block());
        let null = self.null();
        let null = self.merged(null);
        self.builder.ins().brif(is_there, found, &[], merge, &null);
        self.builder.switch_to_block(found);
        let start = self.builder.ins().band_imm_u(array.value, 0xffff_ffff);
        let at = self.builder.ins().iadd(start, at);
        let offset = self.builder.ins().ishl_imm_u(at, 4);
        let elements = self.elements();
        let address = self.builder.ins().iadd(elements, offset);
        let val = self.load_datum(address);
        self.jump_with(merge, val);
        self.arrive(merge)
    }

    fn function(&mut self, expression: &Expression, function: Function, arguments: &[Expression]) -> Val {
        let values: Vec<Val> = arguments.iter().map(|argument| self.expression(argument)).collect();
        if function.is_applied_to_null(arguments.len()) {
            return self.apply(expression, &values);
        }
        let merge = self.merge_block();
        for val in values.iter().filter(|val| val.may_be_null()) {
            let (is_null, next) = (self.is_null(*val), self.builder.create_block());
            let null = self.null();
            let null = self.merged(null);
            self.builder.ins().brif(is_null, merge, &null, next, &[]);
            self.builder.switch_to_block(next);
        }
        let val = if function.is("cardinality") {
            let length = self.builder.ins().ushr_imm_u(values[0].value, 32);
            self.int(length)
        } else {
            self.apply(expression, &values)
        };
        self.jump_with(merge, val);
        self.arrive(merge)
    }

    fn cast(&mut self, expression: &Expression, cast: Cast, val: Val) -> Val {
        if cast == Cast::Same {
            return val;
        }
        self.unless_null(&[val], |own| match cast {
            Cast::Range { least, most, .. } => {
                own.check_range(val.value, least, most, refusal_of(most));
                own.int(val.value)
            }
            Cast::Key { least, most } => {
                let is_outside = own.is_outside(val.value, least, most);
                let (null, int) = (own.word(NULL.into()), own.word(INT.into()));
                let tag = own.builder.ins().select(is_outside, null, int);
                let tag = own.builder.ins().ireduce(types::I32, tag);
                Val::of(tag, val.value)
            }
            Cast::Rescale { multiply, divide, limit, scale } if divide == 1 || multiply == 1 => {
                let refusal = Refusal::Decimal { precision: limit.ilog10() as u8, scale };
                let value = own.rescale(val.value, [multiply, divide, limit], refusal);
                own.int(value)
            }
            Cast::ToDouble { from_scale: 0 } => own.int_to_double(expression, val),
            Cast::IntegerToBoolean => {
                let is_true = own.builder.ins().icmp_imm_s(IntCC::NotEqual, val.value, 0);
                own.boolean(is_true)
            }
            _ => own.apply(expression, &[val]),
        })
    }

    /// Changes the scale of a scaled integer; a quotient is rounded half away from zero.
    fn rescale(&mut self, value: Value, [multiply, divide, limit]: [i64; 3], refusal: Refusal) -> Value {
        let rescaled = if divide == 1 {
            let factor = self.word(multiply as u64);
            let (product, overflows) = self.builder.ins().smul_overflow(value, factor);
            self.refuse_if(overflows, refusal);
            product
        } else {
            // Scaled integers have at most 18 digits, so half of the divisor can be added.
            let (half, minus_half) = (self.word((divide / 2) as u64), self.word((-(divide / 2)) as u64));
            let is_negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, value, 0);
            let added = self.builder.ins().select(is_negative, minus_half, half);
            let sum = self.builder.ins().iadd(value, added);
            let divisor = self.word(divide as u64);
            self.builder.ins().sdiv(sum, divisor)
        };
        let is_outside = self.is_outside(rescaled, -(limit - 1), limit - 1);
        self.refuse_if(is_outside, refusal);
        rescaled
    }

    fn int_to_double(&mut self, expression: &Expression, val: Val) -> Val {
        let convert = |own: &mut Self| {
            let double = own.builder.ins().fcvt_from_sint(types::F64, val.value);
            let word = own.builder.ins().bitcast(types::I64, MemFlagsData::new(), double);
            Val::known(DOUBLE, word)
        };
        if matches!(val.tag, Tag::Known(INT)) {
            return convert(self);
        }
        // A decimal without digits after its point may be wide.
        let is_int = self.has_tag(val, INT);
        let (merge, int, wide) =
            (self.merge_block(), self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(is_int, int, &[], wide, &[]);
        self.builder.switch_to_block(int);
        let double = convert(self);
        self.jump_with(merge, double);
        self.builder.switch_to_block(wide);
        let double = self.apply(expression, &[val]);
        self.jump_with(merge, double);
        self.arrive(merge)
    }
}
