//! The subqueries, calls and set-returning functions that a plan evaluates before an expression uses them.

use catalog::Type;
use procedure::query::{Beside, JoinKind, Plan, Question, Subquery};
use procedure::{Expression, Procedure, Register};
use std::sync::Arc;

/// A subquery, call or list of set-returning functions that a plan evaluates before an expression.
#[derive(Debug)]
pub(crate) enum Applied {
    Subquery(Box<Subquery>),
    /// A call of a function that the schema defines.
    Call {
        procedure: Arc<Procedure>,
        arguments: Vec<Expression>,
        target: Register,
    },
    /// A call of a function of one row that the schema defines.
    Row {
        procedure: Arc<Procedure>,
        arguments: Vec<Expression>,
        registers: Vec<Register>,
    },
    /// Set-returning functions, which run side by side. Each input row is repeated for each of their rows.
    Rows(Vec<RowsCall>),
}

/// A call of a set-returning function.
#[derive(Debug)]
pub(crate) struct RowsCall {
    /// The text of the call; calls with the same text share their rows.
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
            Self::Call { arguments, .. } | Self::Row { arguments, .. } => {
                arguments.iter().for_each(&mut of);
            }
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

    /// Returns the registers of its results.
    pub(super) fn targets(&self) -> Vec<Register> {
        let question = match self {
            Self::Subquery(subquery) => &subquery.question,
            Self::Call { target, .. } => return vec![*target],
            Self::Row { registers, .. } => return registers.clone(),
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

    /// Returns a plan that adds the results to the rows of `input`.
    pub(super) fn upon(self, input: Plan) -> Plan {
        match self {
            Self::Subquery(subquery) => Plan::Apply { input: Box::new(input), subquery },
            Self::Call { procedure, arguments, target } => {
                Plan::Call { input: Box::new(input), procedure, arguments, outputs: vec![target] }
            }
            Self::Row { procedure, arguments, registers } => {
                let pairs = registers.iter().map(|register| (*register, *register)).collect();
                let plan = Plan::Rows { procedure, arguments, registers, ordinality: None };
                let question = Question::Values { pairs };
                let subquery = Box::new(Subquery { plan, question, kept: None });
                Plan::Apply { input: Box::new(input), subquery }
            }
            Self::Rows(mut calls) => {
                let inner_registers = calls.iter().flat_map(RowsCall::registers).collect();
                let inner = if calls.len() == 1 {
                    calls.remove(0).plan
                } else {
                    let beside = |call: RowsCall| Beside { registers: call.registers(), plan: call.plan };
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

/// Adds a call of a set-returning function. The calls of one list run side by side; a call whose arguments
/// use another call's rows runs for each of those rows. Returns whether the calls can be combined.
#[must_use]
pub(super) fn add_rows(applied: &mut Vec<Applied>, call: RowsCall) -> bool {
    let new = Applied::Rows(vec![call]);
    let uses_any =
        |applied: &Applied, targets: &[Register]| applied.uses().iter().any(|used| targets.contains(used));
    let mut earlier = applied.iter().enumerate().filter(|(_, applied)| matches!(applied, Applied::Rows(_)));
    let position = match (earlier.next(), earlier.next()) {
        (None, _) => None,
        (Some((_, rows)), None) if uses_any(&new, &rows.targets()) => None,
        (Some((position, rows)), None) => {
            let targets = rows.targets();
            if applied[position + 1..].iter().any(|later| uses_any(later, &targets)) {
                return false;
            }
            Some(position)
        }
        (Some(_), Some(_)) => return false,
    };
    match (position.map(|position| applied.remove(position)), new) {
        (Some(Applied::Rows(mut calls)), Applied::Rows(new)) => {
            calls.extend(new);
            applied.push(Applied::Rows(calls));
        }
        (_, new) => applied.push(new),
    }
    true
}

/// Returns a plan that adds all results to the rows of a plan.
pub(crate) fn apply_all(applied: Vec<Applied>, plan: Plan) -> Plan {
    applied.into_iter().fold(plan, |plan, applied| applied.upon(plan))
}

/// Returns a plan that evaluates the results once, before the first row of a plan whose expressions use them.
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
