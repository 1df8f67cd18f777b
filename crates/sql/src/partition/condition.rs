//! The conditions that the rows of partitions meet, as SQL text.
//! Source: PostgreSQL 15, `get_qual_for_range` and `get_qual_for_list` in partbounds.c.
//! Invariant: no condition is NULL for any row.

use super::bound::RangeValue;
use super::literal::typed;
use super::{Bound, PartitionKey, Strategy};
use crate::quoted::quoted;
use crate::schema::Schema;
use catalog::Type;

fn all_of(parts: &[String]) -> String {
    match parts {
        [] => "true".into(),
        [only] => only.clone(),
        _ => format!("({})", parts.join(" AND ")),
    }
}

fn any_of(parts: &[String]) -> String {
    match parts {
        [] => "false".into(),
        [only] => only.clone(),
        _ => format!("({})", parts.join(" OR ")),
    }
}

/// Returns the comparison of the columns of a key with one end of a range; `None` if it is infinite.
fn end(columns: &[String], values: &[RangeValue], types: &[Type], is_lower: bool) -> Option<String> {
    let (mut arms, mut equal) = (Vec::new(), Vec::new());
    for (position, value) in values.iter().enumerate() {
        let RangeValue::Value(text) = value else { break };
        let (column, value) = (&columns[position], typed(text, types[position]));
        let next = values.get(position + 1);
        let operator = match (is_lower, next) {
            (true, None | Some(RangeValue::Minimum)) => ">=",
            (true, _) => ">",
            (false, Some(RangeValue::Maximum)) => "<=",
            (false, _) => "<",
        };
        let mut arm: Vec<String> = equal.clone();
        arm.push(format!("({column} {operator} {value})"));
        arms.push(all_of(&arm));
        equal.push(format!("({column} = {value})"));
    }
    (!arms.is_empty()).then(|| any_of(&arms))
}

/// Returns the condition of a range.
fn of_range(columns: &[String], from: &[RangeValue], to: &[RangeValue], types: &[Type]) -> Vec<String> {
    let mut parts: Vec<String> = columns.iter().map(|column| format!("({column} IS NOT NULL)")).collect();
    // Columns of which both ends have the same value.
    let is_same =
        |(from, to): &(&RangeValue, &RangeValue)| from == to && matches!(from, RangeValue::Value(_));
    let same = from.iter().zip(to).take_while(is_same).count();
    for (position, value) in from.iter().take(same).enumerate() {
        if let RangeValue::Value(text) = value {
            parts.push(format!("({} = {})", columns[position], typed(text, types[position])));
        }
    }
    let (columns, types) = (&columns[same..], &types[same..]);
    parts.extend(end(columns, &from[same..], types, true));
    parts.extend(end(columns, &to[same..], types, false));
    parts
}

/// Returns the condition of a list.
fn of_list<'v>(column: &str, values: impl Iterator<Item = &'v Option<String>>, ty: Type) -> Vec<String> {
    let values: Vec<_> = values.collect();
    let known: Vec<String> = values.iter().copied().flatten().map(|text| typed(text, ty)).collect();
    let is_known = match known.as_slice() {
        [] => None,
        [only] => Some(format!("({column} = {only})")),
        _ => Some(format!("({column} = ANY (ARRAY[{}]))", known.join(", "))),
    };
    let has_null = values.contains(&&None);
    match (has_null, is_known) {
        (true, None) => vec![format!("({column} IS NULL)")],
        (true, Some(known)) => vec![format!("(({column} IS NULL) OR {known})")],
        (false, known) => std::iter::once(format!("({column} IS NOT NULL)")).chain(known).collect(),
    }
}

