//! What is evaluated before an expression: subqueries, calls, rows of functions.

use catalog::Type;
use procedure::query::{Beside, JoinKind, Plan, Question, Subquery};
use procedure::{Expression, Procedure, Register};
use std::sync::Arc;

/// A subquery or call that is evaluated before an expression.
#[derive(Debug)]
pub(crate) enum Applied {
    Subquery(Box<Subquery>),
    /// A call of a function of the schema.
    Call {
        procedure: Arc<Procedure>,
        arguments: Vec<Expression>,
        target: Register,
    },
    /// Rows of functions, side by side. Each input row is repeated for each row of theirs.
    Rows(Vec<RowsCall>),
}

/// A call of a function of rows.
#[derive(Debug)]
pub(crate) struct RowsCall {
    /// The call as it is written.
    pub(super) text: String,
    pub(super) plan: Plan,
    pub(super) columns: Vec<(Register, Type)>,
}

impl RowsCall {
    fn registers(&self) -> Vec<Register> {
        self.columns.iter().map(|(register, _)| *register).collect()
    }
}

impl Applied {
    /// Returns the registers that its expressions use.
    pub(super) fn uses(&self) -> Vec<Register> {
        let mut uses = Vec::new();
        let mut of = |expression: &Expression| {
            expression.walk(&mut |part| {
                if let Expression::Register(register) = part {
                    uses.push(*register);
                }
            });
        };
        match self {
            Self::Call { arguments, .. } => arguments.iter().for_each(&mut of),
            Self::Rows(calls) => {
                calls.iter().flat_map(|call| call.plan.expressions()).for_each(of);
            }
            Self::Subquery(subquery) => {
                subquery.plan.walk(&mut |node| node.expressions().into_iter().for_each(&mut of));
                match &subquery.question {
                    Question::Quantified { value, row, .. } => [value, row].into_iter().for_each(of),
                    Question::In { keys, .. } => {
                        keys.iter().flat_map(|key| [&key.probe, &key.build]).for_each(of);
                    }
                    Question::Values { pairs } => uses.extend(pairs.iter().map(|(from, _)| *from)),
                    Question::Array { value, .. } => uses.push(*value),
                    Question::Exists { .. } => {}
                }
            }
        }
        uses
    }

    /// Returns the registers of the answer.
    pub(super) fn targets(&self) -> Vec<Register> {
        let question = match self {
            Self::Subquery(subquery) => &subquery.question,
            Self::Call { target, .. } => return vec![*target],
            Self::Rows(calls) => return calls.iter().flat_map(RowsCall::registers).collect(),
        };
        match question {
            Question::Values { pairs } => pairs.iter().map(|(_, target)| *target).collect(),
            Question::Exists { target }
            | Question::In { target, .. }
            | Question::Quantified { target, .. }
            | Question::Array { target, .. } => vec![*target],
        }
    }

    /// Returns a plan that adds the answer to the rows of `input`.
    pub(super) fn upon(self, input: Plan) -> Plan {
        match self {
            Self::Subquery(subquery) => Plan::Apply { input: Box::new(input), subquery },
            Self::Call { procedure, arguments, target } => {
                Plan::Call { input: Box::new(input), procedure, arguments, outputs: vec![target] }
            }
            Self::Rows(mut calls) => {
                let inner_registers = calls.iter().flat_map(RowsCall::registers).collect();
                let inner = if calls.len() == 1 {
                    calls.remove(0).plan
                } else {
                    let beside = |own: RowsCall| Beside { registers: own.registers(), plan: own.plan };
                    Plan::Together { parts: calls.into_iter().map(beside).collect(), ordinality: None }
                };
                Plan::Loop {
                    outer: Box::new(input),
                    inner: Box::new(inner),
                    kind: JoinKind::Inner,
                    condition: None,
                    inner_registers,
                }
            }
        }
    }
}

/// Adds a call of a function of rows. Calls of one list run side by side; one whose arguments are the rows of
/// another runs for each of them. Returns whether the calls can be combined.
#[must_use]
pub(super) fn add_rows(applied: &mut Vec<Applied>, call: RowsCall) -> bool {
    let new = Applied::Rows(vec![call]);
    let uses_any = |own: &Applied, targets: &[Register]| own.uses().iter().any(|used| targets.contains(used));
    let mut earlier = applied.iter().enumerate().filter(|(_, own)| matches!(own, Applied::Rows(_)));
    let place = match (earlier.next(), earlier.next()) {
        (None, _) => None,
        (Some((_, own)), None) if uses_any(&new, &own.targets()) => None,
        (Some((place, own)), None) => {
            let targets = own.targets();
            if applied[place + 1..].iter().any(|later| uses_any(later, &targets)) {
                return false;
            }
            Some(place)
        }
        (Some(_), Some(_)) => return false,
    };
    match (place.map(|place| applied.remove(place)), new) {
        (Some(Applied::Rows(mut calls)), Applied::Rows(new)) => {
            calls.extend(new);
            applied.push(Applied::Rows(calls));
        }
        (_, new) => applied.push(new),
    }
    true
}

/// Returns a plan that adds all answers to the rows of a plan.
pub(crate) fn apply_all(applied: Vec<Applied>, plan: Plan) -> Plan {
    applied.into_iter().fold(plan, |plan, own| own.upon(plan))
}

/// Returns a plan that evaluates the answers once, before the first row of a plan whose expressions need
/// them.
pub(super) fn apply_ahead(applied: Vec<Applied>, plan: Plan) -> Plan {
    if applied.is_empty() {
        return plan;
    }
    Plan::Loop {
        outer: Box::new(apply_all(applied, Plan::One)),
        inner: Box::new(plan),
        kind: JoinKind::Inner,
        condition: None,
        inner_registers: Vec::new(),
    }
}

pub(super) fn compute(plan: Plan, values: Vec<(Register, Expression)>) -> Plan {
    if values.is_empty() { plan } else { Plan::Compute { input: Box::new(plan), values } }
}
