//! Loops and blocks, and the jumps out of them.

use super::Compiler;
use super::values::{ARRAY, INT};
use crate::calls::Call;
use crate::context::ROUNDS;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Variable;
use procedure::{
    CHECK_EVERY, Expression, LOOK_AHEAD, Label, Operation, OperationId, OperationKind, Refusal, Register,
    Statement,
};

/// A loop or block around a statement.
pub(super) struct Scope {
    pub(super) label: Label,
    /// Where EXIT goes.
    pub(super) exit: Block,
    /// Where CONTINUE goes; `None` for a block.
    pub(super) next: Option<Block>,
    /// The operation of a loop over rows, and the number of its rows.
    rows: Option<(OperationId, Value)>,
}

/// A FOR loop over integers.
pub(super) struct RangeLoop<'s> {
    pub(super) label: Label,
    pub(super) variable: Register,
    /// The bounds, and the step.
    pub(super) bounds: [&'s Expression; 3],
    pub(super) reverse: bool,
    pub(super) ahead: &'s [OperationId],
    pub(super) body: &'s [Statement],
}

/// The values that a loop's variable still takes.
struct Count {
    at: Variable,
    end: Value,
    step: Value,
    reverse: bool,
}

impl Compiler<'_, '_> {
    fn variable(&mut self, value: Value) -> Variable {
        let variable = self.builder.declare_var(types::I64);
        self.builder.def_var(variable, value);
        variable
    }

    /// Compiles a bound or the step of a loop.
    fn bound(&mut self, expression: &Expression) -> Value {
        let val = self.expression(expression);
        if val.may_be_null() {
            let is_int = self.has_tag(val, INT);
            let is_null = self.builder.ins().bxor_imm_u(is_int, 1);
            self.refuse_if(is_null, Refusal::NullBound);
        }
        val.value
    }

    /// Returns whether a variable has passed the end of its loop.
    fn is_over(&mut self, count: &Count) -> Value {
        let at = self.builder.use_var(count.at);
        let condition = if count.reverse { IntCC::SignedLessThan } else { IntCC::SignedGreaterThan };
        self.builder.ins().icmp(condition, at, count.end)
    }

    /// Adds the step to a variable. Goes to a block if the result is out of range.
    fn advance(&mut self, count: &Count, overflown: Block) {
        let at = self.builder.use_var(count.at);
        let (next, overflows) = if count.reverse {
            self.builder.ins().ssub_overflow(at, count.step)
        } else {
            self.builder.ins().sadd_overflow(at, count.step)
        };
        self.branch_to(overflows, overflown);
        self.builder.def_var(count.at, next);
    }

    pub(super) fn for_range(&mut self, own: &RangeLoop<'_>) {
        let [from, to, step] = own.bounds;
        let (from, end) = (self.bound(from), self.bound(to));
        let step = self.bound(step);
        let is_refused = self.builder.ins().icmp_imm_s(IntCC::SignedLessThanOrEqual, step, 0);
        self.refuse_if(is_refused, Refusal::Step);
        let count = Count { at: self.variable(from), end, step, reverse: own.reverse };
        let zero = self.word(0);
        let looked_up = self.variable(zero);
        let [head, round, next, exit] = std::array::from_fn(|_| self.builder.create_block());
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(head);
        let is_over = self.is_over(&count);
        self.builder.ins().brif(is_over, exit, &[], round, &[]);
        self.builder.switch_to_block(round);
        if !own.ahead.is_empty() {
            self.look_ahead(own, &count, looked_up);
        }
        let at = self.builder.use_var(count.at);
        let at = self.int(at);
        self.set(own.variable, at);
        self.scopes.push(Scope { label: own.label, exit, next: Some(next), rows: None });
        self.round(own.body);
        self.scopes.pop();
        self.builder.ins().jump(next, &[]);
        self.builder.switch_to_block(next);
        self.advance(&count, exit);
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(exit);
    }

