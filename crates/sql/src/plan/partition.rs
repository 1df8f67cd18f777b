//! A partition in FROM: its root, with the conditions of the rows of the partition. The number of the table
//! or partition of a row.

use super::conjunct::Conjunct;
use super::sets::SetFunction;
use super::target::Below;
use super::{Binder, Relation, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::oids::table_oid;
use crate::roles::need::names_of;
use crate::simple_view::SimpleView;
use crate::system_functions::looked_up;
use catalog::{Datum, ScalarType, Table, Type};
use procedure::query::TableFunction;
use procedure::{CastContext, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

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

    /// Returns `tableoid` of a relation of the innermost level that has tables: the number of the table, or
    /// of the leaf partition, of a row; NULL where an outer join has no row. `None` if no level has a table.
    pub(super) fn number_of_table(
        &mut self,
        qualifier: Option<&str>,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let is_meant = |relation: &Relation| match qualifier {
            Some(qualifier) => relation.alias == qualifier,
            None => relation.is_plain,
        };
        for level in (0..self.queries.levels.len()).rev() {
            let relations = self.queries.levels[level].relations.iter().enumerate();
            let meant = relations.filter(|(_, relation)| is_meant(relation));
            let found: Vec<_> = meant.filter_map(|(position, _)| self.table_below(level, position)).collect();
            match found.as_slice() {
                [] => {}
                [(relation, table)] => {
                    return self.number_in(Below { level, relation: *relation }, table, node).map(Some);
                }
                _ => {
                    let message = "column reference \"tableoid\" is ambiguous";
                    return Err(self.error(node, SqlError::new("42702", message)));
                }
            }
        }
        Ok(None)
    }

    /// Returns the position and table of the relation that a relation of a level reads, if it is a table or
    /// partition.
    fn table_below(&self, level: usize, relation: usize) -> Option<(usize, Arc<Table>)> {
        match &self.queries.levels[level].relations[relation].rows {
            Rows::Table { table, .. } => Some((relation, Arc::clone(table))),
            Rows::Row { table, .. } => Some((relation, Arc::clone(self.schema.catalog().table(table).ok()?))),
            Rows::View { below, view } if self.schema.is_partition(&view.name) => {
                self.table_below(level, *below)
            }
            Rows::View { .. } | Rows::Plan { .. } => None,
        }
    }

    fn number_in(&mut self, below: Below, table: &Table, node: &SyntaxNode) -> Result<Typed, StatementError> {
        self.refer_to(below.level);
        let level = &mut self.queries.levels[below.level];
        level.touched |= 1 << below.relation;
        let key = match &mut level.relations[below.relation].rows {
            Rows::Table { registers, used, .. } => {
                let column = table.indexes[0].columns[0];
                let offset = used.iter().position(|used| *used == column).unwrap_or_else(|| {
                    used.push(column);
                    used.len() - 1
                });
                Some(Register(registers.0 + offset as u32))
            }
            _ => None,
        };
        let number = match self.schema.is_partitioned(&table.name) {
            true => self.number_of_partition(below, table, node)?,
            false => Expression::Constant(Datum::Int(table_oid(table))),
        };
        let number = match key {
            Some(key) => {
                let is_there = Expression::Not(Expression::IsNull(Expression::Register(key).into()).into());
                Expression::Case { branches: vec![(is_there, number)], otherwise: Expression::NULL.into() }
            }
            None => number,
        };
        Ok(Typed::Known(number, ScalarType::Oid.into()))
    }

    fn number_of_partition(
        &mut self,
        below: Below,
        table: &Table,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let text = self.schema.number_of_leaf(&table.name);
        let source = self.schema.trees.parse(&format!("SELECT {text}"))?;
        let target = source.file.syntax().descendants().find_map(ast::Target::cast);
        let condition = target.and_then(|target| target.expr());
        let view = SimpleView {
            name: table.name.clone(),
            source,
            base: table.name.clone(),
            alias: table.short_name().to_owned(),
            names: names_of(table),
            columns: Vec::new(),
            condition: None,
            check: None,
            reads_as_invoker: true,
        };
        let value = self.part(condition, node)?;
        let bound = self.in_view(below, &view, node, |inner| inner.bind(&value))?;
        self.coerce(bound, ScalarType::BigInt.into(), CastContext::Explicit, node)
    }
}
