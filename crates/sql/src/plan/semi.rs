//! Plans EXISTS and IN as semi-joins and NOT EXISTS as anti-joins, where a hash table finds the rows.
//!
//! Not here: NOT IN, which is NULL if a value is NULL. It stays a subquery, whose values are kept as a set
//! (`procedure::query`).

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

/// Returns the join that has the result of a condition with one subquery, without its probe side yet; `None`
/// if no hash table finds the rows of the subquery.
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

/// Returns the node of a subquery that decides whether it has a row. As in PostgreSQL, EXISTS does not
/// evaluate outputs.
fn without_outputs(plan: &Plan) -> &Plan {
    match plan {
        Plan::Compute { input, .. }
        | Plan::Distinct { input, .. }
        | Plan::Sort { input, wanted: [None, None], .. } => without_outputs(input),
        plan => plan,
    }
}

/// Returns the join with the rows of a subquery, without the key of IN yet.
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

/// Returns the hash lookup that a plan consists of, with the conditions of the filters above it; `None` if
/// the plan is anything else.
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