impl Schema {
    /// Returns the conditions of a bound of a parent's key; none where every row meets it.
    fn conditions_of_bound(&self, parent: &str, key: &PartitionKey, bound: &Bound) -> Vec<String> {
        let types = self.types_of_key(key, self.partitions.root_of(parent));
        let columns: Vec<String> = key.columns.iter().map(|name| quoted(name)).collect();
        match bound {
            Bound::Range { from, to } => of_range(&columns, from, to, &types),
            Bound::List(values) => of_list(&columns[0], values.iter(), types[0]),
            Bound::Hash(share) => vec![self.condition_of_share(parent, key, *share)],
            Bound::Default => {
                let bounds = self.partitions.children(parent).map(|(_, partition)| &partition.bound);
                let (mut ranges, mut listed) = (Vec::new(), Vec::new());
                for bound in bounds {
                    match bound {
                        Bound::Range { from, to } => {
                            ranges.push(all_of(&of_range(&columns, from, to, &types)));
                        }
                        Bound::List(values) => listed.extend(values),
                        Bound::Default | Bound::Hash(_) => {}
                    }
                }
                if !listed.is_empty() {
                    ranges.push(all_of(&of_list(&columns[0], listed.into_iter(), types[0])));
                }
                (!ranges.is_empty()).then(|| format!("(NOT {})", any_of(&ranges))).into_iter().collect()
            }
        }
    }

    /// Returns the conditions of a partition's own bound.
    fn own_conditions(&self, name: &str) -> Vec<String> {
        let Some(partition) = self.partitions.members.get(name) else { return Vec::new() };
        let Some(key) = self.partitions.keys.get(&partition.parent) else { return Vec::new() };
        self.conditions_of_bound(&partition.parent, key, &partition.bound)
    }

    /// Returns the condition that a row of the root meets if it is a row of a partition; `None` for any other
    /// relation.
    pub(crate) fn partition_condition(&self, name: &str) -> Option<String> {
        let mut parts = Vec::new();
        let mut partition = Some((name, self.partitions.members.get(name)?));
        while let Some((name, own)) = partition {
            parts.splice(0..0, self.own_conditions(name));
            partition = self.partitions.members.get(&own.parent).map(|parent| (&*own.parent, parent));
        }
        Some(all_of(&parts))
    }

    /// Returns the expression of the number of the leaf partition of a row of a relation.
    pub(crate) fn number_of_leaf(&self, name: &str) -> String {
        if !self.is_partitioned(name) {
            return self.number_of_relation(name).to_string();
        }
        let (mut arms, mut otherwise) = (String::new(), "NULL".to_owned());
        for (child, partition) in self.partitions.children(name) {
            let number = self.number_of_leaf(child);
            match partition.bound {
                Bound::Default => otherwise = number,
                _ => arms += &format!("WHEN {} THEN {number} ", all_of(&self.own_conditions(child))),
            }
        }
        if arms.is_empty() { otherwise } else { format!("CASE {arms}ELSE {otherwise} END") }
    }

    /// Returns the condition that a row of a divided relation meets if one of its partitions takes it.
    /// Ranges that follow each other are one range there.
    pub(super) fn condition_of_any(&self, name: &str) -> String {
        if self.partitions.default_of(name).is_some() {
            return "true".into();
        }
        let Some(key) = self.partitions.keys.get(name) else { return "false".into() };
        if key.strategy == Strategy::Hash && self.takes_all_hashes(name) {
            return "true".into();
        }
        let (mut joined, mut listed, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for (_, partition) in self.partitions.children(name) {
            match &partition.bound {
                Bound::Range { from, to } => join_range(&mut joined, from, to),
                Bound::List(values) => listed.extend(values.iter().cloned()),
                Bound::Hash(share) => bounds.push(Bound::Hash(*share)),
                Bound::Default => {}
            }
        }
        let of_range = |(from, to)| Bound::Range { from, to };
        bounds.extend(joined.into_iter().map(of_range));
        bounds.extend((!listed.is_empty()).then_some(Bound::List(listed)));
        let conditions = bounds.iter().map(|bound| all_of(&self.conditions_of_bound(name, key, bound)));
        any_of(&conditions.collect::<Vec<_>>())
    }
}

/// The ends of a range.
type Ends = (Vec<RangeValue>, Vec<RangeValue>);

/// Adds a range to a set of ranges, and makes it one with those that it touches.
fn join_range(joined: &mut Vec<Ends>, from: &[RangeValue], to: &[RangeValue]) {
    let (mut from, mut to) = (from.to_vec(), to.to_vec());
    if let Some(before) = joined.iter().position(|(_, end)| *end == from) {
        from = joined.swap_remove(before).0;
    }
    if let Some(after) = joined.iter().position(|(begin, _)| *begin == to) {
        to = joined.swap_remove(after).1;
    }
    joined.push((from, to));
}
