//! What is evaluated before an expression: subqueries, calls, rows of functions.

use catalog::Type;
use procedure::query::{JoinKind, Plan, Question, Subquery};
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
    /// Rows of a function, with the text of its call. Each input row is repeated for each row of the
    /// function.
    Rows {
        text: String,
        plan: Box<Plan>,
        columns: Vec<(Register, Type)>,
    },
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
            Self::Rows { plan, .. } => plan.expressions().into_iter().for_each(of),
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
            Self::Rows { columns, .. } => return columns.iter().map(|(register, _)| *register).collect(),
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
            Self::Rows { plan, columns, .. } => Plan::Loop {
                outer: Box::new(input),
                inner: plan,
                kind: JoinKind::Inner,
                condition: None,
                inner_registers: columns.into_iter().map(|(register, _)| register).collect(),
            },
        }
    }
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
