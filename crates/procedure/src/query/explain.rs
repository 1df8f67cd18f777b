//! Formats plans for EXPLAIN: a line for each node, with its inputs indented below it, or JSON.

use super::measure::{Measured, Measures};
use super::{
    Combination, Delete, HashJoin, Insert, JoinKind, Merge, Plan, Question, Subquery, TableFunction, Update,
};
use crate::{Access, Bound, Path};
use std::fmt::Write;
use std::time::Duration;

/// The format of EXPLAIN.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ExplainFormat {
    /// A line for each node.
    #[default]
    Text,
    /// One JSON text.
    Json,
}

/// The options of EXPLAIN that have an effect. Plans have no estimated costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ExplainOptions {
    /// ANALYZE: the statement is run.
    pub analyzes: bool,
    /// TIMING OFF: the times of nodes are not shown.
    pub hides_times: bool,
    /// SUMMARY OFF: the time of the statement is not shown.
    pub hides_summary: bool,
    /// FORMAT.
    pub format: ExplainFormat,
}

/// A node as EXPLAIN shows it.
#[derive(Clone, Default, Debug)]
pub struct Explained {
    /// Its line.
    text: String,
    /// Its kind, as PostgreSQL names it.
    kind: &'static str,
    /// The properties that only JSON shows: names and texts.
    properties: Vec<(&'static str, String)>,
    measures: Option<Measures>,
    below: Vec<Self>,
}

impl Explained {
    /// Describes an operation, which reads or writes one table.
    pub(crate) fn of_operation(text: String) -> Self {
        Self { text, kind: "Operation", ..Self::default() }
    }

    /// Describes the nodes of a plan. Nodes without a line are left out.
    pub(crate) fn of_plan(plan: &Plan, measured: Option<&Measured>) -> Vec<Self> {
        let below: Vec<Self> =
            plan.inputs().into_iter().flat_map(|input| Self::of_plan(input, measured)).collect();
        let Some(mut explained) = describe(plan) else { return below };
        let address = std::ptr::from_ref(plan).addr();
        explained.measures = measured.map(|measured| measured.get(&address).copied().unwrap_or_default());
        explained.below = below;
        vec![explained]
    }

    /// Returns nodes in a format. `took` is the time of the statement that has run.
    pub fn show(nodes: &[Self], options: ExplainOptions, took: Option<Duration>) -> Vec<String> {
        let took = took.filter(|_| !options.hides_summary).map(|took| took.as_secs_f64() * 1e3);
        match options.format {
            ExplainFormat::Text => {
                let mut lines = Vec::new();
                nodes.iter().for_each(|node| node.write_lines(0, options, &mut lines));
                lines.extend(took.map(|took| format!("Execution Time: {took:.3} ms")));
                lines
            }
            ExplainFormat::Json => {
                let one = |node: &Self| {
                    let mut text = String::from("  {\n    \"Plan\": ");
                    node.write_json(2, options, &mut text);
                    if let Some(took) = took {
                        let _ = write!(text, ",\n    \"Execution Time\": {took:.3}");
                    }
                    text + "\n  }"
                };
                // A statement that reads nothing has no nodes, and a plan in PostgreSQL.
                let result = [node("Result", "Result")];
                let nodes = if nodes.is_empty() { &result } else { nodes };
                vec![format!("[\n{}\n]", nodes.iter().map(one).collect::<Vec<_>>().join(",\n"))]
            }
        }
    }

    fn write_lines(&self, depth: usize, options: ExplainOptions, lines: &mut Vec<String>) {
        let arrow = if depth == 0 { "" } else { "  ->  " };
        let mut line = format!("{}{arrow}{}", "      ".repeat(depth.saturating_sub(1)), self.text);
        if let Some(measures) = self.measures {
            line.push_str("  (actual ");
            if !options.hides_times {
                let [first, all] = measures.mean_times();
                let _ = write!(line, "time={first:.3}..{all:.3} ");
            }
            let _ = write!(line, "rows={} loops={})", measures.mean_rows(), measures.runs);
        }
        lines.push(line);
        self.below.iter().for_each(|node| node.write_lines(depth + 1, options, lines));
    }

