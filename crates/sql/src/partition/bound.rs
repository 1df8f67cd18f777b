//! PARTITION BY and FOR VALUES: reads them, and refuses bounds that overlap.
//! Source: PostgreSQL 15, `transformPartitionBound` and `check_new_partition_bound`.

use super::hash::{Share, is_hashed};
use super::literal::plain;
use super::{PartitionKey, Strategy};
use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::schema::Schema;
use crate::source::At;
use catalog::{ScalarType, Table, Type};
use procedure::SqlError;
use serde::{Deserialize, Serialize};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::cmp::Ordering;

/// A value of a bound of a range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum RangeValue {
    /// MINVALUE.
    Minimum,
    /// The text of a value.
    Value(String),
    /// MAXVALUE.
    Maximum,
}

/// FOR VALUES.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Bound {
    /// The rows that no other partition takes.
    Default,
    /// The texts of values; `None` for NULL.
    List(Vec<Option<String>>),
    /// The rows of which the hash has a remainder.
    Hash(Share),
    /// From the first values, up to and without the last ones.
    Range {
        /// The least values, a value a column.
        from: Vec<RangeValue>,
        /// The values above the greatest ones.
        to: Vec<RangeValue>,
    },
}

/// Returns the values of a bound of a range as FOR VALUES has them.
pub(super) fn values_text(values: &[RangeValue], types: &[Type]) -> String {
    let text = |(value, ty): (&RangeValue, &Type)| match value {
        RangeValue::Minimum => "MINVALUE".to_owned(),
        RangeValue::Maximum => "MAXVALUE".to_owned(),
        RangeValue::Value(text) => plain(text, *ty),
    };
    values.iter().zip(types).map(text).collect::<Vec<_>>().join(", ")
}

/// Returns whether the values of a type have an order that operators of SQL show.
fn has_order(ty: Type) -> bool {
    ty.scalar().is_some_and(|ty| !matches!(ty, ScalarType::Json | ScalarType::Jsonb | ScalarType::Interval))
}

/// Reads PARTITION BY of a table.
pub(super) fn partition_key(
    by: &ast::PartitionBy,
    table: &Table,
    binder: &Binder<'_>,
) -> Result<PartitionKey, StatementError> {
    let node = by.syntax();
    let refused =
        |at: &SyntaxNode, code: &str, message: &str| Err(binder.error(at, SqlError::new(code, message)));
    let strategy = binder.part(by.partition_strategy(), node)?;
    let name = strategy.syntax().text().to_string().trim().to_lowercase();
    let strategy = match &*name {
        "range" => Strategy::Range,
        "list" => Strategy::List,
        "hash" => Strategy::Hash,
        _ => {
            let message = format!("unrecognized partitioning strategy \"{name}\"");
            return refused(node, "22023", &message);
        }
    };
    let items = by.partition_item_list().into_iter().flat_map(|list| list.partition_items());
    let mut columns = Vec::new();
    for item in items {
        if let Some(collate) = item.collate() {
            return Err(binder.unsupported(collate.syntax(), "COLLATE in a partition key"));
        }
        if let Some(class) = item.op_class_ref() {
            return Err(binder.unsupported(class.syntax(), "an operator class in a partition key"));
        }
        let Some(ast::Expr::NameRef(name)) = item.expr() else {
            return Err(binder.unsupported(item.syntax(), "an expression in a partition key"));
        };
        let name = name.text();
        let Some(column) = table.visible().iter().find(|column| column.name == name) else {
            let message = format!("column \"{name}\" named in partition key does not exist");
            return refused(item.syntax(), "42703", &message);
        };
        if column.generated {
            let error = SqlError::new("42P17", "cannot use generated column in partition key")
                .with_detail(format!("Column \"{name}\" is a generated column."));
            return Err(binder.error(item.syntax(), error));
        }
        let is_divided = if strategy == Strategy::Hash { is_hashed(column.ty) } else { has_order(column.ty) };
        if column.ty.is_array() || !is_divided {
            let what = format!("a partition key of type {}", column.ty);
            return Err(binder.unsupported(item.syntax(), &what));
        }
        columns.push(name);
    }
    if strategy == Strategy::List && columns.len() > 1 {
        let message = "cannot use \"list\" partition strategy with more than one column";
        return refused(node, "42P17", message);
    }
    Ok(PartitionKey { strategy, columns })
}

impl Schema {
    /// Returns the types of the columns of a key.
    pub(super) fn types_of_key(&self, key: &PartitionKey, root: &str) -> Vec<Type> {
        let Ok(table) = self.catalog.table(root) else { return Vec::new() };
        let column = |name: &String| table.column(name).map(|position| table.columns[position].ty);
        key.columns.iter().filter_map(column).collect()
    }

