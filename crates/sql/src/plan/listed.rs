//! Joins a table with a list of values, for conditions that a column equals one of several values: IN,
//! `= ANY (array)`, OR of equalities, IN of a query with few rows, and `(a, b) IN ((1, 2), (3, 4))`.
//!
//! If an index on the columns finds the rows of one value, the values become a relation: sorted, without
//! duplicates, and joined with the table by the index. So the rows are read in the order of the index, as in
//! PostgreSQL.

use super::conjunct::Conjunct;
use super::from::Source;
use super::join::score;
use super::{Applied, Binder, References, Relation, Relations, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::query::{JoinKey, Plan, Question, TableFunction};
use procedure::{CompareClass, CompareOperator, Expression, Register, SortKey};
use squawk_syntax::ast::AstNode;

/// Maximum number of relations of a level, above which lists of values stay conditions.
const MOST_RELATIONS: usize = 60;

/// Several values, or rows of them.
enum Values {
    Array(Expression),
    Rows(Vec<Vec<Expression>>),
    /// The rows of a query, and the registers of its columns.
    Query(Box<Plan>, Vec<Register>),
}

/// A condition that compares columns with a list of values, or of rows of values.
struct Listed {
    relation: usize,
    columns: Vec<ListedColumn>,
    values: Values,
}

/// A column that is compared with values.
#[derive(PartialEq)]
struct ListedColumn {
    column: Expression,
    class: CompareClass,
    /// The type of the values.
    ty: ScalarType,
}

type Equality<'e> = (CompareClass, &'e [Expression; 2]);

/// Returns the equalities of each operand of a chain of ORs; `None` if an operand has another part.
fn alternatives<'e>(condition: &'e Expression, found: &mut Vec<Vec<Equality<'e>>>) -> Option<()> {
    if let Expression::Or(sides) = condition {
        return sides.iter().try_for_each(|side| alternatives(side, found));
    }
    let mut row = Vec::new();
    equalities(condition, &mut row)?;
    found.push(row);
    Some(())
}

/// Returns the equalities of a chain of ANDs; `None` if it has another part.
fn equalities<'e>(condition: &'e Expression, row: &mut Vec<Equality<'e>>) -> Option<()> {
    match condition {
        Expression::And(sides) => sides.iter().try_for_each(|side| equalities(side, row)),
        Expression::Compare { operator: CompareOperator::Equal, class, operands } => {
            row.push((*class, operands));
            Some(())
        }
        _ => None,
    }
}

