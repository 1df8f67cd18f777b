//! A partition in FROM: its root, with the conditions of the rows of the partition.

use super::Binder;
use super::conjunct::Conjunct;
use super::sets::SetFunction;
use super::target::Below;
use crate::binder::Typed;
use crate::error::StatementError;
use crate::roles::need::names_of;
use crate::system_functions::looked_up;
use catalog::{ScalarType, Type};
use procedure::query::TableFunction;
use procedure::{CastContext, Expression, SqlError};
use squawk_syntax::SyntaxNode;

impl Binder<'_> {
    /// Adds a partition to the level, and its conditions to `conjuncts`. As in PostgreSQL, privileges on the
    /// partition alone count.
    pub(super) fn add_partition(
        &mut self,
        name: &str,
        alias: String,
        names: Vec<String>,
        conjuncts: &mut Vec<Conjunct>,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let view = self.schema.view(name).map(|view| self.schema.simple_view(view));
        let Some(Ok(view)) = view else {
            let message = format!("relation \"{name}\" does not exist");
            return Err(self.error(node, SqlError::new("42P01", message)));
        };
        let table = self.table(&view.base, node)?;
        let relation = self.add_table(&table, alias, names, node)?;
        self.need_read(relation, name, names_of(&table), true);
        let Some(condition) = view.condition.clone() else { return Ok(relation) };
        let level = self.queries.levels.len() - 1;
        let mut own = Vec::new();
        let below = Below { level, relation };
        self.in_view(below, &view, node, |inner| inner.bind_conjuncts(condition, &mut own))?;
        // Errors name a place in the statement.
        let comparisons = own.iter_mut().flat_map(|conjunct| &mut conjunct.comparison);
        comparisons.for_each(|comparison| comparison.node = node.clone());
        conjuncts.append(&mut own);
        Ok(relation)
    }

    /// Returns the rows of a function about the partitions of a relation; `None` for any other function.
    pub(super) fn partition_rows(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Option<SetFunction>, StatementError> {
        let columns: &[(&'static str, ScalarType)] = match name {
            "pg_partition_ancestors" => &[("relid", ScalarType::Oid)],
            "pg_partition_tree" => &[
                ("relid", ScalarType::Oid),
                ("parentrelid", ScalarType::Oid),
                ("isleaf", ScalarType::Boolean),
                ("level", ScalarType::Integer),
            ],
            _ => return Ok(None),
        };
        let relation = match arguments {
            [Typed::Literal(_)] => self.number_of_object("regclass", arguments[0].clone(), false, node)?,
            [relation] => {
                self.coerce(relation.clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?
            }
            _ => return Err(self.no_function(name, arguments, node)),
        };
        let all = self.schema.partition_trees(name == "pg_partition_tree");
        let mut arrays = Vec::new();
        for (place, (_, ty)) in columns.iter().enumerate() {
            // An array a relation, as text.
            let text = |(oid, rows): &(i64, Vec<[String; 4]>)| {
                let values: Vec<&str> = rows.iter().map(|row| &*row[place]).collect();
                (*oid, format!("{{{}}}", values.join(",")))
            };
            let texts = all.iter().map(text).collect();
            let found = looked_up(relation.clone(), texts, Expression::text("{}"));
            let found = Typed::Known(found, ScalarType::Text.into());
            arrays.push(self.coerce(found, Type::Array(*ty), CastContext::Explicit, node)?);
        }
        let columns = columns.iter().map(|(name, ty)| (Some(*name), Type::Scalar(*ty))).collect();
        Ok(Some(SetFunction { function: TableFunction::Unnest, arguments: arrays, columns }))
    }
}