    fn write_json(&self, depth: usize, options: ExplainOptions, out: &mut String) {
        let space = "  ".repeat(depth + 1);
        let mut fields = vec![format!("\"Node Type\": {}", quoted(self.kind))];
        fields.push(format!("\"Description\": {}", quoted(&self.text)));
        fields.extend(self.properties.iter().map(|(name, text)| format!("\"{name}\": {}", quoted(text))));
        if let Some(measures) = self.measures {
            if !options.hides_times {
                let [first, all] = measures.mean_times();
                fields.push(format!("\"Actual Startup Time\": {first:.3}"));
                fields.push(format!("\"Actual Total Time\": {all:.3}"));
            }
            fields.push(format!("\"Actual Rows\": {}", measures.mean_rows()));
            fields.push(format!("\"Actual Loops\": {}", measures.runs));
        }
        if !self.below.is_empty() {
            let mut plans = Vec::new();
            for node in &self.below {
                let mut text = "  ".repeat(depth + 2);
                node.write_json(depth + 2, options, &mut text);
                plans.push(text);
            }
            fields.push(format!("\"Plans\": [\n{}\n{space}]", plans.join(",\n")));
        }
        let separator = format!(",\n{space}");
        let _ = write!(out, "{{\n{space}{}\n{}}}", fields.join(&separator), "  ".repeat(depth));
    }
}

/// Returns a text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out + "\""
}

fn node(kind: &'static str, text: impl Into<String>) -> Explained {
    Explained { text: text.into(), kind, ..Explained::default() }
}

fn with(mut node: Explained, name: &'static str, text: impl Into<String>) -> Explained {
    node.properties.push((name, text.into()));
    node
}

fn describe_access(access: &Access) -> Explained {
    let table = &access.table;
    let filter = if access.filter.is_some() { ", filtered" } else { "" };
    let (shown, index) = match &access.path {
        Path::Point { .. } => {
            let index = &table.primary().name;
            (node("Index Scan", format!("Point {} using {index}{filter}", table.name)), index)
        }
        Path::Range { index, backward, .. } => {
            let index = &table.indexes[*index].name;
            let direction = if *backward { " backward" } else { "" };
            let bounds = bounds_of(access).join(", ");
            if bounds.is_empty() {
                let text = format!("Whole table {} by {index}{direction}{filter}", table.name);
                (node("Seq Scan", text), index)
            } else {
                let text = format!("Range {} using {index}{direction} ({bounds}){filter}", table.name);
                (with(node("Index Scan", text), "Index Cond", bounds), index)
            }
        }
    };
    with(with(shown, "Relation Name", table.name.as_str()), "Index Name", index)
}

/// Returns the conditions of a range.
fn bounds_of(access: &Access) -> Vec<String> {
    let Path::Range { key_columns, prefix, lower, upper, .. } = &access.path else { return Vec::new() };
    let column = |index: usize| access.table.columns[key_columns[index]].name.as_str();
    let mut bounds: Vec<String> = (0..prefix.len()).map(|index| format!("{} = …", column(index))).collect();
    let end = |bound: &Bound, sign: char| {
        let equal = if bound.inclusive { "=" } else { "" };
        let compared = prefix.len()..=prefix.len() + bound.further.len();
        let columns: Vec<&str> = compared.map(column).collect();
        match columns.as_slice() {
            [only] => format!("{only} {sign}{equal} …"),
            several => format!("({}) {sign}{equal} …", several.join(", ")),
        }
    };
    bounds.extend(lower.iter().map(|bound| end(bound, '>')));
    bounds.extend(upper.iter().map(|bound| end(bound, '<')));
    bounds
}

fn describe_subquery(subquery: &Subquery) -> Explained {
    let kind = match (&subquery.question, subquery.kept) {
        (_, None) => "SubPlan",
        (Question::In { .. }, Some(_)) => "Hashed SubPlan",
        (_, Some(_)) => "InitPlan",
    };
    let question = match &subquery.question {
        Question::Exists { .. } => "exists",
        Question::Values { .. } => "value",
        Question::In { .. } | Question::Quantified { all: false, .. } => "any",
        Question::Quantified { all: true, .. } => "all",
        Question::Array { .. } => "array",
    };
    node(kind, format!("{kind} ({question})"))
}

