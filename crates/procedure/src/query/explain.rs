//! Formats a plan for EXPLAIN: a line for each node, with its inputs indented below it.

use super::{Combination, Delete, Insert, JoinKind, Plan, Question, Subquery, TableFunction, Update};
use crate::{Access, Path};
use std::collections::HashMap;
use std::fmt;

/// A plan to be shown. With EXPLAIN ANALYZE: the number of rows of each node, by the node's address.
#[derive(Clone, Copy, Debug)]
pub struct Explained<'a>(pub &'a Plan, pub Option<&'a HashMap<usize, u64>>);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        explain(self.0, 0, self.1, &mut lines);
        f.write_str(&lines.join("\n"))
    }
}

fn describe_access(access: &Access) -> String {
    let table = &access.table;
    match &access.path {
        Path::Point { .. } => format!("Point {} using {}", table.name, table.primary().name),
        Path::Range { index, prefix, lower, upper, backward, .. } => {
            let own = &table.indexes[*index];
            let column = |place: usize| &table.columns[table.key_columns(own)[place]].name;
            let mut bounds: Vec<String> =
                (0..prefix.len()).map(|place| format!("{} = …", column(place))).collect();
            for (bound, sign) in [(lower, '>'), (upper, '<')] {
                if let Some(bound) = bound {
                    let equal = if bound.inclusive { "=" } else { "" };
                    bounds.push(format!("{} {sign}{equal} …", column(prefix.len())));
                }
            }
            let backward = if *backward { " backward" } else { "" };
            if bounds.is_empty() {
                return format!("Whole table {} by {}{backward}", table.name, own.name);
            }
            format!("Range {} using {}{backward} ({})", table.name, own.name, bounds.join(", "))
        }
    }
}

fn question(subquery: &Subquery) -> &'static str {
    match (&subquery.question, subquery.kept) {
        (Question::Exists { .. }, None) => "Exists, for each row",
        (Question::Exists { .. }, Some(_)) => "Exists, once",
        (_, None) => "Subquery, for each row",
        (_, Some(_)) => "Subquery, once",
    }
}

fn describe(plan: &Plan) -> Option<String> {
    let join = |kind: &JoinKind| match kind {
        JoinKind::Inner => "",
        JoinKind::Left => " left",
        JoinKind::Full => " full",
    };
    Some(match plan {
        Plan::One => return None,
        Plan::Values { rows, .. } => format!("Values ({} rows)", rows.len()),
        Plan::Scan { access, .. } => {
            let filter = if access.filter.is_some() { ", filtered" } else { "" };
            describe_access(access) + filter
        }
        Plan::Function { function: TableFunction::Unnest, .. } => "Unnest".into(),
        Plan::Function { function: TableFunction::Series, .. } => "Series".into(),
        Plan::Filter { .. } => "Filter".into(),
        Plan::Hold { .. } => "Lock rows".into(),
        Plan::Compute { .. } => return None,
        Plan::Apply { subquery, .. } => question(subquery).into(),
        Plan::Call { procedure, .. } => format!("Call {}", procedure.name),
        Plan::Rows { procedure, .. } => format!("Rows of {}", procedure.name),
        Plan::Loop { kind, .. } => format!("Nested loop{}", join(kind)),
        Plan::Hash { kind, .. } => format!("Hash join{}", join(kind)),
        Plan::Group { keys, .. } if keys.is_empty() => "Aggregate".into(),
        Plan::Group { .. } => "Group by hash".into(),
        Plan::Distinct { .. } => "Distinct by hash".into(),
        Plan::Sort { .. } => "Sort".into(),
        Plan::Limit { .. } => "Limit".into(),
        Plan::Union { .. } => "Append".into(),
        Plan::Combine { combination: Combination::Intersect, .. } => "Intersect by hash".into(),
        Plan::Combine { combination: Combination::Except, .. } => "Except by hash".into(),
        Plan::Keep { .. } => "Keep".into(),
        Plan::Recursive(_) => "Recursive union".into(),
        Plan::With { .. } => "With".into(),
        Plan::Named { name, .. } => format!("Rows of {name}"),
        Plan::Insert(Insert { table, .. }) => format!("Insert on {}", table.name),
        Plan::Update(Update { table, .. }) => format!("Update on {}", table.name),
        Plan::Delete(Delete { table, .. }) => format!("Delete on {}", table.name),
    })
}

fn explain(plan: &Plan, depth: usize, counts: Option<&HashMap<usize, u64>>, lines: &mut Vec<String>) {
    let mut below = depth;
    if let Some(mut text) = describe(plan) {
        if let Some(counts) = counts {
            let rows = counts.get(&std::ptr::from_ref(plan).addr()).copied().unwrap_or(0);
            text.push_str(&format!("  (actual rows={rows})"));
        }
        let arrow = if depth == 0 { "" } else { "->  " };
        lines.push(format!(
            "{}{arrow}{text}",
            "      ".repeat(depth.saturating_sub(1)) + if depth > 0 { "  " } else { "" }
        ));
        below += 1;
    }
    plan.inputs().into_iter().for_each(|input| explain(input, below, counts, lines));
}