impl Binder<'_> {
    /// Replaces a condition with a list of values by a join with the values, if that gives the table a path
    /// with a better score.
    pub(super) fn join_lists(
        &mut self,
        sources: &mut Vec<Source>,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        for index in 0..conjuncts.len() {
            let conjunct = &conjuncts[index];
            let listed = self.listed(conjunct).or_else(|| self.selected(conjunct));
            let Some(listed) = listed else { continue };
            let relation = listed.relation;
            let registers = self.registers.len();
            let is_joined =
                |source: &Source| matches!(source, Source::Relation(joined) if *joined == relation);
            if !sources.iter().any(is_joined) || self.level().relations.len() >= MOST_RELATIONS {
                continue;
            }
            let before = self.path_to(relation, 0, conjuncts, None)?.map(|chosen| score(&chosen.path));
            let (values, mut joined) = self.values_of(listed, conjuncts[index].refers)?;
            let count = conjuncts.len();
            conjuncts.append(&mut joined);
            let after =
                self.path_to(relation, 1 << values, conjuncts, None)?.map(|chosen| score(&chosen.path));
            if after > before {
                conjuncts.swap_remove(index);
                sources.push(Source::Relation(values));
            } else {
                conjuncts.truncate(count);
                self.level().relations.pop();
                self.registers.truncate(registers);
            }
        }
        Ok(())
    }

    /// Returns the list of values of a condition; `None` if it has none, or if an index cannot serve it.
    fn listed(&self, conjunct: &Conjunct) -> Option<Listed> {
        if !conjunct.applied.is_empty() || conjunct.comparison.is_some() {
            return None;
        }
        let (columns, values) = match &conjunct.condition {
            Expression::Quantified { quantifier, operands } => {
                let [column, array] = &**operands;
                (vec![(column.clone(), quantifier.class_of_equals_any()?)], Values::Array(array.clone()))
            }
            condition => self.alternatives(condition)?,
        };
        let (relation, _) = self.table_column(&columns.first()?.0)?;
        let reads = |value: &Expression| self.reads(value, relation);
        let reads_table = match &values {
            Values::Array(array) => reads(array),
            Values::Rows(rows) => rows.iter().flatten().any(reads),
            Values::Query(..) => false,
        };
        if conjunct.refers.relations != 1 << relation || reads_table {
            return None;
        }
        let columns = columns.into_iter().map(|(column, class)| {
            let (column_relation, position) = self.table_column(&column)?;
            let ty = self.table_of(relation)?.columns[position].ty.scalar()?;
            let ty = match class {
                _ if column_relation != relation => return None,
                CompareClass::Decimal { .. }
                | CompareClass::Json
                | CompareClass::Interval
                | CompareClass::Array(_) => return None,
                _ if ty.is_integer() => ScalarType::BigInt,
                _ if ty.is_machine_numeric() => ty,
                _ => ty.unlimited(),
            };
            Some(ListedColumn { column, class, ty })
        });
        Some(Listed { relation, columns: columns.collect::<Option<_>>()?, values })
    }

    /// Returns the values of IN of a query that has few rows and refers to no outer query.
    fn selected(&self, conjunct: &Conjunct) -> Option<Listed> {
        let [Applied::Subquery(subquery)] = conjunct.applied.as_slice() else { return None };
        let Question::In { target, keys } = &subquery.question else { return None };
        let is_condition = conjunct.condition == Expression::Register(*target);
        if !is_condition || subquery.kept.is_none() || !Self::is_small(&subquery.plan) {
            return None;
        }
        let (relation, _) = self.table_column(&keys.first()?.probe)?;
        let (mut columns, mut registers) = (Vec::new(), Vec::new());
        for JoinKey { class, probe, build } in keys {
            let column = self.table_column(probe).filter(|(of, _)| *of == relation);
            let has_forms = matches!(
                class,
                CompareClass::Decimal { .. }
                    | CompareClass::Json
                    | CompareClass::Interval
                    | CompareClass::Array(_)
            );
            if has_forms {
                return None;
            }
            let register = Self::register_of(build)?;
            // The register may have been declared for a column of another type, which the plan does not read.
            let ty = self.table_of(relation)?.columns[column?.1].ty.scalar()?;
            columns.push(ListedColumn { column: probe.clone(), class: *class, ty });
            registers.push(register);
        }
        Some(Listed { relation, columns, values: Values::Query(Box::new(subquery.plan.clone()), registers) })
    }

    /// Returns the columns of a chain of ORs, with the values that they are compared with.
    fn alternatives(&self, condition: &Expression) -> Option<(Vec<(Expression, CompareClass)>, Values)> {
        let mut found = Vec::new();
        alternatives(condition, &mut found)?;
        let columns: Vec<(Expression, CompareClass)> = found
            .first()?
            .iter()
            .map(|(class, [left, right])| {
                (if self.table_column(left).is_some() { left } else { right }.clone(), *class)
            })
            .collect();
        let value = |(equality, (column, class)): (&Equality<'_>, &(Expression, CompareClass))| {
            let (class_of_equality, [left, right]) = equality;
            match class_of_equality == class {
                true if left == column => Some(right.clone()),
                true if right == column => Some(left.clone()),
                _ => None,
            }
        };
        let row = |row: Vec<Equality<'_>>| match row.len() == columns.len() {
            true => row.iter().zip(&columns).map(value).collect::<Option<Vec<_>>>(),
            false => None,
        };
        let rows = found.into_iter().map(row).collect::<Option<Vec<_>>>()?;
        let values = match columns.len() {
            1 => Values::Array(Expression::Array(rows.into_iter().flatten().collect())),
            _ => Values::Rows(rows),
        };
        Some((columns, values))
    }

    /// Returns whether an expression reads a column of a table.
    fn reads(&self, expression: &Expression, relation: usize) -> bool {
        let mut reads = false;
        expression
            .walk(&mut |part| reads |= self.table_column(part).is_some_and(|column| column.0 == relation));
        reads
    }

    /// Adds a relation of the values. Returns it with the equalities that join it with the columns.
    fn values_of(
        &mut self,
        listed: Listed,
        refers: References,
    ) -> Result<(usize, Vec<Conjunct>), StatementError> {
        let Listed { relation, columns, values } = listed;
        let (plan, registers) = match values {
            Values::Query(plan, registers) => (*plan, registers),
            Values::Array(array) => {
                let registers = vec![self.new_register(columns[0].ty)];
                let (function, arguments) = (TableFunction::Unnest, vec![array]);
                let rows = registers.clone();
                (Plan::Function { function, arguments, registers: rows, ordinality: None }, registers)
            }
            Values::Rows(rows) => {
                let registers: Vec<_> = columns.iter().map(|column| self.new_register(column.ty)).collect();
                (Plan::Values { registers: registers.clone(), rows }, registers)
            }
        };
        let values: Vec<_> = registers.iter().map(|register| Expression::Register(*register)).collect();
        let key = |(value, column): (&Expression, &ListedColumn)| {
            let (value, class) = (value.clone(), column.class);
            SortKey { value, class, descending: false, nulls_first: false }
        };
        let keys = values.iter().zip(&columns).map(key).collect();
        let plan = Plan::Distinct { input: Box::new(plan), values: values.clone() };
        let (input, kept) = (Box::new(plan), registers.clone());
        let plan = Plan::Sort { input, keys, registers: kept, wanted: [None, None] };
        let rows = Rows::Plan { plan: Some(Box::new(plan)), registers, lateral: 0, outer: refers.outer };
        let names = columns.iter().map(|column| (String::new(), Type::Scalar(column.ty))).collect();
        self.level().relations.push(Relation {
            alias: String::new(),
            columns: names,
            rows,
            is_plain: false,
            hidden: 0,
        });
        let relation_of_values = self.level().relations.len() - 1;
        let references = |relation: usize| References { relations: 1 << relation as Relations, outer: false };
        let node = self.source.file.syntax().clone();
        let mut conjuncts = Vec::new();
        for (ListedColumn { column, ty, .. }, value) in columns.into_iter().zip(values) {
            let left = (Typed::Known(column, ty.into()), references(relation));
            let right = (Typed::Known(value, ty.into()), references(relation_of_values));
            conjuncts.push(self.compared(CompareOperator::Equal, left, right, &node)?);
        }
        Ok((relation_of_values, conjuncts))
    }

    /// Returns whether a plan probably has few rows: each scan uses an index, or a LIMIT or an aggregate
    /// without groups bounds the number of rows.
    pub(super) fn is_small(plan: &Plan) -> bool {
        match plan {
            Plan::Limit { limit: Some(_), .. } => true,
            Plan::Group { keys, .. } if keys.is_empty() => true,
            Plan::Scan { access, .. } => score(&access.path) > 0,
            Plan::Named { .. } => false,
            plan => plan.inputs().into_iter().all(Self::is_small),
        }
    }
}