    /// Announces the rows of the next rounds, unless those of this round were.
    fn look_ahead(&mut self, own: &RangeLoop<'_>, count: &Count, looked_up: Variable) {
        let [begin, head, announce, load, go_on] = std::array::from_fn(|_| self.builder.create_block());
        let left = self.builder.use_var(looked_up);
        self.builder.ins().brif(left, go_on, &[], begin, &[]);
        self.builder.switch_to_block(begin);
        self.call(Call::ExpectNothing, &[]);
        let first = self.builder.use_var(count.at);
        let ahead = Count { at: self.variable(first), ..*count };
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(head);
        let rounds = self.builder.use_var(looked_up);
        let is_enough =
            self.builder.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, rounds, LOOK_AHEAD as i64);
        let is_over = self.is_over(&ahead);
        let ends = self.builder.ins().bor(is_enough, is_over);
        self.builder.ins().brif(ends, load, &[], announce, &[]);
        self.builder.switch_to_block(announce);
        let at = self.builder.use_var(ahead.at);
        let at = self.int(at);
        self.set(own.variable, at);
        self.expect_rows(own.ahead);
        let rounds = self.builder.use_var(looked_up);
        let rounds = self.builder.ins().iadd_imm_s(rounds, 1);
        self.builder.def_var(looked_up, rounds);
        self.advance(&ahead, load);
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(load);
        self.call(Call::LoadExpected, &[]);
        self.builder.ins().jump(go_on, &[]);
        self.builder.switch_to_block(go_on);
        let left = self.builder.use_var(looked_up);
        let left = self.builder.ins().iadd_imm_s(left, -1);
        self.builder.def_var(looked_up, left);
    }

    /// Compiles one round of a loop.
    fn round(&mut self, body: &[Statement]) {
        let context = self.context;
        let rounds = self.load(types::I64, context, ROUNDS);
        let rounds = self.builder.ins().iadd_imm_s(rounds, 1);
        self.store_at(rounds, context, ROUNDS);
        let behind = self.builder.ins().band_imm_u(rounds, i64::from(CHECK_EVERY) - 1);
        let (check, go_on) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(check);
        self.builder.ins().brif(behind, go_on, &[], check, &[]);
        self.builder.switch_to_block(check);
        self.try_call(Call::Check, &[]);
        self.builder.ins().jump(go_on, &[]);
        self.builder.switch_to_block(go_on);
        self.statements(body);
    }

    pub(super) fn for_each(
        &mut self,
        label: Label,
        variable: Register,
        array: &Expression,
        body: &[Statement],
    ) {
        let array = self.expression(array);
        let is_array = self.has_tag(array, ARRAY);
        let is_null = self.builder.ins().bxor_imm_u(is_array, 1);
        self.refuse_if(is_null, Refusal::NullArray);
        let start = self.builder.ins().band_imm_u(array.value, 0xffff_ffff);
        let length = self.builder.ins().ushr_imm_u(array.value, 32);
        self.counted(label, length, None, body, |own, index| {
            let at = own.builder.ins().iadd(start, index);
            let offset = own.builder.ins().ishl_imm_u(at, 4);
            let elements = own.elements();
            let address = own.builder.ins().iadd(elements, offset);
            let val = own.load_datum(address);
            own.set(variable, val);
        });
    }

    pub(super) fn for_rows(&mut self, label: Label, id: OperationId, body: &[Statement]) {
        let code = self.source.code;
        let operation = &code.operations[id.0 as usize];
        let (used, targets) = (self.registers_of(operation).0, self.targets_of(operation));
        used.iter().for_each(|register| self.store(*register));
        let number = self.word(id.0.into());
        let count = self.try_call(Call::OpenRows, &[number]);
        self.counted(label, count, Some(id), body, |own, row| {
            own.call(Call::LoadRow, &[number, row, count]);
            targets.iter().for_each(|register| own.reload(*register));
        });
        self.close_rows(id, count);
    }

    /// Returns the registers that a loop over rows sets in each round. FOUND, which it sets at its end, is
    /// not among them.
    fn targets_of(&self, operation: &Operation) -> Vec<Register> {
        match &operation.kind {
            OperationKind::Select(select) => select.outputs.iter().map(|(target, _)| *target).collect(),
            _ => unreachable!("a loop over rows reads"),
        }
    }

    /// Ends a loop over rows: frees them, and sets FOUND.
    fn close_rows(&mut self, id: OperationId, count: Value) {
        let code = self.source.code;
        let operation = &code.operations[id.0 as usize];
        // The host sets the targets to NULL if there was no row; otherwise they keep their values.
        let targets = self.targets_of(operation);
        targets.iter().for_each(|register| self.store(*register));
        let number = self.word(id.0.into());
        self.call(Call::CloseRows, &[number, count]);
        targets.iter().for_each(|register| self.reload(*register));
        let has_rows = self.builder.ins().icmp_imm_s(IntCC::NotEqual, count, 0);
        let found = self.boolean(has_rows);
        self.set(operation.found, found);
    }

    /// Compiles a loop with a number of rounds. `begin` compiles what precedes each round, with its index.
    fn counted(
        &mut self,
        label: Label,
        count: Value,
        rows: Option<OperationId>,
        body: &[Statement],
        begin: impl FnOnce(&mut Self, Value),
    ) {
        let zero = self.word(0);
        let index = self.variable(zero);
        let [head, round, next, exit] = std::array::from_fn(|_| self.builder.create_block());
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(head);
        let at = self.builder.use_var(index);
        let goes_on = self.builder.ins().icmp(IntCC::UnsignedLessThan, at, count);
        self.builder.ins().brif(goes_on, round, &[], exit, &[]);
        self.builder.switch_to_block(round);
        begin(self, at);
        let rows = rows.map(|id| (id, count));
        self.scopes.push(Scope { label, exit, next: Some(next), rows });
        self.round(body);
        self.scopes.pop();
        self.builder.ins().jump(next, &[]);
        self.builder.switch_to_block(next);
        let at = self.builder.use_var(index);
        let at = self.builder.ins().iadd_imm_s(at, 1);
        self.builder.def_var(index, at);
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(exit);
    }

    pub(super) fn while_loop(&mut self, label: Label, condition: &Expression, body: &[Statement]) {
        let [head, round, exit] = std::array::from_fn(|_| self.builder.create_block());
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(head);
        self.branch(condition, round, exit);
        self.builder.switch_to_block(round);
        self.scopes.push(Scope { label, exit, next: Some(head), rows: None });
        self.round(body);
        self.scopes.pop();
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(exit);
    }

    pub(super) fn block(&mut self, label: Label, body: &[Statement]) {
        let exit = self.builder.create_block();
        self.scopes.push(Scope { label, exit, next: None, rows: None });
        self.statements(body);
        self.scopes.pop();
        self.builder.ins().jump(exit, &[]);
        self.builder.switch_to_block(exit);
    }

    /// Ends the loops over rows inside of a number of scopes, before a jump out of them.
    fn leave(&mut self, scopes: usize) {
        for index in (scopes..self.scopes.len()).rev() {
            if let Some((id, count)) = self.scopes[index].rows {
                self.close_rows(id, count);
            }
        }
    }

    /// Jumps to the end of a scope, or to its next round. What follows is never reached.
    pub(super) fn jump_to(&mut self, label: Label, ends: bool) {
        let scope = self.scopes.iter().rposition(|scope| scope.label == label);
        let scope = scope.expect("a jump names a loop or block around it");
        self.leave(scope + 1);
        let Scope { exit, next, .. } = self.scopes[scope];
        let block = if ends { exit } else { next.expect("CONTINUE names a loop") };
        self.builder.ins().jump(block, &[]);
        let unreachable = self.builder.create_block();
        self.builder.switch_to_block(unreachable);
    }

    /// Jumps to the end of the code. What follows is never reached.
    pub(super) fn return_to_caller(&mut self) {
        self.leave(0);
        let end = self.end;
        self.builder.ins().jump(end, &[]);
        let unreachable = self.builder.create_block();
        self.builder.switch_to_block(unreachable);
    }

    /// Returns the labels of the scopes around a statement, each with whether it is that of a loop.
    pub(super) fn labels(&self) -> Vec<(Label, bool)> {
        self.scopes.iter().map(|scope| (scope.label, scope.next.is_some())).collect()
    }
}
