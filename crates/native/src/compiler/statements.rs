//! Statements. Those that the compiler does not know are interpreted by the host, in their place.

use super::loops::RangeLoop;
use super::{Compiler, with_stack};
use crate::calls::{Call, HERE, RETURN, exit, going_on};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use procedure::{Expression, Register, Statement};
use std::collections::BTreeSet;

impl Compiler<'_, '_> {
    pub(super) fn statements(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|statement| with_stack(|| self.statement(statement)));
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Assign { target, value } => {
                let val = self.expression(value);
                self.set(*target, val);
            }
            Statement::If { condition, then, otherwise } => {
                let [holds, fails, end] = std::array::from_fn(|_| self.builder.create_block());
                self.branch(condition, holds, fails);
                for (block, body) in [(holds, then), (fails, otherwise)] {
                    self.builder.switch_to_block(block);
                    self.statements(body);
                    self.builder.ins().jump(end, &[]);
                }
                self.builder.switch_to_block(end);
            }
            Statement::ForRange { label, variable, from, to, step, reverse, ahead, body } => {
                self.for_range(&RangeLoop {
                    label: *label,
                    variable: *variable,
                    bounds: [from, to, step],
                    reverse: *reverse,
                    ahead,
                    body,
                });
            }
            Statement::ForEach { label, variable, array, body } => {
                self.for_each(*label, *variable, array, body);
            }
            Statement::ForRows { label, operation, body } => self.for_rows(*label, *operation, body),
            Statement::While { label, condition, body } => self.while_loop(*label, condition, body),
            Statement::Block { label, body } => self.block(*label, body),
            Statement::Exit(label) => self.jump_to(*label, true),
            Statement::Continue(label) => self.jump_to(*label, false),
            Statement::Return => self.return_to_caller(),
            Statement::Execute(id) => self.operation(*id),
            _ => self.interpret(statement),
        }
    }

    /// Returns the registers that code reads or sets.
    pub(super) fn touched_registers(&self) -> BTreeSet<Register> {
        let mut touched = BTreeSet::new();
        self.touch(self.source.code.body, &mut touched);
        touched
    }

    /// Adds the registers that the code of statements reads or sets.
    fn touch(&self, statements: &[Statement], touched: &mut BTreeSet<Register>) {
        for statement in statements {
            with_stack(|| self.touch_statement(statement, touched));
        }
    }

    fn touch_statement(&self, statement: &Statement, touched: &mut BTreeSet<Register>) {
        match statement {
            Statement::Assign { target, value } => {
                touched.insert(*target);
                registers_in(value, touched);
            }
            Statement::If { condition, .. } | Statement::While { condition, .. } => {
                registers_in(condition, touched);
            }
            Statement::ForRange { variable, from, to, step, .. } => {
                touched.insert(*variable);
                [from, to, step].into_iter().for_each(|bound| registers_in(bound, touched));
            }
            Statement::ForEach { variable, array, .. } => {
                touched.insert(*variable);
                registers_in(array, touched);
            }
            Statement::ForRows { operation, .. } => {
                touched.insert(self.source.code.operations[operation.0 as usize].found);
            }
            Statement::Execute(id) if self.is_compiled(*id) => {
                let (used, defined) = self.registers_of(&self.source.code.operations[id.0 as usize]);
                touched.extend(used.into_iter().chain(defined));
            }
            _ => {}
        }
        if !is_interpreted(statement) {
            statement.bodies().into_iter().for_each(|body| self.touch(body, touched));
        }
    }

    /// Lets the host interpret a statement.
    fn interpret(&mut self, statement: &Statement) {
        let (used, defined) = self.registers_around(statement);
        used.iter().for_each(|register| self.store(*register));
        let number = self.tables.parts.statements.len();
        self.tables.parts.statements.push(statement.clone());
        self.tables.interpreted.push(kind_of(statement).into());
        let number = self.word(number as u64);
        let ended = self.try_call(Call::Statement, &[number]);
        defined.iter().for_each(|register| self.reload(*register));
        if !statement.bodies().is_empty() {
            self.go_where(ended);
        }
    }

    /// Goes where an interpreted statement has ended.
    fn go_where(&mut self, ended: cranelift_codegen::ir::Value) {
        let next = self.builder.create_block();
        let is_here = self.builder.ins().icmp_imm_s(IntCC::Equal, ended, HERE as i64);
        self.branch_to(is_here, next);
        let labels = self.labels();
        let exits = labels.iter().map(|(label, _)| (exit(*label), *label, true));
        let rounds = labels.iter().filter(|(_, is_loop)| *is_loop);
        let rounds = rounds.map(|(label, _)| (going_on(*label), *label, false));
        for (word, label, ends) in exits.chain(rounds) {
            let [jump, other] = std::array::from_fn(|_| self.builder.create_block());
            let is_it = self.builder.ins().icmp_imm_s(IntCC::Equal, ended, word as i64);
            self.builder.ins().brif(is_it, jump, &[], other, &[]);
            self.builder.switch_to_block(jump);
            self.jump_to(label, ends);
            self.builder.ins().jump(other, &[]);
            self.builder.switch_to_block(other);
        }
        debug_assert_eq!(RETURN, 1, "what is left is RETURN");
        self.return_to_caller();
        self.builder.ins().jump(next, &[]);
        self.builder.switch_to_block(next);
    }

    /// Returns the registers that a statement may use, and those that it may set: all, unless it is known.
    fn registers_around(&self, statement: &Statement) -> (Vec<Register>, Vec<Register>) {
        let used = |expressions: &[&Expression]| {
            let mut used = BTreeSet::new();
            expressions.iter().for_each(|expression| registers_in(expression, &mut used));
            used
        };
        let (used, defined) = match statement {
            Statement::AssignElement { array, index, value } => {
                let mut used = used(&[index, value]);
                used.insert(*array);
                (used, BTreeSet::from([*array]))
            }
            Statement::Raise(raise) => {
                let values: Vec<&Expression> = raise.expressions().collect();
                (used(&values), BTreeSet::new())
            }
            Statement::Call { arguments, outputs, .. } => {
                let arguments: Vec<&Expression> = arguments.iter().collect();
                (used(&arguments), outputs.iter().map(|(register, _)| *register).collect())
            }
            _ => {
                let all: BTreeSet<Register> = (0..self.source.registers as u32).map(Register).collect();
                (all.clone(), all)
            }
        };
        (used.into_iter().collect(), defined.into_iter().collect())
    }
}

/// Adds the registers that an expression uses.
fn registers_in(expression: &Expression, registers: &mut BTreeSet<Register>) {
    expression.walk(&mut |part| {
        if let Expression::Register(register) = part {
            registers.insert(*register);
        }
    });
}

/// Returns whether the host interprets a statement, with all statements inside.
fn is_interpreted(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::AssignElement { .. }
            | Statement::ForQuery { .. }
            | Statement::Guarded(_)
            | Statement::RaiseAgain
            | Statement::Opaque(_)
            | Statement::Query(_)
            | Statement::Call { .. }
            | Statement::Raise(_)
    )
}

/// Returns what a statement is called.
fn kind_of(statement: &Statement) -> &'static str {
    match statement {
        Statement::AssignElement { .. } => "assignment of an element",
        Statement::ForQuery { .. } => "loop over the rows of a query",
        Statement::Guarded(_) => "block with an EXCEPTION clause",
        Statement::Opaque(_) => "statement of cursors, EXECUTE, or the like",
        Statement::Query(_) => "query",
        Statement::Call { .. } => "CALL",
        Statement::Raise(_) | Statement::RaiseAgain => "RAISE",
        _ => "statement",
    }
}