    /// Reads FOR VALUES or DEFAULT of a partition, and refuses it unless it fits beside the other partitions
    /// of its parent.
    pub(super) fn read_bound(
        &self,
        written: Option<ast::PartitionType>,
        parent: &str,
        name: &str,
        at: At<'_>,
    ) -> Result<Bound, StatementError> {
        let binder = Binder::new(self, at.source);
        let written = binder.part(written, at.node)?;
        let Some(key) = self.partitions.keys.get(parent) else { return Ok(Bound::Default) };
        let types = self.types_of_key(key, self.partitions.root_of(parent));
        let at = At { source: at.source, node: written.syntax() };
        let bound = match (&written, key.strategy) {
            (ast::PartitionType::PartitionDefault(_), Strategy::Hash) => {
                let message = "a hash-partitioned table may not have a default partition";
                return Err(binder.error(at.node, SqlError::new("42P16", message)));
            }
            (ast::PartitionType::PartitionForValuesWith(share), Strategy::Hash) => {
                return self.read_share(share, parent, name, at);
            }
            (ast::PartitionType::PartitionDefault(_), _) => {
                if let Some(known) = self.partitions.default_of(parent) {
                    let message = format!(
                        "partition \"{}\" conflicts with existing default partition \"{}\"",
                        short(name),
                        short(known)
                    );
                    return Err(binder.error(at.node, SqlError::new("42P17", message)));
                }
                return Ok(Bound::Default);
            }
            (ast::PartitionType::PartitionForValuesIn(list), Strategy::List) => {
                let mut values = Vec::new();
                for expression in list.exprs() {
                    let value = self.value_of_bound(&expression, types[0], at.source)?;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Bound::List(values)
            }
            (ast::PartitionType::PartitionForValuesFrom(range), Strategy::Range) => {
                let from = range.syntax().children().find_map(ast::PartitionFromValues::cast);
                let to = range.syntax().children().find_map(ast::PartitionToValues::cast);
                let from = self.range_values(binder.part(from, at.node)?.exprs(), &types, "FROM", at)?;
                let to = self.range_values(binder.part(to, at.node)?.exprs(), &types, "TO", at)?;
                Bound::Range { from, to }
            }
            (_, strategy) => {
                let message = format!("invalid bound specification for a {} partition", strategy.name());
                return Err(binder.error(at.node, SqlError::new("42P16", message)));
            }
        };
        self.refuse_empty(&bound, &types, name, at)?;
        for (other, partition) in self.partitions.children(parent) {
            if self.overlaps(&bound, &partition.bound, &types)? {
                let message =
                    format!("partition \"{}\" would overlap partition \"{}\"", short(name), short(other));
                return Err(binder.error(at.node, SqlError::new("42P17", message)));
            }
        }
        Ok(bound)
    }

    /// Reads the values of FROM or TO.
    fn range_values(
        &self,
        written: impl Iterator<Item = ast::Expr>,
        types: &[Type],
        clause: &str,
        at: At<'_>,
    ) -> Result<Vec<RangeValue>, StatementError> {
        let binder = Binder::new(self, at.source);
        let written: Vec<ast::Expr> = written.collect();
        let refused = |node: &SyntaxNode, code: &str, message: String| {
            Err(binder.error(node, SqlError::new(code, message)))
        };
        if written.len() != types.len() {
            let message = format!("{clause} must specify exactly one value per partitioning column");
            return refused(at.node, "42P16", message);
        }
        let mut values: Vec<RangeValue> = Vec::new();
        for (expression, ty) in written.iter().zip(types) {
            let word = expression.syntax().text().to_string().trim().to_lowercase();
            let value = match &*word {
                "minvalue" => RangeValue::Minimum,
                "maxvalue" => RangeValue::Maximum,
                _ => match self.value_of_bound(expression, *ty, at.source)? {
                    Some(text) => RangeValue::Value(text),
                    None => return refused(at.node, "42P17", "cannot specify NULL in range bound".into()),
                },
            };
            if let Some(last @ (RangeValue::Minimum | RangeValue::Maximum)) = values.last()
                && value != *last
            {
                let word = if *last == RangeValue::Minimum { "MINVALUE" } else { "MAXVALUE" };
                let message = format!("every bound following {word} must also be {word}");
                return refused(expression.syntax(), "42804", message);
            }
            values.push(value);
        }
        Ok(values)
    }

    fn refuse_empty(
        &self,
        bound: &Bound,
        types: &[Type],
        name: &str,
        at: At<'_>,
    ) -> Result<(), StatementError> {
        let Bound::Range { from, to } = bound else { return Ok(()) };
        if self.compare_bounds(from, to, types)? == Ordering::Less {
            return Ok(());
        }
        let message = format!("empty range bound specified for partition \"{}\"", short(name));
        let detail = format!(
            "Specified lower bound ({}) is greater than or equal to upper bound ({}).",
            values_text(from, types),
            values_text(to, types)
        );
        let error = SqlError::new("42P17", message).with_detail(detail);
        Err(at.source.error_at(at.node.text_range().start().into(), error))
    }

    /// Compares two bounds of ranges. What follows the same MINVALUE or MAXVALUE does not count.
    pub(super) fn compare_bounds(
        &self,
        left: &[RangeValue],
        right: &[RangeValue],
        types: &[Type],
    ) -> Result<Ordering, StatementError> {
        let rank = |value: &RangeValue| match value {
            RangeValue::Minimum => 0,
            RangeValue::Value(_) => 1,
            RangeValue::Maximum => 2,
        };
        for ((left, right), ty) in left.iter().zip(right).zip(types) {
            let order = match (left, right) {
                (RangeValue::Value(left), RangeValue::Value(right)) => {
                    self.compare_values(left, right, *ty)?
                }
                _ if rank(left) == rank(right) => return Ok(Ordering::Equal),
                _ => rank(left).cmp(&rank(right)),
            };
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    fn overlaps(&self, left: &Bound, right: &Bound, types: &[Type]) -> Result<bool, StatementError> {
        match (left, right) {
            (Bound::Range { from, to }, Bound::Range { from: other_from, to: other_to }) => {
                let begins_within = self.compare_bounds(from, other_to, types)? == Ordering::Less;
                Ok(begins_within && self.compare_bounds(other_from, to, types)? == Ordering::Less)
            }
            (Bound::List(values), Bound::List(known)) => {
                for value in values {
                    for other in known {
                        let is_equal = match (value, other) {
                            (Some(value), Some(other)) => {
                                self.compare_values(value, other, types[0])? == Ordering::Equal
                            }
                            (value, other) => value == other,
                        };
                        if is_equal {
                            return Ok(true);
                        }
                    }
                }
                Ok(false)
            }
            _ => Ok(false),
        }
    }
}
