//! Semi-joins and anti-joins: conditions with EXISTS, NOT EXISTS and IN, where a hash table finds the rows.
//!
//! Not here: NOT IN, whose answer is NULL where a value is NULL. It stays a subquery, whose values are kept
//! as a set (`procedure::query`).

use super::{Applied, apply_all};
use procedure::Expression;
use procedure::query::{HashJoin, JoinKind, Plan, Question, Subquery};

/// Returns the rows of a plan for which a condition with subqueries holds.
pub(super) fn filter_applied(input: Plan, applied: Vec<Applied>, condition: Expression) -> Plan {
    match join_of(&applied, &condition) {
        Some(join) => Plan::Hash(HashJoin { probe: Box::new(input), ..join }),
        None => apply_all(applied, input).filter(condition),
    }
}

/// Returns the join that is a condition with one subquery, still without its left node; `None` if no hash
/// table finds the rows of the subquery.
fn join_of(applied: &[Applied], condition: &Expression) -> Option<HashJoin> {
    let [Applied::Subquery(subquery)] = applied else { return None };
    let (answer, kind) = match condition {
        Expression::Not(answer) => (&**answer, JoinKind::Anti),
        answer => (answer, JoinKind::Semi),
    };
    match &subquery.question {
        Question::Exists { target } if *answer == Expression::Register(*target) => {
            Some(HashJoin { kind, ..lookup(without_outputs(&subquery.plan))? })
        }
        Question::In { target, keys }
            if *answer == Expression::Register(*target) && kind == JoinKind::Semi =>
        {
            let mut join = HashJoin { kind, ..rows_of(subquery)? };
            join.keys.extend(keys.iter().cloned());
            Some(join)
        }
        _ => None,
    }
}

/// Returns the node below the nodes of a subquery that do not decide whether it has a row. As in PostgreSQL,
/// EXISTS does not evaluate outputs.
fn without_outputs(plan: &Plan) -> &Plan {
    match plan {
        Plan::Compute { input, .. }
        | Plan::Distinct { input, .. }
        | Plan::Sort { input, wanted: [None, None], .. } => without_outputs(input),
        plan => plan,
    }
}

/// Returns the rows of a subquery, still without the key of IN.
fn rows_of(subquery: &Subquery) -> Option<HashJoin> {
    if subquery.kept.is_none() {
        return lookup(&subquery.plan);
    }
    Some(HashJoin {
        probe: Box::default(),
        build: Box::new(subquery.plan.clone()),
        keys: Vec::new(),
        kind: JoinKind::Semi,
        condition: None,
        probe_registers: Vec::new(),
        build_registers: Vec::new(),
        kept: subquery.kept,
    })
}

/// Returns the join that a plan consists of, with the conditions above it; `None` if it is no lookup.
fn lookup(plan: &Plan) -> Option<HashJoin> {
    match plan {
        Plan::Filter { input, condition } => {
            let join = lookup(input)?;
            let conditions = join.condition.into_iter().chain([condition.clone()]).collect();
            Some(HashJoin { condition: Some(Expression::all(conditions)), ..join })
        }
        Plan::Hash(join) if join.is_lookup() => Some(join.clone()),
        _ => None,
    }
}