fn describe_join(kind: &'static str, join: JoinKind) -> Explained {
    let (name, text) = match join {
        JoinKind::Inner => ("Inner", ""),
        JoinKind::Left => ("Left", " Left"),
        JoinKind::Full => ("Full", " Full"),
        JoinKind::Semi => ("Semi", " Semi"),
        JoinKind::Anti => ("Anti", " Anti"),
    };
    let text = match (kind, join) {
        ("Nested Loop", JoinKind::Inner) => kind.to_owned(),
        ("Nested Loop", _) => format!("{kind}{text} Join"),
        _ => format!("Hash{text} Join"),
    };
    with(node(kind, text), "Join Type", name)
}

fn describe(plan: &Plan) -> Option<Explained> {
    let written = |operation: &'static str, table: &str| {
        let shown = with(node("ModifyTable", format!("{operation} on {table}")), "Operation", operation);
        with(shown, "Relation Name", table)
    };
    Some(match plan {
        Plan::One | Plan::Compute { .. } => return None,
        Plan::Values { rows, .. } => node("Values Scan", format!("Values ({} rows)", rows.len())),
        Plan::Scan { access, .. } => describe_access(access),
        Plan::Function { function: TableFunction::Unnest, .. } => node("Function Scan", "Unnest"),
        Plan::Function { function: TableFunction::Series(_), .. } => node("Function Scan", "Series"),
        Plan::Function { function: TableFunction::Json(_), .. } => node("Function Scan", "JSON"),
        Plan::Function { function: TableFunction::Live(relation), .. } => {
            node("Function Scan", format!("Moment {relation:?}"))
        }
        Plan::Together { .. } => node("ProjectSet", "Functions side by side"),
        Plan::Filter { .. } => node("Result", "Filter"),
        Plan::Hold { .. } => node("LockRows", "Lock rows"),
        Plan::Apply { subquery, .. } => describe_subquery(subquery),
        Plan::Call { procedure, .. } => node("Result", format!("Call {}", procedure.name)),
        Plan::Rows { procedure, .. } => node("Function Scan", format!("Rows of {}", procedure.name)),
        Plan::Loop { kind, .. } => describe_join("Nested Loop", *kind),
        Plan::Hash(join) if join.is_lookup() => node("Hash Lookup", "Hash Lookup"),
        Plan::Hash(HashJoin { kind, .. }) => describe_join("Hash Join", *kind),
        Plan::Group { sets, .. } if !sets.is_empty() => node("Aggregate", "Grouping sets by hash"),
        Plan::Group { keys, .. } if keys.is_empty() => node("Aggregate", "Aggregate"),
        Plan::Group { .. } => node("Aggregate", "Group by hash"),
        Plan::Distinct { .. } => node("Aggregate", "Distinct by hash"),
        Plan::Sort { .. } => node("Sort", "Sort"),
        Plan::Window(_) => node("WindowAgg", "WindowAgg"),
        Plan::Limit { .. } => node("Limit", "Limit"),
        Plan::Union { .. } => node("Append", "Append"),
        Plan::Combine { combination: Combination::Intersect, .. } => node("SetOp", "Intersect by hash"),
        Plan::Combine { combination: Combination::Except, .. } => node("SetOp", "Except by hash"),
        Plan::Keep { .. } => node("Materialize", "Keep"),
        Plan::With { .. } => node("Result", "With"),
        Plan::Named { name, .. } => {
            with(node("CTE Scan", format!("Rows of {name}")), "CTE Name", name.as_str())
        }
        Plan::Recursive(_) => node("Recursive Union", "Recursive union"),
        Plan::Insert(Insert { table, .. }) => written("Insert", &table.name),
        Plan::Update(Update { table, .. }) => written("Update", &table.name),
        Plan::Delete(Delete { table, .. }) => written("Delete", &table.name),
        Plan::Merge(Merge { table, .. }) => written("Merge", &table.name),
    })
}
