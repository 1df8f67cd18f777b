//! Turns random draws into assignments that follow from a call's record, so that pieces of a call may run
//! separately. Not in the papers.
//!
//! At run time a call draws its random words one after the other. The n-th word is a function of the record's
//! seed and n. The analysis therefore keeps n in a register: it replaces a draw by the assignments
//! `value := Nth(words)` and `words := words + 1` before the statement that draws. Hidden keys of rows whose
//! table has no primary key are draws, too.
//!
//! Invariant: a draw becomes an assignment only where its statement evaluates it exactly once, in the order
//! of the statement's draws. A procedure that draws anywhere else stays whole: in a filter, for each row of
//! an UPDATE, in one branch of a CASE.
//! Held by: `draws_are_the_same_in_pieces`, `parallel_replay_equals_serial_replay`.

use super::program::Program;
use super::step::Step;
use crate::{
    ArithmeticOperator, Draw, Expression, Function, NumberClass, Operation, OperationId, OperationKind,
    Register,
};
use catalog::Datum;

/// Replaces all draws of a program, before its registers are split into webs. Returns false, and leaves the
/// program unchanged, if a draw cannot be replaced.
pub(super) fn replace_draws(program: &mut Program) -> bool {
    let mut replacing = DrawReplacer {
        operations: program.operations.clone(),
        words: Register(program.registers as u32),
        registers: program.registers as u32 + 1,
        is_possible: true,
    };
    let mut body = program.body.clone();
    replacing.list(&mut body);
    if !replacing.is_possible {
        return false;
    }
    let zero = Expression::Constant(Datum::Int(0));
    body.insert(0, Step::Assign { target: replacing.words, value: zero });
    program.body = body;
    program.operations = replacing.operations;
    program.registers = replacing.registers as usize;
    true
}

struct DrawReplacer {
    operations: Vec<Operation>,
    /// The register of the number of random words drawn so far.
    words: Register,
    /// Number of registers so far.
    registers: u32,
    is_possible: bool,
}

/// Returns whether an expression draws.
fn draws(expression: &Expression) -> bool {
    let mut found = false;
    expression.walk(&mut |part| {
        found |= matches!(part, Expression::Function { function: Function::Next(_), .. });
    });
    found
}

impl DrawReplacer {
    fn list(&mut self, statements: &mut Vec<Step>) {
        let mut replaced = Vec::with_capacity(statements.len());
        for mut statement in std::mem::take(statements) {
            self.statement(&mut statement, &mut replaced);
            statement.bodies_mut().into_iter().for_each(|body| self.list(body));
            replaced.push(statement);
        }
        *statements = replaced;
    }

    /// Appends the assignments for the draws of a statement to `before`; leaves out statements inside it.
    fn statement(&mut self, statement: &mut Step, before: &mut Vec<Step>) {
        match statement {
            Step::Assign { value, .. } => self.expression(value, before),
            Step::AssignElement { index, value, .. } => {
                self.expression(index, before);
                self.expression(value, before);
            }
            Step::If { condition, .. } => self.expression(condition, before),
            Step::ForRange { from, to, step, .. } => {
                [from, to, step].into_iter().for_each(|bound| self.expression(bound, before));
            }
            Step::ForEach { array, .. } => self.expression(array, before),
            // The condition is evaluated before every round.
            Step::While { condition, .. } => self.is_possible &= !draws(condition),
            Step::Raise(raise) => {
                self.is_possible &= !raise.expressions().any(draws);
            }
            Step::Execute(id) | Step::ForRows { operation: id, .. } => self.operation(*id, before),
            Step::Block { .. } | Step::Exit(_) | Step::Continue(_) => {}
        }
    }

    /// Replaces the draws of an operation. An INSERT evaluates its values once, in order; any other
    /// expression may be evaluated for each row.
    fn operation(&mut self, id: OperationId, before: &mut Vec<Step>) {
        let index = id.0 as usize;
        let mut operation = self.operations[index].clone();
        if let OperationKind::Insert { values, .. } = &mut operation.kind {
            values.iter_mut().for_each(|value| self.expression(value, before));
        }
        operation.visit_expressions(&mut |expression| self.is_possible &= !draws(expression));
        self.operations[index] = operation;
    }

    /// Replaces the draws of an expression that is evaluated once.
    fn expression(&mut self, expression: &mut Expression, before: &mut Vec<Step>) {
        if !draws(expression) {
            return;
        }
        let always = match expression {
            Expression::Function { function: Function::Next(draw), .. } => {
                let draw = *draw;
                *expression = Expression::Register(self.draw(draw, before));
                return;
            }
            // The first operand decides whether further operands are evaluated.
            Expression::And(_)
            | Expression::Or(_)
            | Expression::Case { .. }
            | Expression::Coalesce(_)
            | Expression::Domain(_) => 1,
            _ => usize::MAX,
        };
        for (index, operand) in expression.operands_mut().into_iter().enumerate() {
            if index < always {
                self.expression(operand, before);
            } else {
                self.is_possible &= !draws(operand);
            }
        }
    }

    /// Appends the assignments of one draw to `before`. Returns the register of its value.
    fn draw(&mut self, draw: Draw, before: &mut Vec<Step>) -> Register {
        let (words, target) = (Expression::Register(self.words), Register(self.registers));
        self.registers += 1;
        let value = Expression::Function { function: Function::Nth(draw), arguments: vec![words.clone()] };
        before.push(Step::Assign { target, value });
        let more = Expression::Constant(Datum::Int(draw.words() as i64));
        let value = Expression::Arithmetic {
            operator: ArithmeticOperator::Add,
            class: NumberClass::Int { least: i64::MIN, most: i64::MAX },
            operands: Box::new([words, more]),
        };
        before.push(Step::Assign { target: self.words, value });
        target
    }
}
