//! The subqueries, calls and set-returning functions that a plan evaluates before an expression uses them.

use catalog::Type;
use procedure::query::{Beside, JoinKind, Plan, Question, Subquery};
use procedure::{Cast, Expression, Procedure, Register};
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
    /// A value that a later condition uses.
    Value {
        value: Expression,
        target: Register,
    },
    /// What is evaluated for the rows alone for which a condition is true.
    Guarded {
        condition: Expression,
        inner: Vec<Applied>,
    },
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
            Self::Value { value, .. } => of(value),
            Self::Guarded { condition, inner } => {
                of(condition);
                uses.extend(inner.iter().flat_map(Self::uses));
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
            Self::Value { target, .. } => return vec![*target],
            Self::Guarded { inner, .. } => return inner.iter().flat_map(Self::targets).collect(),
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
                let targets = registers.clone();
                let plan = Plan::Rows { procedure, arguments, registers, ordinality: None };
                with_row_of(plan, targets, input)
            }
            Self::Value { value, target } => compute(input, vec![(target, value)]),
            Self::Guarded { condition, inner } => {
                let targets = inner.iter().flat_map(Self::targets).collect();
                let guard = Plan::Filter { input: Box::new(Plan::One), condition };
                with_row_of(apply_all(inner, guard), targets, input)
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

/// Returns a plan that adds the one row of a plan to each row of `input`; NULLs where it has none.
fn with_row_of(plan: Plan, targets: Vec<Register>, input: Plan) -> Plan {
    let pairs = targets.into_iter().map(|register| (register, register)).collect();
    let subquery = Box::new(Subquery { plan, question: Question::Values { pairs }, kept: None });
    Plan::Apply { input: Box::new(input), subquery }
}

/// Returns whether an expression may fail, or have effects besides its value.
fn may_fail(expression: &Expression) -> bool {
    let mut found = false;
    expression.walk(&mut |part| {
        found |= !matches!(
            part,
            Expression::Constant(_)
                | Expression::Bytes(_)
                | Expression::Numeric(_)
                | Expression::Register(_)
                | Expression::Compare { .. }
                | Expression::Distinct { .. }
                | Expression::And(_)
                | Expression::Or(_)
                | Expression::Not(_)
                | Expression::IsNull(_)
                | Expression::Case { .. }
                | Expression::Coalesce(_)
                | Expression::Cast { cast: Cast::Same | Cast::Key { .. }, .. }
        );
    });
    found
}

/// Returns whether a plan has at most one row.
fn is_single(plan: &Plan) -> bool {
    match plan {
        Plan::One => true,
        Plan::Group { keys, sets, .. } => keys.is_empty() && sets.is_empty(),
        Plan::Compute { input, .. } | Plan::Filter { input, .. } | Plan::Apply { input, .. } => {
            is_single(input)
        }
        _ => false,
    }
}

impl Applied {
    /// Returns whether it must not be evaluated for a row whose expression does not need it: it may fail, or
    /// have effects.
    pub(crate) fn needs_guard(&self) -> bool {
        let Self::Subquery(subquery) = self else { return true };
        let mut found = matches!(subquery.question, Question::Values { .. }) && !is_single(&subquery.plan);
        subquery.plan.walk(&mut |node| {
            found |= matches!(node, Plan::Call { .. } | Plan::Rows { .. } | Plan::Function { .. })
                || node.expressions().into_iter().any(may_fail);
        });
        found
    }

    /// Returns whether it calls functions of the schema, and has no subquery.
    pub(crate) fn only_calls(&self) -> bool {
        match self {
            Self::Call { .. } | Self::Row { .. } | Self::Value { .. } => true,
            Self::Guarded { inner, .. } => inner.iter().all(Self::only_calls),
            Self::Subquery(_) | Self::Rows(_) => false,
        }
    }

    /// Returns whether it is a call of a function of the schema, or has one.
    pub(crate) fn has_call(&self) -> bool {
        match self {
            Self::Call { .. } | Self::Row { .. } => true,
            Self::Guarded { inner, .. } => inner.iter().any(Self::has_call),
            Self::Subquery(_) | Self::Rows(_) | Self::Value { .. } => false,
        }
    }

    /// Returns whether it answers subqueries, and has no call.
    pub(super) fn only_queries(&self) -> bool {
        match self {
            Self::Subquery(_) | Self::Value { .. } => true,
            Self::Guarded { inner, .. } => inner.iter().all(Self::only_queries),
            Self::Call { .. } | Self::Row { .. } | Self::Rows(_) => false,
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
